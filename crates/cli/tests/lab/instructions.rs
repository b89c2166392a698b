//! Instructions as join points: what they touch can be read there, and only what belongs to a flow is recorded.

use serde_json::Value;

use crate::world::World;

/// Packets of one size begin flows; others pass the same instructions beside them.
const ASPECT: &str = "\
xflow echo {
    start execution(ip_rcv_core@vm1) AND if(skb->len == 128) select skb;
    quit  execution(skb_release_head_state@vm1) select skb;
}
advice entry execution(ip_rcv_core@vm1) AND xflow(echo, skb) { STORE_DATA2(skb->len, skb->dev->ifindex); }
advice every_length access(sk_buff.len) AND within_function(ip_rcv_core@vm1) AND target(packet)
    AND xflow(echo, packet, id) { STORE_DATA3(packet->len, packet->dev->ifindex, id); }
advice argument access(sk_buff.len) AND within_function(ip_rcv_core@vm1) AND arg(skb, packet)
    AND xflow(echo, packet, id) { STORE_DATA3(packet->len, packet->dev->ifindex, id); }
advice first_length first access(sk_buff.len) AND within_function(ip_rcv_core@vm1) AND target(packet)
    AND xflow(echo, packet) { STORE_DATA2(packet->len, packet->dev->ifindex); }
advice in_function function access(sk_buff.%) AND within_function(icmp_rcv@vm1) AND target(packet)
    AND xflow(echo, packet) { STORE_DATA2(packet->len, 0); }
";

#[test]
#[ignore = "minutes: make lab-test"]
fn what_is_touched_is_seen_and_only_what_is_followed() {
    let Some(world) = World::find("instructions") else { return };
    world.index_code();
    world.write("host", "instructions.aspect", ASPECT);
    let recording = world.record("instructions.aspect --domain vm1=vsock:3 -o /tmp/instructions");
    world.run("vm2", "busybox ping -c 5 -s 100 10.77.0.1 && busybox ping -c 5 -s 200 10.77.0.1");
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("trace");
    world.pull("host", "/tmp/instructions", &local);
    let report = world.flows(&local);

    let flows = report["flows"].as_array().unwrap();
    let begun: Vec<_> = flows.iter().filter(|flow| flow["complete"] == true).collect();
    assert!(begun.len() >= 5, "{}", report["summary"]);
    let advice = |site: &Value| {
        let sites = report["sites"].as_array().unwrap();
        sites.iter().find(|other| other["site"] == *site).unwrap()["advice"].as_str().unwrap().to_owned()
    };
    for flow in &begun {
        let hops: Vec<(String, Vec<u64>)> = flow["hops"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|hop| hop["kind"] == "hop")
            .map(|hop| {
                let values = hop["values"].as_array().unwrap().iter().map(|value| value.as_u64().unwrap());
                (advice(&hop["site"]), values.collect())
            })
            .collect();
        let of = |name: &str| hops.iter().filter(|(of, _)| of == name).collect::<Vec<_>>();
        // The function's own parameter tells the truth.
        let [(_, truth)] = of("entry")[..] else { panic!("{hops:?}") };
        assert_eq!(truth[0], 128, "{hops:?}");
        for name in ["every_length", "argument"] {
            let every = of(name);
            assert!(!every.is_empty(), "{name}: {hops:?}");
            assert!(every.iter().all(|(_, values)| values[..2] == truth[..]), "{name}: {hops:?}");
            assert!(every.iter().all(|(_, values)| values[2] != 0), "{name}: {hops:?}");
        }
        let first = of("first_length");
        assert!(!first.is_empty() && first.len() < of("every_length").len(), "{hops:?}");
        assert!(first.iter().all(|(_, values)| values == truth), "{hops:?}");
        // The headers of IP are behind the packet's beginning there.
        assert!(of("in_function").iter().all(|(_, values)| values[0] == 108), "{hops:?}");
        assert_eq!(of("in_function").len(), 1, "{hops:?}");
    }
    let offsets = report["sites"].as_array().unwrap().iter().filter(|site| site["advice"] == "every_length");
    assert!(offsets.clone().count() > 1);
}
