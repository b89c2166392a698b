//! Queueing disciplines of network devices.

use xweave_trace::event::{Connection, Kind};

use crate::{recorded::Recorded, world::World};

/// What the host's kernel counts of frames in a queueing discipline, and what is told of the requests that it held back.
#[test]
fn what_one_holds_back_is_recorded_and_named() {
    const DELAY: i64 = 20_000_000;
    const REQUESTS: usize = 30;
    let Some(world) = World::find("queueing disciplines") else { return };
    let server = world.start("vm2", "exec xweave lab load tcp-serve --port 9012");
    world.until("vm2", "grep -q :2334 /proc/net/tcp*");
    world.run("host", "tc qdisc add dev tap2 root netem delay 20ms");
    let recording =
        world.record("--events sched,net --domain vm1=vsock:3 --domain vm2=vsock:4 -o /tmp/events-qdisc");
    let sent = || {
        let told =
            world.run("host", "tc -s qdisc show dev tap2 | sed -n 's/.* bytes \\([0-9]*\\) pkt.*/\\1/p'");
        told.trim().parse::<usize>().unwrap()
    };
    let before = sent();
    world.run(
        "vm1",
        &format!("xweave lab load tcp-get --to 10.77.0.2:9012 --requests {REQUESTS} --concurrency 1"),
    );
    let inner = sent() - before;
    recording.finish_well();
    let outer = sent() - before;
    world.run("host", "tc qdisc del dev tap2 root");
    world.kill("vm2", "xweave lab load tcp-serve");
    drop(server);

    let recorded = Recorded::pull(&world, "/tmp/events-qdisc");
    let out: Vec<_> = recorded.of("host", &[Kind::QdiscDequeue]).collect();
    assert!((inner..=outer).contains(&out.len()) && inner >= REQUESTS, "{} of {inner} to {outer}", out.len());
    for event in &out {
        assert_eq!(recorded.names.text(event.name), "tap2", "{event:?}");
    }
    let mut held = 0;
    for event in recorded.of("host", &[Kind::QdiscEnqueue]) {
        assert_eq!(recorded.names.text(event.name), "netem", "{event:?}");
        let came_out = out.iter().find(|out| out.other == event.other && out.time_ns >= event.time_ns);
        // The delay begins before the event, and an interrupt may come in between.
        let (waited, device) =
            came_out.map_or((DELAY, event.object), |out| (out.time_ns - event.time_ns, out.object));
        assert!(waited > DELAY / 2 && device == event.object, "{waited}: {event:?}");
        let connection = Connection(event.position);
        held += usize::from(connection.remote_port() == 9012 && !connection.is_loopback());
    }
    assert!(held >= REQUESTS, "{held} frames to the server");

    let document = world.explain("/tmp/events-qdisc", "request:9012");
    let transactions = document["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), REQUESTS, "{document}");
    let parts = transactions.iter().flat_map(|one| one["parts"].as_array().unwrap());
    let (mut told, mut requests) = (0, 0);
    for part in parts.filter(|part| part["state"] == "qdisc") {
        assert_eq!((&part["object"], &part["domain"]), (&"netem of tap2".into(), &"host".into()), "{part}");
        told += part["ns"].as_i64().unwrap();
        requests += 1;
    }
    // While client and server still run, the time is theirs: on one CPU, mostly when the first request comes.
    println!("{requests} of {REQUESTS} requests: {told} ns");
    assert!(
        requests * 3 >= REQUESTS * 2 && told >= DELAY * i64::try_from(REQUESTS).unwrap() / 2,
        "{document}"
    );
}
