//! Joining in bounded memory: what is given away when, and what is said where memory does not suffice.

use xweave_flow::{Flows, Join, Wanted};
use xweave_trace::{Clock, Domain, Manifest, Part, Row, Trace, Writer};
use xweave_wire::record::{Kind, Record};

/// Nanoseconds from one record to the next.
const STEP: i64 = 1_000_000;

fn row(nth: usize, flow: u64, kind: Kind) -> Row {
    let values = if kind == Kind::Hop { vec![] } else { vec![flow] };
    let (site, pid, tid, cpu, comm) = (1, 1, 1, 0, [0; 16]);
    let record = Record { time_ns: 0, flow: 1 << 56 | flow, site, pid, tid, cpu, kind, comm, values };
    Row::new(1, i64::try_from(nth).unwrap() * STEP, &record)
}

/// As a file tells of itself: in groups of ten rows, in the order of their times.
fn parts(rows: &[Row]) -> impl Iterator<Item = Result<Part, xweave_trace::Damaged>> + '_ {
    rows.chunks(10).enumerate().map(|(nth, group)| {
        let next = rows.get((nth + 1) * 10);
        Ok(Part { rows: group.to_vec(), before_ns: next.map_or(i64::MAX, |row| row.time_ns) })
    })
}

fn trace() -> (tempfile::TempDir, Trace) {
    trace_of(&["host"], 0)
}

/// Of domains whose clocks err by so much.
fn trace_of(names: &[&str], error_ns: u64) -> (tempfile::TempDir, Trace) {
    let dir = tempfile::tempdir().unwrap();
    let domain = |(number, name): (u8, &&str)| Domain { name: (*name).into(), number, ..Domain::default() };
    let clock = |name: &&str| Clock { domain: (*name).into(), error_ns, ..Clock::default() };
    let manifest = Manifest {
        domains: (1..).zip(names).map(domain).collect(),
        clocks: names.iter().map(clock).collect(),
        ..Manifest::default()
    };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    writer.sites(&[]).unwrap();
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    (dir, trace)
}

fn all(trace: &Trace, join: Join<'_>) -> Flows {
    Flows::read(trace, join, Wanted { of: &|_| true, kept: None })
}

/// Short flows one after the other: of three records each.
fn short(count: usize) -> Vec<Row> {
    let kinds = [Kind::Start, Kind::Hop, Kind::Quit];
    (0..count * 3).map(|nth| row(nth, nth as u64 / 3, kinds[nth % 3])).collect()
}

#[test]
fn what_is_settled_is_given_away_before_more_is_read() {
    let (_dir, trace) = trace();
    let rows = short(5_000);
    let mut join = Join::of_parts(&trace, parts(&rows)).windows(300, 1_000);
    let (mut given, mut windows) = (0, 0);
    while let Some(flows) = join.next() {
        given += flows.len();
        windows += 1;
        // What has been read and not given away: what the last 10 ms began, and a group of rows.
        let held = usize::try_from(join.read()).unwrap() - 3 * given;
        assert!(held <= 30, "{held} records are held after window {windows}");
        assert!(flows.iter().all(xweave_flow::Flow::complete));
    }
    assert_eq!((given, join.finish().set_down), (5_000, 0));
    assert!(windows >= 40, "{windows} windows");
}

#[test]
fn of_more_under_way_than_memory_should_hold_the_longest_idle_are_set_down_and_told() {
    let (_dir, trace) = trace();
    // A hundred flows begin, much else happens, and they end.
    let long = |nth: usize, kind| row(nth, (1 << 40) + nth as u64 % 100, kind);
    let mut rows: Vec<Row> = (0..100).map(|nth| long(nth, Kind::Start)).collect();
    let mut between = short(1_000);
    between.iter_mut().for_each(|row| row.time_ns += 100 * STEP);
    rows.extend(between);
    rows.extend((0..100).map(|nth| long(nth + 3_100, Kind::Quit)));
    let enough = all(&trace, Join::of_parts(&trace, parts(&rows)).windows(300, 1_000));
    assert_eq!((enough.summary().flows, enough.summary().complete), (1_100, 1_100));
    assert_eq!(enough.summary().set_down, 0);
    assert_eq!(enough.flow(1 << 56 | 1 << 40).unwrap().total_ns(), 3_100 * STEP);

    let few = all(&trace, Join::of_parts(&trace, parts(&rows)).windows(300, 40));
    let summary = few.summary();
    // Each of those is two flows then: one without an end, one without a beginning.
    assert!(summary.set_down >= 60, "{}", summary.set_down);
    assert_eq!(summary.flows, 1_100 + summary.set_down);
    assert_eq!(summary.complete, 1_100 - summary.set_down);
    assert_eq!(
        (summary.incomplete.no_end, summary.incomplete.no_start),
        (summary.set_down, summary.set_down)
    );
    assert_eq!(summary.records, rows.len() as u64);
}

#[test]
fn what_memory_should_not_hold_is_left_out_and_told() {
    let (_dir, trace) = trace();
    let rows = short(100);
    // A file that does not tell of which times its groups are.
    let untold = || {
        let groups = rows.chunks(10).map(|rows| Ok(Part { rows: rows.to_vec(), before_ns: i64::MIN }));
        Join::of_parts(&trace, groups).windows(30, 10)
    };
    let whole = all(&trace, untold());
    assert_eq!((whole.summary().complete, whole.summary().damaged.len()), (100, 0));
    let cut = all(&trace, untold().at_most(60));
    assert_eq!(cut.summary().complete, 20);
    let told = &cut.summary().damaged[0];
    assert!(told.contains("60") && told.contains("--force"), "{told}");

    // Windows are small; what is kept of all is not.
    let small = || Join::of_parts(&trace, parts(&rows)).windows(30, 10).at_most(60);
    let kept = all(&trace, small());
    assert!(kept.summary().complete <= 42, "{}", kept.summary().complete);
    assert!(kept.summary().damaged[0].contains("120"), "{:?}", kept.summary().damaged);
    let counted = Flows::read(&trace, small(), Wanted { of: &|_| true, kept: Some(3) });
    assert_eq!((counted.summary().complete, counted.flows().len()), (100, 3));
    assert!(counted.summary().damaged.is_empty() && counted.typical().is_some());
}

#[test]
fn a_file_that_lies_about_its_times_costs_its_own_flows_only() {
    let (_dir, trace) = trace();
    let rows = short(200);
    let lies = rows.chunks(10).map(|rows| Ok(Part { rows: rows.to_vec(), before_ns: i64::MAX }));
    let flows = all(&trace, Join::of_parts(&trace, lies).windows(30, 1_000));
    let hops: usize = flows.flows().iter().map(|flow| flows.hops(flow).len()).sum();
    assert_eq!((flows.summary().records, hops), (600, 600), "no record is lost");
    // Of flows, those that lie on both sides of where such a window ends may be two.
    assert!(flows.summary().complete >= 160, "{}", flows.summary().complete);
}

#[test]
fn sides_that_clocks_of_unknown_error_put_far_from_each_other_are_joined() {
    let (_dir, trace) = trace_of(&["host", "vm1"], u64::MAX);
    let side = |domain: u8, kind, nth: u64, after: i64| {
        let (peer, words) = (if domain == 1 { 4002 } else { 0 }, |key| vec![key]);
        let values = if matches!(kind, Kind::Xin | Kind::Xout) { vec![7, nth, 0, peer] } else { words(nth) };
        let (site, pid, tid, cpu, comm) = (1, 1, 1, 0, [0; 16]);
        let flow = u64::from(domain) << 56 | (nth + 1);
        let record = Record { time_ns: 0, flow, site, pid, tid, cpu, kind, comm, values };
        Row::new(domain, i64::try_from(nth).unwrap() * STEP + after, &record)
    };
    // The guest's clock is an hour ahead.
    let hour = 3_600_000_000_000;
    let mut rows: Vec<Row> = (0..400)
        .flat_map(|nth| {
            let guest = [(Kind::Start, 0), (Kind::Xin, 10), (Kind::Quit, 20)];
            let host = [(Kind::Xout, 30), (Kind::Quit, 40)];
            let of_guest = guest.map(|(kind, after)| side(2, kind, nth, after + hour)).into_iter();
            of_guest.chain(host.map(|(kind, after)| side(1, kind, nth, after))).collect::<Vec<_>>()
        })
        .collect();
    rows.sort_by_key(|row| row.time_ns);
    let flows = all(&trace, Join::of_parts(&trace, parts(&rows)).windows(300, 100));
    assert_eq!((flows.summary().flows, flows.summary().crossed), (400, 400));
}
