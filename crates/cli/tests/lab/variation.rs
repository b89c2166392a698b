//! Why response time varies, where the cause is known because it was made: each is named first.

use std::path::Path;

use serde_json::Value;

use crate::world::World;

/// Requests of a run.
const REQUESTS: u64 = 300;

/// How many a second: of answers that take little of the CPU, and of those that take 15 ms.
const RATE: u64 = 20;
const RATE_OF_LONG: u64 = 12;

/// A server for each run: who bursts, who has a neighbour, whose server is stopped, and whose does not answer each twelfth
/// request.
const PORTS: [u16; 4] = [5060, 5061, 5062, 5063];

/// Asks vm1's server at a port while something else goes on in a domain.
fn ask(world: &World, port: u16, rate: u64, options: &str, meanwhile: Option<(&str, &str)>) {
    let disturbing = meanwhile.map(|(domain, script)| world.start(domain, script));
    let asked = world.run(
        "host",
        &format!(
            "xweave lab load udp-ask --to 10.77.0.1:{port} --requests {REQUESTS} --rate {rate} --size 540 \
             --per-call 1 {options}"
        ),
    );
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked["requests"], REQUESTS, "{asked}");
    drop(disturbing);
}

/// A script that has all threads of vm1, and vhost's for it, run on the host's CPUs of a mask.
fn run_vm1_on(mask: &str) -> String {
    format!(
        "pid=$(cat /run/lab/vm1/pid) && taskset -a -p {mask} $pid &&
         for thread in $(pgrep -x vhost-$pid); do taskset -p {mask} $thread || exit; done"
    )
}

/// What `xweave vary` finds of a port's requests.
fn vary(world: &World, trace: &Path, port: u16) -> Value {
    let vary = |more: &[&str]| -> String {
        let mut command = world.xweave();
        let output = command.arg("vary").arg(trace).args(["--transaction", &format!("exchange:{port}")]);
        let output = output.args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = vary(&[]);
    println!("{text}");
    let told: Value = serde_json::from_str(&vary(&["--json"])).unwrap();
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
    let [bursts, neighbour, stopped, forgetful] = PORTS;
    let servers = PORTS.map(|port| {
        // Whose vCPU has a neighbour needs it for longer than a turn on the CPU lasts: what keeps short answers from it keeps
        // vhost and the client as much.
        let options = match port {
            of if of == neighbour => "--work 15000",
            of if of == forgetful => "--work 300 --ignore-every 12",
            _ => "--work 300",
        };
        let serve =
            format!("echo $$ >/tmp/server-{port}; exec xweave lab load udp-serve --port {port} {options}");
        let mut server = world.start("vm1", &serve);
        server.wait_for("ready");
        server
    });
    // The first request of all has to ask for an address.
    world.run("host", &format!("xweave lab load udp-ask --to 10.77.0.1:{bursts} --requests 20 --rate 20"));

    // In the background, which ranks threads within a group of processes only: on a host of one emulated CPU what xweave
    // itself takes is otherwise, on some machines, more than what the neighbour takes, and is rightly named before it.
    let autogroups = |on: u8| {
        for domain in ["host", "vm1"] {
            world.run(domain, &format!("echo {on} >/proc/sys/kernel/sched_autogroup_enabled"));
        }
    };
    autogroups(0);
    let recording = world.record(&format!(
        "virtio-net --background --where 'udp portrange {bursts}-{forgetful}' --events sched,net,vm --key line:Call-ID \
         --domain vm1=vsock:3 -o /tmp/vary --json"
    ));
    ask(&world, bursts, RATE, "--burst 12", None);
    // A neighbour is one that has the same CPU.
    let busy = "while :; do nice -n -5 timeout 0.5 taskset 1 sh -c 'while :; do :; done'; sleep 0.7; done";
    world.run("host", &run_vm1_on("1"));
    ask(&world, neighbour, RATE_OF_LONG, "", Some(("host", busy)));
    world.run("host", &run_vm1_on("ffff"));
    let signal = |name: &str| format!("kill -{name} $(cat /tmp/server-{stopped})");
    let stops = format!("while :; do {}; sleep 0.4; {}; sleep 0.8; done", signal("STOP"), signal("CONT"));
    ask(&world, stopped, RATE, "", Some(("vm1", &stops)));
    world.run("vm1", &signal("CONT"));
    // As SIP has it: what is not answered is sent again.
    ask(&world, forgetful, RATE, "--retry 400", None);
    recording.finish_well();
    autogroups(1);
    drop(servers);
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    world.pull("host", "/tmp/vary", &trace);
    world.run("host", "rm -r /tmp/vary");

    let [bursts, neighbour, stopped, forgetful] = PORTS.map(|port| vary(&world, &trace, port));
    assert_eq!(first(&bursts).0, "batch_arrival");
    let socket =
        bursts["segments"].as_array().unwrap().iter().find(|of| of["name"] == "request, socket of vm1");
    assert!(socket.is_some_and(|of| of["others"]["max"].as_u64() >= Some(3)), "{socket:?}");
    assert_eq!(first(&neighbour), ("vcpu_preempted", "sh"));
    assert_eq!(first(&stopped).0, "stopped");
    assert_eq!(first(&forgetful).0, "retransmit");
}
