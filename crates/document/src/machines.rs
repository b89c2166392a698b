//! The document of `xweave explain --machines`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::parts::RoleFields;

/// What machines did.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Machines {
    /// Time from the first event to the last, in nanoseconds.
    pub span_ns: u64,
    /// Number of events.
    pub events: u64,
    /// Domains with events.
    pub domains: Vec<MachineDomain>,
    /// Objects of the domains.
    pub objects: Vec<MachineObject>,
    /// Times that threads were ready for a CPU that others had.
    pub waited: Vec<Waited>,
    /// Times that virtual machines and programs were kept waiting for CPUs, and by whom: what is telling first (another one
    /// took at least a tenth of what it waited), of these virtual machines that waited, and who took more CPU time than its victim;
    /// then the longest.
    pub blame: Vec<BlamePair>,
}

/// A domain with events.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MachineDomain {
    /// Name.
    pub domain: String,
    /// CPUs that were seen.
    pub cpus: u32,
    /// Time that threads ran, by CPU.
    pub busy: Vec<BusyCpu>,
    /// States of its threads, and the transitions between them.
    pub states: States,
    /// Time from its first event to its last, in nanoseconds.
    pub span_ns: u64,
}

/// A CPU.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BusyCpu {
    /// Logical CPU.
    pub cpu: u32,
    /// Time that threads ran on it, in nanoseconds.
    pub ns: u64,
}

/// States of a domain's threads, and the transitions between them. Times are sums over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct States {
    /// Time running, in nanoseconds.
    pub running_ns: u64,
    /// Time ready, until the threads ran.
    pub ready_ns: u64,
    /// Time waiting, until the threads were woken.
    pub waiting_ns: u64,
    /// Transitions from ready to running.
    pub dispatched: u64,
    /// Transitions from running to ready.
    pub preempted: u64,
    /// Transitions from running to waiting.
    pub blocked: u64,
    /// Transitions from waiting to ready.
    pub woken: u64,
    /// Threads that began: ready.
    pub began: u64,
    /// Threads that ended: they ran before.
    pub ended: u64,
}

/// An object of a domain. The figures' meaning depends on the kind: see docs/compare.md.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MachineObject {
    /// Kind: `process`, `disk`, `disk_user`, `peer`, `service`, `qdisc`, `lock`, `interrupt`, `vcpu` or
    /// `exit`.
    pub kind: &'static str,
    /// Domain.
    pub domain: String,
    /// Object, in words.
    pub object: String,
    /// Time that it worked, in nanoseconds.
    pub time_ns: u64,
    /// Number of times that it worked.
    pub count: u64,
    /// Bytes that it transferred.
    pub bytes: u64,
    /// Bytes among these that were written to a disk.
    pub written_bytes: u64,
    /// Time waited for a CPU, or for the object, in nanoseconds.
    pub wait_ns: u64,
    /// Of disks: sum of the I/O requests' times in the disk, in nanoseconds.
    pub device_ns: u64,
    /// What the threads are for.
    #[serde(flatten)]
    pub role: Option<RoleFields>,
}

/// Time that threads were ready for a CPU that others had.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Waited {
    /// Domain.
    pub domain: String,
    /// Threads that waited.
    pub object: String,
    /// Threads that had the CPU: others, or the same; `others` if there are too many to tell apart.
    pub by: String,
    /// Guest that these are for; absent if they are for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_guest: Option<String>,
    /// Time, in nanoseconds.
    pub ns: u64,
}

/// Time that a virtual machine or a program waited for CPUs that one had.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BlamePair {
    /// Domain.
    pub domain: String,
    /// What waited, in words: a virtual machine with all its threads, or a program.
    pub victim: String,
    /// The virtual machine that waited; absent if it was a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim_guest: Option<String>,
    /// What had the CPUs, in words.
    pub culprit: String,
    /// The virtual machine that had them; absent if it was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit_guest: Option<String>,
    /// Whether it is worth telling before all else.
    pub telling: bool,
    /// What the culprit is to the victim: `neighbour`, `recorder`, `own` (other threads of the same) or `unknown`.
    pub relation: &'static str,
    /// Time that the victim's threads were ready and the culprit's ran, in nanoseconds: a sum over threads.
    pub ns: u64,
    /// Time that the victim's threads were ready in all.
    pub waited_ns: u64,
    /// Time that the culprit's threads ran in all.
    pub ran_ns: u64,
}
