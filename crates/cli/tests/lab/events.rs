//! What kernels do, recorded by built-in probes: whole, in order, and the same on both sides.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use serde_json::Value;
use xweave_trace::event::{Access, Connection, Kind, Sending, State};

use crate::{
    recorded::Recorded,
    world::{AGENT, World, longest},
};

/// What the guests exchange: requests for a page of so many bytes.
const PAGE: u64 = 3000;
const PAGES: u64 = 5;

#[test]
fn what_happens_in_host_and_guests_is_recorded_whole() {
    let Some(world) = World::with_two_cpus("events") else { return };
    world.run(
        "vm2",
        &format!(
            "mkdir -p /tmp/pages && head -c {PAGE} /dev/urandom >/tmp/pages/page && \
             {{ grep -q :1F91 /proc/net/tcp* || busybox httpd -p 8081 -h /tmp/pages; }}"
        ),
    );
    let recording =
        world.record("--events sched,block,net,vm --domain vm1=vsock:3 --domain vm2=vsock:4 -o /tmp/events");
    world.run("host", "dd if=/dev/vda of=/dev/null bs=64k count=50 iflag=direct");
    world.run(
        "vm1",
        &format!(
            "for page in $(seq {PAGES}); do \
                 busybox wget -q -O /dev/null http://10.77.0.2:8081/page || exit 1; \
             done; \
             xweave lab load udp-send --to 10.77.0.2:9007 --count 100 --rate 1000 --size 64"
        ),
    );
    let log = recording.finish_well();
    assert!(log.contains("events of host, vm1, vm2"), "{log}");
    let recorded = Recorded::pull(&world, "/tmp/events");
    hardly_any_is_missed(&world, &recorded);
    assert_eq!(recorded.manifest["events"], recorded.events.len());
    let warnings = recorded.manifest["warnings"].as_array().unwrap();
    let guests = |warning: &Value| warning.as_str().unwrap().ends_with("KVM is not loaded");
    assert!(warnings.iter().all(guests), "{warnings:?}");

    for domain in ["host", "vm1", "vm2"] {
        switches_follow_each_other(&recorded, domain);
        waits_for_futexes_end_where_they_began(&recorded, domain);
    }
    disk_accesses_are_issued_before_they_are_done(&recorded);
    what_is_sent_is_received(&recorded);
    virtual_processors_are_entered_and_left(&recorded);
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("trace");
    world.pull("host", "/tmp/events", &local);
    world.keep(&local, "lab-events");
    requests_are_explained_across_the_boundary(&world, &local);
    connections_are_followed_from_end_to_end(&world, &local);
}

/// Nothing is dropped. Kernels for x86 since 7.0 preempt themselves, in a probe's first and last steps as well
/// (`bpf/held.h`), and leave that probe out for whoever runs meanwhile.
fn hardly_any_is_missed(world: &World, recorded: &Recorded) {
    let loss = &recorded.manifest["loss"];
    let missed = recorded.lost("missed");
    assert_eq!(recorded.lost("dropped"), 0, "{loss}");
    assert_eq!(recorded.manifest["lost"], missed, "{loss}");
    let preempts = !world.run("host", "uname -r").starts_with("6.");
    let most = if preempts { recorded.events.len() as u64 / 1000 } else { 0 };
    assert!(missed <= most, "{loss}");
}

/// Who leaves a processor is who came there last.
fn switches_follow_each_other(recorded: &Recorded, domain: &str) {
    let (mut running, mut agree, mut all) = (HashMap::new(), 0, 0);
    for event in recorded.of(domain, &[Kind::Switch]) {
        if let Some(before) = running.insert(event.cpu, event.other) {
            all += 1;
            agree += u64::from(before == event.tid);
        }
    }
    assert!(all > 100 && agree * 1000 >= all * 999, "{domain}: {agree} of {all} switches agree");
    let ended: HashSet<u32> = recorded.of(domain, &[Kind::Exit]).map(|event| event.tid).collect();
    let mut dead = recorded.of(domain, &[Kind::Switch]).filter(|event| State::of(event.code) == State::Dead);
    assert!(dead.all(|event| ended.contains(&event.tid)), "{domain}: dead without an end");
}

fn waits_for_futexes_end_where_they_began(recorded: &Recorded, domain: &str) {
    let mut waits = HashMap::new();
    let mut done = 0;
    for event in recorded.of(domain, &[Kind::LockWait, Kind::LockAcquired]) {
        if event.kind == Kind::LockWait {
            waits.insert(event.tid, event.object);
        } else if let Some(object) = waits.remove(&event.tid) {
            assert_eq!(object, event.object, "{domain}: {event:?}");
            done += 1;
        }
    }
    assert!(done > 0, "{domain}: the agent's own threads wait");
}

fn disk_accesses_are_issued_before_they_are_done(recorded: &Recorded) {
    let named = recorded.manifest["domains"][0]["disks"].as_array().unwrap().iter().map(|disk| {
        let numbers = ["major", "minor"].map(|key| disk[key].as_u64().unwrap());
        (numbers[0] << 20 | numbers[1], disk["name"].as_str().unwrap())
    });
    let named: HashMap<_, _> = named.collect();
    for event in recorded.of("host", &[Kind::DiskQueue]) {
        assert!(named[&event.object].starts_with("vd"), "{event:?} of {named:?}");
    }
    let mut issued = HashMap::new();
    let mut read = 0;
    let mut asked = HashSet::new();
    for event in recorded.of("host", &[Kind::DiskQueue, Kind::DiskIssue, Kind::DiskComplete]) {
        let place = (event.object, event.position);
        match event.kind {
            Kind::DiskQueue => drop(asked.insert(place)),
            Kind::DiskIssue => drop(issued.insert(place, event.bytes)),
            _ => {
                if let Some(bytes) = issued.remove(&place)
                    && Access::of(event.code) == Access::Read
                {
                    assert!(event.bytes <= bytes, "{event:?}");
                    read += event.bytes;
                }
            }
        }
        if event.kind == Kind::DiskComplete && event.bytes == 64 << 10 {
            assert!(asked.contains(&place), "done, and never asked for: {event:?}");
        }
    }
    assert!(read >= 50 * (64 << 10), "{read} bytes were read, issued and done");
}

fn what_is_sent_is_received(recorded: &Recorded) {
    let server = |connection: Connection| connection.local_port() == 8081;
    let client = |connection: Connection| connection.remote_port() == 8081;
    let answers = recorded.bytes("vm2", Kind::Send, server);
    assert!(answers >= PAGES * PAGE, "{answers} bytes of answers");
    assert_eq!(recorded.bytes("vm1", Kind::Receive, client), answers);
    let requests = recorded.bytes("vm1", Kind::Send, client);
    assert!(requests > 0);
    assert_eq!(recorded.bytes("vm2", Kind::Receive, server), requests);
    // The two ends of a connection know it to be one.
    let ends = |domain: &str, kind| -> HashSet<Connection> {
        recorded.of(domain, &[kind]).map(|event| Connection(event.position)).collect()
    };
    let accepted: HashSet<_> = ends("vm2", Kind::Accept).into_iter().filter(|end| server(*end)).collect();
    assert_eq!(accepted.len() as u64, PAGES);
    let asked = ends("vm1", Kind::Send);
    assert!(accepted.iter().all(|end| asked.contains(&end.peer())), "{accepted:?} of {asked:?}");
    // TCP_SYN_SENT is 2, TCP_ESTABLISHED 1, TCP_CLOSE 7: the client's port, which the kernel chose, is told to the last.
    for (domain, code, peer) in [("vm1", 2, true), ("vm1", 1, true), ("vm1", 7, true), ("vm2", 1, false)] {
        let of_code = recorded.of(domain, &[Kind::Socket]).filter(|event| event.code == code);
        let there: HashSet<_> = of_code.map(|event| Connection(event.position)).collect();
        let mut all = accepted.iter().map(|end| if peer { end.peer() } else { *end });
        assert!(all.all(|end| there.contains(&end)), "{domain}, state {code}: {there:?}");
    }
    let datagrams = recorded
        .of("vm1", &[Kind::Send])
        .filter(|event| event.bytes == 64 && Connection(event.position).remote_port() == 9007);
    assert_eq!(datagrams.count(), 100);
}

fn virtual_processors_are_entered_and_left(recorded: &Recorded) {
    let threads: HashMap<u32, u64> =
        recorded.of("host", &[Kind::Thread]).map(|event| (event.other, event.object)).collect();
    let (mut inside, mut agree, mut all) = (HashMap::new(), 0, 0);
    let mut processes = HashSet::new();
    for event in recorded.of("host", &[Kind::VmEnter, Kind::VmExit]) {
        processes.insert(threads.get(&event.tid).copied());
        let enters = event.kind == Kind::VmEnter;
        if let Some(was_inside) = inside.insert((event.tid, event.object), enters) {
            all += 1;
            agree += u64::from(was_inside != enters);
        }
    }
    assert!(all > 100 && agree * 1000 >= all * 999, "{agree} of {all} entries and exits alternate");
    assert!(processes.len() == 2 && !processes.contains(&None), "of two machines: {processes:?}");
    for kind in [Kind::VmHalt, Kind::VmInject] {
        let mut all = recorded.of("host", std::slice::from_ref(&kind)).peekable();
        assert!(all.peek().is_some(), "{kind}");
        assert!(all.all(|event| inside.contains_key(&(event.tid, event.object))), "{kind}");
    }
    assert!(recorded.names.all().any(|name| name.starts_with("qemu")));
}

/// Each request's time is told whole: what the server did in its guest, and what the host took from both.
fn requests_are_explained_across_the_boundary(world: &World, local: &Path) {
    let document = explained(world, local, &["--transaction", "request:8081"]);
    let transactions = document["transactions"].as_array().unwrap();
    assert_eq!(transactions.len() as u64, PAGES, "{document}");
    let (mut total, mut served, mut unknown, mut outside) = (0, 0, 0, 0);
    for transaction in transactions {
        let parts = transaction["parts"].as_array().unwrap();
        let time = |wanted: &dyn Fn(&Value) -> bool| -> u64 {
            parts.iter().filter(|part| wanted(part)).map(|part| part["ns"].as_u64().unwrap()).sum()
        };
        let all = time(&|_| true);
        assert_eq!(transaction["total_ns"], all, "{transaction}");
        total += all;
        served += time(&|part| part["domain"] == "vm2" && part["state"] == "running");
        unknown += time(&|part| part["state"] == "unknown");
        outside += time(&|part| part["domain"] == "host" && part["kind"] == "vcpu");
    }
    // A client that had no processor when the answer came has not waited for the server; but not all of them.
    assert!(served > 0, "what the server did is part of it: {document}");
    assert!(unknown * 10 < total, "{unknown} of {total} unknown: {document}");
    // Both guests and who records share the emulated host's one processor.
    assert!(outside > 0, "{document}");
}

/// From being asked for to its end, a connection passes both guests; and what it carried is what the client got.
fn connections_are_followed_from_end_to_end(world: &World, local: &Path) {
    let points = "socket:syn_sent@vm1,accept@vm2,receive@vm2,send@vm2,receive@vm1,socket:close@vm1";
    let document = explained(world, local, &["--points", points]);
    let all = document["transactions"].as_array().unwrap();
    assert_eq!(all.len() as u64, PAGES, "{document}");
    for one in all {
        assert_eq!(one["points_ns"].as_array().unwrap().len(), 6, "{one}");
        assert!((PAGE..2 * PAGE).contains(&one["received_bytes"].as_u64().unwrap()), "{one}");
    }
}

fn explained(world: &World, local: &Path, more: &[&str]) -> Value {
    let output = world.xweave().args(["explain", "--json"]).args(more).arg(local).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Sockets that do not send and receive by TCP's own calls. MPTCP's data is that of the connection's first path.
#[test]
fn what_tls_in_the_kernel_and_multipath_tcp_send_is_received() {
    const REQUESTS: u64 = 20;
    const SIZE: u64 = 20_000;
    let Some(world) = World::find("kTLS and MPTCP") else { return };
    world.run("host", "modprobe tls && echo 1 >/proc/sys/net/mptcp/enabled");
    let servers: Vec<_> = [("ktls", 8443), ("mptcp", 8444)]
        .into_iter()
        .map(|(protocol, port)| {
            let serve = format!("exec xweave lab load tcp-serve --port {port} --protocol {protocol}");
            let server = world.start("host", &serve);
            world.until("host", &format!("grep -q :{port:X} /proc/net/tcp"));
            (protocol, port, server)
        })
        .collect();
    let recording = world.record("--events sched,net -o /tmp/events-protocols");
    for (protocol, port, _) in &servers {
        world.run(
            "host",
            &format!(
                "xweave lab load tcp-get --to 127.0.0.1:{port} --protocol {protocol} --requests {REQUESTS} \
                     --size {SIZE}"
            ),
        );
    }
    recording.finish_well();
    let recorded = Recorded::pull(&world, "/tmp/events-protocols");
    hardly_any_is_missed(&world, &recorded);
    for (protocol, port, server) in servers {
        let at_server = |end: Connection| end.local_port() == port;
        let at_client = |end: Connection| end.remote_port() == port;
        let answers = recorded.bytes("host", Kind::Send, at_server);
        assert!(answers >= REQUESTS * SIZE, "{protocol}: {answers} bytes of answers");
        assert_eq!(recorded.bytes("host", Kind::Receive, at_client), answers, "{protocol}");
        let asked = recorded.bytes("host", Kind::Send, at_client);
        assert_eq!(recorded.bytes("host", Kind::Receive, at_server), asked, "{protocol}");
        let document = world.explain("/tmp/events-protocols", &format!("request:{port}"));
        assert_eq!(document["summary"]["transactions"], REQUESTS, "{protocol}: {document}");
        let parts = document["summary"]["parts"].as_array().unwrap();
        let time = |state: Option<&str>| -> u64 {
            let of = parts.iter().filter(|part| state.is_none_or(|state| part["state"] == state));
            of.map(|part| part["ns"].as_u64().unwrap()).sum()
        };
        assert!(time(Some("running")) > 0, "{protocol}: {document}");
        assert!(time(Some("unknown")) * 20 < time(None), "{protocol}: {document}");
        world.kill("host", &format!("xweave lab load tcp-serve --port {port}"));
        drop(server);
    }
}

/// Idle states are those that the kernel's own tracer writes down meanwhile, in the host, whose clock is the time line; and
/// an idle processor is in one, in guests too.
#[test]
fn idle_states_are_those_that_the_kernel_traces() {
    const TRACER: &str = "cd /sys/kernel/tracing/instances && mkdir idle && cd idle && echo mono >trace_clock && \
                          echo 1 >events/power/cpu_idle/enable && sleep 2 && \
                          echo 0 >events/power/cpu_idle/enable && cat trace && cd .. && rmdir idle";
    let Some(world) = World::find("idle states") else { return };
    let recording = world.record("--events sched,power --domain vm1=vsock:3 -o /tmp/events-power");
    let traced = world.run("host", TRACER);
    world.run("vm1", "sleep 1");
    recording.finish_well();
    let recorded = Recorded::pull(&world, "/tmp/events-power");
    hardly_any_is_missed(&world, &recorded);
    for domain in ["host", "vm1"] {
        idle_processors_are_in_idle_states(&recorded, domain);
    }
    // `<idle>-0  [000] d..1.  123.456789: cpu_idle: state=1 cpu_id=0`
    let line = |line: &str| -> Option<(i64, i32)> {
        let (before, state) = line.split_once(": cpu_idle: state=")?;
        let (seconds, micros) = before.rsplit_once(' ')?.1.split_once('.')?;
        let state: u32 = state.split(' ').next()?.parse().ok()?;
        let micros = seconds.parse::<i64>().ok()? * 1_000_000 + micros.parse::<i64>().ok()?;
        Some((micros, state.cast_signed()))
    };
    let traced: Vec<(i64, i32)> = traced.lines().filter_map(line).collect();
    assert!(traced.len() > 20, "{traced:?}");
    let (first, last) = (traced[0].0 - 1, traced[traced.len() - 1].0 + 1);
    let told: Vec<i32> = recorded
        .of("host", &[Kind::CpuIdle])
        .filter(|event| (first..=last).contains(&(event.time_ns / 1000)))
        .map(|event| event.code)
        .collect();
    let of = |code: i32| {
        [
            told.iter().filter(|told| **told == code).count(),
            traced.iter().filter(|(_, is)| *is == code).count(),
        ]
    };
    println!("idle states: {:?} entered, {:?} left (told, traced)", of(1), of(-1));
    // At either end, one may be just outside of what was traced.
    for code in [1, -1] {
        let [told, is] = of(code);
        assert!(told.abs_diff(is) <= 2, "state {code}: {told} told, {is} traced");
    }
}

/// Each state is left before the next is entered, and by the idle thread only; and a processor that has nothing to do for a
/// millisecond is mostly in one meanwhile, and always out of it before it goes on.
fn idle_processors_are_in_idle_states(recorded: &Recorded, domain: &str) {
    let mut inside: HashMap<u32, bool> = HashMap::new();
    let mut idle: HashMap<u32, (i64, bool)> = HashMap::new();
    let (mut all, mut with, mut states) = (0, 0, 0);
    for event in recorded.of(domain, &[Kind::Switch, Kind::CpuIdle]) {
        if event.kind == Kind::CpuIdle {
            assert!(event.tid == 0 && (-1..10).contains(&event.code), "{domain}: {event:?}");
            let enters = event.code >= 0;
            let was = inside.insert(event.cpu, enters);
            assert!(was != Some(enters), "{domain}: {event:?} after the same");
            states += u64::from(enters);
            if let Some((_, in_state)) = idle.get_mut(&event.cpu) {
                *in_state |= enters;
            }
            continue;
        }
        if event.tid == 0
            && let Some((since, in_state)) = idle.remove(&event.cpu)
        {
            assert!(inside.get(&event.cpu) != Some(&true), "{domain}: not left before {event:?}");
            if event.time_ns - since > 1_000_000 {
                all += 1;
                with += u64::from(in_state);
            }
        }
        if event.other == 0 {
            idle.insert(event.cpu, (event.time_ns, false));
        }
    }
    println!("{domain}: {states} idle states; {with} of {all} idle times of a millisecond have some");
    // Who is to run may be woken before the processor is in one, and interrupts take long in an emulated machine.
    assert!(
        states > 50 && all > 50 && all - with <= 1 + all / 20,
        "{domain}: {with} of {all}, {states} states"
    );
}

/// What is written to a pipe is read from it, and who waits at either end is told who is at the other one.
#[test]
fn waits_for_pipes_are_those_at_the_other_end() {
    const PAUSES: u64 = 4;
    /// What is written at once: more than a pipe holds.
    const WRITTEN: u64 = 1 << 20;
    let Some(world) = World::find("pipes") else { return };
    let recording = world.record("--events sched,net --domain vm1=vsock:3 -o /tmp/events-pipes");
    world.run(
        "vm1",
        &format!(
            "(for nth in $(seq {PAUSES}); do sleep 0.25; echo $nth; done) | cat >/dev/null && \
             dd if=/dev/zero bs={WRITTEN} count=1 2>/dev/null | (sleep 1; cat >/dev/null)"
        ),
    );
    recording.finish_well();
    let recorded = Recorded::pull(&world, "/tmp/events-pipes");
    hardly_any_is_missed(&world, &recorded);
    let mut pipes: HashMap<(u64, u64), [u64; 2]> = HashMap::new();
    for event in recorded.of("vm1", &[Kind::PipeWrite, Kind::PipeRead]) {
        let [written, read] = pipes.entry((event.position, event.object)).or_default();
        match event.kind {
            Kind::PipeRead => *read += event.bytes,
            _ if Sending::of(event.code).corrects() => *written -= event.bytes,
            _ => *written += event.bytes,
        }
    }
    assert!(pipes.values().any(|[written, read]| *written == WRITTEN && read == written), "{pipes:?}");
    assert!(pipes.values().any(|[written, read]| *written == 2 * PAUSES && read == written), "{pipes:?}");
    // Who read waited while the other one slept, and who wrote while the other one did not read yet.
    for (program, what, by, least) in [
        ("cat", "data in pipe ", ", written by ", PAUSES * 250_000_000),
        ("dd", "room in pipe ", ", read by ", 500_000_000),
    ] {
        let document = world.explain("/tmp/events-pipes", &format!("process:{program}"));
        let why = |part: &Value| part["why"].as_str().unwrap_or_default().to_owned();
        let waited = longest(&document, |part| why(part).starts_with(what) && why(part).contains(by));
        assert!(waited * 10 >= least * 9, "{program}: {waited} of {least} ns: {document}");
        let causes = document["summary"]["causes"].as_array().unwrap();
        let named = |cause: &Value| cause["what"].as_str().unwrap().ends_with(" at the other end of a pipe");
        assert!(causes.iter().any(named), "{program}: {document}");
    }
}

#[test]
fn a_killed_agent_leaves_no_probe_of_events() {
    let Some(world) = World::find("killed agent with events") else { return };
    let probes = "bpftool prog list | grep -q ' name sched_switch '";
    let recording = world.record("--events sched -o /tmp/events-killed");
    world.run("host", probes);
    world.kill("host", AGENT);
    let (status, log) = recording.finish();
    assert_eq!(status, Some(1), "{log}");
    world.until("host", &format!("! {probes}"));
}

#[test]
fn events_for_which_there_is_no_room_are_counted() {
    const SENT: u64 = 5000;
    let Some(world) = World::find("loss of events") else { return };
    let receiver =
        world.start("vm2", "exec xweave lab load udp-recv --port 9008 --count 5000 --idle-timeout 20");
    world.until("vm2", "grep -q :2330 /proc/net/udp");
    let recording =
        world.record("--events net,syscalls --domain vm1=vsock:3 --buffer 4096 -o /tmp/events-loss");
    world.send_half_unread(9008, SENT);
    drop(receiver);
    recording.finish_well();
    let recorded = Recorded::pull(&world, "/tmp/events-loss");
    let sends = recorded.of("vm1", &[Kind::Send]).count() as u64;
    let losses = recorded.manifest["loss"]["events"].as_array().unwrap();
    let of_sends = losses.iter().find(|loss| loss["domain"] == "vm1" && loss["kind"] == "send").unwrap();
    let lost = of_sends["dropped"].as_u64().unwrap() + of_sends["missed"].as_u64().unwrap();
    assert!(lost > 0 && sends > 0, "a buffer of a page must overflow: {sends} recorded, {lost} lost");
    assert_eq!(sends + lost, SENT, "{sends} recorded, {lost} lost");
    assert_eq!(recorded.manifest["lost"], recorded.lost("dropped") + recorded.lost("missed"));
}

#[test]
fn a_connection_for_which_the_queue_has_no_room_is_told() {
    let Some(world) = World::find("refused connections") else { return };
    // A listener with room for one connection, which it does not accept.
    world.run("vm1", "echo 0 >/proc/sys/net/core/somaxconn");
    let server = world.start("vm1", "echo listens; exec xweave lab load tcp-serve --port 9009");
    world.until("vm1", "grep -q :2331 /proc/net/tcp /proc/net/tcp6");
    world.run("vm1", "echo 4096 >/proc/sys/net/core/somaxconn");
    world.signal("vm1", "xweave lab load tcp-serve", "STOP");
    let recording = world.record("--events net --domain vm1=vsock:3 -o /tmp/events-refused");
    // Two of three are refused, and then one of them again.
    world.run(
        "vm1",
        "overflows() { awk '/^TcpExt/ { if (at) print $at; for (n = 1; n <= NF; n++) if ($n == \"ListenOverflows\") at = n }' \
             /proc/net/netstat; }; \
         before=$(overflows); clients=; \
         for nth in 1 2 3; do busybox nc 127.0.0.1 9009 </dev/null & clients=\"$clients $!\"; done; \
         until [ $(overflows) -ge $((before + 3)) ]; do sleep 0.2; done; \
         kill $clients; wait; true",
    );
    recording.finish_well();
    world.kill("vm1", "xweave lab load tcp-serve");
    drop(server);
    let recorded = Recorded::pull(&world, "/tmp/events-refused");
    let refused: Vec<_> = recorded.of("vm1", &[Kind::SynDrop]).collect();
    assert!(!refused.is_empty());
    for event in refused {
        assert_eq!((event.code, Connection(event.position).local_port()), (1, 9009), "{event:?}");
        assert!(event.bytes > 0, "{event:?}");
    }
    let again = recorded.of("vm1", &[Kind::Retransmit]).count();
    assert!(again > 0, "who is not answered asks again");
}

/// What a guest's kernel counts of segments that it sent again, and what is told of the requests that waited for that.
#[test]
fn what_is_lost_on_the_way_is_told_as_sent_again() {
    const COUNT: &str = "grep '^Tcp: [0-9]' /proc/net/snmp | cut -d' ' -f13";
    /// Before it sends a request again, a kernel waits for about so long.
    const LATE: i64 = 200_000_000;
    let Some(world) = World::find("segments sent again") else { return };
    let server = world.start("vm2", "exec xweave lab load tcp-serve --port 9011");
    world.until("vm2", "grep -q :2333 /proc/net/tcp*");
    let recording =
        world.record("--events sched,net --domain vm1=vsock:3 --domain vm2=vsock:4 -o /tmp/events-again");
    let counts = || ["vm1", "vm2"].map(|guest| world.run(guest, COUNT).trim().parse::<u64>().unwrap());
    let before = counts();
    world.run("host", "tc qdisc add dev tap2 root netem loss 10%");
    let load = "xweave lab load tcp-get --to 10.77.0.2:9011 --requests 60 --concurrency 2";
    let done = world.try_run("vm1", load);
    world.run("host", "tc qdisc del dev tap2 root");
    // The last of a connection may be sent again after the load has ended: until all are closed, or in TIME_WAIT.
    for guest in ["vm1", "vm2"] {
        world.until(guest, "! cat /proc/net/tcp* | grep ':2333 ' | grep -v ' 0A ' | grep -qv ' 06 '");
    }
    let after = counts();
    recording.finish_well();
    world.kill("vm2", "xweave lab load tcp-serve");
    drop(server);
    assert!(done.status.success(), "{done:?}");
    let recorded = Recorded::pull(&world, "/tmp/events-again");
    let told = ["vm1", "vm2"].map(|guest| recorded.of(guest, &[Kind::Retransmit]).count() as u64);
    let counted = [after[0] - before[0], after[1] - before[1]];
    assert_eq!(told, counted, "sent again by vm1 and vm2");
    assert!(counted[0] > 0, "nothing was lost");
    // Requests that waited for one of these longer than a network in a machine takes: where and how long.
    let again: Vec<(u16, i64)> = ["vm1", "vm2"]
        .into_iter()
        .flat_map(|guest| recorded.of(guest, &[Kind::Retransmit]))
        .map(|event| (Connection(event.position), event.time_ns))
        .map(|(of, time)| (if of.local_port() == 9011 { of.remote_port() } else { of.local_port() }, time))
        .collect();
    let document = world.explain("/tmp/events-again", "request:9011");
    let (mut waited, mut right) = (0, 0);
    for one in document["transactions"].as_array().unwrap() {
        let (from, ns) = (one["start_ns"].as_i64().unwrap(), one["total_ns"].as_i64().unwrap());
        let client = one["name"].as_str().unwrap().split_once(' ').unwrap().0.parse::<u16>().unwrap();
        let within = |of: &&(u16, i64)| of.0 == client && (from..from + ns).contains(&of.1);
        let Some((_, sent)) = again.iter().filter(within).max_by_key(|of| of.1) else { continue };
        if sent - from > LATE {
            let parts = one["parts"].as_array().unwrap().iter().filter(|part| part["state"] == "retransmit");
            let told: i64 = parts.map(|part| part["ns"].as_i64().unwrap()).sum();
            // A machine that stands still has its guests send again what was not lost.
            right += u32::from(told * 2 > sent - from);
            waited += 1;
        }
    }
    assert!(waited > 0 && right * 3 >= waited * 2, "{right} of {waited}: {document}");
}
