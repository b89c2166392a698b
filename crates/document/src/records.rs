//! The document of `xweave records`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::value::{Id, Time};

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Records<'a> {
    /// Counts of the records.
    pub summary: RecordsSummary,
    /// Records by site, the most first.
    pub sites: Vec<SiteRecords<'a>>,
    /// Records by the group asked for, the most first.
    pub groups: Vec<RecordGroup<'a>>,
    /// Records whose groups are not listed, because 65,536 others were known when they came.
    pub ungrouped: u64,
    /// Of the value asked for: number of values by their number of significant bits, 0 to 64. Empty if none was asked for.
    pub bits: &'a [u64],
    /// First records, as many as were asked for.
    pub records: Vec<AdviceRecord<'a>>,
}

/// Counts of records.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RecordsSummary {
    /// Records of advice that the filter lets through.
    pub records: u64,
    /// Records of the whole trace that were lost.
    pub lost: u64,
}

/// Records of a site.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SiteRecords<'a> {
    /// Number of the site, as in `sites.parquet`.
    pub site: u32,
    /// Domain of the site.
    pub domain: &'a str,
    /// Advice.
    pub advice: &'a str,
    /// Function.
    pub function: &'a str,
    /// Offset from the beginning of the function, in bytes.
    pub offset: u64,
    /// Number of records.
    pub records: u64,
    /// Distributions of the stored values, in their order.
    pub values: Vec<ValueSpread<'a>>,
}

/// Distribution of a stored value.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ValueSpread<'a> {
    /// Name of the value; `v1` to `v7` if the trace has none.
    pub name: &'a str,
    /// Number of records that have it.
    pub count: u64,
    /// Smallest value.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest value.
    pub max: u64,
}

/// Records that have a value in common.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RecordGroup<'a> {
    /// The value: a number in decimal, or a name.
    pub is: &'a str,
    /// Number of records.
    pub records: u64,
}

/// A record of advice.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AdviceRecord<'a> {
    /// Time, in nanoseconds of the trace's time line.
    pub t_ns: Time,
    /// Domain.
    pub domain: &'a str,
    /// Logical CPU.
    pub cpu: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name of the thread.
    pub comm: &'a str,
    /// Advice.
    pub advice: &'a str,
    /// Function.
    pub function: &'a str,
    /// Local ID of the record's flow; null if it belongs to none.
    pub flow: Option<Id>,
    /// Stored values: name and number.
    pub values: &'a [(String, u64)],
}
