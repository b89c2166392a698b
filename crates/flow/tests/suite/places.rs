//! Where flows are between their steps, by what they are told apart, and whose flows began elsewhere.

use xweave_flow::{Flows, Join, KindCount, Taker, TakerState, Wanted, by_value};
use xweave_trace::{
    Domain, DomainVm, Event, Manifest, Role, Site, Trace, Writer,
    event::{Kind as EventKind, State},
};
use xweave_wire::record::{Kind, Record};

use crate::notation;

const HOST: u8 = 1;
const VM1: u8 = 2;
const VM2: u8 = 3;

/// Domain, nanoseconds, kind, function, process.
type Step = (u8, u64, Kind, &'static str, &'static str);

/// From a socket of vm1 to one of vm2, through a bridge.
const WAY: [Step; 14] = [
    (VM1, 0, Kind::Start, "tcp_skb_entail", "curl"),
    (VM1, 40, Kind::Copy, "skb_clone", "curl"),
    (VM1, 60, Kind::Hop, "start_xmit", "curl"),
    (VM1, 100, Kind::Xin, "virtqueue_add_outbuf", "curl"),
    (HOST, 1_100, Kind::Xout, "vhost_get_vq_desc", "vhost"),
    (HOST, 1_150, Kind::Move, "build_skb", "vhost"),
    (HOST, 1_200, Kind::Hop, "netif_receive_skb", "vhost"),
    (HOST, 1_210, Kind::Hop, "br_handle_frame_finish", "vhost"),
    (HOST, 1_250, Kind::Hop, "tun_net_xmit", "vhost"),
    (HOST, 3_250, Kind::Xin, "vhost_get_vq_desc", "vhost"),
    (VM2, 3_750, Kind::Xout, "virtqueue_get_buf_ctx", "swapper"),
    (VM2, 3_950, Kind::Hop, "tcp_queue_rcv", "swapper"),
    (VM2, 9_950, Kind::Hop, "skb_copy_datagram_iter", "nginx"),
    (VM2, 10_000, Kind::Quit, "skb_attempt_defer_free", "nginx"),
];

fn domains() -> Vec<Domain> {
    let guest = |name: &str, number: u8| {
        let vm = Some(DomainVm { host: "host".into(), pid: 4000 + u32::from(number), cid: None });
        Domain { name: name.into(), number, role: Role::Guest, vm, ..Domain::default() }
    };
    let host = Domain { name: "host".into(), number: HOST, ..Domain::default() };
    vec![host, guest("vm1", VM1), guest("vm2", VM2)]
}

/// A trace of so many flows on that way, of which each second has the other device.
fn trace(dir: &std::path::Path, flows: u64) -> Trace {
    trace_with(dir, flows, &[])
}

/// The same, with these events.
fn trace_with(dir: &std::path::Path, flows: u64, events: &[Event]) -> Trace {
    trace_and(dir, flows, |writer| events.iter().for_each(|event| writer.event(*event).unwrap()))
}

/// The same, with what else is written.
fn trace_and(dir: &std::path::Path, flows: u64, more: impl FnOnce(&mut Writer)) -> Trace {
    let manifest = Manifest { domains: domains(), ..Manifest::default() };
    let names = ["host", "vm1", "vm2"];
    let mut writer = Writer::create(dir, manifest).unwrap();
    let site = |(site, (domain, _, kind, function, _)): (u32, &Step)| Site {
        site,
        domain: names[usize::from(*domain) - 1].into(),
        function: (*function).into(),
        xflow: Some("packet".into()),
        carrier: matches!(kind, Kind::Xin | Kind::Xout).then(|| "virtio_net".into()),
        values: if *function == "tun_net_xmit" { vec!["len".into(), "ifindex".into()] } else { vec![] },
        ..Site::default()
    };
    writer.sites(&(1..).zip(&WAY).map(site).collect::<Vec<_>>()).unwrap();
    for number in 1..=flows {
        for (site, (domain, after, kind, function, process)) in (1..).zip(&WAY) {
            let peer = [4002, 4003][usize::from(site > 5)] * u64::from(*domain == HOST);
            let values = match (kind, *function) {
                (Kind::Xin | Kind::Xout, _) => vec![u64::from(site > 5), number, number, peer],
                (Kind::Hop, "tun_net_xmit") => vec![1500, 4 + number % 2],
                (Kind::Copy | Kind::Move, _) => vec![7, 8],
                _ => vec![7],
            };
            let time_ns = number * 100_000 + after;
            let mut comm = [0; 16];
            comm[..process.len()].copy_from_slice(process.as_bytes());
            let (flow, tid) = (u64::from(*domain) << 56 | number, u32::from(*domain));
            let record = Record { time_ns, flow, site, pid: tid, tid, cpu: 0, kind: *kind, comm, values };
            writer.append(*domain, time_ns.cast_signed(), &record).unwrap();
        }
    }
    more(&mut writer);
    writer.finish().unwrap();
    Trace::open(dir).unwrap()
}

/// Of the rings to the host that flow 1 was in, from 100,100 ns until 101,100 ns, and what is said of their takers.
fn takers(events: &[Event]) -> Vec<(String, Option<Taker>)> {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace_with(dir.path(), 1, events);
    let flows = Flows::of(&trace).with_takers(&trace);
    let rings = flows.places().iter().filter(|place| place.stay.place.kind() == "ring");
    rings.map(|place| (notation::place(&place.stay.place), place.taker.clone())).collect()
}

/// The host's CPU goes at that time from one thread, left in a state, to another; thread 1 is vhost.
fn switch(time_ns: i64, from: u32, state: State, to: u32) -> Event {
    let event = Event::new(EventKind::Switch, HOST, time_ns, 0, from);
    Event { other: to, code: state.code(), ..event }
}

fn wake(time_ns: i64) -> Event {
    Event { other: 1, ..Event::new(EventKind::Wake, HOST, time_ns, 0, 9) }
}

#[test]
fn a_ring_says_what_the_thread_did_that_had_to_take_flows_off_where_events_tell() {
    let rings = |to_host: Option<TakerState>| {
        vec![
            ("ring vm1→host".to_owned(), to_host.map(|was| Taker { name: "vhost".into(), was })),
            // An interrupt takes them off there.
            ("ring host→vm2".to_owned(), None),
        ]
    };
    assert_eq!(takers(&[]), rings(None), "no event tells");
    let sleeps = switch(90_000, 1, State::Sleeping, 0);
    let late = [sleeps, wake(100_700), switch(100_800, 0, State::Runnable, 1)];
    assert_eq!(takers(&late), rings(Some(TakerState::Asleep)));
    let crowded = [sleeps, wake(100_200), switch(100_900, 5, State::Runnable, 1)];
    assert_eq!(takers(&crowded), rings(Some(TakerState::Ready)));
    let pushed_off = [switch(100_150, 1, State::Runnable, 5), switch(101_000, 5, State::Sleeping, 1)];
    assert_eq!(takers(&pushed_off), rings(Some(TakerState::Ready)));
    let busy = [switch(90_000, 5, State::Sleeping, 1), switch(110_000, 1, State::Sleeping, 0)];
    assert_eq!(takers(&busy), rings(None), "it ran");
    // Neither for more than half of the time.
    let both = [sleeps, wake(100_500), switch(101_000, 5, State::Runnable, 1)];
    assert_eq!(takers(&both), rings(None));
    // What another thread does, or this one in another kernel, says nothing; nor what it did before events were lost.
    let of_guest = Event { domain: VM1, ..sleeps };
    assert_eq!(takers(&[switch(90_000, 7, State::Sleeping, 0), of_guest]), rings(None));
    let lost = Event::new(EventKind::Lost, HOST, 100_050, 0, 0);
    assert_eq!(takers(&[sleeps, lost, switch(101_050, 0, State::Runnable, 1)]), rings(None));
}

#[test]
fn steps_in_the_same_place_are_one_and_the_places_of_a_flow_are_all_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let flows = Flows::of(&trace(dir.path(), 3));
    assert_eq!(flows.summary().complete, 3);
    assert_eq!(flows.places()[3].stay.place.kind(), "vhost_and_tap");
    let places: Vec<(&str, String, i64)> = flows
        .places()
        .iter()
        .map(|place| (place.stay.place.domain(), notation::place(&place.stay.place), place.stay.p50_ns))
        .collect();
    let expected = [
        ("vm1", "tcp_send_queue", 40),
        ("vm1", "stack and driver", 60),
        ("host", "ring vm1→host", 1_000),
        ("host", "vhost and tap", 100),
        ("host", "stack", 10),
        ("host", "bridge", 40),
        ("host", "queue of vm2's tap", 2_000),
        ("vm2", "ring host→vm2", 500),
        ("vm2", "stack and driver", 200),
        ("vm2", "socket of nginx", 6_050),
    ];
    assert_eq!(places, expected.map(|(domain, place, ns)| (domain, place.to_owned(), ns)));
    assert_eq!(places.iter().map(|(.., ns)| ns).sum::<i64>(), flows.flows()[0].total_ns());
    let shares: f64 = flows.places().iter().map(|place| place.stay.share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
}

#[test]
fn flows_are_grouped_by_a_stored_value_and_timed_from_where_it_was_stored() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), 3);
    let grouped = |name: &str| {
        let wanted = Wanted { of: &|_| true, kept: Some(0) };
        by_value::read(&trace, Join::of(&trace), wanted, name).1
    };
    let groups = grouped("ifindex").groups;
    let told: Vec<_> = groups
        .iter()
        .map(|of| (of.value, notation::place(&of.stay.place), of.stay.flows, of.stay.p50_ns, of.flow_p50_ns))
        .collect();
    let place = || "queue of vm2's tap".to_owned();
    assert_eq!(told, [(5, place(), 2, 2_000, 10_000), (4, place(), 1, 2_000, 10_000)]);
    // By its number too; and a name that nobody gave is of no flow.
    let numbered = grouped("v2").groups;
    assert_eq!(numbered.iter().filter(|of| notation::place(&of.stay.place) == place()).count(), 2);
    assert_eq!(grouped("ifidex").groups, []);
}

/// A flow of the host: these steps, each a microsecond after the one before.
fn write_of_host(writer: &mut Writer, number: u64, steps: &[(u32, Kind, Vec<u64>)]) {
    let of_host = |(site, kind, values): &(u32, Kind, Vec<u64>)| (HOST, *site, *kind, values.clone());
    write_steps(writer, number, 1_000, steps.iter().map(of_host));
}

/// The steps of a flow, so many nanoseconds after each other: of which domain, at which site, and what is stored there.
fn write_steps(
    writer: &mut Writer,
    number: u64,
    after: u64,
    steps: impl IntoIterator<Item = (u8, u32, Kind, Vec<u64>)>,
) {
    for (nth, (domain, site, kind, values)) in (0..).zip(steps) {
        let (time_ns, flow) = (number * 100_000 + nth * after, u64::from(domain) << 56 | number);
        let record = Record { time_ns, flow, site, pid: 1, tid: 1, cpu: 0, kind, comm: [0; 16], values };
        writer.append(domain, time_ns.cast_signed(), &record).unwrap();
    }
}

#[test]
fn a_tap_is_one_group_though_some_flows_end_in_its_queue() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace_and(dir.path(), 2, |writer| {
        let [start, queued, dropped] =
            [(6, Kind::Start, vec![7]), (9, Kind::Hop, vec![1500, 4]), (7, Kind::Quit, vec![7])];
        write_of_host(writer, 50, &[start, queued, dropped]);
    });
    let wanted = Wanted { of: &|_| true, kept: Some(0) };
    let groups = by_value::read(&trace, Join::of(&trace), wanted, "ifindex").1.groups;
    let mut told: Vec<_> =
        groups.iter().map(|of| (of.value, notation::place(&of.stay.place), of.stay.flows)).collect();
    told.sort_unstable();
    let place = || "queue of vm2's tap".to_owned();
    assert_eq!(told, [(4, place(), 2), (5, place(), 1)]);
}

#[test]
fn a_place_that_few_flows_come_by_stands_before_the_carrier_that_follows_it() {
    let dir = tempfile::tempdir().unwrap();
    // Of flows that go from the host's interrupt to the guest's, one whose vCPU had to get a CPU first.
    let manifest = Manifest { domains: domains(), ..Manifest::default() };
    let functions = [
        (1, "host", "__apic_accept_irq", None),
        (2, "host", "sched_waking", None),
        (3, "host", "sched_switch", None),
        (4, "host", "kvm_apic_ack_interrupt", Some("interrupt")),
        (5, "vm1", "__common_interrupt", Some("interrupt")),
        (6, "vm1", "irq_exit_rcu", None),
    ];
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    let site = |(site, domain, function, carrier): (u32, &str, &str, Option<&str>)| Site {
        site,
        domain: domain.into(),
        function: function.into(),
        xflow: Some("interrupt".into()),
        carrier: carrier.map(str::to_owned),
        ..Site::default()
    };
    writer.sites(&functions.map(site)).unwrap();
    for number in 1..=10u64 {
        let runs = [(HOST, 2, Kind::Hop, vec![8]), (HOST, 3, Kind::Hop, vec![8])];
        let crosses = [
            (HOST, 4, Kind::Xin, vec![0x40, number, number, 4002]),
            (VM1, 5, Kind::Xout, vec![0x40, number, number, 0]),
            (VM1, 6, Kind::Quit, vec![7]),
        ];
        let waits = runs.into_iter().filter(|_| number == 10);
        let steps = std::iter::once((HOST, 1, Kind::Start, vec![7])).chain(waits).chain(crosses);
        write_steps(&mut writer, number, 1_000, steps);
    }
    writer.finish().unwrap();
    let flows = Flows::of(&Trace::open(dir.path()).unwrap());
    let places: Vec<_> = flows
        .places()
        .iter()
        .map(|of| format!("{} {}", of.stay.place.domain(), notation::place(&of.stay.place)))
        .collect();
    let expected = [
        "host pending_for_vcpu",
        "host run_queue",
        "host on_cpu",
        "vm1 interrupt host→vm1",
        "vm1 hard_interrupt",
    ];
    assert_eq!(places, expected);
}

#[test]
fn the_typical_flow_is_of_the_kind_that_takes_most_time_however_many_others_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace_and(dir.path(), 3, |writer| {
        // Four that only go to the host, and take a tenth of the time: the median of all is among them.
        for number in 50..54u64 {
            let steps = [
                (VM1, 1, Kind::Start, vec![7]),
                (VM1, 4, Kind::Xin, vec![0, number, number, 0]),
                (HOST, 5, Kind::Xout, vec![0, number, number, 4002]),
                (HOST, 7, Kind::Quit, vec![7]),
            ];
            write_steps(writer, number, 300, steps);
        }
    });
    let flows = Flows::of(&trace);
    let counts: Vec<_> = flows.kinds().iter().map(|kind| (&*kind.name, kind.complete)).collect();
    assert_eq!(counts, [("packet, vm1 → host", 4), ("packet, vm1 → vm2", 3)]);
    let kind = flows.kind_of(flows.typical().unwrap()).unwrap();
    assert_eq!(kind.name, "packet, vm1 → vm2");
}

/// A frame that the host takes off a ring of that process, and whose beginning nobody recorded.
fn without_start(number: u64, source: u8, peer: u64) -> Vec<(u8, u64, Kind, Vec<u64>)> {
    vec![
        (HOST, number, Kind::Xout, vec![0x1000, number, number, peer]),
        (HOST, number, Kind::Frame, frame(source)),
        (HOST, number, Kind::Quit, vec![7]),
    ]
}

/// An ARP request of 10.77.0.`source`.
fn frame(source: u8) -> Vec<u64> {
    let address = |last| u64::from(u32::from_le_bytes([10, 77, 0, last]));
    vec![0x0806 << 16 | 1 << 8, address(source), 0, address(200), 0, 0, 0]
}

#[test]
fn that_a_strangers_frames_have_no_start_is_normal_and_that_a_recorded_guests_have_none_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = Manifest { domains: domains(), ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    writer.sites(&[Site { site: 1, carrier: Some("virtio_net".into()), ..Site::default() }]).unwrap();
    // A machine that is not recorded; a guest that is; and an address from which others came with their starts.
    let mut records = [without_start(1, 9, 999), without_start(2, 9, 999)].concat();
    records.extend(without_start(3, 8, 4002));
    records.extend(without_start(4, 1, 0));
    records.extend([
        (HOST, 5, Kind::Start, vec![7]),
        (HOST, 5, Kind::Frame, frame(1)),
        (HOST, 5, Kind::Quit, vec![7]),
    ]);
    for (time_ns, (domain, number, kind, values)) in (1..).zip(records) {
        let (flow, comm) = (u64::from(domain) << 56 | number, [0; 16]);
        let record = Record { time_ns, flow, site: 1, pid: 1, tid: 1, cpu: 0, kind, comm, values };
        writer.append(domain, time_ns.cast_signed(), &record).unwrap();
    }
    writer.finish().unwrap();
    let flows = Flows::of(&Trace::open(dir.path()).unwrap());
    let summary = flows.summary();
    assert_eq!((summary.incomplete.no_start, summary.began_elsewhere()), (4, 2), "{summary:?}");
    assert_eq!(summary.elsewhere, [KindCount { kind: "ARP request".into(), flows: 2 }]);
    let carriers: Vec<_> = summary.carriers.iter().map(|of| (of.unmatched_xout, of.strangers)).collect();
    assert_eq!(carriers, [(4, 2)]);
}
