//! Environments beside each other, as the paper's tables have them: what one instruction costs in each, and the
//! ratio to the machine itself.

use xweave_report::View;
use xweave_report::table::{self, Heading};

use crate::environment::Environment;
use crate::forms;
use crate::line::Kind;
use crate::measured::{Measured, Outcome, exception};

/// Which of the two methods' figures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Latency and throughput kept apart, the empty loop subtracted, the median.
    Sound,
    /// The paper's: 100 copies in a row, 20 times, the mean.
    Paper,
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
    /// By environment: cycles there to cycles natively, or in the first environment.
    pub ratio: Vec<Option<f64>>,
    /// By environment: whether the ratio is far from what it should be.
    pub unexpected: Vec<bool>,
    /// By environment: what else came of it, for people.
    pub instead: Vec<Option<String>>,
    /// By environment: what the hypervisor did, where that can be told; privileged forms only.
    pub did: Vec<Option<String>>,
}

/// A hardware-assisted or paravirtual guest runs unprivileged instructions itself: a tenth more or less is odd.
const OWN_SPEED: f64 = 0.1;
/// In cycles: less is no difference.
const LEAST: f64 = 0.5;
/// An emulator is so many times slower, group by group; a form that is so many times off its group is odd.
const OFF_GROUP: f64 = 8.0;

impl Comparison {
    /// Which environment's figures ratios refer to: the machine itself, or else the first.
    fn base(&self) -> usize {
        self.measured.iter().position(|one| one.environment == Environment::Native).unwrap_or(0)
    }

    /// The rows of a method, in the order of the table of forms.
    pub fn rows(&self, method: Method) -> Vec<Row> {
        let kinds: &[Kind] = match method {
            Method::Sound => &[Kind::Latency, Kind::Throughput, Kind::Looped, Kind::Cost],
            Method::Paper => &[Kind::Paper],
        };
        let mut rows: Vec<Row> = (0..forms().len())
            .flat_map(|form| kinds.iter().filter_map(move |kind| self.row(form, *kind)))
            .collect();
        self.mark(&mut rows);
        rows
    }

    fn row(&self, form: usize, kind: Kind) -> Option<Row> {
        if !self.measured.iter().any(|one| one.outcomes.contains_key(&(form, kind))) {
            return None;
        }
        let cycles: Vec<_> = self.measured.iter().map(|one| one.cycles(form, kind)).collect();
        let base = cycles[self.base()];
        let ratio = cycles.iter().map(|one| Some(one.as_ref()? / base.filter(|base| *base > 0.0)?)).collect();
        let instead = self.measured.iter().map(|one| instead(one, form, kind)).collect();
        let did = self.measured.iter().map(|one| did(one, form, kind)).collect();
        Some(Row { form, kind, cycles, ratio, unexpected: vec![false; self.measured.len()], instead, did })
    }

    fn mark(&self, rows: &mut [Row]) {
        let base = self.base();
        for (at, one) in self.measured.iter().enumerate().filter(|(at, _)| *at != base) {
            let groups: Vec<&str> = rows.iter().map(|row| &*forms()[row.form].group).collect();
            let usual: Vec<f64> = groups.iter().map(|group| median(rows, &groups, group, at)).collect();
            for (row, usual) in rows.iter_mut().zip(usual) {
                let (Some(ratio), Some(cycles), Some(native)) =
                    (row.ratio[at], row.cycles[at], row.cycles[base])
                else {
                    continue;
                };
                row.unexpected[at] = if one.emulated {
                    !(usual / OFF_GROUP..=usual * OFF_GROUP).contains(&ratio)
                } else {
                    (ratio - 1.0).abs() > OWN_SPEED && (cycles - native).abs() > LEAST
                };
            }
        }
    }

    /// The table for a terminal: each form's cycles in each environment, and ratios.
    pub fn table(&self, rows: &[Row], view: View) -> String {
        let base = self.base();
        let names: Vec<&'static str> = self.measured.iter().map(|one| one.environment.name()).collect();
        let mut headings = vec![Heading("Group", false), Heading("Instruction", false), Heading("", false)];
        headings.extend(names.iter().map(|name| Heading(name, true)));
        let others: Vec<usize> = (0..names.len()).filter(|at| *at != base).collect();
        headings.extend(others.iter().map(|at| Heading(ratio_heading(names[*at]), true)));
        let deeds = rows.iter().any(|row| row.did.iter().any(Option::is_some));
        if deeds {
            headings.push(Heading("What the hypervisor did", false));
        }
        let mut table = table::new(&headings, view);
        let mut group = "";
        for row in rows {
            let form = &forms()[row.form];
            // A group's name stands where it begins.
            let first = if form.group == group { "" } else { &form.group };
            group = &form.group;
            let mut cells = vec![first.to_owned(), form.name.clone(), row.kind.name().to_owned()];
            for (cycles, instead) in row.cycles.iter().zip(&row.instead) {
                cells.push(match (cycles, instead) {
                    (Some(cycles), _) => format!("{cycles:.2}"),
                    (None, Some(instead)) => instead.clone(),
                    (None, None) => "–".to_owned(),
                });
            }
            for at in &others {
                let mark = if row.unexpected[*at] { " !" } else { "" };
                cells.push(row.ratio[*at].map_or_else(String::new, |ratio| format!("{ratio:.3}{mark}")));
            }
            if deeds {
                let told = names
                    .iter()
                    .zip(&row.did)
                    .filter_map(|(name, did)| Some(format!("{name}: {}", did.as_ref()?)));
                cells.push(told.collect::<Vec<_>>().join("; "));
            }
            table.add_row(cells);
        }
        table::text(&table)
    }
}

fn ratio_heading(name: &'static str) -> &'static str {
    match name {
        "tcg" => "tcg/…",
        "kvm" => "kvm/…",
        "xen-pv" => "xen-pv/…",
        _ => "native/…",
    }
}

/// The median ratio of a group in one environment.
fn median(rows: &[Row], groups: &[&str], group: &str, at: usize) -> f64 {
    let mut ratios: Vec<f64> = rows
        .iter()
        .zip(groups)
        .filter(|(_, of)| **of == group)
        .filter_map(|(row, _)| row.ratio[at])
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
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
        Environment::Native | Environment::Tcg => return None,
    };
    one.cycles(forms().iter().position(|form| form.name == name)?, Kind::Cost)
}

/// What the hypervisor did of a privileged form, told by what it cost beside the cheapest way out.
fn did(one: &Measured, form: usize, kind: Kind) -> Option<String> {
    let of = &forms()[form];
    if !of.needs.iter().any(|need| need == "ring0") {
        return None;
    }
    let way_out = way_out(one)?;
    let paravirtual = one.environment == Environment::XenPv;
    let mut text = match one.outcomes.get(&(form, kind))? {
        // A trap costs more than a hypercall; an exit may cost a little less than one that is looked up in vain.
        Outcome::Cost(spread) if paravirtual && spread.median >= way_out => "trapped, emulated".to_owned(),
        Outcome::Cost(spread) if !paravirtual && spread.median >= way_out / 2.0 => {
            "left the guest".to_owned()
        }
        Outcome::Cost(_) => "not involved".to_owned(),
        Outcome::Fault(vector) if paravirtual => format!("refused ({})", exception(*vector)),
        _ => return None,
    };
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
            damaged: 0,
            outcomes: outcomes
                .iter()
                .map(|(form, kind, outcome)| ((*form, *kind), outcome.clone()))
                .collect(),
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
        let text = comparison.table(&rows, View { width: 120, color: false });
        assert!(text.contains("3.000 !"), "{text}");
        assert!(text.contains("#UD"), "{text}");
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
    fn privileged_forms_are_no_process_s() {
        let form = forms().iter().position(|form| form.name == "clts").unwrap();
        let tcg = measured(Environment::Tcg, true, &[(form, Kind::Cost, spread(90.0))]);
        let native = measured(Environment::Native, false, &[]);
        let rows = Comparison { measured: vec![native, tcg] }.rows(Method::Sound);
        assert_eq!(rows[0].instead[0].as_deref(), Some("not a process's"));
        assert_eq!(rows[0].ratio, [None, None]);
    }
}
