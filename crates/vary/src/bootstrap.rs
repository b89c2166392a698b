//! How sure shares are: requests that follow each other depend on each other, so runs of them are drawn anew, not single
//! ones (the moving-block bootstrap: Künsch, The Jackknife and the Bootstrap for General Stationary Observations, 1989).

use crate::shares::{Share, shares};

/// The bounds between which nine in ten of the draws are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// One in twenty is below.
    pub low: f64,
    /// One in twenty is above.
    pub high: f64,
}

/// Draws, and requests drawn in all.
const DRAWS: usize = 200;
const DRAWN: usize = 4_000_000;

/// Its own numbers each time: the same of the same recording.
const SEED: u64 = 2004;

/// How many that follow each other depend on each other: the first distance from which on correlation with the ones before
/// is no more than that of chance, twice; at least the cube root of how many there are.
pub(crate) fn block(times: &[f64]) -> usize {
    let n = times.len();
    let mean = times.iter().sum::<f64>() / n.max(1) as f64;
    let product =
        |lag: usize| times.iter().zip(&times[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let (variance, chance) = (product(0), 2.0 / (n.max(1) as f64).sqrt());
    let most = (n / 10).max(1);
    let independent = (1..most).find(|&lag| product(lag) <= chance * variance).unwrap_or(most);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a root of a length")]
    let least = (n as f64).cbrt().ceil() as usize;
    (2 * independent).clamp(least.min(most), most)
}

/// The bounds of each part's shares: of the variance, and of the tail.
pub fn bounds(whole: &[f64], parts: &[Vec<f64>]) -> Vec<[Bounds; 2]> {
    let (n, length) = (whole.len(), block(whole));
    if n == 0 {
        return vec![[Bounds::default(); 2]; parts.len()];
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let draws = (DRAWN / n).clamp(50, DRAWS);
    let mut drawn: Vec<[Vec<f64>; 2]> = vec![[Vec::new(), Vec::new()]; parts.len()];
    for _ in 0..draws {
        let mut chosen = Vec::with_capacity(n + length);
        while chosen.len() < n {
            let from = random.usize(0..=n - length);
            chosen.extend(from..from + length);
        }
        chosen.truncate(n);
        let pick = |of: &[f64]| chosen.iter().map(|at| of[*at]).collect::<Vec<f64>>();
        let columns: Vec<_> = parts.iter().map(|part| pick(part)).collect();
        for (all, Share { of_variance, of_tail }) in drawn.iter_mut().zip(shares(&pick(whole), &columns)) {
            all[0].push(of_variance);
            all[1].push(of_tail);
        }
    }
    let bounds = |mut draws: Vec<f64>| {
        draws.sort_unstable_by(f64::total_cmp);
        Bounds { low: crate::shares::rank(&draws, 0.05), high: crate::shares::rank(&draws, 0.95) }
    };
    drawn.into_iter().map(|[variance, tail]| [bounds(variance), bounds(tail)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part that makes half of the variance, and one that follows itself for as long as `memory`.
    fn parts(n: usize, memory: usize, seed: u64) -> [Vec<f64>; 2] {
        let mut random = fastrand::Rng::with_seed(seed);
        let one = (0..n).map(|_| random.f64()).collect();
        let mut level = 0.0;
        let other = (0..n).map(|at| {
            if at % memory == 0 {
                level = random.f64();
            }
            level
        });
        let other = other.collect();
        [one, other]
    }

    fn sum(parts: &[Vec<f64>]) -> Vec<f64> {
        (0..parts[0].len()).map(|at| parts.iter().map(|part| part[at]).sum()).collect()
    }

    #[test]
    fn the_true_share_is_within_the_bounds_in_about_nine_of_ten_recordings_though_requests_depend_on_each_other()
     {
        let within = (0..60).filter(|seed| {
            let parts = parts(3000, 20, *seed);
            let [of_variance, _] = bounds(&sum(&parts), &parts)[0];
            of_variance.low <= 0.5 && 0.5 <= of_variance.high
        });
        let within = within.count();
        assert!((46..=59).contains(&within), "{within} of 60");
    }

    #[test]
    fn blocks_are_as_long_as_requests_depend_on_each_other() {
        let [one, other] = parts(2000, 40, 1);
        assert!(
            block(&one) <= 30 && (20..=200).contains(&block(&other)),
            "{} {}",
            block(&one),
            block(&other)
        );
        assert!(bounds(&[], &[vec![]]) == [[Bounds::default(); 2]] && block(&[1.0]) == 1);
    }
}
