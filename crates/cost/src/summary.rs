//! What stands around the table: where was measured, what agrees with published figures, what changed.

use xweave_report::View;
use xweave_report::folded::{self, Column};
use xweave_report::number::counted;

use crate::comparison::Comparison;
use crate::history::Change;
use crate::microarchitecture::{Identified, Name};
use crate::published::Beside;

/// The processor, and how each environment was measured.
pub fn heading(comparison: &Comparison, processor: &str, identified: &Identified) -> String {
    let mut text = format!("{processor}: {} ({})\n", identified.name, identified.certainty);
    for one in &comparison.measured {
        text.push_str(&format!("{:<8}{}", one.environment.name(), one.how));
        if one.seconds > 0.0 {
            text.push_str(&format!(", in {:.1} s", one.seconds));
        }
        if one.emulated {
            text.push_str("; emulated: its times are not those of a CPU");
        }
        if one.boots > 1 {
            text.push_str(&format!("; started {} times, as forms ended it", one.boots));
        }
        if let Some(why) = &one.given_up {
            text.push_str(&format!("; given up: {why}"));
        }
        if one.damaged > 0 {
            let lines = counted(one.damaged as u64, "line of its console was", "lines of its console were");
            text.push_str(&format!("; {lines} cut or altered"));
        }
        text.push('\n');
    }
    text.push_str("Core cycles for one instruction, and ratios.\n\n");
    text
}

/// The figures that differ from published ones, and how many agree.
pub fn agreement(beside: &[Beside<'_>], name: Name, view: View) -> String {
    let others: Vec<_> = beside.iter().filter(|one| !one.agrees).collect();
    let column = |of: fn(&Beside<'_>) -> String| others.iter().map(|one| of(one)).collect();
    let about = [
        Column::names("Instruction", column(|one| one.figure.form.clone())),
        Column::names("", column(|one| one.kind.name().to_owned())),
    ];
    let columns = [
        Column::numbers("measured", column(|one| format!("{:.2}", one.measured))),
        Column::numbers("published", column(|one| format!("{:.2}", one.published))),
        Column::prose(
            "Why",
            column(|one| one.figure.remark_on(one.kind).unwrap_or_else(|| "not known".into())),
        ),
    ];
    let agree = beside.iter().filter(|one| one.agrees).count();
    let share = 100.0 * agree as f64 / beside.len().max(1) as f64;
    format!(
        "\nBeside figures published of {name}: {agree} of {} agree within a tenth or half a cycle ({share:.1} %).\n\
         The others:\n\n{}",
        beside.len(),
        folded::text(&about, &columns, view)
    )
}

/// What is not as it was in the last run.
pub fn changes(changes: &[Change]) -> String {
    let line = |change: &Change| {
        let [before, now] = change.cycles;
        format!("changed: {} {}: {before:.2} → {now:.2}\n", change.environment, change.form)
    };
    changes.iter().map(line).collect()
}
