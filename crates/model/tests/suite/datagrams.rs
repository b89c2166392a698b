//! Requests by datagrams: which answer is to which, and what is told of those that have none.

use proptest::prelude::*;
use xweave_model::{
    Cause, Census, Machine, Object, Outcome, Spec, TimeState, explain,
    transaction::{Finder, Transaction},
};
use xweave_trace::{
    Domain, Manifest, Trace, Writer,
    event::{Connection, Event, Kind, Names, Sending, State},
};

const MS: i64 = 1_000_000;

/// From a client in domain 1, at a port, to the server in domain 2, at port 53: as the client has it.
fn asks(port: u64) -> Connection {
    Connection(5 << 32 | port << 16 | 53)
}

fn datagram(kind: Kind, domain: u8, tid: u32, time: i64, of: Connection, bytes: u64) -> Event {
    // Calls that receive datagrams have no duration.
    let code = if kind == Kind::Send { Sending::Begins.code() } else { 0 };
    Event { position: of.0, other: 1, bytes, code, ..Event::new(kind, domain, time, 0, tid) }
}

fn sent(time: i64, bytes: u64) -> Event {
    datagram(Kind::Send, 1, 7, time, asks(40_000), bytes)
}

fn answer(time: i64, bytes: u64) -> Event {
    datagram(Kind::Receive, 1, 7, time, asks(40_000), bytes)
}

fn taken(time: i64, bytes: u64) -> Event {
    datagram(Kind::Receive, 2, 9, time, asks(40_000).peer(), bytes)
}

fn answers(time: i64, bytes: u64) -> Event {
    datagram(Kind::Send, 2, 9, time, asks(40_000).peer(), bytes)
}

/// A trace of events.
fn trace(events: &[Event]) -> (tempfile::TempDir, Trace) {
    let dir = tempfile::tempdir().unwrap();
    let domain = |number: u8| Domain { name: format!("vm{number}"), number, ..Domain::default() };
    let manifest = Manifest { domains: [1, 2].map(domain).into(), ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    events.iter().for_each(|event| writer.event(*event).unwrap());
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    (dir, trace)
}

/// The transactions of events, through a trace as `explain` finds them: when each began and ended.
fn told(spec: &str, events: &[Event]) -> (Vec<(i64, i64)>, Outcome) {
    let (_dir, trace) = trace(events);
    let mut found = Vec::new();
    let spec: Spec = spec.parse().unwrap();
    let outcome = explain(&trace, &spec, &mut |transaction, _| {
        found.push((transaction.start_ns, transaction.start_ns + transaction.total_ns));
    });
    (found, outcome)
}

/// The same without a trace: the transactions themselves.
fn found(events: &[Event]) -> Vec<Transaction> {
    let mut finder = Finder::new(&"request".parse().unwrap(), &|_| None).unwrap();
    let (mut machine, names) = (Machine::default(), Names::default());
    let mut found = Vec::new();
    for event in events {
        machine.feed(event);
        found.extend(finder.feed(event, &machine, &names));
    }
    found.extend(finder.settle(None));
    found
}

#[test]
fn a_server_is_told_from_receiving_a_datagram_to_sending_one_back() {
    let (told, outcome) = told("request:53", &[taken(MS, 40), answers(3 * MS, 120)]);
    assert_eq!((told, outcome.unanswered), (vec![(MS, 3 * MS)], 0));
    let one = found(&[taken(MS, 40), answers(3 * MS, 120)]).remove(0);
    assert_eq!(one.name, "40000 → 53");
    let bytes = one.bytes.unwrap();
    assert_eq!((bytes.sent, bytes.received), (40, 120));
}

/// A client's request, and the server's answer.
fn exchange() -> Vec<Event> {
    let goes = |domain, tid, time| Event { other: tid, ..Event::new(Kind::Switch, domain, time, 0, 0) };
    let waits = |domain, tid, time| Event {
        code: State::Sleeping.code(),
        ..Event::new(Kind::Switch, domain, time, 0, tid)
    };
    let woken =
        |domain, tid, time| Event { other: tid, code: 2, ..Event::new(Kind::Wake, domain, time, 0, 0) };
    vec![
        waits(2, 9, 1),
        goes(1, 7, 2),
        sent(100, 40),
        waits(1, 7, 120),
        woken(2, 9, 200),
        goes(2, 9, 210),
        taken(220, 40),
        answers(700, 120),
        woken(1, 7, 800),
        goes(1, 7, 810),
        answer(830, 120),
    ]
}

fn thread(domain: u8, tid: u32) -> Object {
    Object::Thread(xweave_model::ThreadId { domain, tid })
}

fn link(from: u8, to: u8) -> Object {
    Object::Link { from, to, service: 53 }
}

/// Whose time it was, what it was spent on, and how much.
fn pieces(of: &Transaction) -> Vec<(Object, TimeState, i64)> {
    of.pieces.iter().map(|piece| (piece.object, piece.spent, piece.to - piece.from)).collect()
}

#[test]
fn a_clients_request_has_the_servers_part_in_it() {
    let all = found(&exchange());
    assert_eq!(all.len(), 1, "the server's view is not told beside the client's");
    assert_eq!(
        pieces(&all[0]),
        [
            (thread(1, 7), TimeState::Running, 20),
            (link(1, 2), TimeState::Network, 80),
            (thread(2, 9), TimeState::Waking, 10),
            (thread(2, 9), TimeState::Running, 490),
            (link(2, 1), TimeState::Network, 100),
            (thread(1, 7), TimeState::Waking, 10),
            (thread(1, 7), TimeState::Running, 20),
        ]
    );
}

#[test]
fn what_a_queueing_discipline_of_the_host_holds_back_is_no_time_of_the_network() {
    let frame = |kind, time, key, of: Connection| {
        let position = if kind == Kind::QdiscEnqueue { of.0 } else { 0 };
        Event { other: key, object: 4, position, ..Event::new(kind, 3, time, 0, 0) }
    };
    let (enqueue, dequeue) = (Kind::QdiscEnqueue, Kind::QdiscDequeue);
    let request = asks(40_000);
    let mut events = exchange();
    events.extend([
        // Of the request, put in while its sender still ran; of others, of the answer's direction, and of the answer.
        frame(enqueue, 110, 1, request),
        frame(enqueue, 125, 2, asks(40_001)),
        frame(enqueue, 126, 3, request.peer()),
        frame(dequeue, 150, 1, request),
        frame(dequeue, 180, 2, request),
        frame(dequeue, 190, 3, request),
        frame(enqueue, 710, 4, request.peer()),
        frame(dequeue, 790, 4, request),
    ]);
    events.sort_by_key(|event| event.time_ns);
    let all = found(&events);
    let qdisc = Object::Holder(xweave_model::held::Holder::Qdisc(xweave_model::held::QdiscId {
        domain: 3,
        kind: Default::default(),
        device: Default::default(),
    }));
    assert_eq!(
        pieces(&all[0]),
        [
            (thread(1, 7), TimeState::Running, 20),
            (qdisc, TimeState::Qdisc, 30),
            (link(1, 2), TimeState::Network, 50),
            (thread(2, 9), TimeState::Waking, 10),
            (thread(2, 9), TimeState::Running, 490),
            (link(2, 1), TimeState::Network, 10),
            (qdisc, TimeState::Qdisc, 80),
            (link(2, 1), TimeState::Network, 10),
            (thread(1, 7), TimeState::Waking, 10),
            (thread(1, 7), TimeState::Running, 20),
        ]
    );
}

#[test]
fn a_request_that_was_lost_is_counted_and_the_answer_is_to_the_one_after() {
    let late = 5_000 * MS;
    // As the client has it alone, and with the server, which got the second or both.
    let client = [sent(0, 40), sent(late, 40), answer(late + 10 * MS, 120)];
    let request_lost = [client[0], client[1], taken(late + MS, 40), answers(late + 2 * MS, 120), client[2]];
    let answer_lost = [
        client[0],
        taken(MS, 40),
        answers(2 * MS, 120),
        client[1],
        taken(late + MS, 40),
        answers(late + 2 * MS, 120),
        client[2],
    ];
    for events in [&client[..], &request_lost, &answer_lost] {
        let (told, outcome) = told("request:53", events);
        assert_eq!((told, outcome.unanswered), (vec![(late, late + 10 * MS)], 1));
    }
}

#[test]
fn a_request_without_an_answer_is_no_transaction_of_hours() {
    let hour = 3_600_000 * MS;
    let again = hour + 3 * MS;
    let events = [sent(0, 40), sent(hour, 40), answer(again, 120), sent(again + MS, 40)];
    let (told, outcome) = told("request", &events);
    assert_eq!((told, outcome.unanswered), (vec![(hour, again)], 2));
    // Of a port that is asked for, even if nothing answers there.
    assert_eq!(self::told("request:53", &events[..1]).1.unanswered, 1);
    // It may be the first that is seen of a stream.
    assert_eq!(self::told("request", &events[..1]).1.unanswered, 0);
}

#[test]
fn a_client_that_ends_without_an_answer_has_asked_all_the_same() {
    let exit = Event::new(Kind::Exit, 1, 6_000 * MS, 0, 7);
    assert_eq!(told("request:53", &[sent(0, 40), sent(5_000 * MS, 40), exit]).1.unanswered, 2);
}

#[test]
fn answers_to_several_requests_of_one_port_are_to_these_in_their_order_and_said_to_be_guessed() {
    let running = Event { other: 7, ..Event::new(Kind::Switch, 1, 0, 0, 0) };
    let serves = Event { other: 9, ..Event::new(Kind::Switch, 2, 0, 0, 0) };
    let events = [
        running,
        serves,
        sent(MS, 40),
        sent(2 * MS, 41),
        taken(3 * MS, 40),
        taken(4 * MS, 41),
        answers(5 * MS, 120),
        answers(6 * MS, 121),
        answer(7 * MS, 120),
        answer(8 * MS, 121),
    ];
    let all = found(&events);
    let times: Vec<_> = all.iter().map(|one| (one.pieces[0].from, one.pieces.last().unwrap().to)).collect();
    assert_eq!(times, [(MS, 7 * MS), (2 * MS, 8 * MS)]);
    assert!(all[0].pieces.iter().any(|piece| piece.cause == Some(Cause::Ahead(2))), "{:?}", all[0].pieces);
    assert_eq!(told("request", &events).1.unanswered, 0);
    // The same where the server is seen alone.
    let server =
        found(&[serves, taken(3 * MS, 40), taken(4 * MS, 41), answers(5 * MS, 120), answers(6 * MS, 121)]);
    let whys: Vec<_> = server.iter().map(|one| one.pieces.last().unwrap().cause).collect();
    assert_eq!(whys, [Some(Cause::Ahead(2)), None]);
}

#[test]
fn who_asks_what_transactions_there_are_is_told_of_them() {
    let (_dir, trace) =
        trace(&[taken(MS, 40), answers(2 * MS, 120), taken(3 * MS, 40), answers(4 * MS, 120)]);
    let census = Census::of(&trace);
    assert_eq!(census.transactions, [("request:53".to_owned(), Some(2))]);
}

#[test]
fn of_two_answers_on_their_way_the_one_that_was_lost_is_known_by_what_came() {
    let mut events = vec![sent(MS, 40), sent(2 * MS, 41), taken(3 * MS, 40), taken(4 * MS, 41)];
    events.extend([answers(5 * MS, 120), answers(6 * MS, 121), answer(8 * MS, 121)]);
    let (told, outcome) = told("request", &events);
    assert_eq!((told, outcome.unanswered), (vec![(2 * MS, 8 * MS)], 1));
}

#[test]
fn of_two_ports_without_a_service_the_one_that_asks_first_is_the_clients() {
    let high = Connection(5 << 32 | 34_000 << 16 | 50_000);
    let events = [
        datagram(Kind::Send, 1, 7, MS, high, 40),
        datagram(Kind::Receive, 2, 9, 2 * MS, high.peer(), 40),
        datagram(Kind::Send, 2, 9, 3 * MS, high.peer(), 50),
        datagram(Kind::Receive, 1, 7, 4 * MS, high, 50),
    ];
    assert_eq!(told("request:50000", &events).0, [(MS, 4 * MS)]);
    assert_eq!(told("request:50000", &events[1..3]).0, [(2 * MS, 3 * MS)]);
}

#[test]
fn what_tcp_tells_of_is_a_stream() {
    let end = |code, time| Event { code, ..datagram(Kind::Socket, 1, 7, time, asks(40_000), 0) };
    // An answer that is received in two parts is one.
    let events = [end(2, 0), end(1, MS), sent(2 * MS, 40), answer(3 * MS, 50), answer(4 * MS, 60)];
    assert_eq!(told("request", &events).0, [(2 * MS, 4 * MS)]);
    // Of one that was there before, the duration of a call tells.
    let within = |time| Event { code: 30, ..answer(time, 50) };
    assert_eq!(told("request", &[sent(2 * MS, 40), within(3 * MS), within(4 * MS)]).0, [(2 * MS, 4 * MS)]);
}

#[test]
fn many_clients_that_ask_once_are_not_remembered_for_ever() {
    let mut machine = Machine::default();
    let many = 20_000;
    for client in 0..many {
        let port = Connection(client << 32 | 40_000 << 16 | 53);
        machine.feed(&datagram(Kind::Receive, 2, 9, client.cast_signed() * MS, port.peer(), 40));
        machine.feed(&datagram(Kind::Send, 2, 9, client.cast_signed() * MS + 10, port.peer(), 90));
    }
    let known = |client: u64| {
        let connection = Connection(client << 32 | 40_000 << 16 | 53).peer();
        machine.connections.knows(xweave_model::connection::EndId { domain: 2, netns: 1, connection })
    };
    assert!(known(0) && known(many - 1));
    let mut machine = machine.clone();
    machine.forget_before(80_000 * MS);
    let connection = Connection(40_000 << 16 | 53).peer();
    assert!(!machine.connections.knows(xweave_model::connection::EndId { domain: 2, netns: 1, connection }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever datagrams, streams and states are told of a few ports, in whatever order: a transaction ends at the event that
    /// ends it, and its parts are all of its time.
    #[test]
    fn parts_sum_exactly_whatever_is_told(
        events in prop::collection::vec(
            (0..8_u8, 1..3_u8, 0..3_u32, 0..4_u64, any::<bool>(), prop::sample::select(vec![0, 1, 2, 3, 7, 10, i32::MAX, -1]),
             prop::sample::select(vec![0, 1, 40, 65_507, u64::MAX]), prop::sample::select(vec![0, 1, 1_000, 600 * MS, 11_000 * MS, i64::MAX / 64])),
            0..60,
        ),
        begins in prop::sample::select(vec![i64::MIN, -1, 0, i64::MAX - 1_000]),
    ) {
        let mut finder = Finder::new(&"request".parse().unwrap(), &|_| None).unwrap();
        let (mut machine, names, mut now) = (Machine::default(), Names::default(), begins);
        let mut all = 0;
        for (kind, domain, tid, port, answers, code, bytes, after) in events {
            now = now.saturating_add(after);
            let kind = [Kind::Send, Kind::Receive, Kind::Receive, Kind::Send, Kind::Socket, Kind::Switch, Kind::Wake, Kind::Exit][usize::from(kind)];
            let end = if port == 3 { Connection(7 << 32 | 53 << 16 | 53) } else { asks(40_000 + port) };
            let position = if answers { end.peer() } else { end }.0;
            let event = Event { position, bytes, code, other: tid ^ 1, ..Event::new(kind, domain, now, 0, tid) };
            machine.feed(&event);
            let found = finder.feed(&event, &machine, &names);
            if let Some(one) = &found {
                all += 1;
                prop_assert!(one.pieces.windows(2).all(|pair| pair[0].to == pair[1].from));
                prop_assert!(one.pieces.iter().all(|piece| piece.from < piece.to));
                prop_assert!(one.pieces.last().unwrap().to <= now);
            }
            if all % 7 == 0 {
                finder.settle(Some(now));
                machine.forget_before(finder.earliest().unwrap_or(now).min(now));
            }
        }
    }
}
