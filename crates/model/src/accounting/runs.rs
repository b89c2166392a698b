//! Who had a processor lately: what others wait for that are ready for it.

use std::collections::VecDeque;

/// So many runs are remembered of a processor: whoever waits for longer is told of the last ones.
const MOST: usize = 512;

/// The last runs on a processor, each with the place of its processes' figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(VecDeque<(i64, i64, usize)>);

impl Runs {
    /// Processes whose figures are there ran between these times.
    pub(crate) fn add(&mut self, from: i64, to: i64, place: usize) {
        match self.0.back_mut() {
            // One thread after the other of the same processes.
            Some(last) if last.2 == place && last.1 == from => last.1 = to,
            _ if from < to => {
                if self.0.len() == MOST {
                    self.0.pop_front();
                }
                self.0.push_back((from, to, place));
            }
            _ => {}
        }
    }

    /// Who ran since then, and how long, in nanoseconds; without a place, what is not remembered. What lacks, the
    /// processor was idle.
    pub(crate) fn since(&self, since: i64) -> impl Iterator<Item = (Option<usize>, u64)> + '_ {
        let last = self.0.iter().rev().take_while(move |(_, to, _)| *to > since);
        let known =
            last.map(move |(from, to, place)| (Some(*place), (*to - since.max(*from)).unsigned_abs()));
        let first = self.0.front().filter(|(from, ..)| self.0.len() == MOST && *from > since);
        known.chain(first.map(|(from, ..)| (None, from.abs_diff(since))))
    }

    /// Who ran between these times, as far as that is remembered, the last first: from when to when.
    pub(crate) fn within(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, usize)> + '_ {
        let last = self.0.iter().rev().skip_while(move |(begin, ..)| *begin >= to);
        let within = last.take_while(move |(_, end, _)| *end > from);
        within.map(move |(begin, end, place)| ((*begin).max(from), (*end).min(to), *place))
    }

    /// Forgets them all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_since_a_time_is_told_and_no_more_than_is_remembered() {
        let mut runs = Runs::default();
        runs.add(0, 10, 1);
        runs.add(10, 15, 1);
        runs.add(20, 30, 2);
        runs.add(30, 30, 3);
        assert_eq!(Vec::from_iter(runs.since(12)), [(Some(2), 10), (Some(1), 3)]);
        assert_eq!(Vec::from_iter(runs.since(25)), [(Some(2), 5)]);
        assert_eq!(Vec::from_iter(runs.within(5, 25)), [(20, 25, 2), (5, 15, 1)]);
        assert_eq!(runs.within(15, 20).count(), 0);
        for at in 0..2_000 {
            runs.add(30 + at, 31 + at, 4 + usize::from(at % 2 == 0));
        }
        assert_eq!(runs.since(0).count(), MOST + 1);
        let forgotten: Vec<_> = runs.since(10).filter(|(place, _)| place.is_none()).collect();
        assert_eq!(forgotten, [(None, 2_030 - 10 - MOST as u64)]);
        runs.clear();
        assert_eq!(runs.since(0).count(), 0);
    }
}
