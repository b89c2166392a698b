//! Spiky and steady variation apart: a spike is a run of requests, one or more, that each took much longer than those around
//! them. An ordinary request in between ends it.

use std::ops::Range;

use crate::shares::median;

/// Requests around one that say what is usual: an odd number between these, a tenth of all if possible.
const AROUND: [usize; 2] = [21, 201];

/// Median absolute deviations, as standard deviations of normal noise (times 1.4826), that make one stand out.
const DEVIATIONS: f64 = 6.0 * 1.4826;

/// What is no more than so much longer than usual is no spike, however little others vary.
const LEAST: f64 = 0.5;

/// The spikes, as runs of requests without an ordinary one among them.
pub fn spikes(times: &[f64]) -> Vec<Range<usize>> {
    let around = (times.len() / 10).clamp(AROUND[0], AROUND[1]) | 1;
    if times.len() < around {
        return Vec::new();
    }
    let mut spikes: Vec<Range<usize>> = Vec::new();
    for at in 0..times.len() {
        let from = at.saturating_sub(around / 2).min(times.len() - around);
        let near = &times[from..from + around];
        let usual = median(near);
        let off: Vec<f64> = near.iter().map(|time| (time - usual).abs()).collect();
        if times[at] <= usual + (DEVIATIONS * median(&off)).max(LEAST * usual) {
            continue;
        }
        match spikes.last_mut() {
            Some(last) if at == last.end => last.end = at + 1,
            _ => spikes.push(at..at + 1),
        }
    }
    spikes
}

/// Of the variance, the share of these requests: their squared distances from the mean, of all.
pub fn share(times: &[f64], spikes: &[Range<usize>]) -> f64 {
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let squares = |of: &[f64]| of.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
    let all = squares(times);
    if all > 0.0 { spikes.iter().map(|run| squares(&times[run.clone()])).sum::<f64>() / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_stand_out_are_spikes_and_a_level_that_changes_is_none() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut times: Vec<f64> = (0..1000).map(|_| 10.0 + random.f64()).collect();
        assert_eq!(spikes(&times), []);
        times[500..].iter_mut().for_each(|time| *time += 3.0);
        assert_eq!(spikes(&times), []);
        times[200..206].iter_mut().for_each(|time| *time += 50.0);
        times[203] -= 50.0;
        times[800] += 30.0;
        assert_eq!(spikes(&times), [200..203, 204..206, 800..801]);
        assert!(share(&times, &spikes(&times)) > 0.7);
        assert_eq!((spikes(&[]), share(&[], &[])), (vec![], 0.0));
    }

    #[test]
    fn slow_requests_with_an_ordinary_one_between_them_are_not_one_spike() {
        let mut times = vec![10.0; 1000];
        times[300..420].iter_mut().step_by(3).for_each(|time| *time = 100.0);
        assert_eq!(spikes(&times).len(), 40);
        assert!(spikes(&times).iter().all(|run| run.len() == 1));
    }
}
