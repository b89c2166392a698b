//! Programs that were compiled when xweave was built, or by another machine: a host without a compiler records the same.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use serde_json::Value;
use xweave_synthetic::unknown;

use crate::{
    crossing::{witness, witnessed},
    world::{DOMAINS, Running, World},
};

/// As if there were no compiler.
const NO_COMPILER: &str = "XWEAVE_CLANG=/nonexistent";

/// How many packets each sender sends; each has a size of its own.
const SENT: usize = 20;

/// Begins a recording in the host with a cache of its own, which is empty: how long that takes until all is woven.
fn record_cold(world: &World, name: &str, environment: &str, arguments: &str) -> (Running, Duration) {
    let since = Instant::now();
    let mut running = world.start(
        "host",
        &format!(
            "rm -rf /tmp/cold-{name}; export XWEAVE_CACHE=/tmp/cold-{name} {environment}
            exec xweave record {arguments} {DOMAINS} --force -o /tmp/{name} -- \
                sh -c 'echo all is woven >&2; exec cat'"
        ),
    );
    running.wait_for("all is woven");
    (running, since.elapsed())
}

/// The flows of a trace in the host: where each came by in each domain, and what was stored there, with how many are alike.
/// In which order two domains come is not compared: each recording relates their clocks anew, with an error.
fn flows(world: &World, name: &str) -> (BTreeMap<String, usize>, Value) {
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", &format!("/tmp/{name}"), &dir.path().join("trace"));
    let report = world.flows(&dir.path().join("trace"));
    let mut found = BTreeMap::new();
    for flow in report["flows"].as_array().unwrap() {
        let mut hops = BTreeMap::<&str, Vec<String>>::new();
        for hop in flow["hops"].as_array().unwrap() {
            let [domain, kind, function] =
                ["domain", "kind", "function"].map(|key| hop[key].as_str().unwrap());
            hops.entry(domain).or_default().push(format!("{function}.{kind}{}", hop["values"]));
        }
        *found.entry(format!("{} {}: {hops:?}", flow["name"], flow["complete"])).or_default() += 1;
    }
    (found, report["summary"].clone())
}

#[test]
#[ignore = "minutes: make lab-test"]
fn a_host_without_a_compiler_records_the_same_flows_and_begins_sooner() {
    let Some(world) = World::find("no compiler") else { return };
    let events = "virtio-net --where icmp --events sched,block,net,vm";
    let cold = |name: &str, environment, option| {
        let (recording, time) = record_cold(&world, name, environment, &format!("{events} {option}"));
        recording.finish_well();
        (time, world.try_run("host", &format!("ls /tmp/cold-{name}/advice/*")).status.success())
    };
    let (slow, is_compiled) = cold("compiled-here", "", "--compile-here");
    let (fast, is_compiled_too) = cold("built-in", NO_COMPILER, "");
    let times = slow.as_secs_f64() / fast.as_secs_f64();
    println!("all woven after {fast:.1?}; compiled here, {slow:.1?}: {times:.2} times as long");
    assert!(is_compiled && !is_compiled_too);

    // Both at once, of the same packets.
    let begin = |name, environment, option| {
        record_cold(&world, name, environment, &format!("virtio-net --where icmp {option}")).0
    };
    let here = begin("compiled-here", "", "--compile-here");
    let built_in = begin("built-in", NO_COMPILER, "");
    for (from, to) in [("host", "10.77.0.1"), ("host", "10.77.0.2"), ("vm1", "10.77.0.2")] {
        let sizes = format!("size=100; while [ $size -lt {} ]", 100 + SENT);
        world.run(
            from,
            &format!(
                "{sizes}; do ping -c 1 -W 60 -s $size {to} >/dev/null || exit; size=$((size + 1)); done"
            ),
        );
    }
    built_in.finish_well();
    here.finish_well();

    let (compiled, summary) = flows(&world, "compiled-here");
    let (found, of_built_in) = flows(&world, "built-in");
    for summary in [&summary, &of_built_in] {
        assert_eq!(summary["lost"], 0, "{summary}");
        // An echo and its answer are a flow each; some answers end where no socket wants them, and the bridge may flood.
        let flows = summary["flows"].as_u64().unwrap();
        assert!(flows >= 2 * 3 * SENT as u64, "{summary}");
        let ended = [&summary["complete"], &summary["incomplete"]["dropped"]].map(|of| of.as_u64().unwrap());
        assert_eq!(ended.iter().sum::<u64>(), flows, "{summary}");
    }
    println!("{} flows, {} of them different", found.values().sum::<usize>(), found.len());
    let differs = |(flow, count): &(&String, &usize)| compiled.get(*flow) != Some(*count);
    let only: Vec<_> = found.iter().filter(differs).collect();
    let differs = |(flow, count): &(&String, &usize)| found.get(*flow) != Some(*count);
    let missing: Vec<_> = compiled.iter().filter(differs).collect();
    assert!(
        only.is_empty() && missing.is_empty(),
        "only built in: {only:#?}; only compiled here: {missing:#?}"
    );
    assert!(fast < slow, "{fast:?} until all was woven, and {slow:?} compiled here");
}

/// Of a guest whose type information has another name for a member, and lacks a function.
#[test]
fn a_kernel_that_nobody_prepared_for_is_recorded_in_part_or_refused_with_what_it_lacks() {
    const TYPES: &str = "/sys/kernel/btf/vmlinux";
    let Some(world) = World::find("unknown kernel") else { return };
    let dir = tempfile::tempdir().unwrap();
    world.run("vm1", &format!("cp {TYPES} /tmp/types"));
    world.pull("vm1", "/tmp/types", &dir.path().join("types"));
    let mut types = fs::read(dir.path().join("types")).unwrap();
    ["bi_sector", "ip_send_skb"].iter().for_each(|name| unknown::rename(&mut types, name));
    fs::write(dir.path().join("types"), types).unwrap();
    world.push("vm1", &dir.path().join("types"), "/tmp/");
    world.run("vm1", &format!("mount --bind /tmp/types {TYPES}"));

    let record = |what: &str| {
        world.try_run(
            "host",
            &format!(
                "rm -rf /tmp/unknown; own=$(command -v xweave); export XWEAVE_CACHE=/tmp/cold-unknown PATH=/nonexistent
                exec $own record {what} --domain vm1=vsock:3 -o /tmp/unknown --duration 1s"
            ),
        )
    };
    let refused = record("block");
    let in_part = record("--events net,sched");
    world.run("vm1", &format!("umount {TYPES}; rm /tmp/types"));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("has no member `bi_iter.bi_sector`"), "{said}");
    assert!(world.try_run("host", "ls /tmp/unknown/trace.json").status.success(), "the other is recorded");
    let said = String::from_utf8_lossy(&in_part.stderr);
    let expected =
        "note: vm1: events send are recorded without those of ip_send_skb: the kernel has no such function";
    assert!(in_part.status.success() && said.contains(expected), "{said}");
    assert_eq!(said.matches("are recorded without").count(), 1, "{said}");
}

#[test]
fn what_another_machine_compiled_is_recorded_without_a_compiler() {
    let Some(world) = World::find("bundle") else { return };
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("witness.aspect"),
        witness("execution(__dev_queue_xmit@guest) AND xflow(packet, skb)"),
    )
    .unwrap();
    for domain in ["host", "vm1"] {
        world.run(domain, "cp -r /sys/kernel/btf /tmp/types");
        world.pull(domain, "/tmp/types", &dir.path().join(domain));
        world.run(domain, "rm -r /tmp/types");
    }
    let mut check = world.xweave();
    check.current_dir(dir.path()).args(["check", "virtio-net", "witness.aspect"]);
    check.args(["--domain", "host=host", "--domain", "vm1=vm1", "--domain", "vm2=vm1"]);
    let output = check.args(["--compile", "own.programs"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.push("host", &dir.path().join("own.programs"), "/tmp/");
    let (recording, _) = record_cold(&world, "bundle", NO_COMPILER, "/tmp/own.programs");
    let receiver =
        world.start("vm2", "exec xweave lab load udp-recv --port 9031 --count 50 --idle-timeout 20");
    world.until("vm2", "grep -q :2347 /proc/net/udp");
    world.run("vm1", "xweave lab load udp-send --to 10.77.0.2:9031 --count 50 --rate 50");
    receiver.finish();
    recording.finish_well();
    world.pull("host", "/tmp/bundle", &dir.path().join("trace"));
    let report = world.flows(&dir.path().join("trace"));
    let mut numbers: Vec<u64> =
        report["flows"].as_array().unwrap().iter().flat_map(|flow| witnessed(flow).0).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<u64>>(), "{}", report["summary"]);

    // Changed on its way, it is no bundle that anybody runs.
    let damaged =
        "head -c 2000 /tmp/own.programs >/tmp/half.programs; xweave record /tmp/half.programs -o /tmp/half";
    let output = world.try_run("host", damaged);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
