//! Interrupts of a guest: how the vCPU that took one came to that, and what kept it out of its guest before.

use xweave_replay::{CpuId, Ended, Source, ThreadId, ThreadState};
use xweave_trace::TimeSpan;

use super::{BackwardWalk, Object, TimeState, Wait, waits};
use crate::vcpu::Vcpu;

/// A guest takes interrupts that are pending as its vCPU goes in, and handles one within this time, in nanoseconds.
pub(super) const TAKEN: i64 = 100_000;

/// A vCPU that had halted and was woken.
pub(super) struct Woken<'m> {
    pub(super) cpu: CpuId,
    pub(super) vcpu: &'m Vcpu,
    /// The thread of the host that woke it; none if a timer did.
    pub(super) by: Option<ThreadId>,
    /// When its thread was woken, in nanoseconds.
    pub(super) woken: i64,
    /// When it was inside its guest.
    pub(super) entered: i64,
}

/// Who wakes a halted vCPU, to have it take an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waker {
    /// A thread of the host that carries data.
    Carrier,
    /// A timer of the host, which stands for one of the guest.
    Timer,
}

impl<'m> BackwardWalk<'m> {
    /// The vCPU that had halted, and was woken between two times to take the interrupt that came to a guest's CPU at the second.
    /// It is known by this:
    ///
    /// - the vCPU's last sleep before that was a halt, and ended by such a `waker`: a thread of its host which is no vCPU of the
    ///   same guest, as vhost's does when it raises the interrupt (`irqfd_wakeup`, virt/kvm/eventfd.c, 6.12), or a timer, and
    /// - the vCPU has run no thread of its guest since, so that nothing else was done before the interrupt; and, for a timer, its
    ///   interrupts have woken none before.
    pub(super) fn woken_vcpu(&self, cpu: CpuId, from: i64, to: i64, waker: Waker) -> Option<Woken<'m>> {
        let machine = self.machine;
        let vcpu = machine.vcpus.of(cpu, from)?;
        let line = machine.threads().line(vcpu.thread, from, to);
        let Wait { from: slept, to: woken, over } = waits(&line).next()?;
        let by = match (waker, over?) {
            (Waker::Carrier, Ended::Thread { by, .. }) => {
                let other = machine.vcpus.which(by).is_some_and(|other| other.domain == cpu.domain);
                (!other).then_some(Some(by))?
            }
            (Waker::Timer, Ended::Interrupt { access: None, source: Source::Timer, .. }) => None,
            _ => return None,
        };
        if !vcpu.was_halted(slept) {
            return None;
        }
        let entered = vcpu.inside(woken, to).next()?.from;
        // The timer may have been another one's, which was over before this one.
        if waker == Waker::Timer && vcpu.woke_first(entered, to) {
            return None;
        }
        let idle = machine.cpu(cpu)?.threads(entered, to).all(|stretch| stretch.tid == 0);
        idle.then_some(Woken { cpu, vcpu, by, woken, entered })
    }

    /// The times between two in which a vCPU was kept outside its guest: its thread could have run and did not, or waited without
    /// having halted. Those only after which it took an interrupt at once, at the second time, as one does that was pending by
    /// then; since when it was, no event tells.
    pub(super) fn kept_out(&self, vcpu: &Vcpu, from: i64, to: i64) -> Vec<TimeSpan> {
        let stays: Vec<_> = vcpu.inside(from, to).collect();
        let ends = [to].into_iter().chain(stays.iter().rev().map(|stay| stay.from));
        let begins = stays.iter().rev().map(|stay| stay.to).chain([from]);
        let at_once = |entered: i64| to.saturating_sub(entered) <= TAKEN;
        for (left, entered) in begins.zip(ends).take_while(|(_, entered)| at_once(*entered)) {
            if left >= entered {
                continue;
            }
            let line = self.machine.threads().line(vcpu.thread, left, entered);
            let kept = |begun, doing: &Option<ThreadState>| match doing {
                Some(ThreadState::Ready { .. }) => true,
                Some(ThreadState::Waiting { .. }) => !vcpu.was_halted(begun),
                _ => false,
            };
            let spans: Vec<_> = line
                .into_iter()
                .filter(|(begun, _, doing)| kept(*begun, doing))
                .map(|(from, to, _)| TimeSpan { from, to })
                .collect();
            if !spans.is_empty() {
                return spans;
            }
        }
        Vec::new()
    }

    /// A thread waited until an interrupt, of no disk. If that was a guest's timer, for which its vCPU had to be woken, it was
    /// over when the vCPU was.
    pub(super) fn until_interrupt(&mut self, id: ThreadId, over: Option<Ended>, from: i64, to: i64) {
        let me = Object::Thread(id);
        let woken = match over {
            Some(Ended::Interrupt { source: Source::Timer, cpu, .. }) => {
                self.woken_vcpu(CpuId { domain: id.domain, cpu }, from, to, Waker::Timer)
            }
            _ => None,
        };
        let Some(Woken { cpu, vcpu, woken, entered, .. }) = woken else {
            return self.add(from, to, me, TimeState::Waiting);
        };
        self.add(entered, to, me, TimeState::Waiting);
        self.in_host(cpu, vcpu, woken, entered, true);
        self.add(from, woken, me, TimeState::Waiting);
    }
}
