//! However a controller, an agent or a module goes: probes and changed settings go with it, and it is told.

use std::time::Instant;

use serde_json::Value;

use crate::{
    agent_trust::listener,
    clean::{PACKETS, assert_clean, assert_woven, wait_until_written},
    world::{AGENT, PATIENCE, Running, World},
};

/// Several times what a controller lets pass without a word.
const LEASE: &str = "--lease 20s";

#[test]
fn a_stopped_controller_loses_its_probes_and_says_so() {
    let Some(world) = World::find("stopped controller") else { return };
    let agent = listener(&world, "vm1", 7391, LEASE);
    let domains = format!("--domain vm1=vsock:3:7391 --domain host='exec xweave agent --stdio {LEASE}'");
    let recording = world.record(&format!("{PACKETS} {domains} -o /tmp/stopped"));
    // Far more than pipes and sockets take while nobody reads.
    let load = world.traffic(1000);
    wait_until_written(&world, "/tmp/stopped");
    for domain in ["host", "vm1"] {
        assert_woven(&world, domain);
    }
    world.signal("host", "xweave record", "STOP");
    for domain in ["host", "vm1"] {
        assert_clean(&world, domain);
    }
    world.signal("host", "xweave record", "CONT");
    let (status, log) = recording.finish();
    drop(load);
    assert_eq!(status, Some(1), "{log}");
    for domain in ["host", "vm1"] {
        assert!(log.contains(&format!("domain {domain} was lost")), "{log}");
    }
    assert!(log.contains("no message from the controller for 20 s"), "{log}");
    assert!(agent.log().contains("no message from the controller for 20 s"), "{}", agent.log());
}

/// An instruction of a module that can be unloaded, and is passed by each packet to its network.
const IN_MODULE: &str =
    "advice sent access(sk_buff.len) AND within_function(dummy_xmit@host) AND target(packet)
    { STORE_DATA1(packet->len); }";
const LOAD_MODULE: &str =
    "modprobe dummy numdummies=1 && ip addr add 10.99.0.1/24 dev dummy0 && ip link set dummy0 up";

#[test]
#[ignore = "minutes: make lab-test"]
fn a_module_that_goes_under_its_probes_is_told() {
    let Some(world) = World::find("unloaded module") else { return };
    world.index_code();
    world.run("host", &format!("rmmod dummy 2>/dev/null; {LOAD_MODULE}"));
    world.write("host", "in-module.aspect", IN_MODULE);
    let recording = world.record("in-module.aspect -o /tmp/in-module");
    let send = || drop(world.try_run("host", "ping -c 3 -i 0.2 -W 1 10.99.0.2"));
    let manifest =
        || -> Value { serde_json::from_str(&world.run("host", "cat /tmp/in-module/trace.json")).unwrap() };
    send();
    wait_until_written(&world, "/tmp/in-module");
    assert!(manifest()["loss"]["unloaded"].as_array().is_none_or(Vec::is_empty));
    // The kernel lets it go, without a word.
    world.run("host", "rmmod dummy");
    world.until("host", "grep -q '\"module\": *\"dummy\"' /tmp/in-module/trace.json");
    // And nothing is woven into the one that comes after it.
    world.run("host", LOAD_MODULE);
    let before = manifest()["records"].as_u64();
    send();
    recording.finish_well();
    assert_clean(&world, "host");
    let manifest = manifest();
    assert_eq!(manifest["records"].as_u64(), before, "{manifest}");
    let expected = serde_json::json!([{ "domain": "host", "module": "dummy", "sites": 1 }]);
    assert_eq!(manifest["loss"]["unloaded"], expected);

    // An entry hook holds its module.
    let hook = "-e 'execution(dummy_xmit@host) { STORE_DATA1(1); }'";
    let recording = world.record(&format!("{hook} -o /tmp/in-module"));
    assert!(!world.try_run("host", "rmmod dummy").status.success());
    recording.finish_well();
    world.run("host", "rmmod dummy; ! dmesg | grep -e BUG: -e WARNING: -e Oops");
}

/// Enough functions that the kernel's settings are changed while they are hooked.
const MANY: &str = "-e 'execution(tcp_r%@host) { STORE_DATA1(1); }'";
const SETTINGS: &str = "cat /proc/sys/debug/kprobes-optimization /sys/kernel/rcu_expedited";
/// How many functions have hooks.
const HOOKED: &str = "$(grep -c direct /sys/kernel/tracing/enabled_functions)";

#[test]
#[ignore = "minutes: make lab-test"]
fn agents_killed_at_any_step_leave_no_probe_and_no_setting() {
    let Some(world) = World::find("agents killed at any step") else { return };
    let before = world.run("host", SETTINGS);
    let recording = world.record(&format!("{MANY} -o /tmp/steps"));
    let all: usize = world.run("host", &format!("echo {HOOKED}")).trim().parse().unwrap();
    recording.finish_well();
    assert!(all >= 17, "{all} functions are too few for the settings to be changed");

    const ROUNDS: usize = 2;
    for round in 0..ROUNDS {
        let both = two_recordings(&world);
        kill_both(&world, &format!("test {HOOKED} -gt {}", all * round / ROUNDS), round);
        assert_nothing_is_left(&world, both, &before);
    }
    for round in 0..ROUNDS - 1 {
        let mut both = two_recordings(&world);
        both.iter_mut().for_each(|recording| recording.wait_for("all is woven"));
        world.run("host", "touch /tmp/enough");
        kill_both(&world, &format!("test {HOOKED} -lt {}", all - all * round / ROUNDS), round);
        assert_nothing_is_left(&world, both, &before);
    }
}

/// Two that weave the same in the same kernel, until there is enough.
fn two_recordings(world: &World) -> [Running; 2] {
    world.run("host", "rm -f /tmp/enough");
    let until_enough = "echo all is woven >&2; until test -e /tmp/enough; do sleep 0.1; done";
    ["one", "two"].map(|name| {
        let record = format!("exec xweave record {MANY} -o /tmp/{name} --force");
        world.start("host", &format!("{record} -- sh -c '{until_enough}'"))
    })
}

/// Kills one agent when that is true, and the other so many half seconds later.
fn kill_both(world: &World, condition: &str, later: usize) {
    let script = format!(
        r#"deadline=$(($(date +%s) + 120))
        in_time() {{ test $(date +%s) -lt $deadline; }}
        agents() {{
            for process in /proc/[0-9]*; do
                case "$(tr '\0' ' ' <$process/cmdline)" in
                "{AGENT}"*) echo ${{process#/proc/}} ;;
                esac
            done 2>/dev/null
        }}
        # Known before: they may be quick when it comes to that.
        until set -- $(agents) && test $# = 2; do in_time || exit 1; done
        until {condition}; do in_time || exit 1; done
        kill -KILL $1
        for half in $(seq {later}); do sleep 0.5; done
        kill -KILL $2 || echo it has gone"#
    );
    world.run("host", &script);
}

fn assert_nothing_is_left(world: &World, recordings: [Running; 2], settings: &str) {
    // One that has lost its only domain may have ended by itself.
    world.run("host", "touch /tmp/enough");
    // And the one killed last may have said all that it had to say.
    let ended = recordings.map(Running::finish);
    assert!(ended.iter().any(|(status, _)| *status != Some(0)), "{ended:?}");
    assert_clean(world, "host");
    // By the other agent or a controller; what none of them could, this does.
    world.run("host", "xweave doctor >/dev/null");
    assert_eq!(world.run("host", SETTINGS), settings);
    world.run("host", "test ! -e /run/xweave/settings");
}

#[test]
#[ignore = "minutes: make lab-test"]
fn a_processor_that_goes_and_comes_again_changes_nothing() {
    let Some(world) = World::with_two_cpus("processor hotplug") else { return };
    let set = |online: u8| format!("echo {online} >/sys/devices/system/cpu/cpu1/online");
    // Kernels on emulated processors have complaints of their own as they boot.
    world.run("vm1", "test -e /sys/devices/system/cpu/cpu1/online && dmesg -c >/dev/null");
    let load = world.traffic(200);
    // While it is woven as well.
    let there_and_gone = format!("while {}; do sleep 1; {}; sleep 1; done", set(0), set(1));
    let hotplug = world.start("vm1", &there_and_gone);
    let recording = world.record(&format!("{PACKETS} --events sched --domain vm1=vsock:3 -o /tmp/hotplug"));
    wait_until_written(&world, "/tmp/hotplug");
    drop(hotplug);
    let records = || -> u64 {
        let manifest: Value =
            serde_json::from_str(&world.run("host", "cat /tmp/hotplug/trace.json")).unwrap();
        manifest["records"].as_u64().unwrap()
    };
    for online in [0, 1] {
        world.run("vm1", &format!("{}; grep -q {online} /sys/devices/system/cpu/cpu1/online", set(online)));
        let (before, deadline) = (records(), Instant::now() + PATIENCE);
        while records() <= before {
            assert!(Instant::now() < deadline, "nothing more was recorded with cpu1 at {online}");
        }
    }
    recording.finish_well();
    drop(load);
    for domain in ["host", "vm1"] {
        assert_clean(&world, domain);
    }
    world.run("vm1", "! dmesg | grep -e BUG: -e WARNING: -e Oops");
}
