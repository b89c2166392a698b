//! Lives of processes and threads, by program: a part of the document of `xweave explain`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Lives of a program. `on_cpu_ns` to `unknown_ns` sum to `elapsed_ns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Lives {
    /// Domain.
    pub domain: String,
    /// Name of the program at the end of the lives.
    pub program: String,
    /// Number of lives.
    pub lives: u64,
    /// Time from the first one's beginning to the last one's end, in nanoseconds.
    pub span_ns: u64,
    /// Sum of their times.
    pub elapsed_ns: u64,
    /// Shortest life.
    pub min_ns: u64,
    /// Longest life.
    pub max_ns: u64,
    /// Time on a CPU, with the interrupts above it.
    pub on_cpu_ns: u64,
    /// Time ready for a CPU that others had, or that was waking up or withheld.
    pub ready_ns: u64,
    /// Time waiting for a disk.
    pub disk_ns: u64,
    /// Time waiting for data in transit, or for a peer without events.
    pub network_ns: u64,
    /// Time waiting for a lock of the kernel.
    pub lock_ns: u64,
    /// Time waiting for other threads that ran, were ready or waited for something else than the above.
    pub others_ns: u64,
    /// In a guest: time in which the host had the vCPU, or the vCPU was halted.
    pub host_ns: u64,
    /// Time waiting for a point in time or for something without an event, or stopped.
    pub waiting_ns: u64,
    /// Time in which the state is not known.
    pub unknown_ns: u64,
    /// Time on a CPU in user space, with the faults there; absent if system calls were not recorded of all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_ns: Option<u64>,
    /// Rest of the time on a CPU: in system calls and interrupts; absent with `user_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_ns: Option<u64>,
}
