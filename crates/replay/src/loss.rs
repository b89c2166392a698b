//! Events that were lost: how many of which processor, and when.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use xweave_trace::{
    Manifest, Trace,
    event::{Event, Kind},
};

use crate::ids::{CpuId, between};

/// More processors than any machine has are made up.
const CPUS: usize = 1 << 13;

/// Of more losses, all that a processor's last one and those behind it span is one.
const MOST: usize = 1 << 20;

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
}

/// What all processors lost, as far as it is known when.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    cpus: BTreeMap<CpuId, LossOfCpu>,
    all: Vec<Loss>,
    /// The place of each processor's last.
    last: FxHashMap<CpuId, usize>,
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
        losses
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
    pub fn take_all(&mut self) -> Vec<Loss> {
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
            LossOfDomain { domain: domain.name.clone(), events, untimed: events - timed, cpus }
        });
        domains.filter(|loss| loss.events > 0 || !loss.cpus.is_empty()).collect()
    }
}
