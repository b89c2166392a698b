//! The document of `xweave explain`: `schema`, the kind of `transaction`, the `transactions` as they are found, a `summary`,
//! and the same divided. It is written member by member, because a trace may have more transactions than memory holds. Of a
//! trace without flows and requests, where no kind was asked for, it has `machines` too.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

#[cfg(test)]
use crate::value::Id as LargeNumber;
use crate::{
    divided::{Interval, Point, Size, TransactionTimes},
    lives::Lives,
    parts::{Cause, Part, ServiceRequests, Total, UnusedRequests},
    value::{Id, Time},
};

/// Members of the document that are about all transactions.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Explain {
    /// All transactions.
    pub summary: Summary,
    /// Other services, whose requests are not among these, the one with the most first; absent if a kind was asked for, or if
    /// there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_services: Vec<ServiceRequests>,
    /// The same by the bytes they carried, the smallest first; empty if no transaction's bytes are known.
    pub sizes: Vec<Size>,
    /// Places that they passed, in turn; absent unless several were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Vec<Point>>,
    /// Stretches between these, in turn; absent without `points`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Vec<Interval>>,
    /// Processes and threads by program; absent for other kinds of transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lives: Option<Vec<Lives>>,
}

/// A transaction, broken down.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Transaction {
    /// Number in the trace, from 1; of a flow, its ID.
    pub id: Id,
    /// Name.
    pub name: String,
    /// Domain that it ended in.
    pub domain: String,
    /// Beginning.
    pub start_ns: Time,
    /// Time that it took: the sum of its parts.
    pub total_ns: i64,
    /// Bytes that it sent, or wrote to a disk; absent if they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Bytes that it received, or read from a disk; absent if they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
    /// Times when it passed its places; absent if these are two only. The page's program does not make them relative.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "Vec<LargeNumber>"))]
    pub points_ns: Vec<i64>,
    /// Objects and states that its time was spent in, the longest first.
    pub parts: Vec<Part>,
    /// Its time in order and without gaps; absent unless one transaction was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
}

/// A piece of a transaction's time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Step {
    /// Beginning.
    pub t_ns: Time,
    /// Length, in nanoseconds.
    pub ns: i64,
    /// Domain whose time it was.
    pub domain: String,
    /// Object that took it.
    pub object: String,
    /// State of the object.
    pub state: &'static str,
    /// Number of objects, each waiting for the next, that waited for this one.
    pub depth: u8,
    /// Reason, in words; null if it is not known.
    pub why: Option<String>,
}

/// Figures of all transactions of a kind, including those that are not listed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SummaryFigures {
    /// Number of transactions.
    pub transactions: u64,
    /// Events of the trace.
    pub events: u64,
    /// I/O requests of disks.
    pub accesses: u64,
    /// I/O requests whose completion is not in the trace: who waited for one is not known to have waited for the disk.
    pub incomplete_ios: u64,
    /// Times of the transactions.
    #[serde(flatten)]
    pub times: TransactionTimes,
    /// Events that were lost, in all domains.
    pub lost: u64,
    /// Records and events that arrived and could not be stored.
    pub unwritten: u64,
    /// Whether the transactions are those of incomplete flows, as there is no complete one.
    pub incomplete_flows: bool,
    /// Transactions between two places that are left out, because events were lost that may have told of either.
    pub uncertain: u64,
    /// Requests by datagrams without an answer in the trace; they are no transactions.
    pub unanswered: u64,
    /// Numbers of other requests that are no transactions, by why.
    pub unused: UnusedRequests,
}

/// All transactions of a kind.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Summary {
    /// Figures.
    #[serde(flatten)]
    pub figures: SummaryFigures,
    /// Delays, the longest first.
    pub causes: Vec<Cause>,
    /// Objects and states that the time was spent in, the longest first.
    pub parts: Vec<Total>,
    /// Lost events by domain; domains that lost none are left out.
    pub losses: Vec<LossOfDomain>,
    /// Domains of which events have a later time than their own.
    pub late: Vec<LateEvents>,
    /// Guests with events while their vCPU was outside: their CPUs are not the vCPUs that they are taken for.
    pub outside: Vec<OutsideEvents>,
    /// Files that could not be read, or not to their ends.
    pub damaged: Vec<String>,
}

/// Events of a domain that have a later time than their own, because later ones had been written before.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LateEvents {
    /// Domain.
    pub domain: String,
    /// Number of events.
    pub events: u64,
    /// Largest difference, in nanoseconds.
    pub most_ns: u64,
}

/// Events of a guest that contradict its host's.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct OutsideEvents {
    /// Guest.
    pub domain: String,
    /// Events while the vCPU was outside the guest.
    pub outside: u64,
    /// All events that were checked.
    pub events: u64,
}

/// Events that a domain lost.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LossOfDomain {
    /// Domain.
    pub domain: String,
    /// Number of events.
    pub events: u64,
    /// Events among them that were lost at an unknown time.
    pub untimed: u64,
    /// CPUs that lost some at known times.
    pub cpus: Vec<LossOfCpu>,
    /// When its recording ended, in nanoseconds, if that was before the others': nothing is known of the time from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<LargeNumber>"))]
    pub ended_ns: Option<i64>,
}

/// Events that a CPU lost.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LossOfCpu {
    /// Logical CPU.
    pub cpu: u32,
    /// Number of events, as far as they were counted.
    pub events: u64,
    /// Number of gaps.
    pub gaps: u64,
    /// Beginning of the first gap, in nanoseconds.
    #[cfg_attr(test, schemars(with = "LargeNumber"))]
    pub from_ns: i64,
    /// End of the last gap.
    #[cfg_attr(test, schemars(with = "LargeNumber"))]
    pub to_ns: i64,
    /// Length of all gaps.
    pub ns: u64,
}
