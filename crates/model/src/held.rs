//! Messages that were held back on their way, by what, and for how long: frames in queueing disciplines, frames that waited for
//! the address of their next hop, and what TCP was given and did not send.
//!
//! That something held a message back is said only where both the beginning and the end were seen, and both are of the message's
//! connection, in the message's direction.

mod neigh;
mod qdisc;
mod send_queue;

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_trace::event::{Connection, Event, HoldReason, Kind, Name};

pub use self::qdisc::QdiscId;
pub(crate) use self::qdisc::WaitingFrames;
use self::{neigh::Unresolved, send_queue::SendQueues};

/// As many frames or connections at most wait in a domain. Beyond that, those that came first are forgotten: a queue of a
/// megabyte holds some thousands.
const WAITING: usize = 1 << 14;

/// As many holds that are over are remembered of a domain at most.
const OVER: usize = 1 << 16;

/// As many holds at most that were over later are remembered before one: an event tells of its end by some microseconds late.
const LATE: usize = 1 << 10;

/// What holds messages back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// A queueing discipline.
    Qdisc(QdiscId),
    /// The kernel, until it knows the link-layer address of the next hop (ARP, NDP).
    Neigh {
        /// The domain.
        domain: u8,
        /// Name of the device that the next hop is at.
        device: Name,
    },
    /// TCP, which does not send yet what it was given.
    SendQueue {
        /// The domain.
        domain: u8,
        /// Why.
        reason: HoldReason,
    },
}

/// A message, or a part of one, that was held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// When that began, in nanoseconds.
    pub from: i64,
    /// When it was over.
    pub to: i64,
    /// By what.
    pub holder: Holder,
    /// As the sender calls the connection.
    connection: Connection,
}

#[cfg(test)]
impl Hold {
    /// A hold of no connection.
    pub(crate) fn new(from: i64, to: i64, holder: Holder) -> Self {
        Self { from, to, holder, connection: Connection(0) }
    }
}

/// What is held back in all domains, and what was.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    frames: WaitingFrames,
    unresolved: Unresolved,
    send_queues: SendQueues,
    /// By domain, in the order of their ends.
    over: FxHashMap<u8, VecDeque<Hold>>,
}

impl Holds {
    /// Adds an event of what holds messages back.
    pub(crate) fn feed(&mut self, event: &Event) {
        match event.kind {
            Kind::QdiscEnqueue => self.frames.enqueue(event),
            Kind::QdiscDequeue => {
                let hold = self.frames.dequeue(event);
                self.remember(hold);
            }
            Kind::NeighEnqueue => self.unresolved.enqueue(event),
            Kind::NeighDequeue => {
                let holds = self.unresolved.dequeue(event);
                self.remember(holds);
            }
            Kind::TcpHold => self.send_queues.hold(event),
            Kind::TcpRelease => {
                let hold = self.send_queues.release(event);
                self.remember(hold);
            }
            _ => {}
        }
    }

    /// Remembers those that are of a connection.
    fn remember(&mut self, holds: impl IntoIterator<Item = Hold>) {
        for hold in holds.into_iter().filter(|hold| hold.connection != Connection(0)) {
            let domain = match hold.holder {
                Holder::Qdisc(QdiscId { domain, .. })
                | Holder::Neigh { domain, .. }
                | Holder::SendQueue { domain, .. } => domain,
            };
            let over = self.over.entry(domain).or_default();
            if over.len() == OVER {
                over.pop_front();
            }
            let later = over.iter().rev().take(LATE).take_while(|other| other.to > hold.to).count();
            if later < LATE {
                over.insert(over.len() - later, hold);
            }
        }
    }

    /// Forgets what is held back in a domain of which events were lost.
    pub(crate) fn lose(&mut self, domain: u8) {
        self.frames.lose(domain);
        self.unresolved.lose(domain);
        self.send_queues.lose(domain);
    }

    /// Holds of these connections, as their senders call them, that were over within a time, the last first, and as far
    /// as they lasted in that time: none while a later one did. In one domain, or in any.
    pub fn within(&self, connections: &[Connection; 2], domain: Option<u8>, from: i64, to: i64) -> Vec<Hold> {
        let domains = self.over.iter().filter(|(number, _)| domain.is_none_or(|domain| domain == **number));
        let is_of = |hold: &&Hold| connections.contains(&hold.connection);
        let mut all: Vec<Hold> = domains
            .flat_map(|(_, over)| {
                let end = over.partition_point(|hold| hold.to <= to);
                let begin = over.partition_point(|hold| hold.to <= from);
                over.range(begin.min(end)..end).filter(is_of)
            })
            .map(|hold| Hold { from: hold.from.max(from), ..*hold })
            .collect();
        // Of those that were over at once, the longest.
        all.sort_by_key(|hold| (std::cmp::Reverse(hold.to), hold.from));
        let mut last = to;
        all.retain_mut(|hold| {
            hold.to = hold.to.min(last);
            last = last.min(hold.from);
            hold.from < hold.to
        });
        all
    }

    /// How many holds are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.over.values().map(VecDeque::len).sum()
    }

    /// Forgets those that were over before this time.
    pub(crate) fn forget_before(&mut self, time: i64) {
        for over in self.over.values_mut() {
            let count = over.partition_point(|hold| hold.to < time);
            over.drain(..count);
        }
    }
}

#[cfg(test)]
mod tests {
    use xweave_trace::event::{Kind, Names};

    use super::*;

    const CONNECTION: u64 = 7 << 32 | 40000 << 16 | 80;

    fn frame(kind: Kind, time: i64, key: u32, connection: u64) -> Event {
        Event { object: 3, other: key, position: connection, ..Event::new(kind, 1, time, 0, 0) }
    }

    fn holds(events: &[Event]) -> Holds {
        let mut holds = Holds::default();
        events.iter().for_each(|event| holds.feed(event));
        holds
    }

    fn times(holds: &Holds, from: i64, to: i64) -> Vec<(i64, i64)> {
        let all = holds.within(&[Connection(CONNECTION); 2], None, from, to);
        all.iter().map(|hold| (hold.from, hold.to)).collect()
    }

    #[test]
    fn a_frame_was_held_back_from_when_it_went_in_until_it_came_out() {
        use Kind::{QdiscDequeue, QdiscEnqueue};
        let mut names = Names::default();
        let (tbf, tap) = (names.give("tbf"), names.give("tap0"));
        let holds = holds(&[
            Event { name: tbf, ..frame(QdiscEnqueue, 10, 1, CONNECTION) },
            // Of another connection, and the other direction of this one.
            frame(QdiscEnqueue, 11, 2, CONNECTION + 1),
            frame(QdiscEnqueue, 12, 3, Connection(CONNECTION).peer().0),
            frame(QdiscDequeue, 13, 2, 0),
            frame(QdiscDequeue, 14, 3, 0),
            Event { name: tap, ..frame(QdiscDequeue, 20, 1, 0) },
        ]);
        assert_eq!(times(&holds, 0, 30), [(10, 20)]);
        // What came out later had not arrived by then.
        assert_eq!((times(&holds, 11, 30), times(&holds, 0, 19)), (vec![(11, 20)], vec![]));
        let hold = holds.within(&[Connection(CONNECTION); 2], Some(1), 0, 30)[0];
        assert_eq!(hold.holder, Holder::Qdisc(QdiscId { domain: 1, kind: tbf, device: tap }));
        assert!(holds.within(&[Connection(CONNECTION); 2], Some(2), 0, 30).is_empty());
    }

    #[test]
    fn of_frames_that_wait_at_once_each_moment_counts_once() {
        use Kind::{QdiscDequeue, QdiscEnqueue};
        let holds = holds(&[
            frame(QdiscEnqueue, 10, 1, CONNECTION),
            frame(QdiscDequeue, 12, 1, 0),
            frame(QdiscEnqueue, 14, 1, CONNECTION),
            frame(QdiscEnqueue, 15, 2, CONNECTION),
            frame(QdiscDequeue, 20, 1, 0),
            frame(QdiscDequeue, 25, 2, 0),
        ]);
        assert_eq!(times(&holds, 0, 30), [(15, 25), (14, 15), (10, 12)]);
    }

    #[test]
    fn what_was_not_seen_to_go_in_or_of_which_events_were_lost_is_not_known() {
        use Kind::{QdiscDequeue, QdiscEnqueue};
        let mut holds = holds(&[frame(QdiscDequeue, 9, 1, 0), frame(QdiscEnqueue, 10, 1, CONNECTION)]);
        holds.lose(1);
        holds.feed(&frame(QdiscDequeue, 20, 1, 0));
        assert_eq!(times(&holds, 0, 30), []);
    }

    #[test]
    fn whatever_a_kernel_tells_little_is_remembered() {
        let mut holds = Holds::default();
        for time in 0..200_000 {
            let key = u32::try_from(time).unwrap();
            holds.feed(&frame(Kind::QdiscEnqueue, time, key, CONNECTION));
            if time % 2 == 0 {
                holds.feed(&frame(Kind::QdiscDequeue, time, key, 0));
            }
        }
        assert!(holds.frames.waiting(1) <= WAITING && holds.over[&1].len() == OVER);
        holds.forget_before(i64::MAX);
        assert_eq!(holds.remembered(), 0);
    }
}
