//! Rows grouped by local flows: by their IDs and domains.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use xweave_trace::Row;
use xweave_wire::record::Kind;

use crate::{dropped, instances::instances};

/// The records of a window that belong to flows, in order.
pub(crate) struct Locals {
    /// Sorted by local flow, then time; rows of equal time stay in the order they were recorded in.
    pub rows: Vec<Row>,
    /// Per row, its place among those that were given.
    pub places: Vec<usize>,
    /// In the order of their IDs.
    pub flows: Vec<Local>,
    /// The local flows that a record says to have become parts of others: which domain says it, and their IDs.
    pub merged: HashSet<(u8, u64)>,
}

/// What one domain recorded under one local flow ID. Where it was told the ID, and that comes several times: of one of
/// these ([`instances`]).
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
    /// Groups those of the rows that are of a window. `lost` has the records that are missing by domain and local flow;
    /// `merged` what is known to have become part of others from before; `room` is where the rows are put.
    pub(crate) fn of(
        rows: &[Row],
        is_of_window: impl Fn(usize, &Row) -> bool,
        lost: &HashMap<(u8, u64), u64>,
        mut merged: HashSet<(u8, u64)>,
        mut room: Vec<Row>,
    ) -> Self {
        let key = |(at, row): (usize, &Row)| {
            is_of_window(at, row).then_some((row.flow, row.domain, row.time_ns, at))
        };
        let mut order: Vec<(u64, u8, i64, usize)> = rows.iter().enumerate().filter_map(key).collect();
        order.sort_unstable();
        let parent = |row: &Row| match row.kind {
            Kind::Split | Kind::Merge => row.values().first().copied(),
            _ => None,
        };
        let mut places: Vec<usize> = order.iter().map(|(.., at)| *at).collect();
        room.clear();
        room.extend(places.iter().map(|&at| rows[at]));
        let mut rows = room;
        let is_one = |a: &Row, b: &Row| (a.flow, a.domain) == (b.flow, b.domain);
        let sizes = apart(&mut rows, &mut places, is_one);
        let merges = rows.iter().filter(|row| row.kind == Kind::Merge);
        merged.extend(merges.filter_map(|row| Some((row.domain, parent(row)?))));
        let mut flows: Vec<Local> = Vec::with_capacity(sizes.len());
        let mut start = 0;
        for size in sizes {
            let group = &rows[start..start + size];
            let (id, domain) = (group[0].flow, group[0].domain);
            let is_first = start == 0 || !is_one(&rows[start - 1], &group[0]);
            let is_merged = merged.contains(&(domain, id));
            flows.push(Local {
                id,
                rows: start..start + group.len(),
                // Of several, the first: which of them it was is not known.
                lost: lost.get(&(domain, id)).copied().filter(|_| is_first).unwrap_or(0),
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

    /// Which domain recorded it, and its ID.
    pub(crate) fn name(&self, local: &Local) -> (u8, u64) {
        (self.rows[local.rows.start].domain, local.id)
    }

    /// When a local flow's last record was made, in nanoseconds.
    pub(crate) fn end(&self, local: &Local) -> i64 {
        self.rows_of(local).last().map_or(i64::MIN, |row| row.time_ns)
    }
}

/// Puts the rows of what came several times apart, and their places with them. Gives the sizes of the groups.
fn apart(rows: &mut [Row], places: &mut [usize], is_one: impl Fn(&Row, &Row) -> bool) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut start = 0;
    while start < rows.len() {
        let of_one = rows[start..].chunk_by(&is_one).next().map_or(0, <[Row]>::len);
        let all = start..start + of_one;
        start = all.end;
        let Some(instances) = instances(&rows[all.clone()]) else {
            sizes.push(of_one);
            continue;
        };
        let mut order: Vec<usize> = (0..of_one).collect();
        order.sort_by_key(|&at| instances[at]);
        let sorted: Vec<(Row, usize)> =
            order.iter().map(|&at| (rows[all.start + at], places[all.start + at])).collect();
        for (at, (row, place)) in all.zip(sorted) {
            (rows[at], places[at]) = (row, place);
        }
        sizes.extend(order.chunk_by(|a, b| instances[*a] == instances[*b]).map(<[usize]>::len));
    }
    sizes
}
