//! Queueing disciplines of network devices: which frames they held back, and for how long.
//!
//! A frame is known by its address while it waits, and by its connection. That one held a message back is said only where
//! both are known: the frame went in and came out, and is of the message's connection, in the message's direction.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_trace::event::{Connection, Event, Name};

/// As many frames at most wait in the queues of a domain. Beyond that, those that came first are forgotten: a queue of a
/// megabyte holds some thousands.
const WAITING: usize = 1 << 14;

/// As many frames at most that came out are remembered of a domain.
const HELD: usize = 1 << 16;

/// A frame that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: i64,
    device: u64,
    connection: Connection,
    kind: Name,
}

/// A queueing discipline, or several of a kind at one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QdiscId {
    /// The domain.
    pub domain: u8,
    /// Its kind: `tbf`.
    pub kind: Name,
    /// The device's name.
    pub device: Name,
}

/// A frame that was held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldFrame {
    /// When it was put in, in nanoseconds.
    pub from: i64,
    /// When it came out.
    pub to: i64,
    /// By which discipline.
    pub qdisc: QdiscId,
    connection: Connection,
}

#[cfg(test)]
impl HeldFrame {
    /// A frame of no connection.
    pub(crate) fn new(from: i64, to: i64, qdisc: QdiscId) -> Self {
        Self { from, to, qdisc, connection: Connection(0) }
    }
}

/// Frames that wait in the queueing disciplines of all domains, by their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingFrames(FxHashMap<u8, FxHashMap<u32, Waiting>>);

impl WaitingFrames {
    /// Adds a frame that was put into a queue.
    pub(crate) fn enqueue(&mut self, event: &Event) {
        let waiting = self.0.entry(event.domain).or_default();
        if waiting.len() >= WAITING {
            waiting.clear();
        }
        let frame = Waiting {
            since: event.time_ns,
            device: event.object,
            connection: Connection(event.position),
            kind: event.name,
        };
        waiting.insert(event.other, frame);
    }

    /// Removes a frame that came out of a queue, and returns how long it waited; none if it was not seen to go in.
    pub(crate) fn dequeue(&mut self, event: &Event) -> Option<HeldFrame> {
        let frame = self.0.get_mut(&event.domain)?.remove(&event.other)?;
        (frame.device == event.object).then_some(HeldFrame {
            from: frame.since,
            to: event.time_ns,
            qdisc: QdiscId { domain: event.domain, kind: frame.kind, device: event.name },
            connection: frame.connection,
        })
    }

    /// Forgets the frames of a domain of which events were lost: an address may be that of another frame by now.
    pub(crate) fn lose(&mut self, domain: u8) {
        if let Some(waiting) = self.0.get_mut(&domain) {
            waiting.clear();
        }
    }
}

/// The queueing disciplines of all domains.
#[derive(Clone, Debug, Default)]
pub struct Qdiscs {
    waiting: WaitingFrames,
    /// By domain, in the order in which the frames came out.
    held: FxHashMap<u8, VecDeque<HeldFrame>>,
}

impl Qdiscs {
    /// Adds a frame that was put into a queue.
    pub(crate) fn enqueue(&mut self, event: &Event) {
        self.waiting.enqueue(event);
    }

    /// Remembers a frame that came out of a queue, if it is of a connection.
    pub(crate) fn dequeue(&mut self, event: &Event) {
        let frame = self.waiting.dequeue(event);
        let Some(frame) = frame.filter(|frame| frame.connection != Connection(0)) else { return };
        let held = self.held.entry(event.domain).or_default();
        if held.len() == HELD {
            held.pop_front();
        }
        held.push_back(frame);
    }

    /// Forgets the frames that wait in a domain of which events were lost.
    pub(crate) fn lose(&mut self, domain: u8) {
        self.waiting.lose(domain);
    }

    /// The frames of these connections, as their senders call them, that came out within a time, the last first, and as far
    /// as they waited in that time: none while a later one did. In one domain, or in any.
    pub fn held(
        &self,
        connections: &[Connection; 2],
        domain: Option<u8>,
        from: i64,
        to: i64,
    ) -> Vec<HeldFrame> {
        let domains = self.held.iter().filter(|(number, _)| domain.is_none_or(|domain| domain == **number));
        let is_of = |frame: &&HeldFrame| connections.contains(&frame.connection);
        let mut all: Vec<HeldFrame> = domains
            .flat_map(|(_, held)| {
                let end = held.partition_point(|frame| frame.to <= to);
                let begin = held.partition_point(|frame| frame.to <= from);
                held.range(begin.min(end)..end).filter(is_of)
            })
            .map(|frame| HeldFrame { from: frame.from.max(from), ..*frame })
            .collect();
        // Of those that came out at once, the one that had waited for longest.
        all.sort_by_key(|frame| (std::cmp::Reverse(frame.to), frame.from));
        let mut last = to;
        all.retain_mut(|frame| {
            frame.to = frame.to.min(last);
            last = last.min(frame.from);
            frame.from < frame.to
        });
        all
    }

    /// How many frames are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.held.values().map(VecDeque::len).sum()
    }

    /// Forgets those that came out before this time.
    pub(crate) fn forget_before(&mut self, time: i64) {
        for held in self.held.values_mut() {
            let over = held.partition_point(|frame| frame.to < time);
            held.drain(..over);
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

    fn qdiscs(events: &[Event]) -> Qdiscs {
        let mut qdiscs = Qdiscs::default();
        for event in events {
            match event.kind {
                Kind::QdiscEnqueue => qdiscs.enqueue(event),
                _ => qdiscs.dequeue(event),
            }
        }
        qdiscs
    }

    fn times(qdiscs: &Qdiscs, from: i64, to: i64) -> Vec<(i64, i64)> {
        let held = qdiscs.held(&[Connection(CONNECTION); 2], None, from, to);
        held.iter().map(|frame| (frame.from, frame.to)).collect()
    }

    #[test]
    fn a_frame_was_held_back_from_when_it_went_in_until_it_came_out() {
        use Kind::{QdiscDequeue, QdiscEnqueue};
        let mut names = Names::default();
        let (tbf, tap) = (names.give("tbf"), names.give("tap0"));
        let qdiscs = qdiscs(&[
            Event { name: tbf, ..frame(QdiscEnqueue, 10, 1, CONNECTION) },
            // Of another connection, and the other direction of this one.
            frame(QdiscEnqueue, 11, 2, CONNECTION + 1),
            frame(QdiscEnqueue, 12, 3, Connection(CONNECTION).peer().0),
            frame(QdiscDequeue, 13, 2, 0),
            frame(QdiscDequeue, 14, 3, 0),
            Event { name: tap, ..frame(QdiscDequeue, 20, 1, 0) },
        ]);
        assert_eq!(times(&qdiscs, 0, 30), [(10, 20)]);
        // What came out later had not arrived by then.
        assert_eq!((times(&qdiscs, 11, 30), times(&qdiscs, 0, 19)), (vec![(11, 20)], vec![]));
        let held = qdiscs.held(&[Connection(CONNECTION); 2], Some(1), 0, 30)[0];
        assert_eq!(held.qdisc, QdiscId { domain: 1, kind: tbf, device: tap });
        assert!(qdiscs.held(&[Connection(CONNECTION); 2], Some(2), 0, 30).is_empty());
    }

    #[test]
    fn of_frames_that_wait_at_once_each_moment_counts_once() {
        use Kind::{QdiscDequeue, QdiscEnqueue};
        let qdiscs = qdiscs(&[
            frame(QdiscEnqueue, 10, 1, CONNECTION),
            frame(QdiscDequeue, 12, 1, 0),
            frame(QdiscEnqueue, 14, 1, CONNECTION),
            frame(QdiscEnqueue, 15, 2, CONNECTION),
            frame(QdiscDequeue, 20, 1, 0),
            frame(QdiscDequeue, 25, 2, 0),
        ]);
        assert_eq!(times(&qdiscs, 0, 30), [(15, 25), (14, 15), (10, 12)]);
    }

    #[test]
    fn what_was_not_seen_to_go_in_or_of_which_events_were_lost_is_not_known() {
        use Kind::{QdiscDequeue, QdiscEnqueue};
        let mut qdiscs = qdiscs(&[frame(QdiscDequeue, 9, 1, 0), frame(QdiscEnqueue, 10, 1, CONNECTION)]);
        qdiscs.lose(1);
        qdiscs.dequeue(&frame(QdiscDequeue, 20, 1, 0));
        assert_eq!(times(&qdiscs, 0, 30), []);
    }

    #[test]
    fn whatever_a_kernel_tells_little_is_remembered() {
        let mut qdiscs = Qdiscs::default();
        for time in 0..200_000 {
            let key = u32::try_from(time).unwrap();
            qdiscs.enqueue(&frame(Kind::QdiscEnqueue, time, key, CONNECTION));
            if time % 2 == 0 {
                qdiscs.dequeue(&frame(Kind::QdiscDequeue, time, key, 0));
            }
        }
        assert!(qdiscs.waiting.0[&1].len() <= WAITING && qdiscs.held[&1].len() == HELD);
        qdiscs.forget_before(i64::MAX);
        assert_eq!(qdiscs.remembered(), 0);
    }
}
