//! A transaction as a sequence of the basic events of Horikawa's model (section 2.1), between objects.
//!
//! An object asks another to do a part of the work (Request) and waits (Wait); the other begins (Accept), ends
//! (Finish), and the first goes on (Resume). Whoever loses its processor pauses (Pause) until it has it again
//! (Resume).

use crate::{
    breakdown::TimeState,
    explanation::{Explained, Step},
    objects::ObjectNumber,
};

/// A basic event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
pub enum Basic {
    /// `from` asks `to`, and waits.
    Request,
    /// `to` begins what it was asked for.
    Accept,
    /// `from` has done what `to` asked for, which goes on.
    Finish,
    /// It has no processor any more.
    Pause,
    /// It has one again.
    Resume,
}

impl Basic {
    /// As the paper calls it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A basic event of a transaction. `from` and `to` are the same but for requests and their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When, in nanoseconds.
    pub time: i64,
    /// What.
    pub basic: Basic,
    /// Whose it is.
    pub from: ObjectNumber,
    /// To whom it goes.
    pub to: ObjectNumber,
}

/// What an object does while it has not begun yet what it was asked for, or has been interrupted.
fn idle(spent: TimeState) -> bool {
    matches!(
        spent,
        TimeState::Ready
            | TimeState::Waking
            | TimeState::Throttled
            | TimeState::Queue
            | TimeState::Preempted
            | TimeState::Halted
            | TimeState::Stopped
    )
}

/// A transaction's steps without those that are but the way from one object to another, and when what led to each
/// was sent.
fn stations(steps: &[Step]) -> Vec<(i64, Step)> {
    let on_the_way = |step: &Step| matches!(step.spent, TimeState::Network | TimeState::Retransmit);
    let mut stations: Vec<(i64, Step)> = Vec::new();
    // Where the steps end that are on the way from `at` on: they are counted once.
    let (mut at, mut end) = (0, 0);
    while let Some(step) = steps.get(at) {
        if at >= end {
            end = at + steps[at..].iter().take_while(|step| on_the_way(step)).count();
        }
        let way = end - at;
        match (stations.last(), steps.get(at + way)) {
            (Some((_, before)), Some(next)) if way > 0 && before.object != next.object => {
                stations.push((step.from, *next));
                at += way + 1;
            }
            _ => {
                stations.push((step.from, *step));
                at += 1;
            }
        }
    }
    stations
}

/// The basic events of a transaction, in the order of their times.
pub fn sequence(transaction: &Explained) -> Vec<Message> {
    let mut messages = Vec::new();
    let stations = stations(&transaction.steps);
    // Whether an object has begun, by how deep it works: the transaction's own has.
    let mut begun = vec![true];
    for pair in stations.windows(2) {
        let [(_, before), (sent, step)] = pair else { continue };
        let mut tell = |time, basic, from, to| messages.push(Message { time, basic, from, to });
        if before.object == step.object {
            match (idle(before.spent), idle(step.spent)) {
                (true, false) if begun.last() == Some(&false) => {
                    tell(step.from, Basic::Accept, step.object, step.object);
                    begun.pop();
                    begun.push(true);
                }
                (true, false) => tell(step.from, Basic::Resume, step.object, step.object),
                (false, true) => tell(step.from, Basic::Pause, step.object, step.object),
                _ => {}
            }
            continue;
        }
        if asks(before, step) {
            tell(*sent, Basic::Request, before.object, step.object);
            begun.push(!idle(step.spent));
            if !idle(step.spent) {
                tell(step.from, Basic::Accept, step.object, step.object);
            }
        } else {
            tell(*sent, Basic::Finish, before.object, step.object);
            begun.pop();
            if begun.is_empty() {
                begun.push(true);
            }
        }
    }
    messages
}

/// What is spent so is what another object does for a thread of the same depth.
fn serves(spent: TimeState) -> bool {
    use TimeState::{Completion, Device, Exit, Halted, Lock, Network, Preempted, Queue, Retransmit};
    matches!(spent, Queue | Device | Completion | Lock | Network | Retransmit | Exit | Preempted | Halted)
}

/// Whether the way from one step to the next is a request rather than the end of one.
fn asks(before: &Step, step: &Step) -> bool {
    step.depth > before.depth || (step.depth == before.depth && !serves(before.spent))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{Machine, Object, Objects, ThreadId};

    #[test]
    fn what_is_on_the_way_in_many_steps_is_told_as_fast_as_what_is_done_in_them() {
        const STEPS: i64 = 80_000;
        let mut objects = Objects::default();
        let of = |tid| Object::Thread(ThreadId { domain: 1, tid });
        let mut number = |tid| objects.number(of(tid), &Machine::default(), &Default::default());
        let numbers = [number(1), number(2)];
        let told = |spent: [TimeState; 2]| {
            let step = |at: i64| Step {
                from: at,
                to: at + 1,
                object: numbers[usize::from(at % 2 == 0)],
                spent: spent[usize::from(at % 2 == 0)],
                cause: None,
                depth: 0,
            };
            let steps = (0..STEPS).map(step).collect();
            let explained = Explained { id: 1, domain: 1, total_ns: STEPS, steps, ..Explained::default() };
            let begin = Instant::now();
            let messages = sequence(&explained);
            (begin.elapsed(), messages.len())
        };
        let (hostile, _) = told([TimeState::Network, TimeState::Retransmit]);
        let (honest, messages) = told([TimeState::Running, TimeState::Device]);
        assert!(messages > 0);
        assert!(hostile < 20 * honest + Duration::from_millis(100), "{hostile:?}, and {honest:?}");
    }
}
