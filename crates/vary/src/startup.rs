//! Whether the recording's beginning was slower than the rest: a change point.
//!
//! By rank sums (Wilcoxon's) of what comes before the place where the level changes and after it, which a few slow requests
//! do not mislead; of medians of blocks of requests, since requests that follow each other depend on each other.

use crate::{bootstrap::block, shares::median};

/// The most blocks, and the fewest that tell anything.
const BLOCKS: usize = 200;
const FEWEST: usize = 12;

/// So many standard deviations of the rank sum are no chance, at whichever of [`BLOCKS`] places: one in a thousand.
const DEVIATIONS: f64 = 4.5;

/// A start that is not so many times as slow as the rest is not told apart.
const SLOWER: f64 = 1.5;

/// Of how many requests, from the first on, the start is made, if it was slower than what came then; at most a third.
pub fn startup(times: &[f64]) -> Option<usize> {
    // A start would make the requests look as if they depended on each other for as long as it lasts.
    let length = block(&times[times.len() / 2..]).max(times.len().div_ceil(BLOCKS)).max(1);
    let medians: Vec<f64> = times.chunks(length).map(median).collect();
    let (at, deviations) = change(&medians)?;
    let requests = (at * length).min(times.len());
    let (start, rest) = times.split_at(requests);
    let is_slower = median(start) > SLOWER * median(rest);
    (medians.len() >= FEWEST && deviations > DEVIATIONS && requests * 3 <= times.len() && is_slower)
        .then_some(requests)
}

/// After how many values they change (where two levels, one before and one after, fit best), and by how many standard
/// deviations of the rank sum.
fn change(values: &[f64]) -> Option<(usize, f64)> {
    let off = |of: &[f64]| {
        let level = median(of);
        of.iter().map(|value| (value - level).abs()).sum::<f64>()
    };
    let fit = |at: usize| off(&values[..at]) + off(&values[at..]);
    let at = (1..values.len()).map(|at| (fit(at), at)).min_by(|one, other| one.0.total_cmp(&other.0))?.1;
    let (n, before) = (values.len() as f64, at as f64);
    let sum: f64 = ranks(values).into_iter().take(at).sum();
    let (expected, variance) = (before * (n + 1.0) / 2.0, before * (n - before) * (n + 1.0) / 12.0);
    Some((at, (sum - expected).abs() / variance.sqrt()))
}

/// Equal ones share their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    let mut at = 0;
    while at < order.len() {
        let same = order[at..].iter().take_while(|other| values[**other] == values[order[at]]).count();
        // From at + 1 to at + same: the mean.
        let rank = at as f64 + (same as f64 + 1.0) / 2.0;
        order[at..at + same].iter().for_each(|&which| ranks[which] = rank);
        at += same;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize, seed: u64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        // Some are much longer than others.
        (0..n).map(|_| 1.0 - 0.5 * random.f64().ln()).collect()
    }

    #[test]
    fn a_slow_start_is_found_where_it_ends_and_nothing_else_is_called_one() {
        let found = (0..50).filter(|seed| startup(&noise(1000, *seed)).is_some()).count();
        assert!(found <= 2, "{found} of 50 without a start");
        for seed in 0..20 {
            let mut times = noise(1000, seed);
            times[..120].iter_mut().for_each(|time| *time *= 3.0);
            let found = startup(&times).unwrap_or_else(|| panic!("{seed}"));
            assert!((100..=150).contains(&found), "{found}");
            // The same at the end is no start, nor is one that is quicker.
            times.reverse();
            assert_eq!(startup(&times), None);
            let mut times = noise(1000, seed);
            times[..120].iter_mut().for_each(|time| *time /= 3.0);
            assert_eq!(startup(&times), None);
        }
        assert_eq!((startup(&[]), startup(&[1.0]), startup(&[2.0; 500])), (None, None, None));
    }
}
