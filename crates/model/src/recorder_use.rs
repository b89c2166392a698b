//! What recording took of the CPUs that it told of.

use rustc_hash::FxHashSet;
use xweave_replay::{CpuId, ThreadId, Transition};
use xweave_trace::{Domain, Trace};

use crate::{
    by_domain::ByDomain,
    group::ObjectGroup,
    machine::Machine,
    usage::{Usage, UsageObject},
};

/// So many CPUs of all domains are told apart.
const CPUS: usize = 1 << 16;

/// The shares of the CPUs of domains that the recorder's processes had while they recorded: of those whose processes the trace
/// names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecorderUse {
    /// By the domains' names, in the order of the trace; from 0 to 1 of all CPUs of each.
    pub shares: Vec<(String, f64)>,
    /// Whether it took only what no other thread wanted, as `record --background` has it.
    pub background: bool,
}

impl RecorderUse {
    /// That of a trace of which this is the usage.
    pub fn of(trace: &Trace, usage: &Usage) -> Self {
        let recorder = UsageObject::Process(ObjectGroup::Recorder);
        Self::new(trace, |domain| {
            let own =
                usage.objects.iter().filter(|(key, _)| key.domain == domain.name && key.object == recorder);
            let cpus = usage.cpus.get(&domain.name).copied().unwrap_or(0);
            (own.map(|(_, figures)| figures.time_ns).sum(), cpus as usize)
        })
    }

    /// Of how long its processes ran in each domain, on how many CPUs of which something was seen: how many the recorder itself
    /// may run on is no measure of these.
    fn new(trace: &Trace, ran: impl Fn(&Domain) -> (u64, usize)) -> Self {
        let manifest = trace.manifest();
        let span_ns = manifest.end_ns.saturating_sub(manifest.start_ns).max(1);
        let share = |domain: &Domain| {
            let (ran_ns, cpus) = ran(domain);
            let of = cpus.max(1) as f64 * span_ns as f64;
            (domain.name.clone(), (ran_ns as f64 / of).min(1.0))
        };
        let known = manifest.domains.iter().filter(|domain| !domain.recorders.is_empty());
        Self { shares: known.map(share).collect(), background: manifest.background }
    }
}

/// How long the recorder's processes ran, added up as a trace is gone through.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecorderTime {
    /// In nanoseconds.
    ran: ByDomain<u64>,
    /// The CPUs on which anything ran.
    seen: FxHashSet<CpuId>,
    /// Since when the trace tells.
    start_ns: i64,
}

impl RecorderTime {
    /// None yet.
    pub(crate) fn of(trace: &Trace) -> Self {
        Self { start_ns: trace.manifest().start_ns, ..Self::default() }
    }

    /// Adds what the last event told.
    pub(crate) fn add(&mut self, machine: &Machine) {
        for transition in machine.transitions() {
            let Transition::Ran { cpu, tid, from, to } = *transition else { continue };
            if self.seen.len() < CPUS {
                self.seen.insert(cpu);
            }
            let process = || machine.threads().process(ThreadId { domain: cpu.domain, tid });
            if machine.recorders.have(cpu.domain, process) {
                let ns = to.saturating_sub(from.max(self.start_ns));
                self.ran[cpu.domain] += u64::try_from(ns).unwrap_or(0);
            }
        }
    }

    /// The shares of the CPUs.
    pub(crate) fn into_use(self, trace: &Trace) -> RecorderUse {
        let cpus = |number| self.seen.iter().filter(|cpu| cpu.domain == number).count();
        RecorderUse::new(trace, |domain| (self.ran[domain.number], cpus(domain.number)))
    }
}
