//! From the times in a trace.dat to nanoseconds on the time line.

/// How a guest's times become its host's, from one moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// The guest's time from when this holds.
    pub time: u64,
    pub offset: i64,
    pub scaling: u64,
    pub fraction: u32,
}

/// nanoseconds = ticks × `mult` >> `shift`, + `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub mult: u32,
    pub shift: u32,
    pub offset: u64,
}

impl Rate {
    /// How often it counts in a second; 0 if that is more than can be told.
    pub(crate) fn hz(self) -> u64 {
        let hz = (1_000_000_000u128 << self.shift.min(64)) / u128::from(self.mult.max(1));
        u64::try_from(hz).unwrap_or(0)
    }
}

/// The clock of one processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// In the order of their times; none of a host.
    pub shifts: Vec<Shift>,
    /// Between two of them, the offset goes steadily from one to the other.
    pub interpolate: bool,
    pub rate: Option<Rate>,
    /// Nanoseconds that are added in the end.
    pub offset: i64,
}

impl Clock {
    /// The nanoseconds of a time as it was recorded.
    #[inline]
    pub(crate) fn line(&self, time: u64) -> i64 {
        let mut time = time;
        if !self.shifts.is_empty() {
            time = self.shifted(time);
        }
        if let Some(rate) = self.rate {
            let product = u128::from(time) * u128::from(rate.mult);
            time = low(product >> rate.shift.min(127)).wrapping_add(rate.offset);
        }
        time.cast_signed().wrapping_add(self.offset)
    }

    fn shifted(&self, time: u64) -> u64 {
        let behind = self.shifts.partition_point(|shift| shift.time <= time);
        let Some(from) = self.shifts.get(behind.saturating_sub(1)) else { return time };
        let offset = match self.shifts.get(behind) {
            Some(to) if self.interpolate && behind > 0 && to.time > from.time => {
                let gone = i128::from(time - from.time) * i128::from(to.offset.wrapping_sub(from.offset));
                // Less than the difference of the offsets, since `time` is between the two.
                let moved = gone / i128::from(to.time - from.time);
                from.offset.wrapping_add(i64::try_from(moved).unwrap_or(0))
            }
            _ => from.offset,
        };
        let scaled = u128::from(time) * u128::from(from.scaling);
        low(scaled >> from.fraction.min(127)).wrapping_add_signed(offset)
    }
}

/// The lower half, as the kernel's own arithmetic leaves it.
#[expect(clippy::cast_possible_truncation)]
fn low(number: u128) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shift(time: u64, offset: i64, scaling: u64, fraction: u32) -> Shift {
        Shift { time, offset, scaling, fraction }
    }

    #[test]
    fn a_clock_of_nanoseconds_stays_as_it_is() {
        assert_eq!(Clock::default().line(123_456), 123_456);
        assert_eq!(Clock { offset: -56, ..Clock::default() }.line(123_456), 123_400);
    }

    #[test]
    fn ticks_become_nanoseconds() {
        let rate = Some(Rate { mult: 827_180_749, shift: 31, offset: 7 });
        // What a TSC of 2.596 GHz counts in a second, and long after.
        assert_eq!(Clock { rate, ..Clock::default() }.line(2_596_148_002), 1_000_000_000 + 7);
        assert!(Clock { rate, ..Clock::default() }.line(u64::MAX >> 1) > 3_400_000_000_000_000_000);
    }

    #[test]
    fn a_guests_time_is_scaled_and_moved() {
        let one = |shift| Clock { shifts: vec![shift], ..Clock::default() };
        assert_eq!(one(shift(50, 1000, 1, 0)).line(10), 1010);
        assert_eq!(one(shift(0, -5, 3 << 31, 32)).line(10), 10);
        let two = vec![shift(100, 0, 1, 0), shift(200, 50, 1, 0)];
        let clock = Clock { shifts: two.clone(), ..Clock::default() };
        assert_eq!([90, 150, 200, 300].map(|time| clock.line(time)), [90, 150, 250, 350]);
        let clock = Clock { shifts: two, interpolate: true, ..Clock::default() };
        assert_eq!([90, 150, 200, 300].map(|time| clock.line(time)), [90, 175, 250, 350]);
    }
}
