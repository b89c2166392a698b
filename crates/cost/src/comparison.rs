//! Environments beside each other, as the paper's tables have them: what one instruction costs in each, and the
//! ratio to the machine itself.

use std::collections::HashMap;

use xweave_report::number::median;

use crate::counted;
use crate::environment::Environment;
use crate::forms;
use crate::line::Kind;
use crate::measured::{Measured, Outcome, exception};

/// Which of the two methods' figures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Method {
    /// Latency and throughput kept apart, the empty loop subtracted, the median.
    Sound,
    /// The paper's: 100 copies in a row, 20 times, the mean.
    Paper,
    /// Both, form by form.
    Both,
}

impl Method {
    /// Returns the name in documents and of the option's values.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What was measured in several environments.
#[derive(Debug)]
pub struct Comparison {
    /// The environments, in the order in which they are shown.
    pub measured: Vec<Measured>,
}

/// One form in all environments.
#[derive(Debug, Clone)]
pub struct Row {
    /// The form's number.
    pub form: usize,
    /// What its copies were for.
    pub kind: Kind,
    /// By environment: cycles, where it was measured.
    pub cycles: Vec<Option<f64>>,
    /// By environment: cycles there to cycles in the machine under it ([`Comparison::base`]).
    pub ratio: Vec<Option<f64>>,
    /// By environment: whether the ratio is far from what it should be.
    pub unexpected: Vec<bool>,
    /// By environment: whether no processor can have taken so little.
    pub impossible: Vec<bool>,
    /// By environment: what else came of it, for people.
    pub instead: Vec<Option<String>>,
    /// By environment: what the hypervisor did, where that can be told; privileged forms only.
    pub did: Vec<Option<String>>,
    /// By environment: whether what the hypervisor counted says other than the cost does.
    pub contradicted: Vec<bool>,
}

impl Row {
    /// Whether a figure is far from what it should be, or what was counted contradicts it.
    pub fn is_marked(&self) -> bool {
        [&self.unexpected, &self.impossible, &self.contradicted]
            .into_iter()
            .any(|marks| marks.contains(&true))
    }

    /// Whether a figure cannot be.
    pub fn is_impossible(&self) -> bool {
        self.impossible.contains(&true)
    }
}

/// A guest runs unprivileged instructions itself: a tenth more or less is odd.
const OWN_SPEED: f64 = 0.1;
/// In cycles: less is no difference.
const LEAST: f64 = 0.5;
/// Where instructions are emulated, times scatter: a form that is so many times off its group is odd.
const OFF_GROUP: f64 = 8.0;
/// In cycles: no processor takes less for an instruction, eight or ten a cycle being what the widest do.
const FASTEST: f64 = 1.0 / 16.0;

impl Comparison {
    /// The environment that another's ratios refer to: the machine under it. A hypervisor in the lab's emulated
    /// machine runs on software emulation; a guest here on the bare machine, or as a process measured it; where
    /// that was not measured, what was measured first.
    pub fn base(&self, at: usize) -> usize {
        let find = |environment| self.measured.iter().position(|one| one.environment == environment);
        let one = &self.measured[at];
        let emulated_machine = one.emulated && one.environment != Environment::Tcg;
        let under = match one.environment {
            _ if emulated_machine => find(Environment::Tcg),
            Environment::Kvm | Environment::XenPv => find(Environment::Bare),
            _ => None,
        };
        under.or_else(|| find(Environment::Native)).unwrap_or(0)
    }

    /// The rows of a method, in the order of the table of forms.
    pub fn rows(&self, method: Method) -> Vec<Row> {
        let kinds: &[Kind] = match method {
            Method::Sound => &[Kind::Latency, Kind::Throughput, Kind::Looped, Kind::Cost],
            Method::Paper => &[Kind::Paper],
            Method::Both => &[Kind::Latency, Kind::Throughput, Kind::Looped, Kind::Cost, Kind::Paper],
        };
        let mut rows: Vec<Row> = (0..forms().len())
            .flat_map(|form| kinds.iter().filter_map(move |kind| self.row(form, *kind)))
            .collect();
        self.mark(&mut rows);
        self.mark_impossible(&mut rows);
        rows
    }

    fn row(&self, form: usize, kind: Kind) -> Option<Row> {
        if !self.measured.iter().any(|one| one.outcomes.contains_key(&(form, kind))) {
            return None;
        }
        let cycles: Vec<_> = self.measured.iter().map(|one| one.cycles(form, kind)).collect();
        let ratio = |at: usize| {
            let base = cycles[self.base(at)].filter(|base| *base > 0.0)?;
            Some(cycles[at]? / base)
        };
        let ratio = (0..cycles.len()).map(ratio).collect();
        let instead = self.measured.iter().map(|one| instead(one, form, kind)).collect();
        let did = self.measured.iter().map(|one| did(one, form, kind)).collect();
        let contradicted = self.measured.iter().map(|one| contradicted(one, form, kind)).collect();
        let unexpected = vec![false; self.measured.len()];
        let impossible = unexpected.clone();
        Some(Row { form, kind, cycles, ratio, unexpected, impossible, instead, did, contradicted })
    }

    fn mark(&self, rows: &mut [Row]) {
        for (at, one) in self.measured.iter().enumerate() {
            let base = self.base(at);
            if base == at {
                continue;
            }
            let mut usual: HashMap<&str, f64> = HashMap::new();
            for row in rows.iter() {
                usual.entry(group(row)).or_insert_with(|| usual_of(rows, group(row), at));
            }
            for row in rows.iter_mut() {
                let usual = usual[group(row)];
                let (Some(ratio), Some(cycles), Some(under)) =
                    (row.ratio[at], row.cycles[at], row.cycles[base])
                else {
                    continue;
                };
                row.unexpected[at] = (cycles - under).abs() > LEAST
                    && if one.emulated {
                        !(usual / OFF_GROUP..=usual * OFF_GROUP).contains(&ratio)
                    } else {
                        (ratio - 1.0).abs() > OWN_SPEED
                    };
                // What leaves the guest costs what it costs.
                if row.kind == Kind::Cost {
                    row.unexpected[at] = false;
                }
            }
        }
    }
}

impl Comparison {
    /// Marks what cannot be: what takes no time (an emulator may leave out what has no effect), and what a guest does faster
    /// than the machine under it, by more than times scatter.
    fn mark_impossible(&self, rows: &mut [Row]) {
        let throughput: HashMap<usize, Vec<Option<f64>>> = rows
            .iter()
            .filter(|row| row.kind == Kind::Throughput)
            .map(|row| (row.form, row.cycles.clone()))
            .collect();
        for row in rows {
            for (at, one) in self.measured.iter().enumerate() {
                let Some(cycles) = row.cycles[at] else { continue };
                let less = |than: f64, share: f64| cycles < than * share && than - cycles > LEAST;
                // What leaves the guest may be emulated by doing less.
                let under = row.cycles[self.base(at)].filter(|_| row.kind != Kind::Cost);
                let independent = throughput.get(&row.form).and_then(|cycles| cycles[at]);
                let independent = independent.filter(|_| row.kind == Kind::Latency);
                let than_machine = under.filter(|_| self.is_guest(at)).is_some_and(|under| {
                    less(under, if one.emulated { 1.0 / OFF_GROUP } else { 1.0 - OWN_SPEED })
                });
                // An emulator's translations of the two are others.
                let than_independent = independent
                    .is_some_and(|independent| !one.emulated && less(independent, 1.0 - OWN_SPEED));
                row.impossible[at] = cycles < FASTEST || than_machine || than_independent;
            }
        }
    }

    /// Whether there is a machine under an environment that was measured as well.
    fn is_guest(&self, at: usize) -> bool {
        matches!(self.measured[at].environment, Environment::Kvm | Environment::XenPv) && self.base(at) != at
    }
}

fn group(row: &Row) -> &'static str {
    &forms()[row.form].group
}

/// The median ratio of a group in one environment.
fn usual_of(rows: &[Row], of: &str, at: usize) -> f64 {
    let ratios = rows.iter().filter(|row| group(row) == of).filter_map(|row| row.ratio[at]);
    median(ratios.collect()).unwrap_or(1.0)
}

/// What came of a form that was not measured, for people.
fn instead(one: &Measured, form: usize, kind: Kind) -> Option<String> {
    match one.outcomes.get(&(form, kind)) {
        Some(Outcome::Fault(vector)) => Some(exception(*vector)),
        Some(Outcome::Ended) => Some("ended the machine".into()),
        Some(Outcome::Absent(why)) => Some(why.clone()),
        Some(Outcome::Cost(_)) => None,
        None => {
            let needs = &forms()[form].needs;
            let wants = |feature: &str| needs.iter().any(|need| need == feature);
            let process = one.environment == Environment::Native;
            (process && (wants("ring0") || wants("bare") || wants("xen") || wants("kvm")))
                .then(|| "not a process's".into())
        }
    }
}

/// The cheapest way out of a guest and back: a hypercall that there is not.
fn way_out(one: &Measured) -> Option<f64> {
    let name = match one.environment {
        Environment::Kvm => "KVM hypercall that is not",
        Environment::XenPv => "hypercall that is not",
        Environment::Native | Environment::Bare | Environment::Tcg => return None,
    };
    one.cycles(forms().iter().position(|form| form.name == name)?, Kind::Cost)
}

/// Whether the hypervisor was involved in a privileged form, told by what it cost beside the cheapest way out.
fn involved(one: &Measured, form: usize, kind: Kind) -> Option<bool> {
    if !forms()[form].needs.iter().any(|need| need == "ring0") {
        return None;
    }
    let way_out = way_out(one)?;
    match one.outcomes.get(&(form, kind))? {
        // A trap costs more than a hypercall; an exit may cost a little less than one that is looked up in vain.
        Outcome::Cost(spread) if one.environment == Environment::XenPv => Some(spread.median >= way_out),
        Outcome::Cost(spread) => Some(spread.median >= way_out / 2.0),
        _ => None,
    }
}

/// Whether what was counted of a form contradicts its cost.
fn contradicted(one: &Measured, form: usize, kind: Kind) -> bool {
    let by_cost = involved(one, form, kind);
    let counted = one.counted.get(&form).map(counted::involved);
    by_cost.zip(counted).is_some_and(|(by_cost, counted)| by_cost != counted)
}

/// What the hypervisor did of a privileged form, told by what it cost; and what it counted, where it was asked.
fn did(one: &Measured, form: usize, kind: Kind) -> Option<String> {
    let of = &forms()[form];
    let paravirtual = one.environment == Environment::XenPv;
    let mut text = match (involved(one, form, kind), one.outcomes.get(&(form, kind))?) {
        (Some(true), _) if paravirtual => "trapped, emulated".to_owned(),
        (Some(true), _) => "left the guest".to_owned(),
        (Some(false), _) => "not involved".to_owned(),
        (None, Outcome::Fault(vector)) if paravirtual && of.needs.iter().any(|need| need == "ring0") => {
            format!("refused ({})", exception(*vector))
        }
        (None, _) => return None,
    };
    if let Some(counted) = one.counted.get(&form) {
        text.push_str(&format!(" (counted: {})", counted::text(counted)));
        if contradicted(one, form, kind) {
            text.push_str(" CONTRADICTION");
        }
    }
    if let Some(name) = of.instead.as_ref().filter(|_| paravirtual) {
        let number = forms().iter().position(|form| form.name == *name);
        let cycles = number.and_then(|number| one.cycles(number, Kind::Cost));
        text.push_str(&match cycles {
            Some(cycles) => format!(", hypercall instead: {name} ({cycles:.0})"),
            None => format!(", hypercall instead: {name}"),
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Spread;

    fn spread(median: f64) -> Outcome {
        let five = Spread {
            min: median,
            q1: median,
            median,
            q3: median,
            max: median,
            mean: median,
            ticks: median,
            rounds: 1,
            outliers: 0,
            discarded: 0,
        };
        Outcome::Cost(five)
    }

    fn measured(environment: Environment, emulated: bool, outcomes: &[(usize, Kind, Outcome)]) -> Measured {
        Measured {
            environment,
            how: String::new(),
            emulated,
            ticks_per_cycle: 1.0,
            seconds: 1.0,
            boots: 1,
            given_up: None,
            damaged: 0,
            outcomes: outcomes
                .iter()
                .map(|(form, kind, outcome)| ((*form, *kind), outcome.clone()))
                .collect(),
            counted: Default::default(),
        }
    }

    #[test]
    fn ratios_are_to_the_machine_itself_and_odd_ones_are_marked() {
        let kvm = measured(
            Environment::Kvm,
            false,
            &[
                (0, Kind::Latency, spread(1.0)),
                (1, Kind::Latency, spread(3.0)),
                (2, Kind::Latency, Outcome::Fault(6)),
            ],
        );
        let native = measured(
            Environment::Native,
            false,
            &[(0, Kind::Latency, spread(1.0)), (1, Kind::Latency, spread(1.0))],
        );
        let comparison = Comparison { measured: vec![kvm, native] };
        let rows = comparison.rows(Method::Sound);
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[1].ratio, [Some(3.0), Some(1.0)]);
        assert_eq!((rows[0].unexpected[0], rows[1].unexpected[0]), (false, true));
        assert_eq!(rows[2].instead[0].as_deref(), Some("#UD"));
    }

    #[test]
    fn what_no_processor_does_and_a_guest_faster_than_its_machine_are_impossible() {
        let row = |environment, emulated, latency, throughput| {
            let costs = [(0, Kind::Latency, spread(latency)), (0, Kind::Throughput, spread(throughput))];
            measured(environment, emulated, &costs)
        };
        let marked = |one, native| {
            let rows = Comparison { measured: vec![native, one] }.rows(Method::Sound);
            rows.iter().flat_map(|row| row.impossible.clone()).collect::<Vec<_>>()
        };
        let native = || row(Environment::Native, false, 4.0, 1.0);
        let kvm = |latency, throughput| row(Environment::Kvm, false, latency, throughput);
        assert_eq!(marked(kvm(4.1, 0.9), native()), [false; 4], "within a tenth");
        assert_eq!(marked(kvm(3.0, 1.0), native()), [false, true, false, false], "faster than the machine");
        assert_eq!(marked(kvm(4.0, 0.0), native()), [false, false, false, true], "nothing takes no time");
        let upside_down = row(Environment::Native, false, 1.0, 4.0);
        assert_eq!(marked(kvm(4.0, 4.0), upside_down), [true, false, false, false], "a chain is no faster");
        let tcg = row(Environment::Tcg, true, 0.01, 3.0);
        assert_eq!(marked(tcg, native()), [false, true, false, false], "an emulator left it out");
        let tcg = row(Environment::Tcg, true, 40.0, 10.0);
        assert_eq!(marked(row(Environment::Kvm, true, 4.0, 5.0), tcg), [false, true, false, false]);
    }

    #[test]
    fn what_the_hypervisor_did_is_told_by_the_cost_of_the_way_out() {
        let form = |name: &str| forms().iter().position(|form| form.name == name).unwrap();
        let cost = |name: &str, cycles: f64| (form(name), Kind::Cost, spread(cycles));
        let kvm = measured(
            Environment::Kvm,
            false,
            &[cost("KVM hypercall that is not", 2000.0), cost("clts", 20.0), cost("mov cr4, r64", 2100.0)],
        );
        let xen = measured(
            Environment::XenPv,
            false,
            &[cost("hypercall that is not", 300.0), cost("fpu_taskswitch", 350.0), cost("clts", 3000.0)],
        );
        let rows = Comparison { measured: vec![kvm, xen] }.rows(Method::Sound);
        let row = |name: &str| rows.iter().find(|row| row.form == form(name)).unwrap();
        assert_eq!(row("clts").did[0].as_deref(), Some("not involved"));
        assert_eq!(row("mov cr4, r64").did[0].as_deref(), Some("left the guest"));
        let clts = row("clts").did[1].as_deref();
        assert_eq!(clts, Some("trapped, emulated, hypercall instead: fpu_taskswitch (350)"));
    }

    #[test]
    fn a_form_whose_count_contradicts_its_cost_is_marked() {
        let form = |name: &str| forms().iter().position(|form| form.name == name).unwrap();
        let cost = |name: &str, cycles: f64| (form(name), Kind::Cost, spread(cycles));
        let mut kvm = measured(
            Environment::Kvm,
            false,
            &[cost("KVM hypercall that is not", 2000.0), cost("clts", 20.0), cost("mov cr4, r64", 2100.0)],
        );
        let exits = |reason: &str| [(reason.to_owned(), 1.0)].into();
        kvm.counted = [(form("clts"), exits("write_cr0")), (form("mov cr4, r64"), exits("write_cr4"))].into();
        let rows = Comparison { measured: vec![kvm] }.rows(Method::Sound);
        let row = |name: &str| rows.iter().find(|row| row.form == form(name)).unwrap();
        assert_eq!(row("mov cr4, r64").did[0].as_deref(), Some("left the guest (counted: 1.0 write_cr4)"));
        assert_eq!((row("mov cr4, r64").contradicted[0], row("clts").contradicted[0]), (false, true));
        let clts = row("clts").did[0].as_deref();
        assert_eq!(clts, Some("not involved (counted: 1.0 write_cr0) CONTRADICTION"));
    }

    #[test]
    fn privileged_forms_are_no_process_s() {
        let form = forms().iter().position(|form| form.name == "clts").unwrap();
        let tcg = measured(Environment::Tcg, true, &[(form, Kind::Cost, spread(90.0))]);
        let native = measured(Environment::Native, false, &[]);
        let rows = Comparison { measured: vec![native, tcg] }.rows(Method::Sound);
        assert_eq!(rows[0].instead[0].as_deref(), Some("not a process's"));
        assert_eq!(rows[0].ratio, [None, None]);
    }
}
