//! Where the time went, told of events whose truth is known.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod backend;
mod calls;
mod connections;
mod handed;
mod power;
mod quota;
mod transit;
mod vcpu;

use proptest::prelude::*;
use xweave_model::{Cause, Guest, Machine, Object, Piece, Power, ThreadId, TimeState, breakdown::breakdown};
use xweave_trace::event::{Connection, Context, Event, Kind, Sending, State};

fn thread(tid: u32) -> ThreadId {
    ThreadId { domain: 1, tid }
}

fn switch(time: i64, cpu: u32, from: u32, state: State, to: u32) -> Event {
    Event { other: to, code: state.code(), ..Event::new(Kind::Switch, 1, time, cpu, from) }
}

fn wake(time: i64, cpu: u32, by: u32, who: u32) -> Event {
    Event { other: who, ..Event::new(Kind::Wake, 1, time, cpu, by) }
}

fn disk(kind: Kind, time: i64, cpu: u32, tid: u32, position: u64) -> Event {
    Event { object: 8 << 20, position, bytes: 4096, ..Event::new(kind, 1, time, cpu, tid) }
}

/// `OBJECT:SPENT=NANOSECONDS` of each piece.
fn told(events: &[Event], of: u32, from: i64, to: i64) -> Vec<String> {
    told_of(&mut Machine::default(), events, thread(of), from, to)
}

fn told_of(machine: &mut Machine, events: &[Event], of: ThreadId, from: i64, to: i64) -> Vec<String> {
    events.iter().for_each(|event| machine.feed(event));
    let pieces = breakdown(machine, of, from, to);
    assert_eq!(pieces.iter().map(|piece| piece.to - piece.from).sum::<i64>(), to - from);
    let object = |object| match object {
        Object::Thread(thread) => thread.tid.to_string(),
        Object::Disk(_) => "disk".to_owned(),
        Object::Holder(_) => "holder".to_owned(),
        Object::Lock { holder, .. } => format!("lock of {}", holder.tid),
        Object::Interrupts(cpu) => format!("interrupts of cpu {}", cpu.cpu),
        Object::Vcpu(cpu) => format!("vcpu {}", cpu.cpu),
        Object::Link { from, to, service } => format!("{from}–{to}:{service}"),
        Object::Remote { service, .. } => format!("remote:{service}"),
    };
    let cause = |cause: Option<Cause>| match cause {
        None => String::new(),
        Some(Cause::Had(had)) => format!(" by {}", had.tid),
        Some(Cause::HadByOwn(had)) => format!(" by its own {}", had.tid),
        Some(Cause::Futex(address)) => format!(" for futex {address:#x}"),
        Some(Cause::HeldFutex(address)) => format!(" with futex {address:#x}"),
        Some(Cause::Repeated(times)) => format!(" {times} times"),
        Some(Cause::Earlier) => " before".to_owned(),
        Some(Cause::Moved(first)) => format!(" after {}", first.tid),
        Some(Cause::Ahead(times)) => format!(" of {times}"),
        Some(Cause::Awaited(awaited)) => format!(" for {awaited:?}"),
        Some(Cause::Power(Power::Idle(state))) => format!(" from idle state {state}"),
        Some(Cause::Interrupted) => " in interrupts".to_owned(),
        Some(Cause::Exited(reason)) => format!(" after exit {reason:#x}"),
        Some(Cause::Power(power)) => format!(" at {:.0} %", 100.0 * (1.0 - power.slowed())),
        Some(Cause::Refused(times, refused)) => format!(" {times} times, {:?}", refused.why),
    };
    let piece = |p: &Piece| format!("{}:{}={}{}", object(p.object), p.spent, p.to - p.from, cause(p.cause));
    pieces.iter().map(piece).collect()
}

#[test]
fn running_being_ready_and_interrupts_are_told_apart() {
    let interrupt = |kind, time| Event { object: 30, ..Event::new(kind, 1, time, 0, 7) };
    let events = [
        switch(100, 0, 0, State::Runnable, 7),
        interrupt(Kind::IrqEnter, 110),
        interrupt(Kind::IrqExit, 115),
        interrupt(Kind::SoftirqEnter, 116),
        interrupt(Kind::SoftirqExit, 120),
        switch(150, 0, 7, State::Runnable, 8),
        switch(170, 0, 8, State::Sleeping, 7),
    ];
    assert_eq!(
        told(&events, 7, 90, 180),
        [
            "7:unknown=10",
            "7:running=10",
            "interrupts of cpu 0:running=5",
            "7:running=1",
            "interrupts of cpu 0:running=4",
            "7:running=30",
            "7:ready=20 by 8",
            "7:running=10"
        ]
    );
}

#[test]
fn who_had_the_cpu_is_its_own_thread_where_both_are_known_to_be_of_one_process() {
    let of = |tid, process| Event { other: tid, object: process, ..Event::new(Kind::Thread, 1, 0, 0, 0) };
    let switches = [
        switch(0, 0, 0, State::Runnable, 7),
        switch(50, 0, 7, State::Runnable, 8),
        switch(70, 0, 8, State::Sleeping, 7),
    ];
    for (processes, by) in [([5, 5], "its own 8"), ([5, 6], "8"), ([0, 0], "8")] {
        let events: Vec<Event> =
            [of(7, processes[0]), of(8, processes[1])].into_iter().chain(switches).collect();
        assert_eq!(told(&events, 7, 0, 80), ["7:running=50", &format!("7:ready=20 by {by}"), "7:running=10"]);
    }
}

#[test]
fn a_wait_for_a_disk_is_the_disks() {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        disk(Kind::DiskQueue, 10, 0, 7, 64),
        switch(12, 0, 7, State::Blocked, 0),
        disk(Kind::DiskIssue, 20, 0, 0, 64),
        Event::new(Kind::IrqEnter, 1, 90, 0, 0),
        disk(Kind::DiskComplete, 91, 0, 0, 64),
        wake(93, 0, 0, 7),
        Event::new(Kind::IrqExit, 1, 95, 0, 0),
        switch(99, 0, 0, State::Runnable, 7),
    ];
    assert_eq!(
        told(&events, 7, 0, 110),
        ["7:running=12", "disk:queue=8", "disk:device=71", "disk:completion=2", "7:waking=6", "7:running=11"]
    );
}

/// An access that waits for long while the disk has nothing to do waits for something else: a limit, as of `io.max`.
#[test]
fn what_an_idle_disk_was_not_given_did_not_wait_for_the_disk() {
    let waits = |busy: bool| {
        let mut events = vec![switch(0, 0, 0, State::Runnable, 7), disk(Kind::DiskQueue, 10, 0, 7, 64)];
        events.push(switch(12, 0, 7, State::Blocked, 0));
        if busy {
            events.extend([disk(Kind::DiskQueue, 20, 1, 8, 900), disk(Kind::DiskIssue, 21, 1, 8, 900)]);
            events.push(disk(Kind::DiskComplete, 2_900_000, 1, 8, 900));
        }
        events.extend([
            disk(Kind::DiskIssue, 3_000_000, 0, 0, 64),
            Event::new(Kind::IrqEnter, 1, 3_000_090, 0, 0),
            disk(Kind::DiskComplete, 3_000_091, 0, 0, 64),
            wake(3_000_093, 0, 0, 7),
            Event::new(Kind::IrqExit, 1, 3_000_095, 0, 0),
        ]);
        told(&events, 7, 12, 3_000_093)
    };
    assert_eq!(waits(false), ["disk:waiting=2999988", "disk:device=91", "disk:completion=2"]);
    assert_eq!(waits(true), ["disk:queue=2999988", "disk:device=91", "disk:completion=2"]);
}

#[test]
fn a_wait_for_a_thread_is_what_that_thread_did() {
    // 7 asks 8, which reads from a disk, on another processor.
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        wake(10, 0, 7, 8),
        switch(12, 0, 7, State::Sleeping, 0),
        switch(15, 1, 0, State::Runnable, 8),
        disk(Kind::DiskQueue, 20, 1, 8, 64),
        disk(Kind::DiskIssue, 20, 1, 8, 64),
        switch(21, 1, 8, State::Blocked, 0),
        Event::new(Kind::IrqEnter, 1, 60, 1, 0),
        disk(Kind::DiskComplete, 60, 1, 0, 64),
        wake(60, 1, 0, 8),
        Event::new(Kind::IrqExit, 1, 61, 1, 0),
        switch(62, 1, 0, State::Runnable, 8),
        wake(70, 1, 8, 7),
        switch(72, 0, 0, State::Runnable, 7),
    ];
    assert_eq!(
        told(&events, 7, 0, 80),
        [
            "7:running=12",
            "8:waking=3",
            "8:running=6",
            "disk:device=39",
            "8:waking=2",
            "8:running=8",
            "7:waking=2",
            "7:running=8"
        ]
    );
}

#[test]
fn a_wait_for_a_lock_names_who_held_it() {
    let events = |address| {
        let lock = |kind, time, tid| Event { object: address, ..Event::new(kind, 1, time, 0, tid) };
        [
            switch(0, 0, 0, State::Runnable, 7),
            lock(Kind::LockWait, 5, 7),
            switch(6, 0, 7, State::Sleeping, 8),
            wake(50, 0, 8, 7),
            switch(55, 0, 8, State::Runnable, 7),
            lock(Kind::LockAcquired, 56, 7),
        ]
    };
    assert_eq!(
        told(&events(0xffff_8880_0000_1000), 7, 0, 60),
        ["7:running=6", "lock of 8:lock=44", "7:ready=5 by 8", "7:running=5"]
    );
    // Nobody need have had a futex: a condition variable is one, and a queue's.
    assert_eq!(
        told(&events(0x7f00_0000_1000), 7, 0, 60),
        ["7:running=6", "8:running=44 for futex 0x7f0000001000", "7:ready=5 by 8", "7:running=5"]
    );
}

/// A lock shows by its waiter, which wakes others when it lets go; and its holder by waking that one at it.
#[test]
fn a_futex_that_is_handed_on_is_a_lock_of_who_woke_its_waiter() {
    const FUTEX: u64 = 0x7f00_0000_1000;
    let lock = |kind, time, tid| Event { object: FUTEX, ..Event::new(kind, 1, time, 0, tid) };
    let events = |gives: u64, lets_go| {
        let mut all = vec![
            switch(0, 0, 0, State::Runnable, 7),
            lock(Kind::LockWait, 5, 7),
            switch(6, 0, 7, State::Sleeping, 8),
            Event { object: gives, ..lock(Kind::LockWake, 49, 8) },
            wake(50, 0, 8, 7),
            switch(55, 0, 8, State::Runnable, 7),
            lock(Kind::LockAcquired, 56, 7),
        ];
        all.extend(lets_go);
        told(&all, 7, 0, 60)
    };
    let whole = |how: &str| {
        let of = format!("8:running=44 {how} futex 0x7f0000001000");
        ["7:running=6", &of, "7:ready=5 by 8", "7:running=5"].map(str::to_owned)
    };
    let lets_go = lock(Kind::LockWake, 58, 7);
    assert_eq!(events(FUTEX, vec![lets_go]), whole("with"));
    // It waits for more, as for a condition variable; or was woken for something else.
    assert_eq!(events(FUTEX, vec![lock(Kind::LockWait, 200_000, 7)]), whole("for"));
    assert_eq!(events(FUTEX + 64, vec![lets_go]), whole("for"));
}

#[test]
fn a_soft_interrupt_that_a_thread_raised_wakes_in_its_name() {
    // Over the loopback device the sender's own softirq delivers.
    let soft = |kind, time| Event { object: 3, ..Event::new(kind, 1, time, 0, 8) };
    let events = [
        switch(0, 1, 7, State::Sleeping, 0),
        switch(0, 0, 0, State::Runnable, 8),
        soft(Kind::SoftirqEnter, 30),
        wake(32, 0, 8, 7),
        soft(Kind::SoftirqExit, 33),
        switch(35, 1, 0, State::Runnable, 7),
    ];
    assert_eq!(
        told(&events, 7, 0, 40),
        ["8:running=30", "interrupts of cpu 0:running=2", "7:waking=3", "7:running=5"]
    );
}

#[test]
fn a_wake_up_that_overtakes_the_wait_ends_it() {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        wake(10, 1, 8, 7),
        switch(12, 0, 7, State::Sleeping, 0),
        switch(20, 0, 0, State::Runnable, 7),
    ];
    assert_eq!(told(&events, 7, 0, 30), ["7:running=12", "7:waking=8", "7:running=10"]);
}

/// The client's end of a connection between domain 1 and the server in domain 2.
const CLIENT: Connection = Connection(3 << 32 | 40_000 << 16 | 80);

fn of_socket(kind: Kind, domain: u8, time: i64, tid: u32, end: Connection) -> Event {
    Event { object: 0xc0, position: end.0, ..Event::new(kind, domain, time, 0, tid) }
}

fn in_domain(domain: u8, event: Event) -> Event {
    Event { domain, ..event }
}

/// An interrupt at this time wakes a thread of a domain.
fn interrupt(domain: u8, time: i64, who: u32) -> [Event; 3] {
    [
        Event::new(Kind::IrqEnter, domain, time, 0, 0),
        in_domain(domain, wake(time, 0, 0, who)),
        Event::new(Kind::IrqExit, domain, time, 0, 0),
    ]
}

#[test]
fn what_a_guest_s_processor_does_outside_the_guest_is_the_host_s() {
    let host = |event| in_domain(3, event);
    let vm = |kind, time| Event { domain: 3, ..Event::new(kind, 3, time, 5, 70) };
    let exit = |time, code| Event { code, ..vm(Kind::VmExit, time) };
    let events = [
        Event { other: 70, object: 69, ..Event::new(Kind::Thread, 3, 0, 0, 0) },
        host(switch(0, 5, 0, State::Runnable, 70)),
        vm(Kind::VmEnter, 1),
        switch(10, 0, 0, State::Runnable, 7),
        // An exit that the hypervisor handles; another for which its thread is preempted.
        exit(20, 0x7b),
        vm(Kind::VmEnter, 25),
        exit(40, 0x60),
        host(switch(42, 5, 70, State::Runnable, 71)),
        host(switch(60, 5, 71, State::Sleeping, 70)),
        vm(Kind::VmEnter, 63),
        // The guest idles: its processor halts. Another of its processors wakes the thread.
        switch(70, 0, 7, State::Sleeping, 0),
        exit(71, 0x78),
        host(switch(72, 5, 70, State::Sleeping, 0)),
        wake(80, 1, 0, 7),
        host(wake(84, 4, 72, 70)),
        host(switch(86, 5, 0, State::Runnable, 70)),
        vm(Kind::VmEnter, 88),
        switch(90, 0, 0, State::Runnable, 7),
    ];
    let mut machine = Machine::new(vec![Guest { domain: 1, host: 3, process: 69 }]);
    assert_eq!(
        told_of(&mut machine, &events, thread(7), 10, 100),
        [
            "7:running=10",
            "vcpu 0:exit=5 after exit 0x7b",
            "7:running=15",
            "vcpu 0:exit=2 after exit 0x60",
            "vcpu 0:preempted=18 by 71",
            "vcpu 0:exit=3 after exit 0x60",
            "7:running=7",
            "7:waiting=10",
            "vcpu 0:halted=4",
            "vcpu 0:waking=2",
            "vcpu 0:exit=2 after exit 0x78",
            "7:waking=2",
            "7:running=10"
        ]
    );
}

#[test]
fn before_a_thread_began_its_maker_was_on_the_way() {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        Event { other: 8, object: 8, ..Event::new(Kind::Fork, 1, 20, 0, 7) },
        switch(30, 0, 7, State::Sleeping, 8),
    ];
    assert_eq!(told(&events, 8, 5, 40), ["7:running=15", "8:ready=10 by 7", "8:running=10"]);
}

#[test]
fn what_a_thread_did_before_its_first_event_shows_from_that() {
    let told_to_be = |tid| Event { other: tid, object: tid.into(), ..Event::new(Kind::Thread, 1, 0, 0, 0) };
    let events = [
        told_to_be(7),
        told_to_be(8),
        told_to_be(9),
        switch(10, 0, 7, State::Sleeping, 8),
        wake(20, 0, 8, 9),
        switch(30, 0, 8, State::Sleeping, 9),
    ];
    assert_eq!(told(&events, 7, 0, 20), ["7:running=10", "7:waiting=10"]);
    assert_eq!(told(&events, 8, 0, 20), ["8:ready=10 by 7", "8:running=10"]);
    assert_eq!(
        told(&events, 9, 5, 40),
        ["8:ready=5 by 7", "8:running=10", "9:ready=10 by 8", "9:running=10"]
    );
}

fn any_event() -> impl Strategy<Value = Event> {
    let kinds = prop::sample::select(Kind::ALL.to_vec());
    (kinds, 0u32..3, 0u32..5, 0u32..5, 0u64..4, -1i32..6).prop_map(|(kind, cpu, tid, other, object, code)| {
        Event {
            other,
            object,
            code,
            position: object * 8,
            bytes: 4096 * object,
            ..Event::new(kind, 1, 0, cpu, tid)
        }
    })
}

proptest! {
    /// Whatever comes, in whatever order: no gap, no overlap.
    #[test]
    fn pieces_sum_to_the_whole(
        events in prop::collection::vec((any_event(), 0i64..20), 0..200),
        from in 0i64..2000,
        length in 1i64..2000,
        forget in prop::option::of(0i64..1000),
    ) {
        let mut machine = Machine::default();
        let mut time = 0;
        for (event, gap) in events {
            time += gap;
            machine.feed(&Event { time_ns: time, ..event });
        }
        if let Some(before) = forget {
            machine.forget_before(before);
        }
        for tid in 1..5 {
            let pieces = breakdown(&machine, thread(tid), from, from + length);
            prop_assert_eq!(pieces.first().unwrap().from, from);
            prop_assert_eq!(pieces.last().unwrap().to, from + length);
            for pair in pieces.windows(2) {
                prop_assert_eq!(pair[0].to, pair[1].from);
                prop_assert!(pair[0].from < pair[0].to);
            }
        }
        // What is not known is said to be so.
        let stranger = breakdown(&machine, thread(99), from, from + length);
        prop_assert!(stranger.len() == 1 && stranger[0].spent == TimeState::Unknown);
    }
}

/// A connection of a client (domain 1) to the server's thread 9 (domain 2), by the client's port, as either end has it.
fn pair(port: u64) -> [Connection; 2] {
    let client = Connection(3 << 32 | port << 16 | 80);
    [client, client.peer()]
}

fn of_end(kind: Kind, time: i64, connection: Connection) -> Event {
    let (domain, tid) = if connection.remote_port() == 80 { (1, 7) } else { (2, 9) };
    let code = if kind == Kind::Send { Sending::Begins.code() } else { 1 };
    Event { position: connection.0, other: 1, code, ..Event::new(kind, domain, time, 0, tid) }
}

fn came(domain: u8, time: i64, tid: u32) -> [Event; 4] {
    let at =
        |kind, time| Event { object: 3, code: Context::Hard.code(), ..Event::new(kind, domain, time, 0, 0) };
    let wake =
        Event { other: tid, code: Context::Softirq.code(), ..Event::new(Kind::Wake, domain, time + 1, 0, 0) };
    let goes = Event { other: tid, ..Event::new(Kind::Switch, domain, time + 3, 0, 0) };
    [at(Kind::SoftirqEnter, time), wake, at(Kind::SoftirqExit, time + 2), goes]
}

/// It had set its state, was woken, and did not come to wait; what it waits for later is another matter.
#[test]
fn a_wake_up_that_came_before_the_wait_ends_another() {
    let mut events = vec![
        switch(0, 0, 0, State::Runnable, 7),
        wake(5, 1, 8, 7),
        disk(Kind::DiskQueue, 20, 0, 7, 4),
        disk(Kind::DiskIssue, 20, 0, 7, 4),
        switch(30, 0, 7, State::Blocked, 0),
        Event { object: 30, ..Event::new(Kind::IrqEnter, 1, 500, 0, 0) },
        disk(Kind::DiskComplete, 510, 0, 0, 4),
        wake(520, 0, 0, 7),
        Event { object: 30, ..Event::new(Kind::IrqExit, 1, 521, 0, 0) },
        switch(525, 0, 0, State::Runnable, 7),
    ];
    let expected = ["7:running=30", "disk:device=480", "disk:completion=10", "7:waking=5", "7:running=5"];
    assert_eq!(told(&events, 7, 0, 530), expected);
    // Without another one it was leaving its processor, and able to run all the time.
    events.remove(7);
    assert_eq!(told(&events, 7, 0, 530), ["7:running=30", "7:waking=495", "7:running=5"]);
}
