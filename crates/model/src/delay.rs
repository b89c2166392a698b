//! What kept transactions, and who kept them: classes of what their time was spent on.

use crate::{
    breakdown::TimeState,
    exit::ExitReason,
    objects::{DomainRef, ObjectGroup},
};

/// What kept transactions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Delay {
    /// In which way.
    pub kind: DelayKind,
    /// Where: the domain whose time it was; of what lies between two, both.
    pub domain: DomainRef,
    /// Whom: those that waited for a CPU, or were out of their guest. Of others, who kept them are [offenders](Offender).
    pub whom: Option<ObjectGroup>,
    /// What they waited for meanwhile, if that is known.
    pub awaited: Option<Awaited>,
}

/// Ways of being kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DelayKind {
    /// Something else had the CPU.
    CpuWait,
    /// Something ran for it.
    Running,
    /// It was under way between two domains, or sent again.
    Network,
    /// A disk had it, or its queue.
    Disk,
    /// The hypervisor worked for a vCPU.
    Exits,
    /// What else the time was spent on.
    Other(TimeState),
}

impl DelayKind {
    /// As documents call it: `cpu_wait`, `running`, `network`, `disk`, `exits`; of all else, the state's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuWait => "cpu_wait",
            Self::Running => "running",
            Self::Network => "network",
            Self::Disk => "disk",
            Self::Exits => "exits",
            Self::Other(spent) => spent.name(),
        }
    }
}

/// What a thread waited for within a call of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Awaited {
    /// The other end of a pipe.
    Pipe,
    /// A page of a file.
    PageFault,
    /// A page that was swapped out.
    SwapIn,
}

/// Who kept transactions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Offender {
    /// Objects: who had the CPU, who ran, which disk.
    Objects(ObjectGroup),
    /// A vCPU's exits for this reason.
    Exits(ExitReason),
}

impl Offender {
    /// The objects, if it is some.
    pub fn objects(&self) -> Option<&ObjectGroup> {
        match self {
            Self::Objects(group) => Some(group),
            Self::Exits(_) => None,
        }
    }
}
