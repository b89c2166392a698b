//! Requests on streams: who asks, where neither a connect nor an accept was seen; where an answer ends; and what has none.

use xweave_model::{ObjectKind, Outcome, Spec, TimeState, explain};
use xweave_trace::{
    Clock, Domain, Manifest, Trace, Writer,
    event::{Connection, Context, Event, Kind, Sending, State},
};

const US: i64 = 1_000;

/// A client in domain 1 at a port, and the server in domain 2: as the client has it.
fn connection(client: u64, service: u64) -> Connection {
    Connection(7 << 32 | client << 16 | service)
}

/// What a thread of one of the ends sends, or receives.
fn message(kind: Kind, server: bool, time: i64, of: Connection, bytes: u64) -> Event {
    let code = if kind == Kind::Send { Sending::Begins.code() } else { 1 };
    let (domain, tid) = if server { (2, 9) } else { (1, 7) };
    let Connection(position) = if server { of.peer() } else { of };
    Event { position, other: 1, bytes, code, ..Event::new(kind, domain, time, 0, tid) }
}

/// A request and its answer, which come at once.
fn exchange(time: i64, of: Connection) -> [Event; 4] {
    [
        message(Kind::Send, false, time, of, 10),
        message(Kind::Receive, true, time + 20 * US, of, 10),
        message(Kind::Send, true, time + 50 * US, of, 30),
        message(Kind::Receive, false, time + 60 * US, of, 30),
    ]
}

/// The answer's next part.
fn more(time: i64, of: Connection) -> [Event; 2] {
    [message(Kind::Send, true, time, of, 30), message(Kind::Receive, false, time + 10 * US, of, 30)]
}

/// The server's thread waits from a time on until another one; a timer ends that, or the network does.
fn sleeps(from: i64, to: i64, timer: bool) -> Vec<Event> {
    let object = if timer { 0x1_00ec } else { 3 };
    let (begins, ends) =
        if timer { (Kind::IrqEnter, Kind::IrqExit) } else { (Kind::SoftirqEnter, Kind::SoftirqExit) };
    let context = if timer { Context::Hard } else { Context::Softirq };
    let at = |kind, time| Event::new(kind, 2, time, 0, 0);
    vec![
        Event { code: State::Sleeping.code(), ..Event::new(Kind::Switch, 2, from, 0, 9) },
        Event { object, ..at(begins, to - 30) },
        Event { other: 9, code: context.code(), ..at(Kind::Wake, to - 20) },
        Event { object, ..at(ends, to - 10) },
        Event { other: 9, ..at(Kind::Switch, to) },
    ]
}

/// A trace of events, whose second domain's clock may be off by so much.
fn trace(mut events: Vec<Event>, error_ns: u64) -> (tempfile::TempDir, Trace) {
    let dir = tempfile::tempdir().unwrap();
    let domain = |number: u8| Domain { name: format!("vm{number}"), number, cpus: 1, ..Domain::default() };
    let clock = Clock { domain: "vm2".into(), error_ns, ..Clock::default() };
    let manifest =
        Manifest { domains: [1, 2].map(domain).into(), clocks: vec![clock], ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    events.sort_by_key(|event| event.time_ns);
    events.iter().for_each(|event| writer.event(*event).unwrap());
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    (dir, trace)
}

/// The requests of a trace: name, beginning and length in microseconds.
fn told(events: Vec<Event>) -> (Vec<(String, i64, i64)>, Outcome) {
    told_as(&Spec::Request(None, None), events)
}

/// The same of requests of a kind.
fn told_as(spec: &Spec, events: Vec<Event>) -> (Vec<(String, i64, i64)>, Outcome) {
    let (_dir, trace) = trace(events, 0);
    let mut all = Vec::new();
    let outcome = explain(&trace, spec, &mut |one, _| {
        all.push((one.name, one.start_ns / US, one.total_ns / US));
    });
    (all, outcome)
}

#[test]
fn who_sends_first_asks_where_both_ports_may_be_a_client_s() {
    // gRPC's port, and a client's that is lower, and one that is higher; both below those that clients are given.
    for [client, service] in [[40_000, 50_051], [60_000, 50_051], [2_000, 8_080], [20_000, 8_080]] {
        let of = connection(client, service);
        let (told, _) = told([exchange(1_000 * US, of), exchange(2_000 * US, of)].concat());
        let name = format!("{client} → {service}");
        assert_eq!(told, [(name.clone(), 1_000, 60), (name, 2_000, 60)]);
    }
}

/// The client is in vm1 and the server in vm2; and vm1 serves another client of its own over the loopback device.
#[test]
fn requests_are_told_as_the_domain_sees_them_that_is_named() {
    let of = connection(40_000, 80);
    let events = || [exchange(1_000 * US, of), exchange(2_000 * US, of)].concat();
    let as_of = |spec: &str| told_as(&spec.parse().unwrap(), events()).0;
    let client = "40000 → 80".to_owned();
    let at_client = [(client.clone(), 1_000, 60), (client, 2_000, 60)];
    assert_eq!(as_of("request:80"), at_client);
    assert_eq!(as_of("request:80@vm1"), at_client);
    let at_server: Vec<_> = as_of("request:80@vm2").into_iter().map(|(_, start, ns)| (start, ns)).collect();
    assert_eq!(at_server, [(1_020, 30), (2_020, 30)]);
    for none in ["request:81@vm2", "request:80@vm3"] {
        assert_eq!(as_of(none), [], "{none}");
    }
    let loopback = |time| exchange(time, of).map(|event| Event { domain: 1, ..event });
    let (told, _) = told_as(&"request:80@vm1".parse().unwrap(), loopback(1_000 * US).to_vec());
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn a_port_with_several_connections_is_the_server_s_though_an_answer_is_seen_first() {
    let all = [40_000, 40_001].map(|client| connection(client, 50_051));
    let mut events: Vec<Event> = all.iter().flat_map(|of| more(10 * US, *of)).collect();
    events.extend(all.iter().flat_map(|of| exchange(1_000 * US, *of)));
    let (told, _) = told(events);
    let told: Vec<_> = told.into_iter().filter(|(_, start, _)| *start >= 1_000).collect();
    assert_eq!(told, [40_000, 40_001].map(|client| (format!("{client} → 50051"), 1_000, 60)));
}

#[test]
fn of_unix_sockets_who_sends_first_asks_wherever_they_are_in_memory() {
    // The ends are what `xw_unix` of bpf/events/net.h makes of the two sockets' addresses.
    for [client, server] in
        [[0xffff_8880_0120_0400_u64, 0xffff_8880_0280_0c00], [0xffff_8880_0380_0c00, 0xffff_8880_0010_0400]]
    {
        let port = |socket: u64| socket >> 10 & 0xffff;
        let of = Connection(((client ^ server) & 0xffff_ffff) << 32 | port(client) << 16 | port(server));
        let one = |time| {
            exchange(time, of).map(|event| {
                let object = if event.domain == 1 { client } else { server };
                let tid = event.tid;
                Event { domain: 1, other: 0, cpu: event.domain.into(), tid, object, ..event }
            })
        };
        let (told, _) = told([one(1_000 * US), one(2_000 * US)].concat());
        let name = format!("{} → {}", port(client), port(server));
        assert_eq!(told, [(name.clone(), 1_000, 60), (name, 2_000, 60)]);
    }
}

#[test]
fn what_a_server_sends_of_its_own_accord_is_no_part_of_an_answer() {
    let [of, other] = [40_000, 40_001].map(|client| connection(client, 80));
    let second = 1_000_000 * US;
    let first = || exchange(1_000 * US, of).to_vec();
    let told = |events: Vec<Event>| {
        let events = [first(), events, exchange(200 * second, of).to_vec()].concat();
        let (told, _) = told(events);
        let of_first = told.iter().find(|(name, ..)| name.starts_with("40000"));
        of_first.map(|(_, start, total)| (*start, *total)).unwrap()
    };
    // A later part of the answer: the server went on, or waited for the network, which had room again.
    let at = 5_000 * US;
    assert_eq!(told(more(at, of).to_vec()), (1_000, 4_010));
    let room = [sleeps(1_100 * US, at - 10 * US, false), more(at, of).to_vec()].concat();
    assert_eq!(told(room), (1_000, 4_010));
    // A ping; the end of TLS, of a server without scheduler events; what another one's request makes it say to all.
    assert_eq!(told([sleeps(1_100 * US, at - 10 * US, true), more(at, of).to_vec()].concat()), (1_000, 60));
    assert_eq!(told(more(75 * second, of).to_vec()), (1_000, 60));
    let [asks, taken, ..] = exchange(at - 25 * US, other);
    let push = [sleeps(1_100 * US, at - 10 * US, false), vec![asks, taken], more(at, of).to_vec()].concat();
    assert_eq!(told(push), (1_000, 60));
}

#[test]
fn requests_without_an_answer_are_counted() {
    const CLOSE: i32 = 7;
    let [of, other] = [40_000, 40_001].map(|client| connection(client, 80));
    let ask = |time, of| exchange(time, of)[..2].to_vec();
    let close = Event { code: CLOSE, ..message(Kind::Socket, false, 3_000 * US, other, 0) };
    let events =
        [exchange(1_000 * US, of).to_vec(), ask(2_000 * US, of), ask(2_000 * US, other), vec![close]];
    let (told, outcome) = told(events.concat());
    assert_eq!(told.len(), 1);
    assert_eq!((outcome.unused.open, outcome.unused.unanswered, outcome.unused.all()), (1, 1, 2));
}

#[test]
fn what_lies_between_two_domains_and_is_shorter_than_their_clocks_can_tell_is_not_named() {
    let of = connection(40_000, 80);
    let waits = Event { code: State::Sleeping.code(), ..Event::new(Kind::Switch, 1, 1_001 * US, 0, 7) };
    let at = |kind, time| Event { object: 3, ..Event::new(kind, 1, time, 0, 0) };
    let goes = [
        at(Kind::SoftirqEnter, 1_059 * US - 30),
        Event { other: 7, code: Context::Softirq.code(), ..at(Kind::Wake, 1_059 * US - 20) },
        at(Kind::SoftirqExit, 1_059 * US - 10),
        Event { other: 7, ..at(Kind::Switch, 1_059 * US) },
    ];
    // The server's times are as they are, or 50 µs later than they should be: after the client has had its answer.
    for (late, error, named) in [(0, 1, true), (0, 100, false), (50, 100, false)] {
        // Of the first one it is not known that the server is in the trace.
        let both = [exchange(500 * US, of), exchange(1_000 * US, of)].concat().into_iter();
        let events = both.map(|event| match event.domain {
            2 => Event { time_ns: event.time_ns + late * US, ..event },
            _ => event,
        });
        let events = events.chain(goes).chain([waits]).collect();
        let (_dir, trace) = trace(events, error * 1_000);
        let mut spent = Vec::new();
        explain(&trace, &Spec::Request(None, None), &mut |one, objects| {
            if one.start_ns < 1_000 * US {
                return;
            }
            let links = one.steps.iter().filter(|step| objects.get(step.object).kind == ObjectKind::Link);
            spent.extend(links.map(|step| step.spent));
        });
        let state = if named { TimeState::Network } else { TimeState::Unknown };
        assert!(!spent.is_empty() && spent.iter().all(|spent| *spent == state), "{late} {error}: {spent:?}");
    }
}
