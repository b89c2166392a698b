//! The table of `docs/kernels.md`: kernels, and what of the library works on each.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use xweave_lab::Flavour;
use xweave_programs::coverage;
use xweave_weave::{Coverage, CoveredPart};

use crate::error::{At as _, Error};
use crate::known;

const DOCUMENT: &str = "docs/kernels.md";
const BEGIN: &str = "<!-- make kernels: begin -->";
const END: &str = "<!-- make kernels: end -->";

/// The series that `make test` boots: `KERNELS` of the Makefile.
const TESTED: [&str; 3] = ["6.12", "6.1", "7.3"];

/// Writes the table into the document.
pub fn write(root: &Path) -> Result<(), Error> {
    let path = root.join(DOCUMENT);
    let (_, current) = compare(root)?;
    fs::write(&path, current).at(&path)
}

/// Returns the document, and the document with a current table.
fn compare(root: &Path) -> Result<(String, String), Error> {
    let path = root.join(DOCUMENT);
    let text = fs::read_to_string(&path).at(&path)?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let Some((before, after)) = parts else { return Err(Error::NoTable { path, begin: BEGIN, end: END }) };
    let mut judged = Vec::new();
    for kernel in known::read(root)? {
        judged.push((kernel.release().to_owned(), coverage(&kernel)?));
    }
    let current = format!("{before}{BEGIN}\n\n{}\n{END}{after}", render(&judged));
    Ok((text, current))
}

/// Kernels with what works on them, as two tables, and what each cell means that is not `whole`.
fn render(judged: &[(String, Vec<Coverage>)]) -> String {
    let mut notes = Vec::new();
    let aspects = |part: &CoveredPart| match part {
        CoveredPart::Aspect(name, _) => Some((*name).to_owned()),
        _ => None,
    };
    let others = |part: &CoveredPart| match part {
        CoveredPart::Aspect(..) => None,
        CoveredPart::Events(group) => Some(format!("events {}", group.name())),
        CoveredPart::Merge(_) => Some("merge".to_owned()),
    };
    let mut text = rows(judged, &aspects, &mut notes);
    text.push('\n');
    text += &rows(judged, &others, &mut notes);
    if !notes.is_empty() {
        text.push('\n');
    }
    for (nth, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "{}. {note}", nth + 1);
    }
    text
}

/// A table whose columns are what `column` names; notes are added, each once.
fn rows(
    judged: &[(String, Vec<Coverage>)],
    column: &dyn Fn(&CoveredPart) -> Option<String>,
    notes: &mut Vec<String>,
) -> String {
    let mut columns: Vec<String> = Vec::new();
    for name in judged.iter().flat_map(|(_, parts)| parts).filter_map(|of| column(&of.part)) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let mut text = format!("| Kernel | {} |\n|---{}|\n", columns.join(" | "), "|---".repeat(columns.len()));
    for (release, parts) in judged {
        let cell = |name: &String| {
            let of: Vec<_> = parts.iter().filter(|of| column(&of.part).as_ref() == Some(name)).collect();
            cell(&of, notes)
        };
        let cells: Vec<_> = columns.iter().map(cell).collect();
        let is_tested = TESTED.contains(&xweave_lab::series_of(release)) && !Flavour::Realtime.has(release);
        let release = if is_tested { format!("**{release}**") } else { release.clone() };
        let _ = writeln!(text, "| {release} | {} |", cells.join(" | "));
    }
    text
}

/// What a cell says of parts that share it, as an aspect's in a host and in a guest.
fn cell(parts: &[&Coverage], notes: &mut Vec<String>) -> String {
    let mut said = Vec::new();
    for of in parts.iter().filter(|of| !of.verdict.reasons().is_empty()) {
        // Behind the name is a guess at why a running kernel may lack it.
        let reasons = of.verdict.reasons().iter().filter_map(|reason| reason.split(';').next());
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let note = format!("{}, {}: {reasons}", of.part, of.verdict.word());
        let known = notes.iter().position(|known| *known == note);
        let nth = known.unwrap_or_else(|| {
            notes.push(note);
            notes.len() - 1
        });
        said.push(format!("{} ({})", of.verdict.word(), nth + 1));
    }
    if said.is_empty() { "whole".to_owned() } else { said.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xweave_programs::COMPILED_FOR;
    use xweave_weave::{Role, Verdict};

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

    #[test]
    fn the_table_is_current() {
        let (there, current) = compare(Path::new(ROOT)).unwrap();
        assert!(there == current, "{DOCUMENT} is not current: `make kernels` writes its table anew");
    }

    #[test]
    fn the_kernels_that_are_told_as_tested_are_those_that_make_test_boots() {
        let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
        let line = makefile.lines().find(|line| line.starts_with("KERNELS")).unwrap();
        let tested: Vec<_> = line.split_whitespace().skip(2).collect();
        assert_eq!(tested, TESTED);
        assert!(TESTED.iter().all(|series| COMPILED_FOR.contains(series)));
    }

    #[test]
    fn what_is_not_whole_is_explained_once() {
        let refused = |part| Coverage { part, verdict: Verdict::Refused(vec!["no `x`".into()]) };
        let guest = CoveredPart::Aspect("net", Role::Guest);
        let whole = Coverage { part: CoveredPart::Aspect("net", Role::Host), verdict: Verdict::Whole };
        let judged = [
            ("6.1.0-1-amd64".to_owned(), vec![whole.clone(), refused(guest)]),
            ("6.5.0-1-amd64".to_owned(), vec![whole.clone(), refused(guest)]),
            ("6.6.0-1-amd64".to_owned(), vec![whole]),
        ];
        assert_eq!(
            render(&judged),
            "| Kernel | net |\n|---|---|\n| **6.1.0-1-amd64** | refused (1) |\n| 6.5.0-1-amd64 | refused (1) |\n\
             | 6.6.0-1-amd64 | whole |\n\n| Kernel |  |\n|---|\n| **6.1.0-1-amd64** |  |\n| 6.5.0-1-amd64 |  |\n\
             | 6.6.0-1-amd64 |  |\n\n1. net in a guest, refused: no `x`\n"
        );
    }
}
