//! What keeps a vCPU out of its guest, and an interrupt from being taken.

use xweave_model::{CpuId, breakdown::breakdown_of_cpu};

use super::*;

const IO: i32 = 0x7b;
const HLT: i32 = 0x78;
const WINDOW: i32 = 0x64;
const INTERRUPT: i32 = 0x60;

fn host(event: Event) -> Event {
    in_domain(3, event)
}

fn vm(kind: Kind, time: i64, code: i32) -> Event {
    Event { code, ..Event::new(kind, 3, time, 5, 70) }
}

fn machine() -> Machine {
    Machine::new(vec![Guest { domain: 1, host: 3, process: 69 }])
}

/// Thread 70 of the host is the vCPU on which thread 7 of the guest runs from 2 on.
fn begin() -> Vec<Event> {
    vec![
        Event { other: 70, object: 69, ..Event::new(Kind::Thread, 3, 0, 0, 0) },
        host(switch(0, 5, 0, State::Runnable, 70)),
        host(switch(0, 6, 0, State::Runnable, 80)),
        vm(Kind::VmEnter, 1, 0),
        switch(2, 0, 0, State::Runnable, 7),
    ]
}

/// The vCPU comes out, and its thread waits in the host until thread 80 wakes it.
fn waits(reason: i32, state: State) -> Vec<String> {
    let mut events = begin();
    events.extend([
        vm(Kind::VmExit, 20, reason),
        host(switch(22, 5, 70, state, 0)),
        host(Event { code: Context::Task.code() + 8, ..wake(60, 6, 80, 70) }),
        host(switch(62, 5, 0, State::Runnable, 70)),
        vm(Kind::VmEnter, 65, 0),
    ]);
    told_of(&mut machine(), &events, thread(7), 2, 80)
}

#[test]
fn a_vcpu_that_sleeps_without_having_halted_waits_as_any_thread_does() {
    let around = |reason: &str, waits: &str, woken: &str| {
        let exit = |ns| format!("vcpu 0:exit={ns} after exit {reason}");
        [
            "7:running=18".to_owned(),
            exit(2),
            waits.to_owned(),
            woken.to_owned(),
            exit(3),
            "7:running=15".to_owned(),
        ]
    };
    // For QEMU's lock, say: that is what who woke it did.
    assert_eq!(waits(IO, State::Sleeping), around("0x7b", "80:running=38", "70:waking=2"));
    assert_eq!(waits(INTERRUPT, State::Stopped), around("0x60", "70:stopped=38", "70:waking=2"));
    assert_eq!(waits(HLT, State::Sleeping), around("0x78", "vcpu 0:halted=38", "vcpu 0:waking=2"));
}

/// A packet for the guest, of which it takes the interrupt at the end.
fn told_of_cpu(events: &[Event]) -> Vec<(TimeState, i64)> {
    let mut machine = machine();
    events.iter().for_each(|event| machine.feed(event));
    let pieces = breakdown_of_cpu(&machine, CpuId { domain: 1, cpu: 0 }, 10, 80);
    pieces.iter().map(|piece| (piece.spent, piece.to - piece.from)).collect()
}

#[test]
fn an_interrupt_is_late_only_while_kvm_waits_for_the_guest_to_take_it() {
    let mut events = begin();
    events.extend([
        vm(Kind::VmExit, 20, INTERRUPT),
        vm(Kind::VmEnter, 22, 0),
        vm(Kind::VmExit, 60, WINDOW),
        vm(Kind::VmInject, 61, 0),
        vm(Kind::VmEnter, 63, 0),
    ]);
    assert_eq!(
        told_of_cpu(&events),
        [
            (TimeState::Unknown, 10),
            (TimeState::Exit, 2),
            (TimeState::Waiting, 38),
            (TimeState::Exit, 3),
            (TimeState::Unknown, 17)
        ]
    );
    // It came out for something else: nothing says that an interrupt was pending.
    events[7].code = IO;
    assert_eq!(told_of_cpu(&events)[2], (TimeState::Unknown, 38));
    // Nor that the guest had anything to do while its vCPU slept.
    let mut events = begin();
    events.extend([vm(Kind::VmExit, 20, HLT), host(switch(22, 5, 70, State::Sleeping, 0))]);
    assert_eq!(
        told_of_cpu(&events),
        [(TimeState::Unknown, 10), (TimeState::Exit, 2), (TimeState::Unknown, 58)]
    );
}
