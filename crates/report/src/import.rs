//! What came of an import.

use std::{cmp::Reverse, path::Path};

use xweave_import::Outcome;

/// How many names of unknown events are shown.
const SHOWN: usize = 10;

/// The events of each file and kind, and the commonest of those that have no kind of their own.
pub fn summary(trace: &Path, outcome: &Outcome) -> String {
    let mut text = String::new();
    for domain in &outcome.domains {
        let (file, lost) = (domain.file.display(), domain.lost);
        let lost = if lost == 0 { String::new() } else { format!(", {lost} were lost") };
        text.push_str(&format!("{}: {} events of {file}{lost}\n", domain.name, domain.events));
    }
    let width = outcome.kinds.keys().map(|kind| kind.len()).max().unwrap_or(0);
    for (kind, count) in &outcome.kinds {
        text.push_str(&format!("  {kind:width$} {count:>12}\n"));
    }
    let mut unknown: Vec<_> = outcome.unknown.iter().collect();
    unknown.sort_by_key(|(name, count)| (Reverse(**count), name.as_str()));
    if !unknown.is_empty() {
        text.push_str("other, by their names:\n");
    }
    for (name, count) in unknown.iter().take(SHOWN) {
        text.push_str(&format!("  {name:width$} {count:>12}\n"));
    }
    if unknown.len() > SHOWN {
        text.push_str(&format!("  and {} more names: --json has all\n", unknown.len() - SHOWN));
    }
    text.push_str(&format!("{}: {} events\n", trace.display(), outcome.events));
    text
}
