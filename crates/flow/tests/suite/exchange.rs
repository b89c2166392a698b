//! Requests and answers, found in the frames that carried them.

use proptest::{collection::vec, prelude::*};
use xweave_flow::{Exchange, Flows, Way, Ways, exchange};
use xweave_trace::{Domain, DomainVm, Manifest, Role, Site, Trace, Writer};
use xweave_wire::record::{Kind, Record};

use crate::notation::way_place;

const HOST: u64 = 1;
const VM1: u64 = 2;
const VM2: u64 = 3;

const SYN: u64 = 2;
const ACK: u64 = 16;

/// Ends of the connections: 10.0.0.1 is the host's, 10.0.0.2 vm1's.
const CLIENT: (u64, u64) = (u32::from_le_bytes([10, 0, 0, 1]) as u64, 40_000);
const SERVER: (u64, u64) = (u32::from_le_bytes([10, 0, 0, 2]) as u64, 80);

/// What a test says of a frame: from the client or from the server, when it begins, and its words.
struct Sent {
    by_client: bool,
    /// The guest that the server is in.
    guest: u64,
    at: u64,
    protocol: u64,
    flags: u64,
    bytes: u64,
    sequence: u64,
    parents: Vec<u64>,
    /// The server's thread that receives it, or sends it.
    thread: u32,
    /// It is dropped in its sender's domain.
    dropped: bool,
    /// The ports of client and server.
    ports: [u64; 2],
    /// The client has the server's address, and the server the client's.
    swapped: bool,
}

fn tcp(by_client: bool, at: u64, flags: u64, sequence: u32, bytes: u64) -> Sent {
    Sent {
        by_client,
        guest: VM1,
        at,
        protocol: 6,
        flags,
        bytes,
        sequence: u64::from(sequence) << 32,
        parents: Vec::new(),
        thread: 1,
        dropped: false,
        ports: [CLIENT.1, SERVER.1],
        swapped: false,
    }
}

fn dropped(sent: Sent) -> Sent {
    Sent { dropped: true, ..sent }
}

fn other(by_client: bool, at: u64, protocol: u64, flags: u64, sequence: u64) -> Sent {
    Sent { protocol, flags, bytes: 10, sequence, ..tcp(by_client, at, 0, 0, 0) }
}

/// A trace of frames: each begins in its sender's domain, is put on a ring 10 ns later, comes off it 30 ns later and ends
/// 50 ns later. Frames number their flows from 1, in their sender's domain.
fn exchanges(frames: &[Sent]) -> Vec<Exchange> {
    ways(frames).into_iter().map(|(exchange, _)| exchange).collect()
}

/// The same, with their ways.
fn ways(frames: &[Sent]) -> Vec<(Exchange, Way)> {
    ways_since(frames, |exchange| exchange.start_ns)
}

/// The same, of exchanges that were due then.
fn ways_since(frames: &[Sent], due_ns: impl Fn(&Exchange) -> i64) -> Vec<(Exchange, Way)> {
    let flows = flows(frames);
    let all = exchange::of(&flows);
    let mut ways = Ways::of(&flows, &all);
    all.iter().map(|of| (of.clone(), ways.exchange(of, due_ns(of)))).collect()
}

fn flows(frames: &[Sent]) -> Flows {
    let dir = tempfile::tempdir().unwrap();
    let guest = |name: &str, number: u8| {
        let vm = Some(DomainVm { host: "host".into(), pid: 4000 + u32::from(number), cid: None });
        Domain { name: name.into(), number, role: Role::Guest, vm, ..Domain::default() }
    };
    let host = Domain { name: "host".into(), number: 1, ..Domain::default() };
    let manifest = Manifest { domains: vec![host, guest("vm1", 2), guest("vm2", 3)], ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    let site = |site| Site { site, carrier: Some("virtio_net".into()), ..Site::default() };
    writer.sites(&[site(1), site(2), site(3)]).unwrap();
    let mut records = Vec::new();
    for (number, sent) in (1..).zip(frames) {
        let (from, to) = if sent.by_client { (HOST, sent.guest) } else { (sent.guest, HOST) };
        let mut ends = [(CLIENT.0, sent.ports[0]), (SERVER.0, sent.ports[1])];
        if sent.swapped {
            ends.reverse();
        }
        let [source, target] = if sent.by_client { ends } else { [ends[1], ends[0]] };
        let (flow, other) = (from << 56 | number, to << 56 | (1000 + number));
        let thread = sent.thread;
        let ports = if sent.protocol == 1 { 0 } else { source.1 << 16 | target.1 };
        let what = sent.bytes << 32 | 0x0800 << 16 | sent.protocol << 8 | sent.flags;
        let words = vec![what, source.0, 0, target.0, 0, sent.sequence, ports];
        let key =
            |domain| vec![0x1000 * from, number, number, if domain == HOST { 4000 + sent.guest } else { 0 }];
        if sent.parents.is_empty() {
            records.push((sent.at, from, flow, Kind::Start, vec![7], thread));
        }
        for parent in &sent.parents {
            records.push((sent.at, from, flow, Kind::Split, vec![*parent, 7, 8], thread));
        }
        records.push((sent.at + 5, from, flow, Kind::Frame, words, thread));
        if sent.dropped {
            records.push((sent.at + 10, from, flow, Kind::Quit, vec![9, 2, 0xffff_ffff_8190_0123], thread));
            continue;
        }
        records.push((sent.at + 10, from, flow, Kind::Xin, key(from), thread));
        records.push((sent.at + 40, to, other, Kind::Xout, key(to), thread));
        records.push((sent.at + 90, to, other, Kind::Quit, vec![9], thread));
    }
    for (time_ns, domain, flow, kind, values, tid) in records {
        let domain = u8::try_from(domain).unwrap();
        let (site, comm) = (domain.into(), [0; 16]);
        let record = Record { time_ns, flow, site, pid: 1, tid, cpu: 0, kind, comm, values };
        writer.append(domain, i64::try_from(time_ns).unwrap(), &record).unwrap();
    }
    writer.finish().unwrap();
    Flows::of(&Trace::open(dir.path()).unwrap())
}

fn parts(exchange: &Exchange) -> Vec<(&str, i64)> {
    assert_eq!(exchange.parts.iter().map(|part| part.ns).sum::<i64>(), exchange.total_ns());
    exchange.parts.iter().map(|part| (part.name.as_str(), part.ns)).collect()
}

#[test]
fn the_time_of_a_request_is_told_by_domains_crossings_and_server() {
    let all = exchanges(&[
        tcp(true, 0, SYN, 99, 0),
        tcp(false, 100, SYN | ACK, 499, 0),
        tcp(true, 200, ACK, 100, 0),
        tcp(true, 1_000, ACK, 100, 20),
        tcp(false, 1_100, ACK, 500, 0),
        tcp(false, 3_000, ACK, 500, 1_400),
        tcp(false, 3_200, ACK, 1_900, 600),
    ]);
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!(one.connection.client.to_string(), "10.0.0.1:40000");
    assert_eq!(one.connection.server.to_string(), "10.0.0.2:80");
    assert_eq!((&*one.client_domain, &*one.server_domain, one.complete), ("host", "vm1", true));
    assert_eq!((one.request.bytes, one.answer.bytes), (20, 2_000));
    assert_eq!((one.request.flows.len(), one.answer.flows.len()), (1, 2));
    assert_eq!(
        parts(one),
        [
            ("request in host", 10),
            ("request, host → vm1", 30),
            ("request in vm1", 50),
            ("server in vm1", 1_910),
            ("answer in vm1", 10),
            ("answer, vm1 → host", 30),
            ("answer in host", 50),
            ("answer, frames after its first", 200),
        ]
    );
}

#[test]
fn requests_on_one_connection_follow_each_other() {
    // The second request's bytes go past the end of sequence numbers; an answer's part is put together late.
    let near_end = u32::MAX - 9;
    let mut late = tcp(false, 2_100, ACK, 500, 50);
    late.parents = vec![VM1 << 56 | 2];
    let all = exchanges(&[
        tcp(true, 0, ACK, near_end - 30, 30),
        tcp(false, 1_000, ACK, 500, 100),
        tcp(true, 2_000, ACK, near_end, 20),
        late,
        tcp(true, 2_200, ACK, 10, 5),
        tcp(false, 4_000, ACK, 600, 10),
    ]);
    let sides: Vec<_> = all
        .iter()
        .map(|one| (one.request.bytes, one.answer.bytes, one.request.flows.len(), one.answer.flows.len()))
        .collect();
    assert_eq!(sides, [(30, 100, 1, 2), (25, 10, 2, 1)]);
    assert_eq!(all[1].parts[0].name, "request, frames before its last");
    for one in &all {
        parts(one);
    }
}

#[test]
fn what_is_not_answered_is_no_exchange_and_a_greeting_is_no_answer() {
    assert!(exchanges(&[other(true, 0, 17, 0, 0), other(true, 200, 17, 0, 0)]).is_empty());
    let all = exchanges(&[
        tcp(true, 0, SYN, 99, 0),
        tcp(false, 200, ACK, 500, 40),
        tcp(true, 400, ACK, 100, 7),
        tcp(false, 600, ACK, 540, 8),
    ]);
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!((one.start_ns, one.request.bytes, one.answer.bytes), (400, 7, 8));
}

#[test]
fn an_answer_to_what_came_before_the_recording_does_not_make_its_server_a_client() {
    let of_tcp =
        [tcp(false, 0, ACK, 500, 50), tcp(true, 1_000, ACK, 100, 20), tcp(false, 2_000, ACK, 550, 50)];
    let of_udp = [other(false, 0, 17, 0, 0), other(true, 1_000, 17, 0, 0), other(false, 2_000, 17, 0, 0)];
    for frames in [of_tcp, of_udp] {
        let all = exchanges(&frames);
        let [exchange] = &all[..] else { panic!("{all:?}") };
        assert_eq!((exchange.start_ns, exchange.end_ns), (1_000, 2_090));
        assert_eq!((exchange.client_domain.as_str(), exchange.server_domain.as_str()), ("host", "vm1"));
        assert_eq!(exchange.connection.server.port(), 80);
    }
}

#[test]
fn datagrams_and_echoes_are_asked_and_answered_too() {
    let echo = |by_client, at, number: u64| {
        other(by_client, at, 1, if by_client { 8 } else { 0 }, (5 << 16 | number) << 32)
    };
    let all = exchanges(&[
        other(true, 0, 17, 0, 0),
        other(false, 300, 17, 0, 0),
        // The first of these is lost.
        echo(true, 1_000, 1),
        echo(true, 2_000, 2),
        echo(false, 2_200, 2),
    ]);
    let services = exchange::services(&all);
    let told: Vec<_> =
        services.iter().map(|of| (of.protocol, of.server.to_string(), of.exchanges, of.p50_ns)).collect();
    assert_eq!(told, [("ICMP", "10.0.0.2:0".to_owned(), 1, 290), ("UDP", "10.0.0.2:80".to_owned(), 1, 390)]);
    for service in &services {
        assert!((service.parts.iter().map(|part| part.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

/// As SIP does: an INVITE has several answers, an ACK none.
#[test]
fn answers_are_to_what_their_thread_received_last() {
    let datagram = |by_client, at| other(by_client, at, 17, 0, 0);
    let all = exchanges(&[
        datagram(true, 0),
        datagram(false, 100),
        datagram(false, 200),
        datagram(true, 400),
        datagram(true, 600),
        datagram(false, 800),
    ]);
    let told: Vec<_> = all.iter().map(|of| (of.start_ns, of.end_ns, of.answer.flows.len())).collect();
    assert_eq!(told, [(0, 290, 2), (600, 890, 1)]);
    let by = |thread, sent: Sent| Sent { thread, ..sent };
    // Two threads, of which the second is quicker; and one that received nothing answers for who did.
    let all = exchanges(&[
        by(11, datagram(true, 0)),
        by(12, datagram(true, 10)),
        by(12, datagram(false, 150)),
        by(11, datagram(false, 400)),
        by(13, datagram(true, 1_000)),
        by(14, datagram(true, 1_010)),
        by(15, datagram(false, 1_200)),
    ]);
    let told: Vec<_> = all.iter().map(|of| (of.start_ns, of.end_ns)).collect();
    assert_eq!(told, [(0, 490), (10, 240), (1_000, 1_290)]);
}

#[test]
fn the_way_of_a_request_and_its_answer_is_told_leg_by_leg() {
    let all = ways(&[other(true, 0, 17, 0, 0), other(false, 300, 17, 0, 0)]);
    let [(_, way)] = &all[..] else { panic!("{all:?}") };
    let told: Vec<_> = way.legs.iter().map(|leg| (way_place(&leg.place), leg.until_ns, leg.domain)).collect();
    assert_eq!(
        told,
        [
            ("request, stack and driver of host", 5, 1),
            ("request, stack and driver of host", 10, 1),
            ("request, ring host→vm1", 40, 2),
            ("request, stack and driver of vm1", 90, 2),
            ("server in vm1", 300, 2),
            ("answer, stack and driver of vm1", 305, 2),
            ("answer, stack and driver of vm1", 310, 2),
            ("answer, ring vm1→host", 340, 1),
            ("answer, stack and driver of host", 390, 1),
        ]
        .map(|(place, until, domain)| (place.to_owned(), until, domain))
    );
}

#[test]
fn the_way_of_what_was_sent_late_begins_when_it_was_due() {
    let frames = || [other(true, 100, 17, 0, 0), other(false, 300, 17, 0, 0)];
    let begins = |due_ns| {
        let all = ways_since(&frames(), |_| due_ns);
        let (_, way) = &all[0];
        (way.start_ns, way_place(&way.legs[0].place), way.legs[0].until_ns, way.legs[0].domain)
    };
    assert_eq!(begins(40), (40, "client, until it asked".into(), 100, 1));
    assert_eq!(begins(140), (100, "request, stack and driver of host".into(), 105, 1));
}

#[test]
fn what_a_server_asks_meanwhile_is_inside_what_it_was_asked() {
    let all = exchanges(&[
        tcp(true, 1_000, ACK, 100, 20),
        other(false, 1_500, 1, 8, 1),
        other(true, 1_700, 1, 0, 1),
        tcp(false, 3_000, ACK, 500, 40),
        // After it, and of another domain.
        other(false, 5_000, 1, 8, 2),
        other(true, 5_200, 1, 0, 2),
    ]);
    let told: Vec<_> =
        all.iter().map(|one| (&*one.client_domain, one.connection.protocol, one.inside)).collect();
    assert_eq!(told, [("host", "TCP", None), ("vm1", "ICMP", Some(0)), ("vm1", "ICMP", None)]);
}

#[test]
fn while_a_server_waits_for_what_it_asks_others_a_request_is_where_that_is() {
    let all = ways(&[
        tcp(true, 1_000, ACK, 100, 20),
        other(false, 1_500, 1, 8, 1),
        other(true, 1_700, 1, 0, 1),
        tcp(false, 3_000, ACK, 500, 40),
        // Of an answer's later frames, too; and what another thread asks, is nobody's.
        other(false, 3_200, 1, 8, 2),
        other(true, 3_400, 1, 0, 2),
        Sent { thread: 2, ..other(false, 3_520, 1, 8, 3) },
        other(true, 3_560, 1, 0, 3),
        tcp(false, 3_600, ACK, 540, 40),
    ]);
    let (outer, way) = &all[0];
    assert_eq!(outer.made, [1, 2]);
    let mut told: Vec<(String, i64)> = Vec::new();
    for leg in &way.legs {
        match told.last_mut() {
            Some((place, until)) if *place == way_place(&leg.place) => *until = leg.until_ns,
            _ => told.push((way_place(&leg.place), leg.until_ns)),
        }
    }
    assert_eq!(
        told,
        [
            ("request, stack and driver of host", 1_010),
            ("request, ring host→vm1", 1_040),
            ("request, stack and driver of vm1", 1_090),
            ("server in vm1", 1_500),
            ("vm1 asks host: request, stack and driver of vm1", 1_510),
            ("vm1 asks host: request, ring vm1→host", 1_540),
            ("vm1 asks host: request, stack and driver of host", 1_590),
            ("vm1 asks host: server in host", 1_700),
            ("vm1 asks host: answer, stack and driver of host", 1_710),
            ("vm1 asks host: answer, ring host→vm1", 1_740),
            ("vm1 asks host: answer, stack and driver of vm1", 1_790),
            ("server in vm1", 3_000),
            ("answer, stack and driver of vm1", 3_010),
            ("answer, ring vm1→host", 3_040),
            ("answer, stack and driver of host", 3_090),
            ("answer, frames after its first", 3_200),
            ("vm1 asks host: request, stack and driver of vm1", 3_210),
            ("vm1 asks host: request, ring vm1→host", 3_240),
            ("vm1 asks host: request, stack and driver of host", 3_290),
            ("vm1 asks host: server in host", 3_400),
            ("vm1 asks host: answer, stack and driver of host", 3_410),
            ("vm1 asks host: answer, ring host→vm1", 3_440),
            ("vm1 asks host: answer, stack and driver of vm1", 3_490),
            ("answer, frames after its first", 3_690),
        ]
        .map(|(place, until)| (place.to_owned(), until))
    );
}

#[test]
fn tenants_with_the_same_addresses_have_requests_of_their_own() {
    let other = |mut sent: Sent| {
        sent.guest = VM2;
        sent
    };
    let all = exchanges(&[
        tcp(true, 1_000, ACK, 100, 20),
        other(tcp(true, 1_100, ACK, 100, 7)),
        // A guest that makes up what another would answer.
        other(tcp(false, 1_200, ACK, 500, 9)),
        tcp(false, 3_000, ACK, 500, 40),
    ]);
    let told: Vec<_> =
        all.iter().map(|one| (&*one.server_domain, one.request.bytes, one.answer.bytes)).collect();
    assert_eq!(told, [("vm1", 20, 40), ("vm2", 7, 9)]);
}

/// Where a way was until when, legs at one place together.
fn legs(way: &Way) -> Vec<(String, i64)> {
    let mut told: Vec<(String, i64)> = Vec::new();
    for leg in &way.legs {
        match told.last_mut() {
            Some((place, until)) if *place == way_place(&leg.place) => *until = leg.until_ns,
            _ => told.push((way_place(&leg.place), leg.until_ns)),
        }
    }
    told
}

#[test]
fn a_request_whose_segment_was_dropped_and_sent_again_takes_until_then() {
    let all = ways(&[
        tcp(true, 0, ACK, 100, 20),
        tcp(false, 200, ACK, 500, 40),
        dropped(tcp(true, 1_000, ACK, 120, 20)),
        tcp(true, 201_000, ACK, 120, 20),
        tcp(false, 201_500, ACK, 540, 40),
    ]);
    let [_, (one, way)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((one.start_ns, one.end_ns, one.complete), (1_000, 201_590, true));
    assert_eq!((one.request.bytes, one.request.flows.len()), (20, 2));
    assert!(parts(one).contains(&("request, until it was sent again", 200_000)), "{:?}", parts(one));
    assert_eq!(legs(way)[0], ("SentAgain".to_owned(), 201_000));
    assert_eq!(legs(way).last().unwrap().1, 201_590);
}

#[test]
fn an_answer_of_which_a_segment_was_dropped_takes_until_all_of_it_came() {
    // The first one of an answer; and the last one, which comes in two that are cut otherwise.
    let all = ways(&[
        tcp(true, 0, ACK, 100, 20),
        dropped(tcp(false, 300, ACK, 500, 40)),
        tcp(false, 200_300, ACK, 500, 40),
        tcp(true, 400_000, ACK, 120, 20),
        tcp(false, 400_300, ACK, 540, 40),
        dropped(tcp(false, 400_400, ACK, 580, 60)),
        tcp(false, 600_400, ACK, 580, 30),
        tcp(false, 600_500, ACK, 610, 30),
    ]);
    let [(first, way), (second, rest)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((first.total_ns(), second.total_ns()), (200_390, 200_590));
    assert!(first.complete && second.complete);
    assert!(parts(first).contains(&("server in vm1", 210)), "{:?}", parts(first));
    for (exchange, way, again) in [(first, way, 200_300), (second, rest, 600_500)] {
        let parts = parts(exchange);
        let sent_again = parts.iter().find(|(name, _)| *name == "answer, until it was sent again");
        assert!(sent_again.is_some_and(|(_, ns)| *ns >= 200_000), "{parts:?}");
        assert!(
            legs(way).contains(&("answer, until it was sent again".to_owned(), again)),
            "{:?}",
            legs(way)
        );
    }
}

#[test]
fn what_is_sent_again_though_it_had_arrived_makes_nothing_longer() {
    let all = exchanges(&[
        tcp(true, 0, ACK, 100, 20),
        tcp(true, 200_000, ACK, 100, 20),
        tcp(false, 300_000, ACK, 500, 40),
        tcp(false, 500_000, ACK, 500, 40),
    ]);
    let [one] = &all[..] else { panic!("{all:?}") };
    assert_eq!(one.total_ns(), 300_090);
    assert!(parts(one).contains(&("server in vm1", 299_910)), "{:?}", parts(one));
}

#[test]
fn requests_that_cannot_be_told_are_counted_with_the_reason() {
    let found = exchange::find(&flows(&[
        tcp(true, 0, ACK, 100, 20),
        tcp(false, 200, ACK, 500, 40),
        // Dropped and never sent again: one of TCP, one of UDP; and one that nobody answers.
        dropped(tcp(true, 1_000, ACK, 120, 20)),
        other(true, 1_900, 17, 0, 0),
        other(false, 2_000, 17, 0, 0),
        dropped(other(true, 3_000, 17, 0, 0)),
        other(true, 4_000, 17, 0, 0),
    ]));
    assert_eq!(found.exchanges.len(), 2);
    let mut lacks: Vec<_> =
        found.unanswered.iter().map(|of| (of.connection.protocol, format!("{:?}", of.lacks))).collect();
    lacks.sort();
    let told = [("TCP", "Some(Dropped)"), ("UDP", "None"), ("UDP", "Some(Dropped)")];
    assert_eq!(lacks, told.map(|(protocol, lacks)| (protocol, lacks.to_owned())));
}

#[test]
fn what_nobody_asked_for_is_no_part_of_an_answer() {
    let second = 1_000_000_000;
    let all = exchanges(&[
        tcp(true, 0, ACK, 100, 20),
        tcp(false, 200, ACK, 500, 40),
        tcp(false, 300, ACK, 540, 40),
        // The end of TLS.
        tcp(false, 75 * second, ACK, 580, 31),
        // An answer that pauses for less than it took.
        tcp(true, 100 * second, ACK, 120, 20),
        tcp(false, 103 * second, ACK, 611, 40),
        tcp(false, 105 * second, ACK, 651, 40),
    ]);
    let told: Vec<_> = all.iter().map(|one| (one.total_ns(), one.answer.bytes)).collect();
    let long = i64::try_from(5 * second).unwrap() + 90;
    assert_eq!(told, [(390, 80), (long, 80)]);
}

#[test]
fn who_answers_is_known_by_the_other_connections_of_its_port() {
    // gRPC's port is one of those that Linux gives to clients. All were open before: an answer comes first.
    let at_port = |client, sent: Sent| Sent { ports: [client, 50_051], ..sent };
    for clients in [[40_000, 40_001], [61_000, 61_001]] {
        let of = |client, at| {
            [
                at_port(client, tcp(false, at, ACK, 500, 50)),
                at_port(client, tcp(true, at + 1_000, ACK, 100, 20)),
                at_port(client, tcp(false, at + 2_000, ACK, 550, 50)),
            ]
        };
        let all =
            exchanges(&clients.map(|client| of(client, client)).into_iter().flatten().collect::<Vec<_>>());
        let told: Vec<_> = all
            .iter()
            .map(|one| (one.connection.server.port(), one.total_ns(), &*one.client_domain))
            .collect();
        assert_eq!(told, [(50_051, 1_090, "host"); 2]);
    }
    // Of one alone, who sends first asks.
    let all = exchanges(&[
        at_port(40_000, tcp(true, 1_000, ACK, 100, 20)),
        at_port(40_000, tcp(false, 2_000, ACK, 550, 50)),
    ]);
    assert_eq!(all[0].connection.server.port(), 50_051);
}

#[test]
fn a_connection_between_the_same_addresses_the_other_way_round_is_another_one() {
    // The host has the address that vm1 has in another network, and vm1 has the host's there.
    let of = |swapped, sent: Sent| Sent { swapped, ports: [8_000, 80], ..sent };
    let all = exchanges(&[
        of(false, tcp(true, 1_000, ACK, 100, 20)),
        of(true, tcp(true, 1_100, ACK, 100, 7)),
        of(true, tcp(false, 2_000, ACK, 500, 9)),
        of(false, tcp(false, 3_000, ACK, 500, 40)),
    ]);
    let told: Vec<_> = all.iter().map(|one| (one.request.bytes, one.answer.bytes, one.end_ns)).collect();
    assert_eq!(told, [(20, 40, 3_090), (7, 9, 2_090)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever frames say of themselves: parts sum to the whole, and what is inside is enclosed.
    #[test]
    fn any_frames_make_exchanges_that_add_up(
        frames in vec((any::<bool>(), 0u64..5_000, 0usize..3, any::<u8>(), 0u64..4_000, any::<u32>(), 0u64..20), 0..60),
    ) {
        let mut sent: Vec<Sent> = frames
            .into_iter()
            .map(|(by_client, at, protocol, flags, bytes, sequence, parent)| Sent {
                by_client,
                guest: VM1,
                at,
                protocol: [6, 17, 1][protocol],
                flags: flags.into(),
                bytes,
                sequence: u64::from(sequence) << 32,
                dropped: sequence % 5 == 0,
                ports: [CLIENT.1, SERVER.1],
                swapped: false,
                thread: u32::from(flags % 3),
                parents: if parent < 5 { vec![(1 + parent % 2) << 56 | (1 + parent)] } else { Vec::new() },
            })
            .collect();
        sent.sort_by_key(|sent| sent.at);
        let (all, ways): (Vec<_>, Vec<_>) = ways(&sent).into_iter().unzip();
        for (one, way) in all.iter().zip(&ways) {
            prop_assert_eq!(way.start_ns, one.start_ns);
            let times = std::iter::once(way.start_ns).chain(way.legs.iter().map(|leg| leg.until_ns));
            prop_assert!(times.collect::<Vec<_>>().is_sorted());
            prop_assert!(way.legs.last().is_none_or(|leg| leg.until_ns <= one.end_ns));
        }
        for (at, one) in all.iter().enumerate() {
            parts(one);
            prop_assert!(one.start_ns <= one.end_ns);
            if let Some(around) = one.inside {
                prop_assert!(around < at && all[around].end_ns >= one.end_ns);
                prop_assert_eq!(&all[around].server_domain, &one.client_domain);
            }
            prop_assert!(one.made.iter().all(|&made| all[made].inside == Some(at)));
        }
        let services = exchange::services(&all);
        prop_assert_eq!(services.iter().map(|of| of.exchanges).sum::<u64>(), all.len() as u64);
    }
}
