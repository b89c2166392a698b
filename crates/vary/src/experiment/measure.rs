//! What the trace of one block says: how long requests took and what kept them, how busy CPUs were, and what became of the
//! settings as far as events show it.

use std::collections::BTreeMap;

use xweave_model::{Delay, ExitReason, Spec, Tally, Usage, explain};
use xweave_trace::{
    Domain, Trace,
    event::{Event, Kind},
};

/// What one block has shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// How many transactions began and ended in it.
    pub requests: u64,
    /// Their median, in nanoseconds.
    pub p50_ns: u64,
    /// What all but one in a hundred do not exceed, in nanoseconds; of fewer than a hundred, the longest.
    pub p99_ns: u64,
    /// Their mean, in nanoseconds.
    pub mean_ns: u64,
    /// How long they were kept in each way, all together, in nanoseconds.
    pub causes: BTreeMap<Delay, u64>,
    /// How many CPUs were busy with threads, at the mean, by domain.
    pub cpus: BTreeMap<String, f64>,
    /// What the virtual machines' vCPUs did, by the number of the domain that runs them and their processes.
    pub vms: BTreeMap<(String, u32), Vcpus>,
    /// Which of these the guests among the domains are, by the guests' names.
    pub guests: BTreeMap<String, (String, u32)>,
    /// How long it lasted, in nanoseconds.
    pub span_ns: u64,
    /// Records and events that were lost: figures are too low.
    pub lost: u64,
}

/// What a virtual machine's vCPUs did, as their host saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vcpus {
    /// How often they halted.
    pub halts: u64,
    /// How often of these they slept: KVM did not poll, or not long enough.
    pub slept: u64,
    /// The shortest of those in which they slept, in nanoseconds.
    pub shortest_sleep_ns: Option<u64>,
    /// How often they left the guest because it had nothing to do.
    pub halt_exits: u64,
    /// How often they entered the guest on each CPU.
    pub entries: BTreeMap<u32, u64>,
}

impl Vcpus {
    fn add(&mut self, event: &Event) {
        match event.kind {
            Kind::VmEnter => *self.entries.entry(event.cpu).or_default() += 1,
            Kind::VmExit if ExitReason::of(event.code) == ExitReason::Halt => self.halt_exits += 1,
            Kind::VmHalt => {
                self.halts += 1;
                // 1: polling.
                if event.code == 0 {
                    self.slept += 1;
                    let shortest = self.shortest_sleep_ns.get_or_insert(event.bytes);
                    *shortest = (*shortest).min(event.bytes);
                }
            }
            _ => {}
        }
    }
}

/// Measures a block.
pub fn measure(trace: &Trace, spec: &Spec) -> Measured {
    let mut tally = Tally::of(spec, false);
    explain(trace, spec, &mut |transaction, objects| {
        tally.add(&transaction, objects);
    });
    let totals = tally.totals;
    let requests = totals.transactions() as u64;
    let usage = Usage::of(trace);
    let busy = |(domain, cpus): (&String, &BTreeMap<u32, u64>)| {
        let span = usage.spans.get(domain).copied().filter(|span| *span > 0)?;
        let busy = cpus.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        Some((domain.clone(), busy as f64 / span as f64))
    };
    Measured {
        requests,
        p50_ns: totals.quantile(0.5).unwrap_or(0),
        p99_ns: totals.quantile(0.99).unwrap_or(0),
        mean_ns: totals.ns() / requests.max(1),
        causes: totals.causes().into_iter().map(|kept| (kept.delay, kept.ns)).collect(),
        cpus: usage.busy.iter().filter_map(busy).collect(),
        vms: vcpus(trace),
        guests: trace.manifest().domains.iter().filter_map(guest).collect(),
        span_ns: usage.span_ns,
        lost: trace.manifest().lost,
    }
}

fn guest(domain: &Domain) -> Option<(String, (String, u32))> {
    let vm = domain.vm.as_ref()?;
    Some((domain.name.clone(), (vm.host.clone(), vm.pid)))
}

fn vcpus(trace: &Trace) -> BTreeMap<(String, u32), Vcpus> {
    let mut vms: BTreeMap<(u8, u32), Vcpus> = BTreeMap::new();
    for event in trace.events() {
        if matches!(event.kind, Kind::VmEnter | Kind::VmExit | Kind::VmHalt) && event.other != 0 {
            vms.entry((event.domain, event.other)).or_default().add(&event);
        }
    }
    let name = |number| trace.domain(number).map(|domain| domain.name.clone()).unwrap_or_default();
    vms.into_iter().map(|((domain, process), vcpus)| ((name(domain), process), vcpus)).collect()
}
