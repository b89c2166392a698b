//! Flows of which a copy, or all, was dropped: records in the order in which kernels make them, and what must be said.

use xweave_flow::{Flows, Incomplete};
use xweave_trace::{Domain, DropReason, Manifest, Site, Symbol, Trace, Writer};
use xweave_wire::record::{Kind, Record};

/// `SKB_DROP_REASON_NO_SOCKET` and `SKB_DROP_REASON_SOCKET_RCVBUFF` of Linux 6.12, and one that the kernel has no name
/// for.
const NO_SOCKET: u64 = 3;
const RCVBUFF: u64 = 6;
const UNNAMED: u64 = 0x2_0001;

/// Where `kfree_skb` was called.
const UDP_RCV: u64 = 0xffff_ffff_8190_0123;
const ELSEWHERE: u64 = 0xffff_ffff_8190_9999;

/// What is recorded under the local flow of this number: time, kind, values.
type Records<'a> = &'a [(u64, u64, Kind, &'a [u64])];

/// The local flow of a number, of the domain `vm1`.
fn id(number: u64) -> u64 {
    1 << 56 | number
}

fn flows(records: Records<'_>) -> Flows {
    let dir = tempfile::tempdir().unwrap();
    let reason = |value, name: &str| DropReason { value, name: name.into() };
    let symbol = Symbol {
        address: UDP_RCV,
        function: "__udp4_lib_rcv".into(),
        offset: 0x123,
        module: Some("udp_of_a_module".into()),
    };
    let vm1 = Domain {
        name: "vm1".into(),
        number: 1,
        drop_reasons: vec![reason(NO_SOCKET, "NO_SOCKET"), reason(RCVBUFF, "SOCKET_RCVBUFF")],
        symbols: vec![symbol],
        ..Domain::default()
    };
    let mut writer =
        Writer::create(dir.path(), Manifest { domains: vec![vm1], ..Manifest::default() }).unwrap();
    let site = |site, function: &str, carrier: Option<&str>| Site {
        site,
        domain: "vm1".into(),
        function: function.into(),
        xflow: Some("datagram".into()),
        carrier: carrier.map(str::to_owned),
        ..Site::default()
    };
    writer.sites(&[site(1, "f", None), site(2, "virtqueue_add_outbuf", Some("virtio_net"))]).unwrap();
    for &(flow, time_ns, kind, values) in records {
        let site = if matches!(kind, Kind::Xin | Kind::Xout) { 2 } else { 1 };
        let (comm, values) = ([0; 16], values.to_vec());
        let record = Record { time_ns, flow: id(flow), site, pid: 1, tid: 1, cpu: 0, kind, comm, values };
        writer.append(1, i64::try_from(time_ns).unwrap(), &record).unwrap();
    }
    writer.finish().unwrap();
    Flows::of(&Trace::open(dir.path()).unwrap())
}

/// Why the first flow is not complete, and the reason for which it was dropped.
fn told(records: Records<'_>) -> (Option<Incomplete>, Option<String>) {
    let flows = flows(records);
    let flow = &flows.flows()[0];
    (flow.incomplete, flow.dropped.as_ref().map(|dropped| dropped.reason.clone()))
}

fn dropped(reason: &str) -> (Option<Incomplete>, Option<String>) {
    (Some(Incomplete::Dropped), Some(reason.to_owned()))
}

const COMPLETE: (Option<Incomplete>, Option<String>) = (None, None);

#[test]
fn a_dropped_datagram_is_not_complete_and_says_where_and_why() {
    let flows = flows(&[
        (1, 100, Kind::Start, &[0x10]),
        (1, 200, Kind::Hop, &[]),
        (1, 300, Kind::Quit, &[0x10, NO_SOCKET, UDP_RCV]),
        (2, 400, Kind::Start, &[0x20]),
        (2, 500, Kind::Quit, &[0x20, RCVBUFF, ELSEWHERE]),
        (3, 600, Kind::Start, &[0x30]),
        (3, 700, Kind::Quit, &[0x30, UNNAMED, UDP_RCV]),
        (4, 800, Kind::Start, &[0x30]),
        (4, 900, Kind::Quit, &[0x30, NO_SOCKET, UDP_RCV]),
        (5, 910, Kind::Start, &[0x40]),
        (5, 920, Kind::Quit, &[0x40]),
    ]);
    let first = flows.flows()[0].dropped.as_ref().unwrap();
    assert_eq!((first.t_ns, first.domain.as_str(), first.number), (300, "vm1", NO_SOCKET));
    assert_eq!((first.function.as_deref(), first.offset), (Some("__udp4_lib_rcv"), 0x123));
    assert_eq!(first.module.as_deref(), Some("udp_of_a_module"));
    let second = flows.flows()[1].dropped.as_ref().unwrap();
    assert_eq!((second.reason.as_str(), second.function.as_deref()), ("SOCKET_RCVBUFF", None));
    assert_eq!(second.address, ELSEWHERE);
    assert_eq!(flows.flows()[2].dropped.as_ref().unwrap().reason, format!("reason {UNNAMED}"));

    let summary = flows.summary();
    assert_eq!((summary.flows, summary.complete, summary.incomplete.dropped), (5, 1, 4));
    let counts: Vec<_> = summary.dropped.iter().map(|count| (count.reason.as_str(), count.flows)).collect();
    assert_eq!(counts, [("NO_SOCKET", 2), ("SOCKET_RCVBUFF", 1), (&format!("reason {UNNAMED}"), 1)]);

    let first = &flows.flows()[0];
    assert_eq!(first.incomplete, Some(Incomplete::Dropped));
    let dropped = first.dropped.as_ref().unwrap();
    assert_eq!((&*dropped.reason, dropped.function.as_deref()), ("NO_SOCKET", Some("__udp4_lib_rcv")));
    assert!(flows.flows()[4].dropped.is_none());
}

#[test]
fn a_listener_with_a_copy_does_not_make_a_dropped_datagram_arrive() {
    // tcpdump reads its clone after the datagram was dropped.
    let records: Records<'_> = &[
        (1, 100, Kind::Start, &[0x10]),
        (1, 110, Kind::Copy, &[0x10, 0x20]),
        (1, 120, Kind::Quit, &[0x10, NO_SOCKET, UDP_RCV]),
        (1, 130, Kind::Hop, &[]),
        (1, 140, Kind::Quit, &[0x20]),
    ];
    assert_eq!(told(records), dropped("NO_SOCKET"));
}

#[test]
fn a_listener_that_has_no_room_does_not_make_a_datagram_lost() {
    let records: Records<'_> = &[
        (1, 100, Kind::Start, &[0x10]),
        (1, 110, Kind::Copy, &[0x10, 0x20]),
        (1, 120, Kind::Quit, &[0x20, RCVBUFF, ELSEWHERE]),
        (1, 130, Kind::Hop, &[]),
        (1, 140, Kind::Quit, &[0x10]),
    ];
    assert_eq!(told(records), COMPLETE);
    let flows = flows(records);
    assert_eq!(flows.flows()[0].drops, 1, "it is said all the same");
}

#[test]
fn a_segment_of_which_one_copy_was_sent_is_not_dropped_with_another() {
    // The original waits for the acknowledgement; clones are sent.
    let never: Records<'_> = &[
        (1, 100, Kind::Start, &[0x10]),
        (1, 110, Kind::Copy, &[0x10, 0x20]),
        (1, 120, Kind::Hop, &[]),
        (1, 130, Kind::Quit, &[0x20, RCVBUFF, ELSEWHERE]),
        (1, 140, Kind::Quit, &[0x10]),
    ];
    assert_eq!(told(never), dropped("SOCKET_RCVBUFF"), "no copy of it left");
    let sent_again: Records<'_> = &[
        (1, 100, Kind::Start, &[0x10]),
        (1, 110, Kind::Copy, &[0x10, 0x20]),
        (1, 130, Kind::Quit, &[0x20, RCVBUFF, ELSEWHERE]),
        (1, 140, Kind::Copy, &[0x10, 0x30]),
        (1, 150, Kind::Quit, &[0x30]),
        (1, 160, Kind::Quit, &[0x10]),
    ];
    assert_eq!(told(sent_again), COMPLETE);
    let sent_before: Records<'_> = &[
        (1, 100, Kind::Start, &[0x10]),
        (1, 110, Kind::Copy, &[0x10, 0x20]),
        (1, 120, Kind::Quit, &[0x20]),
        (1, 130, Kind::Copy, &[0x10, 0x20]),
        (1, 140, Kind::Quit, &[0x20, RCVBUFF, ELSEWHERE]),
        (1, 150, Kind::Quit, &[0x10]),
    ];
    assert_eq!(told(sent_before), COMPLETE);
}

#[test]
fn what_a_driver_drops_because_its_ring_is_full_is_dropped() {
    let records: Records<'_> = &[
        (1, 100, Kind::Start, &[0x10]),
        (1, 110, Kind::Move, &[0x10, 0x20]),
        (1, 120, Kind::Xin, &[9, 1, 1, 0]),
        (1, 130, Kind::Quit, &[0x20, RCVBUFF, ELSEWHERE]),
    ];
    assert_eq!(told(records), dropped("SOCKET_RCVBUFF"));
}

#[test]
fn what_came_off_a_carrier_is_dropped_under_the_key_that_it_came_to() {
    let records: Records<'_> = &[
        (1, 100, Kind::Xout, &[9, 1, 1, 0]),
        (1, 110, Kind::Move, &[0x10, 0x20]),
        (1, 120, Kind::Copy, &[0x20, 0x30]),
        (1, 130, Kind::Quit, &[0x20, NO_SOCKET, UDP_RCV]),
        (1, 140, Kind::Quit, &[0x30]),
    ];
    let (incomplete, reason) = told(records);
    assert_eq!(incomplete, Some(Incomplete::NoStart), "what is wrong before comes first");
    assert_eq!(reason.as_deref(), Some("NO_SOCKET"));
}
