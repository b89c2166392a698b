//! Questions of a platform engineer, each answered by one command, as the documents say (docs/explain.md, docs/start.md).

use serde_json::Value;

use crate::world::{DOMAINS, World};

const MIB: u64 = 1 << 20;

#[test]
#[ignore = "minutes: make lab-test"]
fn whose_vcpu_took_whose_time_who_writes_to_which_disk_how_long_to_the_softirq_and_in_each_tap_s_queue() {
    let Some(world) = World::find("questions") else { return };
    let load = world.traffic(200);
    let recording =
        world.record(&format!("virtio-net --events sched,block,net,vm {DOMAINS} -o /tmp/questions --json"));
    // Past the page cache: on a slow machine kworker writes back for dd before it ends.
    world.run("vm1", "dd if=/dev/zero of=/dev/vda bs=64k count=64 oflag=direct conv=fsync");
    world.run("vm2", "for i in 1 2 3 4 5 6 7 8; do head -c 200000 /dev/urandom | md5sum; done");
    recording.finish_well();
    drop(load);
    let told = |command: &str| -> Value {
        serde_json::from_str(&world.run("host", &format!("xweave {command} --json"))).unwrap()
    };

    let machines = told("explain /tmp/questions --machines");
    let of_kind = |kind: &str, domain: &str| -> Vec<&Value> {
        let objects = machines["objects"].as_array().unwrap().iter();
        objects.filter(|object| object["kind"] == kind && object["domain"] == domain).collect()
    };
    let vcpus = of_kind("vcpu", "host");
    for guest in ["vm1", "vm2"] {
        let runs = |of: &&Value| of["object"].as_str().unwrap().ends_with(&format!(" of {guest}"));
        let inside: u64 = vcpus.iter().filter(|of| runs(of)).map(|of| of["time_ns"].as_u64().unwrap()).sum();
        assert!(inside > 0, "{guest}: {vcpus:?}");
        // The host has one CPU.
        let waited = machines["waited"].as_array().unwrap().iter().filter(|waited| {
            waited["domain"] == "host" && waited["object"] == format!("vCPUs of {guest}").as_str()
        });
        let other = if guest == "vm1" { "vCPUs of vm2" } else { "vCPUs of vm1" };
        assert!(waited.clone().any(|waited| waited["by"] == other), "{:?}", waited.collect::<Vec<_>>());
    }
    let written = |domain: &str, who: &str| -> u64 {
        let users = of_kind("disk_user", domain).into_iter();
        let users = users.filter(|of| of["object"].as_str().unwrap().starts_with(who));
        users.map(|of| of["written_bytes"].as_u64().unwrap()).sum()
    };
    assert!(written("vm1", "dd on disk vda") >= 4 * MIB, "{:?}", of_kind("disk_user", "vm1"));
    assert!(written("host", "qemu-system-x86 of vm1 on ") > 0, "{:?}", of_kind("disk_user", "host"));

    let softirqs = told("explain /tmp/questions --transaction between:vm_inject@host..softirq_enter@vm1");
    let softirqs = softirqs["transactions"].as_array().unwrap();
    assert!(softirqs.len() > 10, "{}", softirqs.len());
    for transaction in softirqs {
        let parts = transaction["parts"].as_array().unwrap().iter();
        let sum: u64 = parts.map(|part| part["ns"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), transaction["total_ns"].as_u64());
    }

    let queues = told("flows /tmp/questions --by ifindex");
    let places: Vec<&str> =
        queues["groups"].as_array().unwrap().iter().filter_map(|group| group["place"].as_str()).collect();
    assert!(places.contains(&"queue of vm2's tap"), "{queues}");
    world.run("host", "rm -r /tmp/questions");
}
