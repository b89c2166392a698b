//! Frames that wait until the link-layer address of their next hop is known.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_trace::event::{Connection, Event, Name};

use super::{Hold, Holder, WAITING};

/// A frame that waits.
#[derive(Clone, Copy, Debug)]
struct UnresolvedFrame {
    since: i64,
    connection: Connection,
    device: Name,
}

/// Frames of a domain that wait, by what their next hop is known by: those that came first are first.
#[derive(Clone, Debug, Default)]
struct UnresolvedHops {
    queues: FxHashMap<u32, VecDeque<UnresolvedFrame>>,
    frames: usize,
}

/// Frames that wait for an address in all domains.
#[derive(Clone, Debug, Default)]
pub(super) struct Unresolved(FxHashMap<u8, UnresolvedHops>);

impl Unresolved {
    /// Adds a frame to a next hop's queue. The event says how many are there with it: those before were dropped, as the queue
    /// was full, or nobody had answered.
    pub(super) fn enqueue(&mut self, event: &Event) {
        let domain = self.0.entry(event.domain).or_default();
        if domain.frames >= WAITING {
            *domain = UnresolvedHops::default();
        }
        let queue = domain.queues.entry(event.other).or_default();
        let count = usize::try_from(event.bytes).unwrap_or(usize::MAX).max(1);
        domain.frames += 1;
        domain.frames -= queue.drain(..queue.len().saturating_sub(count - 1)).count();
        let connection = Connection(event.position);
        queue.push_back(UnresolvedFrame { since: event.time_ns, connection, device: event.name });
    }

    /// Removes the frames of a next hop of which the address is known now.
    pub(super) fn dequeue(&mut self, event: &Event) -> Vec<Hold> {
        let Some(domain) = self.0.get_mut(&event.domain) else { return Vec::new() };
        let queue = domain.queues.remove(&event.other).unwrap_or_default();
        domain.frames -= queue.len();
        let hold = |frame: UnresolvedFrame| Hold {
            from: frame.since,
            to: event.time_ns,
            holder: Holder::Neigh { domain: event.domain, device: frame.device },
            connection: frame.connection,
        };
        queue.into_iter().map(hold).collect()
    }

    /// Forgets the frames of a domain of which events were lost.
    pub(super) fn lose(&mut self, domain: u8) {
        self.0.remove(&domain);
    }
}

#[cfg(test)]
mod tests {
    use xweave_trace::event::Kind;

    use super::*;

    fn enqueue(unresolved: &mut Unresolved, time: i64, hop: u32, connection: u64, count: u64) {
        let event = Event::new(Kind::NeighEnqueue, 1, time, 0, 0);
        unresolved.enqueue(&Event { other: hop, position: connection, bytes: count, ..event });
    }

    fn dequeue(unresolved: &mut Unresolved, time: i64, hop: u32) -> Vec<(i64, i64, u64)> {
        let event = Event { other: hop, ..Event::new(Kind::NeighDequeue, 1, time, 0, 0) };
        unresolved.dequeue(&event).iter().map(|hold| (hold.from, hold.to, hold.connection.0)).collect()
    }

    #[test]
    fn all_frames_to_a_next_hop_waited_for_its_address() {
        let mut unresolved = Unresolved::default();
        enqueue(&mut unresolved, 10, 1, 7, 1);
        enqueue(&mut unresolved, 11, 2, 8, 1);
        enqueue(&mut unresolved, 12, 1, 9, 2);
        assert_eq!(dequeue(&mut unresolved, 20, 1), [(10, 20, 7), (12, 20, 9)]);
        assert_eq!(dequeue(&mut unresolved, 21, 1), []);
        assert_eq!(dequeue(&mut unresolved, 22, 2), [(11, 22, 8)]);
    }

    #[test]
    fn frames_that_were_dropped_from_the_queue_did_not_wait_until_the_address_was_known() {
        let mut unresolved = Unresolved::default();
        // Nobody answered the first; of the later ones the queue had room for two.
        enqueue(&mut unresolved, 10, 1, 7, 1);
        enqueue(&mut unresolved, 20, 1, 7, 1);
        enqueue(&mut unresolved, 21, 1, 8, 2);
        enqueue(&mut unresolved, 22, 1, 9, 2);
        assert_eq!(dequeue(&mut unresolved, 30, 1), [(21, 30, 8), (22, 30, 9)]);
        enqueue(&mut unresolved, 40, 1, 7, 1);
        unresolved.lose(1);
        assert_eq!(dequeue(&mut unresolved, 50, 1), []);
    }

    #[test]
    fn whatever_a_kernel_tells_little_is_remembered() {
        let mut unresolved = Unresolved::default();
        for time in 0..50_000_u32 {
            enqueue(&mut unresolved, time.into(), time % 5, 7, u64::MAX);
        }
        let UnresolvedHops { queues, frames } = &unresolved.0[&1];
        assert!(*frames <= WAITING && queues.values().map(VecDeque::len).sum::<usize>() == *frames);
    }
}
