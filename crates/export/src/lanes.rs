//! Tracks for what overlaps: the slices of a track lie in one another or behind one another.

use std::collections::BTreeSet;

/// Lanes, each with what is in it up to some time.
#[derive(Default)]
pub(crate) struct Lanes {
    /// When each is free again.
    free: BTreeSet<(i64, usize)>,
}

impl Lanes {
    /// The lane for something between two times: one that is free then, the one that has become so last; else a new one,
    /// which has the number behind the others'.
    pub(crate) fn take(&mut self, from: i64, to: i64) -> usize {
        let lane = match self.free.range(..=(from, usize::MAX)).next_back().copied() {
            Some(free) => {
                self.free.remove(&free);
                free.1
            }
            None => self.free.len(),
        };
        self.free.insert((to.max(from), lane));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_has_lanes_of_its_own_and_what_does_not_shares_them() {
        let mut lanes = Lanes::default();
        let times = [(0, 10), (5, 8), (8, 20), (10, 12), (11, 12), (30, 30), (30, 31)];
        let taken: Vec<usize> = times.iter().map(|(from, to)| lanes.take(*from, *to)).collect();
        assert_eq!(taken, [0, 1, 1, 0, 2, 1, 1]);
        for (at, (from, to)) in times.iter().enumerate() {
            let before = times[..at].iter().zip(&taken).filter(|(_, lane)| **lane == taken[at]);
            assert!(before.into_iter().all(|((_, end), _)| end <= from), "{from} to {to}");
        }
    }
}
