//! What was done for an answer, by whichever threads: from its sending back to the receiving of the request.
//!
//! What a thread does it does for what it received last. Where that was an answer to what another thread had asked, or it
//! itself before it did other things, as where tasks move between the threads that carry them or one thread carries many,
//! the way leads to who asked. In between it was the time of the one that was asked.

use xweave_replay::{Ended, Source, ThreadId, ThreadState};

use super::{BackwardWalk, Cause, DEPTH, Object, TimeState};
use crate::connection::{EndId, Sent};

/// An answer to a part of the work, which was done elsewhere.
struct Leg {
    /// The end that asked.
    end: EndId,
    asked: Sent,
    /// When the answer was received.
    got: i64,
}

impl BackwardWalk<'_> {
    /// What was done for an answer between two times, at the end by this thread.
    pub(super) fn trail(&mut self, id: ThreadId, from: i64, to: i64) {
        let (legs, lost) = self.legs(id, from, to);
        let request = self.exchange.and_then(|exchange| exchange.answers).map(|answer| answer.end);
        let first = legs.last().map(|leg| leg.asked).filter(|asked| {
            let received = self.machine.connections.taken(asked.thread, asked.time);
            lost.is_none() && received.is_some_and(|(_, end)| Some(end) == request)
        });
        let (mut id, mut until) = (id, to);
        for leg in legs {
            let moved = first.filter(|first| first.thread != id).map(|first| Cause::Moved(first.thread));
            self.noted(moved, |walk| walk.follow(id, leg.got, until));
            self.exchanged(leg.asked.thread, id, leg.end, leg.asked.time.max(from), leg.got);
            (id, until) = (leg.asked.thread, leg.asked.time);
        }
        if let Some(lost) = lost {
            self.follow(id, lost, until);
            return self.add(from, lost, Object::Thread(id), TimeState::Unknown);
        }
        if let Some((reader, woken)) = self.taken_over(id, from, until) {
            self.noted(Some(Cause::Moved(reader)), |walk| walk.follow(id, woken, until));
            (id, until) = (reader, woken);
        }
        let taken = self.machine.connections.taken(id, until);
        let taken = taken.filter(|(received, end)| {
            Some(*end) == request && *received > from && self.is_busy(id, from, *received)
        });
        let read = taken.map(|(received, _)| (id, received));
        match read.or_else(|| self.read_by_another(id, from, until)) {
            Some((reader, received)) => {
                self.follow(id, received, until);
                self.until_taken(reader, from, received);
            }
            None if from < until => self.follow(id, from, until),
            None => {}
        }
    }

    /// Who read the request last before a time, and when.
    fn read(&self, by: i64) -> Option<(ThreadId, i64)> {
        self.machine.connections.received(self.exchange?.answers?.end, by)
    }

    /// Which other thread read the request between two times, and when: before that, nobody worked for it. Of several requests
    /// at once it is not known which was read when.
    fn read_by_another(&self, id: ThreadId, from: i64, to: i64) -> Option<(ThreadId, i64)> {
        if self.exchange?.asks.is_none() || matches!(self.note, Some(Cause::Ahead(_))) {
            return None;
        }
        self.read(to).filter(|(reader, received)| *received > from && *reader != id)
    }

    /// Who had received the request until another thread was woken to take it over, and when that was: by one whose own wait
    /// just was over, as of Go's watch over threads that have had a goroutine for too long. Nobody had handed it on.
    fn taken_over(&self, id: ThreadId, from: i64, to: i64) -> Option<(ThreadId, i64)> {
        let (reader, received) =
            self.read(to).filter(|(reader, received)| *received >= from && *reader != id)?;
        let (mut waker, mut until, mut woken) = (id, to, None);
        for _ in 0..DEPTH {
            let line = self.machine.threads().line(waker, received, until);
            let wait = line.into_iter().rev().find_map(|(begun, at, doing)| match doing {
                Some(ThreadState::Waiting { over, .. }) => Some((begun, at, over)),
                _ => None,
            });
            match wait? {
                // It may have begun with the request, if it did something since that was received.
                (begun, ..) if waker == id && begun > received => return None,
                (_, at, Some(Ended::Thread { by, softirq: false })) if by != reader => {
                    woken = woken.or(Some(at));
                    (waker, until) = (by, at);
                }
                (.., Some(Ended::Interrupt { source: Source::Timer, .. })) => {
                    return woken.map(|woken| (reader, woken));
                }
                _ => return None,
            }
        }
        None
    }

    /// What a thread did until it took something that was perhaps there before. One that never took anything before has not
    /// done that for others: it starts.
    pub(super) fn until_taken(&mut self, id: ThreadId, from: i64, to: i64) {
        let starts = self.machine.connections.is_first_taken(id, to);
        let earlier = (!starts && self.is_busy(id, from, to)).then_some(Cause::Earlier);
        self.noted(earlier, |walk| walk.follow(id, from, to));
    }

    /// Whether a thread did not wait between two times.
    fn is_busy(&self, id: ThreadId, from: i64, to: i64) -> bool {
        let line = self.machine.threads().line(id, from, to);
        line.iter().all(|(.., doing)| !matches!(doing, Some(ThreadState::Waiting { .. })))
    }

    /// Tells something with a note, unless there is one.
    fn noted(&mut self, note: Option<Cause>, tell: impl FnOnce(&mut Self)) {
        let outer = self.note;
        self.note = outer.or(note);
        tell(self);
        self.note = outer;
    }

    /// Where else the answer's work was done between two times, the last first, and before when it is not known. Nowhere, where it
    /// does not lead back to the request: then it went from thread to thread in a way that no socket tells of.
    fn legs(&self, id: ThreadId, from: i64, to: i64) -> (Vec<Leg>, Option<i64>) {
        let Some(answer) = self.exchange.and_then(|exchange| exchange.answers) else {
            return (Vec::new(), None);
        };
        let connections = &self.machine.connections;
        let (mut id, mut until) = (id, to);
        let mut legs = Vec::new();
        while let Some((got, end)) = connections.taken(id, until).filter(|(got, _)| *got > from)
            && end != answer.end
        {
            let asked = connections.sent(end, i64::MIN, got).filter(|asked| asked.time < got);
            let asked = asked.filter(|_| !self.serves(end) && legs.len() < DEPTH);
            // What is seen to have been asked or received last may not be what was, if events were lost.
            let since = asked.map_or(from, |asked| asked.time);
            let lost = self.machine.threads().lost(id.domain, since, until);
            match asked {
                Some(asked) if !lost => {
                    if asked.thread != id || connections.is_versatile(id) {
                        legs.push(Leg { end, asked, got });
                    }
                    (id, until) = (asked.thread, asked.time);
                }
                _ if lost && connections.is_versatile(id) => return (legs, Some(got)),
                _ => return (Vec::new(), None),
            }
        }
        (legs, None)
    }
}
