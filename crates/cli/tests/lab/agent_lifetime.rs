//! However a controller, an agent or a module goes: probes and changed settings go with it, and it is told.

use serde_json::Value;

use crate::{
    agent_trust::listener,
    clean::{assert_clean, assert_woven, wait_until_written},
    world::{AGENT, World},
};

/// Several times what a controller lets pass without a word.
const LEASE: &str = "--lease 20s";

#[test]
fn a_stopped_controller_loses_its_probes_and_says_so() {
    let Some(world) = World::find("stopped controller") else { return };
    let agent = listener(&world, "vm1", 7391, LEASE);
    let domains = format!("--domain vm1=vsock:3:7391 --domain host='exec xweave agent --stdio {LEASE}'");
    let recording = world.record(&format!("virtio-net {domains} -o /tmp/stopped"));
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
    assert!(log.contains("nothing was heard of the controller for 20 s"), "{log}");
    assert!(agent.log().contains("nothing was heard of the controller for 20 s"), "{}", agent.log());
}

/// An instruction of a module that can be unloaded, and is passed by each packet to its network.
const IN_MODULE: &str =
    "advice sent access(sk_buff.len) AND within_function(dummy_xmit@host) AND target(packet)
    { STORE_DATA1(packet->len); }";
const LOAD_MODULE: &str =
    "modprobe dummy numdummies=1 && ip addr add 10.99.0.1/24 dev dummy0 && ip link set dummy0 up";

#[test]
fn a_module_that_goes_under_its_probes_is_told() {
    let Some(world) = World::find("unloaded module") else { return };
    world.index_code();
    world.run("host", &format!("rmmod dummy 2>/dev/null; {LOAD_MODULE}"));
    world.write("host", "/tmp/in-module.aspect", IN_MODULE);
    let recording = world.record("/tmp/in-module.aspect -o /tmp/in-module");
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
fn agents_killed_at_any_step_leave_no_probe_and_no_setting() {
    let Some(world) = World::find("agents killed at any step") else { return };
    let before = world.run("host", SETTINGS);
    let record = |trace: &str, more: &str| {
        world.start("host", &format!("exec xweave record {MANY} -o /tmp/{trace} --force {more}"))
    };
    // How many there are, and that what follows is compiled.
    let recording = world.record(&format!("{MANY} -o /tmp/steps"));
    let all: usize = world.run("host", &format!("echo {HOOKED}")).trim().parse().unwrap();
    recording.finish_well();
    assert!(all >= 17, "{all} functions are too few for the settings to be changed");

    const STEPS: usize = 12;
    for step in 0..STEPS {
        let weaving = step < 2 * STEPS / 3;
        let one = record("step-one", if weaving { "--duration 300s" } else { "--duration 1s" });
        let two = record("step-two", "--duration 300s");
        // Both at work in the same kernel: from the first hook to the last, and from the last to the first.
        let condition = if weaving {
            format!("test {HOOKED} -ge {}", 1 + all * step / (2 * STEPS / 3))
        } else {
            let left = STEPS - step;
            format!(
                "test {HOOKED} -ge {all} && touch /tmp/all; test -e /tmp/all && test {HOOKED} -le {}",
                all * left / (STEPS / 3)
            )
        };
        let kill = if weaving || step % 2 == 0 { "kill -KILL $agents" } else { "kill -KILL ${agents%% *}" };
        world.run(
            "host",
            &format!(
                r#"rm -f /tmp/all
                deadline=$(($(date +%s) + 60))
                until {condition} || test $(date +%s) -ge $deadline; do :; done
                agents=
                for process in /proc/[0-9]*; do
                    case "$(tr '\0' ' ' <$process/cmdline)" in
                    "{AGENT}"*) agents="$agents${{agents:+ }}${{process#/proc/}}" ;;
                    esac
                done 2>/dev/null
                test -n "$agents" && {kill}"#
            ),
        );
        world.signal("host", "xweave record", "INT");
        for recording in [one, two] {
            recording.finish();
        }
        assert_clean(&world, "host");
        // By the other agent or the controllers; what neither could, this does.
        world.run("host", "xweave doctor >/dev/null");
        assert_eq!(world.run("host", SETTINGS), before, "step {step}");
        world.run("host", "test ! -e /run/xweave/settings");
    }
}
