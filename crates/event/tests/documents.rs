//! What the documents say of events is what the catalogue says.

use std::{fs, path::PathBuf};

use xweave_event::{Group, Kind, document};

/// Set to write the documents instead of comparing them.
const WRITE: &str = "XWEAVE_WRITE_DOCUMENTS";

fn document(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

#[test]
fn the_trace_format_has_the_table_of_kinds() {
    const BEGIN: &str = "<!-- kinds of events, from crates/event -->\n\n";
    const END: &str = "\n<!-- end -->";
    let path = document("trace-format.md");
    let text = fs::read_to_string(&path).unwrap();
    let begin = text.find(BEGIN).unwrap() + BEGIN.len();
    let end = begin + text[begin..].find(END).unwrap();
    let made = document::kinds();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, format!("{}{made}{}", &text[..begin], &text[end..])).unwrap();
    } else {
        let message = "write it anew: XWEAVE_WRITE_DOCUMENTS=1 cargo test -p xweave-event";
        assert_eq!(text[begin..end], made, "{message}");
    }
}

#[test]
fn the_table_of_groups_has_each_kind_in_its_group() {
    let text = fs::read_to_string(document("events.md")).unwrap();
    let mut rows: Vec<(Group, String)> = Vec::new();
    for line in text.lines().skip_while(|line| !line.starts_with("| group |")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, group, kinds, ..] = cells[..] else { break };
        match Group::ALL.into_iter().find(|of| group == format!("`{}`", of.name())) {
            Some(of) => rows.push((of, kinds.to_owned())),
            None if group.is_empty() => rows.last_mut().unwrap().1 += kinds,
            None => {}
        }
    }
    assert_eq!(rows.iter().map(|(group, _)| *group).collect::<Vec<_>>(), Group::ALL);
    // Threads' names come with all groups, and keys only where they are asked for.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Key) {
        let Some(group) = kind.group() else { continue };
        let row = &rows.iter().find(|(of, _)| *of == group).unwrap().1;
        assert!(row.contains(&format!("`{kind}`")), "{kind} is not in the row of {}", group.name());
    }
}
