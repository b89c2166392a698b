//! What a soak has come to, for people: the answer in a line, then the figures.

use crate::batch::Place;
use crate::emulator::Trial;
use crate::state::Death;
use crate::summary::Summary;
use std::collections::BTreeMap;
use std::fmt::Write;

/// So many reasons are shown.
const REASONS: usize = 8;

/// The report.
pub fn report(of: &Summary) -> String {
    let mut text = figures(of);
    for place in Place::ALL {
        reasons(&mut text, place, &of.at(place).refused);
    }
    for death in &of.deaths {
        one(&mut text, of, death);
    }
    if of.killed_again > 0 {
        let _ = writeln!(text, "\nTo find these, kernels were killed {} more times.", of.killed_again);
    }
    text
}

/// Formats the line of a boot in which the emulator was tested.
pub fn report_trial(boot: u32, boots: u32, rounds: u32, trial: &Trial) -> String {
    let Trial { emulator, kernel, processors, .. } = trial;
    let end = match &trial.sick {
        None => "the kernel is well".to_owned(),
        Some(sick) => format!("the kernel {}: {}", sick.kind, sick.evidence),
    };
    format!(
        "boot {boot} of {boots}: {emulator}, {processors} CPUs, Linux {kernel}: {} of {rounds} rounds in {} s; {end}\n",
        trial.rounds,
        trial.took.as_secs(),
    )
}

/// The answer, and the figures behind it.
pub fn figures(of: &Summary) -> String {
    let mut text = String::new();
    let (woven, total) = Place::ALL
        .into_iter()
        .fold((0, 0), |(woven, total), place| (woven + of.at(place).woven, total + of.at(place).total()));
    let _ = writeln!(
        text,
        "Linux {}: {} of {} hooks woven ({:.1} %), {}, in {} min, seed {}\n",
        of.kernel,
        grouped(woven),
        grouped(total),
        100.0 * woven as f64 / total.max(1) as f64,
        died(of.deaths.len()),
        of.minutes,
        of.seed,
    );
    let row = |text: &mut String, cells: [&str; 7]| {
        let [first, rest @ ..] = cells;
        let _ = write!(text, "{first:<10}");
        rest.iter().for_each(|cell| {
            let _ = write!(text, "{cell:>11}");
        });
        text.push('\n');
    };
    row(&mut text, ["", "Hookable", "Woven", "Refused", "Culprits", "Unclear", "Pending"]);
    for place in Place::ALL {
        let at = of.at(place);
        let counts = [at.total(), at.woven, at.refusals(), at.culprits.len(), at.unclear, at.pending];
        let [all, woven, refused, culprits, unclear, pending] = counts.map(grouped);
        row(&mut text, [place.pointcut(), &all, &woven, &refused, &culprits, &unclear, &pending]);
    }
    let _ = writeln!(
        text,
        "\nRun under the load: {} functions, of which {} are woven at entry and {} at return\n\
         {} batches, {} records, {} lost (counted); {} functions are not known to the kernel's tracer",
        grouped(of.execution.running.0.max(of.returning.running.0)),
        grouped(of.execution.running.1),
        grouped(of.returning.running.1),
        grouped(of.batches),
        grouped(of.records),
        grouped(of.lost),
        grouped(of.untraceable),
    );
    text
}

fn died(kernels: usize) -> String {
    match kernels {
        0 => "no kernel died or warned".into(),
        1 => "1 kernel died or warned".into(),
        n => format!("{n} kernels died or warned"),
    }
}

fn reasons(text: &mut String, place: Place, refused: &BTreeMap<String, (usize, String)>) {
    let mut reasons: Vec<_> = refused.iter().collect();
    reasons.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    if !reasons.is_empty() {
        let _ = writeln!(text, "\nRefused, {}:", place.pointcut());
    }
    for (reason, (count, first)) in reasons.iter().take(REASONS) {
        let _ = writeln!(text, "  {count:>5}  {reason} (the first: {first})");
    }
    if let Some(more) = reasons.len().checked_sub(REASONS).filter(|more| *more > 0) {
        let _ = writeln!(text, "         and {more} more reasons");
    }
}

fn one(text: &mut String, of: &Summary, death: &Death) {
    let _ = writeln!(
        text,
        "\nBatch {}, {} (seed {}): {}: {}",
        death.batch,
        death.place.pointcut(),
        death.seed,
        death.kind,
        death.evidence
    );
    if death.culprits.is_empty() {
        let seen = match death.tests {
            0 => "broken off before the culprit was found".to_owned(),
            tests => format!("not seen again in {tests} tests"),
        };
        let _ = writeln!(text, "  {seen}: {}", death.folder);
        return;
    }
    let with = death.enough.map_or(String::new(), |action| format!(", with {} alone", action.name()));
    let _ = writeln!(text, "  culprits: {}{with}; found in {} tests", death.culprits.join(", "), death.tests);
    let series: Vec<&str> = of.kernel.split('.').take(2).collect();
    let _ = writeln!(
        text,
        "  again: make soak FRESH=1 KERNEL={} SEED={} ONLY={}   ({}/minimal.aspect)",
        series.join("."),
        death.seed,
        death.culprits.join(","),
        death.folder
    );
}

fn grouped(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Action;
    use crate::state::{Progress, State};
    use std::path::Path;

    #[test]
    fn the_answer_comes_first_and_a_culprit_with_what_repeats_it() {
        let mut execution =
            Progress { pending: (0..2000).map(|n| format!("f{n}")).collect(), ..Progress::default() };
        (0..1500).for_each(|n| execution.weave(&format!("f{n}")));
        execution.refuse("f1600", "the kernel allows no probe there");
        execution.blame("f1601");
        let death = Death {
            batch: 3,
            seed: 9,
            place: Place::Execution,
            kind: "hung".into(),
            evidence: "nothing was heard for 60 s, 50 s of them at work".into(),
            culprits: vec!["f1601".into()],
            enough: Some(Action::Store),
            tests: 8,
            folder: "target/soak/6.12/death-1".into(),
        };
        let state = State {
            kernel: "6.12.117+deb12-cloud-amd64".into(),
            seed: 9,
            seconds: 3661,
            execution,
            deaths: vec![death],
            ..State::default()
        };
        let text = report(&Summary::of(&state));
        assert_eq!(
            text.lines().next(),
            Some(
                "Linux 6.12.117+deb12-cloud-amd64: 1,500 of 2,000 hooks woven (75.0 %), \
                 1 kernel died or warned, in 61 min, seed 9"
            )
        );
        for line in [
            "execution       2,000      1,500          1          1          0        498",
            "      1  the kernel allows no probe there (the first: f1600)",
            "Batch 3, execution (seed 9): hung: nothing was heard for 60 s, 50 s of them at work",
            "  culprits: f1601, with store alone; found in 8 tests",
            "  again: make soak FRESH=1 KERNEL=6.12 SEED=9 ONLY=f1601   (target/soak/6.12/death-1/minimal.aspect)",
        ] {
            assert!(text.lines().any(|is| is == line), "no line {line:?} in\n{text}");
        }
    }

    #[test]
    fn the_document_has_the_figures_of_the_results_beside_it() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let document = std::fs::read_to_string(docs.join("soak.md")).unwrap();
        for kernel in ["6.12", "6.1"] {
            let path = docs.join(format!("soak/{kernel}.json"));
            let summary: Summary = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert!(
                summary.kernel.starts_with(&format!("{kernel}.")),
                "{} in {}",
                summary.kernel,
                path.display()
            );
            let figures = figures(&summary);
            assert!(
                document.contains(&figures),
                "docs/soak.md has not what {} says:\n{figures}",
                path.display()
            );
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0_u64, 12, 999, 1000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
    }
}
