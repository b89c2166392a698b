//! Transactions by size, and by the places that they pass: parts of the document of `xweave explain`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::parts::{Cause, Total};
#[cfg(test)]
use crate::value::Id;

/// Distribution of the times of transactions.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct TransactionTimes {
    /// Sum, in nanoseconds.
    pub total_ns: u64,
    /// Median; null if there is no transaction.
    pub p50_ns: Option<u64>,
    /// 99th percentile; null if there is no transaction.
    pub p99_ns: Option<u64>,
    /// Longest; null if there is no transaction.
    pub max_ns: Option<u64>,
}

/// Figures of transactions of similar sizes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SizeFigures {
    /// Fewest bytes, sent and received, of one of them.
    #[cfg_attr(test, schemars(with = "Id"))]
    pub least_bytes: u64,
    /// Most bytes of one of them.
    #[cfg_attr(test, schemars(with = "Id"))]
    pub most_bytes: u64,
    /// Number of transactions.
    pub transactions: u64,
    /// Bytes that all of them sent.
    pub sent_bytes: u64,
    /// Bytes that all of them received.
    pub received_bytes: u64,
    /// Their times.
    #[serde(flatten)]
    pub times: TransactionTimes,
}

/// Transactions of similar sizes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Size {
    /// Number, sizes and times.
    #[serde(flatten)]
    pub figures: SizeFigures,
    /// Delays, the longest first.
    pub causes: Vec<Cause>,
}

/// A place that transactions pass.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Point {
    /// Place, as it was asked for.
    pub point: String,
    /// Number of times that it was passed.
    pub passed: u64,
    /// Number of times that it was passed by what had passed the places before; of the first one, all times.
    pub reached: u64,
}

/// Stretch from a place to the next.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct IntervalFigures {
    /// Place where it begins.
    pub from: String,
    /// Place where it ends.
    pub to: String,
    /// Times between the two. The sums of all intervals add up to that of the transactions.
    #[serde(flatten)]
    pub times: TransactionTimes,
}

/// Transactions between a place and the next.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Interval {
    /// Places and times.
    #[serde(flatten)]
    pub figures: IntervalFigures,
    /// Delays, the longest first.
    pub causes: Vec<Cause>,
    /// Objects and states that the time was spent in, the longest first.
    pub parts: Vec<Total>,
}
