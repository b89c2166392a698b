//! Why requests vary: what `xweave vary` prints with `--json`, and the requests as columns for charts.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    value::{Cut, Id},
    vary::{VaryCause, VaryFigures, VarySegment, VarySetting},
};

/// Why requests vary.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageVariation {
    /// Kind of the requests, as `--transaction` takes it.
    pub transaction: String,
    /// Answer, in sentences.
    pub said: Vec<String>,
    /// Figures of the requests.
    #[serde(flatten)]
    pub figures: VaryFigures,
    /// Segments of the requests' way, in turn.
    pub segments: Cut<VarySegment>,
    /// Causes, the largest share first.
    pub causes: Cut<VaryCause>,
    /// Settings that cost the requests time, the most first.
    pub settings: Cut<VarySetting>,
    /// Requests.
    pub each: RequestColumns,
}

/// Requests as columns: the slowest one of each `every` consecutive requests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RequestColumns {
    /// Number of requests of which one is shown.
    pub every: usize,
    /// Place of each request shown in the order of all.
    pub number: Vec<usize>,
    /// Its ID.
    pub id: Vec<Id>,
    /// Time that it took, in nanoseconds.
    pub total_ns: Vec<u64>,
    /// Times in the segments that vary most, that one first.
    pub segments: Vec<SegmentColumn>,
    /// Number of other flows in the segments where requests found some.
    pub others: Vec<SegmentColumn>,
}

/// Values of the requests in a segment.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SegmentColumn {
    /// Index of the segment.
    pub segment: usize,
    /// Value of each request shown.
    pub values: Vec<u64>,
}
