//! What goes one at a time, and has no index that both sides see: an interrupt of one vector of one vCPU, which is not given
//! again before the guest has taken it.
//!
//! What comes off is what was put on last. Each side numbers its own, lost records included: so it is known where one is
//! missing between two records, or where the one before is not known to have come off, and these are not joined.

use super::{Event, errors::Errors, positions::Positions};

/// The pairs among the events of one channel, in the order of their times.
pub(super) fn one_by_one<'e>(
    events: &'e [Event],
    positions: &Positions,
    errors: &Errors,
) -> Vec<(&'e Event, &'e Event)> {
    let mut puts = events.iter().filter(|event| event.put).peekable();
    let (mut last, mut found) = (None, Vec::new());
    for off in events.iter().filter(|event| !event.put) {
        let may = |put: &&Event| put.time <= off.time.saturating_add_unsigned(errors.stated(put, off));
        while let Some(put) = puts.next_if(may) {
            last = Some(put);
        }
        found.extend(last.take().filter(|put| are_one(put, off, positions, errors)).map(|put| (put, off)));
    }
    found
}

fn are_one(put: &Event, off: &Event, positions: &Positions, errors: &Errors) -> bool {
    // Within a break of a clock, times say nothing.
    let error = errors.stated(put, off);
    let (Some(put_on), Some(came_off)) = (put.at.place, off.at.place) else { return false };
    errors.between(put, off) == error && positions.follow_each_other(put_on, came_off, error)
}
