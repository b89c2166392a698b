//! What objects did in a whole trace, of a simulated machine, through the trace's folder.

use std::{collections::BTreeMap, path::Path};

use xweave_model::{
    Comparison, Usage, UsageKind,
    comparison::{ChangeKind, Finding},
    usage::Figures,
};
use xweave_synthetic::{Config, Simulation};
use xweave_trace::{
    Domain, DomainVm, Event, Manifest, Trace, Writer,
    event::{Kind, State},
};

/// Writes what a machine tells into a folder, and gives its events.
fn written(dir: &Path, config: &Config) -> Vec<Event> {
    let mut world = Simulation::new(config);
    let events: Vec<_> = world.by_ref().collect();
    let mut manifest = Manifest { reference: "host".into(), ..Manifest::default() };
    manifest.domains.push(Domain { name: "host".into(), number: 1, ..Domain::default() });
    for (number, process) in world.guests() {
        let pid = u32::try_from(process).unwrap();
        let vm = Some(DomainVm { host: "host".into(), pid, cid: None });
        manifest.domains.push(Domain { name: format!("vm{number}"), number, vm, ..Domain::default() });
    }
    let mut writer = Writer::create(dir, manifest).unwrap();
    for event in &events {
        let name = writer.name(world.names().text(event.name));
        writer.event(Event { name, ..*event }).unwrap();
    }
    writer.finish().unwrap();
    events
}

fn usage(dir: &Path) -> Usage {
    Usage::of(&Trace::open(dir).unwrap())
}

/// The sums of a kind, by domain.
fn sums(usage: &Usage, kind: UsageKind) -> BTreeMap<String, Figures> {
    let mut sums: BTreeMap<String, Figures> = BTreeMap::new();
    for (key, figures) in usage.objects.iter().filter(|(key, _)| key.kind() == kind) {
        let sum = sums.entry(key.domain.clone()).or_default();
        sum.time_ns += figures.time_ns;
        sum.count += figures.count;
        sum.bytes += figures.bytes;
        sum.wait_ns += figures.wait_ns;
    }
    sums
}

#[test]
fn figures_sum_to_what_the_events_tell() {
    let dir = tempfile::tempdir().unwrap();
    let events = written(&dir.path().join("a"), &Config { transactions: 1_500, ..Config::virtualized(5) });
    let usage = usage(&dir.path().join("a"));
    assert_eq!(usage.events, events.len() as u64);
    // No manifest says which groups were recorded: those of which there are events.
    let groups: Vec<_> = usage.recorded["host"].iter().copied().collect();
    assert_eq!(groups, ["block", "net", "sched", "vm"]);
    let count = |domain: u8, kind: Kind| {
        events.iter().filter(|event| event.domain == domain && event.kind == kind).count() as u64
    };
    let given = |domain: u8| {
        events.iter().filter(|e| e.domain == domain && e.kind == Kind::Switch && e.other != 0).count() as u64
    };
    let (disks, uses) = (sums(&usage, UsageKind::Disk), sums(&usage, UsageKind::DiskUser));
    let (processes, interrupts) = (sums(&usage, UsageKind::Process), sums(&usage, UsageKind::Interrupt));
    for (name, number) in [("host", 1), ("vm2", 2), ("vm3", 3)] {
        let ran = processes[name].time_ns;
        assert_eq!(processes[name].count, given(number));
        assert_eq!(usage.busy[name].values().sum::<u64>(), ran);
        let states = usage.states[name];
        assert_eq!((states.running_ns, states.ready_ns), (ran, processes[name].wait_ns));
        // Who left a CPU was ready, waited, or ended.
        let left = |kind: State| {
            let of = |event: &&Event| event.domain == number && event.kind == Kind::Switch && event.tid != 0;
            events.iter().filter(of).filter(|event| State::of(event.code) == kind).count() as u64
        };
        assert_eq!((states.preempted, states.ended), (left(State::Runnable), left(State::Dead)));
        let all =
            events.iter().filter(|e| e.domain == number && e.kind == Kind::Switch && e.tid != 0).count();
        assert_eq!(states.preempted + states.blocked + states.ended, all as u64);
        assert!(states.dispatched > 0 && states.dispatched <= given(number));
        assert!(states.dispatched <= states.woken + states.preempted + states.began);
        assert!(states.woken > 0 && states.woken <= states.blocked + 64, "{states:?}");
        assert!(ran > 0 && ran <= u64::from(usage.cpus[name]) * usage.span_ns);
        assert_eq!(disks[name].count, count(number, Kind::DiskIssue));
        // What was not done at the end counts for the disk, and for nobody yet.
        let left = count(number, Kind::DiskIssue) - count(number, Kind::DiskComplete);
        assert_eq!(disks[name].count, uses[name].count + left);
        assert!(
            uses[name].time_ns <= disks[name].time_ns && uses[name].time_ns * 100 > disks[name].time_ns * 95
        );
        let ended = count(number, Kind::IrqExit) + count(number, Kind::SoftirqExit);
        assert_eq!(interrupts[name].count, ended);
    }
    assert_eq!(usage.vms().len(), 2);
    for (domain, of) in usage.vms() {
        let (states, span) = (usage.vcpu_states(domain, of), usage.spans[domain]);
        let left = (states.vcpus * span).checked_sub(states.total_ns());
        // The rest is before its first event, while QEMU had it, and what its thread ran beside a halt.
        assert!(left.is_some_and(|left| left * 4 < span), "{of:?}: {states:?} in {span}");
    }
    let (vcpus, exits) = (sums(&usage, UsageKind::Vcpu), sums(&usage, UsageKind::Exit));
    assert_eq!((vcpus["host"].count, exits["host"].count), (count(1, Kind::VmExit), count(1, Kind::VmExit)));
    let halted = events.iter().filter(|event| event.kind == Kind::VmHalt).map(|event| event.bytes);
    // KVM counts what a woken vCPU waits for a CPU, too.
    assert!(vcpus["host"].wait_ns < halted.sum::<u64>());
}

#[test]
fn a_trace_differs_in_nothing_from_itself_and_in_what_changed_from_another() {
    let dir = tempfile::tempdir().unwrap();
    let (few, many) = (dir.path().join("few"), dir.path().join("many"));
    let config = Config { transactions: 1_000, others: 0, ..Config::single(6) };
    written(&few, &config);
    written(&many, &Config { others: 5, ..config });
    let (few, many) = (usage(&few), usage(&many));
    assert_eq!(Comparison::of(&few, &few).findings, []);
    let compared = Comparison::of(&few, &many);
    let found = compared.findings;
    let difference = compared.difference_ns;
    assert!(difference > 0, "{difference}");
    assert!(found.iter().all(|f| (0..=difference).contains(&f.explained_ns)), "{found:#?}");
    // Five threads more that take processors from the others.
    let is = |f: &Finding, name: &str| f.object.first().group().is_some_and(|of| of.is_named(name));
    let has = |kind, name| found.iter().any(|f| f.change() == kind && is(f, name));
    assert!(has(ChangeKind::Processor, "other") && has(ChangeKind::RunQueue, "client"), "{found:#?}");
    let back = Comparison::of(&many, &few).findings;
    assert!(back.iter().any(|f| is(f, "client") && f.changed_ns < 0), "{back:#?}");
}
