//! The transactions that took longest, of more than memory holds.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::explanation::Explained;

/// No more than so many: those that took longest of all that were added.
pub struct Slowest {
    most: usize,
    kept: BinaryHeap<Reverse<ByTime>>,
}

impl Slowest {
    /// So many at most.
    pub fn new(most: usize) -> Self {
        Self { most, kept: BinaryHeap::new() }
    }

    /// Adds one; of two that took the same time, the first stays.
    pub fn add(&mut self, transaction: Explained) {
        self.kept.push(Reverse(ByTime(transaction)));
        if self.kept.len() > self.most {
            self.kept.pop();
        }
    }

    /// Those that are left, the slowest first.
    pub fn into_vec(self) -> Vec<Explained> {
        self.kept.into_sorted_vec().into_iter().map(|Reverse(ByTime(one))| one).collect()
    }
}

/// Ordered by how long it took.
struct ByTime(Explained);

impl ByTime {
    fn key(&self) -> (i64, Reverse<u64>) {
        (self.0.total_ns, Reverse(self.0.id))
    }
}

impl PartialEq for ByTime {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ByTime {}

impl PartialOrd for ByTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept_and_come_first() {
        let mut slowest = Slowest::new(3);
        for (id, total_ns) in [(1, 5), (2, 9), (3, 1), (4, 9), (5, 7), (6, 5)] {
            slowest.add(Explained { id, domain: 1, total_ns, ..Explained::default() });
        }
        let kept: Vec<_> = slowest.into_vec().iter().map(|one| (one.id, one.total_ns)).collect();
        assert_eq!(kept, [(2, 9), (4, 9), (5, 7)]);
        assert!(Slowest::new(0).into_vec().is_empty());
    }
}
