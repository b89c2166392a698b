//! A guest's disk as its host serves it, and what keeps a vCPU from an interrupt that it is woken for.

use super::*;

const NPF: i32 = 0x400;
const HLT: i32 = 0x78;
const HYPERCALL: i32 = 0x81;

fn host(event: Event) -> Event {
    in_domain(3, event)
}

fn vm(kind: Kind, time: i64, code: i32) -> Event {
    Event { code, ..Event::new(kind, 3, time, 5, 70) }
}

fn task(event: Event) -> Event {
    Event { code: Context::Task.code(), ..event }
}

fn machine() -> Machine {
    Machine::new(vec![Guest { domain: 1, host: 3, process: 69 }])
}

/// Thread 7 of the guest reads at 10; QEMU's thread 71 is woken at 13. The vCPU, thread 70, halts and sleeps from 22 on, so long
/// as it is not said to go on.
fn reads() -> Vec<Event> {
    let of_qemu = |tid| Event { other: tid, object: 69, ..Event::new(Kind::Thread, 3, 0, 0, 0) };
    vec![
        of_qemu(70),
        of_qemu(71),
        host(switch(0, 5, 0, State::Runnable, 70)),
        host(switch(0, 4, 71, State::Sleeping, 99)),
        vm(Kind::VmEnter, 1, 0),
        switch(2, 0, 0, State::Runnable, 7),
        disk(Kind::DiskQueue, 10, 0, 7, 64),
        disk(Kind::DiskIssue, 11, 0, 7, 64),
        vm(Kind::VmExit, 12, NPF),
        task(host(wake(13, 5, 70, 71))),
        vm(Kind::VmEnter, 15, 0),
        switch(17, 0, 7, State::Blocked, 0),
        vm(Kind::VmExit, 20, HLT),
        host(switch(22, 5, 70, State::Sleeping, 0)),
    ]
}

/// The guest's interrupt tells that the access is done.
fn completes() -> Vec<Event> {
    vec![
        Event::new(Kind::IrqEnter, 1, 190, 0, 0),
        disk(Kind::DiskComplete, 191, 0, 0, 64),
        wake(193, 0, 0, 7),
        Event::new(Kind::IrqExit, 1, 195, 0, 0),
        switch(199, 0, 0, State::Runnable, 7),
    ]
}

fn told_of_guest(events: &[Event]) -> Vec<String> {
    told_of(&mut machine(), events, thread(7), 11, 199)
}

#[test]
fn what_a_guests_disk_did_is_what_its_host_did_for_it() {
    let mut events = reads();
    events.extend([
        // Another thread had QEMU's CPU, then a disk of the host's the access.
        host(switch(60, 4, 99, State::Runnable, 71)),
        host(disk(Kind::DiskQueue, 62, 4, 71, 800)),
        host(disk(Kind::DiskIssue, 63, 4, 71, 800)),
        host(switch(65, 4, 71, State::Sleeping, 0)),
        host(Event::new(Kind::IrqEnter, 3, 120, 4, 0)),
        host(disk(Kind::DiskComplete, 121, 4, 0, 800)),
        host(wake(122, 4, 0, 71)),
        host(Event::new(Kind::IrqExit, 3, 123, 4, 0)),
        host(switch(124, 4, 0, State::Runnable, 71)),
        // And then another one the vCPU's.
        host(switch(125, 5, 0, State::Runnable, 98)),
        task(host(wake(130, 4, 71, 70))),
        host(switch(180, 5, 98, State::Sleeping, 70)),
        vm(Kind::VmEnter, 185, 0),
    ]);
    events.extend(completes());
    let told = told_of_guest(&events);
    for piece in ["71:ready=43 by 99", "disk:device=56", "vcpu 0:preempted=50 by 98"] {
        assert!(told.iter().any(|of| of == piece), "{piece} of {told:?}");
    }
    assert!(told.iter().all(|of| !of.ends_with(":unknown")), "{told:?}");
}

#[test]
fn who_told_a_guest_that_had_not_halted_is_not_known() {
    // The vCPU comes in by itself, so nobody is seen to raise the interrupt.
    let mut events = reads();
    events.truncate(events.len() - 3);
    events.extend([
        switch(17, 0, 7, State::Blocked, 8),
        host(switch(60, 4, 99, State::Runnable, 71)),
        host(switch(70, 4, 71, State::Sleeping, 0)),
    ]);
    let mut done = completes();
    done.iter_mut().for_each(|event| event.tid = if event.tid == 0 { 8 } else { event.tid });
    events.extend(done);
    assert_eq!(
        told_of_guest(&events)[3..],
        ["disk:unknown=43", "disk:device=131", "disk:completion=2", "7:ready=6 by 8"]
    );
}

#[test]
fn a_timer_of_a_guest_is_over_when_its_vcpu_is_woken_for_it() {
    let sleeps = |source: u64| {
        let mut events = reads();
        events.retain(|event| !matches!(event.kind, Kind::DiskQueue | Kind::DiskIssue));
        let timer =
            |kind, domain, time, cpu| Event { object: source, ..Event::new(kind, domain, time, cpu, 0) };
        events.extend([
            timer(Kind::IrqEnter, 3, 100, 5),
            host(wake(101, 5, 0, 70)),
            timer(Kind::IrqExit, 3, 102, 5),
            host(switch(103, 5, 0, State::Runnable, 98)),
            host(switch(180, 5, 98, State::Sleeping, 70)),
            vm(Kind::VmEnter, 185, 0),
            timer(Kind::IrqEnter, 1, 190, 0),
            wake(193, 0, 0, 7),
            timer(Kind::IrqExit, 1, 195, 0),
            switch(199, 0, 0, State::Runnable, 7),
        ]);
        told_of_guest(&events)
    };
    let told = sleeps(0x1_00ec);
    assert!(told.iter().any(|of| of == "vcpu 0:preempted=77 by 98"), "{told:?}");
    // Of another interrupt nobody knows when it was pending.
    let told = sleeps(0x30);
    assert!(told.iter().all(|of| !of.starts_with("vcpu 0:preempted")), "{told:?}");
}

/// The vCPU comes out to halt while a thread of the guest has its CPU, and another vCPU's thread wakes it.
#[test]
fn a_vcpu_that_halts_for_a_lock_is_not_idle() {
    let halts = |thread: u32| {
        let mut events = vec![
            Event { other: 70, object: 69, ..Event::new(Kind::Thread, 3, 0, 0, 0) },
            Event { other: 80, object: 69, ..Event::new(Kind::Thread, 3, 0, 0, 0) },
            host(switch(0, 5, 0, State::Runnable, 70)),
            host(switch(0, 6, 0, State::Runnable, 80)),
            vm(Kind::VmEnter, 1, 0),
            Event { object: 1, ..host(Event::new(Kind::VmEnter, 3, 1, 6, 80)) },
            switch(2, 0, 0, State::Runnable, 7),
        ];
        if thread == 0 {
            events.extend([switch(15, 0, 7, State::Sleeping, 0), wake(16, 0, 0, 7)]);
        }
        events.extend([
            vm(Kind::VmExit, 20, HLT),
            host(switch(22, 5, 70, State::Sleeping, 0)),
            Event { code: HYPERCALL, object: 1, ..host(Event::new(Kind::VmExit, 3, 59, 6, 80)) },
            task(host(wake(60, 6, 80, 70))),
            host(switch(62, 5, 0, State::Runnable, 70)),
            vm(Kind::VmEnter, 65, 0),
        ]);
        events.extend((thread == 0).then(|| switch(70, 0, 0, State::Runnable, 7)));
        told_of(&mut machine(), &events, super::thread(7), 17, 65)
    };
    let has = |told: &[String], piece: &str| told.iter().any(|of| of == piece);
    let spins = halts(7);
    assert!(has(&spins, "vcpu 0:waiting=38"), "{spins:?}");
    let idle = halts(0);
    assert!(has(&idle, "vcpu 0:halted=38"), "{idle:?}");
}

#[test]
fn a_vcpu_that_sleeps_after_its_halt_was_over_is_not_halted() {
    let sleeps = |again: bool| {
        let mut events = reads();
        events.retain(|event| !matches!(event.kind, Kind::DiskQueue | Kind::DiskIssue));
        events.push(task(wake(23, 1, 8, 7)));
        let slept = |time: i64, ns: i64| Event { bytes: ns.unsigned_abs(), ..vm(Kind::VmHalt, time, 0) };
        if again {
            // Frozen, say: KVM tells of the halt's end, and the thread sleeps once more.
            events.extend([
                task(host(wake(40_000, 6, 80, 70))),
                host(switch(40_002, 5, 0, State::Runnable, 70)),
                slept(40_004, 39_984),
                host(switch(90_000, 5, 70, State::Sleeping, 0)),
            ]);
        }
        events.extend([
            task(host(wake(150_000, 6, 80, 70))),
            host(switch(150_002, 5, 0, State::Runnable, 70)),
            if again { slept(150_004, 2) } else { slept(150_004, 149_984) },
            vm(Kind::VmEnter, 150_006, 0),
            switch(150_010, 0, 0, State::Runnable, 7),
        ]);
        told_of(&mut machine(), &events, thread(7), 23, 150_010)
    };
    let once = sleeps(false);
    assert!(once.iter().any(|of| of == "vcpu 0:halted=149977"), "{once:?}");
    let again = sleeps(true);
    assert!(again.iter().any(|of| of == "vcpu 0:halted=39977"), "{again:?}");
    assert!(!again.iter().any(|of| of == "vcpu 0:halted=60000"), "{again:?}");
}

/// A request is sent again while vhost, thread 71 that the client had woken, is ready: it was not lost for all that is known.
#[test]
fn what_waits_for_a_cpu_as_it_is_sent_again_is_not_lost() {
    let told = |woken: bool| {
        let mut events = vec![
            switch(0, 0, 0, State::Runnable, 7),
            switch(0, 4, 71, State::Sleeping, 99),
            in_domain(2, switch(0, 0, 9, State::Sleeping, 0)),
            of_end(Kind::Send, 10, CLIENT),
        ];
        events.extend(woken.then(|| task(wake(12, 0, 7, 71))));
        events.push(switch(20, 0, 7, State::Sleeping, 0));
        events.push(of_end(Kind::Retransmit, 100, CLIENT));
        events.extend(woken.then(|| switch(150, 4, 99, State::Sleeping, 71)));
        events.extend(came(2, 160, 9));
        events.push(of_end(Kind::Receive, 170, CLIENT.peer()));
        told_of(&mut Machine::default(), &events, ThreadId { domain: 2, tid: 9 }, 10, 163)
    };
    assert_eq!(told(true)[..2], ["1–2:80:retransmit=2 1 times", "1–2:80:unknown=88"]);
    assert_eq!(told(false)[0], "1–2:80:retransmit=90 1 times");
}
