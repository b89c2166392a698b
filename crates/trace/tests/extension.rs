//! A domain that is added to a trace which was ended.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod made;

use std::{fs, path::Path};

use made::{fill, manifest, segments};
use xweave_trace::{Clock, Domain, Event, Trace, Writer, event};

/// A trace that was ended, and a domain that is added to it.
fn added_to(dir: &Path) -> Writer {
    let mut writer = Writer::create(dir, manifest()).unwrap();
    fill(&mut writer, 1, 10);
    writer.event(Event::new(event::Kind::Wake, 2, 40, 0, 7)).unwrap();
    writer.finish().unwrap();
    let domain = Domain { name: "xen".into(), ..Domain::default() };
    Writer::extend(dir, domain, Clock { domain: "xen".into(), ..Clock::default() }, false).unwrap()
}

#[test]
fn a_domain_can_be_added_to_a_trace_and_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("trace");
    let mut writer = added_to(&dir);
    assert!(Trace::open(&dir).unwrap().manifest().domains[2].exit.is_none(), "until it is finished");
    for time in 0..70_000 {
        writer.event(Event::new(event::Kind::Switch, 3, time, 0, 1)).unwrap();
    }
    writer.flush().unwrap();
    fill(&mut writer, 3, 5);
    let trace = Trace::open(&dir).unwrap();
    assert_eq!(
        (trace.manifest().domains[2].number, trace.events().count()),
        (3, 70_001),
        "readable meanwhile"
    );
    // One group is in a file that has no name yet.
    for time in 70_000..140_000 {
        writer.event(Event::new(event::Kind::Switch, 3, time, 0, 1)).unwrap();
    }
    writer.withdraw().unwrap();
    let trace = Trace::open(&dir).unwrap();
    let manifest = trace.manifest();
    assert!(manifest.complete && manifest.domains.len() == 2 && manifest.clocks.len() == 1);
    assert_eq!((manifest.records, manifest.events), (10, 1));
    assert_eq!((trace.rows().0.len(), trace.events().count()), (10, 1));
    let left = fs::read_dir(dir.join("events")).unwrap().count() + segments(&dir).len();
    assert_eq!(left, 2, "no file is left");

    let domain = Domain { name: "xen".into(), ..Domain::default() };
    let mut writer = Writer::extend(&dir, domain, Clock::default(), false).unwrap();
    fill(&mut writer, 3, 5);
    writer.event(Event::new(event::Kind::Switch, 3, 41, 0, 1)).unwrap();
    let manifest = writer.finish().unwrap();
    assert_eq!((manifest.complete, manifest.records, manifest.events), (true, 15, 2));
    let trace = Trace::open(&dir).unwrap();
    assert_eq!((trace.rows().0.len(), trace.events().count()), (15, 2));
}
