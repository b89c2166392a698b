//! Transactions that pass several places, and how much data transactions carry.

use proptest::prelude::*;
use tempfile::TempDir;
use xweave_model::{Between, Bytes, Explained, Intervals, Outcome, Sizes, Spec, explain};
use xweave_trace::{
    Domain, Manifest, Trace, Writer,
    event::{Access, Connection, Event, Kind, Sending},
};

const VM1: u8 = 1;
const VM2: u8 = 2;

/// A trace of two domains: `(microseconds, kind, domain, thread, what else)`.
fn trace(events: impl IntoIterator<Item = (i64, Kind, u8, u32, Event)>) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
    let domains = vec![domain("vm1", VM1), domain("vm2", VM2)];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    for (time, kind, domain, tid, event) in events {
        writer.event(Event { kind, domain, time_ns: time * 1000, tid, ..event }).unwrap();
    }
    writer.finish().unwrap();
    dir
}

fn blank() -> Event {
    Event::new(Kind::Send, VM1, 0, 0, 0)
}

/// Of the client's end of a connection in VM1, or of the server's in VM2.
fn socket(port: u64, server: bool, bytes: u64) -> Event {
    let client = Connection(3 << 32 | port << 16 | 80);
    let end = if server { client.peer() } else { client };
    Event { position: end.0, bytes, ..blank() }
}

fn disk(which: u32, bytes: u64, what: Access) -> Event {
    Event { object: 254 << 20, position: 80, bytes, other: which, code: what.code(), ..blank() }
}

/// What was found, the intervals' sums and that of all.
fn found(dir: &TempDir, spec: &Spec) -> (Vec<Explained>, Vec<u64>, Outcome) {
    let trace = Trace::open(dir.path()).unwrap();
    let mut intervals = Intervals::of(spec);
    let mut all = Vec::new();
    let outcome = explain(&trace, spec, &mut |transaction, objects| {
        intervals.iter_mut().for_each(|intervals| intervals.add(&transaction, objects));
        all.push(transaction);
    });
    let sums = intervals.iter().flat_map(Intervals::all).map(|(.., totals)| totals.ns()).collect();
    (all, sums, outcome)
}

fn points(text: &str) -> Spec {
    Spec::Between(Between::of_points(text).unwrap())
}

const EXCHANGE: &str = "send@vm1,receive@vm2,send@vm2,receive@vm1";

/// A client asks on three connections. The second one's answer is never sent, the third one's request never received.
fn exchanges() -> TempDir {
    let hello = |port, begin: i64| {
        [
            (begin, Kind::Socket, VM1, 7, Event { code: 1, ..socket(port, false, 0) }),
            (begin, Kind::Socket, VM2, 9, Event { code: 1, ..socket(port, true, 0) }),
        ]
    };
    let mut events = Vec::new();
    (40_000..40_003).for_each(|port| events.extend(hello(port, 1)));
    events.extend([
        (10, Kind::Send, VM1, 7, socket(40_000, false, 100)),
        (12, Kind::Send, VM1, 7, socket(40_001, false, 100)),
        (14, Kind::Send, VM1, 7, socket(40_002, false, 100)),
        (20, Kind::Receive, VM2, 9, socket(40_000, true, 60)),
        // What comes of it later is no further request.
        (22, Kind::Receive, VM2, 9, socket(40_000, true, 40)),
        (25, Kind::Receive, VM2, 9, socket(40_001, true, 100)),
        (50, Kind::Send, VM2, 9, Event { code: Sending::Begins.code(), ..socket(40_000, true, 5000) }),
        (55, Kind::Send, VM2, 9, Event { code: Sending::Shortens.code(), ..socket(40_000, true, 1000) }),
        (60, Kind::Send, VM2, 9, socket(40_000, true, 500)),
        (90, Kind::Receive, VM1, 7, socket(40_000, false, 4000)),
        (95, Kind::Receive, VM1, 7, socket(40_000, false, 500)),
    ]);
    trace(events)
}

#[test]
fn each_place_is_passed_in_turn_and_what_misses_one_is_counted() {
    let (all, sums, outcome) = found(&exchanges(), &points(EXCHANGE));
    assert_eq!(all.len(), 1);
    let one = &all[0];
    assert_eq!(one.points, [10_000, 20_000, 50_000, 90_000]);
    assert_eq!((one.start_ns, one.total_ns), (10_000, 80_000));
    assert_eq!(one.name, "send@vm1 .. receive@vm2 .. send@vm2 .. receive@vm1");
    assert_eq!(sums, [10_000, 30_000, 40_000]);
    assert_eq!(outcome.passed, Some(vec![3, 3, 2, 2]));
    assert_eq!(outcome.reached, Some(vec![3, 2, 1, 1]));
}

#[test]
fn places_are_given_with_points_between_them_or_commas() {
    let spec = points(EXCHANGE);
    assert_eq!(spec.to_string(), "between:send@vm1..receive@vm2..send@vm2..receive@vm1");
    assert_eq!(spec.to_string().parse::<Spec>(), Ok(spec));
    let by = points("a,b,c,by=v2");
    assert_eq!(by.to_string(), "between:a..b..c,by=v2");
    assert!(Intervals::of(&points("a,b")).is_none());
    for wrong in ["", "a", "a,,b", "a,b,by=v9", &["a"; 17].join(",")] {
        assert!(Between::of_points(wrong).is_err(), "{wrong}");
    }
}

/// What a connection passes from being asked for to its end, at both machines.
const CONNECTION: &str =
    "socket:syn_sent@vm1,accept@vm2,receive@vm2,send@vm2,receive@vm1,socket:last_ack@vm1,socket:close@vm1";

#[test]
fn a_connection_is_followed_from_one_end_to_the_other_with_what_it_carried() {
    let state = |time, domain, tid, port, code| {
        (time, Kind::Socket, domain, tid, Event { code, ..socket(port, domain == VM2, 0) })
    };
    let mut events = Vec::new();
    for (port, late, answer) in [(40_000, 0, 4000), (40_001, 7, 9000)] {
        events.extend([
            state(10, VM1, 7, port, 2),
            state(20, VM1, 0, port, 1),
            (22, Kind::Send, VM1, 7, socket(port, false, 100)),
            (30 + late, Kind::Accept, VM2, 9, socket(port, true, 0)),
            (40 + late, Kind::Receive, VM2, 9, socket(port, true, 100)),
            (50 + late, Kind::Send, VM2, 9, socket(port, true, answer)),
            state(55 + late, VM2, 9, port, 4),
            (60 + late, Kind::Receive, VM1, 7, socket(port, false, answer)),
            state(65 + late, VM1, 7, port, 8),
            state(70 + late, VM1, 7, port, 9),
            state(80 + late, VM1, 0, port, 7),
        ]);
    }
    events.sort_by_key(|(time, ..)| *time);
    let dir = trace(events);
    let (all, sums, outcome) = found(&dir, &points(CONNECTION));
    assert_eq!(outcome.reached, Some(vec![2; 7]));
    assert_eq!(all[0].points, [10_000, 30_000, 40_000, 50_000, 60_000, 70_000, 80_000]);
    assert_eq!(all[1].points, [10_000, 37_000, 47_000, 57_000, 67_000, 77_000, 87_000]);
    assert_eq!(sums, [47_000, 20_000, 20_000, 20_000, 20_000, 20_000]);
    let carried: Vec<_> = all.iter().map(|one| one.bytes).collect();
    assert_eq!(carried, [4000, 9000].map(|received| Some(Bytes { sent: 100, received })));
    assert_eq!(all[0].name, CONNECTION.replace(',', " .. "));
    // From the end of one domain on, what it sent and received is counted as it sees it.
    let (served, ..) = found(&dir, &points("accept@vm2,receive@vm2,send@vm2"));
    assert_eq!(served[1].bytes, Some(Bytes { sent: 9000, received: 100 }));
    // No state of TCP's is called so.
    assert_eq!(found(&dir, &points("socket:open@vm1,accept@vm2")).2.passed, Some(vec![0, 2]));
}

#[test]
fn a_disk_s_request_is_followed_from_place_to_place_with_its_bytes() {
    let read = disk(11, 4096, Access::Read);
    let events = [
        (100, Kind::DiskQueue, VM1, 7, read),
        (110, Kind::DiskQueue, VM1, 8, disk(12, 8192, Access::Write)),
        (150, Kind::DiskIssue, VM1, 7, read),
        (200, Kind::DiskComplete, VM1, 0, read),
    ];
    let (all, sums, outcome) = found(&trace(events), &points("disk_queue,disk_issue,disk_complete"));
    assert_eq!((all.len(), sums), (1, vec![50_000, 50_000]));
    assert_eq!(all[0].bytes, Some(Bytes { sent: 0, received: 4096 }));
    assert_eq!(outcome.reached, Some(vec![2, 1, 1]));
}

#[test]
fn what_goes_through_a_pipe_has_the_bytes_that_were_written() {
    let pipe = |bytes, code| Event { object: 99, position: 14, bytes, code, ..blank() };
    let events = [
        (10, Kind::PipeWrite, VM1, 7, pipe(300, Sending::Begins.code())),
        (12, Kind::PipeWrite, VM1, 7, pipe(40, Sending::Shortens.code())),
        (20, Kind::PipeRead, VM1, 8, pipe(260, 5_000)),
    ];
    let (all, ..) = found(&trace(events), &points("pipe_write,pipe_read"));
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].total_ns, all[0].bytes), (10_000, Some(Bytes { sent: 300, received: 0 })));
}

#[test]
fn a_request_has_the_bytes_that_were_sent_and_received_for_it() {
    let (all, _, _) = found(&exchanges(), &"request:80".parse().unwrap());
    let bytes: Vec<_> =
        all.iter().map(|one| (one.bytes.unwrap().sent, one.bytes.unwrap().received)).collect();
    assert_eq!(bytes, [(100, 4500)]);
    // The server's view of it, where there is no client: what is not sent of what was told is no part of it.
    let of_server = |event: &(i64, Kind, u8, u32, Event)| event.2 == VM2;
    let events = [
        (1, Kind::Socket, VM2, 9, Event { code: 1, ..socket(40_000, true, 0) }),
        (20, Kind::Receive, VM2, 9, socket(40_000, true, 100)),
        (50, Kind::Send, VM2, 9, Event { code: Sending::Begins.code(), ..socket(40_000, true, 5000) }),
        (55, Kind::Send, VM2, 9, Event { code: Sending::Shortens.code(), ..socket(40_000, true, 1000) }),
    ];
    assert!(events.iter().all(of_server));
    let (all, _, _) = found(&trace(events), &"request:80".parse().unwrap());
    assert_eq!(all[0].bytes, Some(Bytes { sent: 100, received: 4000 }));
}

#[test]
fn transactions_of_like_sizes_are_told_together() {
    let requests = [(600, 10), (1000, 30), (5000, 90), (4096, 70)];
    let events = (1..).zip(requests).flat_map(|(which, (bytes, took))| {
        let (request, begin) = (disk(which, bytes, Access::Write), i64::from(which) * 1000);
        [(begin, Kind::DiskQueue, VM1, 7, request), (begin + took, Kind::DiskComplete, VM1, 0, request)]
    });
    let dir = trace(events);
    let trace = Trace::open(dir.path()).unwrap();
    let mut sizes = Sizes::default();
    let spec: Spec = "between:disk_queue..disk_complete".parse().unwrap();
    explain(&trace, &spec, &mut |transaction, objects| sizes.add(&transaction, objects));
    let told: Vec<_> = sizes
        .all()
        .map(|(least, most, class)| (least, most, class.totals.quantile(1.0), class.bytes.sent))
        .collect();
    assert_eq!(told, [(512, 1023, Some(30_000), 1600), (4096, 8191, Some(90_000), 9096)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes in whatever order, with whatever numbers.
    #[test]
    fn intervals_sum_to_the_transactions_whatever_is_recorded(
        events in prop::collection::vec((0..400_i64, 0..4_usize, 0..3_u64, any::<u64>(), any::<i32>()), 0..120),
    ) {
        let mut events = events;
        events.sort_by_key(|(time, ..)| *time);
        let hello = (40_000..40_003).flat_map(|port| [
            (0, Kind::Socket, VM1, 7, Event { code: 1, ..socket(port, false, 0) }),
            (0, Kind::Socket, VM2, 9, Event { code: 1, ..socket(port, true, 0) }),
        ]);
        let told = events.into_iter().map(|(time, place, port, bytes, code)| {
            let (kind, domain, tid) =
                [(Kind::Send, VM1, 7), (Kind::Receive, VM2, 9), (Kind::Send, VM2, 9), (Kind::Receive, VM1, 7)][place];
            (time, kind, domain, tid, Event { code, ..socket(40_000 + port, domain == VM2, bytes) })
        });
        let dir = trace(hello.chain(told));
        let (all, sums, outcome) = found(&dir, &points(EXCHANGE));
        let total: i64 = all.iter().map(|one| one.total_ns).sum();
        prop_assert_eq!(sums.iter().sum::<u64>(), total.unsigned_abs());
        for one in &all {
            prop_assert_eq!(one.points.len(), 4);
            prop_assert!(one.points.is_sorted());
            prop_assert_eq!(one.points[3] - one.points[0], one.total_ns);
            let steps: i64 = one.steps.iter().map(|step| step.to - step.from).sum();
            prop_assert_eq!(steps, one.total_ns);
        }
        let reached = outcome.reached.unwrap();
        prop_assert!(reached.is_sorted_by(|a, b| a >= b) && reached[3] >= all.len() as u64);
        let (all, _, _) = found(&dir, &"request".parse().unwrap());
        prop_assert!(all.iter().all(|one| one.bytes.is_some()));
    }
}
