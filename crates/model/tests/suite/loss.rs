//! Where events were lost: what is known of the time, and that nothing else is said of it.

use xweave_model::{
    CpuId, Guest, Loss, Machine, Object, Piece, ThreadId, breakdown, breakdown::breakdown_of_cpu,
};
use xweave_trace::event::{Connection, Event, Kind, State};

fn thread(tid: u32) -> ThreadId {
    ThreadId { domain: 1, tid }
}

fn switch(time: i64, cpu: u32, from: u32, state: State, to: u32) -> Event {
    Event { other: to, code: state.code(), ..Event::new(Kind::Switch, 1, time, cpu, from) }
}

fn wake(time: i64, cpu: u32, by: u32, who: u32) -> Event {
    Event { other: who, ..Event::new(Kind::Wake, 1, time, cpu, by) }
}

/// Events of a processor were lost between two times.
fn lost(cpu: u32, from: i64, to: i64) -> Event {
    Event { position: to.abs_diff(from), bytes: 2, object: 1, ..Event::new(Kind::Lost, 1, to, cpu, 0) }
}

fn machine(events: &[Event]) -> Machine {
    lossy(Vec::new(), events)
}

fn lossy(guests: Vec<Guest>, events: &[Event]) -> Machine {
    let losses = events.iter().filter(|event| event.kind == Kind::Lost).map(Loss::new);
    let mut machine = Machine::lossy(guests, losses.collect());
    events.iter().for_each(|event| machine.feed(event));
    machine
}

/// `OBJECT:SPENT=NANOSECONDS` of each piece.
fn told(pieces: &[Piece]) -> Vec<String> {
    let object = |object| match object {
        Object::Thread(thread) => thread.tid.to_string(),
        Object::Interrupts(cpu) => format!("interrupts of cpu {}", cpu.cpu),
        Object::Vcpu(cpu) => format!("vcpu {}", cpu.cpu),
        Object::Link { from, to, .. } => format!("{from}–{to}"),
        other => format!("{other:?}"),
    };
    pieces.iter().map(|p| format!("{}:{}={}", object(p.object), p.spent, p.to - p.from)).collect()
}

fn told_of(events: &[Event], of: u32, from: i64, to: i64) -> Vec<String> {
    let pieces = breakdown(&machine(events), thread(of), from, to);
    assert_eq!(pieces.iter().map(|piece| piece.to - piece.from).sum::<i64>(), to - from);
    told(&pieces)
}

#[test]
fn a_thread_whose_switches_were_lost_is_not_said_to_have_run() {
    // It waited from 1500 on, and was switched to at 8500.
    let events =
        [switch(0, 0, 0, State::Runnable, 7), lost(0, 1000, 9000), switch(10_000, 0, 7, State::Sleeping, 0)];
    assert_eq!(told_of(&events, 7, 0, 10_000), ["7:running=1000", "7:unknown=8000", "7:running=1000"]);
}

#[test]
fn what_threads_did_on_other_processors_is_known() {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        switch(0, 1, 0, State::Runnable, 8),
        lost(0, 1000, 9000),
        switch(10_000, 1, 8, State::Sleeping, 0),
    ];
    assert_eq!(told_of(&events, 8, 0, 10_000), ["8:running=10000"]);
}

#[test]
fn a_thread_that_waited_may_have_run_where_events_were_lost() {
    // It is woken on the processor that lost events, runs there, and waits again; then another wakes it.
    let events = [
        switch(0, 1, 0, State::Runnable, 7),
        switch(100, 1, 7, State::Sleeping, 0),
        lost(0, 300, 500),
        switch(600, 0, 0, State::Runnable, 8),
        wake(700, 0, 8, 7),
        switch(710, 1, 0, State::Runnable, 7),
    ];
    assert_eq!(
        told_of(&events, 7, 0, 800),
        ["7:running=100", "7:unknown=400", "8:unknown=100", "8:running=100", "7:waking=10", "7:running=90"]
    );
}

#[test]
fn a_thread_whose_wake_up_was_lost_was_ready_and_did_not_wait() {
    let events = [
        switch(0, 1, 0, State::Runnable, 7),
        switch(100, 1, 7, State::Sleeping, 8),
        lost(0, 300, 500),
        switch(900, 1, 8, State::Sleeping, 7),
    ];
    assert_eq!(
        told_of(&events, 7, 0, 950),
        ["7:running=100", "7:unknown=400", "7:ready=400", "7:running=50"]
    );
}

#[test]
fn who_ran_shows_from_any_event_behind_the_loss() {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        lost(0, 100, 200),
        Event { position: 5, ..Event::new(Kind::Send, 1, 250, 0, 9) },
        switch(300, 0, 9, State::Sleeping, 0),
    ];
    assert_eq!(told_of(&events, 9, 90, 300), ["9:unknown=110", "9:running=100"]);
    // Nothing more was seen of the other.
    assert_eq!(told_of(&events, 7, 0, 300), ["7:running=100", "7:unknown=200"]);
}

#[test]
fn an_interrupt_whose_end_was_lost_ends_there() {
    let interrupt = |kind, time| Event { object: 30, ..Event::new(kind, 1, time, 0, 7) };
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        interrupt(Kind::IrqEnter, 90),
        lost(0, 100, 200),
        interrupt(Kind::IrqEnter, 250),
        interrupt(Kind::IrqExit, 260),
        switch(300, 0, 7, State::Sleeping, 0),
    ];
    let machine = machine(&events);
    let cpu = CpuId { domain: 1, cpu: 0 };
    let pieces = breakdown_of_cpu(&machine, cpu, 80, 270);
    assert_eq!(
        told(&pieces),
        [
            "interrupts of cpu 0:unknown=10",
            "interrupts of cpu 0:running=10",
            "interrupts of cpu 0:unknown=150",
            "interrupts of cpu 0:running=10",
            "interrupts of cpu 0:unknown=10"
        ]
    );
}

#[test]
fn losses_of_the_host_leave_unknown_what_its_guests_did() {
    // Domain 1 is the host; thread 50 of process 50 is vCPU 0 of domain 2, whose thread 7 runs throughout.
    let vcpu = |kind, time| Event::new(kind, 1, time, 3, 50);
    let described = Event { other: 50, object: 50, ..Event::new(Kind::Thread, 1, 0, 0, 0) };
    let guest = |time, from, to| Event { other: to, ..Event::new(Kind::Switch, 2, time, 0, from) };
    let events = [
        described,
        switch(0, 3, 0, State::Runnable, 50),
        vcpu(Kind::VmEnter, 10),
        guest(20, 0, 7),
        lost(3, 100, 200),
        vcpu(Kind::VmExit, 250),
        vcpu(Kind::VmEnter, 260),
        vcpu(Kind::VmExit, 300),
    ];
    let machine = lossy(vec![Guest { domain: 2, host: 1, process: 50 }], &events);
    let pieces = breakdown(&machine, ThreadId { domain: 2, tid: 7 }, 20, 290);
    assert_eq!(
        told(&pieces),
        ["7:running=80", "vcpu 0:unknown=100", "7:running=50", "vcpu 0:exit=10", "7:running=30"]
    );
}

#[test]
fn a_wait_for_a_peer_that_lost_events_is_not_the_networks() {
    // The client asks at 10; that the server sent, at 80, was lost.
    let end = Connection(3 << 32 | 40_000 << 16 | 80);
    let of = |kind, domain, time, tid, end: Connection| Event {
        position: end.0,
        bytes: 1,
        ..Event::new(kind, domain, time, 0, tid)
    };
    let told_with = |losses: &[Event]| {
        let mut events = vec![
            switch(0, 0, 0, State::Runnable, 7),
            of(Kind::Receive, 2, 1, 9, end.peer()),
            of(Kind::Send, 1, 10, 7, end),
            switch(20, 0, 7, State::Sleeping, 0),
            Event::new(Kind::IrqEnter, 1, 100, 0, 0),
            wake(100, 0, 0, 7),
            Event::new(Kind::IrqExit, 1, 101, 0, 0),
            switch(102, 0, 0, State::Runnable, 7),
            of(Kind::Receive, 1, 110, 7, end),
        ];
        events.extend(losses);
        events.sort_by_key(|event| event.time_ns);
        told_of(&events, 7, 0, 110)
    };
    let link = |state: &str| {
        vec!["7:running=20".to_owned(), format!("2–1:{state}=80"), "7:waking=2".into(), "7:running=8".into()]
    };
    assert_eq!(told_with(&[]), link("network"));
    let of_server = Event { domain: 2, ..lost(0, 60, 90) };
    assert_eq!(told_with(&[of_server]), link("unknown"));
}

#[test]
fn a_lock_that_was_waited_for_before_the_loss_is_not_known_to_be_held_still() {
    let lock = |kind, time| Event { object: 0x1000, ..Event::new(kind, 1, time, 0, 7) };
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        lock(Kind::LockWait, 10),
        switch(20, 0, 7, State::Sleeping, 0),
        lost(0, 100, 200),
        switch(210, 0, 0, State::Runnable, 8),
        wake(300, 0, 8, 7),
        switch(310, 0, 8, State::Sleeping, 7),
    ];
    assert_eq!(
        told_of(&events, 7, 0, 320),
        ["7:running=20", "7:unknown=180", "8:unknown=10", "8:running=90", "7:ready=10", "7:running=10"]
    );
}
