//! Transactions divided, as `xweave explain --json` has them: by how much data they carried, and at the places that they
//! passed.

use serde::Serialize;
use xweave_model::{Bytes, Intervals, Outcome, Sizes, parts::Totals};

use super::parts::{KeptDocument, TotalDocument, kept, totals as total_documents};

/// The time of transactions that belong together.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// All of it.
    pub total_ns: u64,
    /// The median.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// What kept the transactions, the most first.
    pub causes: Vec<KeptDocument>,
}

impl Times {
    fn of(totals: &Totals) -> Self {
        Self {
            total_ns: totals.ns(),
            p50_ns: totals.quantile(0.5),
            p99_ns: totals.quantile(0.99),
            max_ns: totals.quantile(1.0),
            causes: kept(totals),
        }
    }
}

/// Transactions of like sizes.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// The fewest bytes, sent and received, of one of them.
    pub least_bytes: u64,
    /// The most bytes of one of them.
    pub most_bytes: u64,
    /// How many.
    pub transactions: u64,
    /// What they all sent.
    pub sent_bytes: u64,
    /// What they all received.
    pub received_bytes: u64,
    /// Their time.
    #[serde(flatten)]
    pub times: Times,
}

/// The classes of sizes, the smallest first; none, where no transaction's size is known.
pub fn sizes(of: &Sizes) -> Vec<Size> {
    let size = |(least_bytes, most_bytes, class): (u64, u64, &xweave_model::sizes::Class)| {
        let Bytes { sent, received } = class.bytes;
        Size {
            least_bytes,
            most_bytes,
            transactions: class.totals.transactions() as u64,
            sent_bytes: sent,
            received_bytes: received,
            times: Times::of(&class.totals),
        }
    };
    of.all().map(size).collect()
}

/// A place that transactions pass.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// As it was asked for.
    pub point: String,
    /// How often it was passed.
    pub passed: u64,
    /// How often by what had passed those before; of the first one, how often.
    pub reached: u64,
}

/// The places, in turn.
pub fn points(intervals: &Intervals, outcome: &Outcome) -> Vec<Point> {
    let times =
        |of: &Option<Vec<u64>>, at: usize| of.as_ref().and_then(|of| of.get(at)).copied().unwrap_or(0);
    let point = |(at, point): (usize, &String)| Point {
        point: point.clone(),
        passed: times(&outcome.passed, at),
        reached: times(&outcome.reached, at),
    };
    intervals.places().iter().enumerate().map(point).collect()
}

/// From a place to the next.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    /// A place.
    pub from: String,
    /// The next one.
    pub to: String,
    /// The time between. All intervals' sums are that of the transactions.
    #[serde(flatten)]
    pub times: Times,
    /// What it was spent on, the most first.
    pub parts: Vec<TotalDocument>,
}

/// The intervals, in turn.
pub fn intervals(of: &Intervals) -> Vec<Interval> {
    let interval = |(from, to, totals): (&str, &str, &Totals)| Interval {
        from: from.to_owned(),
        to: to.to_owned(),
        times: Times::of(totals),
        parts: total_documents(totals),
    };
    of.all().map(interval).collect()
}
