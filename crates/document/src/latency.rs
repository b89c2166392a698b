//! The document of `xweave latency`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::value::Bin;

/// How long calls of functions took.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Latencies {
    /// Calls of all functions together.
    #[serde(flatten)]
    pub all: CallTimes,
    /// Calls by function, those first that took longest in all.
    pub functions: Vec<FunctionLatency>,
    /// Number of calls that the recorder's own processes made: they are not counted.
    pub recorder_calls: u64,
    /// Number of calls without a beginning or an end in the recording: they are not counted.
    pub partial_calls: u64,
    /// Number of records that were lost: calls next to a loss may be missing, or too long.
    pub lost: u64,
}

/// Calls of a function in a domain.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FunctionLatency {
    /// Domain.
    pub domain: String,
    /// Function.
    pub function: String,
    /// How long they took.
    #[serde(flatten)]
    pub times: CallTimes,
}

/// How long calls took, in nanoseconds; all 0 if there were none.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CallTimes {
    /// Number of calls.
    pub calls: u64,
    /// Time of all of them together.
    pub total_ns: u64,
    /// Shortest.
    pub min_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Longest.
    pub max_ns: i64,
    /// Number of calls by their time: bins that have any, the shortest times first.
    pub histogram: Vec<Bin>,
}
