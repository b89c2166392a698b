//! What is on its way from one end of a connection to the other: how long it was, and how long a vCPU that had halted took to
//! run again when it had come.

use xweave_replay::{CpuId, Ended, Source, ThreadId, ThreadState};
use xweave_trace::{TimeSpan, event::Connection};

use super::{BackwardWalk, Cause, Object, TimeState};
use crate::{connection::EndId, vcpu::Vcpu};

/// Something that was on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    /// Where.
    object: Object,
    /// What time there is spent on.
    spent: TimeState,
    /// The thread that waited for it, if that is known.
    receiver: Option<ThreadId>,
    /// The end that sent it, if it is one.
    sender: Option<EndId>,
    /// The connection whose frames it was in, as their senders call it: of one end, or of both.
    frames: [Connection; 2],
}

impl Transit {
    /// From an end of a connection to the thread that waits for it.
    pub fn to(receiver: ThreadId, from: EndId, service: u16) -> Self {
        let object = Object::Link { from: from.domain, to: receiver.domain, service };
        let frames = [from.connection; 2];
        Self { object, spent: TimeState::Network, receiver: Some(receiver), sender: Some(from), frames }
    }

    /// From one end to another, whoever takes it there, and back.
    pub fn between(from: EndId, to: EndId, service: u16) -> Self {
        let object = Object::Link { from: from.domain, to: to.domain, service };
        Self {
            object,
            spent: TimeState::Network,
            receiver: None,
            sender: None,
            frames: from.connection.ends(),
        }
    }

    /// From where nothing is recorded: whatever was done there is a part of it.
    pub fn from_remote(end: EndId, service: u16) -> Self {
        let object = Object::Remote { domain: end.domain, service };
        Self {
            object,
            spent: TimeState::Waiting,
            receiver: None,
            sender: None,
            frames: end.connection.ends(),
        }
    }

    /// The same, where it had first to get there.
    pub fn and_back(self) -> Self {
        Self { frames: self.frames[0].ends(), ..self }
    }

    /// The same; or nothing is known of it if events were `lost`.
    pub fn unless(self, lost: bool) -> Self {
        Self { spent: if lost { TimeState::Unknown } else { self.spent }, ..self }
    }
}

/// A vCPU that had halted and was woken.
struct Woken<'m> {
    cpu: CpuId,
    vcpu: &'m Vcpu,
    /// The thread of the host that woke it.
    by: ThreadId,
    /// When its thread was woken, in nanoseconds.
    woken: i64,
    /// When it was inside its guest.
    entered: i64,
}

impl<'m> BackwardWalk<'m> {
    /// Reports whether events were lost in a domain that may have told that something was received there, or sent later.
    pub(super) fn may_be_lost(&self, domain: u8, since: i64, to: i64) -> bool {
        self.machine.threads().lost(domain, since.min(to), to)
    }

    /// Something that was sent at `since` was on its way, of which the time between two moments is told: until it
    /// was last sent again it did not arrive.
    pub(super) fn repeat(&mut self, end: EndId, since: i64, from: i64, to: i64, transit: Transit) {
        let connections = &self.machine.connections;
        let Some((last, count)) = connections.repeated(end, since.min(from), to) else {
            return self.arrive(from, to, transit);
        };
        let last = last.clamp(from, to);
        let cause = match connections.refused(end, since.min(from), last) {
            Some(refused) => Cause::Refused(count, refused),
            None => Cause::Repeated(count),
        };
        self.arrive(last, to, transit);
        self.because(from, last, transit.object, TimeState::Retransmit, Some(cause));
    }

    /// Something was on its way between two moments, and then there. The time is
    ///
    /// - the vCPU's that had halted and was woken for it, until it was inside its guest,
    /// - that of interrupts of the guest which the guest did not take, as it had these disabled,
    /// - that of the host's thread that brought it (vhost's) while this waited for a CPU,
    ///
    /// as far as events prove that. All else is nobody's.
    fn arrive(&mut self, from: i64, to: i64, transit: Transit) {
        let receiver = transit.receiver.filter(|_| transit.spent == TimeState::Network);
        let Some(receiver) = receiver else { return self.under_way(from, to, transit) };
        if let Some(Woken { cpu, vcpu, by, woken, entered }) = self.woken_vcpu(receiver, from, to) {
            self.under_way(entered, to, transit);
            self.in_host(cpu, vcpu, woken, entered, true);
            return if self.serves_guest(by, receiver.domain) {
                self.carried(by, from, woken, transit);
            } else {
                self.under_way(from, woken, transit);
            };
        }
        if let Some(by) = self.delivered_by(receiver, to, transit) {
            return self.carried(by, from, to, transit);
        }
        let mut end = to;
        if let Some((cpu, late)) = self.interrupt_pending(receiver, TimeSpan { from, to }) {
            self.under_way(late.to, end, transit);
            self.add(late.from, late.to, Object::Interrupts(cpu), TimeState::Waiting);
            end = late.from;
        }
        match self.carrier_woken(receiver, from, end, transit) {
            Some((by, runs)) => {
                self.under_way(runs, end, transit);
                self.carried(by, from, runs, transit);
            }
            None => self.under_way(from, end, transit),
        }
    }

    /// What was on its way was with a thread of the host at the second time, by whom it went on: while that could have run
    /// since it was last woken, the time is its own.
    fn carried(&mut self, by: ThreadId, from: i64, to: i64, transit: Transit) {
        let mut end = to;
        for (a, b, doing) in self.machine.threads().line(by, from, to).into_iter().rev() {
            let Some(ThreadState::Ready { cpu, since }) = doing else {
                if let Some(ThreadState::Running { .. }) = doing {
                    continue;
                }
                break;
            };
            self.under_way(b, end, transit);
            let cpu = cpu.or_else(|| self.machine.threads().get(by)?.next_cpu(b));
            self.ready(by, cpu, since, a, b);
            end = a;
        }
        self.under_way(from, end, transit);
    }

    /// The thread that gave a receiver's kernel what came from a guest, and so woke the receiver: one that serves the guest.
    fn delivered_by(&self, receiver: ThreadId, to: i64, transit: Transit) -> Option<ThreadId> {
        let sender = transit.sender.filter(|sender| sender.domain != receiver.domain)?;
        match self.machine.threads().line(receiver, to.saturating_sub(1), to).last()?.2? {
            ThreadState::Waiting { over: Some(Ended::Thread { by, .. }), .. } => {
                self.serves_guest(by, sender.domain).then_some(by)
            }
            _ => None,
        }
    }

    /// Whether a thread serves a guest's devices.
    pub(super) fn serves_guest(&self, by: ThreadId, guest: u8) -> bool {
        let process = self.machine.threads().process(by);
        self.machine.vcpus.serves(by, process, guest)
    }

    /// The thread that carries frames to the receiver's guest which the sender itself had woken for what it sent, and when that
    /// ran: before, it could not bring anything.
    fn carrier_woken(
        &self,
        receiver: ThreadId,
        from: i64,
        to: i64,
        transit: Transit,
    ) -> Option<(ThreadId, i64)> {
        let machine = self.machine;
        let sent = machine.connections.sent(transit.sender?, i64::MIN, from)?;
        let of = |by: ThreadId| {
            let line = machine.threads().line(by, from, to);
            let woken = line.iter().position(|(.., doing)| {
                matches!(doing, Some(ThreadState::Waiting { over: Some(Ended::Thread { by, .. }), .. }) if *by == sent.thread)
            })?;
            let runs =
                line[woken..].iter().find(|(.., doing)| matches!(doing, Some(ThreadState::Running { .. })));
            runs.map(|(runs, ..)| (by, *runs))
        };
        machine.vcpus.carriers(receiver.domain).find_map(of)
    }

    /// When an interrupt was pending last, of the guest's CPU that then took the one which woke the receiver.
    fn interrupt_pending(&self, receiver: ThreadId, bounds: TimeSpan) -> Option<(CpuId, TimeSpan)> {
        let cpu = self.interrupted(receiver, bounds.to)?;
        Some((cpu, self.machine.vcpus.of(cpu, bounds.from)?.last_pending(bounds)?))
    }

    /// The CPU whose interrupt of the network ended a receiver's wait.
    fn interrupted(&self, receiver: ThreadId, to: i64) -> Option<CpuId> {
        match self.machine.threads().line(receiver, to.saturating_sub(1), to).last()?.2? {
            ThreadState::Waiting {
                over: Some(Ended::Interrupt { source: Source::Network, cpu, .. }),
                ..
            } => Some(CpuId { domain: receiver.domain, cpu }),
            _ => None,
        }
    }

    /// Something was on its way between two moments: in queueing disciplines that held it back, or elsewhere.
    fn under_way(&mut self, from: i64, to: i64, transit: Transit) {
        let Transit { object, spent, .. } = transit;
        let mut end = to;
        // Also where nothing is recorded of the other end: the frame was seen here.
        if spent != TimeState::Unknown {
            for frame in self.machine.qdiscs.held(&transit.frames, None, from, to) {
                self.add(frame.to, end, object, spent);
                self.add(frame.from, frame.to, Object::Qdisc(frame.qdisc), TimeState::Qdisc);
                end = frame.from;
            }
        }
        self.add(from, end, object, spent);
    }

    /// The vCPU that had halted, and was woken between two times to take up what a thread then got. It is known by this:
    ///
    /// - an interrupt of the network that came to the vCPU ended the thread's wait at the second time,
    /// - the vCPU's last sleep before that was a halt, and ended by a thread of its host which is no vCPU of the same guest, as vhost's
    ///   does when it raises the interrupt (`irqfd_wakeup`, virt/kvm/eventfd.c, 6.12), and
    /// - the vCPU has run no thread of its guest since, so that nothing else was done before the interrupt.
    fn woken_vcpu(&self, receiver: ThreadId, from: i64, to: i64) -> Option<Woken<'m>> {
        let machine = self.machine;
        let cpu = self.interrupted(receiver, to)?;
        let vcpu = machine.vcpus.of(cpu, from)?;
        let line = machine.threads().line(vcpu.thread, from, to);
        let (_, woken, slept) =
            line.into_iter().rfind(|(.., doing)| matches!(doing, Some(ThreadState::Waiting { .. })))?;
        let Some(ThreadState::Waiting { over: Some(Ended::Thread { by, .. }), .. }) = slept else {
            return None;
        };
        if machine.vcpus.which(by).is_some_and(|other| other.domain == cpu.domain) {
            return None;
        }
        if !vcpu.was_halted(woken) {
            return None;
        }
        let entered = vcpu.inside(woken, to).next()?.from;
        let idle = machine.cpu(cpu)?.threads(entered, to).all(|stretch| stretch.tid == 0);
        idle.then_some(Woken { cpu, vcpu, by, woken, entered })
    }
}
