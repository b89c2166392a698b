//! What befalls a guest's clocks while it is recorded: where no error can be stated the trace says so, and elsewhere
//! the stated one holds.

use std::{fs, thread, time::Duration};

use serde_json::Value;

use crate::world::{DOMAINS, Running, World};

/// How long the guest is paused.
const PAUSE: Duration = Duration::from_secs(10);

/// How long is recorded before and after: clocks are known some seconds later.
const AROUND: Duration = Duration::from_secs(8);

/// Records traffic from vm1 to vm2 while something befalls vm1; gives vm1's entry of `clocks`, and what there was said.
fn recorded(world: &World, name: &str, befalls: impl FnOnce()) -> (Value, String) {
    let recording: Running = world.record(&format!("virtio-net {DOMAINS} -o /tmp/{name}"));
    let load = world.traffic(100);
    thread::sleep(AROUND);
    befalls();
    thread::sleep(AROUND);
    drop(load);
    let said = recording.finish_well();

    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    world.pull("host", &format!("/tmp/{name}"), &trace);
    let manifest: Value = serde_json::from_slice(&fs::read(trace.join("trace.json")).unwrap()).unwrap();
    let clock = |name: &str| {
        let clocks = manifest["clocks"].as_array().unwrap();
        clocks.iter().find(|clock| clock["domain"] == name).unwrap().clone()
    };
    println!("{name}: {}\n{said}", manifest["clocks"]);
    let summary = &world.flows(&trace)["summary"];
    println!("{summary}");
    // Before, after, and beside: no packet came off before it was put on.
    assert_eq!(summary["negative_gaps"], 0, "{summary}");
    assert!(summary["crossed"].as_u64() > Some(200), "{summary}");
    // What befalls one guest is nothing to the others.
    for other in ["host", "vm2"] {
        assert_eq!(clock(other)["breaks"], Value::Null, "{manifest}");
    }
    (clock("vm1"), said)
}

/// Gives QEMU's monitor of vm1 a command.
pub fn monitor(world: &World, command: &str) {
    let script = format!(
        r#"$| = 1; my $monitor = IO::Socket::UNIX->new(Peer => "/run/lab/vm1/qmp.sock") or die "no monitor: $!"; <$monitor>;
        for my $command ("qmp_capabilities", "{command}") {{
            print $monitor "{{\"execute\": \"$command\"}}\n";
            do {{ defined($_ = <$monitor>) or die "no answer" }} until /"return"/;
        }}"#
    );
    world.run("host", &format!("perl -MIO::Socket::UNIX -e '{script}'"));
}

/// By how many seconds a break says that the clock stepped.
fn stepped(jump: &Value) -> f64 {
    let detail = jump["detail"].as_str().unwrap();
    let number = detail.strip_prefix("its clock stepped by ").and_then(|rest| rest.split(' ').next());
    number.unwrap_or_else(|| panic!("{detail}")).parse().unwrap()
}

/// Writes vm1's TSC: puts that of its first processor so many ticks forward.
const WRITE_TSC: &str = r#"
    insmod /tmp/msr/msr.ko 2>/dev/null
    tsc=$(dd if=/dev/cpu/0/msr bs=8 count=1 skip=2 2>/dev/null | od -An -t u8 | tr -d ' ')
    tsc=$((tsc + TICKS)) bytes=
    for shift in 0 8 16 24 32 40 48 56; do bytes="$bytes\\$(printf %03o $((tsc >> shift & 255)))"; done
    printf "$bytes" | dd of=/dev/cpu/0/msr bs=8 seek=2 conv=notrunc
"#;

/// One after the other in one recording: an emulated host weaves and unweaves for most of a minute.
#[test]
#[ignore = "minutes: make lab-test"]
fn a_guest_that_is_paused_or_writes_its_tsc_has_a_break_there_and_one_that_stands_still_has_none() {
    let Some(world) = World::find("clocks that jump") else { return };
    let dir = tempfile::tempdir().unwrap();
    world.run(
        "host",
        "mkdir -p /tmp/msr; module=$(modinfo -n msr); case $module in
        *.xz) /run/lab/busybox unxz -c $module >/tmp/msr/msr.ko ;;
        *) cp $module /tmp/msr/ ;;
        esac",
    );
    world.pull("host", "/tmp/msr", &dir.path().join("msr"));
    world.run("vm1", "mkdir -p /tmp/msr");
    world.push("vm1", &dir.path().join("msr"), "/tmp/msr/");

    let (clock, said) = recorded(&world, "jumps", || {
        world.run("host", "kill -STOP $(cat /run/lab/vm1/pid)");
        thread::sleep(PAUSE);
        world.run("host", "kill -CONT $(cat /run/lab/vm1/pid)");
        thread::sleep(AROUND);
        monitor(&world, "stop");
        thread::sleep(PAUSE);
        monitor(&world, "cont");
        thread::sleep(AROUND);
        // Ten seconds, of which reading and writing take the shell some: the TSC is to go forward.
        world.run("vm1", &WRITE_TSC.replace("TICKS", "24000000000"));
        // The guest's clock goes by what was written (kvm-clock is not told), and never back: when its kernel has taken
        // that back, at the next idle moment ("TSC ADJUST differs"), it stands still until the TSC has come as far.
        thread::sleep(AROUND);
    });
    let breaks = clock["breaks"].as_array().unwrap_or_else(|| panic!("no break: {clock}\n{said}"));
    // The first is not that of the process that stood still: neither kvm-clock nor the TSC stands still with it. When
    // QEMU pauses a guest it gives kvm-clock back the time at which it stopped; the TSC has gone on.
    let step = stepped(&breaks[0]);
    assert!((-60.0..-9.9).contains(&step), "{clock}");
    let length = breaks[0]["before_ns"].as_i64().unwrap() - breaks[0]["after_ns"].as_i64().unwrap();
    assert!((10_000_000_000..90_000_000_000).contains(&length), "{clock}");
    assert!(said.contains("note: vm1: its clock stepped by -"), "{said}");
    // The other is that of the TSC; and whether it is taken back within the time is the guest's affair.
    assert!((2..=4).contains(&breaks.len()), "{clock}");
    // Later it is taken back, and the clock stands still: in the midst of whatever test is next.
    world.reset("vm1");
}
