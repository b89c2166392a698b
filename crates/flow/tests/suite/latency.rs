//! How long calls took, as their entries and returns tell.

use xweave_flow::latency::{FunctionLatency, Latencies, aspect};
use xweave_trace::{Domain, Manifest, Site, Trace, Writer};
use xweave_wire::record::{Kind, Record};

const HOST: u8 = 1;
const VM1: u8 = 2;
const RECORDER: u32 = 900;

/// Sites: the entry and the return of two functions in the host, and of one in the guest.
const SITES: [(u32, &str, &str, &str); 6] = [
    (1, "host", "entered", "outer"),
    (2, "host", "returned", "outer"),
    (3, "host", "entered", "inner"),
    (4, "host", "returned", "inner"),
    (5, "vm1", "entered", "outer"),
    (6, "vm1", "returned", "outer"),
];

/// When, where, in which thread on which CPU.
type Passed = (u64, u32, u32, u16);

fn latencies(passed: &[Passed]) -> Latencies {
    let dir = tempfile::tempdir().unwrap();
    let domain =
        |name: &str, number, recorders| Domain { name: name.into(), number, recorders, ..Domain::default() };
    let domains = vec![domain("host", HOST, vec![RECORDER]), domain("vm1", VM1, Vec::new())];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let sites = SITES.map(|(site, domain, advice, function)| Site {
        site,
        domain: domain.into(),
        advice: advice.into(),
        function: function.into(),
        action: "advice".into(),
        ..Site::default()
    });
    writer.sites(&sites).unwrap();
    for &(time, site, tid, cpu) in passed {
        let record = Record {
            time_ns: time,
            flow: 0,
            pid: tid,
            tid,
            site,
            cpu,
            kind: Kind::Hop,
            comm: [0; 16],
            values: vec![1],
        };
        let domain = if site >= 5 { VM1 } else { HOST };
        writer.append(domain, i64::try_from(time).unwrap(), &record).unwrap();
    }
    writer.finish().unwrap();
    Latencies::of(&Trace::open(dir.path()).unwrap())
}

/// The function, its calls, and the shortest, the median and the longest.
fn told(of: &FunctionLatency) -> (&str, &str, u64, [i64; 3]) {
    let latency = &of.latency;
    (&of.domain, &of.function, latency.calls, [latency.min_ns, latency.p50_ns, latency.max_ns])
}

#[test]
fn calls_within_calls_end_where_they_began() {
    // Recursion: outer(100..900) calls itself (200..700), and that inner(300..400).
    let found = latencies(&[
        (100, 1, 7, 0),
        (200, 1, 7, 0),
        (300, 3, 7, 1),
        (400, 4, 7, 1),
        (700, 2, 7, 1),
        (900, 2, 7, 0),
    ]);
    let functions: Vec<_> = found.functions.iter().map(told).collect();
    assert_eq!(functions, [("host", "outer", 2, [500, 500, 800]), ("host", "inner", 1, [100, 100, 100])]);
    assert_eq!((found.all.calls, found.all.total_ns, found.partial), (3, 1_400, 0));
    let counts: u64 = found.all.histogram.bins().iter().map(|bin| bin.count).sum();
    assert_eq!(counts, 3);
}

#[test]
fn threads_and_idle_cpus_and_domains_are_told_apart() {
    let found = latencies(&[
        (100, 1, 7, 0),
        (110, 1, 8, 1),
        // The idle threads of two CPUs.
        (120, 1, 0, 0),
        (130, 1, 0, 1),
        (140, 5, 7, 0),
        (150, 2, 0, 1),
        (160, 2, 0, 0),
        (170, 2, 7, 0),
        (190, 2, 8, 0),
        (290, 6, 7, 0),
    ]);
    let functions: Vec<_> = found.functions.iter().map(told).collect();
    assert_eq!(functions, [("host", "outer", 4, [20, 40, 80]), ("vm1", "outer", 1, [150, 150, 150])]);
}

#[test]
fn calls_that_began_or_ended_elsewhere_and_those_of_the_recorder_are_counted_apart() {
    let found = latencies(&[
        // A return whose entry is not there, an entry whose return is not, and inner's return is missing.
        (100, 2, 7, 0),
        (200, 1, 7, 0),
        (250, 3, 7, 0),
        (300, 2, 7, 0),
        (400, 1, 9, 0),
        (500, 1, RECORDER, 0),
        (600, 2, RECORDER, 0),
    ]);
    let functions: Vec<_> = found.functions.iter().map(told).collect();
    assert_eq!(functions, [("host", "outer", 1, [100, 100, 100])]);
    assert_eq!((found.partial, found.of_recorder), (3, 1));
}

/// A thread goes on on a CPU whose records are fetched first.
#[test]
fn records_need_not_be_in_the_order_of_their_times() {
    let found =
        latencies(&[(200, 2, 7, 0), (100, 1, 7, 1), (5_000_000_200, 2, 7, 0), (5_000_000_100, 1, 7, 1)]);
    let functions: Vec<_> = found.functions.iter().map(told).collect();
    assert_eq!((functions, found.partial), (vec![("host", "outer", 2, [100, 100, 100])], 0));
}

#[test]
fn very_deep_calls_take_bounded_memory() {
    let entries = (0..1_000).map(|at| (at, 1, 7, 0));
    let returns = (1_000..2_000).map(|at| (at, 2, 7, 0));
    let found = latencies(&entries.chain(returns).collect::<Vec<_>>());
    assert_eq!(found.all.calls, 64);
    // 936 entries were let go, and their returns have none.
    assert_eq!(found.partial, 2 * 936);
}

#[test]
fn the_aspect_has_both_ends_of_each_function() {
    let text = aspect(&["vfs_read@vm1".to_owned(), "tcp_%".to_owned()]);
    assert!(text.contains("advice entered execution(vfs_read@vm1, tcp_%) {"), "{text}");
    assert!(text.contains("advice returned returning(vfs_read@vm1, tcp_%) {"), "{text}");
}
