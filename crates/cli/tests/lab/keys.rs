//! Keys in messages: which belong to one call, where the sender says what it has sent.

use std::collections::HashMap;

use serde_json::Value;

use crate::world::World;

const PORT: u16 = 5061;

/// Requests, and how many of them in turn are a call; four calls are under way at once.
const REQUESTS: u64 = 96;
const PER_CALL: u64 = 3;

/// Requests a second.
const RATE: u64 = 8;

/// The call that the sender says its request is of: `udp-ask --per-call`.
fn call_of(request: u64) -> u64 {
    request / (PER_CALL * 4) * 4 + request % 4
}

/// The key of a call's messages. Like those of real calls it has signs in it that also stand between a header's name and its
/// value.
fn key_of(call: u64) -> String {
    format!("call={call}@xweave:5060")
}

/// A key as a table shows it: the first 8 bytes, and 16 bits of FNV-1a.
fn shown(key: &str) -> String {
    let hash = key
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{}… #{:04x}", &key[..8], hash & 0xffff)
}

#[test]
fn messages_of_a_call_are_known_by_their_key_whoever_answers() {
    let Some(world) = World::find("keys in messages") else { return };
    let serve = format!("exec xweave lab load udp-serve --port {PORT} --work 300 --thread-per-request");
    let mut server = world.start("vm1", &serve);
    server.wait_for("ready");
    // The first request of all has to ask for an address.
    let ask = format!("xweave lab load udp-ask --to 10.77.0.1:{PORT} --rate {RATE}");
    world.run("host", &format!("{ask} --requests 8"));

    let recording = world.record(&format!(
        "virtio-net --where 'udp port {PORT}' --events sched,net --key line:call-id --domain vm1=vsock:3 -o /tmp/keys --json"
    ));
    let asked = world.run("host", &format!("{ask} --requests {REQUESTS} --size 540 --per-call {PER_CALL}"));
    recording.finish_well();
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked["requests"], REQUESTS, "{asked}");

    // Each exchange has the key of the request that the sender's order tells.
    let json = |command: &str| -> Value { serde_json::from_str(&world.run("host", command)).unwrap() };
    let told = json("xweave flows /tmp/keys --by connection --all --json");
    let exchanges = told["exchanges"].as_array().unwrap();
    let mut requests = 0..REQUESTS;
    for exchange in exchanges {
        let is_its = |request| exchange["key"] == shown(&key_of(call_of(request)));
        assert!(
            requests.any(is_its),
            "this is none of those that were sent after the one before: {exchange}"
        );
        assert_eq!(exchange["repeats"], 0, "{exchange}");
    }
    // Kernels before 6.8 may skip a probe and tell nobody: then the flow has no end, but a key; or none, if that was the probe
    // that takes it. A few in a hundred, on a machine that is busy.
    let may_skip = world.run("host", "uname -r").starts_with("6.1.");
    assert!(may_skip || exchanges.len() as u64 == REQUESTS, "{} of {REQUESTS}", exchanges.len());
    let complete = exchanges.iter().filter(|exchange| exchange["complete"] == true).count() as u64;
    let missing = if may_skip { 5 } else { 3 };
    assert!(complete + missing >= REQUESTS, "{complete} of {REQUESTS}, {} with a key", exchanges.len());
    // And each answer is to the request of its own number: it has that one's bytes.
    let flows = json("xweave flows /tmp/keys --json");
    let keys: HashMap<u64, &Value> = {
        let flows = flows["flows"].as_array().unwrap().iter();
        flows.map(|flow| (flow["id"].as_u64().unwrap(), &flow["key"])).collect()
    };
    for exchange in exchanges {
        for flow in exchange["answer"]["flows"].as_array().unwrap() {
            assert_eq!(keys[&flow.as_u64().unwrap()], &exchange["key"], "{exchange}");
        }
    }

    let told = json(&format!("xweave explain /tmp/keys --transaction call:{PORT} --json"));
    let calls = told["transactions"].as_array().unwrap();
    assert!(calls.len() as u64 + (REQUESTS - complete) >= REQUESTS / PER_CALL, "{}", calls.len());
    for call in calls {
        let (parts, total) = (call["parts"].as_array().unwrap(), call["total_ns"].as_i64().unwrap());
        assert_eq!(parts.iter().map(|part| part["ns"].as_i64().unwrap()).sum::<i64>(), total, "{call}");
        // From its first request on: the last comes eight later, and late by half of that at most.
        assert!(total > 4 * 1_000_000_000 / i64::try_from(RATE).unwrap(), "{call}");
    }
    println!("{}", world.run("host", &format!("xweave explain /tmp/keys --transaction call:{PORT}")));
    world.run("host", "rm -r /tmp/keys");
}
