//! Experiments change settings of real kernels for the time of a block, and leave them as they were however they end.

use serde_json::Value;

use crate::{
    clean::assert_clean,
    world::{AGENT, World},
};

const GUEST: &str = "--domain vm1=vsock:3";
const HALT_POLL: &str = "/sys/module/kvm/parameters/halt_poll_ns";
const BUSY_POLL: &str = "/proc/sys/net/core/busy_poll";

/// How the settings stand that these tests change, in host and guest.
fn stand(world: &World) -> [String; 2] {
    [world.run("host", &format!("cat {HALT_POLL}")), world.run("vm1", &format!("cat {BUSY_POLL}"))]
}

/// Waits until they stand so, and nothing is written down any more.
fn until_as(world: &World, before: &[String; 2]) {
    for (domain, file, value) in [("host", HALT_POLL, &before[0]), ("vm1", BUSY_POLL, &before[1])] {
        world.until(domain, &format!("test $(cat {file}) = {} && ! test -e /run/xweave/knobs", value.trim()));
    }
}

#[test]
fn each_block_has_its_settings_and_the_next_has_not() {
    let Some(world) = World::find("experiment") else { return };
    let before = stand(&world);
    world.compile_here("host", &format!("--events sched,net,vm {GUEST}"));
    let server = world.start("vm1", "exec xweave lab load tcp-serve --port 9023");
    world.until("host", "xweave lab load tcp-get --to 10.77.0.1:9023 --requests 1");
    world.run("host", "rm -rf /tmp/tried /tmp/tried.values");
    let load = format!(
        "cat {HALT_POLL} >>/tmp/tried.values; xweave lab load tcp-get --to 10.77.0.1:9023 --requests 30"
    );
    let printed = world.run(
        "host",
        &format!(
            "xweave vary --try halt_poll_ns=now,0 --try busy_poll@vm1=50 --try pin_vcpus@host:vm1=0 --rounds 1 --seed 3 \
             --settle 100ms {GUEST} --transaction request:9023 -o /tmp/tried --json -- sh -c '{load}'"
        ),
    );
    drop(server);
    // What the load prints is not among it.
    let document: Value = serde_json::from_str(&printed).unwrap();
    let blocks = document["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), 2);
    let values = world.run("host", "cat /tmp/tried.values");
    for (block, value) in blocks.iter().zip(values.lines()) {
        assert_eq!(
            (&block["not_counted"], block["transactions"].as_u64()),
            (&Value::Null, Some(30)),
            "{block}"
        );
        let read = |knob: &str| {
            let read = block["read"].as_array().unwrap().iter().find(|read| read["knob"] == knob);
            read.map(|read| read["now"].as_str().unwrap().to_owned())
        };
        let tried = block["setting"] == 1;
        // What is `now` is not touched, and so not read back.
        assert_eq!(read("halt_poll_ns"), tried.then(|| "0".to_owned()), "{block}");
        assert_eq!(value, if tried { "0" } else { before[0].trim() });
        assert_eq!(
            (read("busy_poll").as_deref(), read("pin_vcpus").as_deref()),
            (Some("50"), Some("0")),
            "{block}"
        );
    }
    let effect = &document["effects"][0];
    assert!(
        effect["p99"]["baseline_ns"].as_i64() > Some(0) && effect["cpus"][0]["baseline"].as_f64() > Some(0.0)
    );
    // Both virtual machines of the host have halted, and what became of their polling is told.
    let observed = effect["observed"].as_array().unwrap();
    assert!(observed.iter().any(|observed| observed["vm"] == "vm1"), "{effect}");
    assert_eq!(stand(&world), before);
    for domain in ["host", "vm1"] {
        world.run(domain, "test ! -e /run/xweave/knobs && test ! -e /run/xweave/settings");
        assert_clean(&world, domain);
    }
}

/// Who is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Controller,
    Agents,
    All,
}

/// When, as a script that is true then; `$before` is how the host's setting stood. And whether it must be found changed
/// right after: where nobody is left, and it was changed.
const STEPS: [(&str, Who, bool); 6] = [
    ("test -e /run/xweave/knobs", Who::All, false),
    ("test $(cat $file) != $before", Who::All, true),
    ("test -e /tmp/in-block", Who::Controller, false),
    ("test -e /tmp/in-block", Who::Agents, false),
    ("test -e /tmp/in-block", Who::All, true),
    ("test -e /tmp/in-block && touch /tmp/enough && ! test -e /tmp/load", Who::All, false),
];

#[test]
#[ignore = "minutes: make lab-test"]
fn whoever_is_killed_at_whichever_step_the_settings_are_put_back() {
    let Some(world) = World::find("experiment killed at any step") else { return };
    let before = stand(&world);
    world.compile_here("host", &format!("--events vm {GUEST}"));
    for (step, who, left) in STEPS {
        world.run("host", "rm -rf /tmp/killed /tmp/in-block /tmp/enough /tmp/load");
        let load =
            "touch /tmp/load /tmp/in-block; until test -e /tmp/enough; do sleep 0.1; done; rm /tmp/load";
        let running = world.start(
            "host",
            &format!(
                "exec xweave vary --try halt_poll_ns=1,2 --try busy_poll@vm1=50 --rounds 1 --events vm --settle 1s {GUEST} \
                 -o /tmp/killed -- sh -c '{load}'"
            ),
        );
        let victims = match who {
            Who::Controller => "\"xweave vary\"*",
            Who::Agents => &format!("\"{AGENT}\"*"),
            Who::All => &format!("\"xweave vary\"*|\"{AGENT}\"*"),
        };
        let found = world.run(
            "host",
            &format!(
                r#"file={HALT_POLL}; before={}; deadline=$(($(date +%s) + 240))
                until {step}; do test $(date +%s) -lt $deadline || exit 1; done 2>/dev/null
                for process in /proc/[0-9]*; do
                    case "$(tr '\0' ' ' <$process/cmdline)" in {victims}) all="$all ${{process#/proc/}}" ;; esac
                done 2>/dev/null
                # At once: an agent whose controller is gone puts back what it has changed.
                kill -KILL $all; cat $file"#,
                before[0].trim()
            ),
        );
        assert!(!left || found != before[0], "{step}: nothing was left to be put back");
        if who != Who::Controller {
            // Its session's process: who listens there stays. It may have gone by itself.
            let kill = format!(
                r#"for process in /proc/[0-9]*; do
                    case "$(tr '\0' ' ' <$process/cmdline)" in "{AGENT}"*) kill -KILL ${{process#/proc/}} ;; esac
                done 2>/dev/null; true"#
            );
            world.run("vm1", &kill);
        }
        world.run("host", "touch /tmp/enough");
        let (status, log) = running.finish();
        assert_ne!(status, Some(0), "{step}: {log}");
        if who == Who::All {
            // Nobody is left in the host who would.
            world.run("host", "xweave doctor >/dev/null");
        }
        until_as(&world, &before);
        for domain in ["host", "vm1"] {
            assert_clean(&world, domain);
        }
    }
}

#[test]
fn ctrl_c_in_a_block_leaves_a_whole_trace_and_the_settings_as_they_were() {
    let Some(world) = World::find("interrupted experiment") else { return };
    let before = stand(&world);
    world.compile_here("host", &format!("--events vm {GUEST}"));
    world.run("host", "rm -rf /tmp/cut-short /tmp/in-block");
    let running = world.start(
        "host",
        &format!(
            "exec xweave vary --try halt_poll_ns=1,2 --try busy_poll@vm1=50 --rounds 1 --events vm {GUEST} -o /tmp/cut-short \
             -- sh -c 'touch /tmp/in-block; exec sleep 1000'"
        ),
    );
    world.until("host", "test -e /tmp/in-block");
    world.until("host", &format!("test $(cat {HALT_POLL}) != {}", before[0].trim()));
    world.signal("host", "xweave vary", "INT");
    let (status, log) = running.finish();
    assert_eq!(status, Some(130), "{log}");
    assert!(log.contains("block 1 is not counted: it was interrupted"), "{log}");
    assert!(log.contains("xweave: interrupted before anything was measured"), "{log}");
    until_as(&world, &before);
    let manifest: Value =
        serde_json::from_str(&world.run("host", "cat /tmp/cut-short/block-1/trace.json")).unwrap();
    assert_eq!(manifest["complete"], true, "{manifest}");
    let said = world.try_run("host", "xweave vary /tmp/cut-short");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("block 1: it was interrupted"), "{said}");
}

#[test]
fn what_cannot_be_changed_there_is_told_with_the_reason_and_nothing_is_run() {
    let Some(world) = World::find("experiment with what there is not") else { return };
    for (knob, why) in [
        (
            "idle_poll@vm1=off,on",
            "idle_poll@vm1 cannot be set: idle=poll is an option of the kernel's command line",
        ),
        ("idle_governor@vm1=menu,haltpoll", "this kernel has no cpuidle driver"),
        (
            "pin_vcpus@vm1=now,0",
            "no virtual machine runs there; there are pin_vcpus@host:vm1, pin_vcpus@host:vm2",
        ),
        ("halt_poll_ns@vm1=0,1", "halt_poll_ns@vm1 cannot be set: KVM is not loaded here"),
    ] {
        let output = world.try_run(
            "host",
            &format!("xweave vary --try {knob} {GUEST} -o /tmp/refused -- touch /tmp/refused-ran"),
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
        world.run("host", "test ! -e /tmp/refused && test ! -e /tmp/refused-ran");
    }
}
