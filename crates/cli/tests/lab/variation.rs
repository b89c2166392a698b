//! Why response time varies, where the cause is known because it was made: each is named first.

use serde_json::Value;

use crate::world::World;

/// Requests of a run, and how many a second.
const REQUESTS: u64 = 300;
const RATE: u64 = 20;

const PORT: u16 = 5060;

/// Where a server does not answer each twelfth request.
const FORGETFUL: u16 = 5062;

/// What `xweave vary` finds while vm1 serves requests of the host, and something else goes on in a domain.
fn vary(world: &World, port: u16, ask: &str, meanwhile: Option<(&str, &str)>) -> Value {
    let recording = world.record(&format!(
        "virtio-net --where 'udp port {port}' --events sched,net,vm --key line:Call-ID --domain vm1=vsock:3 \
         -o /tmp/vary --json"
    ));
    let disturbing = meanwhile.map(|(domain, script)| world.start(domain, script));
    let asked = world.run(
        "host",
        &format!(
            "xweave lab load udp-ask --to 10.77.0.1:{port} --requests {REQUESTS} --rate {RATE} --size 540 \
             --per-call 1 {ask}"
        ),
    );
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked["requests"], REQUESTS, "{asked}");
    drop(disturbing);
    recording.finish_well();
    let told = world.run("host", &format!("xweave vary /tmp/vary --transaction exchange:{port} --json"));
    let text = world.run("host", "xweave vary /tmp/vary");
    world.run("host", "rm -r /tmp/vary");
    println!("{text}");
    let told: Value = serde_json::from_str(&told).unwrap();
    // Every request is found, and its segments sum to its time: so do the shares.
    assert_eq!(told["requests"], REQUESTS, "{text}");
    let sum = |of: &str, share: &str| -> f64 {
        told[of].as_array().unwrap().iter().map(|one| one[share].as_f64().unwrap()).sum()
    };
    for of in ["segments", "causes"] {
        for share in ["share_of_variance", "share_of_tail"] {
            assert!((sum(of, share) - 1.0).abs() < 1e-6, "{of}, {share}: {}", sum(of, share));
        }
    }
    told
}

/// The cause that is named first, and who did it.
fn first(told: &Value) -> (&str, &str) {
    let first = &told["causes"][0];
    assert_eq!(first["named"], true, "{first}");
    (first["kind"].as_str().unwrap(), first["by"].as_str().unwrap_or_default())
}

#[test]
fn what_makes_requests_vary_is_named_first() {
    let Some(world) = World::find("what makes requests vary") else { return };
    let serve = format!("xweave lab load udp-serve --port {PORT} --work 300");
    let mut server = world.start("vm1", &format!("echo $$ >/tmp/server; exec {serve}"));
    server.wait_for("ready");

    // The first request of all has to ask for an address.
    world.run("host", &format!("xweave lab load udp-ask --to 10.77.0.1:{PORT} --requests 20 --rate 20"));
    let bursts = vary(&world, PORT, "--burst 12", None);
    assert_eq!(first(&bursts).0, "batch_arrival");
    let socket =
        bursts["segments"].as_array().unwrap().iter().find(|of| of["name"] == "request, socket of vm1");
    assert!(socket.is_some_and(|of| of["others"]["max"].as_u64() >= Some(3)), "{socket:?}");

    let neighbour = vary(&world, PORT, "", Some(("host", "while :; do :; done")));
    assert_eq!(first(&neighbour), ("vcpu_preempted", "sh"));

    let stops = "while :; do kill -STOP $(cat /tmp/server); sleep 0.4; kill -CONT $(cat /tmp/server); sleep 0.8; done";
    let stopped = vary(&world, PORT, "", Some(("vm1", stops)));
    world.run("vm1", "kill -CONT $(cat /tmp/server)");
    assert_eq!(first(&stopped).0, "stopped");

    // As SIP has it: what is not answered is sent again.
    let mut forgetful = world.start(
        "vm1",
        &format!("exec xweave lab load udp-serve --port {FORGETFUL} --work 300 --ignore-every 12"),
    );
    forgetful.wait_for("ready");
    let again = vary(&world, FORGETFUL, "--retry 400", None);
    assert_eq!(first(&again).0, "retransmit");
}
