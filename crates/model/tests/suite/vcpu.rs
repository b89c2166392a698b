//! Guests' processors and the vCPUs that they are.

use xweave_model::{Cause, Guest, Machine, Outcome, Spec, ThreadId, TimeState, breakdown, explain, objects};
use xweave_trace::{
    Clock, Domain, DomainVm, Exit, Manifest, Processor, TimeSpan, Trace, Writer,
    event::{Event, Kind, Name, State},
};

use crate::notation;

/// CPU 3 of a guest of two sockets with three cores each. A thread there runs throughout; its vCPU, which is number 4 as
/// its APIC ID is, is out of the guest for half of the time.
fn explained(processors: Vec<Processor>, error_ns: u64) -> (Outcome, Vec<(String, i64)>) {
    let dir = tempfile::tempdir().unwrap();
    let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
    let vm = Some(DomainVm { host: "host".into(), pid: 50, cid: None });
    let domains = vec![domain("host", 1), Domain { vm, processors, ..domain("vm1", 2) }];
    let clock = |name: &str, error_ns| Clock { domain: name.into(), error_ns, ..Clock::default() };
    let clocks = vec![clock("host", 0), clock("vm1", error_ns)];
    let mut writer = Writer::create(dir.path(), Manifest { domains, clocks, ..Manifest::default() }).unwrap();
    let mut tell = |time, kind, domain, cpu, tid, with: &dyn Fn(&mut Event)| {
        let mut event = Event::new(kind, domain, time, cpu, tid);
        with(&mut event);
        writer.event(event).unwrap();
    };
    // vCPU 3, of CPU 2's neighbour or of none, does nothing; thread 53 is it, and 54 is vCPU 4.
    for (tid, vcpu) in [(53, 3), (54, 4)] {
        tell(0, Kind::Thread, 1, 0, 0, &|event| (event.other, event.object) = (tid, 50));
        tell(1, Kind::Switch, 1, tid, 0, &|event| event.other = tid);
        tell(2, Kind::VmEnter, 1, tid, tid, &|event| event.object = vcpu);
    }
    tell(10, Kind::VmExit, 1, 53, 53, &|event| event.object = 3);
    tell(11, Kind::Switch, 1, 53, 53, &|event| event.code = State::Sleeping.code());
    let begin = writer.name("begin");
    let end = writer.name("end");
    let mut tell = |time, kind, domain, cpu, tid, with: &dyn Fn(&mut Event)| {
        let mut event = Event::new(kind, domain, time, cpu, tid);
        with(&mut event);
        writer.event(event).unwrap();
    };
    tell(20_000, Kind::Switch, 2, 3, 0, &|event| event.other = 7);
    tell(20_001, Kind::Other, 2, 3, 7, &|event| event.name = begin);
    tell(30_001, Kind::VmExit, 1, 54, 54, &|event| event.object = 4);
    tell(40_001, Kind::VmEnter, 1, 54, 54, &|event| event.object = 4);
    tell(50_001, Kind::Other, 2, 3, 7, &|event| event.name = end);
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let mut parts = Vec::new();
    let outcome = explain(&trace, &"between:begin..end".parse::<Spec>().unwrap(), &mut |found, objects| {
        for step in found.steps {
            let what = format!("{} {}", objects.get(step.object).kind.name(), step.spent);
            parts.push((what, step.to - step.from));
        }
    });
    (outcome, parts)
}

fn processors(ids: &[(u32, u32)]) -> Vec<Processor> {
    ids.iter().map(|&(cpu, apic_id)| Processor { cpu, apic_id }).collect()
}

/// A thread of the host waits for a CPU that a vCPU has: first for a server in the guest, then for the agent that records it.
#[test]
fn who_waits_for_a_vcpu_that_runs_an_agent_waits_for_the_recorder() {
    let dir = tempfile::tempdir().unwrap();
    let vm = Some(DomainVm { host: "host".into(), pid: 50, cid: None });
    let host = Domain { name: "host".into(), number: 1, ..Domain::default() };
    let guest = Domain { name: "vm1".into(), number: 2, vm, recorders: vec![9], ..Domain::default() };
    let manifest = Manifest { domains: vec![host, guest], ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    let [begin, end, agent, server] = ["begin", "end", "xweave", "nginx"].map(|name| writer.name(name));
    let thread = |domain, tid: u32, process: u64, name| Event {
        other: tid,
        object: process,
        name,
        ..Event::new(Kind::Thread, domain, 0, 0, 0)
    };
    let switch = |domain, time, from, state: State, to| {
        let code = state.code();
        Event { other: to, code, ..Event::new(Kind::Switch, domain, time, 0, from) }
    };
    let (ready, asleep) = (State::Runnable, State::Sleeping);
    for event in [
        thread(1, 54, 50, Name::default()),
        thread(1, 8, 8, server),
        thread(2, 9, 9, agent),
        thread(2, 10, 10, server),
        switch(1, 10, 0, ready, 8),
        Event { name: begin, ..Event::new(Kind::Other, 1, 100, 0, 8) },
        switch(1, 100, 8, ready, 54),
        Event::new(Kind::VmEnter, 1, 101, 0, 54),
        switch(2, 102, 0, ready, 10),
        switch(2, 300, 10, ready, 9),
        switch(2, 900, 9, asleep, 10),
        Event::new(Kind::VmExit, 1, 1_000, 0, 54),
        switch(1, 1_100, 54, ready, 8),
        Event { name: end, ..Event::new(Kind::Other, 1, 1_200, 0, 8) },
    ] {
        writer.event(event).unwrap();
    }
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let mut steps = Vec::new();
    explain(&trace, &"between:begin..end".parse::<Spec>().unwrap(), &mut |found, objects| {
        let reason = |cause| format!("{:?}", objects.reason(cause));
        steps.extend(found.steps.iter().map(|step| (step.to - step.from, step.cause.map(reason))));
    });
    let vcpus = Some(r#"Had(Vcpus { guest: "vm1" })"#.to_owned());
    assert_eq!(
        steps,
        [(200, vcpus.clone()), (600, Some("Had(Recorder)".to_owned())), (200, vcpus), (100, None)]
    );
}

#[test]
fn a_guests_processor_is_the_vcpu_of_its_apic_id() {
    let (outcome, parts) = explained(processors(&[(0, 0), (1, 1), (2, 2), (3, 4), (4, 5), (5, 6)]), 100);
    let expected = [("thread running", 10_000), ("vcpu exit", 10_000), ("thread running", 10_000)];
    assert_eq!(parts, expected.map(|(what, ns)| (what.to_owned(), ns)));
    assert_eq!(outcome.outside, []);
}

#[test]
fn events_of_a_guest_whose_vcpu_is_outside_are_counted() {
    // Without APIC IDs, vCPU 3 is taken for it.
    let (outcome, _) = explained(Vec::new(), 100);
    let [(guest, check)] = &outcome.outside[..] else { panic!("{:?}", outcome.outside) };
    assert_eq!((guest.as_str(), check.outside, check.events), ("vm1", 2, 3));
    // Clocks that may be as far off as that say nothing.
    assert_eq!(explained(Vec::new(), 60_000).0.outside, []);
}

#[test]
fn an_interrupt_of_the_host_ends_the_time_inside_before_the_exit_is_told() {
    // AMD's KVM before 6.5 tells of the exit when interrupts are handled already.
    let mut machine = Machine::new(vec![Guest { domain: 2, host: 1, process: 50 }]);
    let host = |kind, time| Event::new(kind, 1, time, 3, 50);
    let interrupt = |kind, time| Event { object: 30, ..host(kind, time) };
    let events = [
        Event { other: 50, object: 50, ..Event::new(Kind::Thread, 1, 0, 0, 0) },
        Event { other: 50, ..Event::new(Kind::Switch, 1, 0, 3, 0) },
        host(Kind::VmEnter, 10),
        Event { other: 7, ..Event::new(Kind::Switch, 2, 20, 0, 0) },
        interrupt(Kind::IrqEnter, 100),
        interrupt(Kind::IrqExit, 400),
        interrupt(Kind::SoftirqEnter, 401),
        interrupt(Kind::SoftirqExit, 500),
        Event { code: 0x7b, ..host(Kind::VmExit, 505) },
        host(Kind::VmEnter, 600),
        host(Kind::VmExit, 700),
    ];
    events.iter().for_each(|event| machine.feed(event));
    let pieces = breakdown(&machine, ThreadId { domain: 2, tid: 7 }, 20, 700);
    let told: Vec<_> = pieces.iter().map(|piece| (piece.spent, piece.to - piece.from)).collect();
    // The interrupt and the softirq, which are told as such, and what KVM does between and behind them.
    let exits = [300, 1, 99, 100].map(|ns| (TimeState::Exit, ns));
    let all = [&[(TimeState::Running, 80)], &exits[..], &[(TimeState::Running, 100)]].concat();
    assert_eq!(told, all);
    let because = |cause| {
        pieces.iter().filter(move |piece| piece.cause == Some(cause)).map(|piece| piece.to - piece.from)
    };
    assert_eq!(because(Cause::Interrupted).collect::<Vec<_>>(), [300, 99]);
    // Why it came out, though that was told later.
    assert_eq!(because(Cause::Exited(0x7b)).collect::<Vec<_>>(), [1, 100]);
}

/// On one CPU of the host, a vCPU makes way for another one, for a vhost thread of its guest, and for some other thread.
#[test]
fn who_had_the_processor_is_called_as_users_know_it() {
    let dir = tempfile::tempdir().unwrap();
    let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
    let vm = Some(DomainVm { host: "host".into(), pid: 50, cid: None });
    let domains = vec![domain("host", 1), Domain { vm, ..domain("vm1", 2) }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let [qemu, vhost, stranger] = ["qemu-system-x86", "vhost-50", "vhost-51"].map(|name| writer.name(name));
    let [begin, end] = ["begin", "end"].map(|name| writer.name(name));
    let mut tell = |time, kind, domain, tid, with: &dyn Fn(&mut Event)| {
        let mut event = Event::new(kind, domain, time, 0, tid);
        with(&mut event);
        writer.event(event).unwrap();
    };
    for (tid, process, name) in [(53, 50, qemu), (54, 50, qemu), (60, 50, vhost), (70, 70, stranger)] {
        tell(0, Kind::Thread, 1, 0, &|event| (event.other, event.object, event.name) = (tid, process, name));
    }
    let runnable = State::Runnable.code();
    tell(1, Kind::Switch, 1, 0, &|event| event.other = 54);
    tell(2, Kind::VmEnter, 1, 54, &|event| event.object = 1);
    tell(3, Kind::VmExit, 1, 54, &|event| event.object = 1);
    tell(4, Kind::Switch, 1, 54, &|event| (event.other, event.code) = (53, State::Sleeping.code()));
    tell(5, Kind::VmEnter, 1, 53, &|event| event.object = 0);
    tell(10, Kind::Switch, 2, 0, &|event| event.other = 7);
    tell(11, Kind::Other, 2, 7, &|event| event.name = begin);
    for (nth, other) in [54, 60, 70].into_iter().enumerate() {
        let time = 1_000 * (1 + i64::try_from(nth).unwrap());
        tell(time, Kind::VmExit, 1, 53, &|event| event.object = 0);
        tell(time + 1, Kind::Switch, 1, 53, &|event| (event.other, event.code) = (other, runnable));
        tell(time + 501, Kind::Switch, 1, other, &|event| {
            (event.other, event.code) = (53, State::Sleeping.code());
        });
        tell(time + 502, Kind::VmEnter, 1, 53, &|event| event.object = 0);
    }
    tell(9_000, Kind::Other, 2, 7, &|event| event.name = end);
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let mut told = Vec::new();
    explain(&trace, &"between:begin..end".parse::<Spec>().unwrap(), &mut |found, objects| {
        let causes = found.steps.iter().filter_map(|step| step.cause);
        // Between its exit and the switch, the host worked for it.
        let had = causes.filter_map(|cause| match cause {
            objects::Cause::Had(other) => Some(objects.get(other)),
            _ => None,
        });
        told.extend(had.map(|other| (notation::object(other), notation::group(&other.group))));
    });
    let expected =
        [("vCPU 1 of vm1", "vCPUs of vm1"), ("vhost of vm1/60", "vhost of vm1"), ("vhost-51/70", "vhost-51")];
    assert_eq!(told, expected.map(|(one, such)| (one.to_owned(), such.to_owned())));
    // So are those whose time it is: vCPU 0 is the transaction's own thread.
    let mut own = Vec::new();
    explain(&trace, &"between:vm_exit..vm_enter".parse::<Spec>().unwrap(), &mut |found, objects| {
        own.extend(found.steps.iter().map(|step| notation::object(objects.get(step.object))));
    });
    own.dedup();
    assert_eq!(own, ["vCPU 0 of vm1"]);
}

/// Kinds of objects with what they did, and for how long.
type Parts = Vec<(String, i64)>;

/// A guest's thread runs throughout. Its vCPU comes out of the guest amid that and is made to leave its CPU, of which the host's last
/// event tells; how the host's part of the recording ended is told in the manifest. The guest's last event is that much later.
fn after_the_host(exit: Option<Exit>, later: i64) -> (Parts, Vec<(String, Option<TimeSpan>)>) {
    let dir = tempfile::tempdir().unwrap();
    let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
    let vm = Some(DomainVm { host: "host".into(), pid: 50, cid: None });
    let domains = vec![Domain { exit, ..domain("host", 1) }, Domain { vm, ..domain("vm1", 2) }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let [begin, end] = ["begin", "end"].map(|name| writer.name(name));
    let mut tell = |time, kind, domain, tid, with: &dyn Fn(&mut Event)| {
        let mut event = Event::new(kind, domain, time, 0, tid);
        with(&mut event);
        writer.event(event).unwrap();
    };
    tell(0, Kind::Thread, 1, 0, &|event| (event.other, event.object) = (53, 50));
    tell(1, Kind::Switch, 1, 0, &|event| event.other = 53);
    tell(2, Kind::VmEnter, 1, 53, &|_| ());
    tell(100, Kind::Switch, 2, 0, &|event| event.other = 7);
    tell(100, Kind::Other, 2, 7, &|event| event.name = begin);
    tell(200, Kind::VmExit, 1, 53, &|_| ());
    tell(200, Kind::Switch, 1, 53, &|event| event.other = 60);
    tell(200 + later, Kind::Other, 2, 7, &|event| event.name = end);
    writer.finish().unwrap();
    let mut parts = Vec::new();
    let trace = Trace::open(dir.path()).unwrap();
    let outcome = explain(&trace, &"between:begin..end".parse::<Spec>().unwrap(), &mut |found, objects| {
        for step in found.steps {
            let what = format!("{} {}", objects.get(step.object).kind.name(), step.spent);
            parts.push((what, step.to - step.from));
        }
    });
    (parts, outcome.lost.into_iter().map(|loss| (loss.domain, loss.ended)).collect())
}

#[test]
fn nothing_is_known_of_a_vcpu_once_its_host_is_recorded_no_more() {
    let parts =
        |parts: &[(&str, i64)]| parts.iter().map(|(part, ns)| (part.to_string(), *ns)).collect::<Parts>();
    let preempted = parts(&[("thread running", 100), ("vcpu preempted", 500)]);
    assert_eq!(after_the_host(Some(Exit::Stopped), 500), (preempted.clone(), Vec::new()));
    let unknown =
        |later: i64| parts(&[("thread running", 100), ("vcpu preempted", 1), ("vcpu unknown", later - 1)]);
    let ended = |later: i64| vec![("host".to_owned(), Some(TimeSpan { from: 201, to: 201 + later }))];
    let lost = Exit::Lost { reason: "it went away".into() };
    assert_eq!(after_the_host(Some(lost), 500), (unknown(500), ended(500)));
    // How it ended is not known of an import. For a moment there may have been nothing to tell.
    assert_eq!(after_the_host(None, 500), (preempted, Vec::new()));
    assert_eq!(after_the_host(None, 2_000_000_000), (unknown(2_000_000_000), ended(2_000_000_000)));
}
