//! How long something took each time, in bounded memory.

use crate::sample::Sample;

/// Times that are remembered at most; of more, a choice.
const TIMES: usize = 64 << 10;

/// The smallest of the values, which are in ascending order and not none, that at least that share does not exceed.
pub(crate) fn rank<T: Copy>(values: &[T], percent: usize) -> T {
    values[(values.len() * percent).div_ceil(100).max(1) - 1]
}

/// How long something took each time, in bounded memory: the shortest and the longest as they were; of more than
/// some ten thousand, the others by a choice.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    min: i64,
    max: i64,
    sample: Sample<i64>,
}

impl Default for Durations {
    fn default() -> Self {
        Self { min: i64::MAX, max: i64::MIN, sample: Sample::of_at_most(TIMES) }
    }
}

/// The shortest and longest duration and those between, in nanoseconds; all 0 of none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    pub min_ns: i64,
    pub p50_ns: i64,
    pub p99_ns: i64,
    pub max_ns: i64,
}

impl Durations {
    pub(crate) fn add(&mut self, ns: i64) {
        (self.min, self.max) = (self.min.min(ns), self.max.max(ns));
        self.sample.offer(ns);
    }

    pub(crate) fn count(&self) -> u64 {
        self.sample.seen()
    }

    pub(crate) fn spread(&mut self) -> Spread {
        let ns = self.sample.chosen_mut();
        ns.sort_unstable();
        if ns.is_empty() {
            return Spread::default();
        }
        Spread { min_ns: self.min, p50_ns: rank(ns, 50), p99_ns: rank(ns, 99), max_ns: self.max }
    }
}
