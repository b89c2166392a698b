//! What delays requests, and what is true of each delay.

use super::{
    stage::Dispatch,
    threads::{HOG, NAMESAKE, OTHER, SIBLING},
};

/// A truth that an analysis may find: the kind of the cause as `xweave vary --json` calls it, and a part of the name of who was
/// behind it, if somebody was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// Name of the kind.
    pub kind: &'static str,
    /// Part of the name of whoever did it.
    pub by: Option<&'static str>,
    /// Part of the name of whoever was delayed.
    pub whom: Option<&'static str>,
}

/// What a mechanism needs beside the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// A server in a guest.
    Guest,
    /// A server in its client's kernel.
    Local,
    /// Either.
    Any,
}

macro_rules! mechanisms {
    ($($(#[$about:meta])* $name:ident $where:ident $complete:literal [$($kind:literal $(by $by:literal)? $(of $whom:literal)?),*];)*) => {
        /// What delays requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Mechanism { $($(#[$about])* $name,)* }

        impl Mechanism {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Answers that are right. None, where no event that is recorded today tells of it.
            pub fn truths(self) -> &'static [Truth] {
                match self {
                    $(Self::$name => const { &[$(Truth {
                        kind: $kind,
                        by: mechanisms!(@ $($by)?),
                        whom: mechanisms!(@ $($whom)?),
                    }),*] },)*
                }
            }

            /// Reports whether native events of all groups prove it.
            pub fn is_provable(self) -> bool {
                match self { $(Self::$name => $complete,)* }
            }

            pub(super) fn place(self) -> Where {
                match self { $(Self::$name => Where::$where,)* }
            }
        }
    };
    (@) => { None };
    (@ $text:literal) => { Some($text) };
}

mechanisms! {
    /// The server computes for longer.
    Compute Any true ["running" of "server"];
    /// Another thread of the host takes the vCPU's CPU while the server runs.
    VcpuPreempted Guest true ["vcpu_preempted" by "sh" of "vm1"];
    /// The same, of a vCPU that was woken for the request.
    VcpuPreemptedAtWake Guest true ["vcpu_preempted" by "sh" of "vm1"];
    /// The same, after the vCPU's thread had its CPU and before it was inside the guest.
    VcpuPreemptedInTransit Guest true ["vcpu_preempted" by "sh" of "vm1"];
    /// The same, of a vCPU that ran something else as the request came.
    VcpuPreemptedBefore Guest false ["vcpu_preempted" by "sh" of "vm1"];
    /// The vCPU was halted, and its CPU takes long to come out of idling.
    VcpuHalted Guest true ["vcpu_halted" of "vm1"];
    /// The vCPU's quota is used up while the server runs.
    VcpuThrottled Guest true ["vcpu_throttled" of "vm1"];
    /// The same, of a vCPU that was woken for the request.
    VcpuThrottledAtWake Guest true ["vcpu_throttled" of "vm1"];
    /// QEMU emulates a device for the server's CPU.
    VcpuExits Guest true ["vcpu_exits" by "Io" of "vm1"];
    /// vhost waits for a CPU, which another thread of the host has.
    VhostWaits Guest true ["backend_late" by "sh" of "vm1"];
    /// vhost loses its CPU while it has the frames.
    VhostPreempted Guest true ["backend_late" by "sh" of "vm1"];
    /// Another program of the guest has the CPU that the server waits for.
    RunQueue Any true ["run_queue" by "backup" of "server"];
    /// Another thread of the server's process has it.
    OwnThreads Any true ["own_threads" by "server" of "server"];
    /// A thread of another process has it, which has the same name.
    Namesake Any true ["run_queue" by "server" of "server"];
    /// The server's CPU takes long to come out of idling.
    CpuWaking Local true ["cpu_waking" of "server"];
    /// The server's quota is used up.
    Throttled Any true ["throttled" of "server"];
    /// Another thread holds a lock that the server needs.
    FutexLock Any true ["futex"];
    /// The server waits for what another thread computes.
    Future Any true ["running" of "server"];
    /// The server waits for what another thread does, which sleeps.
    FutureAsleep Any false [];
    /// Another thread holds a lock of the kernel that the server needs. Only other tools record those.
    KernelLock Any false ["kernel_lock" by "server", "running" of "server"];
    /// A signal stops the server.
    Stopped Any true ["stopped" of "server"];
    /// A page of the server's memory is swapped out.
    SwapIn Any true ["swap_in", "disk"];
    /// A page of a file that the server has mapped has to be read.
    PageFault Any true ["page_fault", "disk"];
    /// The server reads a file.
    Disk Any true ["disk"];
    /// The server sleeps for a time.
    Sleeps Any false [];
    /// A queueing discipline holds the request back.
    Qdisc Any true ["qdisc" by "tbf"];
    /// The same, to emulate a network.
    Netem Any true ["qdisc" by "netem"];
    /// The request's frame is lost, and sent again.
    Retransmit Guest true ["retransmit"];
    /// The server is at a long request of another client.
    SocketQueue Any true ["socket_queue"];
    /// Requests come in batches.
    Batches Any true ["socket_queue", "batch_arrival"];
    /// The guest's address has to be asked for, and the answer is late.
    AddressLate Guest true ["neigh" by "tap0"];
    /// The request is sent in two pieces, and Nagle's algorithm holds the second back until the guest acknowledges the first.
    Nagle Guest true ["send_queue" by "Nagle"];
    /// The guest's receive window is closed, until the host probes it.
    WindowClosed Guest true ["send_queue" by "ReceiveWindow"];
    /// ksoftirqd is to take the frames, and waits for its CPU.
    Ksoftirqd Guest false ["run_queue" by "backup" of "ksoftirqd"];
    /// A NAPI thread is to take the frames, and waits for its CPU.
    ThreadedNapi Guest true ["run_queue" by "backup" of "napi"];
    /// The client sends the second half of the request late, as it sleeps before.
    SecondHalfLate Any false ["waiting" of "client"];
    /// QEMU's lock is held by its main thread, as the vCPU comes out for a device.
    QemuLock Guest false ["futex"];
    /// The host has swapped out memory of the guest.
    HostSwapIn Guest false ["swap_in", "disk"];
    /// A signal stops QEMU.
    QemuStopped Guest false ["stopped"];
    /// The answer's second part waits for an acknowledgement, and the guest has nothing to do.
    AnswerHeld Guest true ["send_queue" by "Nagle"];
    /// The guest's kernel has interrupts off as the request comes.
    InterruptsOff Guest false ["interrupt_late" of "vm1"];
    /// The same, as it writes to a serial console, which QEMU emulates.
    ConsoleOutput Guest false ["interrupt_late" of "vm1", "vcpu_exits" of "vm1"];

    // Who ends a wait is not who was waited for.
    /// The server reads a file by io_uring, whose worker sleeps in the call.
    DiskByWorker Any true ["disk"];
    /// The same, by the kernel's thread that polls the ring, and runs all the time.
    DiskByPoller Any false ["disk"];
    /// The interrupt that completes the server's read is handled in a thread.
    DiskByHandler Any true ["disk"];
    /// That thread waits for its CPU.
    HandlerWaits Any true ["run_queue" by "backup" of "irq"];
    /// The server waits for a device, and a thread of the kernel ends that, which had waited for its CPU for others before.
    DeviceByOther Local false [];
    /// The server waits for what a guest does, and vhost ends that, which had waited for its CPU for others before.
    GuestByVhost Local false ["running" of "CPU 0", "vcpu_exits" of "CPU 0"];
    /// One futex is waited for by the server, for results, and by its worker, for work. The worker computes.
    SharedCondition Any true ["running" of "server"];
    /// The worker that computes tells all who wait for its result.
    Notified Local true ["running" of "server"];
    /// The same; and another one that it told holds the lock that the server then needs.
    HeldWhenNotified Local true ["futex"];
    /// The threads of the server's process stop, as garbage is collected.
    Safepoint Local true ["running" of "server", "running" of "GC"];
    /// The same, when the request has come and is not read yet.
    SafepointBeforeRead Local true ["running" of "server", "running" of "GC"];
    /// The server needs a lock before it reads the request that has come.
    LockBeforeRead Any true ["futex"];
    /// The server sleeps for a time before it reads the request that has come.
    SleepsBeforeRead Any false [];
    /// The server is at a request of another client, and reads a file for that.
    BehindDisk Any true ["disk"];
    /// The same, and sleeps for a time.
    BehindSleep Any false [];
    /// The server asks several others at once, of which one computes.
    FanOutCompute Local true ["running" of "slowdb"];
    /// The same, and one reads a file.
    FanOutDisk Local true ["disk"];
    /// The same; and the server reads and answers another client's request before it answers.
    FanOutThenOther Local true ["running" of "slowdb"];
    /// The server asks another one, which computes, and serves another client's request meanwhile, for which it asks a third one.
    LoopAsksOthers Local true ["running" of "slowdb"];
    /// The server reads a file, and reads and answers another client's request before it answers.
    DiskThenOther Any true ["disk"];
    /// The same, of a lock that another thread holds.
    LockThenOther Any true ["futex"];
    /// The server asks several others at once, of which one waits for its CPU.
    FanOutRunQueue Local true ["run_queue" by "sh" of "slowdb"];

    // What the host is late with, and what may not go on.
    /// QEMU's thread is to serve the guest's disk, and waits for its CPU, which another thread of the host has.
    IothreadWaits Guest true ["backend_late" by "sh" of "iothread"];
    /// The same thread loses its CPU while it has the access.
    IothreadPreempted Guest true ["backend_late" by "sh" of "iothread"];
    /// The disk of the host that is behind the guest's is slow.
    HostDiskSlow Guest true ["disk" of "host"];
    /// The vCPU that is to take the disk's interrupt is woken, and waits for its CPU.
    DiskVcpuPreempted Guest true ["vcpu_preempted" by "sh" of "vm1"];
    /// The same, of a vCPU that ran something else as the disk was done.
    DiskVcpuPreemptedBefore Guest false ["vcpu_preempted" by "sh" of "vm1"];
    /// The server sleeps for a time, and the vCPU that is woken by the timer then waits for its CPU.
    TimerVcpuPreempted Guest true ["vcpu_preempted" by "sh" of "vm1"];
    /// The answer is lost, and the vCPU that is to send it again waits for its CPU.
    AnswerAgainLate Guest true ["vcpu_preempted" by "sh" of "vm1", "retransmit"];
    /// vhost waits for its CPU for so long that TCP sends the request again.
    SpuriousRetransmit Guest true ["backend_late" by "sh" of "vm1"];
    /// The vCPU waits for its CPU for so long that TCP sends the request again.
    SpuriousRetransmitVcpu Guest true ["vcpu_preempted" by "sh" of "vm1"];
    /// Another CPU of the guest than the server's is to take the frames, and had lost its CPU before they came.
    IrqVcpuPreempted Guest false ["vcpu_preempted" by "sh" of "vm1"];
    /// The server's control group may ask no more of the disk for a while.
    IoMax Any false [];
    /// QEMU has the guest's accesses wait, as they are too many.
    QemuThrottles Guest false ["disk" of "vm1"];
    /// The server's control group is frozen.
    Frozen Any false ["stopped" of "server"];
    /// QEMU's control group is frozen.
    QemuFrozen Guest false ["stopped"];
    /// The server spins for a lock of the guest's kernel, whose holder's vCPU has lost its CPU.
    LockHolderPreempted Guest false ["vcpu_preempted" by "sh" of "vm1", "running" of "server"];
    /// The same, where who waits for a lock halts after a while.
    LockHolderParavirt Guest false ["vcpu_preempted" by "sh" of "vm1", "running" of "server"];
    /// A thread has the lock that the server needs, and another program has that one's CPU.
    PriorityInversion Any true ["futex", "run_queue" by "backup" of "server"];
    /// The vCPU loses its CPU as the server runs, and the guest's addresses are not those that its host sees.
    NatPreempted Guest false ["vcpu_preempted" by "sh" of "vm1"];
    /// The same as vhost waits for its CPU.
    NatVhostWaits Guest false ["backend_late" by "sh" of "vm1"];
}

impl Mechanism {
    /// Reports whether the server gives its requests to a worker.
    pub(super) fn has_worker(self) -> bool {
        matches!(
            self,
            Self::Future
                | Self::FutureAsleep
                | Self::SharedCondition
                | Self::Notified
                | Self::HeldWhenNotified
        )
    }

    /// Reports whether requests of several clients are under way at once.
    pub(super) fn has_other_clients(self) -> bool {
        matches!(
            self,
            Self::SocketQueue
                | Self::BehindDisk
                | Self::BehindSleep
                | Self::Batches
                | Self::FanOutThenOther
                | Self::LoopAsksOthers
                | Self::DiskThenOther
                | Self::LockThenOther
        )
    }

    /// Reports whether what it delays is done for each request: a read from the guest's disk, or a sleep.
    pub(super) fn delays_part_of_each_request(self) -> bool {
        matches!(
            self,
            Self::IothreadWaits
                | Self::IothreadPreempted
                | Self::HostDiskSlow
                | Self::DiskVcpuPreempted
                | Self::DiskVcpuPreemptedBefore
                | Self::QemuThrottles
                | Self::TimerVcpuPreempted
        )
    }

    /// Reports whether it is one of streams only.
    pub(super) fn needs_stream(self) -> bool {
        matches!(
            self,
            Self::Retransmit
                | Self::Nagle
                | Self::WindowClosed
                | Self::SecondHalfLate
                | Self::AnswerHeld
                | Self::AnswerAgainLate
                | Self::SpuriousRetransmit
                | Self::SpuriousRetransmitVcpu
        )
    }
}

/// What a server does for another request while one waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpentForOthers {
    Running,
    Disk,
    Sleeping,
}

/// A mechanism and for how long it delays a request; or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike(pub(super) Option<(Mechanism, i64)>);

impl Strike {
    pub(super) const NONE: Self = Self(None);

    /// What the server does for another request meanwhile.
    pub(super) fn spent_for_others(self) -> SpentForOthers {
        match self.0 {
            Some((Mechanism::BehindDisk, _)) => SpentForOthers::Disk,
            Some((Mechanism::BehindSleep, _)) => SpentForOthers::Sleeping,
            _ => SpentForOthers::Running,
        }
    }

    /// How vhost gets its CPU.
    pub(super) fn vhost_dispatch(self) -> Dispatch {
        match self.0 {
            Some((Mechanism::VhostWaits | Mechanism::NatVhostWaits | Mechanism::SpuriousRetransmit, ns)) => {
                Dispatch::Behind(HOG, ns)
            }
            _ => Dispatch::Fast,
        }
    }

    /// How a vCPU's thread that is woken gets its CPU.
    pub(super) fn vcpu_dispatch(self) -> Dispatch {
        match self.0 {
            Some((Mechanism::VcpuHalted, ns)) => Dispatch::Idle(ns),
            Some((Mechanism::VcpuPreemptedAtWake | Mechanism::SpuriousRetransmitVcpu, ns)) => {
                Dispatch::Behind(HOG, ns)
            }
            Some((Mechanism::VcpuPreemptedInTransit, ns)) => Dispatch::Interrupted(HOG, ns),
            Some((Mechanism::VcpuThrottledAtWake, ns)) => Dispatch::Throttled(ns),
            _ => Dispatch::Fast,
        }
    }

    /// How the server's thread gets its CPU.
    pub(super) fn server_dispatch(self) -> Dispatch {
        match self.0 {
            Some((Mechanism::RunQueue, ns)) => Dispatch::Behind(OTHER, ns),
            Some((Mechanism::OwnThreads, ns)) => Dispatch::Behind(SIBLING, ns),
            Some((Mechanism::Namesake, ns)) => Dispatch::Behind(NAMESAKE, ns),
            Some((Mechanism::CpuWaking, ns)) => Dispatch::Idle(ns),
            _ => Dispatch::Fast,
        }
    }
}
