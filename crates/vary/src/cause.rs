//! What kept a request, as people who run virtual machines know it, and what can be done about it.

use serde::Serialize;
use xweave_flow::legs::is_servers_socket;
use xweave_model::{
    Power, TimeState,
    objects::Role,
    parts::{Is, Reason, Such, Who},
};

use crate::requests::Dimension;

/// What kept requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The vCPU was halted, and its thread had to be woken.
    VcpuHalted,
    /// The vCPU could have run, and another thread had its CPU.
    VcpuPreempted,
    /// The vCPU could have run, and had used up its CPU quota.
    VcpuThrottled,
    /// The hypervisor worked for the vCPU.
    VcpuExits,
    /// The thread of vhost or QEMU that carries the guest's data could have run, and another had its CPU.
    BackendLate,
    /// The guest had not yet taken the interrupt.
    InterruptLate,
    /// It waited in the socket's queue, as the thread that reads from it ran for other requests.
    SocketQueue,
    /// It waited in the socket's queue, as it came together with others.
    BatchArrival,
    /// A thread could have run, and another had its CPU.
    RunQueue,
    /// The same, and that was another thread of the same program.
    OwnThreads,
    /// A thread could have run, and its CPU was on the way out of idling.
    CpuWaking,
    /// More of a thread's running than it would have taken at the highest frequency that its CPU had in the recording.
    CpuFrequency,
    /// A thread could have run, and had used up its CPU quota.
    Throttled,
    /// Another thread held a lock of user space, or did not yet say that it may go on.
    Futex,
    /// Another thread held a lock of the kernel.
    KernelLock,
    /// A signal or a debugger had stopped the thread.
    Stopped,
    /// A page had to be read that was swapped out.
    SwapIn,
    /// A page of a file had to be read.
    PageFault,
    /// A disk was waited for.
    Disk,
    /// It was lost, and TCP waited before it sent it again.
    Retransmit,
    /// It was in transit, or a kernel was to answer.
    Network,
    /// Interrupts and softirqs ran for it.
    Interrupts,
    /// A thread ran for it.
    Running,
    /// A thread waited for something else: for a time, or what no event tells of.
    Waiting,
    /// No event tells.
    Unknown,
}

/// What is left of a cause after its remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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
    /// Who was kept: `vCPUs of vm1`, `vhost of vm1`, `sipserver in vm1`.
    pub whom: String,
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
    /// What such time means, and who did it, as far as that is known.
    pub fn of(dimension: &Dimension) -> (Self, Option<Who>) {
        let Dimension { segment, such } = dimension;
        let vcpu = matches!(such.role, Role::Vcpus(_));
        let backend = matches!(such.role, Role::Vhost(_) | Role::Qemu);
        let (running, by) = (such.spent == TimeState::Running, such.by.clone());
        let kind = match such.spent {
            // Whatever the other one did meanwhile.
            _ if such.reason == Some(Reason::Futex) => Kind::Futex,
            _ if such.reason == Some(Reason::SwapIn) => Kind::SwapIn,
            _ if such.reason == Some(Reason::PageFault) => Kind::PageFault,
            TimeState::Running if such.kind == "interrupts" => Kind::Interrupts,
            TimeState::Running if is_servers_socket(segment) || dimension.before_its_turn() => {
                Kind::SocketQueue
            }
            TimeState::Running => Kind::Running,
            TimeState::Preempted => Kind::VcpuPreempted,
            TimeState::Ready if vcpu => Kind::VcpuPreempted,
            TimeState::Ready if backend => Kind::BackendLate,
            TimeState::Ready if by == Some(themselves(such)) => Kind::OwnThreads,
            TimeState::Ready => Kind::RunQueue,
            TimeState::Halted => Kind::VcpuHalted,
            TimeState::Waking if vcpu => Kind::VcpuHalted,
            TimeState::Waking if backend => Kind::BackendLate,
            TimeState::Waking => Kind::CpuWaking,
            TimeState::Throttled if vcpu => Kind::VcpuThrottled,
            TimeState::Throttled => Kind::Throttled,
            TimeState::Exit => Kind::VcpuExits,
            TimeState::Queue | TimeState::Device | TimeState::Completion => Kind::Disk,
            TimeState::Lock => Kind::KernelLock,
            TimeState::Network => Kind::Network,
            TimeState::Retransmit => Kind::Retransmit,
            TimeState::Stopped => Kind::Stopped,
            TimeState::Waiting if such.kind == "interrupts" => Kind::InterruptLate,
            TimeState::Waiting => Kind::Waiting,
            TimeState::Unknown => Kind::Unknown,
        };
        let of_domain = || format!("{} in {}", such.group, such.domain);
        let (whom, by) = match kind {
            Kind::VcpuHalted
            | Kind::VcpuPreempted
            | Kind::VcpuThrottled
            | Kind::VcpuExits
            | Kind::BackendLate => (such.group.clone(), by),
            Kind::Interrupts | Kind::InterruptLate | Kind::Network | Kind::Retransmit => {
                (such.domain.clone(), None)
            }
            Kind::Disk | Kind::SwapIn | Kind::PageFault | Kind::Futex | Kind::KernelLock => {
                (such.domain.clone(), Some(themselves(such)))
            }
            _ => (of_domain(), by),
        };
        debug_assert!(running || kind != Kind::Running);
        (Self { kind, whom }, by)
    }

    /// That a CPU saved power while something ran there, and which share of the time it would not have taken otherwise.
    pub fn of_frequency(dimension: &Dimension) -> Option<(Self, f64)> {
        let Dimension { such, .. } = dimension;
        let runs = matches!(Self::of(dimension).0.kind, Kind::Running | Kind::Interrupts);
        let more = power(such).filter(|_| runs).map_or(0.0, Power::slowed);
        let whom = format!("{} in {}", such.group, such.domain);
        (more > 0.0).then_some((Self { kind: Kind::CpuFrequency, whom }, more))
    }

    /// In words: `vCPUs of vm1 were halted and had to be woken`.
    pub fn words(&self) -> String {
        let whom = &self.whom;
        match self.kind {
            Kind::VcpuHalted => format!("{whom} were halted, and had to be woken"),
            Kind::VcpuPreempted => format!("{whom} waited for a CPU of their host"),
            Kind::VcpuThrottled => format!("{whom} had used up their CPU quota"),
            Kind::VcpuExits => format!("{whom} were out of the guest: the hypervisor worked for them"),
            Kind::BackendLate => format!("{whom} waited for a CPU"),
            Kind::InterruptLate => format!("interrupts were late in {whom}"),
            Kind::SocketQueue => format!("the socket's queue: {whom} ran for others"),
            Kind::BatchArrival => "requests came in batches, and waited for each other".to_owned(),
            Kind::RunQueue => format!("{whom} waited for a CPU"),
            Kind::OwnThreads => format!("{whom} waited for a CPU that others of its threads had"),
            Kind::CpuWaking => format!("{whom} waited for a CPU that was idle to wake up"),
            Kind::CpuFrequency => format!("{whom} ran on CPUs below their highest frequency"),
            Kind::Throttled => format!("{whom} had used up its CPU quota"),
            Kind::Futex => format!("a futex in {whom}"),
            Kind::KernelLock => format!("a lock of the kernel in {whom}"),
            Kind::Stopped => format!("{whom} was stopped"),
            Kind::SwapIn => format!("pages of {whom} were swapped out"),
            Kind::PageFault => format!("pages of files had to be read in {whom}"),
            Kind::Disk => format!("disks of {whom}"),
            Kind::Retransmit => format!("lost and sent again, {whom}"),
            Kind::Network => format!("in transit, {whom}"),
            Kind::Interrupts => format!("interrupts and softirqs of {whom} ran"),
            Kind::Running => format!("{whom} ran"),
            Kind::Waiting => format!("{whom} waited"),
            Kind::Unknown => format!("no event tells what {whom} did"),
        }
    }

    /// What can be done on kernels of today; nothing, where that is for the program's authors. Whether it was recorded in
    /// the `background` says what is left to do about xweave itself.
    pub fn remedy(&self, by: Option<&Is>, background: bool) -> Option<String> {
        let by_vcpus = matches!(by, Some(Is::Object(Role::Vcpus(_))));
        let takes_cpus = matches!(self.kind, Kind::VcpuPreempted | Kind::BackendLate | Kind::RunQueue);
        if takes_cpus && by == Some(&Is::Object(Role::Recorder)) {
            return Some(if background {
                "it was recorded with --background, which ranks xweave within its own autogroup and cgroup: turn autogroups off where \
                 that was (sysctl kernel.sched_autogroup_enabled=0), give xweave another CPU (taskset, cpuset), or record less (fewer \
                 groups of events, --where)"
                    .into()
            } else {
                "record with --background, so that xweave takes only what is left of these CPUs, or less (fewer groups of events, \
                 --where)"
                    .into()
            });
        }
        Some(match self.kind {
            Kind::VcpuHalted => "let KVM poll before it halts a vCPU: /sys/module/kvm/parameters/halt_poll_ns of the host, or \
                                 the guest's own haltpoll (cpuidle_haltpoll.force=1)"
                .into(),
            Kind::VcpuPreempted if by_vcpus => {
                "give each vCPU a CPU of its own: there are more vCPUs that run than CPUs (virsh vcpupin, taskset)".into()
            }
            Kind::VcpuPreempted => {
                "keep others off the vCPUs' CPUs: pin these (virsh vcpupin, taskset), and the others elsewhere (cpuset)".into()
            }
            Kind::VcpuThrottled => "raise the quota of the VM's cgroup (cpu.max; virsh schedinfo vcpu_quota)".into(),
            Kind::BackendLate => {
                "give vhost's thread a CPU that is not the vCPUs' (virsh emulatorpin, taskset of vhost-PID)".into()
            }
            Kind::InterruptLate => "spread interrupts over more queues (ethtool -L), or coalesce less (ethtool -C)".into(),
            Kind::SocketQueue => "read the socket in more threads (SO_REUSEPORT), or let each do less for a request".into(),
            Kind::BatchArrival => "see who sends them in batches: they come so where they are first seen".into(),
            Kind::RunQueue => "give the thread a CPU of its own, or a higher priority (chrt), or the guest more vCPUs".into(),
            Kind::OwnThreads => {
                "let fewer of its threads run at once: a pool of workers, not a thread for each request".into()
            }
            Kind::CpuWaking => "forbid deep idle states (cpupower idle-set -D 0, or PM QoS: hold /dev/cpu_dma_latency at 0), \
                                after trying it: xweave vary --try idle_poll=off,on"
                .into(),
            Kind::CpuFrequency => {
                "let the CPUs run at their highest frequency (cpupower frequency-set -g performance)".into()
            }
            Kind::Throttled => "raise the quota of its cgroup (cpu.max)".into(),
            Kind::Futex | Kind::KernelLock => "hold the lock for a shorter time, or divide it: the holder is named".into(),
            Kind::Stopped => "let it go on (kill -CONT), and find who stops it".into(),
            Kind::SwapIn => "give the machine more memory, or take less from it (balloon); mlockall in the server".into(),
            Kind::PageFault => "touch the files before requests come (vmtouch, MAP_POPULATE), or give more memory".into(),
            Kind::Disk => "see who uses the disk: xweave explain DIR --machines".into(),
            Kind::Retransmit => "find what drops it: queues of devices and sockets that are too short".into(),
            Kind::VcpuExits => match exits(by) {
                Some("io") => "find the device that is emulated byte by byte (a serial console, IDE, VGA), and let the guest \
                                     use it less, or a virtio device instead"
                    .into(),
                Some("npf" | "ept violation") => {
                    "let the guest's memory be there before it is used (prealloc=on, huge pages), and keep KSM, swap and balloons \
                     from it"
                        .into()
                }
                Some("interrupt") => {
                    "keep the host's interrupts and timers off the vCPUs' CPUs (irqaffinity, isolcpus, nohz_full)".into()
                }
                _ => "see which exits: xweave explain DIR --machines".into(),
            },
            Kind::Network | Kind::Interrupts | Kind::Running | Kind::Waiting | Kind::Unknown => return None,
        })
    }
}

/// Those whose time it was.
fn themselves(such: &Such) -> Who {
    Who { name: such.group.clone(), is: Is::Object(such.role.clone()) }
}

/// What saving power had to do with it.
pub(crate) fn power(such: &Such) -> Option<Power> {
    match such.reason {
        Some(Reason::Power(power)) => Some(power),
        _ => None,
    }
}

/// The reason of exits.
fn exits(by: Option<&Is>) -> Option<&str> {
    match by {
        Some(Is::Exits(reason)) => Some(reason),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_by_what_they_are_and_not_by_what_they_are_called() {
        let of = |group: &str, role, by: (&str, Role)| {
            let by = Who { name: by.0.into(), is: Is::Object(by.1) };
            let such = Such {
                domain: "host".into(),
                group: group.into(),
                kind: "thread",
                spent: TimeState::Ready,
                why: Some("futex 0x10 was waited for".into()),
                by: Some(by),
                role,
                reason: Some(Reason::Had),
            };
            let (cause, by) = Cause::of(&Dimension { segment: "in host".into(), such });
            (cause.kind, cause.remedy(by.as_ref().map(|by| &by.is), false).unwrap_or_default())
        };
        let vm1 = || "vm1".to_owned();
        let shell = ("sh", Role::Other);
        for (group, role, kind) in [
            ("vCPUs of vm1", Role::Vcpus(vm1()), Kind::VcpuPreempted),
            ("vCPUs of vm1", Role::Other, Kind::RunQueue),
            ("vhost of vm1", Role::Vhost(vm1()), Kind::BackendLate),
            ("vhost of vm1", Role::Other, Kind::RunQueue),
        ] {
            assert_eq!(of(group, role, shell.clone()).0, kind, "{group}");
        }
        let [itself, other] = [Role::Recorder, Role::Other].map(|role| {
            let by = ("xweave itself", role);
            of("nginx", Role::Other, by).1
        });
        assert!(itself.contains("--background") && !other.contains("--background"), "{itself}\n{other}");
    }

    #[test]
    fn what_is_to_be_done_about_xweave_itself_is_not_what_was_done_already() {
        let cause = |kind| Cause { kind, whom: "vCPUs of vm1".into() };
        let [recorder, shell] = [Role::Recorder, Role::Other].map(Is::Object);
        for kind in [Kind::VcpuPreempted, Kind::BackendLate, Kind::RunQueue] {
            let [before, after] =
                [false, true].map(|background| cause(kind).remedy(Some(&recorder), background).unwrap());
            assert!(before.contains("record with --background"), "{before}");
            assert!(!before.contains("autogroup"), "{before}");
            assert!(after.contains("was recorded with --background"), "{after}");
            assert!(
                after.contains("kernel.sched_autogroup_enabled=0") && after.contains("another CPU"),
                "{after}"
            );
            // Of others nothing changes.
            let [before, after] =
                [false, true].map(|background| cause(kind).remedy(Some(&shell), background).unwrap());
            assert_eq!(before, after);
            assert!(!before.contains("background"), "{before}");
        }
    }
}
