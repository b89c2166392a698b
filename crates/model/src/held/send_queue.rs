//! What TCP was given to send, and holds back.

use rustc_hash::FxHashMap;
use xweave_trace::event::{Connection, Event, HoldReason};

use super::{Hold, Holder, WAITING};

/// Connections whose TCP holds something back, as the sender calls them: since when, and why.
#[derive(Clone, Debug, Default)]
pub(super) struct SendQueues(FxHashMap<u8, FxHashMap<Connection, (i64, HoldReason)>>);

impl SendQueues {
    /// Adds a connection; or one for another reason, or anew: then nothing says that it did so in between.
    pub(super) fn hold(&mut self, event: &Event) {
        let domain = self.0.entry(event.domain).or_default();
        if domain.len() >= WAITING {
            domain.clear();
        }
        domain.insert(Connection(event.position), (event.time_ns, HoldReason::of(event.code)));
    }

    /// Removes a connection whose TCP holds nothing back any more.
    ///
    /// Bytes are sent in the order in which they were given to TCP. So whatever was given to it before or in this time, and
    /// arrived after it, was held back as well.
    pub(super) fn release(&mut self, event: &Event) -> Option<Hold> {
        let connection = Connection(event.position);
        let (from, reason) = self.0.get_mut(&event.domain)?.remove(&connection)?;
        let holder = Holder::SendQueue { domain: event.domain, reason };
        // What is sent may arrive before the event.
        let ago = i64::try_from(event.bytes).unwrap_or(i64::MAX);
        let to = event.time_ns.saturating_sub(ago).max(from);
        (reason != HoldReason::Other).then_some(Hold { from, to, holder, connection })
    }

    /// Forgets the connections of a domain of which events were lost.
    pub(super) fn lose(&mut self, domain: u8) {
        self.0.remove(&domain);
    }
}

#[cfg(test)]
mod tests {
    use xweave_trace::event::Kind;

    use super::*;

    fn event(kind: Kind, time: i64, connection: u64, reason: HoldReason) -> Event {
        Event { position: connection, code: reason.code(), ..Event::new(kind, 1, time, 0, 0) }
    }

    #[test]
    fn a_connection_was_held_back_since_it_was_last_said() {
        let mut queues = SendQueues::default();
        let release = |time, connection| event(Kind::TcpRelease, time, connection, HoldReason::Other);
        queues.hold(&event(Kind::TcpHold, 10, 7, HoldReason::ReceiveWindow));
        queues.hold(&event(Kind::TcpHold, 12, 8, HoldReason::Other));
        queues.hold(&event(Kind::TcpHold, 15, 7, HoldReason::Nagle));
        let hold = queues.release(&Event { bytes: 3, ..release(23, 7) }).unwrap();
        assert_eq!((hold.from, hold.to), (15, 20));
        assert_eq!(hold.holder, Holder::SendQueue { domain: 1, reason: HoldReason::Nagle });
        assert_eq!((queues.release(&release(21, 7)), queues.release(&release(22, 8))), (None, None));
        queues.hold(&event(Kind::TcpHold, 30, 7, HoldReason::Nagle));
        queues.lose(1);
        assert_eq!(queues.release(&release(40, 7)), None);
    }

    #[test]
    fn whatever_a_kernel_tells_little_is_remembered() {
        let mut queues = SendQueues::default();
        for connection in 0..50_000 {
            queues.hold(&event(Kind::TcpHold, 10, connection, HoldReason::Cork));
        }
        assert!(queues.0[&1].len() <= WAITING);
    }
}
