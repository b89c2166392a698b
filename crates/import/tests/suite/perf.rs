//! Files of `perf record` that were recorded for real (tests/data/README.md), and what becomes of them.

use crate::common::damage::damaged;
use crate::common::{Scratch, unpacked};
use proptest::{prelude::*, sample::Index};
use xweave_import::{ErrorKind, Options};
use xweave_trace::{
    Event,
    event::{Connection, Kind},
};

/// How many events there are of each of these kinds.
fn counts<const N: usize>(events: &[Event], kinds: [Kind; N]) -> [usize; N] {
    kinds.map(|kind| events.iter().filter(|event| event.kind == kind).count())
}

#[test]
fn a_program_with_sockets_and_a_disk() {
    let scratch = Scratch::new();
    let (outcome, trace) = scratch.import(&[scratch.file("plain.data")]);
    assert_eq!((outcome.damage, outcome.warnings, outcome.lost), (vec![], vec![], 0));
    let domain = &trace.manifest().domains[0];
    assert_eq!((domain.name.as_str(), domain.hostname.as_str(), domain.cpus), ("host", "vm", 2));
    let mut events = trace.events();
    let all: Vec<Event> = events.by_ref().collect();
    assert!(all.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    // As `perf script` counts and dates them. What is told twice, by a tracepoint and by perf, is there once.
    use Kind::{DiskIssue, DiskQueue, Exit, Fork, Receive, Send, Socket, Switch, Wake};
    assert_eq!(
        counts(&all, [Switch, Wake, Fork, Exit, DiskQueue, DiskIssue, Socket, Send, Receive]),
        [46, 17, 3, 4, 400, 154, 12, 10, 11]
    );
    assert_eq!(all.last().unwrap().time_ns, 38_913_406_375_373);

    // What one end sent, the other got, in another thread.
    let send = all.iter().find(|event| event.kind == Send).unwrap();
    let ends = all.iter().filter(|event| event.kind == Receive && event.tid != send.tid);
    let receive = ends.clone().find(|receive| receive.time_ns > send.time_ns).unwrap();
    assert_eq!(Connection(send.position).peer(), Connection(receive.position));
    assert_eq!((send.bytes, receive.bytes), (100, 100));

    // perf tells which process a thread belongs to.
    let python = all.iter().find(|event| event.kind == Fork && events.names().text(event.name) == "python3");
    let python = python.unwrap();
    assert_eq!((python.object, python.tid), (send.tid.into(), send.tid));
}

#[test]
fn packed_records_are_the_same_as_others() {
    let scratch = Scratch::new();
    let (outcome, trace) = scratch.import(&[scratch.file("packed.data")]);
    assert_eq!((outcome.damage, outcome.warnings), (vec![], vec![]));
    let mut events = trace.events();
    let all: Vec<Event> = events.by_ref().collect();
    use Kind::{Switch, SyscallEnter, SyscallExit, Wake};
    assert_eq!(counts(&all, [Switch, Wake, SyscallEnter, SyscallExit]), [53, 41, 13, 13]);
    let last = all.iter().rfind(|event| event.kind == Wake).unwrap();
    assert_eq!(last.time_ns, 38_914_835_701_842);
    let call = all.iter().find(|event| event.kind == SyscallEnter).unwrap();
    assert_eq!((events.names().text(call.name), call.object), ("futex", 202));
}

#[test]
fn what_went_through_a_pipe_is_the_same() {
    let scratch = Scratch::new();
    let (outcome, trace) = scratch.import(&[scratch.file("pipe.data")]);
    assert_eq!((outcome.damage, outcome.warnings), (vec![], vec![]));
    let all: Vec<Event> = trace.events().collect();
    // Nothing was recorded of threads but what perf itself tells.
    use Kind::{Exit, Fork, Switch, Wake};
    assert_eq!(counts(&all, [Switch, Wake, Fork, Exit]), [51, 37, 3, 4]);
}

#[test]
fn what_the_kernel_had_no_room_for_has_its_time() {
    let scratch = Scratch::new();
    let mut content = unpacked("plain.data");
    let word = |content: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(content[at..at + 8].try_into().unwrap())).unwrap()
    };
    let (mut at, size) = (word(&content, 40), word(&content, 48));
    let end = at + size;
    // A name that a program took becomes a loss: PERF_RECORD_COMM, and PERF_RECORD_LOST. Both end with time and CPU.
    const COMM: [u8; 4] = [3, 0, 0, 0];
    let mut found = None;
    while at < end {
        if content[at..at + 4] == COMM && content[at + 16..].starts_with(b"python3\0") {
            found = Some(at);
        }
        at += usize::from(u16::from_le_bytes([content[at + 6], content[at + 7]]));
    }
    let at = found.unwrap();
    content[at] = 2;
    content[at + 16..at + 24].copy_from_slice(&77u64.to_le_bytes());
    let (outcome, trace) = scratch.import(&[scratch.write("lost.data", &content)]);
    assert_eq!((outcome.lost, outcome.domains[0].gaps), (77, 1));
    let all: Vec<Event> = trace.events().collect();
    let loss = all.iter().find(|event| event.kind == Kind::Lost).unwrap();
    let from = loss.time_ns.saturating_sub_unsigned(loss.position);
    let of_cpu = all.iter().filter(|event| event.cpu == loss.cpu && event.time_ns < loss.time_ns);
    let sampled = of_cpu.filter(|event| ![Kind::Thread, Kind::Fork, Kind::Exit].contains(&event.kind));
    assert_eq!((loss.bytes, sampled.map(|event| event.time_ns).max()), (77, Some(from)));
}

#[test]
fn what_is_before_the_damage_is_read() {
    let scratch = Scratch::new();
    let whole = unpacked("plain.data");
    let (complete, _) = scratch.import(&[scratch.write("whole.data", &whole)]);
    // perf was killed: it had not written how much there is, nor what is behind it, the formats among it.
    let error = scratch.try_import(&[scratch.write("cut.data", &whole[..whole.len() / 2])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("cut.data is damaged at byte"), "{error}");
    // A record in the middle.
    let mut worse = whole.clone();
    let data = usize::try_from(u64::from_le_bytes(whole[40..48].try_into().unwrap())).unwrap();
    let size = usize::try_from(u64::from_le_bytes(whole[48..56].try_into().unwrap())).unwrap();
    let mut at = data;
    while at < data + size / 2 {
        at += usize::from(u16::from_le_bytes([whole[at + 6], whole[at + 7]]));
    }
    worse[at + 6..at + 8].fill(0);
    let (outcome, _) = scratch.import(&[scratch.write("worse.data", &worse)]);
    assert!((10..complete.events).contains(&outcome.events), "{}", outcome.events);
    assert!(outcome.damage[0].contains(&format!("at byte {at}")), "{:?}", outcome.damage);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Any bytes may be wrong: that costs what they describe, and nothing else.
    #[test]
    fn damage_is_told(
        flips in prop::collection::vec((any::<Index>(), any::<u8>()), 1..20),
        cut in any::<Index>(),
    ) {
        let scratch = Scratch::new();
        for name in ["plain.data", "packed.data", "pipe.data"] {
            let place = |at: &Index, early, length| at.index(if early { 2000 } else { length });
            let content = damaged(unpacked(name), &flips, cut, 0, place);
            let file = scratch.write("damaged.data", &content);
            let done = xweave_import::import(&[file], &scratch.dir(), &Options { force: true, ..Options::default() });
            if let Err(error) = done {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }
}
