//! From a TSC to nanoseconds.

/// A TSC that counts so fast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Ticks a second; not 0.
    hz: u64,
}

impl Clock {
    pub(super) fn new(hz: u64) -> Self {
        Self { hz: hz.max(1) }
    }

    /// Nanoseconds since the TSC was 0: since the machine was switched on, or Xen set it so.
    pub(super) fn ns(self, tsc: u64) -> i64 {
        let ns = u128::from(tsc) * 1_000_000_000 / u128::from(self.hz);
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        let clock = Clock::new(2_596_097_000);
        assert_eq!(
            [0, 1, 2_596_097_000, 5_192_194_001].map(|tsc| clock.ns(tsc)),
            [0, 0, 1_000_000_000, 2_000_000_000]
        );
        // For centuries, or as long as there is time.
        assert_eq!(clock.ns(2_596_097_000 * 3_000_000_000), 3_000_000_000_000_000_000);
        assert_eq!(Clock::new(1).ns(u64::MAX), i64::MAX);
    }
}
