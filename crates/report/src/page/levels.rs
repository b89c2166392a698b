//! All transactions of a kind in levels of detail: how long they took, how that depends on how much data they carried and
//! on when it was, and the same from place to place.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use xweave_flow::Histogram;
use xweave_model::{Delay, Explained, Outcome, Tally};

use super::{
    bounded::{cut, cut_lists},
    grid::Grid,
    over_time::OverTime,
};
use crate::document::divided;

/// Cells of a grid, and of one of an interval: of these there may be many.
pub(super) const CELLS: usize = 1_500;
const CELLS_OF_INTERVAL: usize = 400;

/// What there is at most of each class of sizes and interval, and in how many bytes.
const CAUSES: usize = 8;
const PARTS: usize = 40;
const LIST: usize = 8 << 10;

/// Classes of sizes, and room for them; for intervals, and their places.
const SIZES: usize = 65;
const SIZES_BYTES: usize = 256 << 10;
const INTERVALS: usize = 16;
const INTERVALS_BYTES: usize = 768 << 10;

/// While transactions come.
pub(super) struct Levels {
    times: Histogram,
    by_size: Grid,
    over_time: OverTime,
    intervals: Vec<(Histogram, Grid)>,
}

impl Default for Levels {
    fn default() -> Self {
        let (times, over_time) = (Histogram::default(), OverTime::default());
        Self { times, by_size: Grid::of_at_most(CELLS), over_time, intervals: Vec::new() }
    }
}

impl Levels {
    /// Adds a transaction, and what kept it for how long.
    pub(super) fn add(&mut self, transaction: &Explained, kept: &BTreeMap<Delay, u64>) {
        let (id, ns) = (transaction.id, transaction.length());
        let bytes = transaction.bytes.map(|bytes| bytes.all());
        self.times.add(transaction.total_ns);
        self.over_time.add(transaction.start_ns.saturating_add(transaction.total_ns), kept);
        if let Some(bytes) = bytes {
            self.by_size.add(bytes, ns, id);
        }
        // What passes only two places is told of as a whole.
        if transaction.points.len() > 2 {
            let none = || (Histogram::default(), Grid::of_at_most(CELLS_OF_INTERVAL));
            self.intervals.resize_with(transaction.points.len() - 1, none);
            for (passed, (times, by_size)) in transaction.points.windows(2).zip(&mut self.intervals) {
                let ns = passed[1].saturating_sub(passed[0]);
                times.add(ns);
                if let Some(bytes) = bytes {
                    by_size.add(bytes, u64::try_from(ns).unwrap_or(0), id);
                }
            }
        }
    }

    /// Makes them members of a document, beside what `explain --json` has of the same.
    pub(super) fn into_members(self, document: &mut Value, tally: &Tally, outcome: &Outcome) {
        let sizes = tally.sizes.as_ref().map(divided::sizes).unwrap_or_default();
        let sizes: Vec<Value> =
            sizes.iter().map(|size| cut_lists(size, &[("causes", CAUSES)], LIST)).collect();
        document["bins"] = json!(self.times.bins());
        document["over_time"] = self.over_time.value();
        document["sizes"] = json!(cut(&sizes, SIZES, SIZES_BYTES));
        document["by_size"] = self.by_size.value();
        let Some(of) = &tally.intervals else { return };
        let lists = [("causes", CAUSES), ("parts", PARTS)];
        let with_levels = |(interval, (times, by_size)): (_, &(Histogram, Grid))| {
            let mut interval = cut_lists(&interval, &lists, LIST);
            interval["bins"] = json!(times.bins());
            interval["by_size"] = by_size.value();
            interval
        };
        let intervals: Vec<Value> =
            divided::intervals(of).into_iter().zip(&self.intervals).map(with_levels).collect();
        document["points"] = json!(cut(&divided::points(of, outcome), INTERVALS, LIST * 4));
        document["intervals"] = json!(cut(&intervals, INTERVALS, INTERVALS_BYTES));
    }
}
