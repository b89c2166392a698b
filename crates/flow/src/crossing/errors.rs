//! How far from the truth the time between two records may be.

use std::collections::BTreeMap;

use xweave_trace::{Clock, ClockBreak, TimeSpan, Trace};

use super::Event;

/// How far from the truth each domain's times may be.
pub(super) struct Errors(BTreeMap<u8, DomainError>);

/// How far from the truth a domain's times may be.
struct DomainError {
    /// Outside of its clock's breaks, in nanoseconds.
    stated: u64,
    /// The first and the last time of each break, in order; none overlaps another. A guest can make its clock jump as
    /// often as it is read: they are not looked through for each event.
    breaks: Vec<TimeSpan>,
}

impl DomainError {
    fn of(clock: &Clock) -> Self {
        let span = |jump: &ClockBreak| TimeSpan {
            from: jump.after_ns.unwrap_or(i64::MIN),
            to: jump.before_ns.unwrap_or(i64::MAX),
        };
        let mut breaks: Vec<_> = clock.breaks.iter().map(span).filter(|span| span.from <= span.to).collect();
        breaks.sort_unstable();
        breaks.dedup_by(|next, last| {
            let touching = next.from <= last.to;
            if touching {
                *last = last.joined(*next);
            }
            touching
        });
        Self { stated: clock.error_ns, breaks }
    }

    /// How far from the truth what is recorded at a time of the time line may be, in nanoseconds; `u64::MAX` if that
    /// is not known.
    fn at(&self, time: i64) -> u64 {
        let next = self.breaks.partition_point(|span| span.from <= time);
        let within = next.checked_sub(1).is_some_and(|at| time <= self.breaks[at].to);
        if within { u64::MAX } else { self.stated }
    }
}

impl Errors {
    pub(super) fn of(trace: &Trace) -> Self {
        let clocks = &trace.manifest().clocks;
        let clock = |name: &str| clocks.iter().find(|clock| clock.domain == name);
        let domains = trace.manifest().domains.iter();
        let error = |name: &str| clock(name).map(DomainError::of);
        Self(domains.filter_map(|domain| Some((domain.number, error(&domain.name)?))).collect())
    }

    /// What both domains' clocks state, whether or not one of them had jumped.
    pub(super) fn stated(&self, a: &Event, b: &Event) -> u64 {
        let error = |event: &Event| self.0.get(&event.domain).map_or(0, |error| error.stated);
        error(a).saturating_add(error(b))
    }

    /// The most that a clock states.
    pub(super) fn most_stated(&self) -> u64 {
        self.0.values().map(|error| error.stated).max().unwrap_or(0)
    }

    /// How far from the truth the time between two events may be.
    pub(super) fn between(&self, a: &Event, b: &Event) -> u64 {
        let error = |event: &Event| self.0.get(&event.domain).map_or(0, |error| error.at(event.time));
        error(a).saturating_add(error(b))
    }
}
