//! Who may speak to an agent, and who may hold it up.

use crate::world::{Running, World};

/// What came of a connection to an agent, as `xweave lab load vsock-connect` says it.
fn connect(world: &World, domain: &str, user: &str, to: &str) -> String {
    world.run(domain, &format!("{user} xweave lab load vsock-connect {to}"))
}

/// An agent that listens in a domain on a port of its own, until it is dropped.
pub fn listener(world: &World, domain: &str, port: u16, more: &str) -> Running {
    let mut agent = world.start(domain, &format!("exec xweave agent --vsock {port} {more}"));
    agent.wait_for(&format!("listening on vsock port {port}"));
    agent
}

#[test]
fn only_the_hosts_root_reaches_an_agent() {
    let Some(world) = World::find("whose connection") else { return };
    let (agent, silence) = (listener(&world, "vm1", 7391, ""), "--timeout 30");
    let to_vm1 = format!("--cid 3 --port 7391 {silence}");
    let reserved = format!("{to_vm1} --from-port 700");
    // The host's root, by a port that is root's.
    world.until("host", &format!("xweave lab load vsock-connect {reserved} | grep -q XWEAVE"));
    // Root by any other port cannot be told from other users, who have no choice.
    assert_eq!(connect(&world, "host", "", &to_vm1).trim(), "\"closed\"");
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    assert_eq!(connect(&world, "host", nobody, &to_vm1).trim(), "\"closed\"");
    let denied = connect(&world, "host", nobody, &reserved);
    assert!(denied.contains("port_denied"), "{denied}");
    // Another guest.
    for from in [&to_vm1, &reserved] {
        let sibling = connect(&world, "vm2", "", from);
        assert!(sibling.contains("no_connection"), "{sibling}");
    }
    let log = agent.log();
    assert!(log.contains("refused a connection from the host's port"), "{log}");

    // The host is a virtual machine itself, of which vm1 is the guest.
    let mut agent = listener(&world, "host", 7392, "");
    for from in ["", "--from-port 700"] {
        let guest = connect(&world, "vm1", "", &format!("--cid 2 --port 7392 {silence} {from}"));
        assert_eq!(guest.trim(), "\"closed\"", "{guest}");
    }
    agent.wait_for("refused a connection from CID 3");
}

/// Weaves as many functions as change the kernel's settings, and gives what was said. Nothing may be left.
fn weave_many(world: &World) -> String {
    let many = "-e 'execution(tcp_r%@host) { STORE_DATA1(1); }'";
    let recording = world.record(&format!("{many} -o /tmp/attacked"));
    recording.finish_well()
}

const SLOWER: &str = "attaching and detaching is slower";

#[test]
fn no_lock_link_or_folder_of_others_holds_up_weaving() {
    let Some(world) = World::find("attacks on the settings") else { return };
    let settings = "cat /proc/sys/debug/kprobes-optimization /sys/kernel/rcu_expedited";
    let before = world.run("host", settings);
    // As earlier versions left it: anyone could lock it.
    world.run("host", "rm -rf /run/xweave; umask 022; mkdir /run/xweave");
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let flock = world.start("host", &format!("exec {nobody} flock /run/xweave sleep 1000"));
    world.until("host", "grep -q -x -a 'sleep.1000.' /proc/[0-9]*/cmdline");
    let said = weave_many(&world);
    assert!(!said.contains(SLOWER), "{said}");
    drop(flock);
    world.run("host", "test \"$(stat -c %a-%u /run/xweave)\" = 700-0");
    world.run("host", &format!("! {nobody} flock -n /run/xweave true"));
    world.run("host", &format!("! {nobody} flock -n /run/xweave/lock true"));

    // One of root's processes that is stopped while it holds the lock: it is not waited for.
    let held = world.start("host", "exec flock /run/xweave/lock sleep 2000");
    world.until("host", "grep -q -x -a 'sleep.2000.' /proc/[0-9]*/cmdline");
    let said = weave_many(&world);
    assert!(said.contains(SLOWER) && said.contains("was locked by another process"), "{said}");
    drop(held);

    // A folder of somebody else's, one that an umask of 0 left to all, and a link to one.
    world.run("host", "rm -rf /tmp/elsewhere; mkdir /tmp/elsewhere");
    for made in [
        "mkdir /run/xweave; chown 65534 /run/xweave",
        "umask 0; mkdir /run/xweave",
        "ln -s /tmp/elsewhere /run/xweave",
    ] {
        world.run("host", &format!("rm -rf /run/xweave; {made}"));
        let said = weave_many(&world);
        assert!(said.contains(SLOWER) && said.contains("/run/xweave"), "{made}: {said}");
        world.run("host", "test -z \"$(ls -A /run/xweave/ /tmp/elsewhere/ | grep -v :)\"");
    }
    world.run("host", "rm -rf /run/xweave");

    // What its page names is not written to.
    world.run(
        "host",
        "mkdir -m 700 /run/xweave; echo kept >/tmp/victim; { echo boot $(cat /proc/sys/kernel/random/boot_id)
        echo before /tmp/victim 1; echo before /proc/sys/kernel/hostname evil; } >/run/xweave/settings; xweave doctor",
    );
    assert_eq!(world.run("host", "cat /tmp/victim; hostname").trim(), "kept\nhost");
    assert_eq!(world.run("host", settings), before);
    world.run("host", "test ! -e /run/xweave/settings");
}
