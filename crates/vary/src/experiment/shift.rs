//! By how much something was shifted: the middle of differences, and where it lies whatever their distribution.
//!
//! Hodges and Lehmann (Estimates of Location Based on Rank Tests): the estimate is the median of the Walsh averages (the
//! means of all pairs, each with itself too); the interval has those as its ends that Wilcoxon's signed-rank test does not
//! tell from the middle, by the test's exact distribution. It holds for differences that are independent and symmetrical
//! about their middle, which those of blocks are whose order within a round was drawn.

/// Rounds from which on an interval of 95 % is possible: with fewer, even the widest holds less often.
pub const ENOUGH: usize = 6;

/// Below that confidence nothing is called an effect.
const LEAST: f64 = 0.9;

/// By how much something was shifted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The Hodges–Lehmann estimate.
    pub estimate: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How often such an interval holds what it is about: at least as often as was asked for, if there are enough
    /// differences for that; else as often as the widest does.
    pub confidence: f64,
}

impl Shift {
    /// Of differences, with the narrowest interval that holds so often. None of none, or of what is no number.
    pub fn of(differences: &[f64], confidence: f64) -> Option<Self> {
        if differences.is_empty() || differences.iter().any(|difference| !difference.is_finite()) {
            return None;
        }
        let mut walsh: Vec<f64> = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
        for (nth, one) in differences.iter().enumerate() {
            walsh.extend(differences[..=nth].iter().map(|other| one / 2.0 + other / 2.0));
        }
        walsh.sort_unstable_by(f64::total_cmp);
        let (outside, tail) = outside(differences.len(), (1.0 - confidence) / 2.0);
        let estimate = f64::midpoint(walsh[(walsh.len() - 1) / 2], walsh[walsh.len() / 2]);
        let (low, high) = (walsh[outside], walsh[walsh.len() - 1 - outside]);
        Some(Self { estimate, low, high, confidence: 1.0 - 2.0 * tail })
    }

    /// Whether it is told from none.
    pub fn is_seen(&self) -> bool {
        self.confidence >= LEAST && (self.low > 0.0 || self.high < 0.0)
    }

    /// How large one must be to be told from none: about half of the interval.
    pub fn visible(&self) -> f64 {
        self.high / 2.0 - self.low / 2.0
    }

    /// The same of ratios, if it is of their logarithms.
    pub fn ratio(self) -> Self {
        let Self { estimate, low, high, confidence } = self;
        Self { estimate: estimate.exp(), low: low.exp(), high: high.exp(), confidence }
    }
}

/// How many Walsh averages lie outside the interval at each end, and how likely the middle lies beyond that end: at most
/// `most`, unless none lie outside.
fn outside(count: usize, most: f64) -> (usize, f64) {
    // How likely the sum of the ranks of positive differences is each number: each rank is in it or not.
    let ranks = count * (count + 1) / 2;
    let mut likely = vec![0.0; ranks + 1];
    likely[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..=rank * (rank + 1) / 2).rev() {
            let with = if sum >= rank { likely[sum - rank] } else { 0.0 };
            likely[sum] = (likely[sum] + with) / 2.0;
        }
    }
    let (mut outside, mut tail) = (0, likely[0]);
    while outside + 1 < ranks / 2 && tail + likely[outside + 1] <= most {
        outside += 1;
        tail += likely[outside];
    }
    (outside, tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(differences: &[f64]) -> Shift {
        Shift::of(differences, 0.95).unwrap()
    }

    #[test]
    fn the_exact_distribution_is_that_of_tables() {
        // Hollander and Wolfe, Nonparametric Statistical Methods, table of the signed-rank statistic: the most that both tails
        // of 5 % leave outside.
        for (count, below, tail) in
            [(6, 0, 1.0 / 64.0), (8, 3, 5.0 / 256.0), (10, 8, 25.0 / 1024.0), (15, 25, 0.0240)]
        {
            let (outside, probability) = outside(count, 0.025);
            assert_eq!(outside, below, "{count}");
            assert!((probability - tail).abs() < 1e-4, "{count}: {probability}");
        }
        // Too few for 95 %: the widest, and what it is worth.
        for (count, confidence) in [(5, 0.9375), (4, 0.875), (2, 0.5), (1, 0.0)] {
            let shift = of(&vec![1.0; count]);
            assert!((shift.confidence - confidence).abs() < 1e-12, "{count}: {shift:?}");
            assert_eq!(shift.is_seen(), count == 5);
        }
        assert!(of(&[1.0; ENOUGH]).confidence > 0.95 && of(&[1.0; ENOUGH - 1]).confidence < 0.95);
    }

    #[test]
    fn the_estimate_is_the_median_of_the_averages_of_all_pairs() {
        // Walsh averages: 1, 1.5, 2, 5.5, 6, 10.
        assert_eq!(of(&[1.0, 2.0, 10.0]).estimate, 3.75);
        assert_eq!(of(&[5.0]), Shift { estimate: 5.0, low: 5.0, high: 5.0, confidence: 0.0 });
        assert_eq!(Shift::of(&[], 0.95), None);
        assert_eq!(Shift::of(&[1.0, f64::NAN], 0.95), None);
    }

    /// Of 4,000 experiments each, whose differences are spread as given about 3, the share whose interval holds 3.
    fn coverage(rounds: usize, mut difference: impl FnMut() -> f64) -> (f64, f64) {
        const TRIALS: usize = 4_000;
        let (mut held, mut confidence) = (0, 0.0);
        for _ in 0..TRIALS {
            let differences: Vec<f64> = (0..rounds).map(|_| 3.0 + difference()).collect();
            let shift = of(&differences);
            held += usize::from(shift.low <= 3.0 && 3.0 <= shift.high);
            confidence = shift.confidence;
        }
        (held as f64 / TRIALS as f64, confidence)
    }

    #[test]
    fn intervals_hold_as_often_as_they_say_whatever_the_distribution() {
        let mut random = fastrand::Rng::with_seed(19);
        for rounds in [5, 6, 8, 12, 20] {
            let uniform = coverage(rounds, || random.f64() - 0.5);
            // Tails without a mean: as of blocks of which one was disturbed.
            let cauchy = coverage(rounds, || (std::f64::consts::PI * (random.f64() - 0.5)).tan());
            // Steady, or one of two ways.
            let two =
                coverage(rounds, || (random.f64() - 0.5) / 100.0 + if random.bool() { 1.0 } else { -1.0 });
            for (held, confidence) in [uniform, cauchy, two] {
                // Three standard errors of so many trials.
                let error = 3.0 * (confidence * (1.0 - confidence) / 4_000.0).sqrt();
                assert!((held - confidence).abs() < error, "{rounds} rounds: {held} of {confidence}");
            }
        }
    }

    proptest! {
        #[test]
        fn it_moves_with_what_it_is_of_and_does_not_depend_on_order(
            mut differences in prop::collection::vec(-1e6..1e6_f64, 1..12), by in -1e6..1e6_f64,
        ) {
            let shift = of(&differences);
            prop_assert!(shift.low <= shift.estimate && shift.estimate <= shift.high);
            let moved: Vec<f64> = differences.iter().map(|difference| difference + by).collect();
            let moved = of(&moved);
            for (before, after) in
                [(shift.estimate, moved.estimate), (shift.low, moved.low), (shift.high, moved.high)]
            {
                prop_assert!((before + by - after).abs() < 1e-6);
            }
            let mirrored: Vec<f64> = differences.iter().map(|difference| -difference).collect();
            let mirrored = of(&mirrored);
            prop_assert!((mirrored.low + shift.high).abs() < 1e-6 && (mirrored.high + shift.low).abs() < 1e-6);
            differences.reverse();
            prop_assert_eq!(of(&differences), shift);
        }
    }
}
