//! A trace of schema 1 is still read. The kept one is of a lab's host (Linux 6.12): three pings, twenty blocks written,
//! recorded by the last program that wrote that schema, with
//! `record -e 'execution(icmp_rcv) { STORE_DATA1(skb->len); }' --events block,net,sched`.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

use std::{collections::BTreeMap, fs, path::Path};

use xweave_trace::{Exit, SCHEMA, Trace, event::Kind};

/// A copy that is nobody else's, wherever the repository lies.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

#[test]
fn a_trace_of_schema_1_means_what_it_meant() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("trace");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schema-1"), &dir);
    let text = fs::read_to_string(dir.join("trace.json")).unwrap();
    assert!(text.contains("\"ended\"") && text.contains("\"how\"") && SCHEMA > 1, "{text}");

    let trace = Trace::open(&dir).unwrap();
    assert_eq!(trace.manifest().schema, 1);
    assert_eq!(trace.domain(1).unwrap().exit, Some(Exit::Stopped));
    assert_eq!(trace.site(1).unwrap().function, "icmp_rcv");
    let (rows, damaged) = trace.rows();
    assert!(rows.len() == 3 && damaged.is_empty(), "{rows:?} {damaged:?}");

    let mut events = trace.events();
    let mut counts = BTreeMap::new();
    for event in events.by_ref() {
        *counts.entry(event.kind.name()).or_insert(0u64) += 1;
    }
    assert!(events.damaged().is_empty());
    assert_eq!(counts.values().sum::<u64>(), trace.manifest().events);
    // Kinds that are not known, as what schema 1 called otherwise would be, are called other.
    assert_eq!(counts.get("other"), None, "{counts:?}");
    assert!(counts["disk_complete"] >= 20 && counts["lock_acquired"] > 0, "{counts:?}");
    assert_eq!(
        ["disk_done", "lock_done", "refuse"].map(Kind::named),
        [Some(Kind::DiskComplete), Some(Kind::LockAcquired), Some(Kind::SynDrop)]
    );
}
