//! What is on its way to a guest whose vCPU has halted.

use super::*;

/// SVM's number of the exit for `hlt`.
const HLT: i32 = 0x78;

fn vm(kind: Kind, time: i64, vcpu: u64, thread: u32) -> Event {
    let cpu = if thread == 70 { 5 } else { 6 };
    Event { object: vcpu, ..Event::new(kind, 3, time, cpu, thread) }
}

/// Thread 7 of a guest asks, and waits for the answer, which a softirq of its processor brings; meanwhile the vCPU halts, and
/// sleeps in thread 70 of the host, until `wakes`. After `again` it has something else to do before that.
fn events(wakes: &[Event], again: &[Event], softirq: u64) -> Vec<Event> {
    let host = |event| in_domain(3, event);
    let at =
        |kind, time| Event { object: softirq, code: Context::Hard.code(), ..Event::new(kind, 1, time, 0, 0) };
    let of_qemu = |tid| Event { other: tid, object: 69, ..Event::new(Kind::Thread, 3, 0, 0, 0) };
    let mut events = vec![
        of_qemu(70),
        of_qemu(71),
        host(switch(0, 5, 0, State::Runnable, 70)),
        host(switch(0, 6, 0, State::Runnable, 71)),
        vm(Kind::VmEnter, 1, 0, 70),
        vm(Kind::VmEnter, 1, 1, 71),
        switch(2, 0, 0, State::Runnable, 7),
        in_domain(2, switch(2, 0, 9, State::Sleeping, 0)),
        of_end(Kind::Send, 10, CLIENT),
        switch(12, 0, 7, State::Sleeping, 0),
        Event { code: HLT, ..vm(Kind::VmExit, 13, 0, 70) },
        host(switch(14, 5, 70, State::Sleeping, 0)),
        of_end(Kind::Send, 60, CLIENT.peer()),
    ];
    events.extend(wakes);
    events.extend([host(switch(74, 5, 0, State::Runnable, 70)), vm(Kind::VmEnter, 76, 0, 70)]);
    events.extend(again);
    events.extend([
        at(Kind::SoftirqEnter, 95),
        Event { code: Context::Softirq.code(), ..wake(100, 0, 0, 7) },
        at(Kind::SoftirqExit, 101),
        switch(102, 0, 0, State::Runnable, 7),
        of_end(Kind::Receive, 110, CLIENT),
    ]);
    events
}

fn told_from(events: &[Event]) -> Vec<String> {
    let mut machine = Machine::new(vec![Guest { domain: 1, host: 3, process: 69 }]);
    let mut told = told_of(&mut machine, events, thread(7), 10, 110);
    // How it is asked is another test's.
    told.drain(..told.iter().position(|piece| piece.starts_with("2–1")).unwrap());
    told
}

/// A thread of the host, such as vhost's, wakes the vCPU's.
fn by_thread(thread: u32) -> Vec<Event> {
    vec![in_domain(3, Event { code: Context::Task.code(), ..wake(70, 4, thread, 70) })]
}

const NET_RX: u64 = 3;
const RCU: u64 = 9;

#[test]
fn a_halted_vcpu_that_it_wakes_takes_its_time() {
    assert_eq!(
        told_from(&events(&by_thread(72), &[], NET_RX)),
        [
            "2–1:80:network=10",
            "vcpu 0:waking=4",
            "vcpu 0:exit=2 after exit 0x78",
            "2–1:80:network=24",
            "7:waking=2",
            "7:running=8"
        ]
    );
}

/// The thread that wakes the vCPU was itself woken on the way, and another one had its CPU.
#[test]
fn who_brings_it_takes_the_time_that_it_waited_for_a_cpu() {
    let host = |event| in_domain(3, event);
    let mut brings = vec![
        host(switch(15, 4, 72, State::Sleeping, 99)),
        host(Event { code: Context::Task.code(), ..wake(62, 6, 71, 72) }),
        host(switch(66, 4, 99, State::Sleeping, 72)),
    ];
    brings.extend(by_thread(72));
    assert_eq!(
        told_from(&events(&brings, &[], NET_RX))[..4],
        ["2–1:80:network=2", "72:ready=4 by 99", "2–1:80:network=4", "vcpu 0:waking=4"]
    );
    // It had been ready for something else, and slept again.
    brings[1].time_ns = 61;
    brings[2].time_ns = 63;
    brings.insert(3, host(switch(65, 4, 72, State::Sleeping, 0)));
    brings.insert(4, host(Event { code: Context::Task.code(), ..wake(67, 6, 71, 72) }));
    brings.insert(5, host(switch(68, 4, 0, State::Runnable, 72)));
    assert_eq!(
        told_from(&events(&brings, &[], NET_RX))[..4],
        ["2–1:80:network=7", "72:waking=1", "2–1:80:network=2", "vcpu 0:waking=4"]
    );
}

#[test]
fn a_vcpu_that_slept_and_had_not_halted_takes_none() {
    let mut all = events(&by_thread(72), &[], NET_RX);
    let exit = all.iter_mut().find(|event| event.kind == Kind::VmExit).unwrap();
    exit.code = 0x7b;
    assert_eq!(told_from(&all), ["2–1:80:network=40", "7:waking=2", "7:running=8"]);
}

#[test]
fn a_vcpu_that_may_not_have_been_woken_for_it_takes_none() {
    let whole = ["2–1:80:network=40", "7:waking=2", "7:running=8"];
    let irq = |kind, time| Event { domain: 3, ..Event::new(kind, 3, time, 5, 0) };
    let timer = [
        irq(Kind::IrqEnter, 69),
        in_domain(3, Event { code: Context::Hard.code(), ..wake(70, 5, 0, 70) }),
        irq(Kind::IrqExit, 71),
    ];
    assert_eq!(told_from(&events(&timer, &[], NET_RX)), whole, "a timer of the host's woke it");
    assert_eq!(told_from(&events(&by_thread(71), &[], NET_RX)), whole, "another vCPU of the guest woke it");
    let other = [switch(80, 0, 0, State::Runnable, 8), switch(90, 0, 8, State::Sleeping, 0)];
    assert_eq!(told_from(&events(&by_thread(72), &other, NET_RX)), whole, "it ran another thread first");
    let one = told_from(&events(&by_thread(72), &[], RCU));
    assert!(one.iter().all(|piece| !piece.starts_with("vcpu")), "no interrupt of the network came: {one:?}");
}
