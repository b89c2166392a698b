//! What the objects of a trace did in all: processes, disks and who used them, peers, locks, interrupts, vCPUs.

use std::collections::BTreeMap;

use serde::Serialize;
use xweave_trace::Damaged;

pub use crate::accounting::states::States;
use crate::recorded::Groups;

/// The kinds of objects, as documents call them.
pub mod kind {
    /// The threads of all processes of a name. Time: running, interrupts above them included; wait: ready, another
    /// thread having the processor; count: how often they were given one.
    pub const PROCESS: &str = "process";
    /// A disk. Time: it had at least one access; count: accesses that it was given, after merging; wait: those of
    /// all accesses for the disk.
    pub const DISK: &str = "disk";
    /// A disk as used by the processes of a name. Time: what their accesses took of the disk's, each from its being
    /// given or the end of the one before, whichever is later; else as of a disk.
    pub const USE: &str = "disk_user";
    /// The other ends of a domain's connections to a port. Wait: for what was received; count: of sends and receives.
    pub const PEER: &str = "peer";
    /// What a domain serves at a port. Count: of sends and receives.
    pub const SERVICE: &str = "service";
    /// Locks that processes of a name waited for. Time: waiting.
    pub const LOCK: &str = "lock";
    /// Interrupts of a number. Time: without those above them.
    pub const INTERRUPT: &str = "interrupt";
    /// A vCPU. Time: inside the guest; wait: halted; count: exits.
    pub const VCPU: &str = "vcpu";
    /// A guest's exits for a reason. Time: what its vCPUs' threads ran in the host until they were back in the guest,
    /// unless they were halted meanwhile.
    pub const EXIT: &str = "exit";
}

/// What tells an object from others, in whatever trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// One of [`kind`].
    pub kind: &'static str,
    /// The domain's name.
    pub domain: String,
    /// What it is called there.
    pub object: String,
}

/// What an object did. What that means for each kind is said at [`kind`].
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

/// Who had a processor, where there are too many to tell apart.
pub const OTHERS: &str = "others";

/// How long some processes were ready for a processor that others had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waited {
    /// The domain.
    pub domain: String,
    /// Who waited: the object of a [`kind::PROCESS`].
    pub object: String,
    /// Who had the processor: another one, or the same, or [`OTHERS`].
    pub by: String,
    /// How long, in nanoseconds: of all threads that waited.
    pub ns: u64,
}

/// When objects did what they did: in each of equal times, one after the other, processes how long they ran, users of
/// disks how long these worked for them, services and peers how many bytes.
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
