//! Waits for the other end of a connection.

use xweave_model::{breakdown::breakdown_of_request, connection::EndId};
use xweave_trace::event::Refusal;

use super::*;

#[test]
fn a_wait_for_the_other_end_is_what_that_did_and_the_way() {
    let mut events = vec![
        switch(0, 0, 0, State::Runnable, 7),
        in_domain(2, switch(0, 0, 9, State::Sleeping, 0)),
        of_socket(Kind::Send, 1, 10, 7, CLIENT),
        switch(12, 0, 7, State::Sleeping, 0),
    ];
    events.extend(interrupt(2, 30, 9));
    events.push(in_domain(2, switch(33, 0, 0, State::Runnable, 9)));
    events.push(of_socket(Kind::Receive, 2, 34, 9, CLIENT.peer()));
    events.push(of_socket(Kind::Send, 2, 60, 9, CLIENT.peer()));
    events.extend(interrupt(1, 80, 7));
    events.push(switch(82, 0, 0, State::Runnable, 7));
    events.push(of_socket(Kind::Receive, 1, 85, 7, CLIENT));
    let told = |events: &[Event]| told_of(&mut Machine::default(), events, thread(7), 10, 85);
    assert_eq!(
        told(&events),
        [
            "7:running=2",
            "1–2:80:network=18",
            "9:waking=3",
            "9:running=27",
            "2–1:80:network=20",
            "7:waking=2",
            "7:running=3"
        ]
    );
    // Without the server's events it is somebody far away.
    let client: Vec<_> = events.into_iter().filter(|event| event.domain == 1).collect();
    assert_eq!(told(&client), ["7:running=2", "remote:80:waiting=68", "7:waking=2", "7:running=3"]);
}

#[test]
fn a_thread_that_was_stopped_has_not_waited_for_what_it_then_received() {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        in_domain(2, switch(5, 0, 9, State::Stopped, 0)),
        of_socket(Kind::Send, 1, 10, 7, CLIENT),
        in_domain(2, wake(50, 1, 3, 9)),
        in_domain(2, switch(52, 0, 0, State::Runnable, 9)),
        of_socket(Kind::Receive, 2, 54, 9, CLIENT.peer()),
    ];
    let server = ThreadId { domain: 2, tid: 9 };
    assert_eq!(
        told_of(&mut Machine::default(), &events, server, 10, 54),
        ["9:stopped=40", "9:waking=2", "9:running=2"]
    );
}

#[test]
fn a_request_that_is_refused_and_sent_again_is_told_with_the_reason() {
    let state = |time, tid, code| Event { code, ..of_socket(Kind::Socket, 1, time, tid, CLIENT) };
    let mut events = vec![
        switch(0, 0, 0, State::Runnable, 7),
        in_domain(2, switch(0, 0, 9, State::Stopped, 0)),
        state(10, 7, 2),
        Event {
            code: Refusal::AcceptQueue.code(),
            bytes: 5,
            ..of_socket(Kind::SynDrop, 2, 15, 0, CLIENT.peer())
        },
        switch(20, 0, 7, State::Sleeping, 0),
        // The server goes on, and waits for connections, before the client asks again.
        in_domain(2, wake(400, 1, 3, 9)),
        in_domain(2, switch(400, 0, 0, State::Runnable, 9)),
        in_domain(2, switch(500, 0, 9, State::Sleeping, 0)),
        Event { code: 2, ..of_socket(Kind::Retransmit, 1, 1000, 0, CLIENT) },
    ];
    events.extend(interrupt(2, 1010, 9));
    events.push(in_domain(2, switch(1015, 0, 0, State::Runnable, 9)));
    events.push(of_socket(Kind::Accept, 2, 1020, 9, CLIENT.peer()));
    let server = ThreadId { domain: 2, tid: 9 };
    assert_eq!(
        told_of(&mut Machine::default(), &events, server, 10, 1020),
        ["1–2:80:retransmit=990 1 times, AcceptQueue", "1–2:80:network=10", "9:waking=5", "9:running=5"]
    );
    // The kernel tells of it when it has sent it, which may be after it arrived.
    let mut late = events.clone();
    let again = late.iter_mut().find(|event| event.kind == Kind::Retransmit).unwrap();
    (again.time_ns, again.bytes) = (1018, 18);
    late.sort_by_key(|event| event.time_ns);
    assert_eq!(
        told_of(&mut Machine::default(), &late, server, 10, 1020)[0],
        "1–2:80:retransmit=990 1 times, AcceptQueue"
    );
    // Seen by the client, whose kernel is answered.
    events.push(Event::new(Kind::IrqEnter, 1, 1030, 0, 0));
    events.push(state(1030, 0, 1));
    events.push(wake(1030, 0, 0, 7));
    events.push(Event::new(Kind::IrqExit, 1, 1030, 0, 0));
    events.push(switch(1040, 0, 0, State::Runnable, 7));
    assert_eq!(
        told_of(&mut Machine::default(), &events, thread(7), 10, 1050),
        [
            "7:running=10",
            "2–1:80:retransmit=980 1 times, AcceptQueue",
            "2–1:80:network=30",
            "7:waking=10",
            "7:running=10"
        ]
    );
}

/// Both ends serve many connections from one thread: a request's time is not what they did for others.
#[test]
fn a_request_of_an_event_loop_is_told_by_who_answered_it() {
    let ([one, one_s], [two, two_s]) = (pair(40_001), pair(40_002));
    let waits = |domain, time, tid| Event {
        code: State::Sleeping.code(),
        ..Event::new(Kind::Switch, domain, time, 0, tid)
    };
    let mut events = vec![
        waits(2, 0, 9),
        Event { other: 7, ..Event::new(Kind::Switch, 1, 1, 0, 0) },
        of_end(Kind::Send, 100, one),
        of_end(Kind::Send, 110, two),
        waits(1, 120, 7),
    ];
    // The server takes the first, asks somebody who is not seen, and waits; the second comes meanwhile.
    events.extend(came(2, 200, 9));
    events.extend([of_end(Kind::Receive, 210, one_s), waits(2, 250, 9)]);
    events.extend(came(2, 400, 9));
    events.extend([of_end(Kind::Receive, 410, two_s), of_end(Kind::Send, 500, two_s)]);
    // The answer to the second wakes the client, while the server goes on with the first.
    events.extend(came(1, 550, 7));
    events.push(of_end(Kind::Receive, 560, two));
    events.push(of_end(Kind::Send, 700, one_s));
    events.push(waits(1, 720, 7));
    events.extend(came(1, 750, 7));
    events.push(of_end(Kind::Receive, 760, one));
    events.sort_by_key(|event| event.time_ns);

    let mut machine = Machine::default();
    events.iter().for_each(|event| machine.feed(event));
    let told = |end: Connection, from, to| {
        let end = EndId { domain: 1, netns: 1, connection: end };
        let pieces = breakdown_of_request(&machine, ThreadId { domain: 1, tid: 7 }, end, from, to);
        assert_eq!(pieces.iter().map(|piece| piece.to - piece.from).sum::<i64>(), to - from);
        let object = |object| match object {
            Object::Thread(thread) => thread.tid.to_string(),
            Object::Link { .. } => "link".to_owned(),
            other => format!("{other:?}"),
        };
        let piece = |p: &Piece| format!("{}:{}={}", object(p.object), p.spent, p.to - p.from);
        pieces.iter().map(piece).collect::<Vec<_>>()
    };
    // Not one nanosecond of the 160 in which the server waited is the way of the second client's request.
    assert_eq!(
        told(one, 100, 760),
        [
            "7:running=20",
            "link:network=81",
            "9:waking=2",
            "9:running=47",
            "9:waiting=151",
            "9:waking=2",
            "9:running=297",
            "7:running=20",
            "link:network=31",
            "7:waking=2",
            "7:running=7",
        ]
    );
    assert_eq!(
        told(two, 110, 560),
        [
            "7:running=10",
            "link:network=281",
            "9:waking=2",
            "9:running=97",
            "link:network=51",
            "7:waking=2",
            "7:running=7"
        ]
    );
}

/// It slept, and then took what had come long before.
#[test]
fn a_sleep_is_no_wait_for_what_is_received_next() {
    let [client, server] = pair(40_001);
    let timer = |kind, time| Event { object: 0x1_00ec, ..Event::new(kind, 1, time, 0, 0) };
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        of_end(Kind::Send, 5, client),
        switch(10, 0, 7, State::Sleeping, 0),
        Event { domain: 2, tid: 9, ..of_end(Kind::Send, 20, server) },
        timer(Kind::IrqEnter, 99),
        Event { code: Context::Hard.code(), ..wake(100, 0, 0, 7) },
        timer(Kind::IrqExit, 101),
        switch(102, 0, 0, State::Runnable, 7),
        Event { code: 5, ..of_end(Kind::Receive, 110, client) },
    ];
    assert_eq!(told(&events, 7, 0, 110), ["7:running=10", "7:waiting=90", "7:waking=2", "7:running=8"]);
    // Within the call it did wait for that.
    let mut within = events;
    within[8].code = 101;
    assert_eq!(
        told(&within, 7, 0, 110),
        ["7:running=10", "9:unknown=10", "2–1:80:network=80", "7:waking=2", "7:running=8"]
    );
}
