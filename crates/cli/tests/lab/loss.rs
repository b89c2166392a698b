//! Nothing is lost silently.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::{
    clean::PACKETS,
    world::{AGENT, DOMAINS, PATIENCE, World, for_each},
};

const SENT: u64 = 10_000;

#[test]
#[ignore = "minutes: make lab-test"]
fn a_buffer_too_small_loses_exactly_what_it_says() {
    let Some(world) = World::find("loss") else { return };
    let recording = world.record(&format!("virtio-net {DOMAINS} --buffer 4096 -o /tmp/loss --json"));
    // Somebody must listen: a refused datagram makes the sender try again.
    let receiver =
        world.start("vm2", "exec xweave lab load udp-recv --port 9001 --count 10000 --idle-timeout 20");
    world.until("vm2", "grep -q :2329 /proc/net/udp");
    world.send_half_unread(9001, SENT);
    drop(receiver);
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    world.pull("host", "/tmp/loss", &trace);
    let report = world.flows(&trace);
    let manifest = manifest(&trace);

    // Every datagram begins a flow at udp_sendmsg in vm1, once: what is not there was lost there.
    let site = report["sites"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["domain"] == "vm1" && s["function"] == "udp_sendmsg" && s["action"] == "start")
        .unwrap();
    let recorded = site["records"].as_u64().unwrap();
    let lost = manifest["loss"]["sites"]
        .as_array()
        .unwrap()
        .iter()
        .find(|loss| loss["site"] == site["site"])
        .map_or(0, |loss| loss["dropped"].as_u64().unwrap() + loss["missed"].as_u64().unwrap());
    assert!(lost > 0, "a buffer of one page must overflow");
    assert_eq!(recorded + lost, SENT, "recorded {recorded}, lost {lost}");

    // And the flows say so: each lost record that belonged to a flow is told of one.
    let dropped: u64 = sum(&manifest["loss"]["sites"], "dropped");
    let told: u64 = sum(&manifest["loss"]["flows"], "records");
    let unattributed = manifest["loss"]["unattributed"].as_u64().unwrap();
    assert_eq!(told + unattributed, dropped, "{}", manifest["loss"]);
    let lossy = report["flows"].as_array().unwrap().iter().filter(|f| f["lost"].as_u64() > Some(0));
    let complete_and_lossy = lossy.clone().filter(|flow| flow["complete"] == true).count();
    assert!(lossy.count() > 0);
    assert_eq!(complete_and_lossy, 0, "a flow with a gap is not complete");
    assert_eq!(report["summary"]["lost"].as_u64(), manifest["lost"].as_u64());
}

#[test]
fn what_a_lost_domain_had_lost_stays_known() {
    let Some(world) = World::find("losses of a lost domain") else { return };
    let recording = world.record(&format!("{PACKETS} {DOMAINS} --buffer 4096 -o /tmp/loss-of-lost"));
    let load = world.traffic(5000);
    let sites: Value =
        serde_json::from_str(&world.run("host", "xweave flows /tmp/loss-of-lost --json --limit 0")).unwrap();
    let of_vm1 = |loss: &&Value| {
        let sites = sites["sites"].as_array().unwrap();
        sites.iter().any(|s| s["site"] == loss["site"] && s["domain"] == "vm1")
    };
    // The manifest is replaced as a whole, once a second.
    let dropped = || -> u64 {
        let manifest: Value =
            serde_json::from_str(&world.run("host", "cat /tmp/loss-of-lost/trace.json")).unwrap();
        let losses = manifest["loss"]["sites"].as_array().unwrap();
        losses.iter().filter(of_vm1).map(|loss| loss["dropped"].as_u64().unwrap()).sum()
    };
    let deadline = Instant::now() + PATIENCE;
    while dropped() == 0 {
        world.while_nobody_reads("vm1", || drop(world.run("vm1", "sleep 1")));
        assert!(Instant::now() < deadline, "a buffer of one page never overflowed in vm1");
    }
    world.kill("vm1", AGENT);
    drop(load);
    let (status, log) = recording.finish();
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("domain vm1 was lost"), "{log}");
    assert!(dropped() > 0);
}

fn manifest(trace: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(trace.join("trace.json")).unwrap()).unwrap()
}

fn sum(rows: &Value, key: &str) -> u64 {
    rows.as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum()
}

/// An interrupt comes while advice runs, and calls the same function: the kernel leaves the program out, and the spare
/// records in its place.
#[test]
fn what_the_kernel_leaves_out_the_spare_records() {
    let Some(world) = World::find("spares") else { return };
    let load = world.traffic(1000);
    let advice = "'execution(kfree, kmem_cache_free) { STORE_DATA1(1); }'";
    let recording = world.record(&format!("-e {advice} --buffer 64M -o /tmp/spares --json"));
    // What the kernel has counted of the agent's programs.
    let left_out = || -> u64 {
        let all = for_each(AGENT, r#"cat "$process"/fdinfo/*"#);
        let count = format!("{all} | awk '/^recursion_misses/ {{ sum += $2 }} END {{ print sum + 0 }}'");
        world.run("host", &count).trim().parse().unwrap()
    };
    let deadline = Instant::now() + PATIENCE;
    while left_out() < 10 {
        assert!(Instant::now() < deadline, "no program was interrupted by itself");
    }
    let counted = left_out();
    recording.finish_well();
    drop(load);
    let manifest: Value =
        serde_json::from_str(&world.run("host", "cat /tmp/spares/trace.json && rm -r /tmp/spares")).unwrap();
    let missed = sum(&manifest["loss"]["sites"], "missed");
    // Both may be interrupted, which is rarer.
    assert!(missed * 2 < counted, "{missed} of {counted} were recorded by nobody");
}
