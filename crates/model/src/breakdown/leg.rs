//! The time of a frame from one of its records to the next, by who made the next one: who took it from a queue, or read it.

use xweave_replay::{CpuId, ThreadId};

use super::{BackwardWalk, Object, Piece, TimeState, Wait, breakdown_at, waits};
use crate::machine::Machine;

/// The pieces of the time of what a thread, upon a processor, then took on from a queue, in which it came at the first moment:
/// whatever the thread did before the last time it slept was for something else.
pub(crate) fn breakdown_of_carrier_at(
    machine: &Machine,
    cpu: CpuId,
    tid: u32,
    from: i64,
    to: i64,
) -> Vec<Piece> {
    let mut pieces = breakdown_at(machine, cpu, tid, from, to);
    let is_thread = |piece: &Piece| !matches!(piece.object, Object::Interrupts(_));
    if tid == 0 || !pieces.last().is_some_and(is_thread) {
        return pieces;
    }
    let carrier = ThreadId { domain: cpu.domain, tid };
    let line = machine.threads().line(carrier, from, to);
    if let Some(Wait { from: slept, .. }) = waits(&line).next().filter(|wait| wait.from > from) {
        pieces.retain(|piece| piece.to > slept);
        if let Some(first) = pieces.first_mut() {
            first.from = slept;
        }
        let (object, spent) = (Object::Thread(carrier), TimeState::Unknown);
        pieces.insert(0, Piece { from, to: slept, object, spent, cause: None, depth: 0 });
    }
    pieces
}

/// The pieces of the time of what is in the queue of a socket, until a thread reads it upon a processor: if the thread did not
/// wait meanwhile, it may have run for others.
pub(crate) fn breakdown_until_read_at(
    machine: &Machine,
    cpu: CpuId,
    tid: u32,
    from: i64,
    to: i64,
) -> Vec<Piece> {
    if tid == 0 {
        return breakdown_at(machine, cpu, tid, from, to);
    }
    let mut walk = BackwardWalk::new(machine);
    walk.until_taken(ThreadId { domain: cpu.domain, tid }, from, to);
    walk.pieces()
}

#[cfg(test)]
mod tests {
    use xweave_trace::event::{Context, Event, Kind, State};

    use super::*;
    use crate::breakdown::Cause;

    const CPU: CpuId = CpuId { domain: 1, cpu: 0 };

    fn switch(time: i64, from: u32, state: State, to: u32) -> Event {
        Event { other: to, code: state.code(), ..Event::new(Kind::Switch, 1, time, 0, from) }
    }

    fn wake(time: i64, by: u32, who: u32) -> Event {
        let code = Context::Task.code();
        Event { other: who, code, ..Event::new(Kind::Wake, 1, time, 1, by) }
    }

    /// What the pieces from 10 until 100 were spent on, and for how long; and whether it was before a turn.
    fn told(
        tell: fn(&Machine, CpuId, u32, i64, i64) -> Vec<Piece>,
        events: &[Event],
    ) -> Vec<(u32, TimeState, i64, bool)> {
        let mut machine = Machine::default();
        events.iter().for_each(|event| machine.feed(event));
        let tid = |object| match object {
            Object::Thread(thread) => thread.tid,
            _ => 0,
        };
        let one = |piece: Piece| {
            let before = piece.cause == Some(Cause::Earlier);
            (tid(piece.object), piece.spent, piece.to - piece.from, before)
        };
        tell(&machine, CPU, 7, 10, 100).into_iter().map(one).collect()
    }

    #[test]
    fn who_passes_a_frame_on_had_other_frames_before_it_slept() {
        let mut events = vec![
            switch(0, 7, State::Sleeping, 8),
            wake(20, 5, 7),
            switch(40, 8, State::Runnable, 7),
            switch(50, 7, State::Sleeping, 8),
            wake(70, 5, 7),
            switch(90, 8, State::Runnable, 7),
        ];
        let ready = (7, TimeState::Ready, 20, false);
        let all = told(breakdown_of_carrier_at, &events);
        assert_eq!(all[0], (7, TimeState::Unknown, 40, false));
        assert_eq!(all.iter().filter(|piece| **piece == ready).count(), 1, "{all:?}");
        // One that was made to leave the CPU has had it all the time.
        events[3] = switch(50, 7, State::Runnable, 8);
        let all = told(breakdown_of_carrier_at, &events);
        assert!(all.iter().all(|piece| piece.1 != TimeState::Unknown || piece.0 != 7), "{all:?}");
    }

    #[test]
    fn a_socket_is_read_late_for_others_only_if_its_reader_did_not_wait() {
        let runs = [switch(0, 8, State::Sleeping, 7)];
        assert_eq!(told(breakdown_until_read_at, &runs), [(7, TimeState::Running, 90, true)]);
        // A program that starts has received nothing for others.
        let begins = [Event { other: 7, ..Event::new(Kind::Fork, 1, 0, 0, 8) }, runs[0]];
        assert_eq!(told(breakdown_until_read_at, &begins), [(7, TimeState::Running, 90, false)]);
        let waits = [
            switch(0, 8, State::Sleeping, 7),
            switch(30, 7, State::Sleeping, 8),
            wake(60, 9, 7),
            switch(70, 8, State::Runnable, 7),
        ];
        let all = told(breakdown_until_read_at, &waits);
        assert!(all.iter().all(|(.., before)| !before), "{all:?}");
    }
}
