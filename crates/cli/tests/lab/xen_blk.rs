//! Disk requests of two guests of Xen: each is one flow, from the guest to dom0's device and back, and is given to the guest that
//! it is of.

use std::collections::BTreeMap;

use serde_json::Value;
use xweave_trace::Trace;

use crate::{
    world::{World, assert_sound},
    xen_net::DOMAINS,
};

/// The guests, with the disk that dom0 has for each.
const GUESTS: [(&str, &str); 2] = [("vm1", "loop1"), ("vm2", "loop2")];

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// A place on a disk that is read or written: so many bytes at a time, from the block of that number on, so many times.
#[derive(Clone, Copy)]
struct Access {
    writes: bool,
    bytes: u64,
    from: u64,
    times: u64,
}

impl Access {
    fn command(&self) -> String {
        let Self { writes, bytes, from, times } = self;
        if *writes {
            format!("dd if=/dev/zero of=/dev/xvda bs={bytes} seek={from} count={times} oflag=direct")
        } else {
            format!("dd if=/dev/xvda of=/dev/null bs={bytes} skip={from} count={times} iflag=direct")
        }
    }

    /// Each sector that one begins with, and how many bytes there are from it on.
    fn requests(self) -> impl Iterator<Item = (u64, u64)> {
        let Self { bytes, from, times, .. } = self;
        (from..from + times).map(move |block| (block * bytes / SECTOR, bytes))
    }
}

/// Both guests access the same sectors, in the same order. What takes more than eleven pages has indirect segments.
const ACCESSES: [Access; 5] = [
    Access { writes: false, bytes: 4096, from: 3, times: 8 },
    Access { writes: true, bytes: 4096, from: 7000, times: 8 },
    Access { writes: false, bytes: 45_056, from: 40, times: 4 },
    Access { writes: true, bytes: 131_072, from: 100, times: 6 },
    Access { writes: false, bytes: 131_072, from: 300, times: 6 },
];

/// What the values of a flow's hops are in a domain at a function, one line for each time it passed.
fn passed(flow: &Value, domain: &str, function: &str) -> Vec<[u64; 2]> {
    let hops = flow["hops"].as_array().unwrap().iter();
    hops.filter(|hop| hop["domain"] == domain && hop["function"] == function && hop["kind"] == "hop")
        .map(|hop| [hop["values"][0].as_u64().unwrap(), hop["values"][1].as_u64().unwrap()])
        .collect()
}

/// What dom0's kernel counts of a device: requests to read and sectors read, then the same of writing.
fn counted(world: &World, device: &str) -> [u64; 4] {
    let stat = world.run("dom0", &format!("cat /sys/block/{device}/stat"));
    let stat: Vec<u64> = stat.split_whitespace().map(|word| word.parse().unwrap()).collect();
    [stat[0], stat[2], stat[4], stat[6]]
}

/// The flows of a trace in dom0, by the guest that they begin in; and what is said of all of them.
fn flows(world: &World, trace: &str) -> (BTreeMap<String, Vec<Value>>, Value) {
    let dir = tempfile::tempdir().unwrap();
    world.pull("dom0", trace, &dir.path().join("trace"));
    let mut report = world.flows(&dir.path().join("trace"));
    let mut by_guest: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for flow in std::mem::take(report["flows"].as_array_mut().unwrap()) {
        by_guest.entry(flow["hops"][0]["domain"].as_str().unwrap().to_owned()).or_default().push(flow);
    }
    let (_, damaged) = Trace::open(&dir.path().join("trace")).unwrap().rows();
    assert!(damaged.is_empty(), "{damaged:?}");
    println!("{}", report["summary"]);
    (by_guest, report)
}

#[test]
fn requests_of_two_guests_at_once_are_followed_to_dom0s_devices_and_back() {
    let Some(world) = World::as_it_is("xen: disk requests") else { return };
    let before = GUESTS.map(|(_, device)| counted(&world, device));
    let recording = world.record_in("dom0", &format!("xen-blk {DOMAINS} -o /tmp/disks"));
    let commands = ACCESSES.map(|access| access.command()).join(" && ");
    // And one without data: what is in the disk's cache is to be written.
    let flush = "dd if=/dev/zero of=/dev/xvda bs=4096 seek=9000 count=1 conv=fsync";
    let running = GUESTS.map(|(guest, _)| {
        world.start(guest, &format!("{{ {commands} && {flush}; }} >/tmp/disks 2>&1; echo $? >/tmp/status"))
    });
    for (guest, _) in GUESTS {
        world.until(guest, "[ -s /tmp/status ]");
        assert_eq!(world.run(guest, "cat /tmp/status; rm /tmp/status"), "0\n");
    }
    drop(running);
    recording.finish_well();
    let after = GUESTS.map(|(_, device)| counted(&world, device));

    let (mut by_guest, report) = flows(&world, "/tmp/disks");
    assert_sound(&report);
    let mut expected: Vec<(u64, u64)> = ACCESSES.iter().flat_map(|access| access.requests()).collect();
    expected.push((9000 * 4096 / SECTOR, 4096));
    expected.sort_unstable();
    for ((guest, device), (before, after)) in GUESTS.iter().zip(before.iter().zip(after)) {
        let flows = by_guest.remove(*guest).unwrap();
        let (data, flushes): (Vec<&Value>, Vec<&Value>) =
            flows.iter().partition(|flow| passed(flow, guest, "block_rq_issue")[0][1] > 0);
        assert!(!flushes.is_empty(), "{guest}: no flush");
        for flow in &flows {
            assert_eq!((&flow["complete"], &flow["crossings"]), (&true.into(), &2.into()), "{flow}");
            // Its own disk's thread, in dom0.
            let comms: Vec<&str> =
                flow["hops"].as_array().unwrap().iter().filter_map(|hop| hop["comm"].as_str()).collect();
            assert!(comms.iter().any(|comm| comm.ends_with(".xvda-0")), "{flow}");
        }
        let mut seen = Vec::new();
        for flow in data {
            let [sector, bytes] = passed(flow, guest, "block_rq_issue")[0];
            seen.push((sector, bytes));
            // The guest's disk is the whole of the device, and the device is this guest's.
            assert_eq!(passed(flow, "dom0", "submit_bio"), [[sector, bytes]], "{flow}");
            assert_eq!(passed(flow, "dom0", "block_rq_issue"), [[sector, bytes]], "{flow}");
            assert_eq!(passed(flow, "dom0", "block_rq_complete"), [[bytes, 0]], "{flow}");
            assert_eq!(passed(flow, guest, "block_rq_complete"), [[bytes, 0]], "{flow}");
        }
        seen.sort_unstable();
        assert_eq!(seen, expected, "{guest}");
        // As many requests, and sectors, as dom0's kernel counts of that device itself: a flush is one that writes nothing.
        let of = |writes: bool| ACCESSES.iter().filter(move |access| access.writes == writes);
        let requests = |writes| {
            of(writes).map(|access| access.times).sum::<u64>()
                + u64::from(writes) * (1 + flushes.len() as u64)
        };
        let sectors = |writes| {
            (of(writes).map(|access| access.times * access.bytes).sum::<u64>() + 4096 * u64::from(writes))
                / SECTOR
        };
        let difference: [u64; 4] = std::array::from_fn(|at| after[at] - before[at]);
        assert_eq!(difference, [requests(false), sectors(false), requests(true), sectors(true)], "{device}");
    }
    assert!(by_guest.is_empty(), "{by_guest:?}");
}

/// What a guest reads without end, one page after the other, until it is told to stop.
const READING: &str = "rm -f /tmp/stop; (at=0; while ! [ -e /tmp/stop ]; do \
    dd if=/dev/xvda of=/dev/null bs=4096 skip=$at count=1 iflag=direct 2>/dev/null; at=$((at + 1)); sleep 0.1; \
    done; echo $at >/tmp/read) </dev/null >/dev/null 2>&1 &";

/// Waits until a guest has read so many pages more, of which there are ten a second at most.
fn reads_on(world: &World, guest: &str, pages: u64) {
    let reads = "awk '{ print $1 }' /sys/block/xvda/stat";
    let so_far: u64 = world.run(guest, reads).trim().parse().unwrap();
    world.until(guest, &format!("[ $({reads}) -ge {} ]", so_far + pages));
}

/// How many pages a guest has read, which it ends.
fn read(world: &World, guest: &str) -> u64 {
    world.run(guest, "rm -f /tmp/read; touch /tmp/stop");
    world.until(guest, "[ -s /tmp/read ]");
    world.run(guest, "cat /tmp/read").trim().parse().unwrap()
}

/// The sectors that flows which are whole began with.
fn whole(flows: &[Value], guest: &str) -> Vec<u64> {
    let whole = flows.iter().filter(|flow| flow["complete"] == true && flow["crossings"] == 2);
    let mut sectors: Vec<u64> = whole.map(|flow| passed(flow, guest, "block_rq_issue")[0][0]).collect();
    sectors.sort_unstable();
    sectors
}

#[test]
#[ignore = "minutes: make lab-test"]
fn a_guest_that_is_saved_and_restored_goes_on_and_one_that_is_destroyed_ends() {
    let Some(world) = World::as_it_is("xen: saved, restored, destroyed") else { return };
    let record = |trace: &str| world.record_in("dom0", &format!("xen-blk {DOMAINS} -o {trace}"));
    let domid = |guest: &str| world.run("dom0", &format!("xl domid {guest}")).trim().parse::<u16>().unwrap();
    let clean = || world.until("dom0", "! grep -q direct /sys/kernel/tracing/enabled_functions");
    let reading = || {
        for (guest, _) in GUESTS {
            world.run(guest, READING);
        }
    };
    let since = |sectors: &[u64]| sectors.iter().max().copied().unwrap_or_default() / 8;

    // It is another domain afterwards, whose disk is another of dom0's back end.
    let before = domid("vm1");
    let recording = record("/tmp/saved");
    reading();
    world
        .run("dom0", "xl save vm1 /var/tmp/vm1.save && xl restore /var/tmp/vm1.save && rm /var/tmp/vm1.save");
    let restored = domid("vm1");
    assert_ne!(before, restored);
    reads_on(&world, "vm1", 10);
    let pages = GUESTS.map(|(guest, _)| read(&world, guest));
    let log = recording.finish_well();
    assert!(log.contains(&format!("vm1: it was restored, and is domain {restored} of Xen since")), "{log}");
    clean();
    let (by_guest, _) = flows(&world, "/tmp/saved");
    for ((guest, _), pages) in GUESTS.iter().zip(pages) {
        let (of_guest, sectors) = (&by_guest[*guest], whole(&by_guest[*guest], guest));
        println!("{guest}: {} of {pages} reads are whole, of {} flows", sectors.len(), of_guest.len());
        // One may have been under way as it was saved, and is asked for again.
        let expected: Vec<u64> = (0..pages).map(|page| page * 8).collect();
        let missing: Vec<_> = expected.iter().filter(|sector| !sectors.contains(sector)).collect();
        assert!(missing.len() <= usize::from(*guest == "vm1"), "{guest}: {missing:?}");
        assert!(since(&sectors) + 2 >= pages, "{guest}: until {} of {pages}", since(&sectors));
    }

    let recording = record("/tmp/destroyed");
    reading();
    // What it has recorded so far is sent about once a second.
    reads_on(&world, "vm2", 50);
    world.run("dom0", "xl destroy vm2");
    reads_on(&world, "vm1", 10);
    let pages = read(&world, "vm1");
    // Who has its address says that nobody is connected there: it would be waited for otherwise.
    world.reset("vm2");
    let (status, log) = recording.finish();
    assert_eq!(status, Some(1), "{log}");
    assert!(log.contains("domain vm2 was lost"), "{log}");
    clean();
    let (by_guest, _) = flows(&world, "/tmp/destroyed");
    assert_eq!(whole(&by_guest["vm1"], "vm1").len() as u64, pages);
    assert!(!whole(&by_guest["vm2"], "vm2").is_empty());
}
