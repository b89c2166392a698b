//! Ctrl-C in each phase of a recording: the program ends at once, and nothing of it is left.

use std::time::Duration;

use crate::{
    clean::assert_clean,
    world::{DOMAINS, World},
};

/// Until the terminal is told and the program has ended, on a machine that nobody emulates.
const AT_ONCE: Duration = Duration::from_millis(300);

/// As much slower is an emulated host, of which another machine's processors have other work.
const EMULATED: u32 = 4;

/// Many functions: loading and attaching take seconds there.
const MANY: &str = "-e 'execution(tcp_r%) { STORE_DATA1(1); }' --events sched,net";

/// What is pressed when, whether the host compiles anew, and the exit status.
struct Phase {
    name: &'static str,
    /// A script that is true in that phase: `$log` is what the recording has said.
    begun: &'static str,
    cold: bool,
    status: i32,
}

const PHASES: [Phase; 4] = [
    Phase { name: "compiling", begun: "grep -q 'xweave: compiling' $log", cold: true, status: 130 },
    Phase { name: "loading", begun: "grep -q 'xweave: weaving' $log", cold: false, status: 130 },
    Phase {
        name: "attaching",
        begun: "grep -q direct /sys/kernel/tracing/enabled_functions",
        cold: false,
        status: 130,
    },
    Phase { name: "recording", begun: "grep -q 'xweave: recording' $log", cold: false, status: 0 },
];

/// Records in the host, presses Ctrl-C in that phase, and gives the exit status, the time that it took, and what was said.
fn press(world: &World, phase: &Phase) -> (i32, Duration, String) {
    let cache = if phase.cold { "XWEAVE_CACHE=/tmp/cold" } else { "" };
    let begun = phase.begun;
    let said = world.run(
        "host",
        &format!(
            r#"rm -rf /tmp/cold /tmp/cut; log=/tmp/cut.log
            {cache} xweave record {MANY} {DOMAINS} -o /tmp/cut 2>$log >&2 & pid=$!
            until {begun}; do test -d /proc/$pid || exit 1; sleep 0.02; done
            begun=$(date +%s%N); kill -INT $pid; wait $pid; status=$?; ended=$(date +%s%N)
            echo $status $(((ended - begun) / 1000000)); cat $log"#
        ),
    );
    let (first, log) = said.split_once('\n').unwrap();
    let (status, took) = first.split_once(' ').unwrap();
    (status.parse().unwrap(), Duration::from_millis(took.parse().unwrap()), log.to_owned())
}

#[test]
#[ignore = "minutes: make lab-test"]
fn ctrl_c_ends_each_phase_at_once_and_leaves_nothing() {
    let Some(world) = World::find("interrupted recordings") else { return };
    let settings =
        "cat /proc/sys/debug/kprobes-optimization /sys/kernel/rcu_expedited; ls /run/xweave/settings 2>&1";
    let before = world.run("host", &format!("{settings}; true"));
    // What is not compiled anew is there.
    world.compile_here("host", &format!("{MANY} {DOMAINS}"));
    for phase in &PHASES {
        let (status, took, log) = press(&world, phase);
        let name = phase.name;
        println!("{name}: ended with {status} after {took:?}");
        assert_eq!(status, phase.status, "{name}: {log}");
        let begun = phase.status == 0;
        if !begun {
            assert!(took <= EMULATED * AT_ONCE, "{name}: {took:?}\n{log}");
            let nothing =
                if phase.cold { "woven\n" } else { "recorded, and what was woven is taken out again" };
            let expected = format!("interrupted before the recording began: nothing was {nothing}");
            assert!(log.contains(&expected), "{name}: {log}");
        }
        let made = world.try_run("host", "test -e /tmp/cut").status.success();
        assert_eq!(made, begun, "{name}: the folder");
        for domain in ["host", "vm1", "vm2"] {
            assert_clean(&world, domain);
        }
        world.until("host", "! grep -qz -- '--stdi[o]' /proc/[0-9]*/cmdline");
        assert_eq!(world.run("host", &format!("{settings}; true")), before, "{name}");
    }
}

/// The agent of this machine, stopped as by a debugger, answers nothing any more.
const STOP_AGENT: &str = "for process in /proc/[0-9]*; do
    if grep -qz -- '--stdi[o]' $process/cmdline; then kill -STOP ${process#/proc/}; fi
done";

#[test]
#[ignore = "minutes: make lab-test"]
fn the_second_ctrl_c_ends_this_machines_stopped_agent_and_its_probes() {
    let Some(world) = World::find("an agent that is stopped while recording is interrupted") else { return };
    world.compile_here("host", &format!("{MANY} {DOMAINS}"));
    let said = world.run(
        "host",
        &format!(
            r#"rm -rf /tmp/cut; log=/tmp/cut.log
            xweave record {MANY} {DOMAINS} -o /tmp/cut 2>$log >&2 & pid=$!
            until grep -q 'xweave: recording' $log; do test -d /proc/$pid || exit 1; sleep 0.02; done
            {STOP_AGENT}
            kill -INT $pid; sleep 2; test -d /proc/$pid || echo ended at once
            begun=$(date +%s%N); kill -INT $pid; wait $pid; ended=$(date +%s%N)
            echo $(((ended - begun) / 1000000)); cat $log"#
        ),
    );
    let (took, log) = said.split_once('\n').unwrap();
    let took = Duration::from_millis(took.parse().unwrap_or_else(|_| panic!("{said}")));
    println!("the second ended it after {took:?}");
    assert!(took <= EMULATED * Duration::from_secs(1), "{took:?}: {log}");
    world.until("host", "! grep -qz -- '--stdi[o]' /proc/[0-9]*/cmdline");
    for domain in ["host", "vm1", "vm2"] {
        assert_clean(&world, domain);
    }
}
