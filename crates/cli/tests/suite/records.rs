//! `xweave records` as it is used.

use std::{path::Path, process::Command};

use xweave_trace::{Domain, Event, Manifest, Site, Writer, event::Kind as EventKind};
use xweave_wire::record::{Kind, Record};

/// Exit status, what it printed, and what it complained about.
fn xweave(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xweave")).current_dir(folder).args(arguments).output();
    let output = output.expect("xweave runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A folder with three traces: `stored` has a record, `idle` was woven alike and has none, and `events` has events.
fn traces() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let manifest = Manifest { domains, ..Manifest::default() };
    let mut stored = Writer::create(&folder.path().join("stored"), manifest.clone()).expect("a trace");
    let site = Site {
        site: 1,
        domain: "host".into(),
        advice: "sent".into(),
        function: "tcp_sendmsg".into(),
        values: vec!["size".into()],
        ..Site::default()
    };
    stored.sites(std::slice::from_ref(&site)).expect("sites");
    let mut idle = Writer::create(&folder.path().join("idle"), manifest.clone()).expect("a trace");
    idle.sites(&[site]).expect("sites");
    idle.finish().expect("it is written");
    let (kind, values) = (Kind::Hop, vec![1448]);
    let record = Record { time_ns: 0, flow: 0, site: 1, pid: 7, tid: 7, cpu: 0, kind, comm: [0; 16], values };
    stored.append(1, 1_000, &record).expect("a record");
    stored.finish().expect("it is written");
    let mut events = Writer::create(&folder.path().join("events"), manifest).expect("a trace");
    events.event(Event::new(EventKind::Switch, 1, 1_000, 0, 7)).expect("an event");
    events.finish().expect("it is written");
    folder
}

#[test]
fn what_was_stored_is_shown() {
    let folder = traces();
    let (status, printed, said) = xweave(folder.path(), &["records", "stored"]);
    assert_eq!((status, said.as_str()), (Some(0), ""));
    assert!(printed.contains("host    sent    tcp_sendmsg  size         1  1 448  1 448"), "{printed}");
    let (status, printed, _) = xweave(folder.path(), &["records", "stored", "--json", "--hist", "size"]);
    let document: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((status, &document["schema"], &document["bits"][11]), (Some(0), &2.into(), &1.into()));
}

#[test]
fn what_there_is_not_is_told_with_what_there_is() {
    let folder = traces();
    for (arguments, status, words) in [
        (
            &["records", "stored", "--of", "sennt"][..],
            1,
            "has no advice or function sennt that stores anything: did you mean sent?",
        ),
        (&["records", "stored", "--hist", "len"], 1, "no record has a value called len: there is only size"),
        (
            &["records", "stored", "--by", "v2"],
            1,
            "no record has a value called v2: there are cpu, domain, process, size",
        ),
        (&["records", "events"], 1, "it has events, which `xweave explain events` is for"),
        (&["records", "idle"], 1, "idle has no records: nothing passed tcp_sendmsg while this was recorded"),
        (&["records", "nowhere"], 2, "is not a trace"),
    ] {
        let (found, printed, said) = xweave(folder.path(), arguments);
        assert!(found == Some(status) && said.contains(words), "{arguments:?}: {found:?}: {said}");
        assert_eq!(printed, "");
    }
    // Each trace names the command that fits it.
    for (trace, command) in
        [("stored", "see `xweave records stored`"), ("events", "see `xweave explain events`")]
    {
        let (status, printed, said) = xweave(folder.path(), &["flows", trace]);
        assert!(said.contains(command) && printed.starts_with("0 flows followed"), "{said}: {printed}");
        assert_eq!(status, Some(0));
    }
}
