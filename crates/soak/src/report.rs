//! What a soak has come to, for people: the answer in a line, then the figures.

use crate::batch::Place;
use crate::state::{Death, State};
use std::collections::BTreeMap;
use std::fmt::Write;

/// So many reasons are shown.
const REASONS: usize = 8;

/// The report.
pub fn report(state: &State) -> String {
    let mut text = String::new();
    let (woven, total) = Place::ALL.into_iter().fold((0, 0), |(woven, total), place| {
        (woven + state.at(place).woven.len(), total + state.at(place).total())
    });
    let _ = writeln!(
        text,
        "Linux {}: {} of {} hooks woven ({:.1} %), {}, in {} min, seed {}\n",
        state.kernel,
        grouped(woven),
        grouped(total),
        100.0 * woven as f64 / total.max(1) as f64,
        died(state.deaths.len()),
        state.seconds / 60,
        state.seed,
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
        let of = state.at(place);
        let counts = [
            of.total(),
            of.woven.len(),
            of.refused.len(),
            of.culprits.len(),
            of.unclear.len(),
            of.pending.len(),
        ];
        let [all, woven, refused, culprits, unclear, pending] = counts.map(grouped);
        row(&mut text, [place.pointcut(), &all, &woven, &refused, &culprits, &unclear, &pending]);
    }
    let _ = writeln!(
        text,
        "\n{} batches, {} records, {} lost (counted); {} functions are not known to the kernel's tracer",
        grouped(state.batches),
        grouped(state.records),
        grouped(state.lost),
        grouped(state.untraceable),
    );
    for place in Place::ALL {
        reasons(&mut text, place, &state.at(place).refused);
    }
    for death in &state.deaths {
        one(&mut text, state, death);
    }
    if state.killed_again > 0 {
        let _ = writeln!(text, "\nTo find these, kernels were killed {} more times.", state.killed_again);
    }
    text
}

fn died(kernels: usize) -> String {
    match kernels {
        0 => "no kernel died or warned".into(),
        1 => "1 kernel died or warned".into(),
        n => format!("{n} kernels died or warned"),
    }
}

fn reasons(text: &mut String, place: Place, refused: &BTreeMap<String, String>) {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (function, reason) in refused {
        by_reason.entry(reason.lines().next().unwrap_or_default()).or_default().push(function);
    }
    let mut by_reason: Vec<_> = by_reason.into_iter().collect();
    by_reason.sort_by_key(|(_, functions)| std::cmp::Reverse(functions.len()));
    if !by_reason.is_empty() {
        let _ = writeln!(text, "\nRefused, {}:", place.pointcut());
    }
    for (reason, functions) in by_reason.iter().take(REASONS) {
        let _ = writeln!(text, "  {:>5}  {reason} (the first: {})", functions.len(), functions[0]);
    }
    if let Some(more) = by_reason.len().checked_sub(REASONS).filter(|more| *more > 0) {
        let _ = writeln!(text, "         and {more} more reasons");
    }
}

fn one(text: &mut String, state: &State, death: &Death) {
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
        let _ = writeln!(text, "  not seen again in {} tests: {}", death.tests, death.folder);
        return;
    }
    let actions: Vec<&str> = death.actions.iter().map(|action| action.name()).collect();
    let with = match &actions[..] {
        [] => String::new(),
        names => format!(", with {}", names.join(" and with ")),
    };
    let _ = writeln!(text, "  culprits: {}{with}; found in {} tests", death.culprits.join(", "), death.tests);
    let series: Vec<&str> = state.kernel.split('.').take(2).collect();
    let _ = writeln!(
        text,
        "  again: make soak KERNEL={} SEED={} ONLY={}   ({}/minimal.aspect)",
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
    use crate::state::Progress;

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
            actions: vec![Action::Store],
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
        let text = report(&state);
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
            "  culprits: f1601, with store; found in 8 tests",
            "  again: make soak KERNEL=6.12 SEED=9 ONLY=f1601   (target/soak/6.12/death-1/minimal.aspect)",
        ] {
            assert!(text.lines().any(|is| is == line), "no line {line:?} in\n{text}");
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0_u64, 12, 999, 1000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
    }
}
