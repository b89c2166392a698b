//! Transactions by size, and by the places that they pass.

use xweave_document::divided::{Interval, IntervalFigures, Point, Size, SizeFigures, TransactionTimes};
use xweave_model::{Bytes, Intervals, Outcome, Sizes, parts::Totals};

use super::parts::{build_causes, build_totals};

pub(crate) fn build_times(totals: &Totals) -> TransactionTimes {
    TransactionTimes {
        total_ns: totals.ns(),
        p50_ns: totals.quantile(0.5),
        p99_ns: totals.quantile(0.99),
        max_ns: totals.quantile(1.0),
    }
}

/// Builds the classes of sizes, the smallest first; none, if no transaction's size is known.
pub fn build_sizes(of: &Sizes) -> Vec<Size> {
    let size = |(least_bytes, most_bytes, class): (u64, u64, &xweave_model::sizes::Class)| {
        let Bytes { sent, received } = class.bytes;
        let figures = SizeFigures {
            least_bytes,
            most_bytes,
            transactions: class.totals.transactions() as u64,
            sent_bytes: sent,
            received_bytes: received,
            times: build_times(&class.totals),
        };
        Size { figures, causes: build_causes(&class.totals) }
    };
    of.all().map(size).collect()
}

/// Builds the places, in turn.
pub fn build_points(intervals: &Intervals, outcome: &Outcome) -> Vec<Point> {
    let times =
        |of: &Option<Vec<u64>>, at: usize| of.as_ref().and_then(|of| of.get(at)).copied().unwrap_or(0);
    let point = |(at, point): (usize, &String)| Point {
        point: point.clone(),
        passed: times(&outcome.passed, at),
        reached: times(&outcome.reached, at),
    };
    intervals.places().iter().enumerate().map(point).collect()
}

/// Builds the intervals, in turn.
pub fn build_intervals(of: &Intervals) -> Vec<Interval> {
    let interval = |(from, to, totals): (&str, &str, &Totals)| Interval {
        figures: IntervalFigures { from: from.to_owned(), to: to.to_owned(), times: build_times(totals) },
        causes: build_causes(totals),
        parts: build_totals(totals),
    };
    of.all().map(interval).collect()
}
