//! A world of Xen: dom0 and a paravirtual guest, on one time line.

use std::collections::{BTreeMap, HashMap};

use xweave_trace::{Method, Trace};

use crate::{crossing::witness, world::World};

/// Both domains, as `record` in dom0 wants them.
const DOMAINS: &str = "--domain dom0=local --domain vm1='xweave lab enter vm1 -- xweave agent --stdio'";

/// Where a datagram of the load leaves a domain, and where it arrives.
const PASSED: &str = "execution(xennet_start_xmit@vm1, xenvif_start_xmit@dom0, __udp_enqueue_schedule_skb)";

const COUNT: u64 = 200;

#[test]
fn what_passes_between_dom0_and_a_guest_is_seen_in_both_in_order() {
    let Some(world) = World::as_it_is("xen") else { return };
    world.write("dom0", "witness.aspect", &witness(PASSED));
    let recording = world.record_in("dom0", &format!("witness.aspect {DOMAINS} -o /tmp/xen"));
    for (from, to, address) in [("vm1", "dom0", "10.77.0.254"), ("dom0", "vm1", "10.77.0.1")] {
        let receive = format!("exec xweave lab load udp-recv --port 9000 --count {COUNT} --idle-timeout 20");
        let receiver = world.start(to, &receive);
        world.until(to, "grep -q :2328 /proc/net/udp");
        world.run(from, &format!("xweave lab load udp-send --to {address}:9000 --count {COUNT} --rate 100"));
        receiver.finish_well();
    }
    recording.finish_well();

    let dir = tempfile::tempdir().unwrap();
    world.pull("dom0", "/tmp/xen", &dir.path().join("trace"));
    let trace = Trace::open(&dir.path().join("trace")).unwrap();
    let clock = trace.manifest().clocks.iter().find(|clock| clock.domain == "vm1").unwrap();
    assert_eq!(clock.method, Method::CommonTsc, "{clock:?}");

    // By number and place: the sender's interface, then the receiver's socket.
    let mut seen: HashMap<(String, String), BTreeMap<u64, i64>> = HashMap::new();
    let (rows, damaged) = trace.rows();
    assert!(damaged.is_empty(), "{damaged:?}");
    for row in rows {
        let site = trace.site(row.site).unwrap();
        seen.entry((site.domain.clone(), site.function.clone()))
            .or_default()
            .insert(row.values()[0], row.time_ns);
    }
    for (from, left, to) in [("vm1", "xennet_start_xmit", "dom0"), ("dom0", "xenvif_start_xmit", "vm1")] {
        let at = |domain: &str, function: &str| &seen[&(domain.to_owned(), function.to_owned())];
        let (left, arrived) = (at(from, left), at(to, "__udp_enqueue_schedule_skb"));
        assert_eq!((left.len() as u64, arrived.len() as u64), (COUNT, COUNT), "from {from} to {to}");
        let unsure = i64::try_from(clock.error_ns).unwrap();
        for (number, time) in left {
            let gap = arrived[number] - time;
            assert!(gap > -unsure, "{from} to {to}: datagram {number} arrived {gap} ns after it left");
        }
    }
}

/// The usual mode of Xen where it cannot tell that the machine's TSC is safe.
#[test]
#[ignore = "minutes: make lab-test"]
fn a_guest_whose_tsc_is_emulated_is_on_the_time_line_too() {
    let Some(world) = World::as_it_is("xen: emulated TSC") else { return };
    let start = "sed 's/^tsc_mode.*/tsc_mode = \"always_emulate\"/' /run/lab/vm1/config >/tmp/emulated && \
                 xl destroy vm1 && xl create /tmp/emulated";
    world.run("dom0", start);
    world.until("vm1", "true");
    let recording = world.record_in("dom0", &format!("xen-blk {DOMAINS} -o /tmp/emulated-tsc"));
    world.run("vm1", "dd if=/dev/xvda of=/dev/null bs=4096 count=100 iflag=direct 2>/dev/null");
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    world.pull("dom0", "/tmp/emulated-tsc", &dir.path().join("trace"));
    let trace = Trace::open(&dir.path().join("trace")).unwrap();
    let clock = trace.manifest().clocks.iter().find(|clock| clock.domain == "vm1").unwrap();
    println!("{clock:?}");
    assert_eq!(clock.method, Method::Exchange, "{clock:?}");
    assert!(clock.error_ns > 0, "{clock:?}");
    let summary = &world.flows(&dir.path().join("trace"))["summary"];
    println!("{summary}");
    // What is put on comes off later, but for the error that is stated.
    assert_eq!((&summary["complete"], &summary["crossed"]), (&100.into(), &100.into()), "{summary}");
    assert_eq!((&summary["negative_gaps"], &summary["clock_breaks"]), (&0.into(), &0.into()), "{summary}");
    world.reset("vm1");
}

/// As for who has no network to a guest: while it runs, it is given one more interface, on a bridge that leads nowhere.
#[test]
fn an_agent_is_reached_by_an_interface_of_its_own() {
    let Some(world) = World::as_it_is("xen: an interface of its own") else { return };
    let bridge = "ip link add xw0 type bridge && ip addr add 10.99.0.254/24 dev xw0 && ip link set xw0 up";
    world.run("dom0", &format!("{bridge} && xl network-attach vm1 bridge=xw0 script=/run/lab/vif.sh"));
    world.until("vm1", "[ -e /sys/class/net/eth2 ]");
    // In place of ssh.
    let listen = "busybox nc -ll -p 7000 -e xweave agent --stdio </dev/null >/dev/null 2>&1 &";
    world.run("vm1", &format!("ip addr add 10.99.0.1/24 dev eth2 && ip link set eth2 up && {listen}"));
    world.until("vm1", "grep -qs ':1B58 ' /proc/net/tcp /proc/net/tcp6");
    let domains = "--domain dom0=local --domain vm1='/run/lab/busybox nc 10.99.0.1 7000'";
    let recording = world.record_in("dom0", &format!("xen-blk {domains} -o /tmp/added"));
    world.run("vm1", "dd if=/dev/xvda of=/dev/null bs=4096 count=10 iflag=direct 2>/dev/null");
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    world.pull("dom0", "/tmp/added", &dir.path().join("trace"));
    let summary = &world.flows(&dir.path().join("trace"))["summary"];
    assert_eq!((&summary["flows"], &summary["complete"]), (&10.into(), &10.into()), "{summary}");
    world.run("dom0", "ip link del xw0");
    world.reset("vm1");
}

#[test]
fn a_guest_that_is_reset_ends_its_part_and_can_be_recorded_again() {
    let Some(world) = World::as_it_is("xen reset") else { return };
    let record = |trace: &str| {
        let sending =
            "-e 'execution(xennet_start_xmit@vm1, xenvif_start_xmit@dom0) { STORE_DATA1(skb->len); }'";
        world.record_in("dom0", &format!("{sending} {DOMAINS} -o {trace}"))
    };
    let boot = || world.run("vm1", "cat /proc/sys/kernel/random/boot_id");
    let (before, recording) = (boot(), record("/tmp/reset"));
    world.reset("vm1");
    assert_ne!(boot(), before);
    let (status, log) = recording.finish();
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("domain vm1 was lost"), "{log}");
    world.until("dom0", "! grep -q direct /sys/kernel/tracing/enabled_functions");

    let recording = record("/tmp/again");
    world.run("dom0", "ping -c 1 vm1");
    recording.finish_well();
}

#[test]
fn only_dom0_enters_its_guests() {
    let Some(world) = World::as_it_is("xen enter") else { return };
    let enter = |domain, guest| {
        let output = world.try_run(domain, &format!("xweave lab enter {guest} -- hostname"));
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    assert_eq!(enter("dom0", "vm1"), (Some(0), "vm1\n".to_owned()));
    let (status, said) = enter("dom0", "vm9");
    assert!(status == Some(125) && said.contains("vm9"), "{said}");
    let (status, said) = enter("vm1", "vm1");
    assert!(status == Some(125) && said.contains("xweave lab exec"), "{said}");
}

#[test]
fn what_a_paravirtual_guest_may_not_do_is_trapped() {
    let Some(world) = World::as_it_is("cost of Xen") else { return };
    let document = crate::cost::measure(&world, "xen-pv");
    crate::cost::assert_whole(&document);
    let cycles = |name| crate::cost::cycles(&document, "xen-pv", name);
    assert!(
        cycles("clts") > cycles("fpu_taskswitch"),
        "an emulated instruction costs more than the hypercall"
    );
    let rows = document["rows"].as_array().unwrap();
    let clts = rows.iter().find(|row| row["name"] == "clts").unwrap();
    assert!(clts["hypervisor_action"]["xen-pv"].as_str().unwrap().starts_with("trapped, emulated"), "{clts}");
}
