//! Why a thread that could have run did not: who had its processor, or that it was withheld.

use xweave_replay::{CpuId, Since, ThreadId};

use super::{BackwardWalk, Cause, Object, TimeState};
use crate::power::Power;

/// No CPU takes longer, in nanoseconds, to come out of idling. Where nothing tells of quotas, more is not known to be that.
const WAKES_WITHIN: i64 = 1_000_000;

impl BackwardWalk<'_> {
    /// Why a thread that could have run did not, from the last to the first.
    pub(super) fn why_ready(
        &self,
        id: ThreadId,
        cpu: Option<u32>,
        since: Since,
        from: i64,
        to: i64,
    ) -> Vec<(i64, i64, WhyReady)> {
        if since == Since::Throttled {
            return vec![(from, to, WhyReady::Withheld)];
        }
        let cpu = cpu.map(|cpu| CpuId { domain: id.domain, cpu });
        let power = cpu.and_then(|cpu| self.machine.power(cpu));
        let cpu = cpu.and_then(|cpu| self.machine.cpu(cpu));
        let waking = |at| WhyReady::Waking(power.and_then(|power| power.idle_at(at)).map(Power::Idle));
        let mut why = Vec::new();
        let (mut at, mut withheld) = (from, from);
        // Others of its group may have used up the quota since it was woken: then they leave the CPU for that.
        let (mut may_run, mut used_up) = (since == Since::Unthrottled, false);
        for stretch in cpu.into_iter().flat_map(|cpu| cpu.threads(from, to)) {
            if at < stretch.from {
                why.push((at, stretch.from, WhyReady::Unknown));
            }
            let had = ThreadId { domain: id.domain, tid: stretch.tid };
            let reason = match stretch.tid {
                // Idle already when the thread came: it was on the way out of that.
                0 if stretch.from == from && since == Since::Woken => match waking(stretch.from) {
                    WhyReady::Waking(None) if stretch.to - stretch.from > WAKES_WITHIN => WhyReady::Unknown,
                    why => why,
                },
                // That it can run has not come to the processor yet, from the one where it was woken.
                0 if may_run => waking(stretch.from),
                // Nothing tells what kept it from the processor.
                0 if !used_up => WhyReady::Unknown,
                0 => {
                    withheld = stretch.to;
                    WhyReady::Withheld
                }
                // Itself: it was seen to be ready before the processor had left it.
                _ if had == id => WhyReady::Unknown,
                _ => {
                    used_up = used_up || self.machine.threads().is_throttled(had, stretch.to);
                    may_run = may_run && !used_up;
                    WhyReady::Had(had)
                }
            };
            match reason {
                WhyReady::Had(had) => self.push_who_had(&mut why, had, stretch.from, stretch.to),
                reason => why.push((stretch.from, stretch.to, reason)),
            }
            at = stretch.to;
        }
        if at < to {
            why.push((at, to, WhyReady::Unknown));
        }
        // Who may not run does not wait for others that do meanwhile.
        if withheld > from {
            why.retain(|(from, ..)| *from >= withheld);
            why.insert(0, (from, withheld, WhyReady::Withheld));
        }
        why.reverse();
        why
    }

    /// Adds who had a processor: a thread, but while this is a vCPU that ran the recorder in its guest, the recorder.
    fn push_who_had(&self, why: &mut Vec<(i64, i64, WhyReady)>, had: ThreadId, from: i64, to: i64) {
        let machine = self.machine;
        let mut at = from;
        if let Some(vcpu) = machine.vcpus.which(had) {
            for stretch in machine.cpu(vcpu).into_iter().flat_map(|cpu| cpu.threads(from, to)) {
                let inside = ThreadId { domain: vcpu.domain, tid: stretch.tid };
                if machine.recorders.have(vcpu.domain, || machine.threads().process(inside)) {
                    if at < stretch.from {
                        why.push((at, stretch.from, WhyReady::Had(had)));
                    }
                    why.push((stretch.from, stretch.to, WhyReady::Had(inside)));
                    at = stretch.to;
                }
            }
        }
        if at < to {
            why.push((at, to, WhyReady::Had(had)));
        }
    }

    /// Whether two threads are known to be of one process.
    fn is_of_process(&self, one: ThreadId, other: ThreadId) -> bool {
        let process = self.machine.threads().process(one);
        one.domain == other.domain && process != 0 && process == self.machine.threads().process(other)
    }

    pub(super) fn ready(&mut self, id: ThreadId, cpu: Option<u32>, since: Since, from: i64, to: i64) {
        let me = Object::Thread(id);
        for (a, b, why) in self.why_ready(id, cpu, since, from, to) {
            let (spent, cause) = match why {
                WhyReady::Had(had) if self.is_of_process(id, had) => {
                    (TimeState::Ready, Some(Cause::HadByOwn(had)))
                }
                WhyReady::Had(had) => (TimeState::Ready, Some(Cause::Had(had))),
                // Who had the processor, or that it was another one's turn, may be among what was lost.
                WhyReady::Unknown if self.machine.threads().lost(id.domain, a, b) => {
                    (TimeState::Unknown, None)
                }
                WhyReady::Unknown => (TimeState::Ready, None),
                WhyReady::Waking(idle) => (TimeState::Waking, idle.map(Cause::Power)),
                WhyReady::Withheld => (TimeState::Throttled, None),
            };
            match cpu {
                // Its own kernel keeps it from running, whatever the vCPU does.
                _ if why == WhyReady::Withheld => self.because(a, b, me, spent, cause),
                Some(cpu) => self.in_guest(CpuId { domain: id.domain, cpu }, a, b, me, spent, cause),
                // Whether the processor that it waited for was there is not known.
                None if self.machine.threads().lost(id.domain, to, to + 1) => {
                    self.add(a, b, me, TimeState::Unknown);
                }
                None => self.because(a, b, me, spent, cause),
            }
        }
    }
}

/// Why a thread that could run did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhyReady {
    /// This thread had the processor.
    Had(ThreadId),
    /// The processor was on its way out of idling, and of this state, if that is known.
    Waking(Option<Power>),
    /// A quota was used up: its own state says so, or another thread had left the processor for that, which then went idle.
    Withheld,
    /// Who had the processor is not known.
    Unknown,
}
