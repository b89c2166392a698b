//! Idle states and frequencies of processors.

use xweave_model::{Guest, Machine, ThreadId, power::Highest};
use xweave_trace::event::{Context, Event, Kind, Quota, State};

use super::{switch, thread, told, told_of, wake};

fn idle(time: i64, cpu: u32, code: i32) -> Event {
    Event { code, ..Event::new(Kind::CpuIdle, 1, time, cpu, 0) }
}

fn frequency(domain: u8, time: i64, of: u32, khz: u64) -> Event {
    Event { object: of.into(), bytes: khz, ..Event::new(Kind::CpuFrequency, domain, time, 9, 0) }
}

/// The state that it was in when the thread was woken, whatever it was in before.
#[test]
fn who_waits_for_an_idle_processor_is_told_its_state() {
    let woken = Event { object: 1, code: Context::Task.code() + Quota::Left.code(), ..wake(50, 1, 8, 7) };
    let mut events = vec![
        switch(0, 0, 0, State::Runnable, 7),
        switch(10, 0, 7, State::Sleeping, 0),
        idle(11, 0, 1),
        idle(20, 0, -1),
        idle(21, 0, 3),
        woken,
        idle(80, 0, -1),
        switch(90, 0, 0, State::Runnable, 7),
    ];
    assert_eq!(told(&events, 7, 50, 95), ["7:waking=40 from idle state 3", "7:running=5"]);
    // It was out of it already, or what it went into was lost.
    events[4].code = -1;
    assert_eq!(told(&events, 7, 50, 95), ["7:waking=40", "7:running=5"]);
}

#[test]
fn what_ran_below_the_highest_frequency_is_told_so() {
    let events = [
        switch(0, 0, 0, State::Runnable, 7),
        frequency(1, 10, 0, 3_000_000),
        // Another one's.
        frequency(1, 15, 1, 500_000),
        Event { object: 30, ..Event::new(Kind::IrqEnter, 1, 20, 0, 7) },
        Event { object: 30, ..Event::new(Kind::IrqExit, 1, 25, 0, 7) },
        frequency(1, 30, 0, 1_500_000),
        frequency(1, 60, 0, 3_000_000),
    ];
    let mut highest = Highest::default();
    events.iter().for_each(|event| highest.add(event));
    let mut machine = Machine::default().with_highest(highest);
    assert_eq!(
        told_of(&mut machine, &events, thread(7), 0, 100),
        [
            "7:running=20",
            "interrupts of cpu 0:running=5",
            "7:running=5",
            "7:running=30 at 50 %",
            "7:running=40"
        ]
    );
    // If nothing says which one is the highest, none is low.
    assert_eq!(told(&events, 7, 25, 100), ["7:running=75"]);
}

/// A guest does not know at which frequency it runs: that is its vCPU's processor's.
#[test]
fn a_guest_runs_at_the_frequency_of_its_hosts_processor() {
    let host = |event: Event| Event { domain: 3, ..event };
    let vm = |kind, time, cpu| Event { object: 0, ..Event::new(kind, 3, time, cpu, 70) };
    let events = [
        Event { other: 70, object: 69, ..Event::new(Kind::Thread, 3, 0, 0, 0) },
        frequency(3, 1, 5, 2_000_000),
        frequency(3, 1, 6, 2_000_000),
        host(switch(2, 5, 0, State::Runnable, 70)),
        frequency(3, 3, 5, 500_000),
        vm(Kind::VmEnter, 5, 5),
        switch(10, 0, 0, State::Runnable, 7),
        vm(Kind::VmExit, 40, 5),
        host(switch(42, 5, 70, State::Runnable, 71)),
        Event { other: 70, object: 6, position: 5, ..Event::new(Kind::Migrate, 3, 45, 5, 71) },
        host(switch(50, 6, 0, State::Runnable, 70)),
        vm(Kind::VmEnter, 52, 6),
    ];
    let mut highest = Highest::default();
    events.iter().for_each(|event| highest.add(event));
    let guests = vec![Guest { domain: 1, host: 3, process: 69 }];
    let mut machine = Machine::new(guests).with_highest(highest);
    let said = told_of(&mut machine, &events, ThreadId { domain: 1, tid: 7 }, 10, 100);
    assert_eq!(said.first().map(String::as_str), Some("7:running=30 at 25 %"), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("7:running=48"), "{said:?}");
}
