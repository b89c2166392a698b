//! Events on their way from a domain into the trace: decoded, put into the order of their times.

use xweave_trace::{Event, Writer, event::Kind};
use xweave_wire::event::{Event as Recorded, decode_events};

/// A domain's events that cannot be written yet: each of its CPUs has a buffer of its own, and clocks are compared
/// later.
#[derive(Default)]
pub(crate) struct Waiting {
    events: Vec<Recorded>,
    /// When the domain's clocks were read last, and before that, in its own nanoseconds.
    clocks: [u64; 2],
}

impl Waiting {
    /// Takes in a batch; gives how many bytes of it could not be understood.
    pub(crate) fn take(&mut self, batch: &[u8]) -> usize {
        let (events, rest) = decode_events(batch);
        self.events.extend(events);
        rest
    }

    /// The domain has read its clocks, and sent what was recorded before.
    pub(crate) fn clock(&mut self, mono_ns: u64) {
        self.clocks = [mono_ns, self.clocks[0]];
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.events.len() * size_of::<Recorded>()
    }

    /// Those until the horizon, in the order of their times. What was just being written when the clocks were read
    /// comes after them, so that only those are given that the clocks before had seen.
    pub(crate) fn settled(&mut self, horizon: u64) -> Vec<Recorded> {
        self.until(horizon.min(self.clocks[1]))
    }

    /// All until the horizon, when no more will come.
    pub(crate) fn rest(&mut self, horizon: u64) -> Vec<Recorded> {
        self.until(horizon)
    }

    fn until(&mut self, time: u64) -> Vec<Recorded> {
        let (mut settled, waiting): (Vec<_>, _) =
            std::mem::take(&mut self.events).into_iter().partition(|event| event.time_ns <= time);
        self.events = waiting;
        // Stable: a CPU's events of one time stay in their order.
        settled.sort_by_key(|event| event.time_ns);
        settled
    }
}

/// Puts an event of the domain with that number into a trace's form.
pub(crate) fn normal(recorded: &Recorded, domain: u8, time_ns: i64, writer: &mut Writer) -> Event {
    let named = matches!(recorded.kind, Kind::Fork | Kind::Thread);
    Event {
        object: recorded.object,
        position: recorded.position,
        bytes: recorded.bytes,
        other: recorded.other,
        code: recorded.code,
        name: if named { writer.name(&recorded.name()) } else { Default::default() },
        ..Event::new(recorded.kind, domain, time_ns, recorded.cpu.into(), recorded.tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(events: &[(u16, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (cpu, time) in events {
            Recorded::new(Kind::Switch, *time, *cpu, 1).encode(&mut bytes);
        }
        bytes
    }

    #[test]
    fn events_of_all_cpus_come_in_the_order_of_their_times() {
        let mut waiting = Waiting::default();
        let places = |events: Vec<Recorded>| -> Vec<_> {
            events.iter().map(|event| (event.cpu, event.time_ns)).collect()
        };
        assert_eq!(waiting.take(&batch(&[(0, 5), (0, 20), (0, 20)])), 0);
        assert_eq!(waiting.take(&batch(&[(1, 7), (1, 20)])), 0);
        assert!(waiting.settled(u64::MAX).is_empty(), "no clock was read after them");
        waiting.clock(10);
        assert!(waiting.settled(u64::MAX).is_empty(), "some may still have been on their way");
        waiting.take(&batch(&[(0, 30)]));
        waiting.take(&batch(&[(1, 9)]));
        waiting.clock(40);
        assert_eq!(places(waiting.settled(8)), [(0, 5), (1, 7)]);
        assert_eq!(places(waiting.settled(u64::MAX)), [(1, 9)]);
        assert_eq!(waiting.len(), 4);
        assert_eq!(places(waiting.rest(u64::MAX)), [(0, 20), (0, 20), (1, 20), (0, 30)]);
        assert_eq!(waiting.take(&[1, 2, 3]), 3);
    }
}
