use proptest::prelude::*;
use xweave_trace::event::{Context, Kind, State};

use super::*;
use crate::thread::{Ended, Source, ThreadState};

fn at(kind: Kind, time: i64, cpu: u32, tid: u32) -> Event {
    Event::new(kind, 1, time, cpu, tid)
}

fn switch(time: i64, cpu: u32, from: u32, state: State, to: u32) -> Event {
    Event { other: to, code: state.code(), ..at(Kind::Switch, time, cpu, from) }
}

fn thread(tid: u32) -> ThreadId {
    ThreadId { domain: 1, tid }
}

const CPU: CpuId = CpuId { domain: 1, cpu: 0 };

/// What comes of events, one after the other.
fn replay(losses: Vec<Loss>, events: &[Event]) -> (Replay, Vec<Transition>) {
    let (mut replay, mut transitions) = (Replay::new(losses), Vec::new());
    events.iter().for_each(|event| replay.feed(event, &mut transitions));
    (replay, transitions)
}

#[test]
fn a_thread_runs_sleeps_is_woken_by_an_interrupt_and_runs_again() {
    let (replay, transitions) = replay(
        Vec::new(),
        &[
            switch(10, 0, 7, State::Sleeping, 0),
            Event { object: 30, ..at(Kind::IrqEnter, 20, 0, 0) },
            Event { other: 7, object: 1, code: Context::Hard.code(), ..at(Kind::Wake, 22, 0, 0) },
            at(Kind::IrqExit, 25, 0, 0),
            switch(30, 0, 0, State::Runnable, 7),
        ],
    );
    let by = Ended::Interrupt { access: None, source: Source::Other, cpu: 0 };
    let expected = [
        Transition::Ran { cpu: CPU, tid: 7, from: i64::MIN, to: 10 },
        Transition::Left { thread: thread(7), cpu: 0, time: 10, state: State::Sleeping },
        Transition::InterruptBegan { cpu: CPU, tid: 0, time: 20, soft: false, number: 30 },
        Transition::Woken {
            thread: thread(7),
            time: 22,
            since: 10,
            whole: true,
            by,
            context: Some(Context::Hard),
            cpu: Some(0),
        },
        Transition::InterruptEnded { cpu: CPU, soft: false, number: 30, own_ns: 5 },
        Transition::Ran { cpu: CPU, tid: 0, from: 10, to: 30 },
        Transition::Dispatched { thread: thread(7), cpu: 0, time: 30 },
    ];
    assert_eq!(transitions, expected);
    assert_eq!(replay.cpu(CPU).unwrap().running(), Some((7, 30)));
    let doing =
        replay.threads.line(thread(7), 10, 40).into_iter().map(|(a, b, doing)| (a, b, doing.unwrap()));
    let states: Vec<_> =
        doing.map(|(a, b, doing)| (a, b, matches!(doing, ThreadState::Waiting { .. }))).collect();
    assert_eq!(states, [(10, 22, true), (22, 30, false), (30, 40, false)]);
}

#[test]
fn a_wakeup_of_an_unknown_thread_ends_a_wait_whose_beginning_was_not_seen() {
    let (_, transitions) = replay(Vec::new(), &[Event { other: 9, ..at(Kind::Wake, 5, 0, 7) }]);
    assert!(matches!(transitions[..], [Transition::Woken { since: 5, whole: false, .. }]), "{transitions:?}");
}

#[test]
fn who_is_ready_is_told_with_who_woke_it() {
    let wake = |time, by, who| Event { other: who, code: 9, ..at(Kind::Wake, time, 0, by) };
    let events = [
        switch(1, 0, 7, State::Sleeping, 8),
        switch(2, 1, 9, State::Runnable, 6),
        wake(5, 8, 7),
        switch(20, 1, 6, State::Sleeping, 7),
    ];
    let (replay, _) = replay(Vec::new(), &events);
    let ready = |time| replay.threads.ready_at(1, time).collect::<Vec<_>>();
    assert_eq!(ready(10), [(thread(7), 5, thread(8))]);
    // It waited still, ran already, or was in another domain; thread 9 was made to leave its CPU.
    assert!([3, 20].into_iter().all(|time| ready(time).is_empty()));
    assert_eq!(replay.threads.ready_at(2, 10).count(), 0);
}

#[test]
fn a_wakeup_of_a_running_thread_is_no_transition() {
    let events = [switch(1, 0, 0, State::Runnable, 7), Event { other: 7, ..at(Kind::Wake, 2, 1, 8) }];
    let (_, transitions) = replay(Vec::new(), &events);
    assert!(!transitions.iter().any(|one| matches!(one, Transition::Woken { .. })), "{transitions:?}");
}

#[test]
fn what_interrupts_one_another_is_counted_once() {
    let events = [
        Event { object: 30, ..at(Kind::IrqEnter, 0, 0, 7) },
        at(Kind::IrqExit, 10, 0, 7),
        Event { object: 3, ..at(Kind::SoftirqEnter, 20, 0, 7) },
        Event { object: 31, ..at(Kind::IrqEnter, 30, 0, 7) },
        at(Kind::IrqExit, 45, 0, 7),
        at(Kind::SoftirqExit, 60, 0, 7),
        // Its beginning was not seen.
        at(Kind::SoftirqExit, 70, 0, 7),
    ];
    let (_, transitions) = replay(Vec::new(), &events);
    let ended = transitions.iter().filter_map(|one| match one {
        Transition::InterruptEnded { number, own_ns, .. } => Some((*number, *own_ns)),
        _ => None,
    });
    assert_eq!(ended.collect::<Vec<_>>(), [(30, 10), (31, 15), (3, 25)]);
}

#[test]
fn a_loss_ends_what_ran_and_the_next_event_shows_who_runs() {
    let loss = Loss { cpu: CPU, from: 50, to: 80 };
    let lost = Event { position: 40, object: 11, bytes: 3, ..at(Kind::Lost, 90, 0, 9) };
    assert_eq!(Loss::new(&lost), loss);
    let events = [
        switch(10, 0, 0, State::Runnable, 7),
        lost,
        at(Kind::Send, 91, 0, 9),
        switch(95, 0, 9, State::Dead, 0),
    ];
    let expected = [
        Transition::Dispatched { thread: thread(7), cpu: 0, time: 10 },
        Transition::Ran { cpu: CPU, tid: 7, from: 10, to: 50 },
        Transition::Lost { loss, had: thread(7) },
        Transition::Ran { cpu: CPU, tid: 9, from: 80, to: 95 },
        Transition::Left { thread: thread(9), cpu: 0, time: 95, state: State::Dead },
    ];
    // Told beforehand, or by the event alone.
    for losses in [vec![loss], Vec::new()] {
        let (_, transitions) = replay(losses, &events);
        assert_eq!(transitions[1..], expected);
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let kinds = [
        Kind::Switch,
        Kind::Switch,
        Kind::Wake,
        Kind::Migrate,
        Kind::Fork,
        Kind::Thread,
        Kind::IrqEnter,
        Kind::IrqExit,
        Kind::SoftirqEnter,
        Kind::SoftirqExit,
        Kind::Lost,
        Kind::Send,
    ];
    let numbers = (0u32..2, 0u32..5, 0u32..5, 0u64..4, 0u64..20, -3i32..8);
    (prop::sample::select(kinds.to_vec()), 0i64..6, numbers).prop_map(|(kind, step, numbers)| {
        let (cpu, tid, other, object, position, code) = numbers;
        Event { other, object, position, code, ..at(kind, step, cpu, tid) }
    })
}

proptest! {
    /// Whatever events say: the times in which a CPU ran threads follow each other, and a thread is dispatched and leaves in
    /// the order of the times.
    #[test]
    fn times_of_a_cpu_never_overlap(mut events in prop::collection::vec(any_event(), 0..120), known in any::<bool>()) {
        let mut time = 0;
        for event in &mut events {
            time += event.time_ns;
            event.time_ns = time;
        }
        let lost = events.iter().filter(|event| known && event.kind == Kind::Lost);
        let (replay, transitions) = replay(lost.map(Loss::new).collect(), &events);
        let mut ends = [i64::MIN; 2];
        for transition in &transitions {
            if let Transition::Ran { cpu, from, to, .. } = transition {
                let end = &mut ends[cpu.cpu as usize];
                prop_assert!(*end <= *from && from <= to, "{end} {transition:?}");
                *end = *to;
            }
            if let Transition::Woken { since, time, .. } = transition {
                prop_assert!(since <= time);
            }
        }
        for tid in 1..5 {
            let line = replay.threads.line(thread(tid), 0, time + 1);
            prop_assert!(line.windows(2).all(|pair| pair[0].1 == pair[1].0), "{line:?}");
        }
    }
}
