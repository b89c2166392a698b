//! Memory that is held for what guests write to of what is merged is there when they do, and when memory gets short.

use serde_json::Value;

use crate::{
    clean::assert_clean,
    merge::{GUESTS, RELEASE, hashes, written},
    world::World,
};

#[test]
#[ignore = "minutes: make lab-test"]
fn what_is_held_in_reserve_is_let_go_for_what_guests_write_to_and_when_memory_gets_short() {
    const MERGING: &str = "xweave merge --every 2s --reserve";
    let Some(world) = World::find("merge") else { return };
    for guest in ["vm1", "vm2"] {
        world.run(guest, &format!("rm -rf /held; mkdir /held; {}", written("/held/file", 2000, "h")));
    }
    let files = hashes(&world, "vm2");
    let qemus = world.run("host", "cat /run/lab/vm1/pid /run/lab/vm2/pid; pgrep -c qemu");
    let mut merging = world.start(
        "host",
        &format!("echo $$ >/run/merging; exec {MERGING} 50% {GUESTS} --include /held --allow inject --json"),
    );
    // KiB: half of the 2,000 pages that are given back.
    let holds = |kib: u64| format!("grep -q '^VmLck:[[:space:]]*{kib} kB' /proc/$(cat /run/merging)/status");
    merging.wait_for("; 3.9 MiB of 3.9 MiB held in reserve");
    world.run("host", &holds(4000));
    assert_eq!(world.run("host", "cat /proc/$(cat /run/merging)/oom_score_adj"), "1000\n");

    // 600 pages are the guest's own again: so much is let go. Half of what is left is wanted when it is through.
    world.run("vm1", "dd if=/dev/zero of=/held/file bs=4096 count=600 conv=notrunc");
    world.until("host", &holds(1600));
    world.until("host", &holds(2800));

    // Somebody takes what is available, until there is little.
    let begun = "mkdir /tmp/short; mount -t tmpfs -o size=3G none /tmp/short";
    let available = "sed -n 's/^MemAvailable: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo";
    let takes =
        format!("while [ $({available}) -gt 81920 ]; do head -c 16M /dev/zero >>/tmp/short/taken; done");
    world.run("host", &format!("{begun}; {takes}"));
    merging.wait_for("memory is short: the 2.7 MiB held in reserve are let go");
    world.run("host", &holds(0));
    assert_ne!(world.run("host", "cat /proc/$(cat /run/merging)/oom_score_adj"), "1000\n");
    merging.wait_for_another("; 0 B of 2.7 MiB held in reserve");
    // As long as that lasts, and for a while after that, none is held.
    world.run("host", "umount /tmp/short; rmdir /tmp/short");
    merging.wait_for_another("; 0 B of 2.7 MiB held in reserve");
    world.until("host", &holds(2800));
    assert_eq!(world.run("host", "cat /run/lab/vm1/pid /run/lab/vm2/pid; pgrep -c qemu"), qemus);
    assert_eq!(hashes(&world, "vm2"), files);

    // And there is plenty, but somebody waits for memory: at the limit of a group.
    let group = "/sys/fs/cgroup/waits";
    let waits = format!(
        "echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir {group}; echo 16M >{group}/memory.high; mkdir /tmp/short; \
         mount -t tmpfs -o size=64M none /tmp/short; \
         (echo 0 >{group}/cgroup.procs; exec timeout 20 head -c 40M /dev/zero >/tmp/short/taken); \
         umount /tmp/short; rmdir /tmp/short {group}"
    );
    world.run("host", &waits);
    merging.wait_for_another("; 0 B of 2.7 MiB held in reserve");
    world.run("host", &holds(0));

    world.signal("host", MERGING, "INT");
    let log = merging.finish_well();
    let document = log.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{log}"));
    let of: Value = serde_json::from_str(document).unwrap();
    let bytes =
        ["wanted_bytes", "held_bytes", "let_go_bytes"].map(|key| of["reserve"][key].as_u64().unwrap());
    // It may have been short twice while what is available was taken: it is an emulated machine.
    let times = of["reserve"]["times_short"].as_u64().unwrap();
    assert!(times >= 2, "{log}");
    assert_eq!(bytes, [700 * 4096, 0, times * 700 * 4096], "{log}");
    world.run("host", RELEASE);
    for domain in ["host", "vm1", "vm2"] {
        world.run(domain, "rm -rf /held /run/merging");
        assert_clean(&world, domain);
    }
}
