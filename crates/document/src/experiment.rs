//! The documents of `xweave vary DIR` of an experiment, and of `xweave vary --knobs`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::parts::ServiceRequests;

/// The document of the knobs that there are.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Knobs<'a> {
    /// Knobs of all domains.
    pub knobs: Vec<KnobState<'a>>,
}

/// A knob.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct KnobState<'a> {
    /// Name of the knob.
    pub knob: &'static str,
    /// Domain where it is set.
    pub domain: &'a str,
    /// Virtual machine that it belongs to; null if it is the domain's.
    pub vm: Option<&'a str>,
    /// Present value.
    pub value: &'a str,
    /// Values that it can be set to.
    pub choices: &'a [String],
    /// Whether it can be changed.
    pub available: bool,
    /// Reason why it cannot be changed; null if it can.
    pub reason: Option<&'a str>,
}

/// The document of an experiment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Experiment<'a> {
    /// Kind of the transactions.
    pub transaction: String,
    /// Other services, whose requests are not among these, the one with the most first; absent if a kind was asked for, or if
    /// there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_services: Vec<ServiceRequests>,
    /// Command that is the load.
    pub command: &'a [String],
    /// Seed of the order of the blocks.
    pub seed: u64,
    /// Rounds that were planned.
    pub rounds: u32,
    /// Reason why the experiment ended before its last block; null if it did not.
    pub ended: Option<&'a str>,
    /// Knobs.
    pub knobs: Vec<HeldKnob<'a>>,
    /// Settings; the first one is the baseline.
    pub settings: Vec<NamedSetting<'a>>,
    /// Blocks in the order in which they were recorded.
    pub blocks: Vec<ExperimentBlock<'a>>,
    /// Effects of the settings, each compared with the baseline.
    pub effects: Vec<Effect<'a>>,
}

/// A knob in its place.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct HeldKnob<'a> {
    /// Name of the knob.
    pub knob: &'static str,
    /// Domain where it is set.
    pub domain: &'a str,
    /// Virtual machine that it belongs to; null if it is the domain's.
    pub vm: Option<&'a str>,
    /// Value before the experiment; in a block, the value that was read back.
    pub now: &'a str,
}

/// A setting: a value for each knob.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NamedSetting<'a> {
    /// Name: `halt_poll_ns@host=0`.
    pub name: String,
    /// Values in the order of the knobs; null leaves a knob as it is.
    pub values: &'a [Option<String>],
}

/// A block: the load under one setting, recorded.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ExperimentBlock<'a> {
    /// Number, from 1; its trace is `block-NUMBER`.
    pub number: u32,
    /// Round, from 1.
    pub round: u32,
    /// Index of its setting.
    pub setting: u32,
    /// Values that the domains read back after they had set them.
    pub read: Vec<HeldKnob<'a>>,
    /// Reason why the block is not counted; null if it is.
    pub not_counted: Option<&'a str>,
    /// Number of transactions; null if the block is not counted.
    pub transactions: Option<u64>,
    /// Median of their times.
    pub p50_ns: Option<u64>,
    /// 99th percentile of their times.
    pub p99_ns: Option<u64>,
    /// Mean of their times.
    pub mean_ns: Option<u64>,
}

/// Effect of a setting.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Effect<'a> {
    /// Index of the setting.
    pub setting: usize,
    /// Rounds in which both it and the baseline were measured.
    pub rounds: usize,
    /// Confidence of all bounds, of all knobs together.
    pub confidence: f64,
    /// Effect on the median.
    pub p50: EffectTimes,
    /// Effect on the 99th percentile.
    pub p99: EffectTimes,
    /// Effect on the mean.
    pub mean: EffectTimes,
    /// Effect on each cause, at the mean per transaction; of 1 % of the mean or more.
    pub causes: Vec<CauseEffect>,
    /// Effect on the CPU time of each domain, in CPUs.
    pub cpus: Vec<CpuEffect<'a>>,
    /// Observations in events of what the setting does.
    pub observed: Vec<Observation<'a>>,
}

/// Effect on a time. `low_ns` to `high_ns` is the interval of the difference.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct EffectTimes {
    /// Time with the baseline.
    pub baseline_ns: i64,
    /// Time with the setting.
    pub with_ns: i64,
    /// Estimate of the difference.
    pub difference_ns: i64,
    /// Lower bound of the difference.
    pub low_ns: i64,
    /// Upper bound of the difference.
    pub high_ns: i64,
    /// Smallest difference that would have been seen.
    pub visible_ns: i64,
    /// Ratio of the times; null if the baseline is 0.
    pub ratio: Option<f64>,
    /// Lower bound of the ratio.
    pub ratio_low: Option<f64>,
    /// Upper bound of the ratio.
    pub ratio_high: Option<f64>,
    /// Whether the difference is beyond noise.
    pub seen: bool,
}

/// Effect on a cause.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CauseEffect {
    /// Cause, in words.
    pub cause: String,
    /// Effect on its time.
    #[serde(flatten)]
    pub times: EffectTimes,
}

/// Effect on a domain's CPU time, in CPUs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CpuEffect<'a> {
    /// Domain.
    pub domain: &'a str,
    /// CPUs with the baseline.
    pub baseline: f64,
    /// CPUs with the setting.
    pub with: f64,
    /// Estimate of the difference.
    pub difference: f64,
    /// Lower bound of the difference.
    pub low: f64,
    /// Upper bound of the difference.
    pub high: f64,
    /// Whether the difference is beyond noise.
    pub seen: bool,
}

/// An observation of what a knob does.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Observation<'a> {
    /// Index of the knob.
    pub knob: usize,
    /// Virtual machine.
    pub vm: &'a str,
    /// Figure that was observed.
    pub what: &'static str,
    /// Figure with the baseline.
    pub baseline: f64,
    /// Figure with the setting.
    pub with: f64,
    /// Whether the setting had the effect that it should have.
    pub holds: bool,
    /// Remark, in words; null if there is none.
    pub note: Option<&'a str>,
}
