//! Transactions divided at the places that they pass, and by how much data they carry, as terminals of 80 and of 160
//! columns show them; and their documents.

use serde_json::{Value, json};
use xweave_flow::Join;
use xweave_model::{Between, Intervals, Outcome, Sizes, Spec, explain, parts::Totals};
use xweave_report::{
    View,
    document::divided::{build_intervals, build_points, build_sizes},
    intervals,
    page::Contents,
    sizes, transactions, words,
};
use xweave_trace::{
    Domain, Manifest, Trace, Writer,
    event::{Access, Event, Kind, State},
};

/// Reads of one thread, each in the disk's queue for 100 µs, in the disk for so long, and until the thread is woken and
/// runs 30 µs more; so many bytes. The last one never ends.
const READS: [(i64, u64); 4] = [(900, 4096), (1_100, 4096), (7_000, 256 << 10), (1, 512)];

fn reads() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "vm1".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let name = writer.name("postgres");
    let mut event = |time_us: i64, kind, tid, with: &dyn Fn(&mut Event)| {
        let mut event = Event::new(kind, 1, time_us * 1000, 0, tid);
        with(&mut event);
        writer.event(event).unwrap();
    };
    event(0, Kind::Thread, 0, &|event| (event.other, event.object, event.name) = (7, 7, name));
    event(1, Kind::Switch, 0, &|event| event.other = 7);
    let mut time = 10;
    for (which, (took, bytes)) in (1..).zip(READS) {
        let disk = |event: &mut Event| {
            (event.object, event.position, event.bytes) = (254 << 20, 80, bytes);
            (event.other, event.code) = (which, Access::Read.code());
        };
        event(time, Kind::DiskQueue, 7, &disk);
        event(time + 2, Kind::Switch, 7, &|event| event.code = State::Blocked.code());
        if bytes == 512 {
            break;
        }
        event(time + 100, Kind::DiskIssue, 0, &disk);
        time += 100 + took;
        event(time, Kind::IrqEnter, 0, &|event| event.object = 33);
        event(time, Kind::DiskComplete, 0, &disk);
        event(time, Kind::Wake, 0, &|event| event.other = 7);
        event(time + 5, Kind::IrqExit, 0, &|event| event.object = 33);
        event(time + 30, Kind::Switch, 0, &|event| event.other = 7);
        time += 100;
    }
    writer.finish().unwrap();
    dir
}

fn gone_through() -> (Totals, Intervals, Sizes, Outcome) {
    let dir = reads();
    let spec = Spec::Between(Between::of_points("disk_queue,disk_issue@vm1,disk_complete").unwrap());
    let trace = Trace::open(dir.path()).unwrap();
    let (mut totals, mut sizes) = (Totals::default(), Sizes::default());
    let mut intervals = Intervals::of(&spec).unwrap();
    let outcome = explain(&trace, &spec, &mut |transaction, objects| {
        totals.add(&transaction, objects);
        intervals.add(&transaction, objects);
        sizes.add(&transaction, objects);
    });
    (totals, intervals, sizes, outcome)
}

#[test]
fn the_time_from_place_to_place_and_by_size_sums_to_the_whole() {
    let (totals, intervals, sizes, outcome) = gone_through();
    for (width, expected) in
        [(80, include_str!("../divided/80.txt")), (160, include_str!("../divided/160.txt"))]
    {
        let view = View { width, color: false };
        let text = intervals::text(&intervals, &totals, &outcome, view);
        assert_eq!(format!("{text}\n{}", sizes::table(&sizes, 4, view)), expected);
    }
}

#[test]
fn what_carries_no_data_that_is_known_is_said_to() {
    let text = sizes::table(&Sizes::default(), 4, View { width: 80, color: false });
    assert!(text.starts_with("How much data these transactions carried is not known"), "{text}");
}

#[test]
fn the_slowest_have_their_sizes() {
    let dir = reads();
    let trace = Trace::open(dir.path()).unwrap();
    let mut found = Vec::new();
    let spec: Spec = "between:disk_queue..disk_complete".parse().unwrap();
    let outcome = explain(&trace, &spec, &mut |transaction, _| found.push(transaction));
    let text = transactions::table(&found[2..], &outcome.objects, View { width: 160, color: false });
    assert_eq!(
        text,
        "\
ID  Transaction                  Domain     Time  Sent  Received  Largest part
 3  disk_queue .. disk_complete  vm1     7.10 ms   0 B   256 KiB  7.00 ms device: disk 254:0, vm1
"
    );
}

#[test]
fn documents_have_the_same() {
    let (totals, intervals, sizes, outcome) = gone_through();
    let told = build_intervals(&intervals);
    assert_eq!(told.iter().map(|interval| interval.figures.times.total_ns).sum::<u64>(), totals.ns());
    let told = serde_json::to_value(&told).unwrap();
    assert_eq!((&told[1]["from"], &told[1]["to"]), (&"disk_issue@vm1".into(), &"disk_complete".into()));
    assert_eq!((&told[0]["p99_ns"], &told[1]["p99_ns"]), (&100_000.into(), &7_000_000.into()));
    assert_eq!(
        (&told[1]["parts"][0]["state"], &told[1]["parts"][0]["ns"]),
        (&"device".into(), &9_000_000.into())
    );
    let told = serde_json::to_value(build_points(&intervals, &outcome)).unwrap();
    assert_eq!(
        told,
        json!([
            {"point": "disk_queue", "passed": 4, "reached": 4},
            {"point": "disk_issue@vm1", "passed": 3, "reached": 3},
            {"point": "disk_complete", "passed": 3, "reached": 3},
        ])
    );
    let told = serde_json::to_value(build_sizes(&sizes)).unwrap();
    assert_eq!(told.as_array().map(Vec::len), Some(2));
    assert_eq!((&told[0]["least_bytes"], &told[0]["most_bytes"]), (&4096.into(), &8191.into()));
    assert_eq!((&told[0]["transactions"], &told[0]["received_bytes"]), (&2.into(), &8192.into()));
    assert_eq!(
        (&told[1]["max_ns"], &told[1]["causes"][0]["what"]),
        (&7_100_000.into(), &"disk I/O of vm1".into())
    );
}

/// The whole of a list that a page has the first of.
fn whole(cut: &Value) -> &Value {
    assert_eq!(cut["of"], cut["all"].as_array().unwrap().len());
    &cut["all"]
}

/// The same with the lists of its entries, which a page has the first of, as they are.
fn with_lists(told: &Value, lists: &[&str], without: &[&str]) -> Value {
    let entry = |entry: &Value| {
        let mut entry = entry.clone();
        lists.iter().for_each(|list| entry[*list] = whole(&entry[*list]).clone());
        without.iter().for_each(|key| drop(entry.as_object_mut().unwrap().remove(*key)));
        entry
    };
    whole(told).as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn a_page_has_the_same_and_levels_of_detail_that_count_all() {
    let (totals, intervals, sizes, outcome) = gone_through();
    let dir = reads();
    let spec = Spec::Between(Between::of_points("disk_queue,disk_issue@vm1,disk_complete").unwrap());
    let trace = Trace::open(dir.path()).unwrap();
    let contents = Contents::of(&trace, "reads".into(), std::slice::from_ref(&spec), &|| Join::of(&trace));
    assert!(contents.lacking().is_none());
    let told = &json!(contents.document())["explained"][0];
    assert_eq!(told["transaction"], spec.to_string());
    assert_eq!(with_lists(&told["sizes"], &["causes"], &[]), json!(build_sizes(&sizes)));
    assert_eq!(whole(&told["points"]), &json!(build_points(&intervals, &outcome)));
    let levels = ["bins", "by_size"];
    assert_eq!(
        with_lists(&told["intervals"], &["causes", "parts"], &levels),
        json!(build_intervals(&intervals))
    );
    // Two reads of 4 KiB, 1 ms and 1.2 ms, and one of 256 KiB.
    let cells = json!([[0, 0, 1, 1, 1_000_000], [0, 1, 1, 2, 1_200_000], [1, 2, 1, 3, 7_100_000]]);
    assert_eq!(told["by_size"]["cells"], cells);
    assert_eq!(told["by_size"]["bytes"], json!([[4096, 4608], [256 << 10, 288 << 10]]));
    let queued = &told["intervals"]["all"][0];
    assert_eq!(queued["by_size"]["cells"], json!([[0, 0, 2, 1, 100_000], [1, 0, 1, 3, 100_000]]));
    assert_eq!(queued["bins"].as_array().map(Vec::len), Some(1));
    // What kept them over time is what kept them.
    let over_time = &told["over_time"];
    let sum = |list: &Value| list.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum(&over_time["transactions"]), 3);
    let causes = over_time["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| (cause["what"].clone(), sum(&cause["ns"])));
    let expected = totals
        .causes()
        .into_iter()
        .map(|cause| (json!(words::causes::delay(&cause.delay).to_string()), cause.ns));
    assert_eq!(causes.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn a_page_is_told_to_lack_what_was_asked_for() {
    let dir = reads();
    let trace = Trace::open(dir.path()).unwrap();
    let spec: Spec = "request:80".parse().unwrap();
    let contents = Contents::of(&trace, "reads".into(), std::slice::from_ref(&spec), &|| Join::of(&trace));
    assert_eq!(contents.lacking().map(|(of, outcome)| (of, outcome.transactions)), Some((&spec, 0)));
}
