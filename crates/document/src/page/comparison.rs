//! Two runs of the same work: what `xweave compare` prints with `--json`, and its transactions.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use super::explained::Grid;
use crate::{
    compare::{CompareFinding, ComparedObject},
    contrast::{ContrastCause, ContrastFigures, ContrastPart},
    lives::Lives,
    value::{Bin, Cut, Pair},
};

/// Comparison of two runs: pairs have the figure of the first run and that of the second, which is the page's own.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Comparison {
    /// Name of the first run.
    pub first: String,
    /// Answer, as the command prints it.
    pub headline: String,
    /// Time from the first event to the last, in nanoseconds.
    pub span_ns: Pair,
    /// Time that the second run took longer; negative if it took less.
    pub difference_ns: i64,
    /// Whether the second run took longer beyond noise.
    pub took_longer: bool,
    /// Number of events.
    pub events: Pair,
    /// Findings, those that explain most first.
    pub findings: Cut<CompareFinding>,
    /// Kinds of transactions that both runs have.
    pub transactions: Vec<Contrasted>,
    /// Objects of both runs, the largest change first.
    pub objects: Cut<ComparedObject>,
    /// Number of objects that changed beyond noise.
    pub changed: usize,
}

/// A kind of transactions that both runs have. Those of the second run are among the page's `explained`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Contrasted {
    /// Kind, as `--transaction` takes it.
    pub transaction: String,
    /// Transactions of the first run.
    pub first: FirstRun,
    /// Answer, as the command prints it.
    pub headline: String,
    /// Contrast; null if there are too few transactions.
    pub contrast: Option<PageContrast>,
}

/// Transactions of the first run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FirstRun {
    /// Number of transactions.
    pub transactions: usize,
    /// Median of their times, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Distribution of the times.
    pub bins: Vec<Bin>,
    /// Transactions by bytes and time; null if no transaction's bytes are known.
    pub by_size: Option<Grid>,
    /// Processes and threads by program; null for other kinds.
    pub lives: Option<Cut<Lives>>,
}

/// Two sides of transactions, and where their difference lies.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageContrast {
    /// Sides and their difference.
    #[serde(flatten)]
    pub figures: ContrastFigures,
    /// Delays, the largest change first.
    pub causes: Cut<ContrastCause>,
    /// Objects and states that the time was spent in, the largest change first.
    pub parts: Cut<ContrastPart>,
}
