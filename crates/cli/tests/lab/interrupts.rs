//! Interrupts from the host's KVM to the threads that they wake in a guest, judged by what /proc/interrupts counts there.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::world::{DOMAINS, World, assert_sound, hops};

/// For how long no interrupt comes where all that was sent has come.
const QUIET: Duration = Duration::from_secs(1);
/// How often that is waited for at most.
const LONGEST: u32 = 60;

/// Datagrams from vm1 to vm2.
const COUNT: u64 = 1000;

/// Interrupts by their line and CPU: those of virtio-net, which are for nothing but the test's load.
type Counts = BTreeMap<(u64, u64), u64>;

/// What a guest has counted until now.
fn counted(world: &World, guest: &str) -> Counts {
    let table = world.run(guest, "cat /proc/interrupts");
    let lines =
        table.lines().filter(|line| line.contains("virtio0-input") || line.contains("virtio0-output"));
    let counts = lines.flat_map(|line| {
        let (number, rest) = line.trim().split_once(':').unwrap();
        let by_cpu: Vec<u64> = rest.split_whitespace().map_while(|count| count.parse().ok()).collect();
        (0..).zip(by_cpu).map(|(cpu, count)| ((number.parse().unwrap(), cpu), count)).collect::<Vec<_>>()
    });
    counts.collect()
}

/// Has CPUs of this mask take a guest's interrupts of what it receives.
fn to_cpus(world: &World, guest: &str, mask: u8) {
    let each = "for line in $(sed -n 's/^ *\\([0-9]*\\):.*virtio0-input.*/\\1/p' /proc/interrupts)";
    world.run(guest, &format!("{each}; do echo {mask} >/proc/irq/$line/smp_affinity; done"));
}

/// What a hop of this function stored.
fn stored(flow: &Value, domain: &str, function: &str, kind: &str) -> Option<Vec<u64>> {
    let hop = hops(flow, domain, kind).into_iter().find(|hop| hop["function"] == function)?;
    Some(hop["values"].as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).collect())
}

/// One that was followed from the host to the CPU of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crossed {
    vector: u64,
    line: u64,
    cpu: u64,
}

impl Crossed {
    /// None if it did not cross, or is handled by nobody.
    fn of(flow: &Value, guest: &str, qemu: u64) -> Option<Self> {
        let asked = stored(flow, "host", "__apic_accept_irq", "hop")?;
        let taken = hops(flow, guest, "xout").first()?["cpu"].as_u64().unwrap();
        // Equal vectors of equal vCPUs of different guests are told apart by who runs them.
        let given = hops(flow, "host", "xin")[0]["values"][3].as_u64().unwrap();
        assert_eq!((asked[1], given), (taken, qemu), "another CPU, or another guest: {flow}");
        let line = stored(flow, guest, "irq_handler_entry", "hop")?[0];
        Some(Self { vector: asked[0], line, cpu: taken })
    }
}

#[test]
fn an_interrupt_is_followed_from_kvm_to_the_thread_that_it_wakes_and_as_many_as_the_guest_counts() {
    let Some(world) = World::with_two_cpus("interrupts") else { return };
    let guests = ["vm1", "vm2"];
    let counts = || guests.map(|guest| counted(&world, guest));
    // The first vector of a CPU is a device's, too.
    to_cpus(&world, "vm2", 2);
    let receive = "exec xweave lab load udp-recv --port 9050 --count 100000 --idle-timeout 300";
    let receiver = world.start("vm2", receive);
    let find = "grep -l port.9050 /proc/[0-9]*/cmdline | cut -d/ -f3 | grep .";
    world.until("vm2", find);
    let receiving: BTreeSet<u64> =
        world.run("vm2", find).lines().filter_map(|line| line.parse().ok()).collect();
    let outer = counts();
    let recording = world.record(&format!("interrupt {DOMAINS} -o /tmp/interrupts"));
    let inner = counts();
    world.run("vm1", &format!("xweave lab load udp-send --to 10.77.0.2:9050 --count {COUNT} --rate 200"));
    drop(receiver);
    // On a busy machine, what was sent is still on its way: what comes after the host has ended is joined with nothing.
    let mut inner_end = counts();
    for _ in 0..LONGEST {
        thread::sleep(QUIET);
        if std::mem::replace(&mut inner_end, counts()) == inner_end {
            break;
        }
    }
    recording.finish_well();
    let outer_end = counts();
    let qemu = guests.map(|guest| -> u64 {
        world.run("host", &format!("cat /run/lab/{guest}/pid")).trim().parse().unwrap()
    });
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/interrupts", &dir.path().join("trace"));
    let told = world.run("host", "xweave flows /tmp/interrupts");
    world.run("host", "rm -r /tmp/interrupts");
    let report = world.flows(&dir.path().join("trace"));
    println!("{told}\n{}", report["summary"]);
    assert_sound(&report);

    let flows = report["flows"].as_array().unwrap();
    let mut vectors = Vec::new();
    for (at, guest) in guests.into_iter().enumerate() {
        // Taken by the guest, whether or not the host's side is known.
        let mut taken = Counts::new();
        let (mut joined, mut crossed) = (Counts::new(), BTreeSet::new());
        for flow in flows {
            let Some(line) = stored(flow, guest, "irq_handler_entry", "hop") else { continue };
            let cpu = hops(flow, guest, "xout")[0]["cpu"].as_u64().unwrap();
            *taken.entry((line[0], cpu)).or_default() += 1;
            if let Some(whole) = Crossed::of(flow, guest, qemu[at]) {
                *joined.entry((whole.line, whole.cpu)).or_default() += 1;
                crossed.insert(whole);
            }
        }
        let mut all = (0, 0);
        for (of, &end) in &inner_end[at] {
            let seen = taken.get(of).copied().unwrap_or(0);
            let least = end - inner[at][of];
            let most = outer_end[at][of] - outer[at][of];
            assert!((least..=most).contains(&seen), "{guest}, {of:?}: {seen} of {least} to {most}");
            all = (all.0 + joined.get(of).copied().unwrap_or(0), all.1 + seen);
        }
        println!("{guest}: {} of {} interrupts of virtio-net joined", all.0, all.1);
        assert!(all.1 >= 10 && all.0 * 100 >= all.1 * 95, "{guest}: {} of {}", all.0, all.1);
        // A line has one vector on a CPU.
        for line in inner_end[at].keys() {
            let of_line = crossed.iter().filter(|one| (one.line, one.cpu) == *line).count();
            assert!(of_line <= 1, "{guest}, {line:?}: {of_line} vectors");
        }
        assert!(guest != "vm2" || crossed.iter().any(|one| one.cpu == 1), "vm2's are on CPU 1: {crossed:?}");
        vectors.push(crossed.iter().map(|one| (one.vector, one.cpu)).collect::<BTreeSet<_>>());
    }
    to_cpus(&world, "vm2", 3);
    // Which vectors kernels give their lines depends on what else asked for some meanwhile.
    if vectors[0].is_disjoint(&vectors[1]) {
        println!("\nSKIPPED: that guests are told apart where both use a vector of a vCPU: {vectors:?}");
    }

    // One is asked for once, and what is asked for meanwhile is counted.
    let asked = flows.iter().flat_map(|flow| hops(flow, "host", "hop"));
    let (merged, begun): (Vec<&Value>, Vec<&Value>) =
        asked.filter(|hop| hop["function"] == "__apic_accept_irq").partition(|hop| hop["values"][2] == 1);
    let starts = flows.iter().map(|flow| hops(flow, "host", "start").len()).sum::<usize>();
    println!("{} asked for, {} while the one before was pending", begun.len() + merged.len(), merged.len());
    assert!(begun.iter().all(|hop| hop["values"][2] == 0) && begun.len() == starts && !merged.is_empty());

    // NET_RX is softirq 3.
    let woke = flows.iter().filter(|flow| {
        let softirq = stored(flow, "vm2", "softirq_entry", "hop");
        let whom = hops(flow, "vm2", "hop").into_iter().filter(|hop| hop["function"] == "sched_waking");
        flow["complete"] == true
            && softirq.is_some_and(|softirq| softirq[0] == 3)
            && whom.into_iter().any(|hop| receiving.contains(&hop["values"][0].as_u64().unwrap()))
            && hops(flow, "vm2", "quit").iter().any(|hop| hop["function"] == "sched_switch")
    });
    let woke = woke.count();
    println!("{woke} to the thread that receives");
    assert!(woke >= 5, "{woke}");

    let places: Vec<(&str, &str)> = report["places"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|place| place["kind"] == "interrupt, host → vm2")
        .map(|place| (place["domain"].as_str().unwrap(), place["place"].as_str().unwrap()))
        .collect();
    for place in [
        ("host", "pending for the vCPU"),
        ("vm2", "interrupt host→vm2"),
        ("vm2", "hard interrupt"),
        ("vm2", "softirq pending"),
        ("vm2", "softirq"),
        ("vm2", "run queue"),
    ] {
        assert!(places.contains(&place), "{place:?}: {places:?}");
    }
}
