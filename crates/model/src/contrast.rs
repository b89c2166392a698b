//! Two sides of transactions, and where the difference lies: the slow against the fast ones of a run, or those of one
//! run against another's.
//!
//! Of each side the mean is taken, because means add up: the parts' differences sum exactly to the difference. A mean
//! of all would be that of a few outliers, so what is typical is the middle half (the interquartile mean).
//!
//! A trace is gone through twice, for the lengths and for the parts: so memory is for the lengths only.

use std::{cmp::Reverse, collections::BTreeMap};

use xweave_trace::Trace;

use crate::{
    delay::{Delay, Offender},
    explanation::{Explained, Outcome, explain},
    objects::Objects,
    parts::{Such, add_ns},
    recorded::LeftOut,
    spec::Spec,
};

/// So many transactions on each side, at least: the mean of fewer says little.
const LEAST: usize = 10;

/// A difference of a cause of no more than so many standard errors is noise.
const ERRORS: f64 = 2.0;

/// Which of a run's transactions are looked at, in the order of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Without the fastest and the slowest quarter.
    MiddleHalf,
    /// The slowest tenth.
    SlowestTenth,
    /// The slowest quarter, where a tenth would be too few.
    SlowestQuarter,
}

impl Share {
    /// The ranks of those of so many.
    fn ranks(self, of: usize) -> std::ops::Range<usize> {
        match self {
            Self::MiddleHalf => of / 4..of - of / 4,
            Self::SlowestTenth => of - of / 10..of,
            Self::SlowestQuarter => of - of / 4..of,
        }
    }

    /// How many there must be, so that enough are looked at.
    fn least(self) -> usize {
        let enough = |of: &usize| self.ranks(*of).len() >= LEAST;
        (LEAST..).find(enough).unwrap_or(usize::MAX)
    }

    fn of_slow(transactions: usize) -> Self {
        if transactions < Self::SlowestTenth.least() { Self::SlowestQuarter } else { Self::SlowestTenth }
    }
}

/// That a run has too few transactions to compare.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{found} transactions are too few to compare: it takes {least}")]
pub struct TooFew {
    /// Which of the runs, from 0.
    pub run: usize,
    /// How many it has.
    pub found: usize,
    /// How many it takes.
    pub least: usize,
    /// What the run was found to be, where no transaction began and ended in it.
    pub outcome: Box<Outcome>,
}

/// One side.
#[derive(Clone, Debug)]
pub struct Side {
    /// Which transactions these are.
    pub share: Share,
    /// How many the run has.
    pub transactions: u64,
    /// How many of them are on this side.
    pub chosen: u64,
    /// Mean time of those, in nanoseconds.
    pub mean_ns: u64,
    /// The median of all of the run.
    pub p50_ns: u64,
    /// The 99th percentile of all.
    pub p99_ns: u64,
    /// The ID of one with the median time of this side's.
    pub example: u64,
}

/// What kept transactions of either side, in means of these.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// What kept them.
    pub delay: Delay,
    /// How long, on either side.
    pub ns: [u64; 2],
    /// How much longer on the second side.
    pub difference_ns: i64,
    /// The standard error of that.
    pub error_ns: u64,
    /// Whether the difference is beyond noise.
    pub differs: bool,
    /// By whom, as far as that is known, what changed most first.
    pub by: Vec<By>,
}

/// A share of what kept transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// Who it was.
    pub who: Offender,
    /// How long, on either side.
    pub ns: [u64; 2],
    /// How much longer on the second side.
    pub difference_ns: i64,
}

/// What the time was spent on, in means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose time, and what it was spent on.
    pub such: Such,
    /// How long, on either side. All parts of a side sum to its mean.
    pub ns: [u64; 2],
    /// How much longer on the second side. All parts' sum to the difference.
    pub difference_ns: i64,
    /// How many transactions of either side had any of it.
    pub transactions: [u64; 2],
}

/// Two sides of transactions compared.
#[derive(Clone, Debug)]
pub struct Contrast {
    /// Fast and slow, or first and second.
    pub sides: [Side; 2],
    /// How much longer the second side's took: the difference of the means.
    pub difference_ns: i64,
    /// The standard error of that.
    pub error_ns: u64,
    /// Whether the difference is beyond noise.
    pub differs: bool,
    /// What only one of two runs recorded: what these events tell of is something else in the other run.
    pub left_out: Vec<LeftOut>,
    /// What kept them, what changed most first; these sum to the difference, too.
    pub causes: Vec<Cause>,
    /// What the time was spent on, what changed most first.
    pub parts: Vec<Part>,
    /// What was gone through, once for each run.
    pub outcomes: Vec<Outcome>,
}

impl Contrast {
    /// The slow transactions of a run against its typical ones.
    ///
    /// # Errors
    /// There are too few.
    pub fn of_slow(trace: &Trace, spec: &Spec) -> Result<Self, TooFew> {
        let run = Ranked::of(trace, spec);
        let slow = Share::of_slow(run.keys.len());
        run.check(0, slow)?;
        let mut sides = [Sums::of(&run, Share::MiddleHalf), Sums::of(&run, slow)];
        let outcome = fill(trace, spec, &mut sides);
        Ok(Self::new(sides, vec![outcome]))
    }

    /// The typical transactions of two runs.
    ///
    /// # Errors
    /// There are too few in one of them.
    pub fn of_runs(traces: [&Trace; 2], spec: &Spec) -> Result<Self, TooFew> {
        let runs = traces.map(|trace| Ranked::of(trace, spec));
        for (at, run) in runs.iter().enumerate() {
            run.check(at, Share::MiddleHalf)?;
        }
        let mut sides = runs.each_ref().map(|run| Sums::of(run, Share::MiddleHalf));
        let filled = traces.iter().zip(&mut sides);
        let outcomes = filled.map(|(trace, side)| fill(trace, spec, std::slice::from_mut(side))).collect();
        Ok(Self::new(sides, outcomes))
    }

    fn new(sides: [Sums; 2], outcomes: Vec<Outcome>) -> Self {
        let [a, b] = &sides;
        let mut ns: BTreeMap<&Such, [u64; 2]> = BTreeMap::new();
        for (at, side) in sides.iter().enumerate() {
            side.means().into_iter().for_each(|(such, mean)| ns.entry(such).or_default()[at] = mean);
        }
        let had = |such: &Such| [a, b].map(|side| side.parts.get(such).map_or(0, |sum| sum.transactions));
        let part = |(such, ns): (&&Such, &[u64; 2])| Part {
            such: (*such).clone(),
            ns: *ns,
            difference_ns: difference(*ns),
            transactions: had(such),
        };
        let mut parts: Vec<Part> = ns.iter().map(part).collect();
        parts.sort_by_key(|part| Reverse(part.difference_ns.unsigned_abs()));
        let causes = causes(&ns, [a, b]);
        let side = |sums: &Sums| sums.side.clone();
        let described = [side(a), side(b)];
        let difference_ns = difference([a.side.mean_ns, b.side.mean_ns]);
        let (error_ns, differs) = error(difference_ns, [a.variance, b.variance]);
        let left_out = match &*outcomes {
            [a, b] => LeftOut::of([&a.recorded, &b.recorded]),
            _ => Vec::new(),
        };
        Self { sides: described, difference_ns, error_ns, differs, left_out, causes, parts, outcomes }
    }
}

fn difference([a, b]: [u64; 2]) -> i64 {
    let ns = a.abs_diff(b).min(i64::MAX.unsigned_abs()).cast_signed();
    if b < a { -ns } else { ns }
}

/// The standard error of a difference of two means, of the variances of these; and whether it is beyond noise.
fn error(difference_ns: i64, variances: [f64; 2]) -> (u64, bool) {
    let error = variances.iter().sum::<f64>().sqrt();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a root is not negative")]
    let error_ns = error.round() as u64;
    (error_ns, difference_ns.unsigned_abs() as f64 > ERRORS * error)
}

/// How long on either side, in all and by whom.
type Kept = ([u64; 2], BTreeMap<Offender, [u64; 2]>);

/// What kept them, of the parts' means: so these sum to the same.
fn causes(ns: &BTreeMap<&Such, [u64; 2]>, sides: [&Sums; 2]) -> Vec<Cause> {
    let mut kept: BTreeMap<Delay, Kept> = BTreeMap::new();
    let add = |sum: &mut [u64; 2], ns: &[u64; 2]| {
        sum.iter_mut().zip(ns).for_each(|(sum, ns)| add_ns(sum, *ns));
    };
    for (such, ns) in ns {
        let (delay, by) = such.delay();
        let (sum, all) = kept.entry(delay).or_default();
        add(sum, ns);
        by.into_iter().for_each(|by| add(all.entry(by).or_default(), ns));
    }
    let cause = |(delay, (ns, by)): (Delay, Kept)| {
        let by = by.into_iter().map(|(who, ns)| By { who, ns, difference_ns: difference(ns) });
        let mut by: Vec<By> = by.collect();
        by.sort_by_key(|by| Reverse(by.difference_ns.unsigned_abs()));
        let difference_ns = difference(ns);
        let (error_ns, differs) = error(difference_ns, sides.map(|side| side.variance(&delay)));
        Cause { delay, ns, difference_ns, error_ns, differs, by }
    };
    let mut causes: Vec<Cause> = kept.into_iter().map(cause).collect();
    causes.sort_by_key(|cause| Reverse(cause.difference_ns.unsigned_abs()));
    causes
}

/// Goes through a run's transactions, and adds up those of each side.
fn fill(trace: &Trace, spec: &Spec, sides: &mut [Sums]) -> Outcome {
    let mut order = 0;
    explain(trace, spec, &mut |transaction, objects| {
        let key = Key { ns: transaction.length(), order };
        order += 1;
        for side in sides.iter_mut().filter(|side| side.keys.contains(&key)) {
            side.add(key, &transaction, objects);
        }
    })
}

/// A transaction's place among others: by its time, and of the same time, as they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    ns: u64,
    order: usize,
}

/// The transactions of a run, the fastest first.
struct Ranked {
    keys: Vec<Key>,
    outcome: Outcome,
}

impl Ranked {
    fn of(trace: &Trace, spec: &Spec) -> Self {
        let mut keys: Vec<Key> = Vec::new();
        let outcome = explain(trace, spec, &mut |transaction, _| {
            keys.push(Key { ns: transaction.length(), order: keys.len() });
        });
        keys.sort_unstable();
        Self { keys, outcome }
    }

    fn check(&self, run: usize, share: Share) -> Result<(), TooFew> {
        let (found, least) = (self.keys.len(), share.least());
        let outcome = || Box::new(self.outcome.clone());
        if found < least { Err(TooFew { run, found, least, outcome: outcome() }) } else { Ok(()) }
    }

    /// The variance of the mean of those of a share. The middle half's bounds vary, too: of an interquartile mean it is
    /// that of all, those beyond the bounds moved to them (Tukey and McLaughlin 1963, winsorized).
    fn variance(&self, share: Share) -> f64 {
        let chosen = &self.keys[share.ranks(self.keys.len())];
        let (all, n) = match share {
            Share::MiddleHalf => {
                (&*self.keys, chosen.len() as f64 * chosen.len() as f64 / self.keys.len() as f64)
            }
            Share::SlowestTenth | Share::SlowestQuarter => (chosen, chosen.len() as f64),
        };
        let (least, most) = (chosen[0].ns, chosen[chosen.len() - 1].ns);
        let times = || all.iter().map(|key| key.ns.clamp(least, most) as f64);
        let mean = times().sum::<f64>() / all.len() as f64;
        let squares: f64 = times().map(|ns| (ns - mean).powi(2)).sum();
        squares / (all.len() - 1) as f64 / n
    }

    /// The time of the one at a share of the ranks.
    fn quantile(&self, percent: usize) -> u64 {
        let rank = (self.keys.len() * percent).div_ceil(100).saturating_sub(1);
        self.keys.get(rank).map_or(0, |key| key.ns)
    }
}

/// A side's transactions added up.
struct Sums {
    side: Side,
    /// Of the mean.
    variance: f64,
    keys: std::ops::RangeInclusive<Key>,
    /// The one that is the example.
    middle: Key,
    parts: BTreeMap<Such, Sum>,
    /// By what kept them: the sum and the sum of squares.
    kept: BTreeMap<Delay, [f64; 2]>,
}

/// Of one part.
#[derive(Clone, Copy, Default)]
struct Sum {
    ns: u128,
    transactions: u64,
}

impl Sums {
    /// Of a run that has enough.
    fn of(run: &Ranked, share: Share) -> Self {
        let chosen = &run.keys[share.ranks(run.keys.len())];
        let sum: u128 = chosen.iter().map(|key| u128::from(key.ns)).sum();
        let side = Side {
            share,
            transactions: run.keys.len() as u64,
            chosen: chosen.len() as u64,
            mean_ns: mean(sum, chosen.len() as u64),
            p50_ns: run.quantile(50),
            p99_ns: run.quantile(99),
            example: 0,
        };
        let keys = chosen[0]..=chosen[chosen.len() - 1];
        let middle = chosen[chosen.len() / 2];
        let variance = run.variance(share);
        Self { side, variance, keys, middle, parts: BTreeMap::new(), kept: BTreeMap::new() }
    }

    fn add(&mut self, key: Key, transaction: &Explained, objects: &Objects) {
        if key == self.middle {
            self.side.example = transaction.id;
        }
        let mut kept: BTreeMap<Delay, u64> = BTreeMap::new();
        for (such, ns) in Such::sums(&transaction.steps, objects) {
            add_ns(kept.entry(such.delay().0).or_default(), ns);
            let sum = self.parts.entry(such).or_default();
            (sum.ns, sum.transactions) = (sum.ns + u128::from(ns), sum.transactions + 1);
        }
        for (delay, ns) in kept {
            let [sum, squares] = self.kept.entry(delay).or_default();
            let ns = ns as f64;
            (*sum, *squares) = (*sum + ns, *squares + ns * ns);
        }
    }

    /// The variance of the mean of what a cause took.
    fn variance(&self, delay: &Delay) -> f64 {
        let n = self.side.chosen as f64;
        let [sum, squares] = self.kept.get(delay).copied().unwrap_or_default();
        ((squares - sum * sum / n) / (n - 1.0) / n).max(0.0)
    }

    /// The parts of the mean in whole nanoseconds that sum to it: what is left of rounding down is given to those that
    /// lost most by it.
    fn means(&self) -> Vec<(&Such, u64)> {
        let n = self.side.chosen;
        let mut means: Vec<_> =
            self.parts.iter().map(|(such, sum)| (sum.ns % u128::from(n), such, mean(sum.ns, n))).collect();
        let told = means.iter().map(|(.., ns)| *ns).fold(0, u64::saturating_add);
        means.sort_by_key(|(lost, ..)| Reverse(*lost));
        let left = usize::try_from(self.side.mean_ns.saturating_sub(told)).unwrap_or(0);
        means.iter_mut().take(left).for_each(|(.., ns)| *ns += 1);
        means.into_iter().map(|(_, such, ns)| (such, ns)).collect()
    }
}

/// Rounded down.
fn mean(sum: u128, n: u64) -> u64 {
    u64::try_from(sum / u128::from(n.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_are_looked_at_on_either_side_and_none_on_both() {
        assert_eq!(
            [Share::MiddleHalf, Share::SlowestQuarter, Share::SlowestTenth].map(Share::least),
            [18, 40, 100]
        );
        for of in 40..500 {
            let (fast, slow) = (Share::MiddleHalf.ranks(of), Share::of_slow(of).ranks(of));
            assert!(fast.len() >= LEAST && slow.len() >= LEAST && fast.end <= slow.start, "{of}");
        }
        assert_eq!((Share::of_slow(99), Share::of_slow(100)), (Share::SlowestQuarter, Share::SlowestTenth));
    }

    #[test]
    fn a_difference_has_no_overflow_whatever_it_is_of() {
        assert_eq!(difference([3, 1]), -2);
        assert_eq!(difference([0, u64::MAX]), i64::MAX);
        assert_eq!(difference([u64::MAX, 0]), -i64::MAX);
    }
}
