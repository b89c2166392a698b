//! What kept a request, as people who run virtual machines know it, and which remedies there are.

use xweave_model::{
    DomainRef, ExitReason, ObjectGroup, ObjectKind, Offender, Power, TimeState, objects::Reason, parts::Such,
};
use xweave_trace::event::HoldReason;

use crate::requests::Dimension;

/// Kinds of delay. Each is named only where events prove it; what they leave over is [`Unknown`](Self::Unknown),
/// [`Waiting`](Self::Waiting) or [`Network`](Self::Network), which say where and not why, and have no remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// The vCPU was halted, and its thread had to be woken. Named only if the vCPU came out of its guest to halt (`vm_exit`
    /// with that reason, or `vm_halt`) and its thread then slept, and something was there for it: it was woken, and until
    /// `vm_enter` its thread waited for a CPU that idled; or a thread of the guest was ready on it.
    VcpuHalted,
    /// The vCPU could have run, and another thread had its CPU. Named only if its thread was left runnable or woken, and
    /// `switch` events say which thread its CPU ran until it was dispatched.
    VcpuPreempted,
    /// The vCPU could have run, and had used up its CPU quota. Named only if it was left throttled (`switch`), or `wake` says
    /// that its quota was used up.
    VcpuThrottled,
    /// The hypervisor worked for the vCPU. Named only if its thread ran between `vm_exit` and `vm_enter`, and the exit was not for
    /// `pause` again and again: a guest that spins waits for another vCPU.
    VcpuExits,
    /// The thread of vhost or QEMU that carries the guest's data could have run, and another had its CPU. Named only if it was
    /// woken by the sender (or the sender's vCPU) or left runnable, `switch` events say which thread its CPU ran until it was
    /// dispatched, and it then woke the receiver's vCPU, or the receiver.
    BackendLate,
    /// The guest did not take an interrupt that was pending. Named only if KVM asked to be told when the guest could
    /// (`vm_exit` for an interrupt window): from the `vm_enter` before that on; or if KVM had injected it (`vm_inject`) and the
    /// vCPU was inside: until the guest's next `irq_enter`.
    InterruptLate,
    /// It waited in the socket's queue, as the thread that reads from it still ran, for others or of its own accord. Named only if
    /// that thread ran from before the request came until it received it, without a wait, and is not known to have just begun.
    SocketQueue,
    /// It waited in the socket's queue, as it came together with others. Named only as [`SocketQueue`](Self::SocketQueue), and
    /// for as long as it would not have waited if requests had come evenly.
    BatchArrival,
    /// A thread could have run, and another had its CPU. Named only if `switch` events say which.
    RunQueue,
    /// The same, and that was another thread of its process. Named only if events tell the process of both (`thread`, `fork`).
    OwnThreads,
    /// A thread could have run, and its CPU was on the way out of idling. Named only if the CPU idled as the thread was woken,
    /// until it was dispatched, and no quota was used up (or none is recorded, and that took no longer than a millisecond).
    CpuWaking,
    /// More of a thread's running than it would have taken at the highest frequency that its CPU had in the recording. Named
    /// only if events tell of frequencies.
    CpuFrequency,
    /// A thread could have run, and had used up its CPU quota. Named only as [`VcpuThrottled`](Self::VcpuThrottled); or if
    /// another thread had left the CPU throttled, which then idled.
    Throttled,
    /// Another thread held a lock of user space. Named only if a thread waited for the futex (`lock_wait`), was woken by one
    /// that just woke this futex (`lock_wake`), and the futex has shown to be a lock: who was woken there woke others in turn
    /// before it waited again. What waits for any other futex waits for what the waker did, and that is told instead.
    Futex,
    /// Another thread held a lock of the kernel. Named only if events tell of the lock (other tools' do), and of the thread
    /// that woke who waited for it.
    KernelLock,
    /// A signal or a debugger had stopped the thread. Named only if it was left stopped (`switch`).
    Stopped,
    /// A page had to be read that was swapped out. Named only if `swap_in` says that the wait was within such a fault.
    SwapIn,
    /// A page of a file had to be read. Named only if `page_fault` says that the wait was within such a fault.
    PageFault,
    /// A disk was waited for. Named only if the interrupt that ended the wait completed an access, and the disk was not idle while
    /// that waited in its queue. Of a guest's disk there is a remedy only where the time is known to be a disk's of the host.
    Disk,
    /// A queueing discipline held it back. Named only if a frame of the connection was seen to go in and to come out.
    Qdisc,
    /// It waited until the link-layer address of the next hop was known. Named only if a frame of the connection was seen to be
    /// put into the next hop's queue, and the address to be learned.
    Neigh,
    /// TCP had it, and did not send it yet. Named only if events say why (`tcp_hold`), and until when.
    SendQueue,
    /// It was lost, and TCP waited before it sent it again. Named only if `retransmit` tells of the connection.
    Retransmit,
    /// It was in transit, or a kernel was to answer: no event says what kept it there.
    Network,
    /// Interrupts and softirqs ran for it. Named only between their `enter` and `exit`.
    Interrupts,
    /// A thread ran for it. Named only between `switch` events; of a guest whose vCPUs are not recorded, what their host did
    /// meanwhile is a part of it.
    Running,
    /// A thread waited for something else: for a time, or what no event tells of.
    Waiting,
    /// No event tells.
    Unknown,
}

impl Kind {
    /// Returns the name in documents.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What is left of a cause after its remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedied {
    /// Nothing.
    Gone,
    /// In each request as much as in the median one.
    Steady,
}

/// What kept requests, and whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause {
    /// What.
    pub kind: Kind,
    /// Who was kept.
    pub whom: Whom,
}

/// Who was kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Whom {
    /// These, of which one knows where they are: a guest's vCPUs, vhost's threads.
    Group(ObjectGroup),
    /// These, in a domain.
    GroupIn(ObjectGroup, DomainRef),
    /// A domain.
    Domain(DomainRef),
    /// Requests, whoever sent them.
    Requests,
}

/// What can be done about a cause on kernels of today.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Record in the background.
    RecordInBackground,
    /// Record elsewhere, or less: it was in the background already.
    RecordElsewhere,
    /// Let KVM poll before it halts a vCPU.
    HaltPolling,
    /// Give each vCPU a CPU of its own.
    CpuForEachVcpu,
    /// Keep others off the vCPUs' CPUs.
    OthersOffVcpus,
    /// Raise the quota of the VM's cgroup.
    VmQuota,
    /// Give vhost's thread another CPU.
    CpuForBackend,
    /// Spread interrupts over more queues.
    SpreadInterrupts,
    /// Read the socket in more threads.
    MoreReaders,
    /// Find who sends in batches.
    FindBatches,
    /// Give the thread a CPU.
    CpuForThread,
    /// Let fewer of the program's threads run at once.
    FewerThreads,
    /// Forbid deep idle states.
    ShallowIdle,
    /// Let CPUs run at their highest frequency.
    HighestFrequency,
    /// Raise the quota of its cgroup.
    Quota,
    /// Hold the lock for a shorter time.
    ShorterLock,
    /// Let a stopped thread go on.
    Continue,
    /// Give the machine more memory.
    Memory,
    /// Touch files before requests come.
    TouchFiles,
    /// See who uses the disk.
    SeeDiskUsers,
    /// See what the queueing discipline is set to.
    SeeQdisc,
    /// Know the next hop's address beforehand, or find why the answer is late.
    SeeNeigh,
    /// Let TCP send small segments at once.
    NoDelay,
    /// Let the program not ask TCP to wait for more.
    NoCork,
    /// Let the receiver's window be larger, or its program read sooner.
    ReceiveWindow,
    /// Find what drops frames.
    FindDrops,
    /// Find the device that is emulated byte by byte.
    FindEmulatedDevice,
    /// Let the guest's memory be there before it is used.
    BackGuestMemory,
    /// Keep the host's interrupts off the vCPUs' CPUs.
    InterruptsOffVcpus,
    /// See which exits there are.
    SeeExits,
}

impl Kind {
    /// What there would be of it after its remedy. A vCPU that never sleeps never has to be woken; of others, what is usual
    /// stays.
    pub fn remedied(self) -> Remedied {
        match self {
            Self::VcpuHalted => Remedied::Gone,
            _ => Remedied::Steady,
        }
    }
}

impl Cause {
    /// What such time means, and who did it, as far as events prove that.
    pub fn of(dimension: &Dimension) -> (Self, Option<Offender>) {
        let Dimension { such, .. } = dimension;
        let vcpu = matches!(such.group, ObjectGroup::Vcpus { .. });
        // QEMU's threads have whatever names.
        let of_guest =
            matches!(such.group, ObjectGroup::Vhost { .. } | ObjectGroup::Threads { guest: Some(_), .. });
        let backend = of_guest || such.group.is_qemu();
        let (running, by) = (such.spent == TimeState::Running, such.by());
        let interrupts = such.kind == ObjectKind::Interrupts;
        let kind = match such.spent {
            // Whatever the other one did meanwhile.
            _ if matches!(such.reason, Some(Reason::HeldFutex(_))) => Kind::Futex,
            _ if such.reason == Some(Reason::SwapIn) => Kind::SwapIn,
            _ if matches!(such.reason, Some(Reason::PageFault(_))) => Kind::PageFault,
            TimeState::Running if interrupts => Kind::Interrupts,
            // It runs all the time, whatever there is to do.
            TimeState::Running if such.group.polls() => Kind::Waiting,
            TimeState::Running if dimension.before_its_turn() => Kind::SocketQueue,
            TimeState::Running => Kind::Running,
            // It could have run, and nothing tells why it did not.
            TimeState::Preempted | TimeState::Ready if by.is_none() => Kind::Unknown,
            TimeState::Preempted => Kind::VcpuPreempted,
            TimeState::Ready if vcpu => Kind::VcpuPreempted,
            TimeState::Ready if backend => Kind::BackendLate,
            TimeState::Ready if matches!(such.reason, Some(Reason::HadByOwn(_))) => Kind::OwnThreads,
            TimeState::Ready => Kind::RunQueue,
            TimeState::Halted => Kind::VcpuHalted,
            TimeState::Waking if such.kind == ObjectKind::Vcpu => Kind::VcpuHalted,
            TimeState::Waking => Kind::CpuWaking,
            TimeState::Throttled if vcpu => Kind::VcpuThrottled,
            TimeState::Throttled => Kind::Throttled,
            // It waited for another vCPU, which had a lock of the guest's kernel, say.
            TimeState::Exit if by == Some(Offender::Exits(ExitReason::Pause)) => Kind::Waiting,
            TimeState::Exit => Kind::VcpuExits,
            TimeState::Queue | TimeState::Device | TimeState::Completion => Kind::Disk,
            TimeState::Lock => Kind::KernelLock,
            TimeState::Qdisc => Kind::Qdisc,
            TimeState::Neigh => Kind::Neigh,
            TimeState::SendQueue => Kind::SendQueue,
            TimeState::Network => Kind::Network,
            TimeState::Retransmit => Kind::Retransmit,
            TimeState::Stopped => Kind::Stopped,
            TimeState::Waiting if interrupts => Kind::InterruptLate,
            TimeState::Waiting => Kind::Waiting,
            TimeState::Unknown => Kind::Unknown,
        };
        let domain = || Whom::Domain(such.domain.clone());
        let (whom, by) = match kind {
            Kind::VcpuHalted
            | Kind::VcpuPreempted
            | Kind::VcpuThrottled
            | Kind::VcpuExits
            | Kind::BackendLate => (Whom::Group(such.group.clone()), by),
            Kind::Interrupts | Kind::InterruptLate | Kind::Network | Kind::Retransmit => (domain(), None),
            Kind::Disk
            | Kind::Qdisc
            | Kind::Neigh
            | Kind::SendQueue
            | Kind::SwapIn
            | Kind::PageFault
            | Kind::Futex
            | Kind::KernelLock => (domain(), Some(themselves(such))),
            _ => (group_in_domain(such), by),
        };
        debug_assert!(running || kind != Kind::Running);
        (Self { kind, whom }, by)
    }

    /// That a CPU saved power while something ran there, and which share of the time it would not have taken otherwise.
    pub fn of_frequency(dimension: &Dimension) -> Option<(Self, f64)> {
        let Dimension { such, .. } = dimension;
        let runs = matches!(Self::of(dimension).0.kind, Kind::Running | Kind::Interrupts);
        let more = power(such).filter(|_| runs).map_or(0.0, Power::slowed);
        (more > 0.0).then(|| (Self { kind: Kind::CpuFrequency, whom: group_in_domain(such) }, more))
    }

    /// What can be done about it; nothing, where that is for the program's authors. `by` is who did most of it; whether it was
    /// recorded in the `background` says what is left to do about xweave itself.
    pub fn remedy(&self, by: Option<&Offender>, background: bool) -> Option<Remedy> {
        let by_objects = by.and_then(Offender::objects);
        let takes_cpus = matches!(self.kind, Kind::VcpuPreempted | Kind::BackendLate | Kind::RunQueue);
        if takes_cpus && by_objects == Some(&ObjectGroup::Recorder) {
            return Some(if background { Remedy::RecordElsewhere } else { Remedy::RecordInBackground });
        }
        Some(match self.kind {
            Kind::VcpuHalted => Remedy::HaltPolling,
            Kind::VcpuPreempted if matches!(by_objects, Some(ObjectGroup::Vcpus { .. })) => {
                Remedy::CpuForEachVcpu
            }
            Kind::VcpuPreempted => Remedy::OthersOffVcpus,
            Kind::VcpuThrottled => Remedy::VmQuota,
            Kind::BackendLate => Remedy::CpuForBackend,
            Kind::InterruptLate => Remedy::SpreadInterrupts,
            Kind::SocketQueue => Remedy::MoreReaders,
            Kind::BatchArrival => Remedy::FindBatches,
            Kind::RunQueue => Remedy::CpuForThread,
            Kind::OwnThreads => Remedy::FewerThreads,
            Kind::CpuWaking => Remedy::ShallowIdle,
            Kind::CpuFrequency => Remedy::HighestFrequency,
            Kind::Throttled => Remedy::Quota,
            Kind::Futex | Kind::KernelLock => Remedy::ShorterLock,
            Kind::Stopped => Remedy::Continue,
            Kind::SwapIn => Remedy::Memory,
            Kind::PageFault => Remedy::TouchFiles,
            Kind::Disk => Remedy::SeeDiskUsers,
            Kind::Qdisc => Remedy::SeeQdisc,
            Kind::Neigh => Remedy::SeeNeigh,
            Kind::SendQueue => match by_objects {
                Some(ObjectGroup::SendQueue { reason: HoldReason::Nagle }) => Remedy::NoDelay,
                Some(ObjectGroup::SendQueue { reason: HoldReason::Cork }) => Remedy::NoCork,
                Some(ObjectGroup::SendQueue { reason: HoldReason::ReceiveWindow }) => Remedy::ReceiveWindow,
                _ => return None,
            },
            Kind::Retransmit => Remedy::FindDrops,
            Kind::VcpuExits => match by {
                Some(Offender::Exits(ExitReason::Io)) => Remedy::FindEmulatedDevice,
                Some(Offender::Exits(ExitReason::NestedPageFault | ExitReason::EptViolation)) => {
                    Remedy::BackGuestMemory
                }
                Some(Offender::Exits(ExitReason::Interrupt)) => Remedy::InterruptsOffVcpus,
                _ => Remedy::SeeExits,
            },
            Kind::Network | Kind::Interrupts | Kind::Running | Kind::Waiting | Kind::Unknown => return None,
        })
    }
}

fn group_in_domain(such: &Such) -> Whom {
    Whom::GroupIn(such.group.clone(), such.domain.clone())
}

/// Those whose time it was.
fn themselves(such: &Such) -> Offender {
    Offender::Objects(such.group.clone())
}

/// What saving power had to do with it.
pub(crate) fn power(such: &Such) -> Option<Power> {
    match such.reason {
        Some(Reason::Power(power)) => Some(power),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use xweave_model::Stretch;

    use super::*;

    #[test]
    fn kinds_have_their_names_of_documents() {
        let kinds = [Kind::VcpuHalted, Kind::BackendLate, Kind::OwnThreads, Kind::SwapIn, Kind::Qdisc];
        let names = ["vcpu_halted", "backend_late", "own_threads", "swap_in", "qdisc"];
        assert_eq!(kinds.map(Kind::name), names);
    }

    #[test]
    fn programs_are_told_by_what_they_are_and_not_by_what_they_are_called() {
        let program = |name: &str| ObjectGroup::Threads { name: name.into(), guest: None };
        let of = |group: ObjectGroup, by: ObjectGroup| {
            let such = Such {
                domain: DomainRef::One("host".into()),
                group,
                kind: ObjectKind::Thread,
                spent: TimeState::Ready,
                reason: Some(Reason::Had(by)),
            };
            let (cause, by) =
                Cause::of(&Dimension { segment: Stretch::In(DomainRef::One("host".into())), such });
            (cause.kind, cause.remedy(by.as_ref(), false))
        };
        let guest = || "vm1".to_owned();
        for (group, kind) in [
            (ObjectGroup::Vcpus { guest: guest() }, Kind::VcpuPreempted),
            (program("vCPUs of vm1"), Kind::RunQueue),
            (ObjectGroup::Vhost { guest: guest() }, Kind::BackendLate),
            (program("vhost of vm1"), Kind::RunQueue),
            (program("qemu-system-x86"), Kind::BackendLate),
            // QEMU's threads may be called anything.
            (ObjectGroup::Threads { name: "IO iothread".into(), guest: Some(guest()) }, Kind::BackendLate),
        ] {
            assert_eq!(of(group.clone(), program("sh")).0, kind, "{group:?}");
        }
        // Two containers' programs may have one name.
        for (reason, kind) in [
            (Reason::Had(program("java")), Kind::RunQueue),
            (Reason::HadByOwn(program("java")), Kind::OwnThreads),
        ] {
            let (domain, group, spent) = (DomainRef::One("host".into()), program("java"), TimeState::Ready);
            let such =
                Such { domain: domain.clone(), group, kind: ObjectKind::Thread, spent, reason: Some(reason) };
            assert_eq!(Cause::of(&Dimension { segment: Stretch::In(domain), such }).0.kind, kind);
        }
        let [itself, other] =
            [ObjectGroup::Recorder, program("xweave itself")].map(|by| of(program("nginx"), by).1);
        assert_eq!((itself, other), (Some(Remedy::RecordInBackground), Some(Remedy::CpuForThread)));
    }

    #[test]
    fn what_no_event_proves_is_unknown_and_has_no_remedy() {
        let vcpus = || ObjectGroup::Vcpus { guest: "vm1".into() };
        let server = || ObjectGroup::Threads { name: "server".into(), guest: None };
        let of = |group, kind, spent, reason| {
            let such = Such { domain: DomainRef::One("host".into()), group, kind, spent, reason };
            let segment = Stretch::In(DomainRef::One("host".into()));
            let (cause, by) = Cause::of(&Dimension { segment, such });
            (cause.kind, cause.remedy(by.as_ref(), false).is_some())
        };
        let (thread, vcpu, interrupts) = (ObjectKind::Thread, ObjectKind::Vcpu, ObjectKind::Interrupts);
        // Who had the CPU that it waited for.
        for (group, kind, spent) in [
            (server(), thread, TimeState::Ready),
            (vcpus(), vcpu, TimeState::Preempted),
            (ObjectGroup::Vhost { guest: "vm1".into() }, thread, TimeState::Ready),
        ] {
            assert_eq!(of(group, kind, spent, None), (Kind::Unknown, false));
        }
        // A vCPU's thread that waits is not halted, and one that is woken then was not.
        assert_eq!(of(vcpus(), thread, TimeState::Waiting, None), (Kind::Waiting, false));
        assert_eq!(of(vcpus(), thread, TimeState::Waking, None).0, Kind::CpuWaking);
        assert_eq!(of(vcpus(), vcpu, TimeState::Waking, None), (Kind::VcpuHalted, true));
        // What polls runs whatever there is to do.
        let poller = || ObjectGroup::Threads { name: "iou-sqp-70".into(), guest: None };
        assert_eq!(of(poller(), thread, TimeState::Running, None), (Kind::Waiting, false));
        // A vCPU that spins waits for another one, and whose that is no event tells.
        let exit = |reason| of(vcpus(), vcpu, TimeState::Exit, Some(Reason::Exited(reason)));
        assert_eq!(exit(ExitReason::Pause), (Kind::Waiting, false));
        assert_eq!(exit(ExitReason::Io), (Kind::VcpuExits, true));
        // A futex is a lock only where it was seen to be held.
        let futex = |reason| of(server(), thread, TimeState::Running, Some(reason));
        assert_eq!(futex(Reason::Futex(0x7f00)), (Kind::Running, false));
        assert_eq!(futex(Reason::HeldFutex(0x7f00)), (Kind::Futex, true));
        assert_eq!(of(ObjectGroup::Interrupts, interrupts, TimeState::Unknown, None), (Kind::Unknown, false));
        assert_eq!(
            of(ObjectGroup::Interrupts, interrupts, TimeState::Waiting, None),
            (Kind::InterruptLate, true)
        );
    }

    #[test]
    fn what_is_to_be_done_about_xweave_itself_is_not_what_was_done_already() {
        let shell = ObjectGroup::Threads { name: "sh".into(), guest: None };
        let [recorder, shell] = [ObjectGroup::Recorder, shell].map(Offender::Objects);
        for kind in [Kind::VcpuPreempted, Kind::BackendLate, Kind::RunQueue] {
            let cause = Cause { kind, whom: Whom::Group(ObjectGroup::Vcpus { guest: "vm1".into() }) };
            let remedies = [false, true].map(|background| cause.remedy(Some(&recorder), background).unwrap());
            assert_eq!(remedies, [Remedy::RecordInBackground, Remedy::RecordElsewhere]);
            // Of others nothing changes.
            let [before, after] = [false, true].map(|background| cause.remedy(Some(&shell), background));
            assert_eq!(before, after);
        }
    }
}
