//! What was measured in one environment, put together from its lines, of one boot or of several.

use std::collections::{BTreeMap, BTreeSet};

use crate::counted::Counted;
use crate::environment::Environment;
use crate::line::{Kind, Line, Rounds, Scanned};

/// The name of an exception of the processor.
pub fn exception(vector: u8) -> String {
    let name = match vector {
        0 => "#DE",
        1 => "#DB",
        3 => "#BP",
        6 => "#UD",
        7 => "#NM",
        8 => "#DF",
        10 => "#TS",
        11 => "#NP",
        12 => "#SS",
        13 => "#GP",
        14 => "#PF",
        16 => "#MF",
        17 => "#AC",
        19 => "#XM",
        other => return format!("exception {other}"),
    };
    name.to_owned()
}

/// What came of a form.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Cost(Spread),
    /// It raised this exception.
    Fault(u8),
    /// The machine or process was not heard of any more after it.
    Ended,
    /// It could not be tried here, for this reason.
    Absent(String),
}

/// How long one instruction takes, over the rounds. In core cycles, and in TSC ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The shortest.
    pub min: f64,
    /// A quarter is below.
    pub q1: f64,
    /// Half are below.
    pub median: f64,
    /// Three quarters are below.
    pub q3: f64,
    /// The longest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The median in TSC ticks.
    pub ticks: f64,
    /// Rounds.
    pub rounds: u64,
    /// Rounds that interrupts or stolen time made a quarter longer than the median.
    pub outliers: u64,
    /// Rounds that were made again, as the core's other thread disturbed them.
    pub discarded: u64,
}

/// Everything about one environment.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Which.
    pub environment: Environment,
    /// How it was made, for people: `QEMU's software emulation`.
    pub how: String,
    /// Whether instructions were emulated: then times are not those of a processor.
    pub emulated: bool,
    /// TSC ticks of a core cycle.
    pub ticks_per_cycle: f64,
    /// From start to end, seconds.
    pub seconds: f64,
    /// Starts: more than one where a form ended the machine.
    pub boots: u32,
    /// Why it was not measured to the end, if it was not.
    pub given_up: Option<String>,
    /// Lines that were cut or altered.
    pub damaged: usize,
    /// By form and kind.
    pub outcomes: BTreeMap<(usize, Kind), Outcome>,
    /// By form: what the hypervisor counted of it ([`crate::counted`]); empty where that was not asked for.
    pub counted: BTreeMap<usize, Counted>,
}

/// The lines of an environment's boots, while they come in.
#[derive(Debug, Default)]
pub struct Collected {
    rounds: Vec<Rounds>,
    others: Vec<(usize, Kind, Outcome)>,
    started: BTreeSet<usize>,
    heard: BTreeSet<usize>,
    /// Fingerprint of the table, if there was a first line.
    pub fingerprint: Option<u32>,
    /// Dependent additions beside each round.
    additions: u64,
    /// Lines that were cut or altered.
    pub damaged: usize,
    /// Whether the last line came.
    pub finished: bool,
}

impl Collected {
    /// Takes in what a boot reported.
    pub fn add(&mut self, scanned: Scanned) {
        self.damaged += scanned.damaged;
        self.finished = false;
        for line in scanned.lines {
            match line {
                Line::Hello { fingerprint, additions, .. } => {
                    self.fingerprint = Some(fingerprint);
                    self.additions = additions;
                }
                Line::Rounds(rounds) => {
                    self.heard.insert(rounds.form);
                    self.rounds.push(rounds);
                }
                Line::Fault { form, kind, vector, .. } => {
                    self.heard.insert(form);
                    self.others.push((form, kind, Outcome::Fault(vector)));
                }
                Line::Absent { form, why } => {
                    self.heard.insert(form);
                    self.others.push((form, Kind::Cost, Outcome::Absent(why)));
                }
                Line::Started { form } => {
                    self.started.insert(form);
                }
                Line::Broken { .. } => {}
                Line::End { .. } => self.finished = true,
            }
        }
    }

    /// The form that was at work when nothing more was heard: the last that was begun, or else the one after
    /// the last that was heard of.
    pub fn culprit(&self) -> Option<usize> {
        let heard = self.heard.last().copied();
        match self.started.last() {
            Some(started) if heard.is_none_or(|heard| heard <= *started) => Some(*started),
            _ => heard.map(|heard| heard + 1),
        }
    }

    /// Notes that a form ended the machine.
    pub fn ended_by(&mut self, form: usize) {
        self.heard.insert(form);
        self.others.push((form, Kind::Cost, Outcome::Ended));
    }

    /// TSC ticks of a core cycle, as the dependent additions tell: the median over all forms.
    pub fn ticks_per_cycle(&self) -> Option<f64> {
        let mut all: Vec<u64> =
            self.rounds.iter().map(|rounds| rounds.additions).filter(|ticks| *ticks > 0).collect();
        all.sort_unstable();
        let median = *all.get(all.len() / 2)?;
        Some(median as f64 / self.additions.max(1) as f64)
    }

    /// Costs in core cycles. `reference`: ticks of a cycle from elsewhere, where the additions that were
    /// measured here were emulated, and are no cycles.
    pub fn outcomes(&self, reference: Option<f64>) -> BTreeMap<(usize, Kind), Outcome> {
        let own = self.ticks_per_cycle().unwrap_or(1.0);
        let mut outcomes = BTreeMap::new();
        for rounds in &self.rounds {
            let spread = spread(rounds, reference, own);
            outcomes.insert((rounds.form, rounds.kind), Outcome::Cost(spread));
        }
        for (form, kind, outcome) in &self.others {
            // What was measured before it ended stays.
            outcomes.entry((*form, *kind)).or_insert_with(|| outcome.clone());
        }
        outcomes
    }
}

fn spread(rounds: &Rounds, reference: Option<f64>, own: f64) -> Spread {
    let instructions = rounds.instructions.max(1) as f64;
    let per = |ticks: u64, cycle: f64| ticks as f64 / cycle / instructions;
    // Beside each round stand additions; a form without them is told by those of all.
    let cycle = reference.unwrap_or(own);
    let five = if reference.is_none() && rounds.additions > 0 {
        rounds.cycles64.map(|cycles| cycles as f64 / 64.0 / instructions)
    } else {
        rounds.ticks.map(|ticks| per(ticks, cycle))
    };
    Spread {
        min: five[0],
        q1: five[1],
        median: five[2],
        q3: five[3],
        max: five[4],
        mean: per(rounds.sum, cycle) / rounds.rounds.max(1) as f64,
        ticks: rounds.ticks[2] as f64 / instructions,
        rounds: rounds.rounds,
        outliers: rounds.outliers,
        discarded: rounds.discarded,
    }
}

impl Measured {
    /// The cost of a form, if it was measured: cycles for one instruction. The median, but the paper's mean.
    pub fn cycles(&self, form: usize, kind: Kind) -> Option<f64> {
        match self.outcomes.get(&(form, kind))? {
            Outcome::Cost(spread) if kind == Kind::Paper => Some(spread.mean),
            Outcome::Cost(spread) => Some(spread.median),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{scan, write};

    fn collected(texts: &[&str]) -> Collected {
        let mut collected = Collected::default();
        let console: String = texts.iter().map(|text| write(text)).collect();
        collected.add(scan(console.as_bytes()));
        collected
    }

    /// 16 instructions in 32 ticks; 100 additions in 200: two ticks a cycle.
    const FORM: &str = "R 5 4c 10 3 0 0 4 c8 60 20 20 20 20 20 400 400 400 400 400";
    const HELLO: &str = "H bare 1 9 64 1";

    #[test]
    fn cycles_are_told_by_the_additions_beside() {
        let collected = collected(&[HELLO, FORM, "E 9"]);
        assert!(collected.finished);
        assert_eq!(collected.ticks_per_cycle(), Some(2.0));
        let outcomes = collected.outcomes(None);
        let Outcome::Cost(spread) = outcomes[&(5, Kind::Latency)] else { panic!("{outcomes:?}") };
        assert_eq!((spread.median, spread.mean, spread.ticks), (1.0, 1.0, 2.0));
    }

    #[test]
    fn where_additions_are_emulated_another_reference_tells() {
        let outcomes = collected(&[HELLO, FORM]).outcomes(Some(0.5));
        let Outcome::Cost(spread) = outcomes[&(5, Kind::Latency)] else { panic!("{outcomes:?}") };
        assert_eq!(spread.median, 4.0);
    }

    #[test]
    fn the_form_that_ended_the_machine() {
        assert_eq!(collected(&[HELLO, FORM]).culprit(), Some(6), "the next begins without saying so");
        assert_eq!(collected(&[HELLO, FORM, "S 7"]).culprit(), Some(7));
        assert_eq!(
            collected(&[HELLO, "S 7", "F 7 53 d 0 0"]).culprit(),
            Some(7),
            "it may have had more to do"
        );
        assert_eq!(collected(&[HELLO]).culprit(), None);
    }

    #[test]
    fn what_was_measured_is_kept_beside_what_ended() {
        let mut collected = collected(&[HELLO, FORM, "F 6 53 6 0 0"]);
        collected.ended_by(7);
        let outcomes = collected.outcomes(None);
        assert_eq!(outcomes[&(6, Kind::Cost)], Outcome::Fault(6));
        assert_eq!(outcomes[&(7, Kind::Cost)], Outcome::Ended);
        assert!(matches!(outcomes[&(5, Kind::Latency)], Outcome::Cost(_)));
        assert_eq!(exception(6), "#UD");
    }
}
