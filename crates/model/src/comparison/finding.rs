//! What a finding is, and how much of the difference it may explain.

use super::changed::{ChangeKind, Changed};
use crate::usage::{UsageKind, UsageObject};

/// What differs by a smaller factor is taken for noise.
pub const FACTOR: f64 = 1.25;

/// What changed by a smaller share of the longer trace's time is not told.
pub const SHARE: f64 = 0.01;

/// What changed by less, in nanoseconds, is not told either.
pub const LEAST_NS: u64 = 1_000_000;

/// Something that explains a difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What changed; of several objects, of the first.
    pub changed: Changed,
    /// The object's domain.
    pub domain: String,
    /// The object, or several.
    pub object: Found,
    /// At most so much of the difference of the whole is due to it, in nanoseconds: of the same sign and never more; 0 if it
    /// changed the other way. Times of objects that work at once overlap: findings do not sum to the difference.
    pub explained_ns: i64,
    /// The time that the second trace has more of it (less, if negative), in nanoseconds: never more than the longer trace.
    pub changed_ns: i64,
    /// Whether it is a wait that may be for want of anything to do, or a consequence of other findings.
    pub may_be_idle: bool,
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// One object.
    One(UsageObject),
    /// Objects of a kind that changed in the same way.
    Several {
        /// How many.
        count: usize,
        /// The one that changed most.
        first: UsageObject,
    },
}

impl Found {
    /// The object; of several, the first.
    pub fn first(&self) -> &UsageObject {
        match self {
            Self::One(object) | Self::Several { first: object, .. } => object,
        }
    }
}

impl Finding {
    /// The class of the change.
    pub fn change(&self) -> ChangeKind {
        self.changed.kind(self.kind())
    }

    /// The object's kind.
    pub fn kind(&self) -> UsageKind {
        self.object.first().kind()
    }
}

/// How long two traces took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    /// Each one's time, in nanoseconds.
    pub(super) span_ns: [u64; 2],
}

impl Difference {
    /// The time that the second took longer.
    pub(super) fn ns(self) -> i64 {
        let [a, b] = self.span_ns.map(|span| i64::try_from(span).unwrap_or(i64::MAX));
        b - a
    }

    /// What changed by less, in nanoseconds, is not told.
    pub(super) fn least(self) -> f64 {
        (self.longer() as f64 * SHARE).max(LEAST_NS as f64)
    }

    /// What changed by so much, as a trace may have it: many may wait at a time, which is no more than all of a run.
    pub(super) fn change(self, ns: f64) -> i64 {
        let longer = self.longer() as f64;
        #[allow(clippy::cast_possible_truncation, reason = "a time of a trace, in nanoseconds")]
        let change = ns.clamp(-longer, longer).round() as i64;
        change
    }

    /// What a change explains of the difference at most.
    pub(super) fn explained(self, changed_ns: i64) -> i64 {
        let all = self.ns();
        if all < 0 { changed_ns.clamp(all, 0) } else { changed_ns.clamp(0, all) }
    }

    fn longer(self) -> u64 {
        self.span_ns[0].max(self.span_ns[1])
    }
}

/// Whether two figures differ by more than noise.
pub(super) fn differs(a: f64, b: f64) -> bool {
    a.max(b) > FACTOR * a.min(b)
}
