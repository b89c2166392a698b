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

/// No more than so many times the median is little longer, and no less than the median divided by it little shorter.
pub const LITTLE: f64 = 1.5;

/// One request of so many may be much quicker than the median, and they vary little all the same.
pub const QUICK: usize = 10;

/// That there are too few requests.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{found} requests are too few to say why they vary: it takes {LEAST}")]
pub struct TooFew {
    /// How many there are.
    pub found: usize,
    /// What the trace was found to be.
    pub outcome: Box<Outcome>,
}

/// Requests on either side of the median that took much longer or shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sides {
    /// More than one in a hundred, or than one of fewer, took more than [`LITTLE`] times the median: what happened once is an
    /// event, and no variation.
    slow: bool,
    /// More than one in [`QUICK`] took less than the median divided by that.
    quick: bool,
    /// Number of the quick ones.
    quicker: u64,
}

impl Sides {
    fn of(times: &[f64], median: f64) -> Self {
        let once = (times.len() / 100).max(1);
        let count = |is: &dyn Fn(f64) -> bool| times.iter().filter(|time| is(**time)).count();
        let (slower, quicker) =
            (count(&|time| time > LITTLE * median), count(&|time| time * LITTLE < median));
        Self { slow: slower > once, quick: quicker * QUICK > times.len(), quicker: quicker as u64 }
    }

    fn vary_little(self) -> bool {
        !self.slow && !self.quick
    }
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
        // What is drawn anew may be off to one side: bounds without the share itself would contradict it.
        let around = |share: f64, bounds: Bounds| [bounds.low.min(share), bounds.high.max(share)];
        Self {
            share_of_variance: share.of_variance,
            variance_bounds: around(share.of_variance, variance),
            share_of_tail: share.of_tail,
            tail_bounds: around(share.of_tail, tail),
        }
    }

    /// The larger of the two.
    pub fn most(&self) -> f64 {
        self.share_of_variance.max(self.share_of_tail)
    }

    /// Whether the share of the variance is surely more than next to nothing.
    pub fn is_sure_of_variance(&self) -> bool {
        self.variance_bounds[0] > SURE
    }

    /// Whether the share of the tail is.
    pub fn is_sure_of_tail(&self) -> bool {
        self.tail_bounds[0] > SURE
    }

    /// Whether the share of the variance is worth naming, and sure.
    pub fn is_named_of_variance(&self) -> bool {
        self.share_of_variance >= NAMED && self.is_sure_of_variance()
    }

    /// Whether the share of the tail is.
    pub fn is_named_of_tail(&self) -> bool {
        self.share_of_tail >= NAMED && self.is_sure_of_tail()
    }

    /// Whether the share of the variance is large enough to be named, sure or not.
    pub fn is_large(&self) -> bool {
        self.share_of_variance >= NAMED
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
    /// Runs of such, without an ordinary one among them.
    pub spikes: u64,
    /// How many requests these are.
    pub requests: u64,
    /// Their share of the variance.
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
    /// Who did how much of it: shares of all of it, that of which nobody is known included.
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

/// By how much the requests' times would be less: negative, where they would be longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gain {
    /// What would be left of the cause.
    pub remedied: Remedied,
    /// Half are at most so long.
    pub p50_ns: i64,
    /// All but one in a hundred.
    pub p99_ns: i64,
}

impl Gain {
    /// Whether requests would be quicker, in the median or at the 99th percentile.
    pub fn is_any(self) -> bool {
        self.p50_ns > 0 || self.p99_ns > 0
    }
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
    /// Where the largest part of it was.
    pub segment: Option<Stretch>,
    /// The share that this part is of its time.
    pub share_of_segment: f64,
    /// How much of the variation it is.
    pub shares: Shares,
    /// Whether it is surely a part of the variation worth naming.
    pub named: bool,
    /// What speaks for it.
    pub evidence: Vec<Evidence>,
    /// What can be done, if anything can be on kernels of today, and there is a gain.
    pub remedy: Option<Remedy>,
    /// What that would gain, if it took away all of it or all that varies of it.
    pub gain: Gain,
    /// The slowest request that it kept most of the time.
    pub example: u64,
}

impl Found {
    /// Who did the largest part of it, if that is known.
    pub fn by(&self) -> Option<&Offender> {
        self.offenders.first().map(|by| &by.who)
    }

    /// The share that this one had in the cause's time; 0 if nobody is known.
    pub fn share_of_first(&self) -> f64 {
        self.offenders.first().map_or(0.0, |by| by.ns as f64 / self.ns.max(1) as f64)
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
    /// Whether they vary little, to either side of the median: then no cause is named.
    pub steady: bool,
    /// How many took less than the median divided by [`LITTLE`].
    pub quicker: u64,
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
    /// The number of requests that the figures are of: those that are kept, without a slow start.
    pub fn looked_at(&self) -> u64 {
        self.kept - self.startup.map_or(0, |startup| startup.requests)
    }

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
        let looked = Looked::new(requests, &all[start..], &times[start..], recording);
        let whole_ns = all[start..].iter().fold(0_u64, |sum, request| sum.saturating_add(request.total_ns));
        let spread = looked.spread;
        let sides = Sides::of(looked.times, spread.p50);
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
            steady: sides.vary_little(),
            quicker: sides.quicker,
            spikes,
            segments: looked.segments(),
            causes: looked.causes(&runs, sides),
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
        let vary_little = |times: &[f64], median: f64| Sides::of(times, median).vary_little();
        for (all, slow) in [(LEAST, 1), (99, 1), (199, 1), (250, 2), (1_000, 10)] {
            assert!(vary_little(&times(all, slow), 100.0), "{slow} of {all}");
            assert!(!vary_little(&times(all, slow + 1), 100.0), "{} of {all}", slow + 1);
            // From a hundred on it is the 99th percentile that decides.
            assert!(all < 100 || Spread::of(&times(all, slow)).p99 <= LITTLE * 100.0);
        }
        assert!(vary_little(&vec![150.0; 50], 100.0));
    }

    #[test]
    fn requests_that_are_much_quicker_than_the_median_vary_as_well() {
        let times: Vec<f64> = (0..200_u32).map(|at| if at % 20 < 9 { 0.05 } else { 10.0 }).collect();
        let sides = Sides::of(&times, 10.0);
        assert_eq!(sides, Sides { slow: false, quick: true, quicker: 90 });
        assert!(!sides.vary_little());
        let few: Vec<f64> = (0..200_u32).map(|at| if at % 10 == 0 { 0.05 } else { 10.0 }).collect();
        assert!(Sides::of(&few, 10.0).vary_little());
    }
}
