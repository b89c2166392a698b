//! Use of CPUs, disks, connections and queueing disciplines over time.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::value::{Cut, Time};

/// Use over time, in bins of equal length.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Usage {
    /// Beginning of the first bin.
    pub start_ns: Time,
    /// Length of a bin, in nanoseconds.
    pub bin_ns: u64,
    /// Domains.
    pub domains: Cut<DomainUsage>,
}

/// Use of a domain's CPUs, disks, connections and queueing disciplines. Of each, the objects that used most, and all others together.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DomainUsage {
    /// Domain.
    pub domain: String,
    /// Time from its first event to its last, in nanoseconds.
    pub span_ns: u64,
    /// Number of CPUs; null if none was seen.
    pub cpus: Option<u32>,
    /// Time that processes ran, in nanoseconds.
    pub processes: Vec<Series>,
    /// Time that disks worked for processes, in nanoseconds.
    pub disks: Vec<Series>,
    /// Bytes sent and received.
    pub connections: Vec<Series>,
    /// Time that queueing disciplines held frames back, in nanoseconds.
    pub qdiscs: Vec<Series>,
}

/// Use by one object.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Series {
    /// Object, in words; null for all others.
    pub object: Option<String>,
    /// Guest whose vCPUs the object is; null if it is something else.
    pub vcpus_of: Option<String>,
    /// Values by bin.
    pub values: Vec<u64>,
    /// Number of other objects; absent unless the entry is for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<usize>,
}
