//! What vCPUs did: in their guests, and out of them.

use xweave_replay::{Cpu as ReplayedCpu, ThreadId, between};
use xweave_trace::event::{Event, Names};

use super::Accounting;
use crate::{exit::ExitReason, objects::ObjectGroup, usage::UsageObject, vcpu::Guest};

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

    /// How long its thread had no processor until now: it waited for one, or was blocked.
    fn away(mut self, now: i64) -> u64 {
        self.leaves(now);
        between(self.left, now).saturating_sub(self.spent)
    }

    /// Whether what its thread has run for it is among the `halted` nanoseconds that it was halted meanwhile. KVM counts
    /// from the exit on, and polls first; Xen counts the time in which it had no processor.
    fn is_of(self, halted: u64, now: i64) -> bool {
        halted > self.away(now)
    }

    /// How long it waited for a processor within these `halted` nanoseconds. KVM counts until its thread runs again, and that one
    /// waits for a processor as any does; Xen counts until it is woken.
    fn waited_within(self, halted: u64, now: i64) -> u64 {
        let blocked = self.away(now).saturating_sub(self.waited);
        self.waited.min(halted.saturating_sub(blocked))
    }
}

impl Accounting {
    /// When a thread ran the recorder, as a vCPU of a guest that is recorded, too, in turn, with the places of that one's
    /// processes' figures: what waited meanwhile waited for the recorder.
    pub(super) fn recorder_inside(&self, id: ThreadId, from: i64, to: i64) -> Vec<(i64, i64, usize)> {
        let Some(vcpu) = self.threads.get(&id).and_then(|live| live.runs) else { return Vec::new() };
        let Some(cpu) = self.cpus.get(vcpu) else { return Vec::new() };
        let running = self.replay.cpu(vcpu).and_then(ReplayedCpu::running);
        let running = running.filter(|(_, since)| *since < to).and_then(|(tid, since)| {
            let live = self.threads.get(&ThreadId { domain: vcpu.domain, tid })?;
            Some((since.max(from), to, live.group?))
        });
        let all = running.into_iter().chain(cpu.runs.within(from, to));
        let mut found: Vec<_> = all.filter(|(.., place)| self.processes(*place).is_recorders()).collect();
        found.reverse();
        found
    }

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
            let guest = Guest::of_process(&self.guests, id.domain, live.process);
            live.runs = guest.and_then(|guest| self.vcpu_numbers.cpu(guest, event.object));
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
        let (halted, now) = (event.bytes, event.time_ns);
        let waited = live.out.map_or(0, |out| out.waited_within(halted, now));
        let wait_ns = &mut self.figures[place].wait_ns;
        *wait_ns = wait_ns.saturating_add(halted.saturating_sub(waited));
        live.out.take_if(|out| out.is_of(halted, now));
    }
}
