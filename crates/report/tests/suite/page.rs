//! The page's document: what it has of a trace, and that it stays small whatever a trace has.

use crate::made_up;
use std::path::Path;

use serde_json::json;
use xweave_flow::{Flows, Join};
use xweave_model::{Between, DefaultSpec, Spec};
use xweave_report::{
    next,
    page::{self, Contents},
    places,
};
use xweave_synthetic::{Config, Simulation};
use xweave_trace::{
    Domain, Event, Manifest, Role, Site, Trace, Writer,
    event::{Access, Kind as EventKind, State},
};
use xweave_vary::Variation;
use xweave_wire::record::{Kind, Record};

fn contents<'a>(trace: &'a Trace, title: &str) -> Contents<'a> {
    Contents::of(trace, title.into(), &[], &|| Join::of(trace))
}

#[test]
fn the_first_finding_is_what_the_terminal_says_first() {
    let dir = tempfile::tempdir().unwrap();
    let trace = made_up::write(dir.path(), 100, true);
    let contents = contents(&trace, "made up");
    let flows = Flows::of(&trace);
    let kind = flows.kind_of(flows.typical().unwrap()).unwrap();
    let headline = places::headline(kind, flows.places_of(kind));
    let document = json!(contents.document());
    let finding = &document["findings"][0];
    assert_eq!(
        [&finding["title"], &finding["text"]],
        [headline.lines().next().unwrap(), headline.lines().nth(1).unwrap()]
    );
    assert_eq!(finding["link"][1], *kind.name);
    let remarks = document["remarks"]["all"].to_string();
    assert!(remarks.contains("14 incomplete flows"), "{remarks}");
}

#[test]
fn of_many_flows_there_is_a_choice_and_all_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = made_up::write(dir.path(), 3_000, false);
    let contents = contents(&trace, "made up");
    let flows = &json!(contents.document())["flows"];
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
    let page = page::html("<title>", contents.against(&trace, "before").document());
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    assert!(page.contains("<title>&lt;title&gt;</title>"));
    assert_eq!(page.matches("<script").count(), 2);
}

/// One process that reads 4 MiB, in requests of so many bytes, each of which takes 3 ms.
fn reads(dir: &Path, bytes: u64) -> Trace {
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir, Manifest { domains, ..Manifest::default() }).unwrap();
    let name = writer.name("reader");
    let mut event = |time_us: u64, kind, tid, with: &dyn Fn(&mut Event)| {
        let mut event = Event::new(kind, 1, time_us.cast_signed() * 1000, 0, tid);
        with(&mut event);
        writer.event(event).unwrap();
    };
    event(0, EventKind::Fork, 0, &|event| (event.other, event.object, event.name) = (7, 7, name));
    event(1, EventKind::Switch, 0, &|event| event.other = 7);
    let requests = (4 << 20) / bytes;
    for nth in 0..requests {
        let time = 10 + nth * 3_100;
        let disk = |event: &mut Event| {
            (event.object, event.position, event.bytes) = (254 << 20, nth * bytes / 512, bytes);
            (event.other, event.code) = (u32::try_from(nth).unwrap(), Access::Read.code());
        };
        event(time, EventKind::DiskQueue, 7, &disk);
        event(time + 1, EventKind::DiskIssue, 7, &disk);
        event(time + 2, EventKind::Switch, 7, &|event| event.code = State::Blocked.code());
        event(time + 3_000, EventKind::DiskComplete, 0, &disk);
        event(time + 3_000, EventKind::Wake, 0, &|event| event.other = 7);
        event(time + 3_010, EventKind::Switch, 0, &|event| event.other = 7);
    }
    event(10 + requests * 3_100, EventKind::Exit, 7, &|_| ());
    writer.finish().unwrap();
    Trace::open(dir).unwrap()
}

#[test]
fn of_two_runs_what_changed_is_found_first_and_both_are_told_by_size_and_program() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (first, second) = (reads(dirs[0].path(), 64 << 10), reads(dirs[1].path(), 4 << 10));
    let asked = [
        Spec::Between(Between::of_points("disk_queue,disk_issue,disk_complete").unwrap()),
        "process".parse().unwrap(),
    ];
    let contents =
        Contents::of(&second, "second".into(), &asked, &|| Join::of(&second)).against(&first, "first");
    let told = json!(contents.document());
    let finding = &told["findings"][0];
    assert_eq!(finding["link"], json!(["compare"]));
    let title = finding["title"].as_str().unwrap();
    assert!(title.contains("16 × the requests for the same bytes"), "{title}");
    assert!(finding["advice"].as_str().unwrap().contains("read-ahead"), "{finding}");
    assert!(told["findings"].as_array().unwrap().len() <= 3);
    assert_eq!(told["findings"][1]["title"].as_str().map(|title| title.contains("3 points")), Some(true));
    let kinds: Vec<String> =
        told["explained"].as_array().unwrap().iter().map(|kind| kind["transaction"].to_string()).collect();
    assert_eq!(kinds.len(), 2, "another of these sorts tells nothing new: {kinds:?}");
    let count = |grid: &serde_json::Value| {
        grid["cells"].as_array().unwrap().iter().map(|cell| cell[2].as_u64().unwrap()).sum::<u64>()
    };
    let transactions = &told["comparison"]["transactions"];
    assert_eq!(
        (count(&transactions[0]["first"]["by_size"]), count(&told["explained"][0]["by_size"])),
        (64, 1_024)
    );
    let programs = [&transactions[1]["first"]["lives"], &told["explained"][1]["lives"]];
    assert_eq!(programs.map(|lives| lives["all"][0]["program"].clone()), ["reader", "reader"]);
    let took = programs.map(|lives| lives["all"][0]["elapsed_ns"].as_u64().unwrap());
    assert!(took[1] > 15 * took[0], "{took:?}");
}

/// The events of a simulated virtual machine.
fn simulated(dir: &Path, transactions: usize) -> Trace {
    let domains = [("host", 1, Role::Host), ("vm1", 2, Role::Guest), ("vm2", 3, Role::Guest)]
        .map(|(name, number, role)| Domain { name: name.into(), number, role, cpus: 3, ..Domain::default() });
    let manifest = Manifest { reference: "host".into(), domains: domains.to_vec(), ..Manifest::default() };
    let mut writer = Writer::create(dir, manifest).unwrap();
    for event in Simulation::new(&Config { transactions, pipelined: 0, ..Config::virtualized(1) }) {
        writer.event(event).unwrap();
    }
    writer.finish().unwrap();
    Trace::open(dir).unwrap()
}

#[test]
fn why_requests_vary_is_told_if_there_are_enough_and_of_very_many_the_slowest_of_each_run_is_drawn() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let few = simulated(dirs[0].path(), 20);
    assert!(contents(&few, "few").document().variation.is_none());
    let many = simulated(dirs[1].path(), 10_000);
    let contents = contents(&many, "many");
    let document = json!(contents.document());
    let told = &document["variation"];
    // Its services are many, of which one is shown.
    let chosen = DefaultSpec::choose(&many).unwrap();
    let (found, requests) = Variation::of(&many, &chosen.spec).unwrap();
    assert_eq!(told["transaction"], chosen.spec.to_string());
    let others = next::other_services(&chosen).unwrap();
    assert!(
        document["remarks"]["all"].as_array().unwrap().contains(&others.into()),
        "{}",
        document["remarks"]
    );
    assert_eq!([&told["requests"], &told["kept"]], [found.requests, found.kept]);
    assert_eq!(told["segments"]["of"], found.segments.len());
    // The requests.
    let (all, each) = (requests.all(), &told["each"]);
    let every = each["every"].as_u64().unwrap();
    assert!(all.len() > 2_000 && every > 1, "{} {every}", all.len());
    let drawn: Vec<usize> = serde_json::from_value(each["number"].clone()).unwrap();
    let slowest =
        all.chunks(usize::try_from(every).unwrap()).map(|run| run.iter().map(|one| one.total_ns).max());
    assert!(slowest.eq(drawn.iter().map(|at| Some(all[*at].total_ns))));
    assert!(drawn.len() <= 2_000 && drawn.is_sorted());
    let most = found.segments.iter().map(|of| of.shares.most()).fold(f64::MIN, f64::max);
    let first = usize::try_from(each["segments"][0]["segment"].as_u64().unwrap()).unwrap();
    assert_eq!(found.segments[first].shares.most().to_bits(), most.to_bits());
    assert_eq!(each["segments"][0]["values"].as_array().unwrap().len(), drawn.len());
    // What is named is one of the findings.
    let findings = document["findings"].as_array().unwrap();
    let leads = findings.iter().any(|finding| finding["link"] == json!(["variation"]));
    assert_eq!(leads, found.causes.iter().any(|cause| cause.named), "{findings:?}");
    assert!(findings.len() <= 3);
}
