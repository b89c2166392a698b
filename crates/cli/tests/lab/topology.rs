//! Guests that are built otherwise than the lab's: whose processors are numbered otherwise than the host numbers their
//! vCPUs, and whose network device is none of virtio's.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{rebuilt::Rebuilt, world::World};

/// Two sockets of three cores: their APIC IDs, by which KVM numbers vCPUs, leave one out.
#[test]
#[ignore = "minutes: make lab-test"]
fn processors_of_two_sockets_of_three_cores_are_the_vcpus_that_they_are() {
    let Some(world) = World::find("sockets and cores") else { return };
    // No kernel sees what goes through a device that QEMU emulates; that of virtio's is joined by what frames say, and
    // no other is (the guest has no driver for this one).
    let _rebuilt = Rebuilt::new(
        &world,
        "s/-smp [^ ]* /-smp 6,sockets=2,cores=3,threads=1 /; s/vhost=on/vhost=off/; s/virtio-net-pci,/e1000,/; s/,mq=on,vectors=[^,]*//",
    );
    let log = world.record("virtio-net --domain vm2=vsock:4 -o /tmp/emulated").finish_well();
    assert!(
        log.contains("note: vm2: its network device is emulated by its own process, and none of virtio"),
        "{log}"
    );

    let recording = world.record("--events sched,vm --domain vm2=vsock:4 -o /tmp/topology");
    world.run(
        "vm2",
        "for cpu in 0 1 2 3 4 5; do
             busybox taskset $((1 << cpu)) sh -c 'i=0; while [ $i -lt 300 ]; do i=$((i+1)); done'
         done",
    );
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    world.pull("host", "/tmp/topology", &trace);
    let manifest: Value = serde_json::from_slice(&std::fs::read(trace.join("trace.json")).unwrap()).unwrap();
    let domains = manifest["domains"].as_array().unwrap();
    let guest = domains.iter().find(|domain| domain["name"] == "vm2").unwrap();
    let apic = |processor: &Value| processor["apic_id"].as_u64().unwrap();
    let ids: BTreeSet<u64> = guest["processors"].as_array().unwrap().iter().map(apic).collect();
    assert_eq!(ids, BTreeSet::from([0, 1, 2, 4, 5, 6]), "{guest}");

    let document = world.explain("/tmp/topology", "process:sh");
    // None of what a processor did was done while its vCPU was outside the guest: that of another one would have been.
    let events = |key: &str| {
        let of_guest = document["summary"]["outside"].as_array().unwrap().iter();
        of_guest.filter(|of| of["domain"] == "vm2").map(|of| of[key].as_u64().unwrap()).sum::<u64>()
    };
    assert!(events("outside") * 100 <= events("events"), "{}", document["summary"]["outside"]);
}
