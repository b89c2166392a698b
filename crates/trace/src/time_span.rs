//! Intervals of a trace's timeline.

/// Interval of a trace's timeline, in nanoseconds. The end no longer belongs to it, unless a field says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan {
    /// Beginning.
    pub from: i64,
    /// End.
    pub to: i64,
}

impl TimeSpan {
    /// Makes an interval that begins and ends at one moment.
    #[inline]
    pub fn at(time: i64) -> Self {
        Self { from: time, to: time }
    }

    /// Length in nanoseconds; 0 if the end comes before the beginning, as with clocks that disagree.
    #[inline]
    pub fn duration_ns(self) -> u64 {
        u64::try_from(self.to.saturating_sub(self.from)).unwrap_or(0)
    }

    /// Reports whether no moment lies in the interval.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.from >= self.to
    }

    /// Cuts off what lies outside of `bounds`. The result is [empty](TimeSpan::is_empty) if the two do not overlap.
    #[inline]
    pub fn clipped(self, bounds: Self) -> Self {
        Self { from: self.from.max(bounds.from), to: self.to.min(bounds.to) }
    }

    /// Makes the smallest interval that contains both.
    #[inline]
    pub fn joined(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_clipped_and_joined() {
        let span = |from, to| TimeSpan { from, to };
        assert_eq!(span(0, 10).clipped(span(5, 20)), span(5, 10));
        assert!(span(0, 5).clipped(span(5, 9)).is_empty());
        assert_eq!(span(0, 5).joined(span(7, 9)), span(0, 9));
        assert_eq!(TimeSpan::at(3).joined(TimeSpan::at(1)), span(1, 3));
    }

    #[test]
    fn durations_are_never_negative_and_never_overflow() {
        assert_eq!(TimeSpan { from: -2, to: 3 }.duration_ns(), 5);
        assert_eq!(TimeSpan { from: 3, to: -2 }.duration_ns(), 0);
        assert_eq!(TimeSpan { from: i64::MIN, to: i64::MAX }.duration_ns(), i64::MAX.unsigned_abs());
    }
}
