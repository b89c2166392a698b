//! Events that were lost: how many of which processor, and when.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use xweave_trace::{
    Exit, Manifest, TimeSpan, Trace,
    event::{Event, Kind},
};

use crate::ids::{CpuId, between};

/// More processors than any machine has are made up.
const CPUS: usize = 1 << 13;

/// Of more losses, all that a processor's last one and those behind it span is one.
const MOST: usize = 1 << 20;

/// A domain that is not known to have been recorded until the end, and has no event for so long before that, was not: kernels that
/// are idle have one more often.
const SILENT_NS: u64 = 1_000_000_000;

/// That the recording of a domain ended before the trace does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyEnd {
    /// The domain's number.
    pub domain: u8,
    /// From behind its last event until behind the trace's last one: of that time nothing is known.
    pub unknown: TimeSpan,
}

/// A time in which events of a processor were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The processor.
    pub cpu: CpuId,
    /// When the first of them was, in nanoseconds, or since when that may have been.
    pub from: i64,
    /// Behind the last of them.
    pub to: i64,
}

impl Loss {
    /// What an event of the kind `Lost` tells of.
    pub fn new(event: &Event) -> Self {
        let before = |ns| event.time_ns.saturating_sub_unsigned(ns);
        let to = before(event.object).saturating_add(1);
        let cpu = CpuId { domain: event.domain, cpu: event.cpu };
        Self { cpu, from: before(event.position).min(to - 1), to }
    }
}

/// What a processor lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossOfCpu {
    /// How many events, as far as they were counted.
    pub events: u64,
    /// How often some were lost one after the other.
    pub gaps: u64,
    /// When the first was lost, in nanoseconds.
    pub from_ns: i64,
    /// When the last was.
    pub to_ns: i64,
    /// How long all gaps were.
    pub ns: u64,
}

/// What a domain lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossOfDomain {
    /// Its name.
    pub domain: String,
    /// How many events.
    pub events: u64,
    /// Those of them of which it is not known when they were lost.
    pub untimed: u64,
    /// Its processors, by their numbers.
    pub cpus: Vec<(u32, LossOfCpu)>,
    /// When it was recorded no more, though others were: of that time nothing is known of it.
    pub ended: Option<TimeSpan>,
}

impl LossOfDomain {
    /// Reports whether events were lost while the domain was recorded.
    pub fn has_lost(&self) -> bool {
        self.events > 0 || !self.cpus.is_empty()
    }
}

/// What all processors lost, as far as it is known when.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    cpus: BTreeMap<CpuId, LossOfCpu>,
    all: Vec<Loss>,
    /// The place of each processor's last.
    last: FxHashMap<CpuId, usize>,
    ends: Vec<EarlyEnd>,
}

impl Losses {
    /// Those that a trace's events tell of. They may come late: a processor that has lost events tells of it with the
    /// next, and what goes on elsewhere until then is affected all the same.
    pub fn of(trace: &Trace) -> Self {
        let mut losses = Self::default();
        let manifest = trace.manifest();
        // The events are gone through once more, which is not done for nothing.
        if !manifest.complete || !manifest.loss.events.is_empty() {
            let lost = trace.events().filter(|event| event.kind == Kind::Lost);
            lost.for_each(|event| losses.add(&event));
        }
        losses.ends = ends(trace);
        losses
    }

    /// The domains that were recorded no more when others were.
    pub(crate) fn ends(&self) -> &[EarlyEnd] {
        &self.ends
    }

    fn add(&mut self, event: &Event) {
        let loss = Loss::new(event);
        let Loss { cpu: id, from, to } = loss;
        if self.cpus.len() >= CPUS && !self.cpus.contains_key(&id) {
            return;
        }
        let new = LossOfCpu { from_ns: from, to_ns: to, ..LossOfCpu::default() };
        let cpu = self.cpus.entry(id).or_insert(new);
        cpu.events = cpu.events.saturating_add(event.bytes);
        cpu.gaps += 1;
        (cpu.from_ns, cpu.to_ns) = (cpu.from_ns.min(from), cpu.to_ns.max(to));
        cpu.ns = cpu.ns.saturating_add(between(from, to));
        match self.last.get(&id).filter(|_| self.all.len() >= MOST) {
            Some(&last) => {
                let wide = &mut self.all[last];
                (wide.from, wide.to) = (wide.from.min(from), wide.to.max(to));
            }
            None => {
                self.last.insert(id, self.all.len());
                self.all.push(loss);
            }
        }
    }

    /// When it was: taken out, so that it is there once.
    pub(crate) fn take_all(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.all)
    }

    /// By domains, with what was counted without times.
    pub fn of_domains(&self, manifest: &Manifest) -> Vec<LossOfDomain> {
        let domains = manifest.domains.iter().map(|domain| {
            let counted = manifest.loss.events.iter().filter(|loss| loss.domain == domain.name);
            let counted = counted.flat_map(|loss| [loss.dropped, loss.missed]).fold(0, u64::saturating_add);
            let of_domain = self.cpus.iter().filter(|(id, _)| id.domain == domain.number);
            let cpus: Vec<_> = of_domain.map(|(id, loss)| (id.cpu, *loss)).collect();
            let timed = cpus.iter().map(|(_, loss)| loss.events).fold(0, u64::saturating_add);
            let events = counted.max(timed);
            let ended = self.ends.iter().find(|end| end.domain == domain.number).map(|end| end.unknown);
            LossOfDomain { domain: domain.name.clone(), events, untimed: events - timed, cpus, ended }
        });
        domains.filter(|loss| loss.has_lost() || loss.ended.is_some()).collect()
    }
}

/// The domains whose agents went away before the end; and, of those of which it is not known how their recording ended, those that
/// have no event any more long before the end.
fn ends(trace: &Trace) -> Vec<EarlyEnd> {
    let domains = &trace.manifest().domains;
    if domains.len() < 2 || domains.iter().all(|domain| domain.exit == Some(Exit::Stopped)) {
        return Vec::new();
    }
    let Some(last) = trace.last_events() else { return Vec::new() };
    let Some(end) = last.values().copied().max() else { return Vec::new() };
    let early = domains.iter().filter_map(|domain| {
        let last = *last.get(&domain.number)?;
        let least = match domain.exit {
            Some(Exit::Stopped) => return None,
            Some(Exit::Lost { .. }) => 0,
            None => SILENT_NS,
        };
        let unknown = TimeSpan { from: last.saturating_add(1), to: end.saturating_add(1) };
        (unknown.duration_ns() > least).then_some(EarlyEnd { domain: domain.number, unknown })
    });
    early.collect()
}
