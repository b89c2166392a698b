//! The document of `xweave vary`: why the requests of a trace vary.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    parts::{Offender, ServiceRequests, UnusedRequests},
    value::{Id, Time},
};

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Vary {
    /// Kind of the requests, as `--transaction` takes it.
    pub transaction: String,
    /// Other services, whose requests are not among these, the one with the most first; absent if a kind was asked for, or if
    /// there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_services: Vec<ServiceRequests>,
    /// Figures of the requests.
    #[serde(flatten)]
    pub figures: VaryFigures,
    /// Segments of the requests' way, in turn.
    pub segments: Vec<VarySegment>,
    /// Causes, the largest share first.
    pub causes: Vec<VaryCause>,
    /// Settings that cost the requests time, the most first.
    pub settings: Vec<VarySetting>,
    /// With `--requests`, the requests that are looked at in the order of their beginnings; otherwise absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each: Option<Vec<VaryRequest>>,
}

/// Figures of requests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VaryFigures {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that are looked at: of very many, some, evenly spread.
    pub kept: u64,
    /// Numbers of other requests, which could not be used, by why.
    pub unused: UnusedRequests,
    /// A start that was slower; null if there is none. The rest is about the requests after it.
    pub startup: Option<VaryStartup>,
    /// Times of the requests.
    #[serde(flatten)]
    pub times: VaryTimes,
    /// Whether the requests vary little, to either side of the median; then no cause is named.
    pub steady: bool,
    /// Number of requests that took less than two thirds of the median.
    pub quicker: u64,
    /// Requests that took much longer than those around them.
    pub spikes: VarySpikes,
}

/// Distribution of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VaryTimes {
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Standard deviation.
    pub deviation_ns: u64,
}

/// A slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VaryStartup {
    /// Number of requests.
    pub requests: u64,
    /// Time from the first one's beginning, in nanoseconds.
    pub ns: u64,
    /// Median of their times.
    pub p50_ns: u64,
}

/// Requests that took much longer than those around them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VarySpikes {
    /// Number of runs of such requests, without an ordinary one among them.
    pub spikes: u64,
    /// Number of the requests.
    pub requests: u64,
    /// Share of the variance.
    pub share_of_variance: f64,
}

/// Share of the variation. Bounds contain the share in nine of ten recordings like this one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VaryShares {
    /// Share of the variance; all segments' sum to 1, and all causes'.
    pub share_of_variance: f64,
    /// Bounds of it.
    pub variance_bounds: [f64; 2],
    /// Share of what makes the slowest requests slower than the typical ones; all 0 if they are hardly slower.
    pub share_of_tail: f64,
    /// Bounds of it.
    pub tail_bounds: [f64; 2],
}

/// A segment of the requests' way.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VarySegment {
    /// Name: `request, ring host→vm1`, `server in vm1`.
    pub name: String,
    /// Median time there, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Share of the variation.
    #[serde(flatten)]
    pub shares: VaryShares,
    /// Times of the requests if each had been there as long as the median one.
    pub if_steady: VaryTimes,
    /// Number of other flows that requests found there; null if no flow tells.
    pub others: Option<VaryOthers>,
    /// Time of all requests there by state, in nanoseconds; states as in `xweave explain`.
    pub spent_ns: BTreeMap<&'static str, u64>,
}

/// Number of other flows that requests found in a segment: the depth of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VaryOthers {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Most.
    pub max: u64,
    /// Mean of the slowest requests.
    pub mean_in_tail: f64,
    /// Mean of typical requests.
    pub mean_typically: f64,
}

/// A cause of the variation.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VaryCause {
    /// Kind of the cause.
    pub kind: &'static str,
    /// Cause, in words.
    pub cause: String,
    /// Object behind the largest part of it; null if it is not known.
    pub by: Option<String>,
    /// Objects behind it, the most time first.
    pub offenders: Vec<Offender>,
    /// Number of requests that it delayed.
    pub requests: u64,
    /// Time of all of them, in nanoseconds.
    pub ns: u64,
    /// Segment in which the largest part of it was; null if there is none.
    pub segment: Option<String>,
    /// Share of the variation.
    #[serde(flatten)]
    pub shares: VaryShares,
    /// Whether it is surely a part of the variation worth naming.
    pub named: bool,
    /// Evidence, in words.
    pub evidence: Vec<String>,
    /// Remedy, in words; null if kernels of today have none, or requests would not be shorter with it.
    pub remedy: Option<String>,
    /// Gain of the remedy.
    pub gain: VaryGain,
    /// ID of the slowest request that it delayed most of its time, for `explain --id`.
    pub example: Id,
}

/// What is left of a cause after its remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Remedied {
    /// Nothing.
    Gone,
    /// As much in each request as in the median one.
    Steady,
}

/// Gain of a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VaryGain {
    /// What is left of the cause.
    pub remedied: Remedied,
    /// Time by which the median would be less, in nanoseconds; negative if it would be more.
    pub p50_ns: i64,
    /// Time by which the 99th percentile would be less; negative if it would be more.
    pub p99_ns: i64,
    /// Gain, in words; null if neither would be less.
    pub gain: Option<String>,
}

/// A setting that cost requests time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VarySetting {
    /// Setting, as a word.
    pub what: &'static str,
    /// Domain of the setting.
    pub domain: String,
    /// Setting, in words.
    pub setting: String,
    /// Value when the recording began.
    pub now: String,
    /// Time that it cost all requests, in nanoseconds.
    pub ns: u64,
    /// Number of requests that it cost any.
    pub requests: u64,
    /// Value to set instead.
    pub remedy: String,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct VaryRequest {
    /// Number, as of `xweave explain`.
    pub id: Id,
    /// Beginning.
    pub start_ns: Time,
    /// Time that it took, in nanoseconds.
    pub total_ns: u64,
    /// Times in the segments, in the order of these; they sum to `total_ns`.
    pub segments_ns: Vec<u64>,
    /// Number of other flows that it found in them; 0 if it was not there, or nothing tells.
    pub others: Vec<u64>,
}
