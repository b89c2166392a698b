//! From a TSC to nanoseconds.

use std::ops::RangeInclusive;

use xweave_trace::TscLine;

use crate::dat::Rate;

/// So much before the first point of a trace's TSC and after the last, its records are still told: half a second of others'
/// rate, by which they are off by less than 250 µs.
const BEYOND: i64 = 500_000_000;

/// What times of a TSC are.
#[derive(Clone, Debug)]
pub(super) enum Clock {
    /// It counts so fast, and was 0 at 0.
    Rate(Rate),
    /// It was so much at these times: ticks since the first, nanoseconds.
    Points { first: u64, points: Vec<(i64, i64)> },
}

impl Clock {
    /// Of a rate in Hz.
    pub(super) fn new(hz: u64) -> Self {
        let mult = |shift: u32| u32::try_from((1_000_000_000u128 << shift) / u128::from(hz.max(1)));
        let exact = (0..=32).rev().find_map(|shift| Some((mult(shift).ok()?, shift)));
        let (mult, shift) = exact.unwrap_or((u32::MAX, 0));
        Self::Rate(Rate { mult, shift, offset: 0 })
    }

    /// Of a trace. None if its points are not two, or not in order.
    pub(super) fn of(line: &TscLine) -> Option<Self> {
        let &(first, _) = line.points.first()?;
        let point = |&(tsc, ns): &(u64, i64)| (tsc.wrapping_sub(first).cast_signed(), ns);
        let points: Vec<_> = line.points.iter().map(point).collect();
        let in_order = points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        (in_order && points.len() > 1).then_some(Self::Points { first, points })
    }

    /// The same for others who read that TSC, so that times are on one line: off by as much, if at all.
    pub(super) fn rate(&self) -> Option<Rate> {
        match self {
            Self::Rate(rate) => Some(*rate),
            Self::Points { .. } => None,
        }
    }

    /// How often it counts in a second.
    pub(super) fn hz(&self) -> u64 {
        match self {
            Self::Rate(rate) => rate.hz(),
            Self::Points { points, .. } => {
                let (from, to) = (points[0], points[points.len() - 1]);
                let (ticks, ns) = (to.0.abs_diff(from.0), to.1.abs_diff(from.1));
                let hz = u128::from(ticks) * 1_000_000_000 / u128::from(ns);
                u64::try_from(hz).unwrap_or(u64::MAX)
            }
        }
    }

    /// Nanoseconds: of the trace; or since the TSC was 0, which is since the machine was switched on, or Xen set it so.
    pub(super) fn ns(&self, tsc: u64) -> i64 {
        let ns = match self {
            Self::Rate(rate) => (i128::from(tsc) * i128::from(rate.mult)) >> rate.shift,
            Self::Points { first, points } => {
                let tick = tsc.wrapping_sub(*first).cast_signed();
                let after = points.partition_point(|(at, _)| *at <= tick).clamp(1, points.len() - 1);
                let ((from, from_ns), (to, to_ns)) = (points[after - 1], points[after]);
                let (ticks, ns) =
                    (i128::from(to) - i128::from(from), i128::from(to_ns) - i128::from(from_ns));
                i128::from(from_ns) + ((i128::from(tick) - i128::from(from)) * ns).div_euclid(ticks)
            }
        };
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    }

    /// The times that it tells.
    pub(super) fn tells(&self) -> RangeInclusive<i64> {
        match self {
            Self::Rate(_) => i64::MIN..=i64::MAX,
            Self::Points { points, .. } => {
                points[0].1.saturating_sub(BEYOND)..=points[points.len() - 1].1.saturating_add(BEYOND)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dat;

    #[test]
    fn ticks_become_nanoseconds_as_for_others_who_read_them() {
        let clock = Clock::new(2_596_097_000);
        let line = dat::Clock { rate: clock.rate(), ..dat::Clock::default() };
        assert!(clock.hz().abs_diff(2_596_097_000) < 10, "{}", clock.hz());
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

    #[test]
    fn between_two_points_a_tsc_counts_evenly_and_beyond_as_before() {
        let line = |points: &[(u64, i64)]| Clock::of(&TscLine { error_ns: 0, points: points.to_vec() });
        // Two ticks a nanosecond, then four; the counter wraps in between.
        let begin = u64::MAX - 999;
        let clock = line(&[(begin, 5_000), (1_000, 6_000), (5_000, 7_000)]).unwrap();
        let times = [begin - 200, begin, begin + 100, 1_000, 1_004, 5_000, 5_400].map(|tsc| clock.ns(tsc));
        assert_eq!(times, [4_900, 5_000, 5_050, 6_000, 6_001, 7_000, 7_100]);
        assert_eq!((clock.hz(), clock.rate()), (3_000_000_000, None));
        assert_eq!(clock.tells(), 5_000 - BEYOND..=7_000 + BEYOND);
        for wrong in [&[][..], &[(1, 1)], &[(2, 1), (1, 2)], &[(1, 2), (2, 1)], &[(1, 1), (1, 2)]] {
            assert!(line(wrong).is_none(), "{wrong:?}");
        }
    }
}
