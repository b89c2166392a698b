//! Transactions by how much data they carried and how long they took, of any number in bounded memory: a grid of classes
//! on logarithmic scales, in each cell how many, and the slowest of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use xweave_document::{page::explained, value::Id};

/// So many bits behind the first decide on a class at first: it is at most an eighth of its beginning wide.
const BITS: u32 = 3;

/// The grid, while transactions come. It becomes coarser where it has too many cells.
pub(super) struct Grid {
    most: usize,
    /// How often it has become coarser.
    level: u32,
    /// By the first bytes and nanoseconds of their classes.
    cells: BTreeMap<(u64, u64), Cell>,
}

/// What is in a cell.
#[derive(Clone, Copy)]
struct Cell {
    count: u64,
    /// Its time, and its ID; of equally slow ones the first.
    slowest: (u64, Reverse<u64>),
}

impl Grid {
    /// Of so many cells at most.
    pub(super) fn of_at_most(cells: usize) -> Self {
        Self { most: cells, level: 0, cells: BTreeMap::new() }
    }

    /// Adds what carried so much and took so long, by its ID.
    pub(super) fn add(&mut self, bytes: u64, ns: u64, id: u64) {
        self.put((bytes, ns), Cell { count: 1, slowest: (ns, Reverse(id)) });
        while self.cells.len() > self.most {
            self.level += 1;
            std::mem::take(&mut self.cells).into_iter().for_each(|(at, cell)| self.put(at, cell));
        }
    }

    fn put(&mut self, (bytes, ns): (u64, u64), cell: Cell) {
        let at = (class(bytes, self.level).0, class(ns, self.level).0);
        let there = self.cells.entry(at).or_insert(Cell { count: 0, ..cell });
        there.count += cell.count;
        there.slowest = there.slowest.max(cell.slowest);
    }

    /// Builds the grid of what was added; none, if nothing was.
    pub(super) fn build(&self) -> Option<explained::Grid> {
        if self.cells.is_empty() {
            return None;
        }
        let bytes: BTreeSet<u64> = self.cells.keys().map(|(bytes, _)| *bytes).collect();
        let times: BTreeSet<u64> = self.cells.keys().map(|(_, ns)| *ns).collect();
        let ranks = |of: &BTreeSet<u64>| of.iter().copied().zip(0_usize..).collect::<BTreeMap<_, _>>();
        let (columns, rows) = (ranks(&bytes), ranks(&times));
        let classes = |of: &BTreeSet<u64>| of.iter().map(|from| class(*from, self.level)).collect();
        let cells = self.cells.iter().map(|((bytes, ns), Cell { count, slowest: (slowest, id) })| {
            explained::Cell(columns[bytes], rows[ns], *count, Id(id.0), *slowest)
        });
        Some(explained::Grid { bytes: classes(&bytes), times: classes(&times), cells: cells.collect() })
    }
}

/// From and to which the class of a number is. Each class lies within one of the next level: at first parts of powers of
/// two, then some of these together.
fn class(number: u64, level: u32) -> (u64, u64) {
    let Some(log) = number.checked_ilog2() else { return (0, 1) };
    match level.checked_sub(BITS) {
        Some(together @ 1..) => {
            let first = log.checked_shr(together).unwrap_or(0).checked_shl(together).unwrap_or(0);
            let width = 1_u32.checked_shl(together).unwrap_or(u64::BITS);
            (1 << first, 1_u64.checked_shl(first.saturating_add(width)).unwrap_or(u64::MAX))
        }
        _ => {
            let width = log.saturating_sub(BITS - level.min(BITS));
            let from = number >> width << width;
            (from, from.saturating_add(1 << width))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u64; 9] = [0, 1, 7, 8, 1_000, 4_096, 1 << 40, (1 << 63) + 5, u64::MAX];

    #[test]
    fn classes_have_their_numbers_and_lie_within_those_of_the_next_level() {
        for number in NUMBERS.into_iter().chain(0..300) {
            for level in 0..12 {
                let ((from, to), (outer_from, outer_to)) = (class(number, level), class(number, level + 1));
                assert!(from <= number && (number < to || to == u64::MAX), "{number}, {level}: {from}..{to}");
                assert!(outer_from <= from && to <= outer_to, "{number}, {level}");
                assert_eq!(class(from, level), (from, to));
            }
        }
        assert_eq!(
            (class(1_000, 0), class(1_000, 3), class(1_000, 4)),
            ((960, 1_024), (512, 1_024), (256, 1_024))
        );
    }

    #[test]
    fn a_grid_counts_all_and_has_no_more_cells_than_it_may() {
        let mut grid = Grid::of_at_most(20);
        let (mut number, mut slowest) = (1_u64, 0);
        for id in 0..5_000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (bytes, ns) = (number >> (id % 50), (number >> 20) + 1);
            slowest = slowest.max(ns);
            grid.add(bytes, ns, id);
            assert!(grid.cells.len() <= 20);
        }
        let built = grid.build().unwrap();
        assert_eq!(built.cells.iter().map(|cell| cell.2).sum::<u64>(), 5_000);
        assert_eq!(built.cells.iter().map(|cell| cell.4).max(), Some(slowest));
        for explained::Cell(_, row, _, _, ns) in built.cells {
            let (from, to) = built.times[row];
            assert!((from..to).contains(&ns));
        }
    }

    #[test]
    fn of_a_cell_the_slowest_is_told_and_of_equal_ones_the_first() {
        let mut grid = Grid::of_at_most(20);
        [(1_000, 7), (1_001, 9), (1_001, 8)].into_iter().for_each(|(ns, id)| grid.add(64, ns, id));
        let cells = vec![explained::Cell(0, 0, 3, Id(8), 1_001)];
        let expected = explained::Grid { bytes: vec![(64, 72)], times: vec![(960, 1_024)], cells };
        assert_eq!(grid.build(), Some(expected));
        assert_eq!(Grid::of_at_most(20).build(), None);
    }
}
