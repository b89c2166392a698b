//! A soak in figures: what is left of a state once the names of functions that are well are taken out. Small
//! enough to be kept beside the document that cites it.

use crate::batch::Place;
use crate::state::{Death, Progress, State};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A soak in figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The kernel's release.
    pub kernel: String,
    /// What was drawn from.
    pub seed: u64,
    /// How long it was at work.
    pub minutes: u64,
    /// Batches that were woven.
    pub batches: u64,
    /// Records that were written.
    pub records: u64,
    /// Records and hits that were counted as lost.
    pub lost: u64,
    /// Functions with a type that the kernel's tracer does not know.
    pub untraceable: usize,
    /// Entries.
    pub execution: Counts,
    /// Returns.
    pub returning: Counts,
    /// Kernels that died, hung or warned.
    pub deaths: Vec<Death>,
    /// Kernels that were killed to find out why.
    pub killed_again: u64,
}

/// What became of the functions at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Woven, and the kernel stayed well.
    pub woven: usize,
    /// Not yet tried.
    pub pending: usize,
    /// Of all that can be hooked, those that were seen to run under the load; and the woven ones of them.
    pub running: (usize, usize),
    /// Part of a batch that harmed the kernel, and not to be told from others of it.
    pub unclear: usize,
    /// They harm the kernel.
    pub culprits: Vec<String>,
    /// Why functions were refused: how many, and the first of them. Names of functions in reasons are left out.
    pub refused: BTreeMap<String, (usize, String)>,
}

impl Summary {
    /// Of a state.
    pub fn of(state: &State) -> Self {
        Self {
            kernel: state.kernel.clone(),
            seed: state.seed,
            minutes: state.seconds / 60,
            batches: state.batches,
            records: state.records,
            lost: state.lost,
            untraceable: state.untraceable,
            execution: Counts::of(&state.execution, &state.running),
            returning: Counts::of(&state.returning, &state.running),
            deaths: state.deaths.clone(),
            killed_again: state.killed_again,
        }
    }

    /// What became of the functions at a place.
    pub fn at(&self, place: Place) -> &Counts {
        match place {
            Place::Execution => &self.execution,
            Place::Returning => &self.returning,
        }
    }
}

impl Counts {
    fn of(progress: &Progress, running: &BTreeSet<String>) -> Self {
        let runs = |functions: &BTreeSet<String>| functions.intersection(running).count();
        let mut refused: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for (function, reason) in &progress.refused {
            let reason = reason.replace(function.as_str(), "…");
            refused.entry(reason).or_insert((0, function.clone())).0 += 1;
        }
        Self {
            woven: progress.woven.len(),
            pending: progress.pending.len(),
            running: (
                [&progress.pending, &progress.woven, &progress.unclear, &progress.culprits]
                    .map(runs)
                    .iter()
                    .sum(),
                runs(&progress.woven),
            ),
            unclear: progress.unclear.len(),
            culprits: progress.culprits.iter().cloned().collect(),
            refused,
        }
    }

    /// How many were refused, for whatever reason.
    pub fn refusals(&self) -> usize {
        self.refused.values().map(|(count, _)| count).sum()
    }

    /// All.
    pub fn total(&self) -> usize {
        self.woven + self.pending + self.unclear + self.culprits.len() + self.refusals()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_the_functions_name_only_are_one() {
        let mut progress =
            Progress { pending: ["a1", "b1", "c1"].map(str::to_owned).into(), ..Progress::default() };
        progress.refuse("a1", "The function a1 arg0 type UNION is unsupported.");
        progress.refuse("b1", "The function b1 arg0 type UNION is unsupported.");
        let counts = Counts::of(&progress, &["c1", "a1", "other"].map(str::to_owned).into());
        assert_eq!(counts.refused["The function … arg0 type UNION is unsupported."], (2, "a1".to_owned()));
        assert_eq!((counts.refusals(), counts.pending, counts.total()), (2, 1, 3));
        assert_eq!(counts.running, (1, 0), "a1 is refused");
    }
}
