//! Every packet that an independent capture sees is a flow that crossed, with the right identity.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::{
    capture::sequence_numbers,
    world::{DOMAINS, World},
};

/// Wherever a packet passes.
const PASSED: &str = "execution(__dev_queue_xmit@guest, br_handle_frame_finish@host, tun_net_xmit@host, \
                      __udp_enqueue_schedule_skb@guest) AND xflow(packet, skb)";

/// Stores the sequence number that the sender wrote into the payload of a packet, where it passes there: what a flow
/// carries then speaks for itself. Values: number, whether the magic was there.
pub fn witness(pointcut: &str) -> String {
    format!(
        r#"advice witness {pointcut} {{
    unsigned char *payload = skb->head + skb->network_header + 28;
    u64 magic = 0, number = 0;
    bpf_probe_read_kernel(&magic, sizeof(magic), payload);
    bpf_probe_read_kernel(&number, sizeof(number), payload + 8);
    if (magic == {MAGIC:#x}ULL) /* "XWSEQ001" */
        STORE_DATA2(number, magic);
}}
"#
    )
}

const MAGIC: u64 = 0x3130_3051_4553_5758;

/// The numbers that a flow's hops witnessed, with the domains that did.
pub fn witnessed(flow: &Value) -> (HashSet<u64>, HashSet<String>) {
    let mut numbers = HashSet::new();
    let mut domains = HashSet::new();
    for hop in flow["hops"].as_array().unwrap() {
        let values: Vec<u64> = hop["values"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        if let [number, MAGIC] = values[..] {
            numbers.insert(number);
            domains.insert(hop["domain"].as_str().unwrap().to_owned());
        }
    }
    (numbers, domains)
}

#[test]
#[ignore = "minutes: make lab-test"]
fn ten_thousand_datagrams_of_two_queues_cross_under_their_own_identity() {
    let Some(world) = World::with_two_cpus("crossing") else { return };
    world.write("host", "witness.aspect", &witness(PASSED));
    let capture = {
        let mut capture =
            world.start("host", "exec tcpdump -i tap1 -Q in -s 128 -U -w /tmp/tap1.pcap udp port 9000");
        capture.wait_for("listening on");
        capture
    };
    let recording = world.record(&format!("virtio-net witness.aspect {DOMAINS} -o /tmp/crossing"));
    let receiver =
        world.start("vm2", "exec xweave lab load udp-recv --port 9000 --count 10000 --idle-timeout 20");
    world.until("vm2", "grep -q :2328 /proc/net/udp");
    world.run(
        "vm1",
        "xweave lab load udp-send --to 10.77.0.2:9000 --count 10000 --rate 1000 --senders 2 --size 64",
    );
    receiver.finish();
    recording.finish_well();
    world.run("host", "pkill -INT tcpdump; while pgrep tcpdump; do sleep 0.1; done");
    drop(capture);

    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/tap1.pcap", &dir.path().join("tap1.pcap"));
    world.pull("host", "/tmp/crossing", &dir.path().join("trace"));
    let seen: HashSet<u64> =
        sequence_numbers(&std::fs::read(dir.path().join("tap1.pcap")).unwrap()).into_iter().collect();
    let report = world.flows(&dir.path().join("trace"));
    let summary = &report["summary"];

    // Under emulation the guest may drop at its own queue; the capture is the measure, not the sender.
    assert!(seen.len() > 9_000, "the capture saw {} of 10,000", seen.len());
    let mut sound: HashMap<u64, u32> = HashMap::new();
    let mut mixed = Vec::new();
    for flow in report["flows"].as_array().unwrap() {
        let (numbers, domains) = witnessed(flow);
        let crossed_twice = ["vm1", "host", "vm2"].iter().all(|domain| domains.contains(*domain));
        match numbers.len() {
            0 => {}
            1 if crossed_twice && flow["complete"] == true => {
                *sound.entry(*numbers.iter().next().unwrap()).or_default() += 1;
            }
            1 => {}
            _ => mixed.push((flow["id"].clone(), numbers)),
        }
    }
    assert!(mixed.is_empty(), "flows that carry several datagrams: {mixed:?}");
    assert!(sound.values().all(|&flows| flows == 1), "datagrams that became several flows");
    let found = seen.iter().filter(|number| sound.contains_key(number)).count();
    println!("{found} of {} datagrams; {summary}", seen.len());
    assert!(
        found * 1000 >= seen.len() * 999,
        "{found} of the {} datagrams seen by tcpdump are whole flows; {summary}",
        seen.len()
    );
    assert_eq!(summary["lost"], 0, "{summary}");
    assert_eq!(summary["negative_gaps"], 0, "{summary}");
    // The host was told which they are, all of them.
    let carrier = &summary["carriers"][0];
    let crossed = carrier["crossings"].as_u64().unwrap();
    assert!(carrier["told"].as_u64().unwrap() * 2 >= crossed * 999 / 1000, "{carrier}");
}

#[test]
fn a_tcp_exchange_is_followed_from_send_to_receive() {
    let Some(world) = World::find("tcp") else { return };
    world.run(
        "vm2",
        "mkdir -p /tmp/www && head -c 3000 /dev/urandom >/tmp/www/page && busybox httpd -p 8080 -h /tmp/www",
    );
    let recording = world.record(&format!("virtio-net {DOMAINS} -o /tmp/tcp"));
    world.run(
        "vm1",
        "for i in 1 2 3 4 5; do busybox wget -q -O /dev/null http://10.77.0.2:8080/page || exit 1; done",
    );
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/tcp", &dir.path().join("trace"));
    world.keep(&dir.path().join("trace"), "lab-flows");
    let report = world.flows(&dir.path().join("trace"));
    let flows = report["flows"].as_array().unwrap();
    let hop_of = |flow: &Value, domain: &str, name: &str| {
        flow["hops"].as_array().unwrap().iter().any(|hop| hop["domain"] == domain && hop["function"] == name)
    };
    // A segment is read by itself, or as a part of what the receive queue put together while its reader slept.
    let read_in = |flow: &Value, domain: &str| {
        let mut parts = vec![flow];
        while let Some(part) = parts.pop() {
            if hop_of(part, domain, "skb_copy_datagram_iter") {
                return true;
            }
            parts.extend(flows.iter().filter(|of| of["parents"].as_array().unwrap().contains(&part["id"])));
        }
        false
    };
    let whole = |from: &str, to: &str| {
        let begins = |flow: &&Value| {
            flow["hops"][0]["domain"] == from && flow["hops"][0]["function"] == "tcp_skb_entail"
        };
        let whole = |flow: &&Value| flow["complete"] == true && read_in(flow, to);
        flows.iter().filter(begins).filter(whole).count()
    };
    // Five requests one way, five answers of at least one segment the other.
    assert!(whole("vm1", "vm2") >= 5, "requests: {}; {}", whole("vm1", "vm2"), report["summary"]);
    assert!(whole("vm2", "vm1") >= 5, "answers: {}; {}", whole("vm2", "vm1"), report["summary"]);
}

#[test]
fn a_command_is_a_transport_and_one_domain_alone_can_be_recorded() {
    let Some(world) = World::find("transports") else { return };
    // The agent of the host, behind a shell: what ssh would do. Under two names one kernel is refused.
    let recording = world.record(
        "-e 'execution(__dev_queue_xmit@host) { STORE_DATA1(skb->len); }' \
         --domain host='sh -c \"exec xweave agent --stdio\"' -o /tmp/alone",
    );
    world.run("host", "ping -c 3 10.77.0.1");
    let log = recording.finish_well();
    assert!(log.contains("records of host"), "{log}");
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/alone", &dir.path().join("trace"));
    let summary = &world.flows(&dir.path().join("trace"))["summary"];
    assert!(summary["records"].as_u64() >= Some(3), "{summary}");
}
