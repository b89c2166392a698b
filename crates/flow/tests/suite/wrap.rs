//! A ring whose index comes round while records are lost: what has the same key a wrap later is another packet.

use std::ops::Range;

use xweave_flow::{Flows, Incomplete};
use xweave_trace::{Clock, Domain, DomainVm, FlowLoss, Manifest, Role, Site, SiteLoss, Trace, Writer};
use xweave_wire::record::{Kind, Record};

/// After so many buffers keys come again: a ring's index has 16 bits.
const WRAP: u64 = 1 << 16;
/// Between two packets, and what one takes over the ring, in nanoseconds: 131 ms pass while the index comes round.
const EVERY: u64 = 2_000;
const GAP: u64 = 1_900;
const PID: u64 = 4002;

/// Packets of a guest, one after the other, through one ring.
struct Traffic {
    packets: u64,
    /// Of which the record is lost that says that they were put on, or came off.
    no_xin: Range<u64>,
    no_xout: Range<u64>,
    /// What is known to be lost at the host's site.
    lost: u64,
    /// A packet that waits on the ring, and all that come after it, for so many nanoseconds.
    waits: (u64, u64),
    ring: u64,
    /// The index of a packet's slot.
    index: fn(u64) -> u64,
}

impl Default for Traffic {
    fn default() -> Self {
        let index = |nth| nth % WRAP;
        Self { packets: 0, no_xin: 0..0, no_xout: 0..0, lost: 0, waits: (u64::MAX, 0), ring: 0x1000, index }
    }
}

/// The local flow of a packet, in the guest (2) or the host (1).
fn id(domain: u64, nth: u64) -> u64 {
    domain << 56 | (nth + 1)
}

impl Traffic {
    fn flows(&self) -> Flows {
        let dir = tempfile::tempdir().unwrap();
        let host = Domain { name: "host".into(), number: 1, ..Domain::default() };
        let vm = Some(DomainVm { host: "host".into(), pid: 4002, cid: None });
        let vm1 = Domain { name: "vm1".into(), number: 2, role: Role::Guest, vm, ..Domain::default() };
        let clock = |domain: &str| Clock { domain: domain.into(), error_ns: 20, ..Clock::default() };
        let manifest = Manifest {
            domains: vec![host, vm1],
            clocks: ["host", "vm1"].map(clock).to_vec(),
            ..Manifest::default()
        };
        let mut writer = Writer::create(dir.path(), manifest).unwrap();
        let site = |site, domain: &str| Site {
            site,
            domain: domain.into(),
            function: "f".into(),
            carrier: Some("virtio_net".into()),
            ..Site::default()
        };
        writer.sites(&[site(1, "host"), site(2, "vm1")]).unwrap();
        let mut lost = Vec::new();
        for nth in 0..self.packets {
            let delayed = if nth >= self.waits.0 { self.waits.1 } else { 0 };
            // The ring has room for the packet that waits, and the sender waits, too.
            let put = nth * EVERY + if nth > self.waits.0 { delayed } else { 0 };
            let off = nth * EVERY + GAP + delayed;
            let index = (self.index)(nth);
            let key = |peer| vec![self.ring, index, index % 256, peer];
            let mut records = vec![(2, put, Kind::Start, vec![7])];
            if self.no_xin.contains(&nth) {
                lost.push(FlowLoss { flow: id(2, nth), records: 1, ..FlowLoss::default() });
            } else {
                records.push((2, put + 1, Kind::Xin, key(0)));
            }
            if self.no_xout.contains(&nth) {
                lost.push(FlowLoss { flow: id(1, nth), records: 1, ..FlowLoss::default() });
            } else {
                records.push((1, off, Kind::Xout, key(PID)));
            }
            records.push((1, off + 1, Kind::Quit, vec![9]));
            for (domain, time_ns, kind, values) in records {
                let (flow, site, comm) = (id(domain, nth), u32::try_from(domain).unwrap(), [0; 16]);
                let record = Record { time_ns, flow, site, pid: 1, tid: 1, cpu: 0, kind, comm, values };
                let number = u8::try_from(domain).unwrap();
                writer.append(number, i64::try_from(time_ns).unwrap(), &record).unwrap();
            }
        }
        writer.manifest_mut().loss.flows = lost;
        let loss = SiteLoss { site: 1, dropped: self.lost, ..SiteLoss::default() };
        writer.manifest_mut().loss.sites = vec![loss];
        writer.finish().unwrap();
        Flows::of(&Trace::open(dir.path()).unwrap())
    }
}

/// That packet's two halves are not joined with others, and it is said why.
fn assert_apart(flows: &Flows, nth: u64) {
    let flow = flows.flow(id(2, nth)).unwrap();
    assert_eq!((&flow.locals[..], flow.incomplete), (&[id(2, nth)][..], Some(Incomplete::Unmatched)));
    let later = flows.flow(id(1, nth + WRAP)).unwrap();
    assert_eq!((&later.locals[..], later.incomplete), (&[id(1, nth + WRAP)][..], Some(Incomplete::NoStart)));
    assert!(
        flows.flows().iter().all(|flow| flow.crossings == 0 || flow.total_ns() < 2 * EVERY.cast_signed())
    );
    assert_eq!(flows.summary().carriers[0].refused, 1);
}

#[test]
fn what_lost_one_record_on_each_side_a_wrap_apart_is_not_joined() {
    let traffic = Traffic {
        packets: WRAP + 3_000,
        no_xout: 1_000..1_001,
        no_xin: WRAP + 1_000..WRAP + 1_001,
        ..Traffic::default()
    };
    let flows = traffic.flows();
    assert_apart(&flows, 1_000);
    assert_eq!(flows.summary().carriers[0].crossings, traffic.packets - 2);
}

#[test]
fn what_lost_all_records_of_a_wrap_is_not_joined() {
    // The sender's last record before the hole, and the host's first one behind it.
    let traffic = Traffic {
        packets: WRAP + 3_000,
        no_xout: 1_000..WRAP + 1_000,
        no_xin: 1_001..WRAP + 1_001,
        lost: WRAP,
        ..Traffic::default()
    };
    assert_apart(&traffic.flows(), 1_000);
}

#[test]
fn what_waits_on_the_ring_for_long_is_joined() {
    let traffic = Traffic { packets: 2_000, waits: (1_000, 131_000_000), ..Traffic::default() };
    let flows = traffic.flows();
    assert_eq!((flows.summary().complete, flows.summary().carriers[0].refused), (2_000, 0));
    assert!(flows.flow(id(2, 1_000)).unwrap().total_ns() > 131_000_000);
}

#[test]
fn numbers_of_requests_that_are_no_places_on_a_ring_may_come_in_any_order() {
    // As Xen's: numbers of free requests, whatever comes next.
    let index = |nth| (nth * 40_503) % 65_521;
    let traffic =
        Traffic { packets: 2_000, ring: 0, waits: (1_000, 131_000_000), index, ..Traffic::default() };
    let flows = traffic.flows();
    assert_eq!((flows.summary().complete, flows.summary().carriers[0].refused), (2_000, 0));
}

#[test]
fn frames_that_say_the_same_are_joined_in_their_order() {
    // XW_CONTENT. All say the same; one is put on that never comes off.
    let index = |_| 7;
    let waits = (1_000, 50 * EVERY);
    let traffic =
        Traffic { packets: 2_000, ring: u64::MAX, waits, no_xout: 500..501, index, ..Traffic::default() };
    let flows = traffic.flows();
    let carrier = &flows.summary().carriers[0];
    assert_eq!((carrier.crossings, carrier.unmatched_xin, carrier.negative_gaps), (1_999, 1, 0));
    for nth in (0..2_000).filter(|nth| *nth != 500) {
        assert_eq!(flows.flow(id(2, nth)).unwrap().locals, [id(2, nth), id(1, nth)], "{nth}");
    }
}

#[test]
fn what_is_found_by_an_address_alone_does_not_come_round() {
    // As a disk's requests: each takes milliseconds, and the index is always the same.
    let index = |_| 0;
    let traffic = Traffic { packets: 2, waits: (1, 8_000_000), lost: WRAP, index, ..Traffic::default() };
    let flows = traffic.flows();
    assert_eq!((flows.summary().carriers[0].crossings, flows.summary().carriers[0].refused), (2, 0));
}
