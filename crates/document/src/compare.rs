//! The document of `xweave compare`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::{parts::RoleFields, value::Pair};

/// The document. Pairs have the figure of the first run and that of the second.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Compare {
    /// Time from the first event to the last, in nanoseconds.
    pub span_ns: Pair,
    /// Time that the second run took longer; negative if it took less.
    pub difference_ns: i64,
    /// Number of events.
    pub events: Pair,
    /// Groups of events that only one run has; absent if there are none. None of their objects is compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutEvents>,
    /// Objects of both runs.
    pub objects: Vec<ComparedObject>,
    /// Findings, those that explain most first, those that may be idle time last; empty if nothing differs beyond noise.
    pub findings: Vec<CompareFinding>,
}

/// A group of events that one of two runs lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LeftOutEvents {
    /// Group: `sched`, `block`, `net` or `vm`.
    pub events: &'static str,
    /// Run that lacks it: 0 or 1.
    pub missing_in: usize,
    /// Domains of which it lacks it.
    pub domains: Vec<String>,
}

/// An object of both runs; one that a run does not have has done nothing in it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ComparedObject {
    /// Object, in words.
    pub object: String,
    /// Kind: `process`, `disk`, `disk_user`, `peer`, `service`, `qdisc`, `lock`, `interrupt`, `vcpu` or
    /// `exit`.
    pub kind: &'static str,
    /// Domain.
    pub domain: String,
    /// Time that it worked, in nanoseconds.
    pub time_ns: Pair,
    /// Number of times that it worked.
    pub count: Pair,
    /// Bytes that it transferred.
    pub bytes: Pair,
    /// Time waited for a CPU, or for the object, in nanoseconds.
    pub wait_ns: Pair,
    /// Of disks: sum of the I/O requests' times in the disk, in nanoseconds.
    pub device_ns: Pair,
    /// Of disks: sum of the distances between the end of an I/O request and the start of the next, in bytes.
    pub seek_bytes: Pair,
    /// What the threads are for.
    #[serde(flatten)]
    pub role: Option<RoleFields>,
}

/// A finding: something that explains a difference.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CompareFinding {
    /// Kind of the change.
    pub what: &'static str,
    /// Domain of the object.
    pub domain: String,
    /// Object, in words.
    pub object: String,
    /// Kind of the object.
    pub kind: &'static str,
    /// Upper bound of its share of `difference_ns`: of the same sign and never larger; 0 if the change is in the other
    /// direction. Times of objects that work at once overlap, so findings do not sum to the difference.
    pub explained_ns: i64,
    /// Time that the second run has more of it; negative if it has less.
    pub changed_ns: i64,
    /// Whether it is a wait that may be idle time, or a consequence of other findings.
    pub may_be_idle: bool,
    /// Finding, in words.
    pub text: String,
}
