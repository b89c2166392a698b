//! Whose the variation is: the shares of parts in the variance of the whole and in its tail, and what the whole would be
//! if a part did not vary.
//!
//! Parts sum to the whole, so covariances with it sum to its variance, and differences of means to its difference.

/// Figures of a distribution, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Half are at most so long.
    pub p50: f64,
    /// All but one in a hundred.
    pub p99: f64,
    /// Standard deviation.
    pub deviation: f64,
}

impl Spread {
    /// Of these; zeros of none.
    pub fn of(times: &[f64]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { p50: rank(&sorted, 0.5), p99: rank(&sorted, 0.99), deviation: covariance(times, times).sqrt() }
    }
}

/// The smallest that at least that share of sorted values does not exceed; 0 of none.
pub(crate) fn rank(sorted: &[f64], share: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The median of values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    rank(&sorted, 0.5)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let of = values.len();
    values.sum::<f64>() / of.max(1) as f64
}

fn covariance(one: &[f64], other: &[f64]) -> f64 {
    let means = [mean(one.iter().copied()), mean(other.iter().copied())];
    mean(one.iter().zip(other).map(|(a, b)| (a - means[0]) * (b - means[1])))
}

/// The least requests that a tail is made of: where one in a hundred are fewer, so many of the slowest.
const TAIL: usize = 10;

/// Which requests are the tail, and which are typical.
#[derive(Clone, Debug)]
pub struct Ranks {
    /// The slowest hundredth, or ten.
    pub tail: Vec<usize>,
    /// Those around the median: the middle fifth.
    pub middle: Vec<usize>,
}

impl Ranks {
    /// Of requests that took so long.
    pub fn of(times: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by(|one, other| times[*one].total_cmp(&times[*other]));
        let tail = times.len().div_ceil(100).max(TAIL).min(times.len());
        let fifth = times.len() / 5;
        Self {
            tail: order[times.len() - tail..].to_vec(),
            middle: order[2 * fifth..times.len() - 2 * fifth].to_vec(),
        }
    }

    /// The mean of a part in the tail, and typically.
    pub fn means(&self, part: &[f64]) -> [f64; 2] {
        [&self.tail, &self.middle].map(|ranks| mean(ranks.iter().map(|at| part[*at])))
    }

    /// How much longer a part is in the tail than it is typically, in means.
    fn difference(&self, part: &[f64]) -> f64 {
        let [tail, typically] = self.means(part);
        tail - typically
    }
}

/// A tail that takes less than this share longer than what is typical is none: whose difference it is says nothing.
const TAIL_STANDS_OUT: f64 = 0.05;

/// The share of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// In the variance: 1 in all. Less than 0, where the part is shorter when the whole is longer.
    pub of_variance: f64,
    /// In what makes the slowest slower than the typical: 1 in all; 0 of each part if the slowest are hardly slower.
    pub of_tail: f64,
}

/// The share of each part in the whole.
pub fn shares(whole: &[f64], parts: &[Vec<f64>]) -> Vec<Share> {
    let ranks = Ranks::of(whole);
    let (variance, [tail, typically]) = (covariance(whole, whole), ranks.means(whole));
    let difference = if tail > (1.0 + TAIL_STANDS_OUT) * typically { tail - typically } else { 0.0 };
    let of = |value: f64, all: f64| if all > 0.0 { value / all } else { 0.0 };
    let share = |part: &Vec<f64>| Share {
        of_variance: of(covariance(part, whole), variance),
        of_tail: of(ranks.difference(part), difference),
    };
    parts.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However the time is divided.
        #[test]
        fn shares_sum_to_one(parts in prop::collection::vec(prop::collection::vec(0..1_000_000_u32, 40), 1..6)) {
            let parts: Vec<Vec<f64>> = parts.into_iter().map(|part| part.into_iter().map(f64::from).collect()).collect();
            let whole: Vec<f64> = (0..40).map(|at| parts.iter().map(|part| part[at]).sum()).collect();
            let shares = shares(&whole, &parts);
            let sum = |of: fn(&Share) -> f64| shares.iter().map(of).sum::<f64>();
            prop_assert!((sum(|share| share.of_variance) - 1.0).abs() < 1e-9);
            let of_tail = sum(|share| share.of_tail);
            prop_assert!(of_tail == 0.0 || (of_tail - 1.0).abs() < 1e-9, "{}", of_tail);
        }
    }

    #[test]
    fn what_does_not_vary_has_no_share() {
        let (still, moving): (Vec<f64>, Vec<f64>) = (0..200_u32).map(|at| (5.0, f64::from(at % 17))).unzip();
        let whole: Vec<f64> = still.iter().zip(&moving).map(|(a, b)| a + b).collect();
        let [nothing, all] = <[Share; 2]>::try_from(shares(&whole, &[still, moving])).unwrap();
        assert_eq!(nothing, Share::default());
        assert!((all.of_variance - 1.0).abs() < 1e-9 && (all.of_tail - 1.0).abs() < 1e-9);
        assert_eq!(shares(&[], &[vec![]]), [Share::default()]);
    }

    #[test]
    fn where_the_slowest_are_hardly_slower_than_the_typical_no_part_has_a_share_of_the_tail() {
        // Two parts that change places among the slow ones, and some that are quick.
        let one: Vec<f64> =
            (0..200_u32).map(|at| if at % 2 == 0 { 6.0 } else { 4.0 + f64::from(at % 3) / 1e3 }).collect();
        let other = one.iter().map(|one| 10.0 - one.floor()).enumerate();
        let other: Vec<f64> = other.map(|(at, other)| if at < 60 { 0.0 } else { other }).collect();
        let one: Vec<f64> =
            one.into_iter().enumerate().map(|(at, one)| if at < 60 { 0.05 } else { one }).collect();
        let whole: Vec<f64> = one.iter().zip(&other).map(|(a, b)| a + b).collect();
        let shares = shares(&whole, &[one, other]);
        assert!(shares.iter().all(|share| share.of_tail == 0.0), "{shares:?}");
        assert!((shares.iter().map(|share| share.of_variance).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_tail_is_the_slowest_hundredth_or_ten() {
        let times = |of: u32| Ranks::of(&(0..of).map(f64::from).collect::<Vec<_>>());
        assert_eq!((times(5000).tail.len(), times(5000).middle.len()), (50, 1000));
        assert_eq!((times(100).tail.len(), times(4).tail.len()), (10, 4));
    }
}
