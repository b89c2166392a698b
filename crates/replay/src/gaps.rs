//! When events were lost.

use std::collections::VecDeque;

use xweave_trace::TimeSpan;

/// Times in which something was lost, in order: none touches another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps(VecDeque<TimeSpan>);

impl Gaps {
    /// Adds one. Those before begin no later.
    pub(crate) fn add(&mut self, mut gap: TimeSpan) {
        while let Some(&before) = self.0.back()
            && before.to >= gap.from
        {
            self.0.pop_back();
            gap = gap.joined(before);
        }
        self.0.push_back(gap);
    }

    /// Those that end after a moment.
    #[inline]
    pub(crate) fn after(&self, time: i64) -> impl Iterator<Item = TimeSpan> + '_ {
        let first = self.0.partition_point(|gap| gap.to <= time);
        self.0.range(first..).copied()
    }

    /// What of them lies between two times.
    #[inline]
    pub(crate) fn between(&self, from: i64, to: i64) -> impl Iterator<Item = TimeSpan> + '_ {
        let bounds = TimeSpan { from, to };
        self.after(from).take_while(move |gap| gap.from < to).map(move |gap| gap.clipped(bounds))
    }

    /// The end of the last.
    #[inline]
    pub(crate) fn end(&self) -> Option<i64> {
        self.0.back().map(|gap| gap.to)
    }

    /// Forgets those that were over before this time, but for the last.
    pub(crate) fn forget_before(&mut self, time: i64) {
        while self.0.len() > 1 && self.0[0].to <= time {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn gaps_cover_what_was_added_and_nothing_else(mut added in prop::collection::vec((0i64..100, 0i64..20), 0..20)) {

            let mut gaps = Gaps::default();
            added.sort_unstable();
            added.iter().for_each(|(from, length)| gaps.add(TimeSpan { from: *from, to: from + length }));
            for time in 0..120 {
                let covered = added.iter().any(|(from, length)| (*from..from + length).contains(&time));
                prop_assert_eq!(gaps.between(time, time + 1).any(|gap| !gap.is_empty()), covered);
            }
            let apart = gaps.0.iter().zip(gaps.0.iter().skip(1)).all(|(one, next)| one.to < next.from);
            prop_assert!(apart, "{gaps:?}");
        }
    }
}
