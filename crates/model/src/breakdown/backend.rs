//! What a guest's disk did with an access: what its host did for it, as far as events prove that.
//!
//! A thread of QEMU's takes the access, asks a disk of the host or waits for something else, and then raises an interrupt of the
//! guest, for which a halted vCPU is woken. So the way leads from the interrupt to the vCPU, to who woke that, and to what that
//! one waited for. Where the vCPU was not halted, no event tells who raised the interrupt: then the time is the disk's as its
//! guest has it, but for those times in which a part of the host that may have been on the way had no CPU.

use xweave_replay::{CpuId, Ended, Source, ThreadId, ThreadState};
use xweave_trace::TimeSpan;

use super::{
    BackwardWalk, Object, TimeState,
    delivery::{TAKEN, Waker, Woken},
    waits,
};
use crate::vcpu::Vcpu;

/// A guest's clock and its host's are no further apart, in nanoseconds.
const APART: i64 = 1_000_000;

/// Threads of QEMU's that do a part of an access for another one are no deeper.
const WORKERS: usize = 4;

impl BackwardWalk<'_> {
    /// A disk had an access between two times; at the second, an interrupt of that CPU told that it was done.
    pub(super) fn in_device(&mut self, disk: Object, cpu: CpuId, from: i64, to: i64) {
        let Some(vcpu) = self.machine.vcpus.of(cpu, from).filter(|_| from < to) else {
            return self.add(from, to, disk, TimeState::Device);
        };
        let woken = self.woken_vcpu(cpu, from, to, Waker::Carrier);
        if let Some(Woken { woken, entered, by: Some(by), .. }) = woken
            && self.serves_access(by, cpu.domain, from, woken)
        {
            self.add(entered, to, disk, TimeState::Device);
            self.in_host(cpu, vcpu, woken, entered, true);
            return self.served(disk, cpu.domain, by, from, woken, 0);
        }
        self.doubted(disk, cpu, vcpu, from, to);
    }

    /// Reports whether a thread that wakes a guest's vCPU at the second time does so for an access since the first: it is one of
    /// QEMU's, and began to work when a vCPU had woken it, another thread of QEMU's, or an interrupt that is not the network's.
    fn serves_access(&self, by: ThreadId, guest: u8, from: i64, to: i64) -> bool {
        if !self.is_of_qemu(by, guest) {
            return false;
        }
        let line = self.machine.threads().line(by, from, to);
        self.began_access(&line, guest) == Some(true)
    }

    /// Whether the last wait of a thread's line was over because there was something to do for an access; none if there is none.
    fn began_access(&self, line: &[(i64, i64, Option<ThreadState>)], guest: u8) -> Option<bool> {
        waits(line).next().map(|wait| self.begins_access(wait.over, guest))
    }

    fn begins_access(&self, over: Option<Ended>, guest: u8) -> bool {
        match over {
            Some(Ended::Thread { by, .. }) => self.is_of_qemu(by, guest),
            Some(Ended::Interrupt { source, .. }) => source != Source::Network,
            _ => false,
        }
    }

    fn is_of_qemu(&self, thread: ThreadId, guest: u8) -> bool {
        let process = self.machine.threads().process(thread);
        self.machine.vcpus.guest(thread.domain, process) == Some(guest)
    }

    /// What a thread of QEMU's did for an access until it was done.
    fn served(&mut self, disk: Object, guest: u8, by: ThreadId, from: i64, to: i64, depth: usize) {
        let machine = self.machine;
        let line = machine.threads().line(by, from, to);
        for (nth, (a, b, doing)) in line.iter().enumerate().rev() {
            let (a, b) = (*a, *b);
            match doing {
                None | Some(ThreadState::Unknown) => self.add(a, b, disk, TimeState::Unknown),
                Some(ThreadState::Running { .. }) => self.add(a, b, disk, TimeState::Device),
                Some(ThreadState::Ready { cpu, since }) => {
                    // It had the access, if it had begun to work for it.
                    let begun = self.began_access(&line[..nth], guest).or_else(|| {
                        // By the guest's clock it may have been woken before.
                        let earlier = machine.threads().line(by, a.saturating_sub(APART), a);
                        self.began_access(&earlier, guest)
                    });
                    if begun == Some(true) {
                        let cpu = cpu.or_else(|| machine.threads().get(by)?.next_cpu(b));
                        self.ready(by, cpu, *since, a, b);
                    } else {
                        self.add(a, b, disk, TimeState::Unknown);
                    }
                }
                Some(ThreadState::Waiting { over, .. }) => match *over {
                    Some(Ended::Interrupt { access: Some(number), cpu, .. }) => {
                        match machine.disks.access(number) {
                            Some(access) => self.accessing(access, by, Some(cpu), a, b),
                            None => self.add(a, b, disk, TimeState::Device),
                        }
                    }
                    Some(Ended::Thread { by: worker, .. })
                        if depth < WORKERS
                            && machine.vcpus.which(worker).is_none()
                            && self.is_of_qemu(worker, guest) =>
                    {
                        self.served(disk, guest, worker, a, b, depth + 1);
                    }
                    Some(Ended::Lost) => self.add(a, b, disk, TimeState::Unknown),
                    _ => self.add(a, b, disk, TimeState::Device),
                },
            }
        }
    }

    /// A guest's disk had an access, and who told the guest that it was done is not known. What may have been on the way to
    /// that, and could not go on, took a time of which nobody knows whether the disk had done by then.
    fn doubted(&mut self, disk: Object, cpu: CpuId, vcpu: &Vcpu, from: i64, to: i64) {
        let machine = self.machine;
        let bounds = TimeSpan { from, to };
        let mut doubts = self.kept_out(vcpu, from, to);
        let late = vcpu.last_pending(bounds);
        doubts.extend(late.filter(|late| to.saturating_sub(late.to) <= TAKEN));
        for backend in machine.vcpus.backends(cpu.domain).filter(|of| self.is_of_qemu(*of, cpu.domain)) {
            let line = machine.threads().line(backend, from, to).into_iter();
            let ready = line.filter(|(.., doing)| matches!(doing, Some(ThreadState::Ready { .. })));
            doubts.extend(ready.map(|(from, to, _)| TimeSpan { from, to }));
        }
        doubts.sort_unstable_by_key(|doubt| doubt.to);
        let mut end = to;
        for doubt in doubts.into_iter().rev() {
            let until = doubt.to.min(end);
            self.add(until, end, disk, TimeState::Device);
            self.add(doubt.from, until, disk, TimeState::Unknown);
            end = end.min(doubt.from);
        }
        self.add(from, end, disk, TimeState::Device);
    }
}
