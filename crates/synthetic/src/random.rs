//! Random numbers that are the same each time.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(beginning: u64) -> Self {
        Self(beginning)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// At least `low`, below `high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.next() % low.abs_diff(high).max(1)).unwrap_or(0)
    }

    /// One of `count` places.
    pub(crate) fn place(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count.max(1) as u64).unwrap_or(0)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, of: u64) -> bool {
        self.next() % 100 < of
    }
}
