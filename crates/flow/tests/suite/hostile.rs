//! Traces that a hostile guest may make: joining them takes no longer than joining as many honest records.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use xweave_flow::Flows;
use xweave_trace::{Clock, ClockBreak, Domain, DomainVm, Manifest, Trace, Writer};
use xweave_wire::record::{Kind, Record};

const HOST: u8 = 1;
const GUEST: u8 = 2;
/// The process that runs the guest.
const PID: u32 = 77;

/// So many times as long as honest records at most, whatever else the machine does. What grew with the square of
/// these numbers of records took hundreds of times as long.
const FACTOR: u32 = 8;

/// Processor time that this thread has had: others' does not count, however busy the machine is.
fn spent() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// A trace of a host and a guest, and its records so far.
struct World {
    parent: tempfile::TempDir,
    writer: Writer,
    time: u64,
}

impl World {
    fn new(known: bool, clocks: Vec<Clock>) -> Self {
        let vm = known.then(|| DomainVm { host: "host".into(), pid: PID, cid: None });
        let domains = vec![
            Domain { name: "host".into(), number: HOST, ..Domain::default() },
            Domain { name: "vm1".into(), number: GUEST, vm, ..Domain::default() },
        ];
        let parent = tempfile::tempdir().unwrap();
        let manifest = Manifest { reference: "host".into(), domains, clocks, ..Manifest::default() };
        let writer = Writer::create(&parent.path().join("trace"), manifest).unwrap();
        Self { parent, writer, time: 1_000 }
    }

    /// A side of a crossing, a nanosecond after the one before.
    fn cross(&mut self, domain: u8, local: u64, kind: Kind, index: u64, peer: u64) {
        self.time += 1;
        let record = Record {
            time_ns: self.time,
            flow: u64::from(domain) << 56 | local,
            site: u32::from(domain),
            pid: 1,
            tid: 1,
            cpu: 0,
            kind,
            comm: [0; 16],
            values: vec![7, index, 0, peer],
        };
        self.writer.append(domain, i64::try_from(self.time).unwrap(), &record).unwrap();
    }

    /// Joins three times. Returns the least time, since other tests share caches meanwhile, and the flows.
    fn joined(self) -> (Duration, Flows) {
        self.writer.finish().unwrap();
        let trace = Trace::open(&self.parent.path().join("trace")).unwrap();
        let join = || {
            let begin = spent();
            let flows = Flows::of(&trace);
            (spent() - begin, flows)
        };
        let (first, flows) = join();
        ([first, join().0, join().0].into_iter().min().unwrap(), flows)
    }
}

fn no_longer((hostile, honest): (Duration, Duration)) {
    let most = honest * FACTOR + Duration::from_millis(100);
    assert!(hostile < most, "{hostile:?}, and {honest:?} where it is honest");
}

#[test]
fn a_flow_that_crosses_without_end_takes_no_longer_than_as_many_flows() {
    const CROSSINGS: u64 = 50_000;
    // What comes off was put on by the other side just before; or by nobody.
    let joined = |chain: bool| {
        let mut world = World::new(true, Vec::new());
        let other = if chain { 0 } else { 1 << 40 };
        for local in 1..=CROSSINGS {
            world.cross(GUEST, local, Kind::Xout, 2 * local + other, 0);
            world.cross(GUEST, local, Kind::Xin, 2 * local + 1, 0);
            world.cross(HOST, local, Kind::Xout, 2 * local + 1 + other, PID.into());
            world.cross(HOST, local, Kind::Xin, 2 * local + 2, PID.into());
        }
        world.joined()
    };
    let (hostile, chain) = joined(true);
    let (honest, single) = joined(false);
    assert_eq!((chain.flows().len(), single.flows().len() as u64), (1, 2 * CROSSINGS));
    assert_eq!(u64::from(chain.flows()[0].crossings), 2 * CROSSINGS - 1);
    assert_eq!(chain.flows()[0].locals.len() as u64, 2 * CROSSINGS);
    no_longer((hostile, honest));
}

#[test]
fn a_ring_of_one_index_takes_no_longer_than_one_of_many() {
    const CROSSINGS: u64 = 40_000;
    // Which process runs the guest, the keys have to tell.
    let joined = |indexes: u64| {
        let mut world = World::new(false, Vec::new());
        for local in 1..=CROSSINGS {
            world.cross(GUEST, local, Kind::Xin, local % indexes, 0);
            world.cross(HOST, local, Kind::Xout, local % indexes, PID.into());
        }
        world.joined()
    };
    let (hostile, one) = joined(1);
    let (honest, many) = joined(CROSSINGS);
    for flows in [one, many] {
        let found = &flows.summary().found;
        assert_eq!((found.len(), found[0].pid, found[0].keys), (1, PID.into(), CROSSINGS));
        assert_eq!(flows.summary().crossed, CROSSINGS);
    }
    no_longer((hostile, honest));
}

#[test]
fn many_processes_that_may_run_a_guest_take_no_longer_than_one() {
    const CROSSINGS: u64 = 60_000;
    let joined = |processes: u64| {
        let mut world = World::new(false, Vec::new());
        for local in 1..=CROSSINGS {
            world.cross(GUEST, local, Kind::Xin, local, 0);
            world.cross(HOST, local, Kind::Xout, local, 1 + local % processes);
        }
        world.joined()
    };
    let (hostile, _) = joined(CROSSINGS);
    let (honest, _) = joined(1);
    no_longer((hostile, honest));
}

#[test]
fn a_clock_that_jumps_all_the_time_takes_no_longer_than_one_that_does_not() {
    const CROSSINGS: u64 = 60_000;
    let joined = |jumps: i64| {
        let jump = |at: i64| ClockBreak {
            after_ns: Some(-2 * at - 1),
            before_ns: Some(-2 * at),
            ..ClockBreak::default()
        };
        let breaks = (0..jumps).map(jump).collect();
        let clock = Clock { domain: "vm1".into(), error_ns: 1, breaks, ..Clock::default() };
        let mut world = World::new(true, vec![clock]);
        for local in 1..=CROSSINGS {
            world.cross(GUEST, local, Kind::Xin, local, 0);
            world.cross(HOST, local, Kind::Xout, local, PID.into());
        }
        world.joined()
    };
    let (hostile, flows) = joined(40_000);
    let (honest, _) = joined(0);
    assert_eq!(flows.summary().crossed, CROSSINGS);
    no_longer((hostile, honest));
}
