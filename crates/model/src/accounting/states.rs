//! How often threads went from one state to another: the diagram of Horikawa's *Application of Event Trace Framework for
//! Performance Problem Solutions* (figure 2), with counts.

use serde::Serialize;
use xweave_trace::event::State;

/// The states of a domain's threads, and how often they went from one to another. A thread runs, is ready for a CPU, or
/// waits for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct States {
    /// How long threads ran, in nanoseconds: sums of all, as the following ones.
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
    /// A thread left its CPU, on which it had run for that long, in nanoseconds; 0 if that is not known.
    pub(super) fn left(&mut self, state: State, ran: u64) {
        self.runs(ran);
        match state {
            State::Runnable => self.preempted += 1,
            State::Dead => self.ended += 1,
            _ => self.blocked += 1,
        }
    }

    /// A thread has run for that long, in nanoseconds, and goes on.
    pub(super) fn runs(&mut self, ran: u64) {
        self.running_ns = self.running_ns.saturating_add(ran);
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
