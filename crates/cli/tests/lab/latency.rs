//! How long calls of functions take, in the host and in a guest.

use serde_json::Value;

use crate::world::World;

/// The host sleeps while it is recorded, a guest all the time.
#[test]
#[ignore = "minutes: make lab-test"]
fn calls_take_as_long_as_they_sleep_in_the_host_and_in_a_guest() {
    const SLEEPS: u64 = 20;
    const SLEEP_NS: i64 = 20_000_000;
    let Some(world) = World::find("latency of functions") else { return };
    world.write("vm1", "/tmp/sleeps.sh", "while :; do sleep 0.02; done\n");
    let sleeps = world.start("vm1", "exec sh /tmp/sleeps.sh");
    let load = format!("sh -c 'for of in $(seq {SLEEPS}); do sleep 0.02; done'");
    let told = world.run(
        "host",
        &format!("xweave latency hrtimer_nanosleep --domain vm1=vsock:3 -o /tmp/sleeps --json -- {load}"),
    );
    let document: Value = serde_json::from_str(&told).unwrap();
    for domain in ["host", "vm1"] {
        let mut functions = document["functions"].as_array().unwrap().iter();
        let of = functions.find(|of| of["domain"] == domain).unwrap_or_else(|| panic!("{told}"));
        assert_eq!(of["function"], "hrtimer_nanosleep", "{told}");
        assert!(of["p50_ns"].as_i64().unwrap() >= SLEEP_NS, "{told}");
        let bins = of["histogram"].as_array().unwrap().iter();
        let counted: u64 = bins.map(|bin| bin["count"].as_u64().unwrap()).sum();
        assert_eq!(Some(counted), of["calls"].as_u64(), "{told}");
        if domain == "host" {
            assert!(counted >= SLEEPS, "{told}");
        }
    }
    assert_eq!(document["lost"], 0, "{told}");

    let again = world.run("host", "xweave latency --of /tmp/sleeps");
    println!("{again}");
    assert!(again.starts_with("Domain  Function") && again.contains("ms to "), "{again}");
    let nothing = world.try_run("host", "xweave latency vfs_fallocate --duration 100ms");
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert!(said.contains("nothing called vfs_fallocate while this was recorded"), "{said}");
    assert_eq!(world.run("host", "ls -d /tmp/xweave-latency-* 2>/dev/null | wc -l").trim(), "0");
    world.kill("vm1", "sh /tmp/sleeps.sh");
    drop(sleeps);
    world.run("host", "rm -r /tmp/sleeps");
}
