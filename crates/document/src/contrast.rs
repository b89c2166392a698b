//! The document of `xweave compare --transaction`: two groups of transactions, and where their difference lies.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    compare::LeftOutEvents,
    parts::{RoleFields, StateFields},
    value::{Id, Pair},
};

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Contrast {
    /// Kind of the transactions, as `--transaction` takes it.
    pub transaction: String,
    /// Sides and their difference.
    #[serde(flatten)]
    pub figures: ContrastFigures,
    /// Delays, the largest change first; their `ns` sum to the means of the sides.
    pub causes: Vec<ContrastCause>,
    /// Objects and states that the time was spent in, the largest change first.
    pub parts: Vec<ContrastPart>,
}

/// Two sides and their difference.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ContrastFigures {
    /// Sides: typical and slow, or the first run and the second.
    pub sides: [ContrastSide; 2],
    /// Difference of the means, second minus first, in nanoseconds.
    pub difference_ns: i64,
    /// Standard error of the difference.
    pub error_ns: u64,
    /// Whether the difference is beyond noise.
    pub differs: bool,
    /// Groups of events that only one of two runs has; absent if there are none. What they tell is another state in the other
    /// run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutEvents>,
}

/// A side.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ContrastSide {
    /// Transactions of the side: `the middle half`, `the slowest tenth`, `the slowest quarter`.
    pub of: String,
    /// Number of transactions of the run.
    pub transactions: u64,
    /// Number of these that are on the side.
    pub chosen: u64,
    /// Mean time of the side, in nanoseconds.
    pub mean_ns: u64,
    /// Median of the run.
    pub p50_ns: u64,
    /// 99th percentile of the run.
    pub p99_ns: u64,
    /// ID of a transaction with the median time of the side.
    pub example: Id,
}

/// A delay, in means of each side.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ContrastCause {
    /// Delay, in words.
    pub what: String,
    /// Kind of the delay, as in `explain`.
    pub kind: &'static str,
    /// Time, in nanoseconds.
    pub ns: Pair,
    /// Difference, second minus first.
    pub difference_ns: i64,
    /// Standard error of the difference.
    pub error_ns: u64,
    /// Whether the difference is beyond noise.
    pub differs: bool,
    /// Objects behind it as far as they are known, the largest change first.
    pub by: Vec<ContrastOffender>,
}

/// An object behind a delay.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ContrastOffender {
    /// Threads of a name, the vCPUs of a guest, a disk.
    pub who: String,
    /// Time, in nanoseconds.
    pub ns: Pair,
    /// Difference, second minus first.
    pub difference_ns: i64,
    /// What the threads are for.
    #[serde(flatten)]
    pub role: Option<RoleFields>,
}

/// Time spent in one state, in means of each side.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ContrastPart {
    /// Objects, state and reason.
    #[serde(flatten)]
    pub state: StateFields,
    /// Time, in nanoseconds; all parts of a side sum to its mean.
    pub ns: Pair,
    /// Difference, second minus first.
    pub difference_ns: i64,
    /// Number of transactions that had any of it.
    pub transactions: Pair,
}
