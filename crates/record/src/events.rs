//! Events on their way from a domain into the trace.

use std::collections::BTreeSet;

use xweave_trace::{Event, Writer, event::Kind};
use xweave_wire::{event::Event as Recorded, plan::EventPlan};

use crate::{violation::Violation, waiting};

/// The kinds of events that a domain may send.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kinds(u64);

impl Kinds {
    /// Those of the plan's probes; the threads that there are at the beginning, which the agent tells by itself; and what
    /// was lost of any.
    pub(crate) fn of(plan: &EventPlan) -> Self {
        let kinds = plan.programs.iter().map(|program| program.kind).chain([Kind::Thread, Kind::Lost]);
        Self(kinds.fold(0, |kinds, kind| kinds | 1 << kind as u8))
    }

    /// The groups that they are of, each once.
    pub(crate) fn groups(self) -> Vec<String> {
        let kinds = Kind::ALL.into_iter().filter(|kind| self.has(*kind));
        kinds.filter_map(Kind::group_name).collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
    }

    fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

/// A domain's events that wait.
#[derive(Default)]
pub(crate) struct Waiting {
    events: waiting::Waiting<Recorded>,
    /// When the domain's clocks were read last, and before that, in its own nanoseconds.
    clocks: [u64; 2],
}

impl Waiting {
    /// Takes in a batch.
    ///
    /// # Errors
    /// It is damaged, or has other events than those kinds.
    pub(crate) fn take(&mut self, batch: Vec<u8>, kinds: Kinds) -> Result<(), Violation> {
        self.events.take(batch, |event| match kinds.has(event.kind) {
            true => Ok(()),
            false => Err(Violation::Event(event.kind)),
        })
    }

    /// The domain has read its clocks, and sent what was recorded before.
    pub(crate) fn clock(&mut self, mono_ns: u64) {
        self.clocks = [mono_ns, self.clocks[0]];
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Memory that they hold.
    pub(crate) fn bytes(&self) -> usize {
        self.events.bytes()
    }

    /// Until when they are settled, where the clocks are known until the horizon. What was just being written when the
    /// clocks were read comes after them, so that only that is settled which the clocks before had seen.
    pub(crate) fn settled(&self, horizon: u64) -> u64 {
        horizon.min(self.clocks[1])
    }

    /// The earliest, if it is not after that time; it does not wait any more.
    pub(crate) fn next_until(&mut self, time: u64) -> Option<Recorded> {
        self.events.next_until(time)
    }
}

/// Keeps a domain's events in the order of their times, as readers rely on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    last: Option<i64>,
    /// Events that came when later ones had been written.
    pub(crate) late: u64,
    /// How much later their times were made, at most.
    pub(crate) most_ns: u64,
}

impl Order {
    /// Gives an event that comes late the time of the last one.
    pub(crate) fn keep(&mut self, event: &mut Event) {
        let last = self.last.get_or_insert(event.time_ns);
        let Some(late) = u64::try_from(last.saturating_sub(event.time_ns)).ok().filter(|late| *late > 0)
        else {
            *last = event.time_ns;
            return;
        };
        event.time_ns = *last;
        if event.kind == Kind::Lost {
            // It says when by how long before it that was.
            event.object = event.object.saturating_add(late);
            event.position = event.position.saturating_add(late);
            return;
        }
        self.late += 1;
        self.most_ns = self.most_ns.max(late);
    }
}

/// Puts an event of the domain with that number into a trace's form.
pub(crate) fn normal(recorded: &Recorded, domain: u8, time_ns: i64, writer: &mut Writer) -> Event {
    let named = recorded.kind.has_name();
    Event {
        object: recorded.object,
        position: recorded.position,
        bytes: recorded.bytes,
        other: recorded.other,
        code: recorded.code,
        name: if named { writer.name_of(domain, &recorded.name()) } else { Default::default() },
        ..Event::new(recorded.kind, domain, time_ns, recorded.cpu.into(), recorded.tid)
    }
}

#[cfg(test)]
mod tests {
    use xweave_wire::plan::{EventProgram, Hook};

    use super::*;

    fn batch(events: &[(Kind, u64)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, time) in events {
            Recorded::new(*kind, *time, 0, 1).encode(&mut bytes);
        }
        bytes
    }

    fn plan(kinds: &[Kind]) -> EventPlan {
        let program = |kind: &Kind| EventProgram {
            name: kind.to_string(),
            hook: Hook::Tracepoint,
            function: kind.to_string(),
            module: None,
            kind: *kind,
        };
        EventPlan { object: Vec::new(), programs: kinds.iter().map(program).collect(), buffer: 4096 }
    }

    #[test]
    fn events_are_settled_when_the_clocks_were_read_twice_after_them() {
        let mut waiting = Waiting::default();
        let kinds = Kinds::of(&plan(&[Kind::Switch]));
        waiting.take(batch(&[(Kind::Switch, 5), (Kind::Switch, 20)]), kinds).unwrap();
        assert_eq!(waiting.settled(u64::MAX), 0, "no clock was read after them");
        waiting.clock(10);
        assert_eq!(waiting.settled(u64::MAX), 0, "some may still have been on their way");
        waiting.clock(40);
        assert_eq!((waiting.settled(8), waiting.settled(u64::MAX)), (8, 10));
        let next = waiting.next_until(10).map(|event| event.time_ns);
        assert_eq!((next, waiting.next_until(10), waiting.len()), (Some(5), None, 1));
    }

    #[test]
    fn what_comes_late_is_counted_and_has_the_last_time() {
        let mut order = Order::default();
        let mut keep = |kind, time_ns| {
            let told = Event::new(kind, 1, time_ns, 0, 1);
            let mut event = Event { position: 30, object: 10, ..told };
            order.keep(&mut event);
            (event.time_ns, event.position, event.object)
        };
        let switch = [50, 40, 70, 70, 45].map(|time| keep(Kind::Switch, time).0);
        assert_eq!(switch, [50, 50, 70, 70, 70]);
        assert_eq!(keep(Kind::Lost, 60), (70, 40, 20), "what was lost from 30 to 50 was lost then");
        assert_eq!((order.late, order.most_ns), (2, 25));
    }

    #[test]
    fn only_events_of_the_plan_and_threads_are_taken() {
        let kinds = Kinds::of(&plan(&[Kind::Switch, Kind::VmInject]));
        let mut waiting = Waiting::default();
        waiting.take(batch(&[(Kind::Switch, 1), (Kind::VmInject, 2), (Kind::Thread, 3)]), kinds).unwrap();
        for (kinds, kind) in [(kinds, Kind::Exit), (kinds, Kind::Fork), (Kinds::default(), Kind::Thread)] {
            let refused = waiting.take(batch(&[(Kind::Switch, 4), (kind, 5)]), kinds);
            assert_eq!(
                refused,
                Err(Violation::Event(if kinds.has(Kind::Switch) { kind } else { Kind::Switch }))
            );
        }
        assert_eq!(waiting.len(), 3);
    }

    #[test]
    fn a_trace_is_told_the_groups_that_were_recorded_and_not_what_comes_with_all() {
        assert_eq!(Kinds::of(&plan(&[])).groups(), [""; 0]);
        let kinds = Kinds::of(&plan(&[Kind::VmExit, Kind::DiskQueue, Kind::DiskIssue]));
        assert_eq!(kinds.groups(), ["block", "vm"]);
    }
}
