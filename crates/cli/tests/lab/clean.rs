//! However a part ends, the kernels are left clean and what was recorded is readable.

use crate::world::{AGENT, DOMAINS, World};

/// What every packet passes. Few places: an emulated host takes half a second for each, and how many there are does not
/// matter to what is tested with it.
pub const PACKETS: &str = "-e 'execution(__dev_queue_xmit, __netif_receive_skb_core%) { STORE_DATA1(1); }'";

pub fn wait_until_written(world: &World, trace: &str) {
    world.until("host", &format!("ls {trace}/records/*.parquet"));
}

/// No hook and no program of xweave's is left in a domain.
pub fn assert_clean(world: &World, domain: &str) {
    // Detaching is the kernel's work and takes it a moment after the descriptors are closed.
    world.until(domain, "! grep -q direct /sys/kernel/tracing/enabled_functions");
    world.until(domain, "test -z \"$(cat /sys/kernel/debug/kprobes/list)\"");
    if domain == "host" {
        world.until(domain, "! bpftool prog list | grep -q -e xweave -e ' name p[0-9]'");
    }
}

pub fn assert_woven(world: &World, domain: &str) {
    world.run(domain, "grep -q direct /sys/kernel/tracing/enabled_functions");
}

/// The trace can be read, has records, and says that it is not whole.
fn assert_readable(world: &World, trace: &str, complete: bool) {
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("trace");
    world.pull("host", trace, &local);
    let report = world.flows(&local);
    assert!(report["summary"]["records"].as_u64() > Some(0), "{}", report["summary"]);
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(local.join("trace.json")).unwrap()).unwrap();
    assert_eq!(manifest["complete"], complete, "{manifest}");
}

#[test]
fn a_killed_controller_leaves_nothing_woven() {
    let Some(world) = World::find("killed controller") else { return };
    let recording = world.record(&format!("{PACKETS} {DOMAINS} -o /tmp/killed1"));
    let load = world.traffic(200);
    wait_until_written(&world, "/tmp/killed1");
    for domain in ["host", "vm1", "vm2"] {
        assert_woven(&world, domain);
    }
    world.kill("host", "xweave record");
    recording.finish();
    for domain in ["host", "vm1", "vm2"] {
        assert_clean(&world, domain);
    }
    drop(load);
    assert_readable(&world, "/tmp/killed1", false);
}

/// Ends a domain's part in a recording, in the middle of it: that domain is left clean, the others go
/// on and are left clean at the end, and the recording says which domain was lost.
fn assert_others_go_on(world: &World, trace: &str, lost: &str, end: impl FnOnce()) {
    let recording = world.record(&format!("{PACKETS} {DOMAINS} -o {trace}"));
    let load = world.traffic(200);
    wait_until_written(world, trace);
    end();
    assert_clean(world, lost);
    assert_woven(world, "vm1");
    let (status, log) = recording.finish();
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains(&format!("domain {lost} was lost")), "{log}");
    for domain in ["host", "vm1", "vm2"].into_iter().filter(|domain| *domain != lost) {
        assert_clean(world, domain);
    }
    drop(load);
    assert_readable(world, trace, true);
}

#[test]
fn a_killed_host_agent_is_told_and_the_guests_go_on() {
    let Some(world) = World::find("killed host agent") else { return };
    assert_others_go_on(&world, "/tmp/killed2", "host", || world.kill("host", AGENT));
}

#[test]
fn a_killed_guest_agent_is_told_and_the_others_go_on() {
    let Some(world) = World::find("killed guest agent") else { return };
    assert_others_go_on(&world, "/tmp/killed3", "vm2", || world.kill("vm2", AGENT));
}

#[test]
#[ignore = "minutes: make lab-test"]
fn the_reset_of_a_guest_is_told_and_the_others_go_on() {
    let Some(world) = World::find("reset guest") else { return };
    assert_others_go_on(&world, "/tmp/reset", "vm2", || world.reset("vm2"));
    // And it can be recorded again.
    let recording = world.record(&format!("{PACKETS} {DOMAINS} -o /tmp/again"));
    world.run("vm1", "ping -c 1 10.77.0.2");
    recording.finish_well();
}

#[test]
fn settings_that_a_killed_agent_left_are_put_back() {
    let Some(world) = World::find("settings put back") else { return };
    let settings = "cat /proc/sys/debug/kprobes-optimization /sys/kernel/rcu_expedited";
    let before = world.run("host", settings);
    let recording = world.start(
        "host",
        "exec xweave record -e 'execution(tcp_%) { STORE_DATA1(1); }' -o /tmp/killed4 --force --duration 1s",
    );
    world.run("host", "until test -e /run/xweave/settings; do sleep 0.02; done");
    world.kill("host", AGENT);
    let (status, log) = recording.finish();
    assert_ne!(status, Some(0), "{log}");
    world.run("host", "xweave doctor");
    assert_eq!(world.run("host", settings), before);
    world.run("host", "test ! -e /run/xweave/settings");
    assert_clean(&world, "host");
}
