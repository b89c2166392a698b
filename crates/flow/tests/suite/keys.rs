//! Keys in messages, as events tell them, and what is known by them.

use xweave_flow::{Exchange, Flows, Way, Ways, exchange, legs::WayPoint};
use xweave_trace::{
    Domain, DomainVm, Event, Manifest, Role, Site, Trace, Writer,
    event::{Kind as Told, Name},
};
use xweave_wire::record::{Kind, Record};

const HOST: u8 = 1;
const VM1: u8 = 2;

/// Sites by number, from 1 on.
const SITES: [(&str, &str); 6] = [
    ("host", "udp_sendmsg"),
    ("vm1", "skb_consume_udp"),
    ("vm1", "udp_sendmsg"),
    ("host", "skb_consume_udp"),
    ("vm1", "__udp_enqueue_schedule_skb"),
    ("host", "napi_gro_receive"),
];

/// Time, domain, flow, site, kind, values and thread.
type Recorded = (u64, u8, u64, u32, Kind, Vec<u64>, u32);

/// A trace as a test tells it.
#[derive(Default)]
struct Story {
    records: Vec<Recorded>,
    events: Vec<Event>,
}

/// A datagram: when it is sent, by which thread, and how it ends.
#[derive(Clone, Copy)]
struct Datagram {
    number: u64,
    at: u64,
    to_server: bool,
    /// Of the server, which sends it or receives it; the client's is 7.
    thread: u32,
    bytes: u64,
    /// The key's number, and a hash of how it begins; 0: no event tells them.
    key: (u64, u32),
    /// Whether it is lost before it comes.
    lost: bool,
    /// Whether the client is outside, so that the host's device is where it begins.
    from_outside: bool,
}

impl Datagram {
    fn new(number: u64, at: u64, to_server: bool, thread: u32, key: u64, head: u32) -> Self {
        let key = (key, head);
        Self { number, at, to_server, thread, bytes: 400, key, lost: false, from_outside: false }
    }
}

impl Story {
    fn datagram(&mut self, of: Datagram) {
        let Datagram { number, at, to_server, thread, .. } = of;
        let ((from, to), (sender, reader)) =
            if to_server { ((HOST, VM1), (7, thread)) } else { ((VM1, HOST), (thread, 7)) };
        let (flow, other) = (u64::from(from) << 56 | number, u64::from(to) << 56 | (1000 + number));
        let (client, server) = ((0x0100_000a_u64, 40_000u64), (0x0200_000a_u64, 5060u64));
        let (source, target) = if to_server { (client, server) } else { (server, client) };
        let words = vec![
            of.bytes << 32 | 0x0800 << 16 | 17 << 8,
            source.0,
            0,
            target.0,
            0,
            0,
            source.1 << 16 | target.1,
        ];
        let ring = |peer| vec![0x1000 * u64::from(from), number, number, peer];
        let peer = |domain| if domain == HOST { 4002 } else { 0 };
        let begins = match (to_server, of.from_outside) {
            (true, true) => 6,
            (true, false) => 1,
            (false, _) => 3,
        };
        self.records.push((at, from, flow, begins, Kind::Start, vec![7], sender));
        self.records.push((at + 5, from, flow, begins, Kind::Frame, words, sender));
        if of.lost {
            self.records.push((at + 6, from, flow, begins, Kind::Quit, vec![7, 2, 0xffff], sender));
        } else {
            self.records.push((at + 10, from, flow, begins, Kind::Xin, ring(peer(from)), sender));
            self.records.push((at + 40, to, other, begins, Kind::Xout, ring(peer(to)), 0));
            let (ends, socket) = if to_server { (2, 5) } else { (4, 4) };
            self.records.push((at + 50, to, other, socket, Kind::Hop, vec![], 0));
            self.records.push((at + 90, to, other, ends, Kind::Quit, vec![9], reader));
        }
        let (key, head) = of.key;
        let tell = |kind, domain, time, tid, code| Event {
            bytes: of.bytes,
            code,
            object: if kind == Told::Key { key } else { 0 },
            position: if kind == Told::Key { u64::from_le_bytes(*b"call\0\0\0\0") } else { 0 },
            other: if kind == Told::Key { head } else { 0 },
            name: Name::default(),
            ..Event::new(kind, domain, i64::try_from(time).unwrap(), 0, tid)
        };
        if key != 0 && !of.from_outside {
            self.events.push(tell(Told::Key, from, at + 3, sender, 1));
        }
        if !of.lost {
            self.events.push(tell(Told::Receive, to, at + 91, reader, 0));
            if key != 0 {
                self.events.push(tell(Told::Key, to, at + 95, reader, 0));
            }
        }
    }

    fn exchanges(mut self) -> Vec<(Exchange, Way)> {
        let dir = tempfile::tempdir().unwrap();
        let vm = Some(DomainVm { host: "host".into(), pid: 4002, cid: None });
        let host = Domain { name: "host".into(), number: HOST, role: Role::Host, ..Domain::default() };
        let vm1 = Domain { name: "vm1".into(), number: VM1, role: Role::Guest, vm, ..Domain::default() };
        let key = Some("line:Call-ID".to_owned());
        let manifest = Manifest { domains: vec![host, vm1], key, ..Manifest::default() };
        let mut writer = Writer::create(dir.path(), manifest).unwrap();
        let site = |(number, (domain, function)): (u32, (&str, &str))| Site {
            site: number,
            domain: domain.into(),
            function: function.into(),
            carrier: Some("virtio_net".into()),
            ..Site::default()
        };
        writer.sites(&(1..).zip(SITES).map(site).collect::<Vec<_>>()).unwrap();
        self.records.sort_by_key(|record| record.0);
        self.events.sort_by_key(|event| event.time_ns);
        for (time_ns, domain, flow, site, kind, values, tid) in self.records {
            let record = Record { time_ns, flow, site, pid: 1, tid, cpu: 0, kind, comm: [0; 16], values };
            writer.append(domain, i64::try_from(time_ns).unwrap(), &record).unwrap();
        }
        for event in self.events {
            writer.event(event).unwrap();
        }
        writer.finish().unwrap();
        let flows = Flows::of(&Trace::open(dir.path()).unwrap());
        let all = exchange::of(&flows);
        let mut ways = Ways::of(&flows, &all);
        all.iter().map(|of| (of.clone(), ways.exchange(of, of.start_ns))).collect()
    }
}

/// A trace of these datagrams.
fn exchanges(datagrams: &[Datagram]) -> Vec<(Exchange, Way)> {
    let mut told = Story::default();
    datagrams.iter().for_each(|of| told.datagram(*of));
    told.exchanges()
}

fn keys(all: &[(Exchange, Way)]) -> Vec<u64> {
    all.iter().map(|(exchange, _)| exchange.key.map_or(0, |key| key.hash)).collect()
}

#[test]
fn an_answer_is_to_the_request_of_its_key_whichever_thread_sends_it() {
    // The answers come in the other order, each from a thread that received nothing.
    let all = exchanges(&[
        Datagram::new(1, 1_000, true, 70, 11, 1),
        Datagram::new(2, 2_000, true, 70, 22, 1),
        Datagram::new(3, 5_000, false, 72, 22, 2),
        Datagram::new(4, 9_000, false, 71, 11, 2),
    ]);
    assert_eq!(keys(&all), [11, 22]);
    let answers: Vec<_> = all.iter().map(|(of, _)| of.answer.flows.clone()).collect();
    assert_eq!(answers, [[2 << 56 | 4], [2 << 56 | 3]]);
    assert!(all.iter().all(|(of, _)| of.complete && of.repeats == 0));
}

#[test]
fn a_request_that_comes_again_before_it_is_answered_is_the_same() {
    let lost = |datagram| Datagram { lost: true, ..datagram };
    let all = exchanges(&[
        lost(Datagram::new(1, 1_000, true, 70, 11, 1)),
        lost(Datagram::new(2, 501_000, true, 70, 11, 1)),
        Datagram::new(3, 1_501_000, true, 70, 11, 1),
        Datagram::new(4, 1_502_000, false, 70, 11, 2),
        // Of the same call and length, but it begins otherwise: it asks for something else, and no answer comes.
        Datagram::new(5, 1_503_000, true, 70, 11, 3),
        Datagram::new(6, 1_504_000, true, 70, 11, 4),
        Datagram::new(7, 1_505_000, false, 70, 11, 2),
    ]);
    assert_eq!(keys(&all), [11, 11]);
    let (first, way) = &all[0];
    assert_eq!((first.repeats, first.complete, first.start_ns, first.request.bytes), (2, true, 1_000, 400));
    assert_eq!((&*first.parts[0].name, first.parts[0].ns), ("request, until it was sent again", 1_500_000));
    assert_eq!((&way.legs[0].place.point, way.legs[0].until_ns), (&WayPoint::SentAgain, 1_501_000));
    assert_eq!((all[1].0.start_ns, all[1].0.repeats), (1_504_000, 0));
}

#[test]
fn a_copy_that_comes_after_the_answer_was_sent_delays_nothing() {
    let all = exchanges(&[
        Datagram::new(1, 1_000, true, 70, 11, 1),
        Datagram::new(2, 501_000, true, 70, 11, 1),
        Datagram::new(3, 501_020, false, 70, 11, 2),
    ]);
    let [(one, way)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((one.repeats, one.complete), (1, true));
    assert_ne!(way.legs[0].place.point, WayPoint::SentAgain);
    assert_eq!(one.parts.iter().map(|part| part.ns).sum::<i64>(), one.total_ns());
}

#[test]
fn an_answer_that_nobody_read_any_more_is_not_the_one_that_was_waited_for() {
    let asked = [Datagram::new(1, 1_000, true, 70, 11, 1), Datagram::new(2, 501_000, true, 70, 11, 1)];
    let read = Datagram::new(3, 502_000, false, 70, 11, 2);
    let unread = Datagram { lost: true, ..Datagram::new(4, 900_000, false, 70, 11, 2) };
    let [once, twice] = &[vec![read], vec![read, unread]].map(|answers| {
        let all = exchanges(&[&asked[..], &answers].concat());
        assert_eq!(all.len(), 1, "{all:#?}");
        all.into_iter().next().unwrap().0
    });
    assert_eq!((twice.complete, twice.end_ns, &twice.answer.flows), (true, once.end_ns, &once.answer.flows));
    // If all were lost, it was not answered.
    let lost = exchanges(&[&asked[..], &[unread]].concat());
    assert!(!lost.iter().any(|(of, _)| of.complete), "{lost:?}");
}

#[test]
fn the_key_of_a_call_that_was_not_seen_is_not_the_next_one_s() {
    let outside = |datagram| Datagram { from_outside: true, ..datagram };
    let answered = |request: Datagram, number: u64| {
        let answer = Datagram::new(number, request.at + 500, false, 70, 0, 0);
        [outside(request), answer]
    };
    // Only the server tells keys, and not of the first, which it waited for when the recording began.
    let all = exchanges(
        &[
            answered(Datagram::new(1, 1_000, true, 70, 0, 0), 2),
            answered(Datagram::new(3, 2_000, true, 70, 22, 1), 4),
            answered(Datagram::new(5, 3_000, true, 70, 33, 1), 6),
        ]
        .concat(),
    );
    assert_eq!(keys(&all), [0, 22, 33]);
}
