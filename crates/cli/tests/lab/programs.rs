//! What is told of programs, held against what they log themselves.

use std::collections::HashMap;

use serde_json::Value;

use crate::world::World;

/// Requests, of three clients at once.
const REQUESTS: u64 = 60;

/// One request, as the server logged it: who read it and who answered it, and when, on the clock of the trace.
struct Served {
    reader: u64,
    worker: u64,
    received: i64,
    begun: i64,
    answered: i64,
}

/// Of each client's port, its requests in their order.
fn served(log: &str) -> HashMap<u64, Vec<Served>> {
    let mut all: HashMap<u64, Vec<Served>> = HashMap::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |key: &str| line[key].as_u64().unwrap();
        let time = |key: &str| line[key].as_i64().unwrap();
        all.entry(number("client")).or_default().push(Served {
            reader: number("reader"),
            worker: number("worker"),
            received: time("received"),
            begun: time("begun"),
            answered: time("answered"),
        });
    }
    all.values_mut().for_each(|of| of.sort_unstable_by_key(|served| served.received));
    all
}

/// How much of a step's time is told of somebody whose it may have been, in nanoseconds.
fn right(step: &Value, served: &Served) -> i64 {
    let (from, ns) = (step["t_ns"].as_i64().unwrap(), step["ns"].as_i64().unwrap());
    let object = step["object"].as_str().unwrap();
    let is = |thread: u64| object == format!("queue-serve/{thread}");
    let (worker, reader) = (is(served.worker), is(served.reader));
    // Of the other threads, workers that did others' requests and the client among them.
    let other = ["queue-serve/", "tcp-get/"].iter().any(|of| object.starts_with(of)) && !worker && !reader;
    let (network, interrupts) = (step["state"] == "network", object.starts_with("interrupts"));
    let within = |a: i64, b: i64| (b.min(from + ns) - a.max(from)).max(0);
    let mut sum = 0;
    // Sent by the client, on its way, and read.
    if !worker {
        sum += within(i64::MIN, served.received);
    }
    // In the queue: handed on, and waiting for a worker, which may be doing another request.
    if !network {
        sum += within(served.received, served.begun);
    }
    if worker || interrupts {
        sum += within(served.begun, served.answered);
    }
    // The answer is sent, comes, and is read by the client.
    if !reader && (worker || network || interrupts || other) {
        sum += within(served.answered, i64::MAX);
    }
    sum
}

#[test]
fn workers_that_take_requests_from_a_queue_are_told_as_they_log_it() {
    let Some(world) = World::find("a queue of workers") else { return };
    let log = "/tmp/programs.log";
    let server =
        world.start("host", &format!("exec xweave lab load queue-serve --port 8445 --work 3000 --log {log}"));
    world.until("host", "grep -q :20FD /proc/net/tcp");
    let recording = world.record("--events sched,net -o /tmp/programs");
    world.run(
        "host",
        &format!("xweave lab load tcp-get --to 127.0.0.1:8445 --requests {REQUESTS} --concurrency 3"),
    );
    recording.finish_well();
    let served = served(&world.run("host", &format!("cat {log}")));
    world.kill("host", "xweave lab load queue-serve");
    drop(server);
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    world.pull("host", "/tmp/programs", &trace);
    let explain = |more: &[&str]| -> Value {
        let mut command = world.xweave();
        command.args(["explain", "--transaction", "request:8445", "--json"]).args(more).arg(&trace);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let all = explain(&[]);
    let mut transactions: Vec<&Value> = all["transactions"].as_array().unwrap().iter().collect();
    assert_eq!(transactions.len() as u64, REQUESTS, "{all}");
    transactions.sort_unstable_by_key(|transaction| transaction["start_ns"].as_i64());
    let mut nth: HashMap<u64, usize> = HashMap::new();
    let mut shares = Vec::new();
    for transaction in transactions {
        let client = transaction["name"].as_str().unwrap().split_once(' ').unwrap().0.parse().unwrap();
        let place = nth.entry(client).or_default();
        let served = &served[&client][*place];
        *place += 1;
        let one = explain(&["--id", &transaction["id"].to_string()]);
        let told = &one["transactions"][0];
        let steps = told["steps"].as_array().unwrap();
        let right: i64 = steps.iter().map(|step| right(step, served)).sum();
        let share = right * 100 / told["total_ns"].as_i64().unwrap();
        if share < 80 {
            println!(
                "{share} %: reader {}, worker {}, received {}, begun {}, answered {}: {told}",
                served.reader, served.worker, served.received, served.begun, served.answered
            );
        }
        shares.push(share);
    }
    shares.sort_unstable();
    let mean = shares.iter().sum::<i64>() / i64::try_from(shares.len()).unwrap();
    println!(
        "right: {mean} % on average, {} % at the median, {} % at the least",
        shares[shares.len() / 2],
        shares[0]
    );
    assert!(mean >= 95, "{shares:?}");
}
