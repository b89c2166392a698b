//! How much data a transaction carried.

use xweave_trace::event::{Event, Kind, Sending};

/// Bytes of a transaction, as the one sees it that waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Sent: a request, a frame's data; written to a disk.
    pub sent: u64,
    /// Received: an answer; read from a disk.
    pub received: u64,
}

impl Bytes {
    /// All of them.
    pub fn all(self) -> u64 {
        self.sent.saturating_add(self.received)
    }

    /// These and others.
    pub fn and(self, others: Self) -> Self {
        let Self { sent, received } = others;
        Self { sent: self.sent.saturating_add(sent), received: self.received.saturating_add(received) }
    }

    /// These without others, which came before.
    pub(crate) fn since(self, before: Self) -> Self {
        let Self { sent, received } = before;
        Self { sent: self.sent.saturating_sub(sent), received: self.received.saturating_sub(received) }
    }

    /// What an event adds to what its end of a connection has sent and received.
    pub(crate) fn of(event: &Event) -> Self {
        let mut bytes = Self::default();
        if matches!(event.kind, Kind::Send | Kind::Receive) {
            bytes.exchange(event, false);
        }
        bytes
    }

    /// A [`Kind::Send`] or [`Kind::Receive`] of the end that asks, or of the one that answers.
    pub(crate) fn exchange(&mut self, event: &Event, answers: bool) {
        let asked = (event.kind == Kind::Receive) == answers;
        let sum = if asked { &mut self.sent } else { &mut self.received };
        let corrects = event.kind == Kind::Send && Sending::of(event.code).corrects();
        *sum = if corrects { sum.saturating_sub(event.bytes) } else { sum.saturating_add(event.bytes) };
    }
}
