//! Transactions: what `xweave explain` prints with `--json`, and of the transactions themselves a choice.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

#[cfg(test)]
use crate::value::Id as LargeNumber;
use crate::{
    divided::{IntervalFigures, Point, SizeFigures},
    explain::{LateEvents, LossOfDomain, OutsideEvents, SummaryFigures, Transaction},
    lives::Lives,
    parts::{Cause, Total},
    value::{Bin, Cut, Id, Time},
};

/// Transactions of a kind.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Explained {
    /// Kind, as `--transaction` takes it.
    pub transaction: String,
    /// All transactions.
    pub summary: PageSummary,
    /// Transactions in the order of their beginnings: the slowest ones and a choice of the others.
    pub transactions: Vec<PageTransaction>,
    /// Distribution of their times.
    pub bins: Vec<Bin>,
    /// Delays over time; null if there is no transaction.
    pub over_time: Option<OverTime>,
    /// The same by the bytes they carried, the smallest first.
    pub sizes: Cut<PageSize>,
    /// Transactions by bytes and time; null if no transaction's bytes are known.
    pub by_size: Option<Grid>,
    /// Places that they passed, in turn; absent unless several were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Cut<Point>>,
    /// Stretches between these, in turn; absent without `points`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Cut<PageInterval>>,
    /// Processes and threads by program; absent for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lives: Option<Cut<Lives>>,
}

/// All transactions of a kind.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageSummary {
    /// Figures.
    #[serde(flatten)]
    pub figures: SummaryFigures,
    /// Delays, the longest first.
    pub causes: Cut<Cause>,
    /// Objects and states that the time was spent in, the longest first.
    pub parts: Cut<Total>,
    /// Lost events by domain.
    pub losses: Cut<LossOfDomain>,
    /// Domains of which events have a later time than their own.
    pub late: Cut<LateEvents>,
    /// Guests with events while their vCPU was outside.
    pub outside: Cut<OutsideEvents>,
    /// Files that could not be read, or not to their ends.
    pub damaged: Cut<String>,
}

/// A transaction; without its steps, if there are too many.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageTransaction {
    /// Transaction.
    #[serde(flatten)]
    pub transaction: Transaction,
    /// Messages between its objects; null if there are too many to be drawn.
    pub messages: Option<Vec<Message>>,
}

/// Kind of a message: a basic event of a sequence diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub enum MessageKind {
    /// `from` asks `to`, and waits.
    Request,
    /// `to` begins what it was asked for.
    Accept,
    /// `from` has done what `to` asked for, and `to` continues.
    Finish,
    /// The object has no CPU any more.
    Pause,
    /// The object has a CPU again.
    Resume,
}

/// A message between two objects of a transaction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Message {
    /// Time.
    pub t_ns: Time,
    /// Kind.
    pub basic: MessageKind,
    /// Domain and object that it comes from.
    pub from: [String; 2],
    /// Domain and object that it goes to; the same but for requests and their ends.
    pub to: [String; 2],
}

/// Transactions of similar sizes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageSize {
    /// Number, sizes and times.
    #[serde(flatten)]
    pub figures: SizeFigures,
    /// Delays, the longest first.
    pub causes: Cut<Cause>,
}

/// Transactions between a place and the next.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageInterval {
    /// Places and times.
    #[serde(flatten)]
    pub figures: IntervalFigures,
    /// Delays, the longest first.
    pub causes: Cut<Cause>,
    /// Objects and states that the time was spent in, the longest first.
    pub parts: Cut<Total>,
    /// Distribution of the times.
    pub bins: Vec<Bin>,
    /// Transactions by bytes and time; null if no transaction's bytes are known.
    pub by_size: Option<Grid>,
}

/// Transactions by bytes and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Grid {
    /// Classes of bytes in ascending order: first one, and first one of the next class.
    #[cfg_attr(test, schemars(with = "Vec<(LargeNumber, LargeNumber)>"))]
    pub bytes: Vec<(u64, u64)>,
    /// Classes of times in ascending order, in nanoseconds.
    #[cfg_attr(test, schemars(with = "Vec<(LargeNumber, LargeNumber)>"))]
    pub times: Vec<(u64, u64)>,
    /// Cells with transactions.
    pub cells: Vec<Cell>,
}

/// Cell of a grid: index of its class of bytes, index of its class of times, number of transactions, ID of the slowest one, and
/// its time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Cell(
    /// Index of the class of bytes.
    pub usize,
    /// Index of the class of times.
    pub usize,
    /// Number of transactions.
    pub u64,
    /// ID of the slowest one.
    pub Id,
    /// Time of the slowest one, in nanoseconds.
    #[cfg_attr(test, schemars(with = "LargeNumber"))]
    pub u64,
);

/// Delays over time: slices of equal length.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct OverTime {
    /// Beginning of the first slice.
    pub start_ns: Time,
    /// Length of a slice, in nanoseconds.
    pub slice_ns: u64,
    /// Number of transactions that ended, by slice.
    pub transactions: Vec<u64>,
    /// Delays of these, the longest first; all others are the last entry.
    pub causes: Vec<OverTimeCause>,
}

/// A delay over time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct OverTimeCause {
    /// Delay, in words; null for all others.
    pub what: Option<String>,
    /// Kind of the delay; null for all others.
    pub kind: Option<&'static str>,
    /// Number of other delays; absent unless the entry is for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<usize>,
    /// Time by slice, in nanoseconds.
    pub ns: Vec<u64>,
}
