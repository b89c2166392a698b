//! CTF traces, which babeltrace2 decodes: one that perf made (tests/data/README.md), and one as LTTng's kernel tracer
//! writes them.

use crate::common::lttng;
use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::common::{Scratch, unpacked};
use xweave_import::ErrorKind;
use xweave_trace::{
    Event,
    event::{Kind, State},
};

/// Whether babeltrace2 is there; if not, says what is not tested.
fn babeltrace2(test: &str) -> bool {
    let there = Command::new("babeltrace2").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !there {
        // Past the test's captured output, to be seen.
        let line =
            format!("SKIPPED: {test}: babeltrace2 is not installed (scripts/setup, or its Debian package)\n");
        io::stderr().write_all(line.as_bytes()).unwrap();
    }
    there
}

/// The directory that `perf data convert --to-ctf` made of plain.data.
fn of_perf(scratch: &Scratch) -> PathBuf {
    let dir = scratch.dir().with_file_name("plain.ctf");
    fs::create_dir_all(&dir).unwrap();
    for name in ["metadata", "perf_stream_0", "perf_stream_1"] {
        fs::write(dir.join(name), unpacked(&format!("plain.ctf/{name}"))).unwrap();
    }
    dir
}

/// A directory as LTTng makes it.
fn of_lttng(scratch: &Scratch) -> PathBuf {
    let dir = scratch.dir().with_file_name("session").join("kernel");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("metadata"), lttng::METADATA).unwrap();
    fs::write(dir.join("channel0_2"), lttng::stream(2)).unwrap();
    dir
}

#[test]
fn converted_by_perf_it_is_the_same() {
    if !babeltrace2("converted_by_perf_it_is_the_same") {
        return;
    }
    let scratch = Scratch::new();
    let (perf, trace) = scratch.import(&[scratch.file("plain.data")]);
    let known = |event: &Event| !matches!(event.kind, Kind::Thread);
    let expected: Vec<Event> = trace.events().filter(known).collect();
    let (ctf, trace) = scratch.import(&[of_perf(&scratch)]);
    assert_eq!((ctf.damage, ctf.warnings, ctf.lost), (vec![], vec![], 0));
    let domain = &trace.manifest().domains[0];
    assert_eq!((domain.name.as_str(), domain.hostname.as_str(), domain.cpus), ("host", "vm", 2));
    assert_eq!(ctf.kinds, perf.kinds);
    let found: Vec<Event> = trace.events().filter(known).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        // The CTF has of addresses what is before the first zero, and names got other numbers.
        let (position, name) = match found.kind {
            Kind::Socket | Kind::Send | Kind::Receive => {
                assert_eq!(found.position & 0xffff_ffff, expected.position & 0xffff_ffff);
                (found.position, found.name)
            }
            _ => (expected.position, found.name),
        };
        assert_eq!(*found, Event { position, name, ..*expected });
    }
}

#[test]
fn what_lttng_records_of_a_kernel() {
    if !babeltrace2("what_lttng_records_of_a_kernel") {
        return;
    }
    let scratch = Scratch::new();
    let dir = of_lttng(&scratch);
    // The session's directory will do, too.
    let (outcome, trace) = scratch.import(&[dir.parent().unwrap().to_owned()]);
    assert_eq!((outcome.damage, outcome.warnings, outcome.lost), (vec![], vec![], 5));
    assert_eq!(outcome.unknown.into_iter().collect::<Vec<_>>(), [("timer_start".to_owned(), 1)]);
    let domain = &trace.manifest().domains[0];
    assert_eq!((domain.hostname.as_str(), domain.kernel.as_str(), domain.cpus), ("box", "6.1.0-9-amd64", 3));
    let mut events = trace.events();
    let all: Vec<Event> = events.by_ref().collect();
    assert!(all.iter().all(|event| event.kind == Kind::Thread || event.cpu == 2));
    let only = |kind| {
        let mut found = all.iter().filter(|event| event.kind == kind);
        let event = *found.next().unwrap_or_else(|| panic!("no {kind:?}"));
        assert!(found.next().is_none(), "{kind:?}");
        event
    };
    let name = |event: Event| events.names().text(event.name).to_owned();

    let switch = only(Kind::Switch);
    assert_eq!(switch.time_ns, 1_700_000_000_000_000_200);
    assert_eq!((switch.tid, switch.other, switch.code), (7, 9, State::Sleeping.code()));
    // Nothing tells of a thread in these but who was switched to.
    let wake = only(Kind::Wake);
    assert_eq!((wake.tid, wake.other), (9, 11));
    let fork = only(Kind::Fork);
    assert_eq!((fork.tid, fork.other, fork.object, name(fork)), (9, 12, 8, "a \"b\", c".to_owned()));
    assert_eq!(only(Kind::IrqEnter).object, 30);
    assert_eq!(only(Kind::SoftirqEnter).object, 3);
    let issue = only(Kind::DiskIssue);
    assert_eq!((issue.object, issue.position, issue.bytes, issue.code), (8 << 20 | 1, 2048, 4096, 1));
    assert_eq!(only(Kind::VmEnter).object, 1);
    let exit = only(Kind::VmExit);
    assert_eq!((exit.object, exit.code, exit.tid), (1, 48, 9));
    assert_eq!(name(only(Kind::SyscallEnter)), "futex");
    assert_eq!(only(Kind::SyscallEnter).object, u64::MAX);
    assert_eq!(only(Kind::LockWait).object, 0x7f00_0000_1000);
    assert_eq!(only(Kind::LockAcquired).code, -110);
    assert_eq!(only(Kind::SyscallExit).bytes, (-110i64).cast_unsigned());
    // Thread 9 ran a vCPU, and belongs to process 8.
    let vms: Vec<_> = domain.vms.iter().map(|vm| (vm.pid, vm.name.as_str())).collect();
    assert_eq!(vms, [(8, "")]);
    let threads: Vec<_> = all.iter().filter(|event| event.kind == Kind::Thread).collect();
    let threads: Vec<_> = threads.iter().map(|event| (event.other, event.object, name(**event))).collect();
    assert_eq!(threads, [(9, 8, "worker".to_owned()), (7, 0, "sh".to_owned())]);
}

#[test]
fn what_cannot_be_read_is_told() {
    if !babeltrace2("what_cannot_be_read_is_told") {
        return;
    }
    let scratch = Scratch::new();
    let dir = of_lttng(&scratch);
    let stream = lttng::stream(2);
    let (whole, _) = scratch.import(std::slice::from_ref(&dir));
    let mut worse = stream.clone();
    let second = lttng::packet();
    // The second packet begins with an event of a number that nothing describes.
    worse[second + 52..second + 56].fill(0x77);
    fs::write(dir.join("channel0_2"), &worse).unwrap();
    let (outcome, trace) = scratch.import(std::slice::from_ref(&dir));
    assert!(outcome.events > 0 && outcome.events < whole.events, "{}", outcome.events);
    assert_eq!(trace.events().count() as u64, outcome.events);
    assert!(outcome.damage[0].contains("is damaged (babeltrace2: "), "{:?}", outcome.damage);

    for (name, content) in
        [("channel0_2", &stream[..stream.len() - 9]), ("metadata", b"/* CTF 1.8 */ trac {")]
    {
        fs::write(dir.join(name), content).unwrap();
        let error = scratch.try_import(std::slice::from_ref(&dir)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(error.to_string().contains("kernel is damaged (babeltrace2: "), "{error}");
    }
    fs::remove_file(dir.join("metadata")).unwrap();
    let error = scratch.try_import(&[dir]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.to_string().contains("without a CTF trace"), "{error}");
}
