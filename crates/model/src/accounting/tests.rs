use xweave_replay::Loss;
use xweave_trace::xen;

use super::*;
use crate::{
    exit::ExitReason,
    test_objects::{exits, process, threads, vcpus},
    usage::UsageKind,
};

fn accounting(events: impl IntoIterator<Item = Event>, names: &Names) -> Usage {
    let domains = [(1, "host".to_owned()), (2, "vm1".to_owned())].into_iter().collect();
    let guest = Guest { domain: 2, host: 1, process: 70 };
    let events: Vec<Event> = events.into_iter().collect();
    let losses = events.iter().filter(|event| event.kind == Kind::Lost).map(Loss::new).collect();
    let mut accounting = Accounting::new(domains, DiskNames::default(), vec![guest], Replay::new(losses));
    events.iter().for_each(|event| accounting.feed(event, names));
    accounting.finish(names)
}

fn of(usage: &Usage, object: UsageObject) -> Figures {
    let found = usage.objects.iter().find(|(key, _)| key.object == object);
    found.map_or_else(|| panic!("no {object:?}: {:?}", usage.objects), |(_, figures)| *figures)
}

fn vcpu() -> UsageObject {
    UsageObject::Vcpu { number: 0, of: vcpus() }
}

fn at(kind: Kind, time: i64, cpu: u32, tid: u32) -> Event {
    Event::new(kind, 1, time, cpu, tid)
}

fn switch(time: i64, from: u32, state: State, to: u32) -> Event {
    Event { other: to, code: state.code(), ..at(Kind::Switch, time, 0, from) }
}

#[test]
fn threads_are_their_processes() {
    let mut names = Names::default();
    let (web, pool) = (names.give("nginx"), names.give("pool-1"));
    let thread = |tid, name| Event { other: tid, object: 7, name, ..at(Kind::Thread, 0, 0, 0) };
    let events = [
        thread(7, web),
        thread(8, pool),
        switch(10, 0, State::Runnable, 7),
        switch(30, 7, State::Runnable, 8),
        switch(35, 8, State::Dead, 7),
        switch(45, 7, State::Sleeping, 0),
        Event { other: 7, ..at(Kind::Wake, 60, 1, 0) },
        switch(64, 0, State::Runnable, 7),
        at(Kind::Other, 70, 0, 7),
    ];
    let usage = accounting(events, &names);
    let nginx = of(&usage, process("nginx"));
    // 20 + 5 + 10, and 6 until the last event; ready from 30 to 35 and from 60 to 64.
    assert_eq!((nginx.time_ns, nginx.count, nginx.wait_ns), (41, 4, 9));
    assert_eq!(usage.busy["host"], [(0, 41)].into());
}

#[test]
fn a_disk_is_used_by_who_asked_first() {
    let mut names = Names::default();
    let name = names.give("cat");
    let disk = |kind, time, tid, position, bytes| Event {
        object: 254 << 20 | 16,
        position,
        bytes,
        ..at(kind, time, 0, tid)
    };
    let events = [
        Event { other: 7, object: 7, name, ..at(Kind::Thread, 0, 0, 0) },
        disk(Kind::DiskQueue, 10, 7, 64, 4096),
        disk(Kind::DiskQueue, 12, 8, 72, 4096),
        disk(Kind::DiskIssue, 20, 8, 64, 8192),
        disk(Kind::DiskQueue, 21, 7, 800, 4096),
        disk(Kind::DiskIssue, 25, 7, 800, 4096),
        switch(26, 7, State::Dead, 0),
        disk(Kind::DiskComplete, 90, 0, 64, 8192),
        disk(Kind::DiskComplete, 100, 0, 800, 4096),
    ];
    let usage = accounting(events, &names);
    let used = of(&usage, UsageObject::DiskUser { user: threads("cat"), disk: "254:16".into() });
    // The second had to wait for the first: it took 10 of the disk's time.
    assert_eq!((used.time_ns, used.count, used.bytes), (70 + 10, 2, 12_288));
    // What was merged into the first has waited with it.
    assert_eq!((used.wait_ns, used.device_ns), (10 + 4, 70 + 75));
    let disk = of(&usage, UsageObject::Disk("254:16".into()));
    assert_eq!((disk.time_ns, disk.count, disk.bytes, disk.distance), (80, 2, 12_288, (800 - 80) * 512));
}

#[test]
fn interrupts_do_not_count_those_above_them() {
    let irq = |kind, time, object| Event { object, ..at(kind, time, 0, 0) };
    let events = [
        irq(Kind::SoftirqEnter, 10, 3),
        irq(Kind::IrqEnter, 20, 30),
        irq(Kind::IrqExit, 26, 30),
        irq(Kind::SoftirqExit, 40, 3),
    ];
    let usage = accounting(events, &Names::default());
    let figures = |interrupt| of(&usage, UsageObject::Interrupt(interrupt));
    assert_eq!((figures(Interrupt::Softirq(3)).time_ns, figures(Interrupt::Device(30)).time_ns), (24, 6));
}

#[test]
fn locks_peers_and_virtual_processors() {
    let mut names = Names::default();
    let name = names.give("qemu");
    let port = |local: u64, remote: u64| local << 16 | remote;
    let message = |kind, time, position| Event { position, bytes: 100, ..at(kind, time, 0, 70) };
    let events = [
        Event { other: 70, object: 70, name, ..at(Kind::Thread, 0, 0, 0) },
        switch(0, 0, State::Runnable, 70),
        message(Kind::Send, 5, port(40_000, 80)),
        switch(10, 70, State::Sleeping, 0),
        Event { other: 70, ..at(Kind::Wake, 50, 0, 0) },
        switch(50, 0, State::Runnable, 70),
        message(Kind::Receive, 55, port(40_000, 80)),
        Event { object: 0x1000, ..at(Kind::LockWait, 60, 0, 70) },
        // The kernel's own, within it.
        Event { object: 0x2000, ..at(Kind::LockAcquired, 63, 0, 70) },
        Event { object: 0x1000, ..at(Kind::LockAcquired, 67, 0, 70) },
        at(Kind::VmEnter, 70, 0, 70),
        Event { code: 0x7b, ..at(Kind::VmExit, 80, 0, 70) },
        at(Kind::VmEnter, 83, 0, 70),
        Event { code: 0x78, ..at(Kind::VmExit, 84, 0, 70) },
        Event { bytes: 10, ..at(Kind::VmHalt, 95, 0, 70) },
        at(Kind::VmEnter, 96, 0, 70),
    ];
    let usage = accounting(events, &names);
    let peer = of(&usage, UsageObject::Peer(Some(80)));
    assert_eq!((peer.count, peer.bytes, peer.wait_ns), (2, 200, 40));
    let qemu = ObjectGroup::Threads { name: "qemu".into(), guest: Some("vm1".into()) };
    assert_eq!(of(&usage, UsageObject::Locks(qemu)).wait_ns, 7);
    let inside = of(&usage, vcpu());
    assert_eq!((inside.time_ns, inside.count, inside.wait_ns), (11, 2, 10));
    let exits = |why| of(&usage, exits(why));
    assert_eq!(
        (exits(ExitReason::Io).time_ns, exits(ExitReason::Io).count, exits(ExitReason::Halt).time_ns),
        (3, 1, 0)
    );
}

#[test]
fn who_waits_for_a_processor_is_told_who_had_it() {
    let mut names = Names::default();
    let (qemu, ours, gcc) = (names.give("qemu-system-x86"), names.give("xweave"), names.give("cc1"));
    let thread = |tid, object, name| Event { other: tid, object, name, ..at(Kind::Thread, 0, 0, 0) };
    let events = [
        thread(70, 70, qemu),
        thread(71, 70, qemu),
        thread(90, 90, ours),
        thread(95, 95, gcc),
        switch(5, 0, State::Runnable, 71),
        at(Kind::VmEnter, 6, 0, 71),
        switch(10, 71, State::Runnable, 90),
        switch(17, 90, State::Runnable, 95),
        switch(20, 95, State::Sleeping, 71),
        switch(30, 71, State::Sleeping, 90),
        switch(31, 90, State::Sleeping, 0),
    ];
    let usage = accounting(events, &names);
    let waited: Vec<_> =
        usage.waited.iter().map(|waited| (waited.who.clone(), waited.by.clone(), waited.ns)).collect();
    // The recorder was ready since 17: 3 of cc1's, and then 10 of the vCPU's.
    let told = [
        (vcpus(), ObjectGroup::Recorder, 7),
        (vcpus(), threads("cc1"), 3),
        (ObjectGroup::Recorder, vcpus(), 10),
        (ObjectGroup::Recorder, threads("cc1"), 3),
    ];
    assert_eq!(waited, told);
    assert_eq!(of(&usage, UsageObject::Process(vcpus())).wait_ns, 10);
    assert_eq!(of(&usage, UsageObject::Process(ObjectGroup::Recorder)).wait_ns, 13);
    assert_eq!(usage.spans["host"], 31 - 5);
}

#[test]
fn what_the_recorder_sends_is_its_own_and_nobody_s_service() {
    let mut names = Names::default();
    let (ours, web) = (names.give("xweave"), names.give("nginx"));
    let thread = |tid, name| Event { other: tid, object: tid.into(), name, ..at(Kind::Thread, 0, 0, 0) };
    let send = |time, tid, port: u64| Event {
        position: 1 << 32 | port << 16 | 40_000,
        bytes: 100,
        ..at(Kind::Send, time, 0, tid)
    };
    let events = [thread(8, ours), thread(9, web), send(10, 8, 5990), send(20, 9, 80)];
    let usage = accounting(events, &names);
    let services: Vec<_> = usage
        .objects
        .keys()
        .filter(|key| key.kind() == UsageKind::Service)
        .map(|key| key.object.clone())
        .collect();
    assert_eq!(services, [UsageObject::Service(None), UsageObject::Service(Some(80))]);
}

#[test]
fn an_exit_takes_the_time_that_the_host_works_for_it_and_not_what_others_have_the_processor() {
    let mut names = Names::default();
    let (qemu, gcc) = (names.give("qemu-system-x86"), names.give("cc1"));
    let thread = |tid, object, name| Event { other: tid, object, name, ..at(Kind::Thread, 0, 0, 0) };
    let events = [
        thread(70, 70, qemu),
        thread(95, 95, gcc),
        switch(1, 0, State::Runnable, 70),
        at(Kind::VmEnter, 2, 0, 70),
        Event { code: 0x60, ..at(Kind::VmExit, 10, 0, 70) },
        switch(13, 70, State::Runnable, 95),
        switch(40, 95, State::Sleeping, 70),
        at(Kind::VmEnter, 44, 0, 70),
    ];
    let usage = accounting(events, &names);
    let exit = of(&usage, exits(ExitReason::Interrupt));
    assert_eq!((exit.time_ns, exit.count), (3 + 4, 1));
    assert_eq!(of(&usage, UsageObject::Process(vcpus())).wait_ns, 27);
}

#[test]
fn what_polls_for_an_interrupt_before_it_halts_is_halted_and_no_exit() {
    let mut names = Names::default();
    let qemu = names.give("qemu-system-x86");
    let events = [
        Event { other: 70, object: 70, name: qemu, ..at(Kind::Thread, 0, 0, 0) },
        switch(1, 0, State::Runnable, 70),
        at(Kind::VmEnter, 2, 0, 70),
        Event { code: 0x78, ..at(Kind::VmExit, 10, 0, 70) },
        // It polled for 5 before it slept.
        switch(15, 70, State::Sleeping, 0),
        Event { other: 70, ..at(Kind::Wake, 40, 0, 0) },
        switch(41, 0, State::Runnable, 70),
        Event { bytes: 32, ..at(Kind::VmHalt, 42, 0, 70) },
        at(Kind::VmEnter, 43, 0, 70),
    ];
    let usage = accounting(events, &names);
    assert_eq!(of(&usage, exits(ExitReason::Halt)).time_ns, 0);
    // For the rest of the 32 its thread waited for a CPU.
    assert_eq!(of(&usage, vcpu()).wait_ns, 31);
    assert_eq!(of(&usage, UsageObject::Process(vcpus())).wait_ns, 1);
}

/// A vCPU is in its guest or out of it with a CPU, waits for one, or is halted: no more than the time that there is.
#[test]
fn what_a_halted_vcpu_waits_for_a_cpu_is_not_halted() {
    let mut names = Names::default();
    let (qemu, gzip) = (names.give("qemu-system-x86"), names.give("gzip"));
    let mut events = vec![
        Event { other: 70, object: 70, name: qemu, ..at(Kind::Thread, 0, 0, 0) },
        Event { other: 80, object: 80, name: gzip, ..at(Kind::Thread, 0, 0, 0) },
        switch(0, 0, State::Runnable, 70),
    ];
    for turn in 0..5 {
        let begins = turn * 1_000;
        events.extend([
            at(Kind::VmEnter, begins + 10, 0, 70),
            Event { code: 0x78, ..at(Kind::VmExit, begins + 200, 0, 70) },
            switch(begins + 210, 70, State::Sleeping, 80),
            Event { other: 70, ..at(Kind::Wake, begins + 400, 0, 80) },
            switch(begins + 990, 80, State::Runnable, 70),
            Event { bytes: 795, ..at(Kind::VmHalt, begins + 995, 0, 70) },
        ]);
    }
    let usage = accounting(events, &names);
    let (inside, thread) = (of(&usage, vcpu()), of(&usage, UsageObject::Process(vcpus())));
    assert_eq!((inside.time_ns, inside.wait_ns, thread.wait_ns), (5 * 190, 5 * 205, 5 * 590));
    // It ran for a moment before and after it slept, of which KVM calls some halted.
    let all = inside.time_ns + inside.wait_ns + thread.wait_ns;
    assert!(all <= 4_995 && all + 5 * 20 >= 4_995, "{all} of 4995");
}

/// What waits for a vCPU that runs the recorder's agent in its guest waits for the recorder: whether that vCPU has left its CPU
/// or not.
#[test]
fn who_waits_for_an_agent_in_a_guest_waits_for_the_recorder() {
    let mut names = Names::default();
    let [qemu, web, agent, nginx] =
        ["qemu-system-x86", "web", "xweave", "nginx"].map(|name| names.give(name));
    let thread = |domain, tid, name| {
        let kind = Kind::Thread;
        Event { other: tid, object: tid.into(), name, ..Event::new(kind, domain, 0, 0, 0) }
    };
    let inside = |time, from, to| {
        let code = State::Runnable.code();
        Event { other: to, code, ..Event::new(Kind::Switch, 2, time, 0, from) }
    };
    let events = [
        thread(1, 70, qemu),
        thread(1, 80, web),
        thread(2, 9, agent),
        thread(2, 10, nginx),
        switch(1, 0, State::Runnable, 70),
        at(Kind::VmEnter, 2, 0, 70),
        inside(3, 0, 10),
        Event { other: 80, ..Event::new(Kind::Switch, 1, 4, 1, 0) },
        Event { code: State::Sleeping.code(), ..Event::new(Kind::Switch, 1, 5, 1, 80) },
        Event { other: 80, object: 1, ..at(Kind::Wake, 10, 1, 0) },
        inside(20, 10, 9),
        inside(50, 9, 10),
        switch(60, 70, State::Runnable, 80),
        switch(61, 80, State::Sleeping, 70),
        inside(70, 10, 9),
        Event { other: 80, object: 1, ..at(Kind::Wake, 100, 1, 0) },
        // It goes to another CPU while the agent still runs.
        Event { other: 80, position: 0, object: 1, ..at(Kind::Migrate, 140, 1, 0) },
        Event { other: 80, ..Event::new(Kind::Switch, 1, 140, 1, 0) },
    ];
    let usage = accounting(events, &names);
    let waited = usage.waited.iter().filter(|of| of.who == threads("web"));
    let waited: Vec<_> = waited.map(|of| (of.by.clone(), of.ns)).collect();
    assert_eq!(waited, [(ObjectGroup::Recorder, 30 + 40), (vcpus(), 10 + 10)]);
    assert_eq!(of(&usage, process("web")).wait_ns, 50 + 40);
}

/// Xen counts how long a vCPU was blocked, and not what it did for it before.
#[test]
fn what_xen_did_before_a_vcpu_was_blocked_is_its_exit() {
    let mut names = Names::default();
    let d1 = names.give("d1v0");
    let block = xen::Exit::Hypercall(xen::Hypercall { op: 29, command: Some(1) });
    let events = [
        Event { other: 70, object: 70, name: d1, ..at(Kind::Thread, 0, 0, 0) },
        switch(1, 0, State::Runnable, 70),
        at(Kind::VmEnter, 2, 0, 70),
        Event { code: block.code(), ..at(Kind::VmExit, 10, 0, 70) },
        switch(15, 70, State::Sleeping, 0),
        Event { other: 70, ..at(Kind::Wake, 40, 0, 0) },
        switch(41, 0, State::Runnable, 70),
        Event { bytes: 25, ..at(Kind::VmHalt, 41, 0, 70) },
        at(Kind::VmEnter, 43, 0, 70),
    ];
    let usage = accounting(events, &names);
    let exit = of(&usage, exits(ExitReason::Xen(block)));
    assert_eq!((exit.time_ns, exit.count), (5 + 2, 1));
    assert_eq!(of(&usage, vcpu()).wait_ns, 25);
}

#[test]
fn who_is_moved_to_another_cpu_has_waited_for_the_one_before() {
    let mut names = Names::default();
    let (hog, web) = (names.give("hog"), names.give("nginx"));
    let thread = |tid, name| Event { other: tid, object: tid.into(), name, ..at(Kind::Thread, 0, 0, 0) };
    let events = [
        thread(8, hog),
        thread(9, web),
        switch(1, 0, State::Runnable, 8),
        Event { other: 9, ..Event::new(Kind::Switch, 1, 2, 1, 0) },
        Event { code: State::Sleeping.code(), ..Event::new(Kind::Switch, 1, 5, 1, 9) },
        // Woken for CPU 0, where the other runs; 30 later it may go to CPU 1, which has to wake up.
        Event { other: 9, object: 1, ..at(Kind::Wake, 10, 1, 0) },
        Event { other: 9, position: 0, object: 1, ..at(Kind::Migrate, 40, 1, 0) },
        Event { other: 9, ..Event::new(Kind::Switch, 1, 44, 1, 0) },
    ];
    let usage = accounting(events, &names);
    let waited: Vec<_> = usage.waited.iter().map(|of| (of.who.clone(), of.by.clone(), of.ns)).collect();
    assert_eq!(waited, [(threads("nginx"), threads("hog"), 30)]);
    assert_eq!(of(&usage, process("nginx")).wait_ns, 34);
}

#[test]
fn the_list_of_threads_is_no_moment_of_the_trace() {
    let mut names = Names::default();
    let name = names.give("work");
    let events = [
        Event { other: 7, object: 7, name, ..at(Kind::Thread, 0, 0, 0) },
        switch(1_000_000, 0, State::Runnable, 7),
        switch(1_000_030, 7, State::Sleeping, 0),
    ];
    let usage = accounting(events, &names);
    assert_eq!((usage.span_ns, usage.spans["host"]), (30, 30));
    assert_eq!(of(&usage, process("work")).time_ns, 30);
}

#[test]
fn frames_wait_in_queueing_disciplines_each_for_itself_and_the_discipline_once() {
    let mut names = Names::default();
    let (tbf, tap) = (names.give("tbf"), names.give("vnet3"));
    let frame = |kind, time, key, name| Event { object: 3, other: key, name, ..at(kind, time, 0, 0) };
    let enqueue = |time, key| frame(Kind::QdiscEnqueue, time, key, tbf);
    let dequeue = |time, key| frame(Kind::QdiscDequeue, time, key, tap);
    let lost = Event { object: 5, position: 5, bytes: 1, ..at(Kind::Lost, 75, 0, 0) };
    let events = [
        enqueue(10, 1),
        enqueue(15, 2),
        dequeue(20, 1),
        dequeue(30, 2),
        // Not seen to go in.
        dequeue(40, 3),
        enqueue(60, 4),
        // Events were lost: that address may be another frame's by now.
        lost,
        dequeue(80, 4),
        enqueue(90, 5),
        dequeue(95, 5),
    ];
    let usage = accounting(events, &names);
    let held = of(&usage, UsageObject::Qdisc { kind: "tbf".into(), device: "vnet3".into() });
    assert_eq!((held.time_ns, held.count, held.wait_ns), (25, 3, 30));
}
