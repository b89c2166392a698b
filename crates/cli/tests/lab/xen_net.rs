//! Frames between dom0 and two guests of Xen, both ways: each is one flow, given to the guest that it is of.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::Path,
};

use serde_json::Value;
use xweave_trace::Trace;
use xweave_wire::record::Kind;

use crate::{
    capture::{Captures, Words},
    crossing::{witness, witnessed},
    frames::{by_frame, is_whole},
    library::numbers,
    world::{World, assert_sound},
};

/// All domains, as `record` in dom0 wants them.
pub const DOMAINS: &str = "--domain dom0=local --domain vm1='xweave lab enter vm1 -- xweave agent --stdio' \
                       --domain vm2='xweave lab enter vm2 -- xweave agent --stdio'";

/// Wherever a packet passes.
const PASSED: &str = "execution(__dev_queue_xmit, xennet_start_xmit@guest, xenvif_start_xmit@dom0, \
                      br_handle_frame_finish@dom0, __udp_enqueue_schedule_skb) AND xflow(packet, skb)";

const ADDRESSES: [(&str, &str); 3] = [("dom0", "10.77.0.254"), ("vm1", "10.77.0.1"), ("vm2", "10.77.0.2")];

/// Each from everybody to everybody: who sends, who receives, to which port.
fn routes() -> Vec<(&'static str, &'static str, u16)> {
    let names = ADDRESSES.map(|(name, _)| name);
    let pairs = names.iter().flat_map(|from| names.iter().map(move |to| (*from, *to)));
    pairs.filter(|(from, to)| from != to).zip(9101..).map(|((from, to), port)| (from, to, port)).collect()
}

fn address(domain: &str) -> &'static str {
    ADDRESSES.iter().find(|(name, _)| *name == domain).unwrap().1
}

/// Numbers that Xen has for the guests.
fn domids(world: &World) -> BTreeMap<&'static str, u16> {
    ["vm1", "vm2"]
        .map(|name| (name, world.run("dom0", &format!("xl domid {name}")).trim().parse().unwrap()))
        .into()
}

const COUNT: u64 = 40;

/// Who has an address is asked until it is told: after three seconds without an answer, which a busy machine may take, a
/// sender would be told that there is no such host.
const PATIENT_NEIGHBOURS: &str =
    "for asked in /proc/sys/net/ipv4/neigh/*/[mu]cast_solicit; do echo 60 >$asked; done";

#[test]
#[ignore = "minutes: make lab-test"]
fn datagrams_of_three_domains_at_once_cross_under_their_own_identity() {
    let Some(world) = World::as_it_is("xen: datagrams of three domains") else { return };
    // Guests that have sent as much are as alike as can be.
    world.reset("vm1");
    world.reset("vm2");
    world.write("dom0", "witness.aspect", &witness(PASSED));
    let recording = world.record_in("dom0", &format!("xen-net witness.aspect {DOMAINS} -o /tmp/datagrams"));
    let routes = routes();
    let receivers: Vec<_> = routes
        .iter()
        .map(|(_, to, port)| {
            let receive =
                format!("xweave lab load udp-recv --idle-timeout 100 --port {port} --count {COUNT}");
            let receiver = world.start(to, &format!("exec {receive} >/tmp/received-{port}"));
            world.until(to, &format!("grep -qi :{port:04x} /proc/net/udp"));
            receiver
        })
        .collect();
    for ((from, to, port), _) in routes.iter().zip(&receivers) {
        let send = "xweave lab load udp-send --rate 4 --size 64";
        let command =
            format!("{send} --count {COUNT} --to {}:{port} </dev/null >/tmp/sent-{port} 2>&1 &", address(to));
        world.run(from, &format!("{PATIENT_NEIGHBOURS}; {command}"));
    }
    // What was received says how they ended; some may have been dropped on a busy machine.
    let received: Vec<u64> = routes
        .iter()
        .map(|(_, to, port)| {
            world.until(to, &format!("grep -q '\"distinct\":' /tmp/received-{port}"));
            let told = world.run(to, &format!("cat /tmp/received-{port}"));
            serde_json::from_str::<Value>(&told).unwrap()["distinct"].as_u64().unwrap()
        })
        .collect();
    drop(receivers);
    let said: BTreeMap<u16, String> = routes
        .iter()
        .map(|(from, _, port)| (*port, world.run(from, &format!("cat /tmp/sent-{port}"))))
        .collect();
    recording.finish_well();

    let dir = tempfile::tempdir().unwrap();
    world.pull("dom0", "/tmp/datagrams", &dir.path().join("trace"));
    let trace = Trace::open(&dir.path().join("trace")).unwrap();
    let told: BTreeMap<_, _> = trace
        .manifest()
        .domains
        .iter()
        .filter_map(|domain| Some((domain.name.as_str(), domain.xen.as_ref()?.domid)))
        .collect();
    assert_eq!(told, domids(&world), "dom0 found them by what they wrote into XenStore");
    let report = world.flows(&dir.path().join("trace"));
    let summary = &report["summary"];
    println!("{summary}");
    assert_sound(&report);
    assert_eq!(summary["found"], Value::Array(Vec::new()), "nothing had to be concluded: {summary}");

    for ((from, to, port), received) in routes.iter().zip(received) {
        let (mut sound, mut dropped): (HashMap<u64, u32>, u64) = (HashMap::new(), 0);
        for flow in report["flows"].as_array().unwrap() {
            let frame = &flow["frame"];
            if frame["target_port"] != *port || frame["kind"] != "UDP" {
                continue;
            }
            let (numbers, domains) = witnessed(flow);
            assert_eq!(numbers.len(), 1, "a flow carries several datagrams, or none: {flow}");
            if !domains.contains(*to) {
                // Of those that are flooded, as long as the bridge has not learned where that is, the other guest drops its own.
                dropped += u64::from(flow["dropped"]["reason"] != "OTHERHOST");
                continue;
            }
            let passed: HashSet<String> = [*from, "dom0", *to].map(str::to_owned).into();
            assert_eq!(domains, passed, "of {from} to {to}: {flow}");
            assert_eq!(
                (&flow["complete"], &flow["hops"][0]["domain"]),
                (&true.into(), &(*from).into()),
                "{flow}"
            );
            assert_eq!(frame["source"], address(from), "{flow}");
            let crossings = if *from == "dom0" || *to == "dom0" { 1 } else { 2 };
            assert_eq!(flow["crossings"], crossings, "{flow}");
            *sound.entry(*numbers.iter().next().unwrap()).or_default() += 1;
        }
        assert!(received > COUNT / 2, "from {from} to {to}: {received} of {COUNT} arrived: {}", said[port]);
        assert!(sound.len() as u64 >= received, "from {from} to {to}: {} of {received}", sound.len());
        assert!(dropped <= COUNT - received, "from {from} to {to}: {dropped}, where {received} arrived");
        assert!(sound.values().all(|&flows| flows == 1), "datagrams that became several flows");
    }
    keys_of_guests_are_equal(&trace);
}

/// That each flow is given to its own guest says something: what guests that are built alike call their requests is alike.
fn keys_of_guests_are_equal(trace: &Trace) {
    let (rows, damaged) = trace.rows();
    assert!(damaged.is_empty(), "{damaged:?}");
    let mut by_guest: HashMap<String, BTreeSet<[u64; 3]>> = HashMap::new();
    for row in rows.iter().filter(|row| matches!(row.kind, Kind::Xin | Kind::Xout)) {
        let domain = trace.domain(row.domain).unwrap().name.clone();
        let &[ring, index, check, _] = row.values() else { panic!("{row:?}") };
        by_guest.entry(domain).or_default().insert([ring, index, check]);
    }
    let both = by_guest["vm1"].intersection(&by_guest["vm2"]).count();
    println!("{both} keys are both guests'");
    assert!(both >= 10, "{both} keys are both guests'");
}

/// A folder with a page, served on a port of each domain. However slow the machine is, TCP gives its device large frames.
const SERVE: &str = "echo 30 >/proc/sys/net/ipv4/tcp_min_tso_segs && mkdir -p /tmp/xen-www && \
                     head -c 150000 /dev/urandom >/tmp/xen-www/page && \
                     { grep -qs :1F9F /proc/net/tcp /proc/net/tcp6 || \
                       $(command -v busybox || echo /run/lab/busybox) httpd -p 8095 -h /tmp/xen-www; }";

/// Fetches the page of each of these.
fn fetch(addresses: &[&str]) -> String {
    let get = "exec 3<>/dev/tcp/$of/8095 && printf 'GET /page HTTP/1.0\\r\\n\\r\\n' >&3 && \
               [ $(cat <&3 | wc -c) -gt 150000 ]";
    format!(
        "for turn in 1 2 3; do for of in {}; do {get} || exit 1; exec 3>&-; done; done",
        addresses.join(" ")
    )
}

#[test]
fn every_frame_that_a_capture_sees_at_guests_devices_is_a_flow_of_that_guest() {
    let Some(world) = World::as_it_is("xen: every frame") else { return };
    for (domain, _) in ADDRESSES {
        world.run(domain, SERVE);
    }
    let domids = domids(&world);
    let devices = ["vm1", "vm2"].map(|guest| format!("vif{}.0", domids[guest]));
    let recording =
        world.record_in("dom0", &format!("xen-net {DOMAINS} --where 'net 10.77.0.0/16' -o /tmp/pages"));
    let captured: Vec<(&str, Vec<Words>)> = {
        let captures = Captures::start_in(
            &world,
            "dom0",
            "pages",
            &devices.each_ref().map(|of| (&**of, "")),
            "net 10.77.0.0/16",
        );
        world.write("dom0", "/tmp/fetch.sh", &fetch(&["10.77.0.1", "10.77.0.2"]));
        world.run("dom0", "ip neigh flush dev br0; bash /tmp/fetch.sh");
        let wget = |of: &str| format!("busybox wget -q -O /dev/null http://{of}:8095/page || exit 1");
        for (guest, other) in [("vm1", "10.77.0.2"), ("vm2", "10.77.0.1")] {
            let gets = format!("{}; {}", wget("10.77.0.254"), wget(other));
            world.run(guest, &format!("ip neigh flush dev eth0; for turn in 1 2 3; do {gets}; done"));
        }
        let seen = captures.finish();
        ["vm1", "vm2"].into_iter().zip(seen.into_iter().map(|(_, frames)| frames)).collect()
    };
    recording.finish_well();

    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    world.pull("dom0", "/tmp/pages", &trace);
    let report = world.flows(&trace);
    let summary = &report["summary"];
    println!("{summary}");
    assert_sound(&report);
    let flows = by_frame(&report);
    for (guest, seen) in captured {
        let is_seen_there = |flow: &&&Value| {
            let crossed = flow["crossings"].as_u64() >= Some(1);
            is_whole(flow)
                && crossed
                && flow["hops"].as_array().unwrap().iter().any(|hop| hop["domain"] == guest)
        };
        let of = |words: &Words| flows.get(words).map_or(&[][..], Vec::as_slice);
        let whole: Vec<&Words> =
            seen.iter().filter(|words| of(words).iter().any(|flow| is_seen_there(&flow))).collect();
        let first = seen.iter().find(|words| !whole.contains(words));
        println!("{guest}: {} of {} frames", whole.len(), seen.len());
        let missing = first.map(|words| (words, of(words)));
        assert!(
            whole.len() == seen.len() && seen.len() > 100,
            "{} of {} frames seen at the device of {guest} are whole flows; this is none: {missing:x?}; {summary}",
            whole.len(),
            seen.len()
        );
    }
    large_ones_cross_in_several_requests(&report);
    several_queues_are_used(&report);
    requests_are_found(&world, &trace, &report);
}

/// Frames that are to be cut by the device take requests of a page each, and one more slot for how.
fn large_ones_cross_in_several_requests(report: &Value) {
    let flows = report["flows"].as_array().unwrap();
    for (from, to) in [("dom0", "vm1"), ("vm1", "dom0"), ("vm1", "vm2"), ("vm2", "vm1")] {
        let between = |flow: &&Value| {
            flow["frame"]["source"] == address(from)
                && flow["frame"]["target"] == address(to)
                && flow["frame"]["bytes"].as_u64() > Some(2 * 4096)
                && flow["crossings"].as_u64() >= Some(1)
        };
        let large: Vec<&Value> = flows.iter().filter(between).collect();
        let bytes = large.iter().filter_map(|flow| flow["frame"]["bytes"].as_u64()).max();
        println!(
            "{from} to {to}: {} frames of more than two pages, the largest of {bytes:?} bytes",
            large.len()
        );
        assert!(large.len() >= 5, "from {from} to {to}: {}", large.len());
        assert!(large.iter().all(|flow| is_whole(flow)), "from {from} to {to}: {large:?}");
    }
}

/// The lab's devices have two queues each: some frames go through each of a guest's, both ways.
fn several_queues_are_used(report: &Value) {
    let mut rings: BTreeMap<(&str, &str), BTreeSet<u64>> = BTreeMap::new();
    for hop in report["flows"].as_array().unwrap().iter().flat_map(|flow| flow["hops"].as_array().unwrap()) {
        if let (Some(domain @ ("vm1" | "vm2")), Some(kind @ ("xin" | "xout"))) =
            (hop["domain"].as_str(), hop["kind"].as_str())
        {
            rings.entry((domain, kind)).or_default().insert(hop["values"][0].as_u64().unwrap() & 0xffff);
        }
    }
    println!("{rings:?}");
    assert!(rings.len() == 4 && rings.values().all(|queues| *queues == BTreeSet::from([0, 1])), "{rings:?}");
}

/// Each request is one, from where it was sent to where its answer was received, whoever asked whom.
fn requests_are_found(world: &World, trace: &Path, report: &Value) {
    let flows = report["flows"].as_array().unwrap().iter();
    let dropped: HashSet<u64> =
        flows.filter(|flow| !flow["dropped"].is_null()).map(|flow| flow["id"].as_u64().unwrap()).collect();
    let output =
        world.xweave().arg("flows").arg(trace).args(["--by", "connection", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut of: BTreeMap<(String, String), u64> = BTreeMap::new();
    for exchange in document["exchanges"].as_array().unwrap() {
        let server = exchange["connection"]["server"].as_str().unwrap();
        if !server.ends_with(":8095") {
            continue;
        }
        // One of whose frames a kernel says that it dropped (and TCP sent again) is not complete.
        let mut flows =
            ["request", "answer"].iter().flat_map(|side| exchange[side]["flows"].as_array().unwrap());
        let any_dropped = flows.any(|flow| dropped.contains(&flow.as_u64().unwrap()));
        assert_eq!(exchange["complete"], !any_dropped, "{exchange}");
        assert!(exchange["answer"]["bytes"].as_u64() >= Some(150_000), "{exchange}");
        let number = |value: &Value| value.as_i64().unwrap();
        let parts: i64 = exchange["parts"].as_array().unwrap().iter().map(|part| number(&part["ns"])).sum();
        assert_eq!(parts, number(&exchange["end_ns"]) - number(&exchange["start_ns"]), "{exchange}");
        let client = exchange["connection"]["client"].as_str().unwrap().rsplit_once(':').unwrap().0;
        *of.entry((client.to_owned(), server.rsplit_once(':').unwrap().0.to_owned())).or_default() += 1;
    }
    for (client, server, _) in routes() {
        let asked = (address(client).to_owned(), address(server).to_owned());
        assert_eq!(of.get(&asked), Some(&3), "{client} asked {server}: {of:?}");
    }
}

#[test]
#[ignore = "minutes: make lab-test"]
fn what_a_filter_selects_is_followed_and_nothing_else() {
    let Some(world) = World::as_it_is("xen: where") else { return };
    let filter = "udp and (port 9201 or port 9202 or port 9203)";
    let recording =
        world.record_in("dom0", &format!("xen-net {DOMAINS} --where '{filter}' -o /tmp/selected"));
    // Two to dom0 and one from there, of which the filter leaves as many others out.
    let sends = [("vm1", "dom0", 9201), ("vm2", "dom0", 9202), ("dom0", "vm2", 9203)];
    for (from, to, port) in sends {
        for port in [port, port + 10] {
            let send = format!("xweave lab load udp-send --rate 200 --to {}:{port} --count 50", address(to));
            let receive =
                format!("exec xweave lab load udp-recv --idle-timeout 300 --port {port} --count 50");
            let receiver = world.start(to, &receive);
            world.until(to, &format!("grep -qi :{port:04x} /proc/net/udp"));
            world.run(from, &send);
            receiver.finish_well();
        }
    }
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    world.pull("dom0", "/tmp/selected", &dir.path().join("trace"));
    let report = world.flows(&dir.path().join("trace"));
    let summary = &report["summary"];
    println!("{summary}");
    let mut of_port: BTreeMap<u64, u64> = BTreeMap::new();
    for flow in report["flows"].as_array().unwrap() {
        assert_eq!((&flow["complete"], flow["crossings"].as_u64()), (&true.into(), Some(1)), "{flow}");
        *of_port.entry(flow["frame"]["target_port"].as_u64().unwrap()).or_default() += 1;
    }
    assert_eq!(of_port, BTreeMap::from([(9201, 50), (9202, 50), (9203, 50)]), "{summary}");
    assert_sound(&report);
}

/// Nobody but a domain and dom0 writes into its part of XenStore: there dom0 finds which domain is which.
#[test]
fn a_guest_cannot_put_a_mark_into_the_part_of_another() {
    let Some(world) = World::as_it_is("xen: marks") else { return };
    let domids = domids(&world);
    let answer = |guest: &str, path: &str| {
        // XS_WRITE, a request and a transaction of 0, and the length of path and value.
        let length = path.len() + 1 + 4;
        let ask =
            format!("printf '\\013\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\{length:o}\\0\\0\\0{path}\\0mark' >&3");
        // (a header, and what was said)
        let read = "busybox timeout 2 dd bs=4096 count=2 <&3 2>/dev/null | tr -cd A-Z";
        world.run(guest, &format!("exec 3<>/dev/xen/xenbus && {ask} && {read}"))
    };
    for (guest, other) in [("vm1", "vm2"), ("vm2", "vm1")] {
        let path = |of: &str| format!("/local/domain/{}/data/xweave", domids[of]);
        assert!(answer(guest, &path(other)).contains("EACCES"), "{guest} wrote into {other}'s part");
        assert!(answer(guest, &path(guest)).contains("OK"), "{guest} could not write into its own part");
        assert_eq!(world.run("dom0", &format!("xenstore-read {}", path(guest))).trim(), "mark");
        world.run("dom0", &format!("xenstore-rm {}", path(guest)));
        assert!(!world.try_run("dom0", &format!("xenstore-read {}", path(other))).status.success());
    }
}

#[test]
fn the_aspect_is_woven_at_as_many_places_as_is_said() {
    let Some(world) = World::as_it_is("xen: places") else { return };
    let woven = ["vm1", "dom0"].map(|domain| {
        let found = world
            .run(domain, &format!("xweave check xen-net --no-compile --domain {domain}=live 2>/dev/null"));
        numbers(found.lines().last().unwrap())[0]
    });
    println!("{} in a guest, {} in dom0", woven[0], woven[1]);
    let table = include_str!("../../../../docs/language.md");
    let row = table.lines().find(|line| line.starts_with("| `xen-net` |")).unwrap();
    if world.run("dom0", "uname -r").starts_with("6.12") {
        assert_eq!(numbers(row.rsplit('|').nth(1).unwrap()), woven);
    }
}
