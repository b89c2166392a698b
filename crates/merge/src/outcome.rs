//! What merging has given back, and what it took.

use std::{cmp::Reverse, time::Duration};

use crate::{
    direct::{Taken, is_enough},
    merged::Merged,
    plan::{self, Plan},
    reserve,
    ways::{Marked, Way},
};

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Pages that the guests hold of files that were looked at.
    pub hinted: u64,
    /// Of these, pages that several guests hold, where it is known.
    pub shared: u64,
    /// Pages of these that are merged.
    pub merged: u64,
    /// Pages that are given back.
    pub saved: u64,
    /// Of these, pages that were given back before: an earlier time, or by ordinary KSM.
    pub saved_before: u64,
    /// What KSM did for it.
    pub taken: Taken,
    /// From when guests told of what was merged, the first of it, until it was: the longest. None where nothing was.
    pub waited: Option<Duration>,
    /// Pages that were marked.
    pub marked: u64,
    /// The guests, in the order given.
    pub guests: Vec<OfGuest>,
    /// The files of which several guests hold pages, those first that gave back most.
    pub files: Vec<OfFile>,
    /// What is held for what guests write to of it, if any is to be.
    pub reserve: Option<reserve::State>,
}

/// A guest's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfGuest {
    /// Its name.
    pub name: String,
    /// Pages that it holds of files.
    pub hinted: u64,
    /// Of these, pages that another holds too, where it is known.
    pub shared: u64,
    /// Pages that another holds too, and it is not known where.
    pub lost: u64,
    /// Pages that another holds too, none of them on the same NUMA node, where KSM merges within nodes only.
    pub apart: u64,
    /// How its memory was marked.
    pub marked: Marked,
    /// Pages that are merged.
    pub merged: u64,
}

/// A file's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfFile {
    /// Its path in the first of the guests that have it.
    pub path: String,
    /// Pages of it that several guests hold, each guest's counted.
    pub shared: u64,
    /// Pages of it that are given back.
    pub saved: u64,
}

impl Outcome {
    /// Of that plan.
    pub fn of(plan: &Plan, marked: &[Marked], before: &Merged, now: &Merged, taken: Taken) -> Self {
        let mut shared = vec![0; plan.files.len()];
        for spot in plan.guests.iter().flat_map(|guest| &guest.spots) {
            if let Some(of) = shared.get_mut(spot.file as usize) {
                *of += 1;
            }
        }
        let files = plan.files.iter().zip(shared).zip(&now.by_file);
        let mut files: Vec<OfFile> = files
            .map(|((path, shared), saved)| OfFile { path: path.clone(), shared, saved: *saved })
            .collect();
        files.sort_by(|one, other| (Reverse(one.saved), &one.path).cmp(&(Reverse(other.saved), &other.path)));
        let guest = |((of, marked), merged): ((&plan::OfGuest, &Marked), &u64)| OfGuest {
            name: of.name.clone(),
            hinted: of.hinted,
            shared: of.spots.len() as u64,
            lost: of.lost,
            apart: of.apart,
            marked: *marked,
            merged: *merged,
        };
        let guests: Vec<OfGuest> = plan.guests.iter().zip(marked).zip(&now.by_guest).map(guest).collect();
        Self {
            hinted: guests.iter().map(|of| of.hinted).sum(),
            shared: guests.iter().map(|of| of.shared).sum(),
            merged: now.merged,
            saved: now.saved,
            saved_before: before.saved,
            taken,
            waited: None,
            marked: marked.iter().map(|of| of.pages).sum(),
            guests,
            files,
            reserve: None,
        }
    }

    /// Whether nearly all that several guests hold is merged.
    pub fn is_enough(&self) -> bool {
        is_enough(self.merged, self.shared.saturating_sub(self.merged))
    }

    /// With what came of the times before: what that has given back, and what it took.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        self.saved_before = before.saved_before;
        if self.taken.passes.is_empty() {
            self.taken.passes.clone_from(&before.taken.passes);
        }
        self.taken.made += before.taken.made;
        self.taken.visited += before.taken.visited;
        self.taken.ksmd += before.taken.ksmd;
        self.waited = self.waited.max(before.waited);
        for guest in &mut self.guests {
            if let Some(before) = before.guests.iter().find(|of| of.name == guest.name) {
                guest.marked.ranges += before.marked.ranges;
                // What an earlier time has marked was marked before, this time.
                if guest.marked.way == Way::Before {
                    guest.marked.way = before.marked.way;
                }
            }
        }
        self
    }

    /// Pages that were given back for each visit of KSM; none if it visited none.
    pub fn saved_per_visit(&self) -> Option<f64> {
        Self::share(self.saved.saturating_sub(self.saved_before), self.taken.visited)
    }

    /// The same for each visit that did not only take a page's checksum: each marked page's first does.
    pub fn saved_per_productive_visit(&self) -> Option<f64> {
        let productive = self.taken.visited.saturating_sub(self.marked);
        Self::share(self.saved.saturating_sub(self.saved_before), productive)
    }

    fn share(of: u64, all: u64) -> Option<f64> {
        (all > 0).then(|| of as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_earlier_times_have_given_back_and_taken_is_counted() {
        let once = |saved_before, saved, passes: &[u64], ranges| Outcome {
            saved_before,
            saved,
            marked: 10,
            taken: Taken {
                passes: passes.to_vec(),
                made: passes.len() as u64,
                visited: 50,
                ksmd: Duration::from_secs(1),
                cut: false,
            },
            waited: passes.last().map(|pages| Duration::from_secs(*pages)),
            guests: vec![OfGuest {
                name: "vm1".to_owned(),
                marked: Marked { way: Way::Ring, ranges, pages: 10 },
                hinted: 0,
                shared: 0,
                lost: 0,
                apart: 0,
                merged: 0,
            }],
            ..Outcome::default()
        };
        let all = once(25, 40, &[], 3).after(&once(20, 25, &[0, 5], 2)).after(&once(10, 20, &[0, 7, 8], 1));
        assert_eq!((all.saved_before, all.saved, all.taken.made, all.taken.visited), (10, 40, 5, 150));
        assert_eq!((&*all.taken.passes, all.taken.ksmd), (&[0, 5][..], Duration::from_secs(3)));
        assert_eq!((all.guests[0].marked.ranges, all.waited), (6, Some(Duration::from_secs(8))));
        let mut last = once(25, 40, &[], 0);
        last.guests[0].marked.way = Way::Before;
        assert_eq!(last.after(&once(20, 25, &[0, 5], 2)).guests[0].marked.way, Way::Ring);
        assert_eq!(all.saved_per_visit(), Some(0.2));
        assert_eq!(all.saved_per_productive_visit(), Some(30.0 / 140.0));
    }
}
