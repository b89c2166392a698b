//! How often threads went from one state to another: the diagram of Horikawa's *Application of Event Trace Framework for
//! Performance Problem Solutions* (figure 2), with counts.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use xweave_trace::event::State;

use crate::by_domain::ByDomain;

/// The states of a domain's threads, and how often they went from one to another. A thread runs, is ready for a CPU, or
/// waits for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// How long threads ran, in nanoseconds: sums of all, as the following ones. Together what their CPUs were busy.
    pub running_ns: u64,
    /// How long they were ready, until they ran.
    pub ready_ns: u64,
    /// How long they waited, until they were woken.
    pub waiting_ns: u64,
    /// From ready to running.
    pub dispatched: u64,
    /// From running to ready: another one got the CPU.
    pub preempted: u64,
    /// From running to waiting.
    pub blocked: u64,
    /// From waiting to ready.
    pub woken: u64,
    /// Begun: ready.
    pub began: u64,
    /// Ended: they ran before.
    pub ended: u64,
}

impl States {
    /// A thread left its CPU, to be in that state.
    pub(super) fn left(&mut self, state: State) {
        match state {
            State::Runnable => self.preempted += 1,
            State::Dead => self.ended += 1,
            _ => self.blocked += 1,
        }
    }

    /// A thread that was ready for that long, in nanoseconds, got a CPU.
    pub(super) fn got(&mut self, ready: u64) {
        self.dispatched += 1;
        self.ready_ns = self.ready_ns.saturating_add(ready);
    }

    /// A thread that had waited for that long, in nanoseconds, is ready.
    pub(super) fn woke(&mut self, waited: u64) {
        self.woken += 1;
        self.waiting_ns = self.waiting_ns.saturating_add(waited);
    }
}

/// By the domains' names. Threads ran while their CPUs were `busy`.
pub(super) fn told(
    states: &ByDomain<States>,
    domains: &FxHashMap<u8, String>,
    busy: &BTreeMap<String, BTreeMap<u32, u64>>,
) -> BTreeMap<String, States> {
    let one = |(number, states): (u8, &States)| {
        let domain = domains.get(&number).filter(|_| *states != States::default())?;
        let cpus = busy.get(domain).into_iter().flat_map(BTreeMap::values);
        let running_ns = cpus.copied().fold(0, u64::saturating_add);
        Some((domain.clone(), States { running_ns, ..*states }))
    };
    states.iter().filter_map(one).collect()
}
