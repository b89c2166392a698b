//! What vCPUs did: in their guests, and out of them.

use xweave_replay::{ThreadId, between};
use xweave_trace::event::{Event, Names};

use super::Accounting;
use crate::{exit::ExitReason, objects::ObjectGroup, usage::UsageObject};

/// What a vCPU is out of its guest for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    /// When it came out.
    pub(super) left: i64,
    /// The place of its figures.
    pub(super) place: usize,
    /// What its thread ran for it, in nanoseconds.
    pub(super) spent: u64,
    /// Since when it has had a processor of the host for it, if it has one.
    pub(super) since: Option<i64>,
    /// How long its thread has waited for a processor meanwhile, in nanoseconds.
    pub(super) waited: u64,
}

impl Out {
    /// It has a processor from now on, for which it has waited so long.
    pub(super) fn gets(&mut self, now: i64, waited: u64) {
        self.since = Some(now);
        self.waited += waited;
    }

    /// It has no processor from now on.
    pub(super) fn leaves(&mut self, now: i64) {
        self.spent += self.since.take().map_or(0, |since| between(since, now));
    }

    /// Whether what its thread has run for it is among the `halted` nanoseconds that it was halted meanwhile. KVM counts
    /// from the exit on, and polls first; Xen counts the time in which it had no processor.
    fn is_of(mut self, halted: u64, now: i64) -> bool {
        self.leaves(now);
        halted > between(self.left, now).saturating_sub(self.spent)
    }
}

impl Accounting {
    pub(super) fn enter(&mut self, event: &Event, id: ThreadId, names: &Names) {
        let known = self.threads.get(&id).and_then(|live| live.vcpu);
        let place = match known {
            Some((place, _)) => place,
            None => {
                let process = self.threads.get(&id).map_or(0, |live| live.process);
                // From here on it is called what it is.
                self.settle(id, names);
                let of = match self.guest(id.domain, process) {
                    Some(guest) => ObjectGroup::Vcpus { guest: guest.to_owned() },
                    None => {
                        let group = self.group(id, names);
                        self.processes(group).clone()
                    }
                };
                self.place(id.domain, UsageObject::Vcpu { number: event.object, of })
            }
        };
        let live = self.threads.entry(id).or_default();
        if live.vcpu.replace((place, Some(event.time_ns))).is_none() {
            live.group = None;
        }
        if let Some(mut out) = live.out.take() {
            out.leaves(event.time_ns);
            self.figures[out.place].time_ns += out.spent;
        }
    }

    pub(super) fn exit(&mut self, event: &Event, id: ThreadId) {
        let Some(live) = self.threads.get_mut(&id) else { return };
        let Some((place, since)) = &mut live.vcpu else { return };
        let (place, since) = (*place, since.take());
        let figures = &mut self.figures[place];
        figures.count += 1;
        figures.time_ns += since.map_or(0, |since| between(since, event.time_ns));
        let out = match self.exits.get(&(place, event.code)) {
            Some(out) => *out,
            None => {
                let (reason, of) = (ExitReason::of(event.code), self.processes(place).clone());
                let out = self.place(id.domain, UsageObject::Exits { reason, of });
                self.exits.insert((place, event.code), out);
                out
            }
        };
        self.figures[out].count += 1;
        if let Some(live) = self.threads.get_mut(&id) {
            live.out = Some(Out {
                left: event.time_ns,
                place: out,
                spent: 0,
                since: Some(event.time_ns),
                waited: 0,
            });
        }
    }

    pub(super) fn halt(&mut self, event: &Event, id: ThreadId) {
        let Some(live) = self.threads.get_mut(&id) else { return };
        let Some((place, _)) = live.vcpu else { return };
        let out = live.out.take_if(|out| out.is_of(event.bytes, event.time_ns));
        // KVM counts until its thread runs again, and that one waits for a processor as any does.
        self.figures[place].wait_ns += event.bytes.saturating_sub(out.map_or(0, |out| out.waited));
    }
}
