//! Guests of Xen are known by their domains' numbers: flows of several with equal keys at once are each given to their own.

use proptest::prelude::*;
use xweave_flow::Flows;
use xweave_trace::{Domain, DomainXen, Manifest, Role, Site, Trace, Writer};
use xweave_wire::record::{Kind, Record, XEN_DOMAIN};

const DOM0: u8 = 1;
const GUESTS: [u8; 2] = [2, 3];
/// What Xen calls them; not in the order of their numbers.
const DOMIDS: [u16; 2] = [9, 4];
/// And the first of them, once it has been saved and restored.
const SINCE: u16 = 12;

fn id(domain: u8, number: u64) -> u64 {
    u64::from(domain) << 56 | number
}

/// A frame of a guest that goes to dom0, and whether it goes to the guest instead; when, and how long it takes.
#[derive(Clone, Copy, Debug)]
struct Frame {
    guest: usize,
    to_guest: bool,
    at: u64,
    takes: u64,
}

/// The flows of such frames, halfway through which the first guest is restored, if it is known who is who. The keys of both
/// guests are the same: each puts on and takes off from the same place on.
fn flows(frames: &[Frame], known: bool) -> Flows {
    flows_of(frames, known, true)
}

/// The same; of requests that are not `told` dom0 knows only that they are some guest's (`bpf/carriers/xen-net.h`).
fn flows_of(frames: &[Frame], known: bool, told: bool) -> Flows {
    let mut records = Vec::new();
    let mut positions = [[0u64; 2]; 2];
    for (number, frame) in (1..).zip(frames) {
        let Frame { guest, to_guest, at, takes } = *frame;
        let place = &mut positions[guest][usize::from(to_guest)];
        *place += 1;
        let key = |peer| vec![1 << 40, *place, *place % 7, peer];
        let restored = known && guest == 0 && number > frames.len() as u64 / 2;
        let domid = XEN_DOMAIN | u64::from(if restored { SINCE } else { DOMIDS[guest] });
        let peer = if told { domid } else { 0xffff };
        let (from, to) = if to_guest { (DOM0, GUESTS[guest]) } else { (GUESTS[guest], DOM0) };
        let of = |domain| if domain == DOM0 { peer } else { 0 };
        records.push((from, number, at, Kind::Start, vec![5]));
        records.push((from, number, at + 1, Kind::Xin, key(of(from))));
        records.push((to, number, at + 1 + takes, Kind::Xout, key(of(to))));
        records.push((to, number, at + 2 + takes, Kind::Quit, vec![6]));
    }
    records.sort_by_key(|(_, _, time, ..)| *time);
    let dir = tempfile::tempdir().unwrap();
    let guest = |at: usize| Domain {
        name: format!("vm{}", at + 1),
        number: GUESTS[at],
        role: Role::Guest,
        xen: known.then(|| DomainXen {
            host: "dom0".into(),
            domid: DOMIDS[at],
            since: (at == 0).then_some(SINCE),
        }),
        ..Domain::default()
    };
    let domains = vec![Domain { name: "dom0".into(), number: DOM0, ..Domain::default() }, guest(0), guest(1)];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let site = |site| Site { site, carrier: Some("xen_net".into()), ..Site::default() };
    writer.sites(&[site(1), site(2), site(3)]).unwrap();
    for (domain, number, time_ns, kind, values) in records {
        let (flow, site, comm) = (id(domain, number), domain.into(), [0; 16]);
        let record = Record { time_ns, flow, site, pid: 1, tid: 1, cpu: 0, kind, comm, values };
        writer.append(domain, i64::try_from(time_ns).unwrap(), &record).unwrap();
    }
    writer.finish().unwrap();
    Flows::of(&Trace::open(dir.path()).unwrap())
}

/// Frames one after the other, of which each crosses while others do.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let frame = (0..2usize, any::<bool>(), 1..50u64, 1..200u64);
    prop::collection::vec(frame, 1..60).prop_map(|all| {
        let mut at = 1_000;
        let frame = |(guest, to_guest, gap, takes)| {
            at += gap;
            Frame { guest, to_guest, at, takes }
        };
        all.into_iter().map(frame).collect()
    })
}

proptest! {
    #[test]
    fn each_flow_is_given_to_its_own_guest_however_keys_collide(frames in frames()) {
        let flows = flows(&frames, true);
        let summary = flows.summary();
        prop_assert_eq!((summary.flows, summary.complete, summary.crossed), {
            let all = frames.len() as u64;
            (all, all, all)
        });
        prop_assert!(summary.found.is_empty());
        for (number, frame) in (1..).zip(&frames) {
            let (guest, dom0) = (id(GUESTS[frame.guest], number), id(DOM0, number));
            let parts = if frame.to_guest { [dom0, guest] } else { [guest, dom0] };
            prop_assert_eq!(&flows.flow(parts[0]).unwrap().locals[..], &parts);
        }
    }
}

#[test]
fn a_request_that_is_only_known_to_be_some_guests_is_that_of_the_guest_whose_keys_agree() {
    let frame = |at: u64| Frame { guest: 1, to_guest: false, at: at * 1_000, takes: 10 };
    let frames: Vec<Frame> = (1..=200).map(frame).collect();
    let flows = flows_of(&frames, true, false);
    let found: Vec<_> = flows.summary().found.iter().map(|of| (of.domain.as_str(), of.pid)).collect();
    assert_eq!((flows.summary().complete, found), (200, vec![("vm2", 0xffff)]));
}

#[test]
fn which_guest_is_which_domain_is_concluded_from_keys_where_it_is_not_told() {
    // One after the other, so that times tell.
    let frame = |at: u64| Frame {
        guest: usize::from(at.is_multiple_of(3)),
        to_guest: at.is_multiple_of(2),
        at: at * 1_000,
        takes: 10,
    };
    let frames: Vec<Frame> = (1..=600).map(frame).collect();
    let flows = flows(&frames, false);
    let found: Vec<_> = flows.summary().found.iter().map(|of| (of.domain.as_str(), of.pid)).collect();
    let mut expected = [("vm1", XEN_DOMAIN | 9), ("vm2", XEN_DOMAIN | 4)];
    expected.sort_by_key(|(name, _)| found.iter().position(|(of, _)| of == name));
    assert_eq!(found, expected);
    assert_eq!(flows.summary().complete, 600);
}
