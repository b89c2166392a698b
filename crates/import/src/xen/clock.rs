//! From a TSC to nanoseconds.

use crate::dat::Rate;

/// A TSC that counts so fast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    rate: Rate,
}

impl Clock {
    /// Of a rate in Hz.
    pub(super) fn new(hz: u64) -> Self {
        let mult = |shift: u32| u32::try_from((1_000_000_000u128 << shift) / u128::from(hz.max(1)));
        let exact = (0..=32).rev().find_map(|shift| Some((mult(shift).ok()?, shift)));
        let (mult, shift) = exact.unwrap_or((u32::MAX, 0));
        Self { rate: Rate { mult, shift, offset: 0 } }
    }

    /// The same for others who read that TSC, so that times are on one line: off by as much, if at all.
    pub(super) fn rate(self) -> Rate {
        self.rate
    }

    /// Nanoseconds since the TSC was 0: since the machine was switched on, or Xen set it so.
    pub(super) fn ns(self, tsc: u64) -> i64 {
        let ns = (u128::from(tsc) * u128::from(self.rate.mult)) >> self.rate.shift;
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dat;

    #[test]
    fn ticks_become_nanoseconds_as_for_others_who_read_them() {
        let clock = Clock::new(2_596_097_000);
        let line = dat::Clock { rate: Some(clock.rate()), ..dat::Clock::default() };
        for seconds in [1u64, 1000, 1_000_000] {
            let (tsc, ns) = (2_596_097_000 * seconds, 1_000_000_000 * seconds.cast_signed());
            assert!((clock.ns(tsc) - ns).unsigned_abs() <= seconds, "{seconds}");
            assert_eq!(clock.ns(tsc), line.line(tsc));
        }
        assert_eq!([1_000_000_000, 500_000_000].map(|hz| Clock::new(hz).ns(1_000)), [1_000, 2_000]);
    }

    #[test]
    fn what_no_clock_has_counted_is_as_late_as_can_be() {
        assert_eq!(Clock::new(500_000_000).ns(u64::MAX), i64::MAX);
        assert_eq!(Clock::new(0).ns(1), 1_000_000_000);
    }
}
