//! What holds messages back on their way: queueing disciplines, next hops whose addresses are not known, TCP.

use serde_json::Value;
use xweave_trace::event::{Connection, Event, HoldReason, Kind};

use crate::{recorded::Recorded, world::World};

/// What the host's kernel counts of frames in a queueing discipline, and what is told of the requests that it held back.
#[test]
fn what_a_queueing_discipline_holds_back_is_recorded_and_named() {
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
    let held = times_held(&document, REQUESTS, "qdisc", "netem of tap2", "host");
    let (requests, told) = (held.len(), held.iter().sum::<i64>());
    // While client and server still run, the time is theirs: on one CPU, mostly when the first request comes.
    println!("{requests} of {REQUESTS} requests: {told} ns");
    assert!(
        requests * 3 >= REQUESTS * 2 && told >= DELAY * i64::try_from(REQUESTS).unwrap() / 2,
        "{document}"
    );
}

/// Of each request of a document that was held back in a state: for how long, which has to be by that object alone.
fn times_held(document: &Value, requests: usize, state: &str, object: &str, domain: &str) -> Vec<i64> {
    let transactions = document["transactions"].as_array().unwrap();
    assert_eq!(transactions.len(), requests, "{document}");
    let parts = transactions.iter().flat_map(|one| one["parts"].as_array().unwrap());
    let of_state = parts.filter(|part| part["state"] == state);
    let time = |part: &Value| {
        assert_eq!((&part["object"], &part["domain"]), (&object.into(), &domain.into()), "{part}");
        part["ns"].as_i64().unwrap()
    };
    of_state.map(time).collect()
}

/// The guest forgets an address before each request, and the host is late with the answer.
#[test]
fn what_waits_for_an_address_is_recorded_and_named() {
    const DELAY: i64 = 20_000_000;
    const REQUESTS: usize = 10;
    let Some(world) = World::find("next hops whose addresses are not known") else { return };
    let server = world.start("vm2", "exec xweave lab load udp-serve --port 9015");
    world.until("vm2", "grep -q :2337 /proc/net/udp*");
    // Else the server's kernel may ask for the client's address, and the client's learns the server's from that.
    let client = world.run("vm1", "cat /sys/class/net/eth0/address");
    world.run("vm2", &format!("arp -s 10.77.0.1 {}", client.trim()));
    world.run(
        "host",
        "tc qdisc add dev tap1 root handle 1: prio; tc qdisc add dev tap1 parent 1:3 handle 3: netem delay 20ms; \
         tc filter add dev tap1 parent 1: protocol arp prio 1 u32 match u32 0 0 flowid 1:3; \
         tc filter add dev tap1 parent 1: protocol ip prio 2 u32 match u32 0 0 flowid 1:1",
    );
    let recording =
        world.record("--events sched,net --domain vm1=vsock:3 --domain vm2=vsock:4 -o /tmp/events-neigh");
    world.run(
        "vm1",
        &format!(
            "for of in $(seq {REQUESTS}); do ip neigh flush dev eth0; \
             xweave lab load udp-ask --to 10.77.0.2:9015 --requests 1 || exit 1; done"
        ),
    );
    recording.finish_well();
    world.run("host", "tc qdisc del dev tap1 root");
    world.run("vm2", "arp -d 10.77.0.1");
    world.kill("vm2", "xweave lab load udp-serve");
    drop(server);

    let recorded = Recorded::pull(&world, "/tmp/events-neigh");
    let resolved: Vec<_> = recorded.of("vm1", &[Kind::NeighDequeue]).collect();
    let queued = recorded.of("vm1", &[Kind::NeighEnqueue]);
    let queued: Vec<_> = queued.filter(|event| Connection(event.position).remote_port() == 9015).collect();
    // The event comes after the question was sent: a vCPU that waited for its CPU in between has missed some of the wait, or
    // all of it.
    let most = REQUESTS * 2 / 3;
    assert!((most..=REQUESTS).contains(&queued.len()), "{queued:?}");
    let until_known = |event: &&Event| {
        assert_eq!(recorded.names.text(event.name), "eth0", "{event:?}");
        let known =
            resolved.iter().find(|of| of.other == event.other && of.time_ns >= event.time_ns).unwrap();
        known.time_ns - event.time_ns
    };
    let waits: Vec<_> = queued.iter().map(until_known).collect();
    assert!(waits.iter().filter(|ns| **ns > DELAY / 2).count() >= most, "{waits:?}");
    let document = world.explain("/tmp/events-neigh", "request:9015");
    let held = times_held(&document, REQUESTS, "neigh", "next hop at eth0", "vm1");
    // While the client still runs, the time is its own.
    assert!(held.iter().filter(|ns| **ns > DELAY / 2).count() >= most, "{held:?} {document}");
}

/// The second half of each request waits for the acknowledgement of the first, with which the server takes its time.
#[test]
fn what_tcp_holds_back_is_recorded_and_named() {
    const REQUESTS: usize = 20;
    let Some(world) = World::find("TCP's send queues") else { return };
    let server = world.start("vm2", "exec xweave lab load tcp-serve --port 9014");
    world.until("vm2", "grep -q :2336 /proc/net/tcp*");
    let recording =
        world.record("--events sched,net --domain vm1=vsock:3 --domain vm2=vsock:4 -o /tmp/events-tcp-hold");
    world.run(
        "vm1",
        &format!("xweave lab load tcp-get --to 10.77.0.2:9014 --requests {REQUESTS} --split-every 1"),
    );
    recording.finish_well();
    world.kill("vm2", "xweave lab load tcp-serve");
    drop(server);

    let recorded = Recorded::pull(&world, "/tmp/events-tcp-hold");
    let of_client = |kind| {
        let is_of = |event: &&Event| event.kind == kind && Connection(event.position).remote_port() == 9014;
        recorded.of("vm1", &[Kind::TcpHold, Kind::TcpRelease]).filter(is_of).collect::<Vec<_>>()
    };
    let (held, released) = (of_client(Kind::TcpHold), of_client(Kind::TcpRelease));
    for event in &held {
        assert_eq!((HoldReason::of(event.code), event.bytes), (HoldReason::Nagle, 50), "{event:?}");
        assert!(released.iter().any(|of| of.time_ns > event.time_ns), "{event:?}");
    }
    // The server acknowledges the first ones at once.
    assert!(held.len() >= REQUESTS / 2 && held.len() <= REQUESTS, "{held:?}");
    let document = world.explain("/tmp/events-tcp-hold", "request:9014");
    let times = times_held(&document, REQUESTS, "send_queue", "TCP's send queue (Nagle)", "vm1");
    // A delayed acknowledgement comes after 40 ms (TCP_DELACK_MIN).
    let long = times.iter().filter(|ns| **ns > 20_000_000).count();
    assert!(long >= REQUESTS / 3, "{times:?} {document}");
}
