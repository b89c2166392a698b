//! What the objects of a trace did in all: processes, disks and who used them, queueing
//! disciplines, peers, locks, interrupts, vCPUs.

use std::{cmp::Ordering, collections::BTreeMap};

use xweave_trace::Damaged;

pub use crate::{accounting::states::States, interrupt::Interrupt, recorded::Groups};
use crate::{exit::ExitReason, objects::ObjectGroup};

/// Kinds of objects, and what their figures mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum UsageKind {
    /// A disk. Time: it had at least one access; count: accesses that it was given, after merging; wait: those of
    /// all accesses for the disk.
    Disk,
    /// A disk as used by the processes of a name. Time: what their accesses took of the disk's, each from its being
    /// given or the end of the one before, whichever is later; else as of a disk.
    DiskUser,
    /// A guest's exits for a reason. Time: what its vCPUs' threads ran in the host until they were back in the guest,
    /// unless they were halted meanwhile.
    Exit,
    /// Interrupts of a number. Time: without those above them.
    Interrupt,
    /// Locks that processes of a name waited for. Time: waiting.
    Lock,
    /// The other ends of a domain's connections to a port. Wait: for what was received; count: of sends and receives.
    Peer,
    /// The threads of all processes of a name. Time: running, interrupts above them included; wait: ready, another
    /// thread having the processor; count: how often they were given one.
    Process,
    /// A queueing discipline of a network device. Time: at least one frame was seen to wait in it; wait: of all frames; count:
    /// frames that came out.
    Qdisc,
    /// What a domain serves at a port. Count: of sends and receives.
    Service,
    /// A vCPU. Time: inside the guest; wait: halted; count: exits.
    Vcpu,
}

impl UsageKind {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An object that has figures, within its domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UsageObject {
    /// A disk, by its name.
    Disk(String),
    /// A disk as used by such processes.
    DiskUser {
        /// The processes.
        user: ObjectGroup,
        /// The disk's name.
        disk: String,
    },
    /// Exits of a virtual machine's vCPUs.
    Exits {
        /// For this reason.
        reason: ExitReason,
        /// The vCPUs; where the guest is not known, the processes that run it.
        of: ObjectGroup,
    },
    /// Interrupts.
    Interrupt(Interrupt),
    /// Locks that such processes waited for.
    Locks(ObjectGroup),
    /// The other ends of connections to a port; of the recorder's, to all.
    Peer(Option<u16>),
    /// The processes of a name.
    Process(ObjectGroup),
    /// A queueing discipline.
    Qdisc {
        /// Its kind: `tbf`.
        kind: String,
        /// The network device's name.
        device: String,
    },
    /// What is served at a port; by the recorder, at all.
    Service(Option<u16>),
    /// A vCPU.
    Vcpu {
        /// Its number.
        number: u64,
        /// The guest's vCPUs; where that is not known, the processes that run it.
        of: ObjectGroup,
    },
}

impl UsageObject {
    /// The kind of object that it is.
    pub fn kind(&self) -> UsageKind {
        match self {
            Self::Disk(_) => UsageKind::Disk,
            Self::DiskUser { .. } => UsageKind::DiskUser,
            Self::Exits { .. } => UsageKind::Exit,
            Self::Interrupt(_) => UsageKind::Interrupt,
            Self::Locks(_) => UsageKind::Lock,
            Self::Peer(_) => UsageKind::Peer,
            Self::Process(_) => UsageKind::Process,
            Self::Qdisc { .. } => UsageKind::Qdisc,
            Self::Service(_) => UsageKind::Service,
            Self::Vcpu { .. } => UsageKind::Vcpu,
        }
    }

    /// The threads or processes that it is, or is about, if there are such.
    pub fn group(&self) -> Option<&ObjectGroup> {
        match self {
            Self::DiskUser { user: group, .. }
            | Self::Exits { of: group, .. }
            | Self::Locks(group)
            | Self::Process(group)
            | Self::Vcpu { of: group, .. } => Some(group),
            Self::Disk(_) | Self::Interrupt(_) | Self::Peer(_) | Self::Qdisc { .. } | Self::Service(_) => {
                None
            }
        }
    }

    /// Whether it is the recorder's own.
    pub fn is_recorders(&self) -> bool {
        match self {
            Self::Peer(port) | Self::Service(port) => port.is_none(),
            _ => self.group().is_some_and(ObjectGroup::is_recorders),
        }
    }
}

/// What tells an object from others, in whatever trace. In the order of kinds, then of domains.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The domain's name.
    pub domain: String,
    /// Which of its objects.
    pub object: UsageObject,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.kind(), &self.domain, &self.object).cmp(&(other.kind(), &other.domain, &other.object))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Key {
    /// The kind of object.
    pub fn kind(&self) -> UsageKind {
        self.object.kind()
    }
}

/// What an object did. What that means for each kind is said at [`UsageKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How long it worked, in nanoseconds.
    pub time_ns: u64,
    /// How often.
    pub count: u64,
    /// How much data.
    pub bytes: u64,
    /// Disks: how much of it was written.
    pub written: u64,
    /// How long was waited, for a processor or for the object, in nanoseconds. Sums of many that wait at a time may
    /// be longer than the trace.
    pub wait_ns: u64,
    /// Disks: sums of the times from an access's being given to its being done, in nanoseconds.
    pub device_ns: u64,
    /// Disks: bytes between the end of an access and the beginning of the next, either way.
    pub distance: u64,
}

impl Figures {
    /// Adds what another object, or the same at another time, did.
    pub fn add(&mut self, other: &Self) {
        let Self { time_ns, count, bytes, written, wait_ns, device_ns, distance } = *other;
        for (sum, more) in [
            (&mut self.time_ns, time_ns),
            (&mut self.count, count),
            (&mut self.bytes, bytes),
            (&mut self.written, written),
            (&mut self.wait_ns, wait_ns),
            (&mut self.device_ns, device_ns),
            (&mut self.distance, distance),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// How long some processes were ready for a processor that others had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The domain.
    pub domain: String,
    /// Who waited: as a [`UsageKind::Process`].
    pub who: ObjectGroup,
    /// Who had the processor: other processes, or the same; [`ObjectGroup::Others`], where there are too many to tell apart.
    pub by: ObjectGroup,
    /// How long, in nanoseconds: of all threads that waited.
    pub ns: u64,
}

/// When objects did what they did: in each of equal times, one after the other, processes how long they ran, users of
/// disks how long these worked for them, queueing disciplines how long frames waited in them, services and peers how many
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverTime {
    /// When the first of the times begins, in nanoseconds.
    pub begin_ns: i64,
    /// How long each is.
    pub bin_ns: u64,
    /// As many values of each object.
    pub series: BTreeMap<Key, Vec<u64>>,
}

/// What the objects of a trace did.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Each object's figures, in the order of their keys.
    pub objects: BTreeMap<Key, Figures>,
    /// Who had the processors that others were ready for, by domain and who waited; who had them longest first.
    pub waited: Vec<Waited>,
    /// The states of threads, by domain.
    pub states: BTreeMap<String, States>,
    /// Time from the first event to the last, in nanoseconds.
    pub span_ns: u64,
    /// The same of each domain.
    pub spans: BTreeMap<String, u64>,
    /// Processors that were seen, by domain.
    pub cpus: BTreeMap<String, u32>,
    /// The groups of events that were recorded, by domain.
    pub recorded: Groups,
    /// How long threads ran on each of these, in nanoseconds, by domain and logical CPU: together what its processes ran.
    pub busy: BTreeMap<String, BTreeMap<u32, u64>>,
    /// Events.
    pub events: u64,
    /// When they did it, if that was asked for: [`Usage::of_times`].
    pub over_time: Option<OverTime>,
    /// Files that could not be read, or not to their ends.
    pub damaged: Vec<Damaged>,
}
