//! Connections: who sent when, what was sent again, and which waits each ended.
//!
//! What communication means is decided here and not by events (Horikawa, section 2.2): a thread that waited, was
//! woken, and then received something (or was given a connection that it accepts) had waited for the other end. A
//! thread that opened a connection and waits is waiting for the other end's answer.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_trace::event::{Connection, Event, Refusal};

use crate::thread::ThreadId;

/// TCP's states, as include/net/tcp_states.h numbers them.
pub(crate) const ESTABLISHED: i32 = 1;
/// See [`ESTABLISHED`].
pub(crate) const SYN_SENT: i32 = 2;
/// See [`ESTABLISHED`].
pub(crate) const FIN_WAIT1: i32 = 4;
/// See [`ESTABLISHED`].
pub(crate) const CLOSE: i32 = 7;
/// See [`ESTABLISHED`].
pub(crate) const LAST_ACK: i32 = 9;

/// Something that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When, in nanoseconds.
    pub time: i64,
    /// By whom.
    pub thread: ThreadId,
}

/// A request for a connection that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// How many connections waited to be accepted.
    pub waiting: u64,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct End {
    /// The domain that it is in.
    pub domain: u8,
    /// The port of the end that accepted: what the service is known by.
    pub service: u16,
    sent: VecDeque<Sent>,
    repeats: VecDeque<i64>,
    refused: VecDeque<(i64, Refused)>,
    closed: Option<i64>,
}

/// The connections of all domains.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    ends: FxHashMap<Connection, End>,
    /// Threads that have opened a connection and not gone on since, and whether it was answered.
    opening: FxHashMap<ThreadId, (Connection, bool)>,
    /// Who opened it, by the end that did.
    openers: FxHashMap<Connection, ThreadId>,
    /// Waits whose reason is not known yet: when each was over.
    unexplained: FxHashMap<ThreadId, i64>,
    /// Waits that were for a connection, by who waited and when it was over.
    explained: FxHashMap<(ThreadId, i64), Connection>,
}

impl Connections {
    /// The connection that a wait was for, by its end.
    pub fn waited_for(&self, thread: ThreadId, over: i64) -> Option<Connection> {
        self.explained.get(&(thread, over)).copied()
    }

    /// An end, if something was seen of it.
    pub fn end(&self, connection: Connection) -> Option<&End> {
        self.ends.get(&connection)
    }

    /// What the other end had sent when it was received at `by`: the last before. A send is recorded when the call
    /// ends, at which it may have arrived already: then it is the next, if there was none between `since` and `by`.
    pub fn sent_to(&self, connection: Connection, since: i64, by: i64) -> Option<Sent> {
        let sent = &self.ends.get(&connection.peer())?.sent;
        let next = sent.partition_point(|sent| sent.time <= by);
        let before = next.checked_sub(1).and_then(|at| sent.get(at)).copied();
        match (before, sent.get(next)) {
            (Some(before), _) if before.time >= since => Some(before),
            (_, Some(next)) => Some(Sent { time: by, ..*next }),
            (before, None) => before,
        }
    }

    /// When either end last sent something again between two times, and how often they did.
    pub fn repeated(&self, connection: Connection, from: i64, to: i64) -> Option<(i64, usize)> {
        let ends = [connection, connection.peer()].into_iter().filter_map(|end| self.ends.get(&end));
        ends.fold(None, |found, end| {
            let before = end.repeats.partition_point(|time| *time < from);
            let until = end.repeats.partition_point(|time| *time <= to);
            let Some(count) = until.checked_sub(before).filter(|count| *count > 0) else { return found };
            let last = end.repeats[until - 1];
            found.map_or(Some((last, count)), |(other, more)| Some((last.max(other), count + more)))
        })
    }

    /// The last request for the connection that was not answered between two times.
    pub fn refused(&self, connection: Connection, from: i64, to: i64) -> Option<Refused> {
        let mut ends = [connection.peer(), connection].into_iter().filter_map(|end| self.ends.get(&end));
        ends.find_map(|end| {
            let until = end.refused.partition_point(|(time, _)| *time <= to);
            let last = until.checked_sub(1).map(|at| end.refused[at]);
            last.filter(|(time, _)| *time >= from).map(|(_, refused)| refused)
        })
    }

    fn touch(&mut self, event: &Event) -> &mut End {
        let connection = Connection(event.position);
        self.ends.entry(connection).or_insert_with(|| End {
            domain: event.domain,
            // Who is asked mostly has the lower port.
            service: connection.local_port().min(connection.remote_port()),
            sent: VecDeque::new(),
            repeats: VecDeque::new(),
            refused: VecDeque::new(),
            closed: None,
        })
    }

    /// A thread sent something.
    pub(crate) fn send(&mut self, event: &Event, thread: ThreadId) {
        // It went on for something else than what it might receive later.
        self.unexplained.remove(&thread);
        if event.position != 0 {
            self.touch(event).sent.push_back(Sent { time: event.time_ns, thread });
        }
    }

    /// A thread received something, or was given a connection.
    pub(crate) fn receive(&mut self, event: &Event, thread: ThreadId) {
        let over = self.unexplained.remove(&thread);
        if event.position == 0 {
            return;
        }
        self.touch(event);
        if let Some(over) = over {
            self.explained.insert((thread, over), Connection(event.position));
        }
    }

    /// A connection was accepted: its service is known.
    pub(crate) fn accept(&mut self, event: &Event, thread: ThreadId) {
        self.receive(event, thread);
        if event.position != 0 {
            self.touch(event).service = Connection(event.position).local_port();
        }
    }

    /// TCP's state changed, while `thread` ran or below an interrupt.
    pub(crate) fn state(&mut self, event: &Event, thread: Option<ThreadId>) {
        let connection = Connection(event.position);
        if event.position == 0 {
            return;
        }
        match (event.code, thread) {
            (SYN_SENT, Some(thread)) => {
                // Ports are used again: it is another connection from now on.
                self.ends.remove(&connection);
                let end = self.touch(event);
                end.service = connection.remote_port();
                end.sent.push_back(Sent { time: event.time_ns, thread });
                self.opening.insert(thread, (connection, false));
                self.openers.insert(connection, thread);
            }
            (ESTABLISHED | CLOSE, _) => {
                if let Some(opener) = self.openers.remove(&connection)
                    && let Some((_, answered)) =
                        self.opening.get_mut(&opener).filter(|(other, _)| *other == connection)
                {
                    *answered = true;
                }
                let end = self.touch(event);
                end.closed = (event.code == CLOSE).then_some(event.time_ns);
            }
            _ => {
                self.touch(event);
            }
        }
    }

    /// TCP sent something again.
    pub(crate) fn repeat(&mut self, event: &Event) {
        if event.position != 0 {
            self.touch(event).repeats.push_back(event.time_ns);
        }
    }

    /// TCP did not answer.
    pub(crate) fn refuse(&mut self, event: &Event) {
        if event.position != 0 {
            let refused = Refused { why: Refusal::of(event.code), waiting: event.bytes };
            self.touch(event).refused.push_back((event.time_ns, refused));
        }
    }

    /// A wait of a thread is over.
    pub(crate) fn woken(&mut self, thread: ThreadId, time: i64) {
        if let Some((connection, true)) = self.opening.get(&thread).copied() {
            self.opening.remove(&thread);
            self.explained.insert((thread, time), connection);
        } else {
            self.unexplained.insert(thread, time);
        }
    }

    /// How many ends and waits are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.ends.len() + self.openers.len() + self.explained.len() + self.unexplained.len()
    }

    /// Forgets what was over before this time.
    pub(crate) fn forget_before(&mut self, time: i64) {
        self.explained.retain(|(_, over), _| *over >= time);
        self.unexplained.retain(|_, over| *over >= time);
        self.ends.retain(|_, end| {
            // The last that was sent may be what somebody receives later.
            while end.sent.len() > 1 && end.sent[1].time < time {
                end.sent.pop_front();
            }
            while end.repeats.front().is_some_and(|repeat| *repeat < time) {
                end.repeats.pop_front();
            }
            while end.refused.front().is_some_and(|(refused, _)| *refused < time) {
                end.refused.pop_front();
            }
            end.closed.is_none_or(|closed| closed >= time)
        });
        self.openers.retain(|connection, _| self.ends.contains_key(connection));
    }
}
