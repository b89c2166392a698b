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
    /// The same, on a kernel whose queueing disciplines have no tracepoints.
    QdiscUnseen Any false [];
    /// The request's frame is lost, and sent again.
    Retransmit Guest true ["retransmit"];
    /// The server is at a long request of another client.
    SocketQueue Any true ["socket_queue"];
    /// Requests come in batches.
    Batches Any true ["socket_queue", "batch_arrival"];
    /// The guest's address has to be asked for, and the answer is late.
    AddressLate Guest false [];
    /// The request is sent in two pieces, and Nagle's algorithm holds the second back until the guest acknowledges the first.
    Nagle Guest false [];
    /// The guest's receive window is closed, until the host probes it.
    WindowClosed Guest false [];
    /// ksoftirqd is to take the frames, and waits for its CPU.
    Ksoftirqd Guest false ["run_queue" by "backup" of "ksoftirqd"];
    /// A NAPI thread is to take the frames, and waits for its CPU.
    ThreadedNapi Guest false ["run_queue" by "backup" of "napi"];
    /// The client sends the second half of the request late, as it sleeps before.
    SecondHalfLate Any false ["waiting" of "client"];
    /// QEMU's lock is held by its main thread, as the vCPU comes out for a device.
    QemuLock Guest false ["futex"];
    /// The host has swapped out memory of the guest.
    HostSwapIn Guest false ["swap_in", "disk"];
    /// A signal stops QEMU.
    QemuStopped Guest false ["stopped"];
    /// The answer's second part waits for an acknowledgement, and the guest has nothing to do.
    AnswerHeld Guest false [];
    /// The guest's kernel has interrupts off as the request comes.
    InterruptsOff Guest false ["interrupt_late" of "vm1"];
    /// The same, as it writes to a serial console, which QEMU emulates.
    ConsoleOutput Guest false ["interrupt_late" of "vm1", "vcpu_exits" of "vm1"];
}

impl Mechanism {
    /// Whether it is one of streams only.
    pub(super) fn is_of_streams(self) -> bool {
        matches!(
            self,
            Self::Retransmit | Self::Nagle | Self::WindowClosed | Self::SecondHalfLate | Self::AnswerHeld
        )
    }
}

/// A mechanism and for how long it delays a request; or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike(pub(super) Option<(Mechanism, i64)>);

impl Strike {
    pub(super) const NONE: Self = Self(None);

    /// How vhost gets its CPU.
    pub(super) fn vhost_dispatch(self) -> Dispatch {
        match self.0 {
            Some((Mechanism::VhostWaits, ns)) => Dispatch::Behind(HOG, ns),
            _ => Dispatch::Fast,
        }
    }

    /// How a vCPU's thread that is woken gets its CPU.
    pub(super) fn vcpu_dispatch(self) -> Dispatch {
        match self.0 {
            Some((Mechanism::VcpuHalted, ns)) => Dispatch::Idle(ns),
            Some((Mechanism::VcpuPreemptedAtWake, ns)) => Dispatch::Behind(HOG, ns),
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
