//! Rows grouped by local flow ID.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use xweave_trace::Row;
use xweave_wire::record::Kind;

use crate::dropped;

/// The records of a window that belong to flows, in order.
pub(crate) struct Locals {
    /// Sorted by local flow ID, then time; rows of equal time stay in the order they were recorded in.
    pub rows: Vec<Row>,
    /// Per row, its place among those that were given.
    pub places: Vec<usize>,
    /// One per local flow ID, in ascending order.
    pub flows: Vec<Local>,
    /// The local flows that a record says to have become parts of others.
    pub merged: HashSet<u64>,
}

/// What was recorded under one local flow ID.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    /// The ID.
    pub id: u64,
    /// Which of [`Locals::rows`]. Never empty.
    pub rows: Range<usize>,
    /// Records that are known to be missing.
    pub lost: u64,
    /// Whether a record says that it began here.
    pub started: bool,
    /// Whether a record says that a key stopped carrying it, or that it became part of another.
    pub quit: bool,
    /// Whether no key carries it any more.
    pub ended: bool,
    /// Place of the record that says that it was dropped, if it was.
    pub dropped: Option<usize>,
    /// The local flows that it is a part of, or that are parts of it.
    pub parents: Vec<u64>,
}

impl Locals {
    /// Groups those of the rows that are of a window. `lost` has the records that are missing by local flow; `merged` what
    /// is known to have become part of others from before; `room` is where the rows are put.
    pub(crate) fn of(
        rows: &[Row],
        is_of_window: impl Fn(usize, &Row) -> bool,
        lost: &HashMap<u64, u64>,
        mut merged: HashSet<u64>,
        mut room: Vec<Row>,
    ) -> Self {
        let key = |(at, row): (usize, &Row)| is_of_window(at, row).then_some((row.flow, row.time_ns, at));
        let mut order: Vec<(u64, i64, usize)> = rows.iter().enumerate().filter_map(key).collect();
        order.sort_unstable();
        let parent = |row: &Row| match row.kind {
            Kind::Split | Kind::Merge => row.values().first().copied(),
            _ => None,
        };
        let places: Vec<usize> = order.iter().map(|(_, _, at)| *at).collect();
        room.clear();
        room.extend(places.iter().map(|&at| rows[at]));
        let rows = room;
        merged.extend(rows.iter().filter(|row| row.kind == Kind::Merge).filter_map(parent));
        let mut flows = Vec::new();
        let mut start = 0;
        for group in rows.chunk_by(|a, b| a.flow == b.flow) {
            let id = group[0].flow;
            let is_merged = merged.contains(&id);
            flows.push(Local {
                id,
                rows: start..start + group.len(),
                lost: lost.get(&id).copied().unwrap_or(0),
                started: group.iter().any(|row| row.kind == Kind::Start || parent(row).is_some()),
                quit: is_merged || group.iter().any(|row| row.kind == Kind::Quit),
                ended: is_merged || dropped::all_ended(group),
                dropped: dropped::decisive(group).map(|row| start + row),
                parents: group.iter().filter_map(parent).collect(),
            });
            start += group.len();
        }
        Self { rows, places, flows, merged }
    }

    /// The rows of a local flow.
    pub(crate) fn rows_of(&self, local: &Local) -> &[Row] {
        &self.rows[local.rows.clone()]
    }

    /// When a local flow's last record was made, in nanoseconds.
    pub(crate) fn end(&self, local: &Local) -> i64 {
        self.rows_of(local).last().map_or(i64::MIN, |row| row.time_ns)
    }
}
