//! When objects did what they did: sums over equal times, of any number of events, in bounded memory.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::usage::{Key, OverTime};

/// Times that the whole is divided into at most; at least half as many, unless it is very short.
const BINS: usize = 480;

/// How long each is at the beginning, in nanoseconds.
const FIRST: i64 = 1 << 14;

/// So many objects are told apart.
const OBJECTS: usize = 1 << 10;

/// What each object did in each of the times, by the place of its figures.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    begin: Option<i64>,
    bin: i64,
    series: FxHashMap<usize, Vec<u64>>,
}

impl History {
    /// Nothing was done before that time.
    pub(super) fn begin(&mut self, time: i64) {
        self.begin.get_or_insert(time);
    }

    /// It worked, or was used, from one time to another.
    pub(super) fn time(&mut self, place: usize, from: i64, to: i64) {
        self.begin(from);
        let Some(last) = self.bin_of(to.saturating_sub(1)).filter(|_| from < to) else { return };
        let first = self.bin_of(from).unwrap_or(0);
        let (begin, bin) = (self.begin.unwrap_or(0), self.bin);
        let Some(values) = self.values(place, last) else { return };
        for (at, value) in (first..).zip(&mut values[first..=last]) {
            let from_here = begin + bin * i64::try_from(at).unwrap_or(i64::MAX);
            *value += (to.min(from_here + bin) - from.max(from_here)).max(0).unsigned_abs();
        }
    }

    /// It had so much of something at a time.
    pub(super) fn amount(&mut self, place: usize, time: i64, amount: u64) {
        let Some(bin) = self.bin_of(time) else { return };
        if let Some(values) = self.values(place, bin) {
            values[bin] = values[bin].saturating_add(amount);
        }
    }

    /// In which bin a time is, which there is from now on; none for times before the first.
    fn bin_of(&mut self, time: i64) -> Option<usize> {
        let begin = *self.begin.get_or_insert(time);
        self.bin = self.bin.max(FIRST);
        let since = time.checked_sub(begin).filter(|since| *since >= 0)?;
        while usize::try_from(since / self.bin).is_ok_and(|at| at >= BINS) {
            self.bin = self.bin.saturating_mul(2);
            for values in self.series.values_mut() {
                *values = values.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        usize::try_from(since / self.bin).ok()
    }

    fn values(&mut self, place: usize, least: usize) -> Option<&mut Vec<u64>> {
        if self.series.len() >= OBJECTS && !self.series.contains_key(&place) {
            return None;
        }
        let values = self.series.entry(place).or_default();
        if values.len() <= least {
            values.resize(least + 1, 0);
        }
        Some(values)
    }

    /// The whole, by what is called so.
    pub(super) fn told(self, keys: &[Key]) -> OverTime {
        let bins = self.series.values().map(Vec::len).max().unwrap_or(0);
        let mut series = BTreeMap::new();
        for (place, mut values) in self.series {
            values.resize(bins, 0);
            series.insert(keys[place].clone(), values);
        }
        OverTime { begin_ns: self.begin.unwrap_or(0), bin_ns: self.bin.unsigned_abs(), series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::process;

    #[test]
    fn what_is_done_is_told_when_it_was_done_however_long_that_takes() {
        let key = |name: &str| Key { domain: "host".into(), object: process(name) };
        let mut history = History::default();
        history.time(0, 1_000, 1_000 + 3 * FIRST);
        history.amount(1, 1_000 + FIRST, 7);
        history.time(0, 500, 600);
        let told = history.clone().told(&[key("a"), key("b")]);
        let first = FIRST.unsigned_abs();
        assert_eq!((told.begin_ns, told.bin_ns), (1_000, first));
        assert_eq!(told.series[&key("a")], [first, first, first]);
        assert_eq!(told.series[&key("b")], [0, 7, 0]);
        let day = 86_400_000_000_000;
        history.time(0, 1_000 + day, 2_000 + day);
        let told = history.told(&[key("a"), key("b")]);
        let values = &told.series[&key("a")];
        assert!(values.len() <= BINS && values.len() > BINS / 2, "{}", values.len());
        assert_eq!((values[0], values[values.len() - 1]), (3 * first, 1_000));
        assert_eq!(told.series[&key("b")].iter().sum::<u64>(), 7);
    }
}
