//! Every frame that an independent capture sees is a flow with a beginning and an end, and says what it is.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use serde_json::Value;

use crate::{
    capture::{Captures, Words},
    world::{DOMAINS, World, assert_sound},
};

/// A namespace of the host with an end of the bridge, to which the host must cut large segments itself.
const CLIENT: &str = "ip netns add client && ip link add port type veth peer name eth0 netns client &&
     ethtool -K port tso off gso off && ip link set port master br0 up &&
     ip -n client link set eth0 up && ip -n client addr add 10.77.0.200/16 dev eth0";

/// Clients of guests, on the bridge itself and in the namespace: TCP, UDP, ICMP; and ARP, whose answers are forgotten.
const FROM_OUTSIDE: &str = r#"
get() { exec 3<>/dev/tcp/$1/8090 && printf 'GET /page HTTP/1.0\r\n\r\n' >&3 && cat <&3 | wc -c; }
for client in host client; do
    run=; [ $client = host ] || run="ip netns exec client"
    for turn in 1 2 3; do
        $run ip neigh flush dev $([ $client = host ] && echo br0 || echo eth0) >/dev/null
        for guest in 10.77.0.1 10.77.0.2; do
            $run bash -c "$(declare -f get); get $guest" | grep -qx 150[0-9]* || exit 1
        done
    done
    $run ping -q -c 3 10.77.0.1 && $run ping -q -c 3 -s 4000 10.77.0.2 || exit 1
    $run xweave lab load udp-send --to 10.77.0.1:9010 --count 100 --rate 500 || exit 1
done
"#;

/// The words of a flow's records of kind `frame`.
pub fn words_of(flow: &Value) -> HashSet<Words> {
    let hops = flow["hops"].as_array().unwrap().iter();
    hops.filter(|hop| hop["kind"] == "frame")
        .map(|hop| {
            let values = hop["values"].as_array().unwrap().iter().map(|value| value.as_u64().unwrap());
            values.collect::<Vec<u64>>().try_into().unwrap()
        })
        .collect()
}

/// The flows that have a frame, by its words.
pub fn by_frame(report: &Value) -> HashMap<Words, Vec<&Value>> {
    let mut flows: HashMap<Words, Vec<&Value>> = HashMap::new();
    for flow in report["flows"].as_array().unwrap() {
        for words in words_of(flow) {
            flows.entry(words).or_default().push(flow);
        }
    }
    flows
}

/// Whether a flow is known from its beginning to where it was used up or, by the kernel's own word, dropped.
pub fn is_whole(flow: &Value) -> bool {
    flow["complete"] == true || flow["incomplete"] == "dropped"
}

#[test]
fn every_frame_that_a_capture_sees_is_a_flow_with_a_beginning_and_an_end() {
    let Some(world) = World::find("every frame, both ways") else { return };
    for guest in ["vm1", "vm2"] {
        world.run(
            guest,
            "mkdir -p /tmp/frames && head -c 150000 /dev/urandom >/tmp/frames/page &&
             busybox httpd -p 8090 -h /tmp/frames",
        );
    }
    world.run("host", CLIENT);
    let recording = world.record(&format!("virtio-net {DOMAINS} -o /tmp/frames"));
    // Once all is woven, which takes a busy machine minutes.
    let receivers = ["vm1", "vm2"].map(|guest| {
        let receive = "exec xweave lab load udp-recv --port 9010 --count 1000 --idle-timeout 120";
        let receiver = world.start(guest, receive);
        world.until(guest, "grep -q :2332 /proc/net/udp");
        receiver
    });
    let devices = [("tap1", ""), ("tap2", ""), ("eth0", "ip netns exec client ")];
    let captures = Captures::start(&world, "frames", &devices, "net 10.77.0.0/16");
    world.write("host", "/tmp/from-outside.sh", FROM_OUTSIDE);
    world.run("host", "bash /tmp/from-outside.sh");
    world.run(
        "vm1",
        "ip neigh flush dev eth0
         for i in 1 2 3; do busybox wget -q -O /dev/null http://10.77.0.2:8090/page || exit 1; done
         xweave lab load udp-send --to 10.77.0.2:9010 --count 200 --rate 500 --senders 2",
    );
    let captured = captures.finish();
    recording.finish_well();
    drop(receivers);
    world.run("host", "ip netns del client");

    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    world.pull("host", "/tmp/frames", &trace);
    let report = world.flows(&trace);
    let summary = &report["summary"];
    assert_sound(&report);
    let flows = by_frame(&report);
    let mut cut = Vec::new();
    for (device, seen) in captured {
        let device = device.as_str();
        let of = |words: &Words| flows.get(words).map_or(&[][..], Vec::as_slice);
        let whole = seen.iter().filter(|words| of(words).iter().any(|flow| is_whole(flow))).count();
        let kinds: HashSet<&str> =
            seen.iter().flat_map(&of).filter_map(|flow| flow["frame"]["kind"].as_str()).collect();
        println!("{device}: {whole} of {} frames; {kinds:?}", seen.len());
        let first = seen.iter().find(|words| of(words).is_empty());
        assert!(
            whole * 1000 >= seen.len() * 999 && seen.len() > 300,
            "{whole} of {} frames seen at {device} are whole flows; this is none: {first:x?}; {summary}",
            seen.len()
        );
        for kind in [
            "TCP SYN",
            "TCP SYN-ACK",
            "TCP data",
            "TCP ACK",
            "TCP FIN",
            "UDP",
            "ICMP echo reply",
            "ARP reply",
        ] {
            assert!(
                kinds.contains(kind) || (device, kind) == ("tap2", "ICMP echo reply"),
                "{device}: no {kind}"
            );
        }
        if device == "eth0" {
            cut = seen;
        }
    }
    all_are_whole(&report);
    what_the_host_cut_has_parents(&report, &flows, &cut);
    what_the_bridge_flooded_has_children(&report);
    requests_are_found(&world, &trace, &report);
}

/// Of all flows between these ends, hardly any began or ended where nobody saw it.
fn all_are_whole(report: &Value) {
    let ours = |flow: &&Value| {
        let end = |key: &str| flow["frame"][key].as_str().is_none_or(|address| address.starts_with("10.77."));
        end("source") && end("target")
    };
    let flows: Vec<&Value> = report["flows"].as_array().unwrap().iter().filter(ours).collect();
    let parts: Vec<_> = flows.iter().filter(|flow| !is_whole(flow)).collect();
    println!("{} of {} flows are whole", flows.len() - parts.len(), flows.len());
    assert!(parts.len() * 1000 <= flows.len(), "{} of {} are not: {}", parts.len(), flows.len(), parts[0]);
}

/// What came to the namespace in frames of a wire's size was cut off larger ones, whose bytes those are.
fn what_the_host_cut_has_parents(report: &Value, flows: &HashMap<Words, Vec<&Value>>, cut: &[Words]) {
    let by_id: HashMap<u64, &Value> = (report["flows"].as_array().unwrap().iter())
        .map(|flow| (flow["id"].as_u64().unwrap(), flow))
        .collect();
    let range = |flow: &Value| {
        let number = |key: &str| flow["frame"][key].as_u64().unwrap_or(0);
        (number("sequence"), number("sequence") + number("bytes"))
    };
    let mut children = 0;
    let mut wrong = Vec::new();
    for flow in cut.iter().filter_map(|words| flows.get(words)?.first()) {
        // Others TCP cut off what it had not sent yet.
        let by_host =
            flow["hops"][0]["domain"] == "host" && flow["hops"][0]["function"] == "__skb_gso_segment";
        let parent =
            flow["parents"].as_array().unwrap().first().and_then(|id| by_id.get(&id.as_u64().unwrap()));
        let Some(parent) = parent.filter(|_| by_host) else { continue };
        let ((from, to), (first, last)) = (range(flow), range(parent));
        children += 1;
        let crossed = parent["crossings"].as_u64() >= Some(1);
        if !(first <= from && to <= last && crossed) {
            wrong.push((from, to, first, last));
        }
    }
    println!("{children} frames were cut off larger ones");
    assert!(children >= 100 && wrong.is_empty(), "{children} have parents; not with their bytes: {wrong:?}");
}

/// A question to everybody has a flow for each port of the bridge.
fn what_the_bridge_flooded_has_children(report: &Value) {
    let flows = report["flows"].as_array().unwrap();
    let asks = |flow: &&Value| flow["frame"]["kind"] == "ARP request";
    let asked: HashSet<u64> = flows.iter().filter(asks).map(|flow| flow["id"].as_u64().unwrap()).collect();
    let is_child = |flow: &&Value| {
        let parents = flow["parents"].as_array().unwrap().iter();
        asks(flow) && parents.flat_map(Value::as_u64).any(|parent| asked.contains(&parent))
    };
    let arrived = flows.iter().filter(is_child).filter(|flow| flow["crossings"].as_u64() >= Some(1)).count();
    println!("{arrived} copies of {} ARP requests came to guests", asked.len());
    assert!(arrived >= 2, "{arrived} copies of {} ARP requests came to guests", asked.len());
}

/// Each of the clients' requests is one, from where it was sent to where its answer was received. One of whose frames a
/// kernel says that it dropped (and TCP sent again) is not complete.
fn requests_are_found(world: &World, trace: &Path, report: &Value) {
    let output =
        world.xweave().arg("flows").arg(trace).args(["--by", "connection", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let services = document["services"].as_array().unwrap();
    let of = |client: &str, server: &str| {
        let found = services.iter().find(|of| of["client_domain"] == client && of["server"] == server);
        found.map_or(0, |of| of["exchanges"].as_u64().unwrap())
    };
    let flows = report["flows"].as_array().unwrap().iter();
    let dropped: HashSet<u64> =
        flows.filter(|flow| !flow["dropped"].is_null()).map(|flow| flow["id"].as_u64().unwrap()).collect();
    let mut incomplete = 0;
    for exchange in document["exchanges"].as_array().unwrap() {
        let mut of =
            ["request", "answer"].iter().flat_map(|side| exchange[side]["flows"].as_array().unwrap());
        let any_dropped = of.any(|flow| dropped.contains(&flow.as_u64().unwrap()));
        assert_eq!(exchange["complete"], !any_dropped, "{exchange}");
        incomplete += u64::from(any_dropped);
    }
    println!("{incomplete} requests with frames that were dropped");
    // Three each of the bridge's client and the namespace's, and vm1's own.
    assert_eq!(of("host", "10.77.0.1:8090"), 6, "{services:?}");
    assert_eq!(of("host", "10.77.0.2:8090"), 6, "{services:?}");
    assert_eq!(of("vm1", "10.77.0.2:8090"), 3, "{services:?}");
    assert_eq!(of("host", "10.77.0.1:0"), 6, "echoes: {services:?}");
    for exchange in document["exchanges"].as_array().unwrap() {
        let number = |value: &Value| value.as_i64().unwrap();
        let parts: i64 = exchange["parts"].as_array().unwrap().iter().map(|part| number(&part["ns"])).sum();
        assert_eq!(parts, number(&exchange["end_ns"]) - number(&exchange["start_ns"]), "{exchange}");
    }
    let page = |exchange: &&Value| exchange["connection"]["server"].as_str().unwrap().ends_with(":8090");
    for exchange in document["exchanges"].as_array().unwrap().iter().filter(page) {
        assert!(exchange["answer"]["bytes"].as_u64() >= Some(150_000), "{exchange}");
    }
}
