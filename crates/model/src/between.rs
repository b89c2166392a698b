//! Transactions that lie between places: events, functions and advice, joined by what both of two tell.
//!
//! Of more than two places each must be passed in turn: what passes the second goes on from there, joined with the third
//! by what these two have in common. A `Pair` knows who is on the way from one place to the next.

use std::{fmt, str::FromStr, sync::Arc};

use xweave_replay::ThreadId;
use xweave_trace::event::{Event, Names};

use crate::{
    breakdown::Piece,
    bytes::Bytes,
    machine::Machine,
    pair::{Leg, Pair, Passing},
    passed::{Passed, Stretch},
    place::{By, Mark, Place},
};

/// The most places of a transaction.
pub const MOST: usize = 16;

/// `FROM..TO[..NEXT…][,by=KEY]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Between {
    /// Two at least.
    places: Vec<Place>,
    by: Option<By>,
}

/// Why a text names no places, with what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BetweenError {
    /// There are not two names.
    #[error(
        "write between:FROM..TO, two names of events, functions or advice, such as between:disk_queue..disk_issue"
    )]
    Places,
    /// There are not two names, separated by commas.
    #[error(
        "write --points A,B,C, two or more names of events, functions or advice, such as \
         disk_queue,disk_issue,disk_complete"
    )]
    Points,
    /// There are more names than are followed.
    #[error("{0} points are too many: write up to {MOST}")]
    Many(usize),
    /// It does not say what joins the two.
    #[error("`{0}` joins nothing: write by=thread, by=cpu, by=flow, or by=v1 to by=v7 for a stored value")]
    By(String),
}

impl Between {
    /// The places, in turn.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// What joins them, if that was said.
    pub(crate) fn by(&self) -> Option<By> {
        self.by
    }

    /// `A,B,C…[,by=KEY]`.
    ///
    /// # Errors
    /// The text names no places.
    pub fn of_points(text: &str) -> Result<Self, BetweenError> {
        Self::parse(text, ",", BetweenError::Points)
    }

    fn parse(text: &str, separator: &str, wrong: BetweenError) -> Result<Self, BetweenError> {
        let (text, by) = match text.rsplit_once(",by=") {
            Some((text, by)) => (text, Some(By::parse(by).ok_or_else(|| BetweenError::By(by.to_owned()))?)),
            None => (text, None),
        };
        let places: Option<Vec<Place>> = text.split(separator).map(Place::parse).collect();
        match places {
            Some(places) if places.len() > MOST => Err(BetweenError::Many(places.len())),
            Some(places) if places.len() > 1 => Ok(Self { places, by }),
            _ => Err(wrong),
        }
    }
}

impl FromStr for Between {
    type Err = BetweenError;

    fn from_str(text: &str) -> Result<Self, BetweenError> {
        Self::parse(text, "..", BetweenError::Places)
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, place) in self.places.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ".." })?;
            place.fmt(f)?;
        }
        self.by.map_or(Ok(()), |by| write!(f, ",by={by}"))
    }
}

/// A transaction that passed the last place.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// The thread that passed it.
    pub(crate) thread: ThreadId,
    /// The pieces of the time since the first place.
    pub(crate) pieces: Vec<Piece>,
    /// When each place was passed.
    pub(crate) points: Vec<i64>,
    /// How much a disk's request read or wrote, or was sent.
    pub(crate) bytes: Option<Bytes>,
}

/// What lies between places.
#[derive(Debug)]
pub struct Betweens {
    name: String,
    /// What lies between each place and the next.
    stretches: Vec<Stretch>,
    /// From each place to the next.
    pairs: Vec<Pair>,
    /// How often each of the places was passed.
    passed: Vec<u64>,
    /// How often each was reached by what had passed those before.
    reached: Vec<u64>,
    /// How many were not told, as one of the places may have been passed again meanwhile: events were lost.
    uncertain: u64,
}

impl Betweens {
    /// A finder of these, in a trace whose domains have these numbers.
    pub(crate) fn new(between: &Between, number: &dyn Fn(&str) -> Option<u8>) -> Self {
        let places = &between.places;
        let pairs =
            places.windows(2).map(|two| Pair::new([&two[0], &two[1]], between.by, places.len(), number));
        let names: Vec<_> = places.iter().map(ToString::to_string).collect();
        let name = names.join(" .. ");
        let names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
        Self {
            name,
            stretches: names.windows(2).map(|two| Stretch::Between(two[0].clone(), two[1].clone())).collect(),
            pairs: pairs.collect(),
            passed: vec![0; places.len()],
            reached: vec![0; places.len()],
            uncertain: 0,
        }
    }

    /// What they are called.
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    /// From each place to the next, if these were passed then.
    pub(crate) fn segments(&self, points: &[i64]) -> Vec<Passed> {
        let until = points.iter().skip(1).copied();
        let passed = |(stretch, until_ns): (&Stretch, i64)| Passed {
            stretch: stretch.clone(),
            until_ns,
            others: None,
        };
        self.stretches.iter().zip(until).map(passed).collect()
    }

    /// How often each of the places was passed; and by what had passed those before.
    pub(crate) fn passed(&self) -> [&[u64]; 2] {
        [&self.passed, &self.reached]
    }

    /// How many are not told because of what was lost.
    pub(crate) fn uncertain(&self) -> u64 {
        self.uncertain
    }

    /// The beginning of the earliest that is under way, in nanoseconds.
    pub(crate) fn earliest(&self) -> Option<i64> {
        self.pairs.iter().filter_map(Pair::earliest).min()
    }

    /// How many are under way.
    pub(crate) fn open(&self) -> usize {
        self.pairs.iter().map(Pair::open).sum()
    }

    /// Gives up what has been under way for too long.
    pub(crate) fn settle(&mut self, now: i64) {
        self.pairs.iter_mut().for_each(|pair| pair.settle(now));
    }

    /// An event, which the machine has taken in. Gives what it ended.
    pub(crate) fn feed(&mut self, event: &Event, machine: &Machine, names: &Names) -> Option<Ended> {
        self.pass(machine, |pair, _| pair.passing(event, machine, names))
    }

    /// A record at one of the places.
    pub(crate) fn mark(&mut self, mark: &Mark, machine: &Machine) -> Option<Ended> {
        self.pass(machine, |_, at| Passing::of(mark, at))
    }

    /// The last pair comes first: what ends there makes room for what comes from the one before.
    fn pass(
        &mut self,
        machine: &Machine,
        passing: impl Fn(&mut Pair, usize) -> Option<Passing>,
    ) -> Option<Ended> {
        let mut done = None;
        let mut next: Option<Passing> = None;
        for at in (0..self.pairs.len()).rev() {
            let here = passing(&mut self.pairs[at], at);
            if let Some(here) = &here {
                self.passed[at + 1] += u64::from(here.at[1]);
                let ended = self.pairs[at].end(here);
                match ended {
                    Some(open) if self.pairs[at].is_uncertain(&open, here, machine) => self.uncertain += 1,
                    Some(open) => {
                        self.reached[at + 1] += 1;
                        let legs = open.and(here);
                        match (self.pairs.get_mut(at + 1), next) {
                            (None, _) => done = Some(legs),
                            (Some(pair), Some(next)) => pair.begin(&next, legs),
                            (Some(_), None) => {}
                        }
                    }
                    None => {}
                }
            }
            next = here;
        }
        // Where the first place and the last are one, an end is the next one's beginning.
        if let Some(first) = next {
            self.passed[0] += u64::from(first.at[0]);
            self.reached[0] += u64::from(first.at[0]);
            self.pairs[0].begin(&first, Vec::new());
        }
        self.told(&done?, machine)
    }

    fn told(&self, legs: &[Leg], machine: &Machine) -> Option<Ended> {
        let pieces: Vec<_> =
            legs.iter().zip(&self.pairs).flat_map(|(leg, pair)| pair.pieces(leg, machine)).collect();
        let points = legs.iter().take(1).map(Leg::from).chain(legs.iter().map(Leg::to)).collect();
        let thread = legs.last()?.thread();
        // What was sent from one place to the next is not all that the others are about.
        let first = legs.first()?;
        let bytes = if self.pairs.iter().all(Pair::carries_bytes) {
            first.bytes()
        } else {
            first.carried(machine).filter(|_| self.pairs.iter().all(Pair::is_of_a_connection))
        };
        (!pieces.is_empty()).then_some(Ended { thread, pieces, points, bytes })
    }
}
