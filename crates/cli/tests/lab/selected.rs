//! `--where`: followed is what tcpdump captures with the same filter, wherever it begins.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    capture::{Captures, Words},
    frames::{is_whole, words_of},
    world::{DOMAINS, World, assert_sound, hops},
};

/// The host's ends of the guests' cables.
const DEVICES: [(&str, &str); 2] = [("tap1", ""), ("tap2", "")];

/// From the host, and between the guests: TCP, UDP, ICMP, ARP.
const LOAD: &str = r#"
for turn in 1 2 3 4; do
    for port in 8091 8092; do
        exec 3<>/dev/tcp/10.77.0.1/$port && head -c 20000 /dev/zero | tr '\0' x >&3 && head -c 20000 <&3 >/dev/null || exit 1
        exec 3>&-
    done
    ip neigh flush dev br0 >/dev/null
    ping -q -c 2 10.77.0.2 || exit 1
    xweave lab load udp-send --to 10.77.0.1:9031 --count 20 --rate 500 || exit 1
    xweave lab load udp-send --to 10.77.0.1:9032 --count 20 --rate 500 || exit 1
done
"#;

/// What is recorded with a filter, and what tcpdump captures with it at the guests' devices.
struct Recorded {
    report: Value,
    /// While the load ran.
    meanwhile: HashSet<Words>,
    /// From before the recording began until after it ended.
    around: HashSet<Words>,
}

fn seen(captures: Captures<'_>) -> HashSet<Words> {
    captures.finish().into_iter().flat_map(|(_, frames)| frames).collect()
}

fn recorded(world: &World, filter: &str) -> Recorded {
    let around = Captures::start(world, "around", &DEVICES, filter);
    let recording = world.record(&format!("virtio-net {DOMAINS} --where '{filter}' -o /tmp/selected"));
    let meanwhile = Captures::start(world, "meanwhile", &DEVICES, filter);
    world.run("host", "bash /tmp/load.sh");
    world.run(
        "vm2",
        "for port in 9031 9032; do
             xweave lab load udp-send --to 10.77.0.1:$port --count 50 --rate 500 || exit 1
         done
         xweave lab load udp-send --to 10.77.0.1:9032 --count 30 --rate 500 --unconnected",
    );
    let meanwhile = seen(meanwhile);
    recording.finish_well();
    let around = seen(around);
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/selected", &dir.path().join("trace"));
    Recorded { report: world.flows(&dir.path().join("trace")), meanwhile, around }
}

/// Each captured frame is a whole flow, and nothing else is followed. Gives the flows.
fn the_same(Recorded { report, meanwhile, around }: &Recorded) -> &[Value] {
    let summary = &report["summary"];
    assert_sound(report);
    let flows = report["flows"].as_array().unwrap();
    let whole: HashSet<Words> = flows.iter().filter(|flow| is_whole(flow)).flat_map(words_of).collect();
    let missing: Vec<_> = meanwhile.difference(&whole).collect();
    let (of, seen) = (flows.len(), meanwhile.len());
    println!("{of} flows, {seen} frames captured, {} of them no whole flows", missing.len());
    assert!(missing.is_empty(), "{} of {seen}: {:x?}; {summary}", missing.len(), missing[0]);
    // What TCP keeps for retransmission, or gave to a device in other pieces, has no frame of its own on a wire.
    let strange = |flow: &&Value| {
        let frame = &flow["frame"];
        !frame.is_null() && frame["kind"] != "TCP data" && words_of(flow).is_disjoint(around)
    };
    // Of what a guest sends when it is not woven yet, or no more, its host cannot know that nobody follows it.
    let untold = |flow: &&Value| {
        let first = &flow["hops"][0];
        flow["complete"] == false && first["domain"] == "host" && first["kind"] == "xout"
    };
    let (untold, strange): (Vec<_>, Vec<_>) = flows.iter().filter(strange).partition(untold);
    assert!(strange.is_empty(), "{} of {of} were not captured: {}", strange.len(), strange[0]);
    println!("{} of a guest that was not woven", untold.len());
    assert!(untold.len() <= 4, "{} of {of} were not captured: {}", untold.len(), untold[0]);
    flows
}

#[test]
#[ignore = "minutes: make lab-test"]
fn followed_is_what_tcpdump_captures_with_the_same_filter() {
    let Some(world) = World::find("frames that a filter selects") else { return };
    world.write("host", "/tmp/load.sh", LOAD);
    let servers = [("8091", "1F9B"), ("8092", "1F9C")].map(|(port, hex)| {
        let server = world.start("vm1", &format!("exec busybox nc -ll -p {port} -e cat"));
        world.until("vm1", &format!("cat /proc/net/tcp /proc/net/tcp6 | grep -q ':{hex} .* 0A '"));
        server
    });
    let receivers = [("9031", "2347"), ("9032", "2348")].map(|(port, hex)| {
        let receive =
            format!("exec xweave lab load udp-recv --port {port} --count 100000 --idle-timeout 120");
        let receiver = world.start("vm1", &receive);
        world.until("vm1", &format!("grep -q :{hex} /proc/net/udp"));
        receiver
    });

    let recording = recorded(&world, "tcp port 8091 or icmp or udp dst port 9031");
    let flows = the_same(&recording);
    let of = |kind: &str, key: &str, port: u16| {
        let is = |flow: &&Value| {
            let frame = &flow["frame"];
            frame["kind"].as_str().is_some_and(|of| of.starts_with(kind)) && (port == 0 || frame[key] == port)
        };
        flows.iter().filter(is).count()
    };
    let (ours, others) = (of("TCP", "target_port", 8091), of("TCP", "target_port", 8092));
    println!("TCP {ours}, ICMP {}, UDP {}", of("ICMP", "", 0), of("UDP", "target_port", 9031));
    assert!(ours > 20 && others == 0 && of("TCP", "source_port", 8092) == 0, "{ours}, {others}");
    assert!(of("TCP", "source_port", 8091) > 20);
    assert_eq!((of("ICMP echo reply", "", 0), of("ARP", "", 0)), (8, 0));
    assert_eq!((of("UDP", "target_port", 9031), of("UDP", "target_port", 9032)), (130, 0));
    let begins = |flow: &Value, function: &str| flow["hops"][0]["function"] == function;
    let of_vm2 =
        |flow: &&Value| !hops(flow, "vm2", "start").is_empty() && flow["frame"]["target_port"] == 9031;
    let sent: Vec<_> = flows.iter().filter(of_vm2).collect();
    assert!(sent.len() == 50 && sent.iter().all(|flow| begins(flow, "udp_sendmsg")), "{}", sent.len());

    // Of a socket without an address, it is known where datagrams come from when IP has found their way.
    let recording = recorded(&world, "udp and src 10.77.0.2 or arp");
    let flows = the_same(&recording);
    let udp: Vec<_> = flows.iter().filter(|flow| flow["frame"]["kind"] == "UDP").collect();
    let from = |function: &str| udp.iter().filter(|flow| begins(flow, function)).count();
    assert_eq!((udp.len(), from("udp_sendmsg"), from("__dev_queue_xmit")), (130, 100, 30));
    let arp = flows.iter().filter(|flow| flow["frame"]["kind"] == "ARP reply").count();
    println!("UDP {}, ARP replies {arp}", udp.len());
    assert!(arp >= 4, "{arp}");
    drop((servers, receivers));
}
