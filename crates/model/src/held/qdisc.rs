//! Frames in queueing disciplines, known by their addresses while they wait.

use rustc_hash::FxHashMap;
use xweave_trace::event::{Connection, Event, Name};

use super::{Hold, Holder, WAITING};

/// A frame that waits.
#[derive(Clone, Copy, Debug)]
struct WaitingFrame {
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

/// Frames that wait in the queueing disciplines of all domains, by their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingFrames(FxHashMap<u8, FxHashMap<u32, WaitingFrame>>);

impl WaitingFrames {
    /// Adds a frame that was put into a queue.
    pub(crate) fn enqueue(&mut self, event: &Event) {
        let waiting = self.0.entry(event.domain).or_default();
        if waiting.len() >= WAITING {
            waiting.clear();
        }
        let frame = WaitingFrame {
            since: event.time_ns,
            device: event.object,
            connection: Connection(event.position),
            kind: event.name,
        };
        waiting.insert(event.other, frame);
    }

    /// Removes a frame that came out of a queue, and returns how long it waited; none if it was not seen to go in.
    pub(crate) fn dequeue(&mut self, event: &Event) -> Option<Hold> {
        let frame = self.0.get_mut(&event.domain)?.remove(&event.other)?;
        let qdisc = QdiscId { domain: event.domain, kind: frame.kind, device: event.name };
        (frame.device == event.object).then_some(Hold {
            from: frame.since,
            to: event.time_ns,
            holder: Holder::Qdisc(qdisc),
            connection: frame.connection,
        })
    }

    /// Forgets the frames of a domain of which events were lost: an address may be that of another frame by now.
    pub(crate) fn lose(&mut self, domain: u8) {
        if let Some(waiting) = self.0.get_mut(&domain) {
            waiting.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn waiting(&self, domain: u8) -> usize {
        self.0[&domain].len()
    }
}
