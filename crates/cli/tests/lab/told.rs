//! What a guest says of its own buffers, in memory that its host reads: believed of its own buffers alone.

use serde_json::Value;

use crate::world::{DOMAINS, World, assert_sound, hops};

/// In vm1, which lies about three of four buffers, after the library's aspect has said the truth: that they carry a flow
/// of vm2, another flow of its own, and nothing that could be understood.
const LIAR: &str = r"
advice lie
    execution(virtqueue_add_outbuf@vm1) AND xflow(packet, (u64)data & ~7UL, id)
{
    struct xw_key key = {
        .ring = READ(xw_vring(vq)->split.queue_dma_addr),
        .index = READ(xw_vring(vq)->split.avail_idx_shadow),
    };
    u64 xflow = XW_NAMED(packet);
    u32 at = XW_SLOTS_A_PAGE + xw_shared_place(&key, xflow);
    struct xw_shared_slot *slot = bpf_map_lookup_elem(&xw_shared_flows, &at);

    if ((key.index & 3) == 1)
        xw_offer(&key, xflow, id & ~0ULL >> 8 | 3ULL << 56);
    if ((key.index & 3) == 2)
        xw_offer(&key, xflow, id ^ 1 << 20);
    if (slot && (key.index & 3) == 3)
        slot->check = 7;
}
";

const COUNT: usize = 400;

#[test]
fn a_guest_that_lies_about_its_buffers_harms_its_own_flows_alone() {
    let Some(world) = World::find("a guest that lies") else { return };
    world.write("host", "liar.aspect", LIAR);
    let recording = world.record(&format!("virtio-net liar.aspect {DOMAINS} -o /tmp/liar"));
    let receivers = ["vm1", "vm2"].map(|guest| {
        let receive = format!("exec xweave lab load udp-recv --port 9020 --count {COUNT} --idle-timeout 120");
        let receiver = world.start(guest, &receive);
        world.until(guest, "grep -q :233C /proc/net/udp");
        receiver
    });
    for (from, to) in [("vm1", "10.77.0.2"), ("vm2", "10.77.0.1")] {
        world.run(
            from,
            &format!(
                "xweave lab load udp-send --to {to}:9020 --count {COUNT} --rate 200 --size 64 --bind-base 9021"
            ),
        );
    }
    receivers.into_iter().for_each(|receiver| drop(receiver.finish()));
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/liar", &dir.path().join("trace"));
    let report = world.flows(&dir.path().join("trace"));
    let summary = &report["summary"];
    assert_sound(&report);

    let datagrams = |source: &str| -> Vec<&Value> {
        let all = report["flows"].as_array().unwrap().iter();
        let is_of = |flow: &&Value| flow["frame"]["source"] == source && flow["frame"]["source_port"] == 9021;
        all.filter(is_of).collect()
    };
    let honest = datagrams("10.77.0.2");
    assert!(honest.len() >= COUNT * 99 / 100, "{} datagrams of vm2; {summary}", honest.len());
    for flow in &honest {
        assert_eq!(flow["complete"], true, "{flow}");
        assert_eq!(flow["id"].as_u64().unwrap() >> 56, 3, "{flow}");
        let (host, own) = (hops(flow, "host", "xout"), hops(flow, "vm2", "xin"));
        assert_eq!((host.len(), own.len()), (1, 1), "{flow}");
    }
    // Where the host sees that it cannot be, it finds out by the ring which flow it is. A flow that is the guest's own may
    // be: that the guest's records say otherwise is found out when they are joined.
    let mut seen = [0; 4];
    for flow in datagrams("10.77.0.1") {
        let Some(put) = hops(flow, "vm1", "xin").first().copied() else { continue };
        let lie = put["values"][1].as_u64().unwrap() % 4;
        seen[usize::try_from(lie).unwrap()] += 1;
        assert_eq!(flow["complete"] == true, lie != 2, "lie {lie}: {flow}");
    }
    assert!(seen.iter().all(|count| *count >= COUNT / 5), "{seen:?}; {summary}");
    let carrier = &summary["carriers"][0];
    assert!(carrier["contradicted"].as_u64() >= Some(COUNT as u64 / 5), "{carrier}");
    // All that is left: what vm2 says, and vm1 where it does not lie.
    assert!(carrier["told"].as_u64() >= Some(honest.len() as u64 + seen[0] as u64), "{carrier}");
    println!("{} of vm2, {seen:?} of vm1 by lie; {carrier}", honest.len());
}
