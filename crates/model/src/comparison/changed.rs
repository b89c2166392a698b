//! What changed of an object from one trace to the other: figures of the first and of the second.

use crate::usage::{Figures, UsageKind};

/// A change. Times are in nanoseconds, sizes and distances in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Changed {
    /// A disk was used in one of the traces only.
    UsedInOne {
        /// Whether in the second.
        in_second: bool,
        /// What it did there.
        figures: Figures,
    },
    /// A disk was given another amount of data.
    Data([u64; 2]),
    /// A disk was given the data in other requests.
    Requests {
        /// How many there would have been of the first trace's size.
        of_same_size: f64,
        /// How many there were.
        requests: u64,
        /// Their mean sizes.
        sizes: [f64; 2],
        /// Whether the amount of data changed as well.
        other_data: bool,
    },
    /// Another number of requests was in a disk at a time.
    Overlap {
        /// How many, in the mean.
        under_way: [f64; 2],
        /// Mean time of a request in the second trace.
        device_ns: f64,
    },
    /// A disk's request took another time.
    Service {
        /// In the mean.
        device_ns: [f64; 2],
        /// What that goes with.
        with: ServiceChange,
    },
    /// Requests waited for a disk for another time.
    Queueing {
        /// In the mean.
        wait_ns: [f64; 2],
        /// How many waited at a time, in the mean.
        waiting: [f64; 2],
    },
    /// Processes ran for another time.
    Ran {
        /// How long.
        ns: [u64; 2],
        /// How often they were switched in.
        switched_in: [u64; 2],
    },
    /// Processes were ready for another time.
    RunQueue {
        /// How long.
        ns: [u64; 2],
        /// The share of the domain's CPUs that was busy.
        busy: [f64; 2],
    },
    /// A vCPU was halted for another time.
    Halted([u64; 2]),
    /// A lock or peer was waited for, or exits or interrupts took, another time.
    Took {
        /// How long.
        ns: [u64; 2],
        /// How often.
        count: [u64; 2],
    },
}

/// What else changed where a disk's requests took another time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServiceChange {
    /// Their mean distance.
    Distance([f64; 2]),
    /// Their mean size.
    Size([f64; 2]),
    /// Neither: it is the disk, or what else uses it.
    Nothing,
}

/// Classes of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ChangeKind {
    /// Another amount of data.
    Data,
    /// Exits took another time.
    Exits,
    /// A vCPU was halted for another time.
    Halted,
    /// Interrupts took another time.
    Interrupts,
    /// A lock was waited for.
    Lock,
    /// Requests overlapped otherwise.
    Overlap,
    /// A peer was waited for.
    Peer,
    /// Processes ran.
    Processor,
    /// Frames waited in a queueing discipline.
    Qdisc,
    /// Requests waited for a disk.
    Queueing,
    /// The same data in other requests.
    Requests,
    /// Processes were ready.
    RunQueue,
    /// A disk moved farther.
    Seeking,
    /// A disk's requests took another time.
    Service,
}

impl ChangeKind {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Changed {
    /// The class of a change of such an object.
    pub fn kind(&self, of: UsageKind) -> ChangeKind {
        match self {
            Self::UsedInOne { .. } | Self::Data(_) => ChangeKind::Data,
            Self::Requests { .. } => ChangeKind::Requests,
            Self::Overlap { .. } => ChangeKind::Overlap,
            Self::Service { with: ServiceChange::Distance(_), .. } => ChangeKind::Seeking,
            Self::Service { .. } => ChangeKind::Service,
            Self::Queueing { .. } => ChangeKind::Queueing,
            Self::Ran { .. } => ChangeKind::Processor,
            Self::RunQueue { .. } => ChangeKind::RunQueue,
            Self::Halted(_) => ChangeKind::Halted,
            Self::Took { .. } => match of {
                UsageKind::Lock => ChangeKind::Lock,
                UsageKind::Peer => ChangeKind::Peer,
                UsageKind::Qdisc => ChangeKind::Qdisc,
                UsageKind::Exit => ChangeKind::Exits,
                _ => ChangeKind::Interrupts,
            },
        }
    }
}
