//! What kept transactions, as it changed over time: in bounded memory, whatever the time that they take.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use xweave_document::{
    page::explained::{self, OverTimeCause},
    value::Time,
};
use xweave_model::Delay;

use crate::words::causes as words;

/// So many slices at most, of at least so many bits of nanoseconds.
const SLICES: i64 = 120;
const BITS: u32 = 10;

/// So many causes are told apart, and before it is known which these are, so many: the others are summed up.
const CAUSES: usize = 7;
const NAMES: usize = 4_096;

/// Slices of equal times, while transactions come: twice as long each time there would be too many.
#[derive(Default)]
pub(super) struct OverTime {
    /// More than at first.
    bits: u32,
    slices: BTreeMap<i64, Slice>,
    /// What kept transactions, and its number from 1. 0 is all others.
    names: HashMap<Delay, usize>,
}

/// The transactions that ended in it.
#[derive(Default)]
struct Slice {
    transactions: u64,
    /// By the causes' numbers.
    ns: BTreeMap<usize, u64>,
}

impl OverTime {
    /// Adds a transaction that ended then, and was kept for so long by causes.
    pub(super) fn add(&mut self, end_ns: i64, causes: &BTreeMap<Delay, u64>) {
        let mut at = end_ns >> (BITS + self.bits);
        while self.slices_with(at) > SLICES {
            self.bits += 1;
            at >>= 1;
            for (of, slice) in std::mem::take(&mut self.slices) {
                let both = self.slices.entry(of >> 1).or_default();
                both.transactions += slice.transactions;
                slice.ns.into_iter().for_each(|(cause, ns)| *both.ns.entry(cause).or_default() += ns);
            }
        }
        let slice = self.slices.entry(at).or_default();
        slice.transactions += 1;
        for (what, ns) in causes {
            let next = self.names.len() + 1;
            let number = match self.names.get(what) {
                Some(number) => *number,
                None if next > NAMES => 0,
                None => *self.names.entry(what.clone()).or_insert(next),
            };
            *slice.ns.entry(number).or_default() += ns;
        }
    }

    /// From the first slice to the last one, if there is one more.
    fn slices_with(&self, at: i64) -> i64 {
        let first = self.slices.keys().next().map_or(at, |first| at.min(*first));
        let last = self.slices.keys().next_back().map_or(at, |last| at.max(*last));
        last.saturating_sub(first).saturating_add(1)
    }

    /// Builds the slices, including those without any transaction; none, if there is no transaction.
    pub(super) fn build(&self) -> Option<explained::OverTime> {
        let (first, last) = (*self.slices.first_key_value()?.0, *self.slices.last_key_value()?.0);
        let each = || (first..=last).map(|at| self.slices.get(&at));
        let transactions = each().map(|slice| slice.map_or(0, |slice| slice.transactions));
        let mut causes: Vec<(&Delay, Vec<u64>)> = Vec::new();
        let series = |number: usize| -> Vec<u64> {
            each().map(|slice| slice.and_then(|slice| slice.ns.get(&number)).copied().unwrap_or(0)).collect()
        };
        let mut names: Vec<(&Delay, &usize)> = self.names.iter().collect();
        names.sort_unstable_by_key(|(_, number)| **number);
        causes.extend(names.into_iter().map(|(delay, number)| (delay, series(*number))));
        causes.sort_by_key(|(_, ns)| Reverse(ns.iter().sum::<u64>()));
        let others = causes.split_off(causes.len().min(CAUSES));
        let mut rest = series(0);
        for (_, ns) in &others {
            rest.iter_mut().zip(ns).for_each(|(sum, ns)| *sum += ns);
        }
        let told = causes.into_iter().map(|(delay, ns)| OverTimeCause {
            what: Some(words::delay(delay).into()),
            kind: Some(delay.kind.name()),
            others: None,
            ns,
        });
        let mut told: Vec<OverTimeCause> = told.collect();
        if rest.iter().any(|ns| *ns > 0) {
            told.push(OverTimeCause { what: None, kind: None, others: Some(others.len()), ns: rest });
        }
        Some(explained::OverTime {
            start_ns: Time(first << (BITS + self.bits)),
            slice_ns: 1_u64 << (BITS + self.bits),
            transactions: transactions.collect(),
            causes: told,
        })
    }
}

#[cfg(test)]
mod tests {
    use xweave_model::{DomainRef, delay::DelayKind};

    use super::*;

    fn causes<const N: usize>(of: [(&str, u64); N]) -> BTreeMap<Delay, u64> {
        let delay = |domain: &str| Delay {
            kind: DelayKind::Running,
            domain: DomainRef::One(domain.to_owned()),
            whom: None,
            awaited: None,
        };
        of.map(|(domain, ns)| (delay(domain), ns)).into()
    }

    #[test]
    fn slices_become_longer_until_there_are_few_enough_and_have_all() {
        let mut over_time = OverTime::default();
        for nth in 0..10_000_u64 {
            // In no order.
            let end = (nth * 7_919 % 10_000).cast_signed() * 1_000_000 - 3_000_000_000;
            over_time.add(end, &causes([("vm1", nth), ("vm2", 5)]));
            assert!(over_time.slices_with(end >> (BITS + over_time.bits)) <= SLICES);
        }
        let built = over_time.build().unwrap();
        assert_eq!(built.transactions.iter().sum::<u64>(), 10_000);
        let sums = built.causes.iter().map(|cause| (cause.what.as_deref(), cause.ns.iter().sum::<u64>()));
        assert_eq!(
            sums.collect::<Vec<_>>(),
            [(Some("running in vm1"), 49_995_000), (Some("running in vm2"), 50_000)]
        );
        let (start, slice) = (built.start_ns.0, built.slice_ns.cast_signed());
        assert!(start <= -3_000_000_000 && -3_000_000_000 < start + slice);
        assert!(built.transactions.len() > 60);
    }

    #[test]
    fn of_many_causes_the_first_are_told_and_the_others_summed_up() {
        let mut over_time = OverTime::default();
        for nth in 0..NAMES as u64 + 10 {
            over_time.add(i64::MAX, &causes([(&format!("cause {nth}"), 1 + nth % 9)]));
        }
        over_time.add(i64::MIN, &causes([("last", 7)]));
        let told = over_time.build().unwrap().causes;
        assert_eq!(told.len(), CAUSES + 1);
        assert_eq!((&told[CAUSES].what, told[CAUSES].others), (&None, Some(NAMES - CAUSES)));
        let all: u64 = told.iter().flat_map(|one| &one.ns).sum();
        assert_eq!(all, (0..NAMES as u64 + 10).map(|nth| 1 + nth % 9).sum::<u64>() + 7);
        assert!(OverTime::default().build().is_none());
    }
}
