//! Events that a hostile guest may tell: taking them in takes no longer than as many honest ones.

use std::{path::Path, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use xweave_model::{
    Loss, Machine, Spec, ThreadId, Usage, UsageKind, breakdown, connection::EndId, transaction::Finder,
};
use xweave_trace::{
    Domain, Manifest, Trace, Writer,
    event::{Connection, Event, Kind, Names, State},
};

/// So many times as long as honest events at most, whatever else the machine does. What grew with the square of these
/// numbers of events took hundreds of times as long.
const FACTOR: u32 = 20;

const MANY: u32 = 80_000;

fn event(kind: Kind, time: u32, tid: u32) -> Event {
    Event::new(kind, 1, time.into(), 0, tid)
}

/// Processor time that this thread has had: others' does not count, however busy the machine is.
fn spent() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let begin = spent();
    let result = work();
    (spent() - begin, result)
}

fn no_longer(hostile: Duration, honest: Duration) {
    let most = honest * FACTOR + Duration::from_millis(100);
    assert!(hostile < most, "{hostile:?}, and {honest:?} where it is honest");
}

fn taken_in(events: impl Iterator<Item = Event>) -> Duration {
    let mut machine = Machine::default();
    timed(|| events.for_each(|event| machine.feed(&event))).0
}

#[test]
fn losses_of_many_threads_and_processors_take_no_longer_than_other_events() {
    // Each thread comes to run and waits; a domain loses events of another processor between any two of them, or not.
    let told = |lossy: bool| {
        let events = (1..=MANY).flat_map(|time| {
            let switch = |from, to| Event { other: to, code: 1, ..event(Kind::Switch, 4 * time, from) };
            let lost = Event { cpu: time % 4096, ..event(Kind::Lost, 4 * time + 2, 0) };
            // All of the time up to then.
            let lost = Event { position: 4 * u64::from(time), object: 1, ..lost };
            [switch(0, time), switch(time, 0), if lossy { lost } else { Event { kind: Kind::Other, ..lost } }]
        });
        let events: Vec<_> = events.collect();
        timed(|| {
            let losses = events.iter().filter(|event| event.kind == Kind::Lost).map(Loss::new);
            let mut machine = Machine::lossy(Vec::new(), losses.collect());
            events.iter().for_each(|event| machine.feed(event));
            let thread = |tid| ThreadId { domain: 1, tid };
            (1..=MANY)
                .map(|tid| breakdown(&machine, thread(tid), 0, i64::from(4 * MANY)).len())
                .sum::<usize>()
        })
    };
    let ((hostile, pieces), (honest, _)) = (told(true), told(false));
    assert!(pieces >= MANY as usize);
    no_longer(hostile, honest);
}

/// What objects did, of events through a trace's folder.
fn usage(dir: &Path, events: impl Iterator<Item = Event>) -> (Duration, Usage) {
    let domains = vec![Domain { name: "vm1".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir, Manifest { domains, ..Manifest::default() }).unwrap();
    events.for_each(|event| writer.event(event).unwrap());
    writer.finish().unwrap();
    let trace = Trace::open(dir).unwrap();
    timed(|| Usage::of(&trace))
}

/// Interrupts that begin and do not end, and ends of none; or as many that begin and end.
fn interrupts(honest: bool) -> impl Iterator<Item = Event> {
    (0..2 * MANY).map(move |time| {
        let begins = if honest { time % 2 == 0 } else { time < MANY };
        let ends = if honest { Kind::IrqExit } else { Kind::SoftirqExit };
        Event { object: 30, ..event(if begins { Kind::IrqEnter } else { ends }, time, 0) }
    })
}

#[test]
fn interrupts_without_ends_take_no_longer_than_others() {
    no_longer(taken_in(interrupts(false)), taken_in(interrupts(true)));
}

#[test]
fn interrupts_without_ends_are_added_up_as_fast_as_others() {
    let dir = tempfile::tempdir().unwrap();
    let (hostile, _) = usage(&dir.path().join("a"), interrupts(false));
    let (honest, told) = usage(&dir.path().join("b"), interrupts(true));
    let found = told.objects.iter().find(|(key, _)| key.kind() == UsageKind::Interrupt);
    assert_eq!(found.unwrap().1.count, u64::from(MANY));
    no_longer(hostile, honest);
}

#[test]
fn an_interrupt_that_ends_accesses_without_end_wakes_as_fast_as_others() {
    let accesses = |above: bool| {
        let disk = |kind, time| Event { object: 8, position: 64, bytes: 512, ..event(kind, time, 7) };
        let begin = above.then(|| event(Kind::IrqEnter, 0, 0));
        let ended =
            (0..MANY).flat_map(move |time| [disk(Kind::DiskQueue, time), disk(Kind::DiskComplete, time)]);
        let wakes = (0..MANY).map(|time| Event { other: 9, ..event(Kind::Wake, MANY + time, 0) });
        begin.into_iter().chain(ended).chain(wakes)
    };
    // Without an interrupt, a thread had them wait no longer than it ran.
    let idle = |event: Event| Event { tid: if event.kind == Kind::Wake { 5 } else { event.tid }, ..event };
    no_longer(taken_in(accesses(true)), taken_in(accesses(false).map(idle)));
}

#[test]
fn a_thread_that_is_ready_again_and_again_and_never_runs_is_told_of_as_fast_as_others() {
    let told = |honest: bool| {
        let mut machine = Machine::default();
        for time in (0..4 * MANY).step_by(4) {
            let switch = |time, from, state: State, to| Event {
                other: to,
                code: state.code(),
                ..event(Kind::Switch, time, from)
            };
            if honest {
                machine.feed(&switch(time, 0, State::Runnable, 7));
            }
            machine.feed(&switch(time + 1, 7, State::Sleeping, 0));
            machine.feed(&Event { other: 7, ..event(Kind::Wake, time + 2, 0) });
        }
        timed(|| breakdown(&machine, ThreadId { domain: 1, tid: 7 }, 0, i64::from(4 * MANY)))
    };
    let ((hostile, never), (honest, runs)) = (told(false), told(true));
    for pieces in [never, runs] {
        assert_eq!(pieces.iter().map(|piece| piece.to - piece.from).sum::<i64>(), i64::from(4 * MANY));
    }
    no_longer(hostile, honest);
}

#[test]
fn what_was_sent_again_without_end_is_counted_at_once() {
    let end = Connection(1 << 32 | 40_000 << 16 | 80);
    let counted = |connection: Connection| {
        let mut machine = Machine::default();
        for time in 0..MANY {
            machine.feed(&Event { position: end.0, ..event(Kind::Retransmit, time, 0) });
            machine.feed(&Event { position: end.peer().0, ..event(Kind::SynDrop, time, 0) });
        }
        let connections = &machine.connections;
        let (from, to) = (1, i64::from(MANY) - 11);
        timed(|| {
            let end = EndId { domain: 1, netns: 0, connection };
            let all = (0..MANY).map(|_| connections.repeated(end, from, to));
            let refused = (0..MANY).filter_map(|_| connections.refused(end, from, to)).count();
            (all.fold(None, |_, repeated| repeated), refused)
        })
    };
    let (hostile, (last, refused)) = counted(end);
    let (honest, (none, _)) = counted(Connection(2 << 32 | 5 << 16 | 6));
    let to = MANY - 11;
    assert_eq!((last, none, refused), (Some((i64::from(to), to as usize)), None, MANY as usize));
    no_longer(hostile, honest);
}

#[test]
fn threads_that_end_amid_their_requests_take_no_longer_than_others() {
    // Each sends a request on a connection of its own; then it ends, or does not.
    let found = |end: Kind| {
        let mut machine = Machine::default();
        let mut finder = Finder::new(&Spec::Request(None, None), &|_| None).unwrap();
        let names = Names::default();
        let talk = |kind, time, tid: u32| Event {
            position: u64::from(tid) << 32 | 40_000 << 16 | 80,
            bytes: 1,
            ..event(kind, time, tid)
        };
        let requests = (0..3).flat_map(|round| {
            (1..=MANY).map(move |tid| match round {
                0 => talk(Kind::Send, tid, tid),
                1 => talk(Kind::Receive, MANY + tid, tid),
                _ => event(end, 2 * MANY + tid, tid),
            })
        });
        timed(|| {
            let feed = |event: Event| {
                machine.feed(&event);
                finder.feed(&event, &machine, &names)
            };
            requests.filter_map(feed).count()
        })
    };
    let ((hostile, ended), (honest, open)) = (found(Kind::Exit), found(Kind::Other));
    assert_eq!((ended, open), (MANY as usize, 0));
    no_longer(hostile, honest);
}

#[test]
fn pipes_of_many_writers_and_waits_that_no_call_tells_of_take_no_longer_than_others() {
    // Each of many threads writes to one pipe, or to one of its own, and wakes who then reads, or does not.
    let events = |honest: bool| {
        (1..=MANY).flat_map(move |tid| {
            let time = 4 * tid;
            let reader = if honest { MANY + tid } else { MANY };
            let pipe = if honest { u64::from(tid) } else { 1 };
            let ends = Event { other: 0, code: 1, ..event(Kind::Switch, time, reader) };
            let write = Event { object: pipe, bytes: 1, code: 1, ..event(Kind::PipeWrite, time + 1, tid) };
            let wake = Event { other: reader, ..event(Kind::Wake, time + 2, tid) };
            let read = if honest { Kind::PipeRead } else { Kind::Other };
            [ends, write, wake, Event { object: pipe, bytes: 1, code: 4, ..event(read, time + 3, reader) }]
        })
    };
    no_longer(taken_in(events(false)), taken_in(events(true)));
    // A call that has lasted for all the time.
    let fault = Event { bytes: u64::from(u32::MAX), ..event(Kind::SwapIn, 4 * MANY + 4, MANY) };
    no_longer(taken_in(events(false).chain([fault])), taken_in(events(true)));
}

/// Why a connection does not come about is remembered, though its ports were closed before, or never open: until that is
/// over, too.
#[test]
fn what_was_dropped_at_closed_ports_is_remembered_until_it_is_over() {
    let end = Connection(1 << 32 | 80 << 16 | 40_000);
    let id = EndId { domain: 1, netns: 0, connection: end };
    for closed in [false, true] {
        let mut machine = Machine::default();
        if closed {
            machine.feed(&Event { position: end.0, code: 7, ..event(Kind::Socket, 10, 0) });
        }
        machine.feed(&Event { position: end.0, ..event(Kind::SynDrop, 100, 0) });
        machine.forget_before(50);
        assert!(machine.connections.refused(id, 60, 200).is_some(), "closed before: {closed}");
        machine.forget_before(150);
        assert!(machine.connections.refused(id, 60, 200).is_none());
    }
}
