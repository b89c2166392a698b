//! All transactions of a kind in levels of detail: how long they took, how that depends on how much data they carried and
//! on when it was, and the same from place to place.

use std::collections::BTreeMap;

use xweave_document::{
    divided,
    page::explained::{self, PageInterval, PageSize},
    value::{Bin, Cut},
};
use xweave_flow::Histogram;
use xweave_model::{Delay, Explained, Intervals, Outcome, Tally};

use super::{
    bounded::{cut, cut_causes},
    grid::Grid,
    over_time::OverTime,
};
use crate::document::{
    divided::{build_intervals, build_points, build_sizes},
    parts::build_bins,
};

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

    /// Builds the distribution of the times.
    pub(super) fn build_bins(&self) -> Vec<Bin> {
        build_bins(&self.times.bins())
    }

    /// Builds the delays over time.
    pub(super) fn build_over_time(&self) -> Option<explained::OverTime> {
        self.over_time.build()
    }

    /// Builds the transactions by bytes and time.
    pub(super) fn build_grid(&self) -> Option<explained::Grid> {
        self.by_size.build()
    }

    /// Builds the intervals between the points that transactions pass.
    pub(super) fn build_intervals(&self, of: &Intervals) -> Cut<PageInterval> {
        let with_levels =
            |(interval, (times, by_size)): (divided::Interval, &(Histogram, Grid))| PageInterval {
                figures: interval.figures,
                causes: cut_causes(interval.causes, CAUSES, LIST),
                parts: cut(interval.parts, PARTS, LIST),
                bins: build_bins(&times.bins()),
                by_size: by_size.build(),
            };
        let intervals = build_intervals(of).into_iter().zip(&self.intervals);
        cut(intervals.map(with_levels), INTERVALS, INTERVALS_BYTES)
    }
}

/// Builds the classes of sizes.
pub(super) fn build_classes(tally: &Tally) -> Cut<PageSize> {
    let sizes = tally.sizes.as_ref().map(build_sizes).unwrap_or_default();
    let size =
        |of: divided::Size| PageSize { figures: of.figures, causes: cut_causes(of.causes, CAUSES, LIST) };
    cut(sizes.into_iter().map(size), SIZES, SIZES_BYTES)
}

/// Builds the points that transactions pass.
pub(super) fn build_passed(of: &Intervals, outcome: &Outcome) -> Cut<divided::Point> {
    cut(build_points(of, outcome), INTERVALS, LIST * 4)
}
