//! Nothing is lost silently.

use std::path::Path;
use std::time::Instant;

use crate::world::{AGENT, DOMAINS, PATIENCE, World};

const SENT: u64 = 10_000;

#[test]
fn a_buffer_too_small_loses_exactly_what_it_says() {
    let Some(world) = World::find("loss") else { return };
    let recording = world.record(&format!("virtio-net {DOMAINS} --buffer 4096 -o /tmp/loss --json"));
    // Somebody must listen: a refused datagram makes the sender try again.
    let receiver =
        world.start("vm2", "exec xweave lab load udp-recv --port 9001 --count 10000 --idle-timeout 20");
    world.until("vm2", "grep -q :2329 /proc/net/udp");
    world.run(
        "vm1",
        &format!("xweave lab load udp-send --to 10.77.0.2:9001 --count {SENT} --rate 5000 --senders 2"),
    );
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
    let recording = world.record(&format!("virtio-net {DOMAINS} --buffer 4096 -o /tmp/loss-of-lost"));
    let load = world.traffic(5000);
    let deadline = Instant::now() + PATIENCE;
    while dropped(&world, "/tmp/loss-of-lost", "vm1") == 0 {
        assert!(Instant::now() < deadline, "a buffer of one page never overflowed in vm1");
    }
    world.kill("vm1", AGENT);
    drop(load);
    let (status, log) = recording.finish();
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("domain vm1 was lost"), "{log}");
    assert!(dropped(&world, "/tmp/loss-of-lost", "vm1") > 0);
}

/// How many records a domain's sites have dropped, as a trace in the host says.
fn dropped(world: &World, trace: &str, domain: &str) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("trace");
    world.pull("host", trace, &local);
    let sites = world.flows(&local)["sites"].clone();
    let of_domain = |loss: &&serde_json::Value| {
        sites.as_array().unwrap().iter().any(|s| s["site"] == loss["site"] && s["domain"] == domain)
    };
    let manifest = manifest(&local);
    let losses = manifest["loss"]["sites"].as_array().unwrap();
    losses.iter().filter(of_domain).map(|loss| loss["dropped"].as_u64().unwrap()).sum()
}

fn manifest(trace: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(trace.join("trace.json")).unwrap()).unwrap()
}

fn sum(rows: &serde_json::Value, key: &str) -> u64 {
    rows.as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum()
}
