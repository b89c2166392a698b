//! Where the time of requests went that go from thread to thread, and of several on one connection.

use xweave_model::{
    Cause, Machine, Object, Piece, ThreadId,
    breakdown::{breakdown_of_answer, breakdown_of_request},
    connection::EndId,
};
use xweave_trace::event::{Connection, Context, Event, Kind, Sending, State};

/// Of a connection from one domain to a server's port in the next one: as the one that asks has it.
fn connection(port: u64, service: u64) -> Connection {
    Connection(service << 32 | port << 16 | service)
}

fn end(domain: u8, connection: Connection) -> EndId {
    EndId { domain, netns: 1, connection }
}

fn message(kind: Kind, domain: u8, cpu: u32, tid: u32, time: i64, of: Connection, bytes: u64) -> Event {
    let code = if kind == Kind::Send { Sending::Begins.code() } else { 1 };
    Event { position: of.0, other: 1, bytes, code, ..Event::new(kind, domain, time, cpu, tid) }
}

/// A softirq wakes a thread, which goes on.
fn came(domain: u8, cpu: u32, tid: u32, time: i64) -> [Event; 4] {
    let at = |kind, time| Event {
        object: 3,
        code: Context::Hard.code(),
        ..Event::new(kind, domain, time, cpu, 0)
    };
    let wake = Event {
        other: tid,
        code: Context::Softirq.code(),
        ..Event::new(Kind::Wake, domain, time + 1, cpu, 0)
    };
    let goes = Event { other: tid, ..Event::new(Kind::Switch, domain, time + 3, cpu, 0) };
    [at(Kind::SoftirqEnter, time), wake, at(Kind::SoftirqExit, time + 2), goes]
}

fn goes(domain: u8, cpu: u32, tid: u32, time: i64) -> Event {
    Event { other: tid, ..Event::new(Kind::Switch, domain, time, cpu, 0) }
}

fn waits(domain: u8, cpu: u32, tid: u32, time: i64) -> Event {
    Event { code: State::Sleeping.code(), ..Event::new(Kind::Switch, domain, time, cpu, tid) }
}

fn machine(mut events: Vec<Event>) -> Machine {
    events.sort_by_key(|event| event.time_ns);
    let mut machine = Machine::default();
    events.iter().for_each(|event| machine.feed(event));
    machine
}

/// `OBJECT:SPENT=NANOSECONDS` of each piece, and why.
fn told(pieces: &[Piece], from: i64, to: i64) -> Vec<String> {
    assert_eq!((pieces.first().unwrap().from, pieces.last().unwrap().to), (from, to));
    assert!(pieces.windows(2).all(|pair| pair[0].to == pair[1].from));
    let object = |object| match object {
        Object::Thread(thread) => thread.tid.to_string(),
        Object::Link { from, to, .. } => format!("{from}–{to}"),
        Object::Remote { service, .. } => format!("remote:{service}"),
        other => format!("{other:?}"),
    };
    let why = |cause| match cause {
        None => String::new(),
        Some(Cause::Earlier) => ", before".to_owned(),
        Some(Cause::Moved(first)) => format!(", taken over from {}", first.tid),
        Some(Cause::Ahead(times)) => format!(", one of {times}"),
        Some(other) => format!(", {other:?}"),
    };
    let piece = |p: &Piece| format!("{}:{}={}{}", object(p.object), p.spent, p.to - p.from, why(p.cause));
    pieces.iter().map(piece).collect()
}

/// A request that thread 9 receives in domain 2 and thread 10 answers, which gets what 9 has asked domain 3 for. Meanwhile 9
/// works for another client. The second connection's events are of its two ends only if it is `seen`.
fn moves(seen: bool, busy: bool) -> (Machine, [Connection; 3]) {
    let (one, other, store) = (connection(40_001, 80), connection(40_002, 80), connection(40_003, 81));
    let mut events = vec![
        goes(1, 0, 7, 1),
        waits(2, 0, 9, 2),
        waits(2, 1, 10, 3),
        waits(3, 0, 20, 4),
        message(Kind::Send, 1, 0, 7, 100, one, 50),
        message(Kind::Send, 1, 0, 7, 110, other, 50),
        waits(1, 0, 7, 120),
        message(Kind::Receive, 2, 0, 9, 210, one.peer(), 50),
        message(Kind::Send, 2, 0, 9, 250, store, 10),
        message(Kind::Receive, 2, 0, 9, 260, other.peer(), 50),
        message(Kind::Receive, 2, 1, 10, 560, store, 30),
        message(Kind::Send, 2, 1, 10, 700, one.peer(), 90),
        message(Kind::Send, 2, 0, 9, 900, other.peer(), 90),
        message(Kind::Receive, 1, 0, 7, 760, one, 90),
    ];
    events.extend(came(2, 0, 9, 200));
    events.extend(came(1, 0, 7, 750));
    if seen {
        events.extend(came(3, 0, 20, 300));
        events.push(message(Kind::Receive, 3, 0, 20, 310, store.peer(), 10));
        events.push(message(Kind::Send, 3, 0, 20, 500, store.peer(), 30));
        events.push(waits(3, 0, 20, 510));
    }
    if busy {
        events.push(goes(2, 1, 10, 240));
    } else {
        events.extend(came(2, 1, 10, 550));
    }
    (machine(events), [one, other, store])
}

#[test]
fn a_request_that_moves_from_thread_to_thread_is_told_of_those_who_worked_for_it() {
    let (machine, [one, ..]) = moves(true, false);
    let client = ThreadId { domain: 1, tid: 7 };
    assert_eq!(
        told(&breakdown_of_request(&machine, client, end(1, one), 100, 760), 100, 760),
        [
            "7:running=20",
            "1–2:network=81",
            "9:waking=2",
            // Not what it did then for another one.
            "9:running=57",
            "2–3:network=41",
            "20:waking=2",
            "20:running=197",
            "3–2:network=51",
            "10:waking=2",
            "10:running=7",
            "10:running=140, taken over from 9",
            "2–1:network=51",
            "7:waking=2",
            "7:running=7",
        ]
    );
    // The same as the server has it.
    let server = ThreadId { domain: 2, tid: 10 };
    let pieces = breakdown_of_answer(&machine, server, end(2, one.peer()), 210, 700);
    assert_eq!(told(&pieces, 210, 700).last().unwrap(), "10:running=140, taken over from 9");
    assert!(told(&pieces, 210, 700).contains(&"20:running=197".to_owned()));
}

#[test]
fn who_asks_somebody_without_events_is_not_told_to_wait_for_others() {
    let (machine, [one, ..]) = moves(false, false);
    let server = ThreadId { domain: 2, tid: 10 };
    let pieces = breakdown_of_answer(&machine, server, end(2, one.peer()), 210, 700);
    assert_eq!(
        told(&pieces, 210, 700),
        [
            "9:running=40",
            "remote:81:waiting=301",
            "10:waking=2",
            "10:running=7",
            "10:running=140, taken over from 9"
        ]
    );
}

#[test]
fn what_a_thread_did_before_it_took_up_an_answer_is_said_to_be_perhaps_for_others() {
    let (machine, [one, ..]) = moves(true, true);
    let server = ThreadId { domain: 2, tid: 10 };
    let pieces = breakdown_of_answer(&machine, server, end(2, one.peer()), 210, 700);
    let last = &told(&pieces, 210, 700)[4..];
    assert_eq!(last, ["10:running=60, before", "10:running=140, taken over from 9"]);
}

/// Two requests on one connection, whose answers are both on their way when the first is received.
fn pipelined(sizes: [u64; 2]) -> (Machine, EndId) {
    let one = connection(40_001, 80);
    let mut events = vec![
        goes(1, 0, 7, 1),
        waits(2, 0, 9, 2),
        message(Kind::Send, 1, 0, 7, 100, one, 50),
        message(Kind::Send, 1, 0, 7, 110, one, 50),
        waits(1, 0, 7, 120),
        message(Kind::Receive, 2, 0, 9, 210, one.peer(), 100),
        message(Kind::Send, 2, 0, 9, 300, one.peer(), sizes[0]),
        message(Kind::Send, 2, 0, 9, 400, one.peer(), sizes[1]),
        message(Kind::Receive, 1, 0, 7, 460, one, sizes[0]),
        message(Kind::Receive, 1, 0, 7, 470, one, sizes[1]),
    ];
    events.extend(came(2, 0, 9, 200));
    events.extend(came(1, 0, 7, 450));
    (machine(events), end(1, one))
}

#[test]
fn of_several_answers_on_their_way_each_is_told_of_its_own_as_bytes_tell() {
    let (machine, client) = pipelined([900, 90]);
    let told = |from, to| {
        told(&breakdown_of_request(&machine, ThreadId { domain: 1, tid: 7 }, client, from, to), from, to)
    };
    assert_eq!(
        told(100, 460),
        [
            "7:running=20",
            "1–2:network=81",
            "9:waking=2",
            "9:running=97, one of 2",
            "2–1:network=151",
            "7:waking=2",
            "7:running=7"
        ]
    );
    assert_eq!(told(460, 470), ["7:running=10, before"]);
}

#[test]
fn where_bytes_were_not_recorded_an_answer_is_told_of_the_last_that_was_sent() {
    let (machine, client) = pipelined([0, 0]);
    let pieces = breakdown_of_request(&machine, ThreadId { domain: 1, tid: 7 }, client, 100, 460);
    assert_eq!(told(&pieces, 100, 460)[3..5], ["9:running=197, one of 2", "2–1:network=51"]);
}

/// Thread 9 receives a request and works for it, until 11, whose sleep is over, has 10 go on with it: as Go's sysmon does. 10 has
/// waited since before the request came, or did `something` else until then.
fn taken_over(something: bool) -> Vec<String> {
    let one = connection(40_001, 80);
    let timer = |kind, time| Event { object: 65_772, ..Event::new(kind, 2, time, 2, 0) };
    let wake = |time, by, who| Event {
        other: who,
        code: if by == 0 { Context::Hard } else { Context::Task }.code(),
        ..Event::new(Kind::Wake, 2, time, 2, by)
    };
    let mut events = vec![
        goes(1, 0, 7, 1),
        waits(2, 0, 9, 2),
        if something { waits(2, 1, 10, 240) } else { waits(2, 1, 10, 3) },
        waits(2, 2, 11, 4),
        message(Kind::Send, 1, 0, 7, 100, one, 50),
        waits(1, 0, 7, 120),
        message(Kind::Receive, 2, 0, 9, 210, one.peer(), 50),
        timer(Kind::IrqEnter, 500),
        wake(501, 0, 11),
        timer(Kind::IrqExit, 502),
        goes(2, 2, 11, 505),
        wake(520, 11, 10),
        waits(2, 2, 11, 530),
        goes(2, 1, 10, 525),
        message(Kind::Send, 2, 1, 10, 700, one.peer(), 90),
        message(Kind::Receive, 1, 0, 7, 760, one, 90),
    ];
    events.extend(came(2, 0, 9, 200));
    let server = ThreadId { domain: 2, tid: 10 };
    told(&breakdown_of_answer(&machine(events), server, end(2, one.peer()), 210, 700), 210, 700)
}

#[test]
fn what_another_thread_takes_over_without_being_handed_it_was_done_by_who_received_it() {
    assert_eq!(taken_over(false), ["9:running=310", "10:waking=5", "10:running=175, taken over from 9"]);
    // It may have begun with the request before it waited.
    let otherwise = taken_over(true);
    assert!(otherwise.iter().all(|piece| !piece.contains("taken over")), "{otherwise:?}");
}

/// Thread 9 reads and 10 answers, which is busy with others' requests when this one comes.
#[test]
fn before_a_request_was_read_nobody_worked_for_it() {
    let one = connection(40_001, 80);
    let mut events = vec![
        goes(1, 0, 7, 1),
        waits(2, 0, 9, 2),
        goes(2, 1, 10, 3),
        message(Kind::Send, 1, 0, 7, 100, one, 50),
        waits(1, 0, 7, 120),
        message(Kind::Receive, 2, 0, 9, 210, one.peer(), 50),
        waits(2, 0, 9, 220),
        message(Kind::Send, 2, 1, 10, 700, one.peer(), 90),
        message(Kind::Receive, 1, 0, 7, 760, one, 90),
    ];
    events.extend(came(2, 0, 9, 200));
    events.extend(came(1, 0, 7, 750));
    let client = ThreadId { domain: 1, tid: 7 };
    assert_eq!(
        told(&breakdown_of_request(&machine(events), client, end(1, one), 100, 760), 100, 760),
        [
            "7:running=20",
            "1–2:network=81",
            "9:waking=2",
            "9:running=7",
            "10:running=490",
            "2–1:network=51",
            "7:waking=2",
            "7:running=7"
        ]
    );
}
