//! What people see of transactions.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use xweave_model::{Spec, explain, parts::Totals};
use xweave_report::{View, mermaid, transactions};
use xweave_trace::{
    Domain, Manifest, Trace, Writer,
    event::{Event, Kind, State},
};

const VIEW: View = View { width: 120, color: false };

/// A thread asks another, which another one keeps from its processor, and waits for it.
fn asked() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "vm1".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let mut event = |time_us: i64, kind, cpu, tid, name: &str, with: fn(&mut Event)| {
        let name = writer.name(name);
        let mut event = Event { name, ..Event::new(kind, 1, time_us * 1000, cpu, tid) };
        with(&mut event);
        writer.event(event).unwrap();
    };
    event(0, Kind::Thread, 0, 0, "client", |event| (event.other, event.object) = (7, 7));
    event(0, Kind::Thread, 0, 0, "server", |event| (event.other, event.object) = (8, 8));
    event(0, Kind::Thread, 0, 0, "hog", |event| (event.other, event.object) = (9, 9));
    event(1, Kind::Switch, 0, 0, "", |event| event.other = 7);
    event(1, Kind::Switch, 1, 0, "", |event| event.other = 9);
    event(10, Kind::Other, 0, 7, "ask", |_| ());
    event(12, Kind::Wake, 0, 7, "", |event| event.other = 8);
    event(14, Kind::Switch, 0, 7, "", |event| event.code = State::Sleeping.code());
    event(1012, Kind::Switch, 1, 9, "", |event| event.other = 8);
    event(1212, Kind::Wake, 1, 8, "", |event| event.other = 7);
    event(1215, Kind::Switch, 0, 0, "", |event| event.other = 7);
    event(1220, Kind::Other, 0, 7, "answered", |_| ());
    writer.finish().unwrap();
    dir
}

#[test]
fn tables_say_who_took_the_time() {
    let dir = asked();
    let trace = Trace::open(dir.path()).unwrap();
    let spec: Spec = "between:ask..answered".parse().unwrap();
    let (mut totals, mut all) = (Totals::default(), Vec::new());
    let outcome = explain(&trace, &spec, &mut |transaction, objects| {
        totals.add(&transaction, objects);
        all.push(transaction);
    });
    let text = transactions::totals(&totals, &spec.to_string(), VIEW);
    assert_eq!(
        text.lines().collect::<Vec<_>>()[..5],
        [
            "1 transaction (between:ask..answered): p50 1.21 ms, p99 1.21 ms, max 1.21 ms",
            "",
            "Domain  Object  State        Time   Share  Count  Why",
            "vm1     server  ready    998.0 µs  82.5 %      1  hog had the processor",
            "vm1     server  running  200.0 µs  16.5 %      1"
        ],
        "{text}"
    );
    let text = transactions::table(&all, &outcome.objects, VIEW);
    assert!(text.contains("998.0 µs of server/8, vm1, ready: hog/9 had the processor"), "{text}");
    let text = transactions::steps(&all[0], &outcome.objects, VIEW);
    assert!(text.starts_with("1 ask .. answered: 1.21 ms\n"), "{text}");
    assert!(text.contains("  server/8"), "who works for others is moved in: {text}");
}

#[test]
fn a_sequence_diagram_has_the_basic_events() {
    let dir = asked();
    let trace = Trace::open(dir.path()).unwrap();
    let mut text = String::new();
    explain(&trace, &"between:ask..answered".parse::<Spec>().unwrap(), &mut |transaction, objects| {
        text = mermaid::diagram(&transaction, objects);
    });
    assert_eq!(
        text,
        "sequenceDiagram
    participant o0 as vm1: client/7
    participant o1 as vm1: server/8
    Note over o0: ask .. answered, 0 µs
    o0->>+o1: Request 4.0 µs
    Note over o1: Accept 1 002.0 µs
    o1-->>-o0: Finish 1 202.0 µs
    Note over o0: Resume 1 205.0 µs
    Note over o1: until 1 002.0 µs: hog/9 had the processor
    Note over o0: end, 1 210.0 µs
"
    );
}
