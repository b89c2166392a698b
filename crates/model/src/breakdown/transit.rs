//! What is on its way from one end of a connection to the other: how long it was, and how long who was to bring or take it did
//! not run.

use xweave_replay::{CpuId, Ended, Source, ThreadId, ThreadState};
use xweave_trace::{TimeSpan, event::Connection};

use super::{
    BackwardWalk, Cause, Object, TimeState,
    delivery::{Waker, Woken},
};
use crate::connection::EndId;

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
    /// When it was last sent again, as what came before had not arrived.
    repeated: Option<(i64, Cause)>,
}

impl Transit {
    /// From an end of a connection to the thread that waits for it.
    pub fn to(receiver: ThreadId, from: EndId, service: u16) -> Self {
        let object = Object::Link { from: from.domain, to: receiver.domain, service };
        let frames = [from.connection; 2];
        Self {
            object,
            spent: TimeState::Network,
            receiver: Some(receiver),
            sender: Some(from),
            frames,
            repeated: None,
        }
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
            repeated: None,
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
            repeated: None,
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

impl BackwardWalk<'_> {
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
        let first = self.back.len();
        self.arrive(from, to, Transit { repeated: Some((last, cause)), ..transit });
        // What was late already when it was sent again, and until after that, was not lost for all that is known. Nor did
        // what kept it before it was lost delay what was sent again.
        let lost = self.back[first..].iter().position(|piece| piece.spent == TimeState::Retransmit);
        if let Some(lost) = lost.map(|at| first + at) {
            let until = self.back[lost].to;
            self.back.truncate(lost);
            let held = self.held_up(end, since.min(from), last);
            if let Some(woken) = held {
                self.add(woken.clamp(from, until), until, transit.object, TimeState::Unknown);
            }
            let until = held.map_or(until, |woken| woken.clamp(from, until));
            self.lose(end, from, until, transit.object, cause);
        }
    }

    /// Since when a thread was ready, as something was sent again, to which what was sent before had come: who sent it had woken
    /// the thread since, or one that woke it. So nobody knows that it was lost.
    fn held_up(&self, end: EndId, since: i64, again: i64) -> Option<i64> {
        let connections = &self.machine.connections;
        let ends = [Some(end), connections.peer(end)].into_iter().flatten();
        let sent =
            ends.filter_map(|end| connections.sent(end, i64::MIN, again)).filter(|sent| sent.time >= since);
        sent.filter_map(|sent| {
            let threads = self.machine.threads();
            let woke = |by: ThreadId, at: i64| {
                let line = threads.line(by, sent.time, at);
                let last = line.into_iter().rev().find_map(|(.., doing)| match doing {
                    Some(ThreadState::Waiting { over, .. }) => Some(over),
                    _ => None,
                });
                matches!(last, Some(Some(Ended::Thread { by, .. })) if by == sent.thread)
            };
            let ready = threads.ready_at(sent.thread.domain, again);
            let came = ready
                .filter(|(_, woken, by)| *woken >= sent.time && (*by == sent.thread || woke(*by, *woken)));
            came.map(|(_, woken, _)| woken).min()
        })
        .min()
    }

    /// Something was lost until it was sent again at the second time. The timer for that was late if the vCPU of whoever sent it
    /// was: while that had to be woken for it, the time is the vCPU's; while it was kept outside its guest, nobody knows.
    fn lose(&mut self, end: EndId, from: i64, to: i64, object: Object, cause: Cause) {
        let lost = |walk: &mut Self, a, b| walk.because(a, b, object, TimeState::Retransmit, Some(cause));
        let cpu = self.machine.connections.repeated_on(end, to);
        let vcpu = cpu.and_then(|cpu| Some((cpu, self.machine.vcpus.of(cpu, from)?)));
        let Some((cpu, vcpu)) = vcpu else { return lost(self, from, to) };
        if let Some(Woken { woken, entered, .. }) = self.woken_vcpu(cpu, from, to, Waker::Timer) {
            lost(self, entered, to);
            self.in_host(cpu, vcpu, woken, entered, true);
            return lost(self, from, woken);
        }
        let mut end = to;
        for kept in self.kept_out(vcpu, from, to).into_iter().rev() {
            lost(self, kept.to, end);
            self.add(kept.from, kept.to, object, TimeState::Unknown);
            end = kept.from;
        }
        lost(self, from, end);
    }

    /// Something was on its way between two moments, and then there. The time is
    ///
    /// - that of what held it back,
    /// - the vCPU's that had halted and was woken for it, until it was inside its guest,
    /// - that of interrupts of the guest which the guest did not take, as it had these disabled,
    /// - that of the host's thread that brought it (vhost's) while this waited for a CPU,
    ///
    /// as far as events prove that. All else is nobody's.
    fn arrive(&mut self, from: i64, to: i64, transit: Transit) {
        let receiver = transit.receiver.filter(|_| transit.spent == TimeState::Network);
        let Some(receiver) = receiver else { return self.under_way(from, to, transit) };
        // While it was held back, nobody had it, whoever was woken meanwhile.
        let held = self.machine.holds.within(&transit.frames, None, from, to);
        let released = held.first().map_or(from, |hold| hold.to);
        self.bring(receiver, released, to, transit);
        self.under_way(from, released, transit);
    }

    /// Something that nothing held back was on its way to a thread.
    fn bring(&mut self, receiver: ThreadId, from: i64, to: i64, transit: Transit) {
        let interrupted = self.interrupted(receiver, to);
        let woken = interrupted.and_then(|cpu| self.woken_vcpu(cpu, from, to, Waker::Carrier));
        if let Some(Woken { cpu, vcpu, by, woken, entered }) = woken {
            self.under_way(entered, to, transit);
            self.in_host(cpu, vcpu, woken, entered, true);
            return match by.filter(|by| self.serves_guest(*by, receiver.domain)) {
                Some(by) => self.carried(by, from, woken, transit),
                None => self.under_way(from, woken, transit),
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
        // It may have come before it was sent again, to a vCPU that was kept outside its guest.
        if let Some((again, _)) = transit.repeated
            && let Some(vcpu) = interrupted.and_then(|cpu| self.machine.vcpus.of(cpu, from))
            && let Some(kept) =
                self.kept_out(vcpu, from, end).into_iter().find(|kept| (kept.from..kept.to).contains(&again))
        {
            self.under_way(kept.to, end, transit);
            self.add(kept.from, kept.to, transit.object, TimeState::Unknown);
            end = kept.from;
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
        let end = self.machine.connections.peer(sender);
        match self.machine.threads().line(receiver, to.saturating_sub(1), to).last()?.2? {
            ThreadState::Waiting { over: Some(Ended::Thread { by, .. }), .. } => {
                let brings = self.serves_guest(by, sender.domain)
                    || end.is_some_and(|end| self.brings(by, receiver, end));
                brings.then_some(by)
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

    /// Something was on its way between two moments: held back, or elsewhere.
    fn under_way(&mut self, from: i64, to: i64, transit: Transit) {
        let Transit { object, spent, .. } = transit;
        let (mut from, mut end) = (from, to);
        let lost = transit.repeated.filter(|(again, _)| *again > from);
        let begun = from;
        if let Some((again, _)) = lost {
            from = again.min(to);
        }
        // Also where nothing is recorded of the other end: that was seen here.
        if spent != TimeState::Unknown {
            for hold in self.machine.holds.within(&transit.frames, None, from, to) {
                self.add(hold.to, end, object, spent);
                self.add(hold.from, hold.to, Object::Holder(hold.holder), hold.holder.into());
                end = hold.from;
            }
        }
        self.add(from, end, object, spent);
        if let Some((_, cause)) = lost {
            self.because(begun, from, object, TimeState::Retransmit, Some(cause));
        }
    }
}
