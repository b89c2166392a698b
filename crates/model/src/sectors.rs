//! The sectors of a disk: which accesses lie where an event does.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    ops::Range,
};

use rustc_hash::FxHashMap;
use xweave_trace::event::Event;

/// Bytes of a sector, as the kernel counts them.
pub(crate) const SECTOR: u64 = 512;

/// A request is made of no more accesses: of those that lie where it does, the latest and nearest. The kernel makes
/// none of more than 1,280 KiB unless told so (`BLK_DEF_MAX_SECTORS_CAP`, include/linux/blkdev.h), which are 320 pages.
pub(crate) const TOGETHER: usize = 1 << 9;

/// The sector behind the last one.
pub(crate) fn end(position: u64, bytes: u64) -> u64 {
    position.saturating_add(bytes / SECTOR)
}

/// How many bytes of an access lie in an event's sectors. One without sectors, a flush, lies in itself.
pub(crate) fn common(position: u64, bytes: u64, event: &Event) -> Option<u64> {
    if bytes == 0 || event.bytes == 0 {
        return (bytes == event.bytes && position == event.position).then_some(0);
    }
    let to = end(position, bytes).min(end(event.position, event.bytes));
    let sectors = to.saturating_sub(position.max(event.position));
    (sectors > 0).then_some(sectors * SECTOR)
}

/// Where accesses lie on a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sectors {
    /// By size, first sector and number: how many bytes. A long one reaches sectors far behind its first; apart from
    /// those, what must be looked through for some sectors is what lies there.
    accesses: BTreeMap<(u32, u64, u64), u64>,
    /// A bit for each size that there ever was.
    sizes: u64,
}

/// The number of bits that it takes to write down how many sectors.
fn size(bytes: u64) -> u32 {
    u64::BITS - (bytes / SECTOR).leading_zeros()
}

impl Sectors {
    pub(crate) fn insert(&mut self, position: u64, number: u64, bytes: u64) {
        self.sizes |= 1 << size(bytes);
        self.accesses.insert((size(bytes), position, number), bytes);
    }

    pub(crate) fn remove(&mut self, position: u64, number: u64, bytes: u64) {
        self.accesses.remove(&(size(bytes), position, number));
    }

    /// The numbers of the accesses that have sectors of an event's, in the order of their first sectors. Few lie near and
    /// have none of them, unless somebody makes them up: no more are looked at than there may be.
    pub(crate) fn within(&self, event: &Event) -> Vec<u64> {
        let (from, to) = (event.position, end(event.position, event.bytes));
        let (mut found, mut left) = (Vec::new(), TOGETHER);
        for size in (0..u64::BITS).filter(|size| self.sizes >> size & 1 == 1) {
            let range = (size, from.saturating_sub(1 << size), 0)..(size, to.max(from.saturating_add(1)), 0);
            let these = self.accesses.range(range).rev().take(left).inspect(|_| left -= 1);
            let these = these.filter(|((_, position, _), bytes)| common(*position, **bytes, event).is_some());
            found.extend(these.map(|((_, position, number), _)| (*position, *number)));
        }
        found.sort_unstable();
        found.into_iter().map(|(_, number)| number).collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.accesses.len()
    }
}

/// An access that a request may be of.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Whether it is one of the last to choose, and its number: numbers come in the order of asking.
    pub(crate) order: (bool, u64),
    /// Its sectors.
    pub(crate) range: Range<u64>,
    /// The first of them that the disk was not given.
    pub(crate) next: u64,
}

/// The accesses that a request for these sectors is of, if each sector is one's: where the request begins it is `first`,
/// if that is known; else one of which the disk was given the sectors before, or one that waits longest. The candidates
/// come in the order of their first sectors.
pub(crate) fn cover(sectors: Range<u64>, first: Option<u64>, candidates: &[Candidate]) -> Vec<u64> {
    let mut goes_on = FxHashMap::default();
    for candidate in candidates {
        let known = goes_on.entry(candidate.next).or_insert(candidate);
        if candidate.order < known.order {
            *known = candidate;
        }
    }
    let mut first = first.and_then(|first| candidates.iter().find(|candidate| candidate.order.1 == first));
    let (mut waiting, mut reached) = (BinaryHeap::new(), candidates.iter().peekable());
    let (mut at, mut of) = (sectors.start, Vec::new());
    while at < sectors.end {
        while let Some(candidate) = reached.next_if(|candidate| candidate.range.start <= at) {
            waiting.push(Reverse((candidate.order, candidate.range.end)));
        }
        while waiting.peek().is_some_and(|Reverse((_, end))| *end <= at) {
            waiting.pop();
        }
        let known = first.take().filter(|first| first.range.contains(&at)).or(goes_on.get(&at).copied());
        let known = known.map(|candidate| (candidate.order, candidate.range.end));
        let oldest = || waiting.peek().map(|Reverse(oldest)| *oldest);
        let Some(((_, number), end)) = known.filter(|(_, end)| *end > at).or_else(oldest) else {
            let Some(candidate) = reached.peek() else { break };
            at = candidate.range.start;
            continue;
        };
        of.push(number);
        at = end;
    }
    of
}
