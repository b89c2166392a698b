//! What goes wrong is told: what, where, what to do; with exit status 2 where it was asked for wrongly, else 1.

use crate::{
    clean::PACKETS,
    world::{DOMAINS, World},
};

/// Runs a command in the host that must end with this exit status, and gives what it said.
fn ends(world: &World, wanted: i32, script: &str) -> String {
    let output = world.try_run("host", script);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(wanted), "{script}\n{said}");
    said
}

/// A command that is a usage error.
fn refused(world: &World, script: &str) -> String {
    ends(world, 2, script)
}

/// A command that is right, and fails.
fn fails(world: &World, script: &str) -> String {
    ends(world, 1, script)
}

fn assert_says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} is missing in: {said}");
    }
}

#[test]
fn wrong_input_is_refused_with_what_to_do() {
    let Some(world) = World::find("wrong input") else { return };
    let said = refused(
        &world,
        "xweave record -e 'execution(udp_sendmsgg) { STORE_DATA1(1); }' -o /tmp/no --duration 1s",
    );
    assert_says(&said, &["udp_sendmsgg", "udp_sendmsg", "host"]);

    let said = refused(
        &world,
        "xweave record -e 'execution(ip_rcv@vm9) { STORE_DATA1(1); }' -o /tmp/no --duration 1s",
    );
    assert_says(&said, &["vm9"]);

    let said = fails(&world, "xweave record virtio-net --domain vm9=vsock:99 -o /tmp/no --duration 1s");
    assert_says(&said, &["vm9", "vsock:99"]);

    let said =
        fails(&world, "xweave record virtio-net --domain 'vm9=echo hello; exit 3' -o /tmp/no --duration 1s");
    assert_says(&said, &["vm9", "hello"]);

    let said = fails(
        &world,
        "xweave record virtio-net --domain 'vm9=printf \"XWEAVE\\377\\177\"; cat >/dev/null' -o /tmp/no --duration 1s",
    );
    assert_says(&said, &["vm9", "version", "32767"]);

    // Nothing is attached first.
    let said = fails(
        &world,
        "mkdir -p /tmp/full; mount -t tmpfs -o size=64k none /tmp/full; \
         xweave record --events sched -o /tmp/full/trace --duration 1s; ended=$?; umount /tmp/full; exit $ended",
    );
    assert_says(&said, &["free where /tmp/full/trace is to be", "-o"]);

    let said = refused(&world, "xweave record nothing.aspect -o /tmp/no --duration 1s");
    assert_says(&said, &["nothing.aspect"]);

    let said =
        refused(&world, "xweave record -e 'execution(ip_rcv) { nonsense(; }' -o /tmp/no --duration 1s");
    assert_says(&said, &["-e:1:"]);

    world.run("host", "test ! -e /tmp/no");
}

#[test]
fn domains_given_wrongly_are_noticed_before_anything_is_woven() {
    let Some(world) = World::find("domains given wrongly") else { return };
    let record = "xweave record --events sched -o /tmp/no --duration 1s";
    let said = refused(&world, &format!("{record} --domain host=vsock:3"));
    assert_says(&said, &["host=vsock:3 is a guest of this machine", "vm1=vsock:3"]);
    let said = refused(&world, &format!("{record} --domain vm1='xweave agent --stdio'"));
    assert_says(&said, &["host and vm1 are one kernel", "boot ID"]);
    world.run("host", "test ! -e /tmp/no");

    let output = world.try_run(
        "host",
        "xweave record --events sched -o /tmp/exchanged --duration 1s --domain vm1=vsock:4 --domain vm2=vsock:3",
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_says(
        &said,
        &[
            "host: this machine, hostname host, Linux ",
            "vm1: CID 4, hostname vm2, QEMU pid ",
            "note: vm1 (CID 4) has the hostname vm2, and vm2 is another domain: are their addresses exchanged?",
            "note: vm2 (CID 3) has the hostname vm1",
        ],
    );
    let (note, weaving) = (said.find("note: vm1 (CID 4)"), said.find("attaching the probes of events"));
    assert!(note < weaving, "it is said before anything is woven: {said}");
}

#[test]
fn rights_and_types_are_asked_for_by_name() {
    let Some(world) = World::find("rights and types") else { return };
    // As a user without rights.
    let record = "xweave record -e 'execution(ip_rcv) { STORE_DATA1(1); }' -o /tmp/no --duration 1s";
    let said = fails(
        &world,
        &format!(
            "setpriv --reuid=65534 --clear-groups --inh-caps=-all --bounding-set=-all -- env HOME=/tmp {record}"
        ),
    );
    assert_says(&said, &["root"]);
    // On a kernel that shows no types: hidden by a mount that only this command sees.
    let said = fails(
        &world,
        &format!(
            "unshare --mount sh -c \"mount -t tmpfs none /sys/kernel/btf && exec {}\"",
            record.replace('"', "\\\"")
        ),
    );
    assert_says(&said, &["BTF"]);
}

#[test]
fn a_full_disk_ends_a_recording_with_a_word_and_a_readable_trace() {
    let Some(world) = World::find("full disk") else { return };
    world.run("host", "mkdir -p /tmp/small && mount -t tmpfs -o size=150k none /tmp/small");
    let recording = world.start(
        "host",
        &format!("exec xweave record {PACKETS} {DOMAINS} -o /tmp/small/trace --max-size 100M --force --duration 120s"),
    );
    let load =
        world.start("vm1", "exec xweave lab load udp-send --to 10.77.0.2:9003 --count 1000000 --rate 2000");
    let (status, said) = recording.finish();
    drop(load);
    assert_eq!(status, Some(1), "{said}");
    assert_says(&said, &["/tmp/small/trace", "space"]);
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/small/trace", &dir.path().join("trace"));
    let summary = &world.flows(&dir.path().join("trace"))["summary"];
    assert!(summary["records"].as_u64() > Some(0), "{summary}");
    world.run("host", "umount /tmp/small");
}

/// As after `2>&1 | head -1`, which is gone before anything is woven.
#[test]
fn a_recording_goes_on_when_nobody_reads_what_it_tells_any_more() {
    let Some(world) = World::find("a pipe that is closed") else { return };
    let said = world.run(
        "host",
        "rm -rf /tmp/piped; (xweave record --events sched -o /tmp/piped --duration 1s 2>&1; echo $? >/tmp/status) | head -n 1; \
         while [ ! -s /tmp/status ]; do sleep 0.1; done; cat /tmp/status; rm /tmp/status",
    );
    assert!(said.starts_with("xweave: reaching host\n") && said.ends_with("\n0\n"), "{said}");
    let manifest = world.run("host", "cat /tmp/piped/trace.json");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert!(manifest["complete"] == true && manifest["events"].as_u64() > Some(0), "{manifest}");
}
