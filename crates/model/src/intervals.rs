//! Transactions divided at the places that they pass: how long each took from one to the next, and for what.

use xweave_replay::between;

use crate::{
    explanation::{Explained, Step},
    objects::Objects,
    parts::{Such, Totals},
    spec::Spec,
};

/// The time of transactions that pass several places, from each to the next. All intervals of a transaction sum to its
/// time exactly.
#[derive(Clone, Debug)]
pub struct Intervals {
    places: Vec<String>,
    totals: Vec<Totals>,
}

impl Intervals {
    /// None yet, of such transactions; nothing, if these have no places between their first and their last one.
    pub fn of(spec: &Spec) -> Option<Self> {
        let Spec::Between(between) = spec else { return None };
        let places: Vec<_> = between.places().iter().map(ToString::to_string).collect();
        let totals = vec![Totals::default(); places.len() - 1];
        (totals.len() > 1).then_some(Self { places, totals })
    }

    /// Adds a transaction.
    pub fn add(&mut self, transaction: &Explained, objects: &Objects) {
        for (totals, passed) in self.totals.iter_mut().zip(transaction.points.windows(2)) {
            let steps = within(&transaction.steps, passed[0], passed[1]);
            totals.add_sums(between(passed[0], passed[1]), &Such::sums(steps, objects));
        }
    }

    /// The places, in turn.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// From which place to which, and the time in between of all transactions.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (&str, &str, &Totals)> {
        let places = self.places.windows(2);
        places.zip(&self.totals).map(|(two, totals)| (&*two[0], &*two[1], totals))
    }
}

/// The steps between two moments, at which steps begin and end.
fn within(steps: &[Step], from: i64, to: i64) -> &[Step] {
    let first = steps.partition_point(|step| step.from < from);
    let last = steps.partition_point(|step| step.from < to);
    steps.get(first..last).unwrap_or_default()
}
