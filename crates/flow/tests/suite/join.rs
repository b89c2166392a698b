//! Traces made up with the truth known: what is joined must be that.

use std::collections::BTreeMap;

use proptest::prelude::*;
use xweave_flow::{Flow, Flows, Join, Wanted};
use xweave_trace::{
    Clock, Domain, DomainVm, FlowLoss, Manifest, Part, Role, Site, SiteLoss, Trace, Uncounted, Writer,
};
use xweave_wire::record::{Kind, Record};

use crate::notation::Snapshot;

const HOST: u8 = 1;
/// Entries of a ring: its index comes round this often.
const WRAP: u64 = 16;
/// The processes that run the guests 2 and 3.
const PIDS: [u64; 2] = [4002, 4003];

/// What may go wrong with one flow.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    /// It is sent on to the other guest.
    on: bool,
    /// Its packet is put on the ring twice, as when the ring was full.
    again: bool,
    /// A record of its crossing is lost.
    cut: bool,
    /// Another record is lost.
    hole: bool,
    /// The sender frees its copy later.
    freed: bool,
    /// The ring is reset before it.
    reset: bool,
    /// It is under way when the recording ends.
    cut_off: bool,
    /// From which guest: 0 or 1.
    guest: usize,
    gap: u64,
}

#[derive(Clone, Debug)]
struct World {
    fates: Vec<Fate>,
    /// By how much each domain's times are off, and said to be off at most.
    off: [i64; 3],
    error: u64,
    /// Whether the guests' machines are known.
    known: bool,
    /// Which record of a crossing is lost.
    lose_xin: bool,
    /// Whether the host is told the IDs of what comes to it.
    told: bool,
}

const NAMES: [&str; 3] = ["host", "vm1", "vm2"];

/// The domain that records it, and its ID.
type Local = (u8, u64);

/// A made-up trace and what joining it must give.
struct Made {
    _parent: tempfile::TempDir,
    trace: Trace,
    /// Local IDs of each flow.
    flows: Vec<Vec<u64>>,
    complete: u64,
    crossings: u64,
    told: u64,
    negative: u64,
    unmatched: (u64, u64),
    superseded: u64,
    /// Whether a record tells that anything came off a ring.
    taken: bool,
}

struct Maker<'a> {
    world: &'a World,
    writer: Writer,
    next: [u64; 3],
    rings: BTreeMap<(usize, bool), u64>,
    made: Vec<Vec<u64>>,
    loss: Vec<FlowLoss>,
    complete: u64,
    crossings: u64,
    told: u64,
    negative: u64,
    unmatched: (u64, u64),
    superseded: u64,
    taken: bool,
}

impl Maker<'_> {
    fn id(&mut self, domain: u8) -> Local {
        let next = &mut self.next[usize::from(domain) - 1];
        *next += 1;
        (domain, u64::from(domain) << 56 | *next)
    }

    fn record(&mut self, (domain, flow): Local, t: u64, kind: Kind, values: &[u64]) {
        self.taken |= kind == Kind::Xout;
        let site = u32::from(domain) * 10 + kind as u32;
        let record = Record {
            time_ns: t,
            flow,
            site,
            pid: 7,
            tid: 8,
            cpu: 0,
            kind,
            comm: [0; 16],
            values: values.to_vec(),
        };
        let seen = i64::try_from(t).unwrap() + self.world.off[usize::from(domain) - 1];
        self.writer.append(domain, seen, &record).unwrap();
    }

    fn lose(&mut self, (domain, flow): Local) {
        let domain = NAMES[usize::from(domain) - 1].to_owned();
        self.loss.push(FlowLoss { flow, records: 1, domain });
    }

    /// Crosses between a guest and the host; the new local ID, and whether both sides recorded it.
    fn cross(
        &mut self,
        flow: Local,
        guest: usize,
        to_host: bool,
        t: u64,
        fate: &Fate,
        cut: bool,
    ) -> (Local, bool) {
        let index = self.rings.entry((guest, to_host)).or_insert(WRAP - 3);
        // The same slot twice in a row looks like a second try.
        if fate.reset && *index % WRAP != 1 {
            *index = 0;
        }
        let at = *index % WRAP;
        *index += 1;
        let ring = 0x1000 + u64::from(to_host);
        let guest_side = [ring, at, at * 3, 0];
        let host_side = [ring, at, at * 3, PIDS[guest]];
        let (put, off) = if to_host { (guest_side, host_side) } else { (host_side, guest_side) };
        let out = match to_host {
            true if self.world.told => (HOST, flow.1),
            true => self.id(HOST),
            false => self.id(u8::try_from(guest).unwrap() + 2),
        };
        if cut && self.world.lose_xin {
            self.lose(flow);
        } else {
            if fate.again {
                self.record(flow, t - 300, Kind::Xin, &put);
                self.superseded += 1;
            }
            self.record(flow, t, Kind::Xin, &put);
        }
        if cut && !self.world.lose_xin {
            self.lose(out);
            self.unmatched.0 += 1;
        } else {
            self.record(out, t + fate.gap, Kind::Xout, &off);
            self.unmatched.1 += u64::from(cut);
        }
        if !cut {
            self.crossings += 1;
            self.told += u64::from(to_host && self.world.told);
            let late = self.world.off[usize::from(out.0) - 1];
            let early = self.world.off[usize::from(flow.0) - 1];
            let gap = i64::try_from(fate.gap).unwrap() + late - early;
            self.negative += u64::from(gap < 0 && gap.unsigned_abs() > 2 * self.world.error);
        }
        (out, !cut)
    }

    fn flow(&mut self, at: usize, fate: &Fate) {
        let t = 1_000_000 + at as u64 * 40_000;
        let sender = self.id(u8::try_from(fate.guest).unwrap() + 2);
        self.record(sender, t, Kind::Start, &[0xabc]);
        self.record(sender, t + 1_000, Kind::Hop, &[1, 2]);
        let (host, joined) = self.cross(sender, fate.guest, true, t + 2_000, fate, fate.cut);
        let mut flows =
            if joined { vec![vec![sender.1, host.1]] } else { vec![vec![sender.1], vec![host.1]] };
        self.record(host, t + 9_000, Kind::Hop, &[]);
        let mut last = host;
        let mut end = t + 10_000;
        if fate.on {
            let (other, _) = self.cross(host, 1 - fate.guest, false, t + 12_000, fate, false);
            flows.last_mut().unwrap().push(other.1);
            last = other;
            end = t + 20_000;
        }
        if fate.freed {
            self.record(sender, t + 15_000, Kind::Quit, &[0xabc]);
        }
        if fate.hole {
            self.lose(host);
        }
        if !fate.cut_off {
            self.record(last, end, Kind::Quit, &[0xdef]);
        }
        self.complete += u64::from(joined && !fate.hole && !fate.cut_off);
        self.made.extend(flows);
    }
}

fn make(world: &World) -> Made {
    let parent = tempfile::tempdir().unwrap();
    let domain = |number: u8| {
        let at = usize::from(number) - 1;
        let pid = |at: usize| u32::try_from(PIDS[at - 1]).unwrap();
        let vm = (world.known && at > 0).then(|| DomainVm { host: "host".into(), pid: pid(at), cid: None });
        let role = if at > 0 { Role::Guest } else { Role::Host };
        Domain { name: NAMES[at].into(), number, role, vm, ..Domain::default() }
    };
    let clock = |name: &&str| Clock { domain: (*name).into(), error_ns: world.error, ..Clock::default() };
    let manifest = Manifest {
        reference: "host".into(),
        domains: (1..=3).map(domain).collect(),
        clocks: NAMES.iter().map(clock).collect(),
        ..Manifest::default()
    };
    let mut writer = Writer::create(parent.path(), manifest).unwrap();
    let sites: Vec<Site> = (10..37)
        .map(|site| Site {
            site,
            domain: NAMES[site as usize / 10 - 1].into(),
            function: format!("function_{}", site % 10),
            xflow: Some("send".into()),
            carrier: (site % 10 >= 5).then(|| "virtqueue".into()),
            hook: Some(if site % 10 == 3 { "kprobe" } else { "fentry" }.into()),
            ..Site::default()
        })
        .collect();
    writer.sites(&sites).unwrap();
    let mut maker = Maker {
        world,
        writer,
        next: [0; 3],
        rings: BTreeMap::new(),
        made: Vec::new(),
        loss: Vec::new(),
        complete: 0,
        crossings: 0,
        told: 0,
        negative: 0,
        unmatched: (0, 0),
        superseded: 0,
        taken: false,
    };
    for (at, fate) in world.fates.iter().enumerate() {
        maker.flow(at, fate);
    }
    let Maker {
        mut writer,
        loss,
        made,
        complete,
        crossings,
        told,
        negative,
        unmatched,
        superseded,
        taken,
        ..
    } = maker;
    writer.manifest_mut().loss.flows = loss;
    writer.finish().unwrap();
    let trace = Trace::open(parent.path()).unwrap();
    let mut flows = made;
    for flow in &mut flows {
        flow.sort_unstable();
        flow.dedup();
    }
    flows.sort();
    Made { _parent: parent, trace, flows, complete, crossings, told, negative, unmatched, superseded, taken }
}

fn those(trace: &Trace, of: &dyn Fn(&Flow) -> bool) -> Flows {
    Flows::read(trace, Join::of(trace), Wanted { of, kept: None })
}

fn check(world: &World) -> Result<(), TestCaseError> {
    let made = make(world);
    // What is taken for a side that nobody records: the other one is then no worse for having no partner.
    prop_assume!(made.taken);
    let flows = Flows::of(&made.trace);
    let mut joined: Vec<Vec<u64>> = flows
        .flows()
        .iter()
        .map(|flow| {
            let mut locals = flow.locals.clone();
            locals.sort_unstable();
            locals
        })
        .collect();
    joined.sort();
    prop_assert_eq!(joined, made.flows);
    let summary = flows.summary();
    prop_assert_eq!(summary.complete, made.complete);
    prop_assert_eq!(summary.negative_gaps, made.negative);
    prop_assert_eq!(summary.carriers.iter().map(|c| c.crossings).sum::<u64>(), made.crossings);
    prop_assert_eq!(summary.carriers.iter().map(|c| c.told).sum::<u64>(), made.told);
    prop_assert_eq!((summary.unmatched_xin(), summary.unmatched_xout()), made.unmatched);
    prop_assert_eq!(summary.carriers.iter().map(|c| c.superseded).sum::<u64>(), made.superseded);
    for flow in flows.flows() {
        prop_assert_eq!(flow.id, flow.locals[0]);
        let path: Vec<_> = flows.hops(flow).filter(|hop| hop.on_path).collect();
        let crossed = path.iter().filter(|hop| hop.kind == "xout").count();
        prop_assert!(crossed >= flow.crossings as usize);
        prop_assert_eq!((path[0].t_ns, path[path.len() - 1].t_ns), (flow.start_ns, flow.end_ns));
    }
    Ok(())
}

fn fate(gap: std::ops::Range<u64>) -> impl Strategy<Value = Fate> {
    let rarely = || prop::bool::weighted(0.08);
    (
        (any::<bool>(), rarely(), rarely(), rarely()),
        (any::<bool>(), prop::bool::weighted(0.01), rarely()),
        0..2usize,
        gap,
    )
        .prop_map(|((on, again, cut, hole), (freed, reset, cut_off), guest, gap)| Fate {
            on,
            again,
            cut,
            hole,
            freed,
            reset,
            cut_off,
            guest,
            gap,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn flows_are_the_same_wherever_windows_end(
        fates in proptest::collection::vec(fate(500..4_000), 1..300),
        known in any::<bool>(),
        (lose_xin, told) in any::<(bool, bool)>(),
        (window, part) in (20usize..400, 1usize..100),
    ) {
        let world = World { fates, off: [0; 3], error: 100, known, lose_xin, told };
        let made = make(&world);
        let (mut rows, _) = made.trace.rows();
        // So that most is settled long before a window ends.
        rows.iter_mut().for_each(|row| row.time_ns *= 1_000);
        rows.sort_by_key(|row| row.time_ns);
        let read = |window: usize| {
            let next = |at: usize| rows.get(at).map_or(i64::MAX, |row| row.time_ns);
            let parts = rows.chunks(part).enumerate().map(|(nth, rows)| {
                Ok(Part { rows: rows.to_vec(), before_ns: next(nth * part + rows.len()) })
            });
            let join = Join::of_parts(&made.trace, parts).windows(window, usize::MAX);
            let flows = Flows::read(&made.trace, join, Wanted { of: &|_| true, kept: None });
            Snapshot::new(&flows)
        };
        let (mut whole, mut windows) = (read(usize::MAX), read(window));
        // By how many keys a guest's process is found depends on how many were seen then.
        for all in [&mut whole, &mut windows] {
            all.summary.found.iter_mut().for_each(|found| (found.keys, found.next_best) = (0, 0));
        }
        prop_assert_eq!(windows, whole);
    }

    #[test]
    fn what_is_joined_is_the_truth(
        fates in proptest::collection::vec(fate(500..4_000), 1..300),
        off in [-700i64..=700, -700i64..=700, -700i64..=700],
        known in any::<bool>(),
        (lose_xin, told) in any::<(bool, bool)>(),
    ) {
        // Who is who can only be told by keys if there are some.
        let enough = (0..2).all(|guest| fates.iter().filter(|f| f.guest == guest && !f.cut).count() > 20);
        check(&World { fates, off, error: 700, known: known || !enough, lose_xin, told })?;
    }

    #[test]
    fn clocks_that_err_more_than_they_say_are_found_out(
        fates in proptest::collection::vec(fate(500..4_000), 1..200),
        off in [0i64..=6_000, 0i64..=6_000, 0i64..=6_000],
        told in any::<bool>(),
    ) {
        let fates = fates.into_iter().map(|fate| Fate { reset: false, again: false, ..fate }).collect();
        check(&World { fates, off, error: 100, known: true, lose_xin: true, told })?;
    }
}

#[test]
fn a_plain_flow_in_full() {
    let fate = Fate { on: true, freed: true, guest: 0, gap: 1_500, ..Fate::default() };
    let world =
        World { fates: vec![fate; 5], off: [0; 3], error: 10, known: true, lose_xin: false, told: false };
    let made = make(&world);
    let flows = Flows::of(&made.trace);
    let flow = flows.typical().unwrap();
    assert_eq!((flow.crossings, flow.total_ns(), flow.name.as_str()), (2, 20_000, "send"));
    let hops: Vec<_> =
        flows.hops(flow).map(|hop| (hop.t_ns - flow.start_ns, hop.domain, hop.kind, hop.on_path)).collect();
    assert_eq!(
        hops,
        [
            (0, "vm1", "start", true),
            (1_000, "vm1", "hop", true),
            (2_000, "vm1", "xin", true),
            (3_500, "host", "xout", true),
            (9_000, "host", "hop", true),
            (12_000, "host", "xin", true),
            (13_500, "vm2", "xout", true),
            (15_000, "vm1", "quit", false),
            (20_000, "vm2", "quit", true),
        ]
    );
    let segments: Vec<_> =
        flows.segments().iter().map(|s| (s.from.as_str(), s.to.as_str(), s.count, s.p50_ns)).collect();
    assert_eq!(segments[2], ("vm1:function_5", "host:function_6", 5, 1_500));
    assert_eq!(segments.len(), 7);
    assert!(flows.segments().iter().all(|segment| segment.main));
    assert_eq!(flows.segments().iter().map(|s| s.p50_ns).sum::<i64>(), 20_000);

    let any_local = flows.flows()[3].locals[1];
    let id = flows.flows()[3].id;
    assert_eq!(flows.flow(any_local).unwrap().id, id);
    let flows = those(&made.trace, &|flow| flow.id == id);
    assert_eq!((flows.summary().flows, flows.segments()[0].count), (1, 1));
}

#[test]
fn sites_are_counted_over_the_whole_trace() {
    let fate = Fate { on: true, gap: 1_500, ..Fate::default() };
    let world =
        World { fates: vec![fate; 4], off: [0; 3], error: 10, known: true, lose_xin: true, told: false };
    let made = make(&world);
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), made.trace.manifest().clone()).unwrap();
    writer.sites(made.trace.sites()).unwrap();
    let record = |site, flow| Record {
        time_ns: 1,
        flow,
        site,
        pid: 1,
        tid: 1,
        cpu: 0,
        kind: Kind::Hop,
        comm: [0; 16],
        values: Vec::new(),
    };
    for (site, flow) in [(20, 2 << 56 | 1), (20, 2 << 56 | 2), (20, 0), (99, 0)] {
        writer.append(2, 1, &record(site, flow)).unwrap();
    }
    let loss = |site| SiteLoss { site, dropped: 3, missed: 2, table_full: 1, faults: 0, overwritten: 4 };
    writer.manifest_mut().loss.sites = vec![loss(21), loss(77)];
    writer.manifest_mut().loss.uncounted = vec![Uncounted { domain: "vm1".into(), sites: 1 }];
    writer.finish().unwrap();

    let flows = those(&Trace::open(parent.path()).unwrap(), &|flow| flow.id == 2 << 56 | 1);
    let counts = |number: u32| flows.sites().iter().find(|site| site.site == number).unwrap();
    let of = |number| {
        let site = counts(number);
        (site.records, site.dropped, site.missed, site.table_full, site.overwritten)
    };
    assert_eq!(of(20), (3, 0, Some(0), 0, 0), "of other flows and of none, too");
    assert_eq!(of(21), (0, 3, Some(2), 1, 4));
    assert_eq!(of(22), (0, 0, Some(0), 0, 0), "a site with nothing to show is shown");
    assert_eq!((of(99), of(77)), ((1, 0, Some(0), 0, 0), (0, 3, Some(2), 1, 4)));
    assert_eq!(
        (of(23), of(13)),
        ((0, 0, None, 0, 0), (0, 0, Some(0), 0, 0)),
        "vm1 counts no probes, the host does"
    );
    assert_eq!(flows.summary().uncounted_sites, 1);
    assert_eq!((counts(77).function.as_str(), counts(77).domain.as_str()), ("site 77", ""));
    assert_eq!((counts(20).domain.as_str(), counts(20).xflow.as_deref()), ("vm1", Some("send")));
    assert_eq!(flows.sites().iter().map(|site| site.records).sum::<u64>(), flows.summary().records);
    assert_eq!(flows.sites().len(), made.trace.sites().len() + 2);
    assert_eq!(flows.summary().overwritten, 8, "wherever that was");
}

#[test]
fn a_packet_taken_off_put_back_and_taken_off_again_is_one() {
    let world =
        World { fates: Vec::new(), off: [0; 3], error: 10, known: true, lose_xin: false, told: false };
    let made = make(&world);
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), made.trace.manifest().clone()).unwrap();
    writer.sites(made.trace.sites()).unwrap();
    let (guest, first, second) = (2 << 56 | 1, 1 << 56 | 1, 1 << 56 | 2);
    let records = [
        (guest, 100, Kind::Start, vec![1]),
        (guest, 200, Kind::Xin, vec![9, 1, 1, 0]),
        (first, 300, Kind::Xout, vec![9, 1, 1, 4002]),
        (first, 310, Kind::Hop, vec![]),
        (second, 400, Kind::Xout, vec![9, 1, 1, 4002]),
        (second, 500, Kind::Quit, vec![1]),
    ];
    for (flow, time, kind, values) in records {
        let domain = u8::try_from(flow >> 56).unwrap();
        let site = u32::from(domain) * 10 + kind as u32;
        let time_ns = u64::try_from(time).unwrap();
        let record = Record { time_ns, flow, site, pid: 1, tid: 1, cpu: 0, kind, comm: [0; 16], values };
        writer.append(domain, time, &record).unwrap();
    }
    writer.finish().unwrap();
    let flows = Flows::of(&Trace::open(parent.path()).unwrap());
    assert_eq!(flows.flow(guest).unwrap().locals, [guest, second]);
    assert!(flows.flow(guest).unwrap().complete());
    let carrier = &flows.summary().carriers[0];
    assert_eq!((carrier.superseded, carrier.unmatched_xout), (1, 0));
}

/// As a disk's requests that read into the same memory again and again, each as soon as the one before is done:
/// a slow host takes each up long after it was asked for, and shortly before the next one is.
#[test]
fn what_is_used_again_at_once_is_not_taken_for_what_came_before() {
    let world =
        World { fates: Vec::new(), off: [0; 3], error: 10, known: true, lose_xin: false, told: false };
    let made = make(&world);
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), made.trace.manifest().clone()).unwrap();
    writer.sites(made.trace.sites()).unwrap();
    for nth in 1..=8 {
        let (guest, host, time) = (2 << 56 | nth, 1 << 56 | nth, 1_000 * nth);
        let records = [
            (guest, time, Kind::Start, vec![1]),
            (guest, time, Kind::Xin, vec![9, 0, 0, 0]),
            (host, time + 900, Kind::Xout, vec![9, 0, 0, 4002]),
            (host, time + 910, Kind::Quit, vec![1]),
        ];
        for (flow, time_ns, kind, values) in records {
            let domain = u8::try_from(flow >> 56).unwrap();
            let site = u32::from(domain) * 10 + kind as u32;
            let record = Record { time_ns, flow, site, pid: 1, tid: 1, cpu: 0, kind, comm: [0; 16], values };
            writer.append(domain, i64::try_from(time_ns).unwrap(), &record).unwrap();
        }
    }
    writer.finish().unwrap();
    let flows = Flows::of(&Trace::open(parent.path()).unwrap());
    for nth in 1..=8 {
        assert_eq!(flows.flow(2 << 56 | nth).unwrap().locals, [2 << 56 | nth, 1 << 56 | nth]);
    }
    let carrier = &flows.summary().carriers[0];
    assert_eq!((carrier.crossings, carrier.superseded, carrier.negative_gaps), (8, 0, 0));
}

#[test]
fn parts_name_what_they_are_parts_of() {
    let world =
        World { fates: Vec::new(), off: [0; 3], error: 10, known: true, lose_xin: false, told: false };
    let made = make(&world);
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), made.trace.manifest().clone()).unwrap();
    writer.sites(made.trace.sites()).unwrap();
    // A message of a guest is cut in two; the host takes both parts off a ring and puts them together.
    let id = |domain: u64, nth: u64| domain << 56 | nth;
    let (message, first, second) = (id(2, 1), id(2, 2), id(2, 3));
    let (taken, taker, whole) = (id(1, 1), id(1, 2), id(1, 3));
    let records = [
        (message, 100, Kind::Start, vec![0x10]),
        (first, 110, Kind::Split, vec![message, 0x10, 0x20]),
        (second, 120, Kind::Split, vec![message, 0x10, 0x30]),
        (message, 130, Kind::Quit, vec![0x10]),
        (first, 200, Kind::Xin, vec![9, 1, 1, 0]),
        (second, 210, Kind::Xin, vec![9, 2, 2, 0]),
        (taker, 300, Kind::Xout, vec![9, 1, 1, 4002]),
        (taken, 310, Kind::Xout, vec![9, 2, 2, 4002]),
        (whole, 320, Kind::Merge, vec![taken, 0x50, 0x40]),
        (whole, 320, Kind::Merge, vec![taker, 0x40, 0x40]),
        (whole, 400, Kind::Quit, vec![0x40]),
    ];
    for (flow, time, kind, values) in records {
        let domain = u8::try_from(flow >> 56).unwrap();
        let site = u32::from(domain) * 10 + kind as u32;
        let time_ns = u64::try_from(time).unwrap();
        let record = Record { time_ns, flow, site, pid: 1, tid: 1, cpu: 0, kind, comm: [0; 16], values };
        writer.append(domain, time, &record).unwrap();
    }
    writer.finish().unwrap();
    let flows = Flows::of(&Trace::open(parent.path()).unwrap());
    let family: Vec<_> =
        flows.flows().iter().map(|flow| (flow.id, flow.parents.clone(), flow.complete())).collect();
    // The parents of the whole have the IDs that they began with, in the guest.
    assert_eq!(
        family,
        [
            (message, vec![], true),
            (first, vec![message], true),
            (second, vec![message], true),
            (whole, vec![first, second], true),
        ]
    );
}

/// Not a check of speed, but the numbers that `cargo test --release -- --ignored --nocapture` prints.
#[test]
#[ignore = "a measurement"]
fn a_million_records() {
    let fate =
        |i: usize| Fate { on: i.is_multiple_of(2), freed: true, guest: i % 2, gap: 1_500, ..Fate::default() };
    let fates: Vec<_> = (0..125_000).map(fate).collect();
    let world = World { fates, off: [0; 3], error: 10, known: true, lose_xin: false, told: false };
    let begun = std::time::Instant::now();
    let made = make(&world);
    println!("written: {} records in {:?}", made.trace.manifest().records, begun.elapsed());
    let begun = std::time::Instant::now();
    let read: usize = made.trace.parts().map(|part| part.unwrap().rows.len()).sum();
    println!("read:    {read} records in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    let flows = Flows::of(&made.trace);
    println!("joined (reading included): {} flows in {:?}", flows.flows().len(), begun.elapsed());
    assert_eq!(flows.summary().complete, 125_000);
}
