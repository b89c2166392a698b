//! The sides of rings, as far as their records were read.

use std::collections::{HashMap, HashSet};

use xweave_trace::Trace;

use super::{
    CONTENT, Channel, Event, OnRing, SIDES,
    errors::Errors,
    positions::{LARGEST, Positions},
};
use crate::local::Locals;

/// How far rings have come, and where so many records are missing that they may have come round unseen.
pub(super) struct Rings {
    pub(super) positions: Positions,
    sides: HashMap<(Channel, bool), Side>,
    lossy: HashSet<u32>,
}

/// One side of a ring, as far as it was read.
struct Side {
    number: usize,
    run: u32,
    index: u64,
}

impl Rings {
    pub(super) fn of(trace: &Trace) -> Self {
        Self { positions: Positions::default(), sides: HashMap::new(), lossy: lossy_sites(trace) }
    }

    pub(super) fn may_be_one(&self, put: &Event, off: &Event, locals: &Locals, errors: &Errors) -> bool {
        let (Some(put_at), Some(off_at)) = (put.at.place, off.at.place) else { return true };
        let lossy = self.lossy.contains(&locals.rows[off.row].site);
        self.positions.may_be_one(put_at, off_at, errors.between(put, off), lossy)
    }

    /// Numbers the runs of equal indexes on each side of each ring, and finds out how far it had come at each event that
    /// was in no window before. Channels are those that the records name: nothing changes these.
    pub(super) fn number(&mut self, events: &mut [Event], before: impl Fn(usize) -> Option<OnRing>) {
        events.sort_unstable_by_key(|e| (e.channel, e.put, e.time, e.row));
        for events in events.chunk_by_mut(|a, b| (a.channel, a.put) == (b.channel, b.put)) {
            let Some(first) = events.first() else { continue };
            let key = (first.channel, first.put);
            let room = self.sides.len() < SIDES || self.sides.contains_key(&key);
            let positions = &mut self.positions;
            let new = || Side { number: positions.new_side(), run: 0, index: first.index };
            let mut side = if room { Some(self.sides.entry(key).or_insert_with(new)) } else { None };
            for event in events {
                if let Some(known) = before(event.row) {
                    event.at = known;
                } else if let Some(side) = &mut side {
                    side.run = side.run.wrapping_add(u32::from(side.index != event.index));
                    side.index = event.index;
                    // A carrier without a ring has numbers that say nothing of each other.
                    let on_ring = !matches!(event.channel.ring, 0 | CONTENT);
                    let place = on_ring.then(|| self.positions.add(side.number, event.time, event.index));
                    event.at = OnRing { run: side.run, place };
                }
            }
        }
    }
}

/// Sites that lost so many records that a ring may have come round without one.
fn lossy_sites(trace: &Trace) -> HashSet<u32> {
    let losses = trace.manifest().loss.sites.iter();
    let lossy = losses.filter(|loss| loss.dropped.saturating_add(loss.missed) >= LARGEST.unsigned_abs());
    lossy.map(|loss| loss.site).collect()
}
