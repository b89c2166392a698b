//! How far rings have come: what tells a slot from the one that has the same number after the index has come round.
//!
//! An index has 16 bits, and no ring more than 32,768 slots: a buffer that is still on a ring has that many others
//! behind it at most, and the same index comes again only 65,536 buffers later. So two records with one key are about
//! one buffer if neither side has come farther than a ring between them. How far a side has come is the sum of the
//! steps between its records; where so many of them are missing that the index may have come round unseen, two records
//! on either side of that hole are not joined.

use std::collections::VecDeque;

use xweave_trace::TimeSpan;

/// No ring has more slots (virtio 1.2, 2.7).
pub(super) const LARGEST: i64 = 1 << 15;

/// No ring comes half round sooner, in nanoseconds: 50 for each buffer, which the record alone takes.
const HALF_ROUND: i64 = 50 * LARGEST;

/// Records of all sides together that are remembered at most.
const REMEMBERED: usize = 1 << 20;

/// One side of a ring: what was put on, or what came off, in the order of time.
#[derive(Default)]
struct Side {
    /// Those that are remembered, and how many are not any more.
    points: VecDeque<Point>,
    forgotten: usize,
    /// Whether its index is ever another one: what is found by its address alone has the same for ever.
    moves: bool,
}

#[derive(Clone, Copy)]
struct Point {
    time: i64,
    index: u64,
    /// Not of 16 bits.
    position: i64,
    /// The last time without records before it that is long enough for the index to have come round.
    hole: TimeSpan,
}

/// A record's place on one side of a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    side: usize,
    nth: usize,
}

/// All sides of all rings.
#[derive(Default)]
pub(super) struct Positions {
    sides: Vec<Side>,
}

impl Positions {
    /// One more side.
    pub(super) fn new_side(&mut self) -> usize {
        self.sides.push(Side::default());
        self.sides.len() - 1
    }

    /// Adds a side's next record.
    pub(super) fn add(&mut self, side: usize, time: i64, index: u64) -> Place {
        let Side { points, moves, forgotten } = &mut self.sides[side];
        let mut point = Point { time, index, position: 0, hole: TimeSpan { from: i64::MIN, to: time } };
        if let Some(last) = points.back() {
            // What is put back, or tried again, is a step back.
            *moves |= index != last.index;
            let step = index.wrapping_sub(last.index).to_le_bytes();
            point.position = last.position + i64::from(i16::from_le_bytes([step[0], step[1]]));
            let long = time.saturating_sub(last.time) >= HALF_ROUND;
            point.hole = if long { TimeSpan { from: last.time, to: time } } else { last.hole };
        }
        points.push_back(point);
        Place { side, nth: *forgotten + points.len() - 1 }
    }

    /// Forgets what happened before that time, but for the last on each side before it; and more, of sides that remember
    /// very much.
    pub(super) fn forget_before(&mut self, time: i64) {
        let each = REMEMBERED / self.sides.len().max(1);
        for Side { points, forgotten, .. } in &mut self.sides {
            let old = points.partition_point(|point| point.time < time).saturating_sub(1);
            let gone = old.max(points.len().saturating_sub(each)).min(points.len().saturating_sub(1));
            points.drain(..gone);
            *forgotten += gone;
        }
    }

    /// Whether what was put on may be what came off: the times between domains may be wrong by that much. `lossy`:
    /// whether so many records of what came off are missing that the index may have come round without one.
    pub(super) fn may_be_one(&self, put: Place, off: Place, error: u64, lossy: bool) -> bool {
        let lossy = lossy && self.sides[off.side].moves;
        let (puts, offs) = (&self.sides[put.side].points, &self.sides[off.side].points);
        let (Some(put), Some(off)) = (self.point(put), self.point(off)) else { return true };
        if off.time.abs_diff(put.time).saturating_add(error) < HALF_ROUND.unsigned_abs() {
            return true;
        }
        // What was certainly put on before the one came off, and came off after the other was put on.
        let latest = off.time.saturating_sub_unsigned(error);
        let before = puts.partition_point(|point| point.time <= latest).checked_sub(1);
        let earliest = put.time.saturating_add_unsigned(error);
        let after = offs.partition_point(|point| point.time < earliest);
        let came = before.map_or(0, |at| puts[at].position - put.position);
        let went = offs.get(after).map_or(0, |point| off.position - point.position);
        let hole = off.hole.clipped(TimeSpan { from: put.time, to: off.time });
        let unseen = lossy && hole.duration_ns() >= HALF_ROUND.unsigned_abs();
        came <= LARGEST && went <= LARGEST && !unseen
    }

    /// Where each side numbers what goes one at a time: whether nothing else was put on, or came off, between the two. Nor
    /// may the one that was put on before still have been under way: then either may be the one that came off.
    pub(super) fn follow_each_other(&self, put: Place, off: Place, error: u64) -> bool {
        let (puts, offs) = (&self.sides[put.side], &self.sides[off.side]);
        let (Some(put_on), Some(came_off)) = (self.point(put), self.point(off)) else { return false };
        let sooner = came_off.time.saturating_sub_unsigned(error);
        let last_put = puts.until(sooner, usize::MAX).map_or(0, |point| point.index);
        let latest = put_on.time.saturating_add_unsigned(error);
        let before = offs.until(latest, off.nth);
        if before.is_none() && offs.forgotten > 0 {
            return false;
        }
        let is_next = came_off.index == before.map_or(0, |point| point.index).wrapping_add(1);
        let put_before = put.nth.checked_sub(1).and_then(|nth| puts.get(nth));
        let is_alone = put_before.filter(|put| put.index.wrapping_add(1) == put_on.index).is_none_or(|put| {
            before.is_some_and(|point| point.time.saturating_add_unsigned(error) >= put.time)
        });
        last_put <= put_on.index && is_next && is_alone
    }

    fn point(&self, at: Place) -> Option<Point> {
        self.sides[at.side].get(at.nth).copied()
    }
}

impl Side {
    /// The nth of all that there were, if it is remembered.
    fn get(&self, nth: usize) -> Option<&Point> {
        self.points.get(nth.checked_sub(self.forgotten)?)
    }

    /// The last until a time, of those before the nth.
    fn until(&self, time: i64, nth: usize) -> Option<&Point> {
        let until = self.points.partition_point(|point| point.time <= time);
        self.points.get(until.min(nth.saturating_sub(self.forgotten)).checked_sub(1)?)
    }
}
