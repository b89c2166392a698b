//! What a processor's time was for: the thread that had it, interrupts above that, and of a guest's, the host.

use xweave_replay::{CpuId, Ended, ThreadId, ThreadState, between};

use super::{BackwardWalk, Cause, Object, TimeState, ready::WhyReady};
use crate::{machine::Machine, vcpu::Vcpu};

/// How long a thread itself ran between two moments, in nanoseconds: without the interrupts above it, and of a guest's without
/// what the host took.
pub(crate) fn time_on_cpu(machine: &Machine, id: ThreadId, from: i64, to: i64) -> u64 {
    let mut walk = BackwardWalk::new(machine);
    let me = Object::Thread(id);
    for (a, b, doing) in machine.threads().line(id, from, to).into_iter().rev() {
        if let Some(ThreadState::Running { cpu }) = doing {
            walk.on_cpu(CpuId { domain: id.domain, cpu }, a, b, me, TimeState::Running);
        }
    }
    let own = walk.back.iter().filter(|piece| piece.object == me);
    own.map(|piece| between(piece.from, piece.to)).fold(0, u64::saturating_add)
}

impl BackwardWalk<'_> {
    /// What a processor was for, between its interrupts.
    pub(super) fn on_cpu(&mut self, cpu: CpuId, from: i64, to: i64, object: Object, spent: TimeState) {
        let machine = self.machine;
        let interrupts: Vec<_> =
            machine.cpu(cpu).into_iter().flat_map(|cpu| cpu.interrupts(from, to)).collect();
        let mut end = to;
        for interrupt in interrupts.into_iter().rev() {
            self.in_guest(cpu, interrupt.to, end, object, spent, None);
            self.in_guest(
                cpu,
                interrupt.from,
                interrupt.to,
                Object::Interrupts(cpu),
                TimeState::Running,
                None,
            );
            end = interrupt.from;
        }
        self.in_guest(cpu, from, end, object, spent, None);
    }

    /// What a processor was for, if it is no virtual one, or while that was inside its guest.
    pub(super) fn in_guest(
        &mut self,
        cpu: CpuId,
        from: i64,
        to: i64,
        object: Object,
        spent: TimeState,
        cause: Option<Cause>,
    ) {
        let Some(vcpu) = self.machine.vcpus.of(cpu, from) else {
            return self.at_frequencies(cpu, from, to, object, spent, cause);
        };
        // Something was there that the vCPU was to do: else that it halted delayed nothing.
        let pending = spent != TimeState::Unknown;
        let inside: Vec<_> = vcpu.inside(from, to).collect();
        let mut end = to;
        for stay in inside.into_iter().rev() {
            self.in_host(cpu, vcpu, stay.to, end, pending);
            let late = || vcpu.last_pending(stay).or_else(|| vcpu.last_delivered(stay));
            match (!pending).then(late).flatten() {
                Some(late) => {
                    self.because(late.to, stay.to, object, spent, cause);
                    self.because(late.from, late.to, Object::Interrupts(cpu), TimeState::Waiting, None);
                    self.because(stay.from, late.from, object, spent, cause);
                }
                None => self.at_frequencies(cpu, stay.from, stay.to, object, spent, cause),
            }
            end = stay.from;
        }
        self.in_host(cpu, vcpu, from, end, pending);
    }

    /// The host worked for a vCPU, whose thread had this processor of it, or handled its own interrupts above.
    fn exit(&mut self, cpu: CpuId, vcpu: &Vcpu, from: i64, to: i64, object: Object) {
        let reason = vcpu.came_out(from).map(Cause::Exited);
        let interrupts: Vec<_> =
            self.machine.cpu(cpu).into_iter().flat_map(|cpu| cpu.interrupts(from, to)).collect();
        let mut end = to;
        for interrupt in interrupts.into_iter().rev() {
            self.because(interrupt.to, end, object, TimeState::Exit, reason);
            self.because(interrupt.from, interrupt.to, object, TimeState::Exit, Some(Cause::Interrupted));
            end = interrupt.from;
        }
        self.because(from, end, object, TimeState::Exit, reason);
    }

    /// Reports whether a thread of the host is another vCPU of the guest that has a processor.
    fn is_beside(&self, thread: ThreadId, cpu: CpuId) -> bool {
        self.machine.vcpus.which(thread).is_some_and(|other| other.domain == cpu.domain && other != cpu)
    }

    /// Reports whether a guest's processor had a thread in the middle of a time, and was not idle: about the ends the clocks of
    /// guest and host may differ.
    fn has_thread(&self, cpu: CpuId, from: i64, to: i64) -> bool {
        let half = from + (to - from) / 2;
        self.machine.cpu(cpu).is_some_and(|cpu| cpu.threads(half, half + 1).any(|stretch| stretch.tid != 0))
    }

    /// A vCPU was outside its guest; something was there for it to do, if that was `pending`.
    pub(super) fn in_host(&mut self, cpu: CpuId, vcpu: &Vcpu, from: i64, to: i64, pending: bool) {
        if from >= to {
            return;
        }
        let object = Object::Vcpu(cpu);
        let Some(thread) = self.machine.threads().get(vcpu.thread) else {
            return self.add(from, to, object, TimeState::Unknown);
        };
        for (a, b, doing) in self.machine.threads().line(vcpu.thread, from, to).into_iter().rev() {
            match doing {
                None | Some(ThreadState::Unknown) => self.add(a, b, object, TimeState::Unknown),
                Some(ThreadState::Running { cpu }) => {
                    self.exit(CpuId { domain: vcpu.thread.domain, cpu }, vcpu, a, b, object);
                }
                // Another wait than that of a halt is one of a thread as others are.
                Some(ThreadState::Waiting { .. }) if !vcpu.was_halted(a) => {
                    if self.far(vcpu.thread) {
                        self.add(a, b, Object::Thread(vcpu.thread), TimeState::Waiting);
                    } else {
                        self.follow(vcpu.thread, a, b);
                    }
                }
                Some(ThreadState::Waiting { over: Some(Ended::Lost), .. }) => {
                    self.add(a, b, object, TimeState::Unknown);
                }
                // It is no idle processor: a thread of the guest waits for what another vCPU has, as for a spin lock.
                Some(ThreadState::Waiting { over: Some(Ended::Thread { by, .. }), .. })
                    if pending && self.is_beside(by, cpu) && self.has_thread(cpu, a, b) =>
                {
                    self.add(a, b, object, TimeState::Waiting);
                }
                Some(ThreadState::Waiting { .. }) if pending => self.add(a, b, object, TimeState::Halted),
                Some(ThreadState::Waiting { .. }) => self.add(a, b, object, TimeState::Unknown),
                Some(ThreadState::Ready { cpu, since }) => {
                    let cpu = cpu.or_else(|| thread.next_cpu(b));
                    // Who had the processor may be among what was lost, and which it was.
                    let lost = self.machine.threads().lost(vcpu.thread.domain, b, b + 1);
                    for (a, b, why) in self.why_ready(vcpu.thread, cpu, since, a, b) {
                        let (spent, cause) = match why {
                            WhyReady::Had(had) => (TimeState::Preempted, Some(Cause::Had(had))),
                            WhyReady::Unknown if lost => (TimeState::Unknown, None),
                            WhyReady::Unknown => (TimeState::Preempted, None),
                            WhyReady::Waking(idle) => (TimeState::Waking, idle.map(Cause::Power)),
                            WhyReady::Withheld => (TimeState::Throttled, None),
                        };
                        // Of a thread that waited for something else, as any thread's.
                        let other = spent == TimeState::Waking && !vcpu.was_halted(a);
                        let object = if other { Object::Thread(vcpu.thread) } else { object };
                        self.because(a, b, object, spent, cause);
                    }
                }
            }
        }
    }
}
