//! All that is added up of transactions while these are found one by one.

use std::collections::BTreeMap;

use crate::{
    delay::Delay,
    explanation::Explained,
    intervals::Intervals,
    lives::Programs,
    objects::Objects,
    parts::{Such, Totals},
    sizes::Sizes,
    spec::Spec,
};

/// Transactions added up in all the ways that fit what they are.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// What their time was spent on.
    pub totals: Totals,
    /// The same from place to place, if they pass several.
    pub intervals: Option<Intervals>,
    /// The same by program, if they are lives.
    pub programs: Option<Programs>,
    /// The same by how much data they carried, if that is asked for.
    pub sizes: Option<Sizes>,
}

impl Tally {
    /// None yet, of such transactions; by size, if that is asked for.
    pub fn of(spec: &Spec, by_size: bool) -> Self {
        let (intervals, programs) = (Intervals::of(spec), Programs::of(spec));
        Self { totals: Totals::default(), intervals, programs, sizes: by_size.then(Sizes::default) }
    }

    /// Adds a transaction. Returns what kept it, and how long.
    pub fn add(&mut self, transaction: &Explained, objects: &Objects) -> BTreeMap<Delay, u64> {
        let sums = Such::sums(&transaction.steps, objects);
        let kept = self.totals.add_sums(transaction.length(), &sums);
        if let Some(sizes) = &mut self.sizes {
            sizes.add_sums(transaction, &sums);
        }
        if let Some(intervals) = &mut self.intervals {
            intervals.add(transaction, objects);
        }
        if let Some(programs) = &mut self.programs {
            programs.add(transaction, objects);
        }
        kept
    }
}
