//! What functions tell of each other.
//!
//! Some types no declaration tells: what a `void *` member points to, what is in a list, which structure a
//! `sock` is the beginning of. But some function uses it, and what it is there it is in the functions
//! around that one: source files have their own habits, so summaries hold among neighbours only. Kernel-wide
//! they would be wrong too often. What lies at a fixed address is the same for all.

use rustc_hash::FxHashMap;
use xweave_code::types::TypeId;

use crate::view::{Rank, View};

/// What a summary is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// What a pointer points to that lies at an offset in this type.
    Member(TypeId, i32),
    /// What is around something of this type.
    Around(TypeId),
    /// What a register for arguments points to, of the function with this address.
    Argument(u64, u8),
    /// What the function with this address returns a pointer to.
    Result(u64),
    /// What lies at this address.
    Global(u64),
    /// What a sum of what lies at two places points to.
    Sum(Place, Place),
}

/// Where a part of a sum lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    /// At an offset in this type.
    Member(TypeId, i32),
    /// At this address: variables of one type are told apart, as those are in which each security module
    /// keeps where its part of an object begins.
    Global(u64),
}

/// How many functions before and behind one are its neighbours.
const NEIGHBOURS: u32 = 60;

/// What all functions told.
#[derive(Default)]
pub(crate) struct FunctionSummaries {
    /// By the number of the function that told it.
    told: FxHashMap<Subject, Vec<(u32, TypeId, i32)>>,
}

impl FunctionSummaries {
    /// Of functions in the order of their addresses.
    pub(crate) fn new(told: impl Iterator<Item = (u32, Vec<(Subject, View)>)>) -> Self {
        let mut summaries = Self::default();
        for (function, of_function) in told {
            for (subject, view) in of_function {
                summaries.told.entry(subject).or_default().push((function, view.of, view.at));
            }
        }
        for told in summaries.told.values_mut() {
            told.sort_unstable();
            told.dedup();
        }
        summaries
    }

    /// What the neighbours of a function, and itself, say: the most frequent answer first.
    pub(crate) fn ask(&self, function: u32, subject: Subject) -> Vec<(View, usize)> {
        count(self.near(function, subject))
    }

    fn near(&self, function: u32, subject: Subject) -> &[(u32, TypeId, i32)] {
        let Some(told) = self.told.get(&subject) else { return &[] };
        // What has an address is the same for all.
        let everywhere = matches!(
            subject,
            Subject::Argument(..)
                | Subject::Result(_)
                | Subject::Global(_)
                | Subject::Sum(Place::Global(_), _)
                | Subject::Sum(_, Place::Global(_))
        );
        if everywhere {
            return told;
        }
        let first = told.partition_point(|told| told.0 < function.saturating_sub(NEIGHBOURS));
        let end = told.partition_point(|told| told.0 <= function.saturating_add(NEIGHBOURS));
        match subject {
            // A sum is rare enough that others are asked where no neighbour says anything.
            Subject::Sum(..) if first == end => told,
            _ => &told[first..end],
        }
    }

    /// The answers that most of those give who say something: several, where one thing is in another.
    pub(crate) fn common(&self, function: u32, subject: Subject) -> impl Iterator<Item = View> {
        let near = self.near(function, subject);
        let mut tellers: Vec<u32> = near.iter().map(|told| told.0).collect();
        tellers.dedup();
        let all = tellers.len();
        let answers = count(near);
        answers.into_iter().filter(move |(_, count)| count * 3 >= all * 2).map(|(view, _)| view)
    }

    /// Says something for all functions, whatever they told.
    pub(crate) fn state(&mut self, subject: Subject, of: TypeId, at: i32) {
        self.told.insert(subject, vec![(0, of, at)]);
    }
}

/// Equal answers, the most frequent first.
fn count(told: &[(u32, TypeId, i32)]) -> Vec<(View, usize)> {
    let mut answers: Vec<(View, usize)> = Vec::new();
    for (_, of, at) in told {
        match answers.iter_mut().find(|(view, _)| view.of == *of && view.at == *at) {
            Some((_, count)) => *count += 1,
            None => answers.push((View { of: *of, at: *at, rank: Rank::Learned }, 1)),
        }
    }
    answers.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    answers
}
