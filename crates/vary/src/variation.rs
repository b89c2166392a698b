//! Why the requests of a trace vary: all that is found.

mod looked;

use std::collections::BTreeMap;

use xweave_model::{Offender, Outcome, Power, Spec, Stretch, explain};
use xweave_trace::{Manifest, Trace};

use self::looked::Looked;
use crate::{
    bootstrap::Bounds,
    cause::{Cause, Remedied, Remedy},
    requests::Requests,
    settings::{Setting, costs, settings},
    shares::{Share, Spread},
    spikes::{self, spikes},
    startup::startup,
};

/// So many requests, at least: the slowest of fewer tell little.
pub const LEAST: usize = 40;

/// A cause of less of the variance and of the tail is not named, nor one whose share may as well be nothing.
const NAMED: f64 = 0.1;
const SURE: f64 = 0.02;

/// No more than so many times the median is little longer.
pub const LITTLE: f64 = 1.5;

/// That there are too few requests.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{found} requests are too few to say why they vary: it takes {LEAST}")]
pub struct TooFew {
    /// How many there are.
    pub found: usize,
    /// What the trace was found to be.
    pub outcome: Box<Outcome>,
}

/// Whether no more than one request in a hundred takes much longer than the median, or one of fewer: what happened once is
/// an event, and no variation.
fn vary_little(times: &[f64], median: f64) -> bool {
    let much = times.iter().filter(|time| **time > LITTLE * median).count();
    much <= (times.len() / 100).max(1)
}

/// Figures of times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Half are at most so long.
    pub p50_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// Standard deviation.
    pub deviation_ns: u64,
}

impl From<Spread> for Times {
    fn from(Spread { p50, p99, deviation }: Spread) -> Self {
        Self { p50_ns: whole(p50), p99_ns: whole(p99), deviation_ns: whole(deviation) }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and from 0 on")]
fn whole(ns: f64) -> u64 {
    ns.round().max(0.0) as u64
}

/// A share, and between which bounds it is in nine of ten recordings like this one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Of the variance. All segments' sum to 1, and all causes'.
    pub share_of_variance: f64,
    /// Its bounds.
    pub variance_bounds: [f64; 2],
    /// Of what makes the slowest slower than the typical: the same.
    pub share_of_tail: f64,
    /// Its bounds.
    pub tail_bounds: [f64; 2],
}

impl Shares {
    fn new(share: Share, [variance, tail]: [Bounds; 2]) -> Self {
        let both = |bounds: Bounds| [bounds.low, bounds.high];
        Self {
            share_of_variance: share.of_variance,
            variance_bounds: both(variance),
            share_of_tail: share.of_tail,
            tail_bounds: both(tail),
        }
    }

    /// The larger of the two.
    pub fn most(&self) -> f64 {
        self.share_of_variance.max(self.share_of_tail)
    }

    /// Whether one of them is worth naming, and surely more than nothing.
    fn named(&self) -> bool {
        let is = |share: f64, bounds: [f64; 2]| share >= NAMED && bounds[0] > SURE;
        is(self.share_of_variance, self.variance_bounds) || is(self.share_of_tail, self.tail_bounds)
    }
}

/// A slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Startup {
    /// How many requests it is.
    pub requests: u64,
    /// Since the first one's beginning.
    pub ns: u64,
    /// Half of them took at most so long.
    pub p50_ns: u64,
}

/// Requests that took much longer than those around them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spikes {
    /// Runs of such.
    pub spikes: u64,
    /// How many requests these are.
    pub requests: u64,
    /// Their share of the variance; the rest is steady.
    pub share_of_variance: f64,
}

/// A part of the way of all requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Where that is.
    pub stretch: Stretch,
    /// Half of the requests were there for at most so long.
    pub p50_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// How much of the variation it is.
    pub shares: Shares,
    /// The requests' times, if they were there as long as the median one.
    pub if_steady: Times,
    /// How many other flows a request found there, if flows tell.
    pub others: Option<Others>,
    /// What all requests' time there was spent on: nanoseconds of each of `xweave explain`'s states.
    pub spent_ns: BTreeMap<&'static str, u64>,
}

/// How many others a request found where it came: the depth of a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Others {
    /// Half of the requests at most so many.
    pub p50: u64,
    /// All but one in a hundred.
    pub p99: u64,
    /// The most.
    pub max: u64,
    /// The slowest, in the mean.
    pub mean_in_tail: f64,
    /// Typical ones.
    pub mean_typically: f64,
}

/// Who did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// Who.
    pub who: Offender,
    /// How long, in nanoseconds.
    pub ns: u64,
}

/// What speaks for a cause.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// How much time there was of it.
    Total {
        /// In nanoseconds.
        ns: u64,
        /// In so many requests.
        requests: usize,
        /// Of so many.
        of: usize,
    },
    /// How much more of it the slowest requests had.
    Tail {
        /// How many these are.
        slowest: usize,
        /// The mean of these, in nanoseconds.
        mean_in_tail_ns: u64,
        /// The same of typical ones.
        mean_typically_ns: u64,
    },
    /// Who did how much of it: shares.
    By(Vec<(Offender, f64)>),
    /// In how many spikes it was more than twice as long as typically.
    Spikes {
        /// In so many.
        longer: usize,
        /// Of so many.
        of: usize,
    },
    /// How the CPUs saved power meanwhile.
    Power {
        /// How.
        power: Power,
        /// In so many requests.
        requests: usize,
        /// In half of these for at most so long, in nanoseconds.
        p50_ns: u64,
    },
}

/// By how much the requests' times would be less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gain {
    /// What would be left of the cause.
    pub remedied: Remedied,
    /// Half are at most so long.
    pub p50_ns: i64,
    /// All but one in a hundred.
    pub p99_ns: i64,
}

/// What kept requests, and makes them vary.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What it is.
    pub cause: Cause,
    /// All who did it, the most first.
    pub offenders: Vec<By>,
    /// How many requests it kept.
    pub requests: u64,
    /// For how long in all, in nanoseconds.
    pub ns: u64,
    /// Where most of it was.
    pub segment: Option<Stretch>,
    /// How much of the variation it is.
    pub shares: Shares,
    /// Whether it is surely a part of the variation worth naming.
    pub named: bool,
    /// What speaks for it.
    pub evidence: Vec<Evidence>,
    /// What can be done, if anything can be on kernels of today.
    pub remedy: Option<Remedy>,
    /// What that would gain, if it took away all of it or all that varies of it.
    pub gain: Gain,
    /// The slowest request that it kept most of the time.
    pub example: u64,
}

impl Found {
    /// Who did most of it, if that is known.
    pub fn by(&self) -> Option<&Offender> {
        self.offenders.first().map(|by| &by.who)
    }
}

/// Why requests vary.
#[derive(Clone, Debug)]
pub struct Variation {
    /// How many requests there are.
    pub requests: u64,
    /// How many of them are looked at: of very many, some.
    pub kept: u64,
    /// A start that was slower; the figures are of the requests after it.
    pub startup: Option<Startup>,
    /// How long they took.
    pub times: Times,
    /// Whether they vary little: then no cause is named.
    pub steady: bool,
    /// Those that stand out.
    pub spikes: Spikes,
    /// Where they were, in turn.
    pub segments: Vec<Segment>,
    /// What kept them, the largest share first.
    pub causes: Vec<Found>,
    /// The settings that cost them time, the most first.
    pub settings: Vec<Setting>,
    /// What was gone through.
    pub outcome: Outcome,
}

impl Variation {
    /// Of the transactions of a trace, with these as they are kept, in the order in which they began.
    ///
    /// # Errors
    /// There are too few.
    pub fn of(trace: &Trace, spec: &Spec) -> Result<(Self, Requests), TooFew> {
        let mut requests = Requests::default();
        let outcome = explain(trace, spec, &mut |transaction, objects| requests.add(&transaction, objects));
        let found = Self::of_requests(&mut requests, outcome, trace.manifest())?;
        Ok((found, requests))
    }

    /// Of requests that were collected in a recording, which it puts into the order in which they began.
    ///
    /// # Errors
    /// There are too few.
    pub fn of_requests(
        requests: &mut Requests,
        outcome: Outcome,
        recording: &Manifest,
    ) -> Result<Self, TooFew> {
        let found = requests.all().len();
        if found < LEAST {
            return Err(TooFew { found, outcome: Box::new(outcome) });
        }
        requests.sort();
        let all = requests.all();
        let times: Vec<f64> = all.iter().map(|request| request.total_ns as f64).collect();
        let start = startup(&times).filter(|start| found - start >= LEAST).unwrap_or(0);
        let startup = (start > 0).then(|| Startup {
            requests: start as u64,
            ns: all[start].start_ns.abs_diff(all[0].start_ns),
            p50_ns: whole(Spread::of(&times[..start]).p50),
        });
        let looked = Looked::new(requests, &all[start..], &times[start..], recording.background);
        let whole_ns = all[start..].iter().fold(0_u64, |sum, request| sum.saturating_add(request.total_ns));
        let spread = looked.spread;
        let steady = vary_little(looked.times, spread.p50);
        let runs = spikes(looked.times);
        let spikes = Spikes {
            spikes: runs.len() as u64,
            requests: runs.iter().map(|run| run.len() as u64).sum(),
            share_of_variance: spikes::share(looked.times, &runs),
        };
        Ok(Self {
            requests: requests.seen(),
            kept: found as u64,
            startup,
            times: spread.into(),
            steady,
            spikes,
            segments: looked.segments(),
            causes: looked.causes(&runs, steady),
            settings: settings(
                &costs(requests, &all[start..], &outcome.objects),
                whole_ns,
                &recording.domains,
            ),
            outcome,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_request_of_few_is_no_variation_and_one_in_a_hundred_of_many_is_none() {
        let times = |all: usize, slow: usize| {
            let time = |at| if at < slow { 151.0 } else { 100.0 };
            (0..all).map(time).collect::<Vec<f64>>()
        };
        for (all, slow) in [(LEAST, 1), (99, 1), (199, 1), (250, 2), (1_000, 10)] {
            assert!(vary_little(&times(all, slow), 100.0), "{slow} of {all}");
            assert!(!vary_little(&times(all, slow + 1), 100.0), "{} of {all}", slow + 1);
            // From a hundred on it is the 99th percentile that decides.
            assert!(all < 100 || Spread::of(&times(all, slow)).p99 <= LITTLE * 100.0);
        }
        assert!(vary_little(&vec![150.0; 50], 100.0));
    }
}
