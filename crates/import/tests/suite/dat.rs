//! Files of trace-cmd that were recorded for real (tests/data/README.md), and what becomes of them.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::common::damage::damaged;
use crate::common::{Scratch, unpacked};
use proptest::{prelude::*, sample::Index};
use xweave_import::{ErrorKind, Options};
use xweave_trace::{
    Event, Method, Role,
    event::{Connection, Context, Kind},
};

/// Events of one kind.
fn of(events: &[Event], kind: Kind) -> Vec<Event> {
    events.iter().filter(|event| event.kind == kind).copied().collect()
}

#[test]
fn a_host_and_its_guest_are_on_one_time_line() {
    let scratch = Scratch::new();
    let files = [scratch.file("host.dat"), scratch.file("guest.dat")];
    let (outcome, trace) = scratch.import(&files);
    assert_eq!((outcome.damage, outcome.warnings, outcome.lost), (vec![], vec![], 0));
    let manifest = trace.manifest();
    let [host, guest] = manifest.domains.as_slice() else { panic!("{:?}", manifest.domains) };
    assert_eq!(
        (host.name.as_str(), host.role, guest.name.as_str(), guest.role),
        ("host", Role::Host, "vm1", Role::Guest)
    );
    assert_eq!((host.kernel.as_str(), guest.cpus), ("6.12.117+deb12-cloud-amd64", 2));
    let vm = guest.vm.as_ref().unwrap();
    assert_eq!((vm.host.as_str(), vm.pid, vm.cid), ("host", 222, Some(3)));
    assert_eq!((manifest.reference.as_str(), manifest.clocks[1].method), ("host", Method::TscOffset));

    let all: Vec<Event> = trace.events().collect();
    assert_eq!(all.len() as u64, outcome.events);
    assert!(all.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    // As `trace-cmd report` counts and dates them.
    let ours: Vec<Event> = all.iter().filter(|event| event.domain == host.number).copied().collect();
    assert_eq!(ours.iter().map(|event| event.time_ns).min(), Some(502_519_816_033));
    assert_eq!(of(&ours, Kind::VmExit).len(), 2575);

    // A guest's processor does nothing while its thread is out of the guest: so its times are the host's.
    let mut inside: BTreeMap<u64, bool> = BTreeMap::new();
    let (mut checked, mut outside) = (0, 0);
    let last = ours.last().unwrap().time_ns;
    for event in all.iter().filter(|event| event.time_ns < last) {
        match (event.kind, event.domain == host.number) {
            (Kind::VmEnter, true) => drop(inside.insert(event.object, true)),
            (Kind::VmExit, true) => drop(inside.insert(event.object, false)),
            (Kind::Switch | Kind::IrqEnter, false) => {
                if let Some(inside) = inside.get(&event.cpu.into()) {
                    checked += 1;
                    outside += u32::from(!inside);
                }
            }
            _ => {}
        }
    }
    assert!(checked > 200, "{checked}");
    assert_eq!(outside, 0, "of {checked}");
}

#[test]
fn a_program_with_sockets_disks_and_system_calls() {
    let scratch = Scratch::new();
    let (outcome, trace) = scratch.import(&[scratch.file("bash-mono.dat")]);
    assert_eq!((outcome.damage, outcome.warnings), (vec![], vec![]));
    let mut events = trace.events();
    let all: Vec<Event> = events.by_ref().collect();
    let count = |kind| of(&all, kind).len();
    assert_eq!((count(Kind::SyscallEnter), count(Kind::SyscallExit), count(Kind::Switch)), (705, 705, 237));
    assert_eq!((count(Kind::Fork), count(Kind::Exit)), (3, 4));

    // bash connects to port 7777 of 10.77.0.1, and says hello.
    let sockets = of(&all, Kind::Socket);
    // Only what bash itself did was recorded: it was the network that told of the connection.
    let [syn_sent, fin_wait] = [sockets[0], sockets[1]];
    assert_eq!((syn_sent.code, fin_wait.code, syn_sent.object), (2, 4, fin_wait.object));
    let connection = Connection(fin_wait.position);
    assert_eq!((connection.local_port(), connection.remote_port()), (46636, 7777));
    assert_eq!(
        connection.0 >> 32,
        u64::from(u32::from_le_bytes([10, 77, 0, 254]) ^ u32::from_le_bytes([10, 77, 0, 1]))
    );
    let sent = of(&all, Kind::Send);
    assert_eq!((sent[0].bytes, sent[0].position, sent[0].object), (6, syn_sent.position, syn_sent.object));

    // Each access to the disk is asked for, given to it, and done.
    let (queued, issued, done) =
        (of(&all, Kind::DiskQueue), of(&all, Kind::DiskIssue), of(&all, Kind::DiskComplete));
    assert!(issued.iter().all(|issue| queued.iter().any(|queue| queue.object == issue.object)));
    assert!(
        done.iter().all(|done| issued
            .iter()
            .any(|issue| (issue.position, issue.bytes) == (done.position, done.bytes)))
    );
    let reads = of(&all, Kind::DiskIssue).into_iter().filter(|issue| issue.code == 0 && issue.bytes == 65536);
    assert!(reads.count() >= 4);

    // Threads are called as they are, from their first event on.
    let names = events.names();
    let called = |tid: u32| all.iter().find(|event| event.kind == Kind::Thread && event.other == tid);
    let asked = all.iter().find(|event| event.kind == Kind::Send).unwrap().tid;
    assert_eq!(names.text(called(asked).unwrap().name), "bash");
    // What raised a softirq is told by its beginning, and where a thread was woken by the wake-up.
    assert_eq!(outcome.unknown.get("irq:softirq_raise"), None);
    let raised: Vec<_> =
        of(&all, Kind::SoftirqEnter).iter().map(|event| (event.object, event.code)).collect();
    let by_interrupts =
        |&&(number, code): &&(u64, i32)| [1, 9].contains(&number) && code == Context::Hard.code();
    assert_eq!((raised.len(), raised.iter().filter(by_interrupts).count()), (85, 85));
    let woken: Vec<_> = of(&all, Kind::Wake).iter().map(|event| Context::of(event.code)).collect();
    assert!(woken.iter().all(Option::is_some) && woken.contains(&Some(Context::Hard)), "{woken:?}");
    assert!(of(&all, Kind::Wake).iter().all(|event| event.object > 0));
}

#[test]
fn version_6_and_named_system_calls() {
    let scratch = Scratch::new();
    let (outcome, trace) = scratch.import(&[scratch.file("bash-v6.dat")]);
    assert_eq!((outcome.damage, outcome.lost), (vec![], 0));
    let mut events = trace.events();
    let all: Vec<Event> = events.by_ref().collect();
    // A fork is told by sched_wakeup_new where nothing else tells it.
    assert_eq!(
        (of(&all, Kind::Fork).len(), of(&all, Kind::Switch).len(), of(&all, Kind::Wake).len()),
        (3, 243, 106)
    );
    let calls = of(&all, Kind::SyscallEnter);
    let names: Vec<&str> = calls.iter().map(|call| events.names().text(call.name)).collect();
    assert!(
        names.contains(&"read") && names.iter().all(|name| ["read", "futex"].contains(name)),
        "{names:?}"
    );
    assert_eq!(all[0].time_ns, 1_614_295_623_486);
}

#[test]
fn what_the_kernel_lost_is_counted() {
    let scratch = Scratch::new();
    let (outcome, trace) = scratch.import(&[scratch.file("lost.dat")]);
    // The file was cut: its pages tell of 83 records; trace-cmd counted 242 in the end.
    assert_eq!((outcome.lost, trace.manifest().lost, outcome.domains[0].lost), (242, 242, 242));
    // What the pages tell of has its time: after the last event of that processor, and before the next.
    let all: Vec<Event> = trace.events().collect();
    let lost = of(&all, Kind::Lost);
    assert_eq!(lost.iter().map(|loss| loss.bytes).sum::<u64>(), 83);
    for loss in &lost {
        let (from, to) = (loss.time_ns.saturating_sub_unsigned(loss.position), loss.time_ns);
        let of_cpu = all.iter().filter(|event| event.cpu == loss.cpu && event.kind != Kind::Thread);
        assert!(of_cpu.clone().all(|event| event.time_ns <= from || event.time_ns >= to), "{loss:?}");
        assert!(from < to && of_cpu.clone().any(|event| event.time_ns == from), "{loss:?}");
    }
}

#[test]
fn a_guest_alone_says_so() {
    let scratch = Scratch::new();
    let (outcome, trace) = scratch.import(&[scratch.file("guest.dat")]);
    assert!(outcome.warnings[0].contains("host whose file is not given"), "{:?}", outcome.warnings);
    assert_eq!(trace.manifest().domains[0].role, Role::Guest);
}

#[test]
fn strangers_are_told_apart_from_each_other() {
    let scratch = Scratch::new();
    let (host, mono) = (scratch.file("host.dat"), scratch.file("bash-mono.dat"));
    let (outcome, _) = scratch.import(&[host.clone(), mono]);
    assert!(
        outcome.warnings.iter().any(|warning| warning.contains("not on one time line")),
        "{:?}",
        outcome.warnings
    );
    assert_eq!(
        outcome.domains.iter().map(|domain| domain.name.as_str()).collect::<Vec<_>>(),
        ["host", "host-2"]
    );
}

#[test]
fn what_is_no_trace_is_refused() {
    let scratch = Scratch::new();
    let mut future = unpacked("bash-v6.dat");
    future[10] = b'9';
    let mut big = unpacked("bash-v6.dat");
    big[12] = 1;
    let files: [(&str, &[u8], &str); 4] = [
        ("empty", b"", "trace.dat of trace-cmd"),
        ("text", b"#!/bin/sh\n", "trace.dat of trace-cmd"),
        ("future.dat", &future, "6 and 7"),
        ("big.dat", &big, "big-endian"),
    ];
    for (name, content, expected) in files {
        let error = scratch.try_import(&[scratch.write(name, content)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
        assert!(error.to_string().contains(expected) && error.to_string().contains(name), "{error}");
    }
    let error = scratch.try_import(&[PathBuf::from("/")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    let error = scratch.try_import(&[PathBuf::from("/nonexistent.dat")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(!scratch.dir().join("trace.json").exists());
}

#[test]
fn what_is_before_the_damage_is_read() {
    let scratch = Scratch::new();
    let whole = unpacked("bash-v6.dat");
    let (complete, _) = scratch.import(&[scratch.write("whole.dat", &whole)]);
    let half = whole.len() - 10_000;
    let (outcome, trace) = scratch.import(&[scratch.write("half.dat", &whole[..half])]);
    assert!((100..complete.events).contains(&outcome.events), "{}", outcome.events);
    assert!(outcome.damage[0].contains(&format!("at byte {half}")), "{:?}", outcome.damage);
    assert_eq!(trace.manifest().warnings, outcome.damage);

    // A page in the middle costs that page.
    let mut worse = whole.clone();
    let page = whole.len() - 16_384;
    worse[page + 8..page + 12].fill(0xff);
    let (outcome, _) = scratch.import(&[scratch.write("worse.dat", &worse)]);
    assert!((100..complete.events).contains(&outcome.events), "{}", outcome.events);
    assert!(outcome.damage[0].contains(&format!("at byte {}", page + 8)), "{:?}", outcome.damage);

    // A file of version 7 says in the end where its records are.
    let whole = unpacked("bash-mono.dat");
    let error = scratch.try_import(&[scratch.write("cut.dat", &whole[..whole.len() - 2000])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("cut.dat is damaged at byte"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Any bytes may be wrong: that costs what they describe, and nothing else.
    #[test]
    fn damage_is_told(flips in prop::collection::vec((any::<Index>(), any::<u8>()), 1..20), cut in any::<Index>()) {
        let scratch = Scratch::new();
        for name in ["guest.dat", "bash-v6.dat"] {
            // What describes the records is in the beginning; the records are in the end.
            let place = |at: &Index, early, length| {
                let place = at.index(12_000);
                if early { place } else { length - 1 - place }
            };
            let content = damaged(unpacked(name), &flips, cut, 0, place);
            let file = scratch.write("damaged.dat", &content);
            let done = xweave_import::import(&[file], &scratch.dir(), &Options { force: true, ..Options::default() });
            if let Err(error) = done {
                prop_assert!(!error.to_string().is_empty());
            }
            fs::remove_dir_all(scratch.dir()).ok();
        }
    }
}
