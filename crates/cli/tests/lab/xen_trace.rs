//! What Xen itself records, and what `import` makes of it.

use std::collections::BTreeMap;

use serde_json::Value;
use xweave_flow::{FlowPlace, flow_place::Carrier};
use xweave_model::{Spec, Stretch, TimeState, explain};
use xweave_trace::{
    Event, Trace, XENTRACE,
    event::Kind,
    xen::{Exit, Hypercall},
};

use crate::{world::World, xen_net::DOMAINS};

/// The number behind a name in what `xl` prints.
fn number(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit([' ', ':']).next().unwrap().parse().unwrap()
}

/// A guest that spins has a CPU, or waits for one, all the time that Xen records, and Xen counts as much of its time.
#[test]
fn what_xen_records_of_a_guest_is_what_it_ran() {
    let Some(world) = World::as_it_is("xen: its own records") else { return };
    let mut spins = world
        .start("dom0", "exec xweave lab enter vm1 -- timeout 60 sh -c 'echo it spins; while :; do :; done'");
    spins.wait_for("it spins");
    let ran = |said: &str| said.split_whitespace().last().unwrap().parse::<f64>().unwrap();
    let said = world.run(
        "dom0",
        "xl list vm1 | tail -1; xentrace -D -e all -T 3 /tmp/spins.xt 2>/dev/null; xl list vm1 | tail -1",
    );
    let seconds: Vec<f64> = said.lines().map(ran).collect();
    let domid: u32 = world.run("dom0", "xl domid vm1").trim().parse().unwrap();
    let hz = 1e6 * number(&world.run("dom0", "xl info"), "cpu_mhz");

    let scratch = tempfile::tempdir().unwrap();
    let (file, dir) = (scratch.path().join("spins.xt"), scratch.path().join("trace"));
    world.pull("dom0", "/tmp/spins.xt", &file);
    let import = world.xweave().arg("import").arg(&file).arg("-o").arg(&dir).output().unwrap();
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    let trace = Trace::open(&dir).unwrap();
    let xen = &trace.manifest().domains[0];
    #[expect(clippy::cast_precision_loss, reason = "far below 2⁵³")]
    let told = xen.tsc_hz as f64;
    assert!((told / hz - 1.0).abs() < 1e-3, "{told} Hz, and Xen says {hz}");
    let name = format!("d{domid}");
    assert!(xen.vms.iter().any(|vm| vm.name == name), "{:?}", xen.vms);

    let explained = world.xweave().args(["explain", "--machines", "--json"]).arg(&dir).output().unwrap();
    let document: Value = serde_json::from_slice(&explained.stdout).unwrap();
    let objects = document["objects"].as_array().unwrap();
    let of = |kind: &str, object: String, what: &str| {
        let mine = objects.iter().filter(|of| of["kind"] == kind && of["object"] == object.as_str());
        mine.map(|of| of[what].as_f64().unwrap()).sum::<f64>() / 1e9
    };
    let vcpus = format!("vCPUs of {name}");
    let (had, waited) = (of("process", vcpus.clone(), "time_ns"), of("process", vcpus, "wait_ns"));
    let span = document["span_ns"].as_f64().unwrap() / 1e9;
    assert!(span > 1.0 && had + waited > 0.9 * span, "{had} and {waited} of {span}");
    // `xl list` counts tenths of seconds, and was asked before and after.
    assert!(had < seconds[1] - seconds[0] + 0.2, "{had} s, and Xen counts {seconds:?}");
    drop(spins);
}

/// Where a guest notifies dom0, and where dom0 hears of it.
const NOTIFIED: &str = "advice notify execution(notify_remote_via_irq@guest) { STORE_DATA1(irq); }
                        advice handler execution(xenvif_tx_interrupt@dom0) { STORE_DATA1(irq); }";

/// Datagrams that are sent.
const COUNT: u64 = 100;

/// What happened in a domain when, by what is recorded of it.
struct Times(BTreeMap<(String, u8), Vec<i64>>);

impl Times {
    fn of(trace: &Trace) -> Self {
        let mut times: BTreeMap<_, Vec<i64>> = BTreeMap::new();
        for row in trace.rows().0 {
            let function = trace.site(row.site).unwrap().function.clone();
            times.entry((function, row.domain)).or_default().push(row.time_ns);
        }
        times.values_mut().for_each(|times| times.sort_unstable());
        Self(times)
    }

    fn within(&self, function: &str, domain: u8, from: i64, to: i64) -> &[i64] {
        let all = self.0.get(&(function.to_owned(), domain)).map(Vec::as_slice).unwrap_or_default();
        &all[all.partition_point(|time| *time < from)..all.partition_point(|time| *time <= to)]
    }
}

/// A frame goes onto a guest's ring, the guest notifies dom0, and some time later dom0 hears of it: Xen's own events say
/// where dom0's vCPU was in between.
#[test]
#[ignore = "minutes: make lab-test"]
fn what_xen_did_is_most_of_the_time_from_a_notification_to_its_handler() {
    let Some(world) = World::as_it_is("xen: from a notification to its handler") else { return };
    world.write("dom0", "notified.aspect", NOTIFIED);
    let recording = world.record_in(
        "dom0",
        &format!("xen-net notified.aspect --events sched --xen {DOMAINS} -o /tmp/notified"),
    );
    for (guest, port) in [("vm1", 9401), ("vm2", 9402)] {
        let receiver = world.start(
            "dom0",
            &format!("exec xweave lab load udp-recv --port {port} --count {COUNT} --idle-timeout 100"),
        );
        world.until("dom0", &format!("grep -qi :{port:04x} /proc/net/udp"));
        let send = "xweave lab load udp-send --rate 50 --size 64";
        world.run(guest, &format!("{send} --count {COUNT} --to 10.77.0.254:{port}"));
        receiver.finish_well();
    }
    println!("{}", recording.finish_well());

    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("trace");
    world.pull("dom0", "/tmp/notified", &dir);
    assert!(!dir.join(XENTRACE).exists(), "it is part of the trace");
    let trace = Trace::open(&dir).unwrap();
    let hosts: Vec<_> =
        trace.manifest().domains.iter().map(|of| (&*of.name, of.vm.as_ref().map(|vm| &*vm.host))).collect();
    let xens = Some("xen");
    assert_eq!(hosts, [("dom0", xens), ("vm1", xens), ("vm2", xens), ("xen", None)]);
    let [dom0, xen] = ["dom0", "xen"].map(|name| trace.domain_number(name).unwrap());

    // When guests asked Xen to notify somebody.
    let notifies = Exit::Hypercall(Hypercall { op: Hypercall::EVTCHN_OP, command: None }).code();
    let of_xen = trace.events().filter(|event| event.domain == xen && event.kind == Kind::VmExit);
    let asked: Vec<Event> = of_xen.filter(|event| event.code == notifies).collect();
    let process = |domain: u8| trace.domain(domain).unwrap().vm.as_ref().unwrap().pid;
    let times = Times::of(&trace);
    let (mut gaps, mut unasked, mut darkest) = (0, 0, Vec::new());
    let mut spent: BTreeMap<TimeState, i64> = BTreeMap::new();
    let outcome = explain(&trace, &"flow:packet".parse::<Spec>().unwrap(), &mut |found, _| {
        let mut from = found.start_ns;
        for passed in &found.segments {
            let to = passed.until_ns;
            let from_guest = match &passed.stretch {
                Stretch::Way(place) => match place.flow_place() {
                    Some(FlowPlace::Carrier { carrier: Carrier::Ring, from, to }) if to == "dom0" => {
                        Some(from)
                    }
                    _ => None,
                },
                _ => None,
            };
            let guest = from_guest.and_then(|guest| trace.domain_number(guest));
            let since = std::mem::replace(&mut from, to);
            let Some(guest) = guest else { continue };
            let notified = times.within("notify_remote_via_irq", guest, since, to).first();
            let handled = times.within("xenvif_tx_interrupt", dom0, since, to).last();
            let (Some(&notified), Some(&handled)) = (notified, handled) else { continue };
            if handled <= notified {
                continue;
            }
            gaps += 1;
            let between = |event: &&Event| (notified..handled).contains(&event.time_ns);
            let its_own = asked.iter().filter(between).any(|event| event.tid == process(guest));
            unasked += u64::from(!its_own);
            let mut of_gap = Vec::new();
            for step in &found.steps {
                let ns = step.to.min(handled) - step.from.max(notified);
                *spent.entry(step.spent).or_default() += ns.max(0);
                if ns > 0 {
                    of_gap.push((step.spent, ns));
                }
            }
            let told = |of: &[(TimeState, i64)]| {
                of.iter().filter(|(spent, _)| *spent != TimeState::Waiting).map(|(_, ns)| -ns).sum::<i64>()
                    + of.iter().map(|(_, ns)| ns).sum::<i64>()
            };
            if told(&of_gap) > told(&darkest) {
                darkest = of_gap;
            }
        }
    });
    println!("of which least is told: {darkest:?}");
    println!("{gaps} gaps, {unasked} unasked: {spent:?}; {:?}", outcome.lost);
    assert!(gaps >= COUNT, "{gaps}");
    // One that is not asked for in time is one that Xen lost the record of.
    assert!(
        unasked <= gaps / 50,
        "{unasked} of {gaps} notifications are none of Xen's between the two times"
    );
    assert!(outcome.outside.is_empty(), "{:?}", outcome.outside);
    let sum = |states: &[TimeState]| states.iter().filter_map(|state| spent.get(state)).sum::<i64>() as f64;
    let all = spent.values().sum::<i64>() as f64;
    let of_xen = sum(&[TimeState::Preempted, TimeState::Halted, TimeState::Exit]) / all;
    let known = 1.0 - sum(&[TimeState::Waiting, TimeState::Unknown]) / all;
    println!("{:.1} % of the time is Xen's, {:.1} % is explained", 100.0 * of_xen, 100.0 * known);
    assert!(of_xen > 0.85 && known > 0.95, "{of_xen}, {known}: {spent:?}");
}

/// Whatever becomes of the agent, Xen records no longer than it does: killed alone, or, as one that is cut off, with its group.
#[test]
fn an_agent_that_is_killed_leaves_nothing_that_records() {
    let Some(world) = World::as_it_is("xen: a killed agent") else { return };
    for (name, whom) in [("alone", ""), ("group", "-")] {
        let trace = format!("/tmp/killed-{name}");
        let arguments = "--events sched --xen --domain dom0=local";
        let recording = world.record_in("dom0", &format!("{arguments} -o {trace}"));
        let tracer = world.run("dom0", "pidof xentrace");
        // Xen's buffers have one reader.
        let (status, said) =
            world.start("dom0", &format!("exec xweave record {arguments} -o /tmp/other")).finish();
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains(&format!("process {} is xentrace", tracer.trim())), "{said}");
        let agent = format!("$(awk '/^PPid/{{print $2}}' /proc/{}/status)", tracer.trim());
        world.run("dom0", &format!("kill -KILL {whom}{agent}"));
        let (status, said) = recording.finish();
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("domain dom0 was lost while recording"), "{said}");
        world.until("dom0", "! pidof xentrace");
        // Nor does Xen go on by itself: what it had no room for is told as soon as there is some.
        world.run("dom0", "sleep 1; xentrace -D -e all -T 1 /tmp/after.xt 2>/dev/null");
        let after = world.run("dom0", "xweave import /tmp/after.xt -o /tmp/after --force --json");
        let after: Value = serde_json::from_str(&after).unwrap();
        assert!(after["lost"] == 0 && after["events"].as_u64().unwrap() > 100, "{name}: {after}");
        // What came until then is in the trace, and dom0 has its vCPU though no guest was recorded.
        let told = world.run("dom0", &format!("xweave explain --machines {trace}"));
        assert!(told.contains("vCPUs of dom0"), "{told}");
    }
}

/// Xen calls a guest's vCPUs by the numbers that the guest's kernel has for its CPUs.
#[test]
#[ignore = "minutes: make lab-test"]
fn the_vcpus_of_a_guest_are_its_cpus() {
    let Some(world) = World::as_it_is("xen: two vCPUs") else { return };
    let start = "(grep -v ^vcpus /run/lab/vm1/config; echo 'vcpus = 2') >/tmp/two && xl destroy vm1 && \
                 xl create /tmp/two";
    world.run("dom0", start);
    world.until("vm1", "test \"$(nproc)\" = 2");
    let vm1 = "--domain dom0=local --domain vm1='xweave lab enter vm1 -- xweave agent --stdio'";
    let recording = world.record_in("dom0", &format!("--events sched --xen {vm1} -o /tmp/two-vcpus"));
    for cpu in 0..2 {
        world.run("vm1", &format!("taskset -c {cpu} timeout 2 sh -c 'while :; do :; done'; true"));
    }
    recording.finish_well();
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("trace");
    world.pull("dom0", "/tmp/two-vcpus", &dir);
    world.reset("vm1");
    let trace = Trace::open(&dir).unwrap();
    let [vm1, xen] = ["vm1", "xen"].map(|name| trace.domain_number(name).unwrap());
    let process = trace.domain(vm1).unwrap().vm.as_ref().unwrap().pid;

    // The thread of the domain `xen` that has the machine's CPU when something happens on one of the guest's.
    let (mut has, mut by_cpu) = (0, BTreeMap::new());
    for event in trace.events() {
        match event.kind {
            Kind::Switch if event.domain == xen => has = event.other,
            Kind::Switch | Kind::Wake if event.domain == vm1 => {
                let of: &mut BTreeMap<u32, u64> = by_cpu.entry(event.cpu).or_default();
                *of.entry(has).or_default() += 1;
            }
            _ => {}
        }
    }
    println!("{by_cpu:?}, of {process}");
    for cpu in 0..2 {
        let of = &by_cpu[&cpu];
        let all: u64 = of.values().sum();
        let its_own = of.get(&(process + cpu)).copied().unwrap_or(0);
        assert!(all > 50 && its_own * 100 >= all * 99, "CPU {cpu}: {of:?}, of {process}");
    }
    let outcome = explain(&trace, &"between:wake..switch@vm1".parse::<Spec>().unwrap(), &mut |_, _| {});
    assert!(outcome.outside.is_empty(), "{:?}", outcome.outside);
}
