//! The page's document: what it has of a trace, and that it stays small whatever a trace has.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod made_up;

use std::path::Path;

use xweave_flow::{Flows, Join};
use xweave_report::{
    page::{self, Contents},
    places,
};
use xweave_trace::{Domain, Event, Manifest, Site, Trace, Writer, event::Kind as EventKind};
use xweave_wire::record::{Kind, Record};

fn contents<'a>(trace: &'a Trace, title: &str) -> Contents<'a> {
    Contents::of(trace, title, &[], &|| Join::of(trace))
}

#[test]
fn the_first_finding_is_what_the_terminal_says_first() {
    let dir = tempfile::tempdir().unwrap();
    let trace = made_up::write(dir.path(), 100, true);
    let contents = contents(&trace, "made up");
    let flows = Flows::of(&trace);
    let kind = flows.kind_of(flows.typical().unwrap()).unwrap();
    let headline = places::headline(kind, flows.places_of(kind));
    let finding = &contents.value()["findings"][0];
    assert_eq!(
        [&finding["title"], &finding["text"]],
        [headline.lines().next().unwrap(), headline.lines().nth(1).unwrap()]
    );
    assert_eq!(finding["link"][1], *kind.name);
    let remarks = contents.value()["remarks"]["all"].to_string();
    assert!(remarks.contains("14 incomplete flows"), "{remarks}");
}

#[test]
fn of_many_flows_there_is_a_choice_and_all_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = made_up::write(dir.path(), 3_000, false);
    let contents = contents(&trace, "made up");
    let flows = &contents.value()["flows"];
    assert_eq!(flows["summary"]["flows"], 3_000);
    let kind = &flows["kinds"]["all"][0];
    let bins = flows["distributions"]["all"][0]["bins"].as_array().unwrap();
    let counted: u64 = bins.iter().map(|bin| bin["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, kind["complete"].as_u64().unwrap());
    let shown = flows["flows"].as_array().unwrap();
    assert!(shown.len() > 200 && shown.len() < 1_000, "{}", shown.len());
    let length =
        |flow: &serde_json::Value| flow["end_ns"].as_i64().unwrap() - flow["start_ns"].as_i64().unwrap();
    assert_eq!(shown.iter().map(length).max(), kind["max_ns"].as_i64());
}

/// A trace whose names are as long as they may be, and many, and all signs that take most room.
fn long_names(dir: &Path) -> Trace {
    const SITES: u32 = 3_000;
    let name = |nth: u32| format!("{}{nth}", "<".repeat(2_000));
    let domain = |number: u8| Domain { name: name(number.into()), number, ..Domain::default() };
    let manifest = Manifest {
        domains: (1..=40).map(domain).collect(),
        warnings: (0..500).map(name).collect(),
        command: (0..500).map(name).collect(),
        ..Manifest::default()
    };
    let mut writer = Writer::create(dir, manifest).unwrap();
    let site = |site: u32| Site {
        site,
        domain: name(site % 40 + 1),
        function: name(site),
        file: Some(name(site)),
        xflow: Some(name(site % 500)),
        ..Site::default()
    };
    writer.sites(&(1..=SITES).map(site).collect::<Vec<_>>()).unwrap();
    for nth in 0..SITES * 2 {
        let (flow, kind) = (
            1 << 56 | u64::from(nth / 6 + 1),
            [Kind::Start, Kind::Hop, Kind::Hop, Kind::Hop, Kind::Hop, Kind::Quit][nth as usize % 6],
        );
        let time_ns = u64::from(nth) * 1_000;
        let record = Record {
            time_ns,
            flow,
            site: nth % SITES + 1,
            pid: 1,
            tid: 1,
            cpu: 0,
            kind,
            comm: [b'<'; 16],
            values: vec![u64::MAX; 7],
        };
        writer.append(1, time_ns.cast_signed(), &record).unwrap();
    }
    for nth in 0..20_000_i64 {
        let name = writer.name(&format!("{}{}", "<".repeat(200), nth % 2_000));
        let tid = u32::try_from(nth % 2_000 + 1).unwrap();
        let event =
            Event { name, object: tid.into(), ..Event::new(EventKind::Thread, 1, nth * 1_000, 0, tid) };
        writer.event(Event { other: tid, ..event }).unwrap();
        let next = (tid % 2_000) + 1;
        writer
            .event(Event { other: next, ..Event::new(EventKind::Switch, 1, nth * 1_000 + 500, 0, tid) })
            .unwrap();
    }
    writer.finish().unwrap();
    Trace::open(dir).unwrap()
}

#[test]
fn a_page_stays_small_whatever_is_in_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let trace = long_names(dir.path());
    let contents = contents(&trace, "<title>");
    let page = page::html("<title>", contents.against(&trace, "before").value());
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    assert!(page.contains("<title>&lt;title&gt;</title>"));
    assert_eq!(page.matches("<script").count(), 2);
}
