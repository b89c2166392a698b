//! How far the clocks of domains may be off: what lies between two domains and is shorter than that is not known.

use rustc_hash::FxHashMap;
use xweave_trace::Manifest;

use crate::breakdown::{Object, Piece, TimeState};

/// The stated errors of the clocks of a trace's domains, in nanoseconds; 0 of those that state none.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockErrors(FxHashMap<u8, i64>);

impl ClockErrors {
    /// Those that a recording states.
    pub(crate) fn from_manifest(manifest: &Manifest) -> Self {
        let error = |name: &str| {
            let clock = manifest.clocks.iter().find(|clock| clock.domain == name);
            clock.map_or(0, |clock| i64::try_from(clock.error_ns).unwrap_or(i64::MAX))
        };
        Self(manifest.domains.iter().map(|domain| (domain.number, error(&domain.name))).collect())
    }

    /// By how much times of two domains may be off to each other, in nanoseconds.
    pub(crate) fn between(&self, one: u8, other: u8) -> i64 {
        let error = |domain| self.0.get(&domain).copied().unwrap_or(0);
        if one == other { 0 } else { error(one).saturating_add(error(other)) }
    }

    /// The piece, without a name for what is shorter than the clocks can tell.
    pub(crate) fn doubt(&self, piece: Piece) -> Piece {
        match piece.object {
            Object::Link { from, to, .. }
                if piece.spent == TimeState::Network
                    && piece.to.saturating_sub(piece.from) < self.between(from, to) =>
            {
                unknown(piece)
            }
            _ => piece,
        }
    }
}

/// The piece, without what it was spent on.
pub(crate) fn unknown(piece: Piece) -> Piece {
    Piece { spent: TimeState::Unknown, cause: None, ..piece }
}
