//! What this machine can do.

use xweave_record::Check;

use crate::{View, table};

/// Columns of the mark and the check's name, with the blanks behind.
const BESIDE: usize = 34;

/// Each check, and what to do where it is not as it should be.
pub fn table(checks: &[Check], view: View) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match (check.ok, check.needed) {
            (true, _) => "ok",
            (false, true) => "MISSING",
            (false, false) => "note",
        };
        text.push_str(&beside(&format!("{mark:<7}  {}", check.name), &check.found, view));
        if !check.ok {
            text.push_str(&beside("", &format!("→ {}", check.remedy), view));
        }
    }
    text
}

/// A text beside what it is about, all its lines below each other.
fn beside(about: &str, text: &str, view: View) -> String {
    let used = u16::try_from(BESIDE).unwrap_or(u16::MAX);
    let room = View { width: view.width.saturating_sub(used), ..view };
    let lines = table::paragraph(text, room);
    let about = std::iter::once(about).chain(std::iter::repeat(""));
    lines.lines().zip(about).map(|(line, about)| format!("{about:<BESIDE$}{line}\n")).collect()
}
