//! Virtual machines that only their host tells of, and what a trace has to be asked for.

use xweave_model::{Census, ExitReason, ObjectGroup, Usage, UsageObject, guests::Guests};
use xweave_trace::{
    Domain, DomainVm, Manifest, Trace, VmName, Writer,
    event::{Event, Kind, State},
};

/// A host with the recorded guest vm1 (process 50) and these others.
fn recorded(others: &[(u32, &str)], events: &[(Event, &str)]) -> (tempfile::TempDir, Trace) {
    let dir = tempfile::tempdir().unwrap();
    let vm = |(pid, name): (u32, &str)| VmName { pid, name: name.into() };
    let vms = [(50, "vm1")].iter().chain(others).map(|named| vm(*named)).collect();
    let host = Domain { name: "host".into(), number: 1, vms, ..Domain::default() };
    let vm = Some(DomainVm { host: "host".into(), pid: 50, cid: None });
    let guest = Domain { name: "vm1".into(), number: 2, vm, ..Domain::default() };
    let manifest = Manifest { domains: vec![host, guest], ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    for (event, name) in events {
        let name = writer.name(name);
        writer.event(Event { name, ..*event }).unwrap();
    }
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    (dir, trace)
}

#[test]
fn machines_that_were_not_recorded_have_their_own_names_and_numbers() {
    let others = [(60, "web1"), (61, ""), (62, "twice"), (63, "twice"), (64, "host")];
    let (_dir, trace) = recorded(&others, &[]);
    let guests = Guests::of(&trace);
    let mut named: Vec<_> =
        guests.all.iter().map(|guest| (guest.process, guests.names[&guest.domain].as_str())).collect();
    named.sort_unstable();
    assert_eq!(
        named,
        [(50, "vm1"), (60, "web1"), (61, "VM 61"), (62, "twice/62"), (63, "twice/63"), (64, "host/64")]
    );
    let numbers: std::collections::BTreeSet<_> = guests.all.iter().map(|guest| guest.domain).collect();
    assert_eq!((numbers.len(), numbers.contains(&1)), (6, false));
    assert!(guests.all.iter().all(|guest| guests.hosts[&guest.domain] == "host"));
}

#[test]
fn a_host_with_more_machines_than_numbers_names_as_many_as_there_are() {
    let others: Vec<_> = (100..500).map(|pid| (pid, "")).collect();
    let (_dir, trace) = recorded(&others, &[]);
    assert_eq!(Guests::of(&trace).all.len(), 254);
}

#[test]
fn vcpus_of_such_a_machine_are_called_by_its_name() {
    let thread = |tid, process| Event { other: tid, object: process, ..Event::new(Kind::Thread, 1, 0, 0, 0) };
    let events = [
        (thread(60, 60), "qemu-system-x86"),
        (thread(61, 60), "CPU 0/KVM"),
        (Event { other: 61, ..Event::new(Kind::Switch, 1, 10, 0, 0) }, ""),
        (Event::new(Kind::VmEnter, 1, 20, 0, 61), ""),
        (Event { code: 0x78, ..Event::new(Kind::VmExit, 1, 120, 0, 61) }, ""),
        (Event::new(Kind::VmEnter, 1, 125, 0, 61), ""),
        (Event { code: State::Sleeping.code(), ..Event::new(Kind::Switch, 1, 125, 0, 61) }, ""),
    ];
    let (_dir, trace) = recorded(&[(60, "web1")], &events);
    let usage = Usage::of(&trace);
    let time = |object: UsageObject| {
        let found = usage.objects.iter().find(|(key, _)| key.object == object);
        found.map(|(_, figures)| figures.time_ns)
    };
    let vcpus = || ObjectGroup::Vcpus { guest: "web1".into() };
    assert_eq!(time(UsageObject::Process(vcpus())), Some(115), "{:?}", usage.objects);
    assert_eq!(time(UsageObject::Vcpu { number: 0, of: vcpus() }), Some(100));
    assert_eq!(time(UsageObject::Exits { reason: ExitReason::Halt, of: vcpus() }), Some(5));
}

#[test]
fn threads_are_listed_where_there_is_nothing_else_to_ask_for() {
    let fork = Event { other: 71, object: 70, ..Event::new(Kind::Fork, 1, 10, 0, 70) };
    let events = [(fork, "pool-1"), (Event::new(Kind::Exit, 1, 50, 0, 71), "")];
    let (_dir, trace) = recorded(&[], &events);
    assert_eq!(Census::of(&trace).transactions, [("thread:pool-1".to_owned(), Some(1))]);
}
