//! Merging under fire: guests do to their files what they like, and are stopped; whoever merges is killed. No byte changes.

use std::{
    env,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    clean::assert_clean,
    clocks::monitor,
    merge::KSM,
    world::{AGENT, DOMAINS, World, signalled},
};

const SCRIPT: &str = include_str!("under-fire.sh");

/// Minutes that it lasts, if not those of the ten.
const MINUTES: &str = "XWEAVE_FIRE_MINUTES";

/// Numbers as they come, the same ones each time.
struct Chance(u64);

impl Chance {
    /// Below `most`.
    fn below(&mut self, most: u64) -> u64 {
        // Knuth's (MMIX).
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[test]
#[ignore = "minutes: make lab-test"]
fn every_file_holds_what_was_written_to_it_whatever_befalls_who_merges() {
    let Some(world) = World::find("merging under fire") else { return };
    let minutes = env::var(MINUTES).ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let deadline = Instant::now() + Duration::from_secs(60 * minutes);
    let settings = world.run("host", KSM);
    let pid = |guest: &str| world.run("host", &format!("cat /run/lab/{guest}/pid")).trim().to_owned();
    let pids = ["vm1", "vm2"].map(pid);
    let guests = ["vm1", "vm2"].map(|guest| {
        world.run("host", &format!("mkfs.ext4 -q -F -b 4096 /var/tmp/{guest}.disk"));
        world.run(guest, "echo 3 >/proc/sys/vm/drop_caches; mkdir -p /fire && mount -t ext4 /dev/vda /fire");
        world.write(guest, "/tmp/under-fire.sh", SCRIPT);
        world.start(guest, "sh /tmp/under-fire.sh /fire")
    });

    let (mut chance, mut kills, mut agents, mut saved) = (Chance(1), 0, 0, Vec::new());
    while Instant::now() < deadline {
        let merge = format!("xweave merge --every 1s {DOMAINS} --include /fire --allow inject");
        // Guests that work take ten seconds and more to say what they have.
        let tenths = 10 + chance.below(300);
        world.try_run(
            "host",
            &format!("timeout -s KILL {}.{} {merge} >>/tmp/merge.log 2>&1", tenths / 10, tenths % 10),
        );
        kills += 1;
        let status: Value = serde_json::from_str(&world.run("host", "xweave merge status --json")).unwrap();
        saved.push(status["saved_pages"].as_u64().unwrap());
        match chance.below(3) {
            // That of a guest which is being asked.
            0 => {
                let merging = world.start("host", &format!("exec {merge} >>/tmp/merge.log 2>&1"));
                let guest = if chance.below(2) == 0 { "vm1" } else { "vm2" };
                world.until(guest, &signalled(AGENT, "KILL"));
                agents += 1;
                // It may have ended by itself.
                world.try_run("host", &signalled("xweave merge --every", "KILL"));
                merging.finish();
            }
            1 => {
                monitor(&world, "stop");
                world.try_run("host", &format!("timeout -s KILL 3 {merge} >>/tmp/merge.log 2>&1"));
                monitor(&world, "cont");
            }
            _ => {}
        }
    }
    for guest in ["vm1", "vm2"] {
        world.run(guest, "touch /tmp/stop");
    }
    for guest in guests {
        let log = guest.finish_well();
        assert!(!log.contains("wrong"), "{log}");
        let rounds: u64 = log.lines().last().unwrap().trim_end_matches(" rounds").parse().unwrap();
        assert!(rounds > 10 * minutes, "{log}");
        println!("{rounds} rounds");
    }
    println!("killed {kills} times, and {agents} agents; given back {saved:?} pages");
    // What is the same in both guests is so for a short time: on a busy machine it is gone, as a rule, when that is asked.
    assert!(saved.iter().any(|saved| *saved > 0), "{saved:?}: {}", world.run("host", "cat /tmp/merge.log"));
    // The processes are those of before, and KSM's settings are put back by whoever looks next.
    assert_eq!(["vm1", "vm2"].map(pid), pids);
    world.try_run("host", "xweave doctor");
    assert_eq!(world.run("host", KSM), settings);
    world.run("host", &format!("xweave merge release --allow inject {}", pids.join(" ")));
    for guest in ["vm1", "vm2"] {
        world.run(guest, "umount /fire && rm -r /fire /tmp/under-fire.sh /tmp/stop /tmp/is-*");
    }
    for domain in ["host", "vm1", "vm2"] {
        assert_clean(&world, domain);
    }
}
