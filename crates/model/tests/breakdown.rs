//! Where the time went, told of events whose truth is known.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use proptest::prelude::*;
use xweave_model::{Machine, Object, Spent, ThreadId, breakdown};
use xweave_trace::event::{Event, Kind, State};

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
    let mut machine = Machine::default();
    events.iter().for_each(|event| machine.feed(event));
    let pieces = breakdown(&machine, thread(of), from, to);
    assert_eq!(pieces.iter().map(|piece| piece.to - piece.from).sum::<i64>(), to - from);
    let object = |object| match object {
        Object::Thread(thread) => thread.tid.to_string(),
        Object::Disk(_) => "disk".to_owned(),
        Object::Lock { holder, .. } => format!("lock of {}", holder.tid),
        Object::Interrupts(cpu) => format!("interrupts of cpu {}", cpu.cpu),
    };
    pieces.iter().map(|p| format!("{}:{}={}", object(p.object), p.spent, p.to - p.from)).collect()
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
            "7:ready=20",
            "7:running=10"
        ]
    );
}

#[test]
fn a_wait_for_a_disk_is_the_disks() {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        disk(Kind::DiskQueue, 10, 0, 7, 64),
        switch(12, 0, 7, State::Blocked, 0),
        disk(Kind::DiskIssue, 20, 0, 0, 64),
        Event::new(Kind::IrqEnter, 1, 90, 0, 0),
        disk(Kind::DiskDone, 91, 0, 0, 64),
        wake(93, 0, 0, 7),
        Event::new(Kind::IrqExit, 1, 95, 0, 0),
        switch(99, 0, 0, State::Runnable, 7),
    ];
    assert_eq!(
        told(&events, 7, 0, 110),
        ["7:running=12", "disk:queue=8", "disk:device=71", "disk:completion=2", "7:ready=6", "7:running=11"]
    );
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
        disk(Kind::DiskDone, 60, 1, 0, 64),
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
            "8:ready=3",
            "8:running=6",
            "disk:device=39",
            "8:ready=2",
            "8:running=8",
            "7:ready=2",
            "7:running=8"
        ]
    );
}

#[test]
fn a_wait_for_a_lock_names_who_held_it() {
    let lock = |kind, time, tid| Event { object: 0x1000, ..Event::new(kind, 1, time, 0, tid) };
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        lock(Kind::LockWait, 5, 7),
        switch(6, 0, 7, State::Sleeping, 8),
        wake(50, 0, 8, 7),
        switch(55, 0, 8, State::Runnable, 7),
        lock(Kind::LockDone, 56, 7),
    ];
    assert_eq!(told(&events, 7, 0, 60), ["7:running=6", "lock of 8:held=44", "7:ready=5", "7:running=5"]);
}

#[test]
fn a_soft_interrupt_that_a_thread_raised_wakes_in_its_name() {
    // Over the loopback device the sender's own soft interrupt delivers.
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
        ["8:running=30", "interrupts of cpu 0:running=2", "7:ready=3", "7:running=5"]
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
    assert_eq!(told(&events, 7, 0, 30), ["7:running=12", "7:ready=8", "7:running=10"]);
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
        prop_assert!(stranger.len() == 1 && stranger[0].spent == Spent::Unknown);
    }
}
