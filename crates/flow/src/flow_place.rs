//! Where flows are between their steps, by the names of their domains.

use std::sync::Arc;

/// Where a flow is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowPlace {
    /// On what carries it from one domain to another, which has to take it off.
    Carrier {
        /// What that is.
        carrier: Carrier,
        /// The domain that put it there.
        from: String,
        /// The other one.
        to: String,
    },
    /// In a domain.
    In {
        /// The domain.
        domain: String,
        /// Where there.
        station: Station,
    },
}

/// What carries flows between domains.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Carrier {
    /// A ring of virtio or Xen.
    Ring,
    /// What an aspect calls so.
    Named(Arc<str>),
    /// It is not known.
    Unknown,
}

impl Carrier {
    /// Whether it is a ring.
    pub fn is_ring(&self) -> bool {
        *self == Self::Ring
    }
}

/// A place in a domain's kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Station {
    /// Code that has no name of its own.
    Stack,
    /// The same, and the driver that is next to a ring.
    StackAndDriver,
    /// What functions tell by their names.
    Known(KnownStation),
    /// The queue of the device that leads to a guest.
    DeviceQueue {
        /// `tap` or `vif`.
        device: &'static str,
        /// The guest, if the flow goes on to it.
        guest: Option<String>,
    },
    /// The queue of a socket, and the copy to the process that reads it.
    Socket {
        /// The thread that reads, where it is always the same and that was asked for.
        reader: Option<String>,
    },
}

/// A place in a kernel that functions tell by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum KnownStation {
    /// The block layer, above the I/O scheduler.
    BlockLayer,
    /// A bridge.
    Bridge,
    /// A disk's driver, and the device.
    DiskDriver,
    /// The handler of a device's interrupt.
    HardInterrupt,
    /// The I/O scheduler.
    IoScheduler,
    /// On a CPU.
    OnCpu,
    /// An interrupt that its vCPU has not taken.
    PendingForVcpu,
    /// Ready for a CPU.
    RunQueue,
    /// A softirq that runs.
    Softirq,
    /// A softirq that is to run.
    SoftirqPending,
    /// A system call.
    SystemCall,
    /// TCP's queue of what is to be sent.
    TcpSendQueue,
    /// vhost, and the tap device that it writes to.
    VhostAndTap,
}

impl KnownStation {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FlowPlace {
    /// The domain in which it is; on a carrier, the one that has to take it off.
    pub fn domain(&self) -> &str {
        match self {
            Self::Carrier { to: domain, .. } | Self::In { domain, .. } => domain,
        }
    }

    /// What it is, as documents call it: `ring`, `carrier`, `stack`, `stack_and_driver`, `device_queue`, `socket` or the name
    /// of a [`KnownStation`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Carrier { carrier: Carrier::Ring, .. } => "ring",
            Self::Carrier { .. } => "carrier",
            Self::In { station, .. } => match station {
                Station::Stack => "stack",
                Station::StackAndDriver => "stack_and_driver",
                Station::Known(known) => known.name(),
                Station::DeviceQueue { .. } => "device_queue",
                Station::Socket { .. } => "socket",
            },
        }
    }
}
