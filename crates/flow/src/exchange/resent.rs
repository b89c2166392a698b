//! TCP segments that did not arrive, and were sent again: which flows carried their bytes, so that an exchange is known though
//! not all of its frames arrived.

use super::talk::Way;
use crate::graph::{Flow, Incomplete};

/// Frames after one that was lost, among which it is looked for what carried its bytes.
const LATER: usize = 1024;

/// Frames of an exchange that were lost and sent again, where its time depends on them: places in
/// [`Flows`](crate::Flows).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resent {
    /// The lost one that had the request's last bytes; [`Exchange::way`](super::Exchange::way) is what carried them then.
    pub request: Option<usize>,
    /// The lost one that had the answer's first bytes, which
    /// [`Exchange::answered_by`](super::Exchange::answered_by) carried then.
    pub answer: Option<usize>,
    /// The lost one that had the answer's last bytes, and the one that carried them then.
    pub rest: Option<[usize; 2]>,
}

/// Returns the first byte of a segment and the one after the last, relative to the sequence number `of`.
fn bytes(flow: &Flow, of: u32) -> Option<[i64; 2]> {
    let frame = flow.frame.filter(|frame| frame.is_tcp() && frame.bytes > 0)?;
    // Sequence numbers wrap: what lies less than half of them behind is before.
    let from = i64::from(frame.sequence.wrapping_sub(of).cast_signed());
    Some([from, from.saturating_add(frame.bytes.into())])
}

/// Returns the first of the later frames that together carried all bytes of a lost one; `None` if some never arrived.
pub(super) fn carried_by(lost: usize, way: &Way, all: &[Flow]) -> Option<usize> {
    let flow = &all[lost];
    if !matches!(flow.incomplete, Some(Incomplete::Dropped | Incomplete::Unmatched | Incomplete::NoEnd)) {
        return None;
    }
    let frame = flow.frame.filter(|frame| frame.is_tcp() && frame.bytes > 0)?;
    let (mut next, mut first) = (0, None);
    let place = way.flows.iter().position(|&at| at == lost)?;
    for &at in way.flows.iter().skip(place + 1).take(LATER).filter(|&&at| all[at].complete()) {
        let Some([from, to]) = bytes(&all[at], frame.sequence) else { continue };
        if from <= next && to > next {
            first = first.or(Some(at));
            next = to;
        }
        if next >= i64::from(frame.bytes) {
            return first;
        }
    }
    None
}

/// Returns the first frame of a way that did not arrive and was sent before the last flow of `carrier`, which carried bytes of
/// it. The other flows of `carrier` are its origins.
pub(super) fn lost_before(carrier: &[usize], way: &Way, all: &[Flow]) -> Option<usize> {
    let carries = &all[*carrier.last()?];
    if way.flows.iter().all(|&at| all[at].complete()) {
        return None;
    }
    let overlaps = |lost: &usize| {
        let flow = &all[*lost];
        let before = !flow.complete() && flow.start_ns < carries.start_ns && !carrier.contains(lost);
        let Some(sequence) = flow.frame.map(|frame| frame.sequence).filter(|_| before) else { return false };
        match (bytes(flow, sequence), bytes(carries, sequence)) {
            (Some([_, end]), Some([from, to])) => from < end && to > 0,
            _ => false,
        }
    };
    way.flows.iter().copied().find(overlaps)
}

/// Number of frames, from the last one on, that are checked for being duplicates.
const DUPLICATES: usize = 16;

/// Returns the frame that brought the last new byte of a way, among those for which `meant` is true: a segment that TCP sent
/// again although it had arrived brings nothing. `origins` returns the flows that a frame was cut off or put together from,
/// itself included.
pub(super) fn last_new(
    way: &Way,
    all: &[Flow],
    meant: impl Fn(&usize) -> bool,
    origins: impl Fn(usize) -> Vec<usize>,
) -> Option<usize> {
    let mut last: Vec<usize> = way.flows.iter().copied().filter(meant).collect();
    last.sort_by_key(|&at| all[at].end_ns);
    let is_duplicate = |at: usize| {
        let Some(sequence) = all[at].frame.map(|frame| frame.sequence) else { return false };
        let Some([_, end]) = bytes(&all[at], sequence) else { return false };
        let of = origins(at);
        way.flows.iter().filter(|other| !of.contains(other)).any(|&other| {
            let came = all[other].complete() && all[other].end_ns < all[at].end_ns;
            came && bytes(&all[other], sequence).is_some_and(|[from, to]| from <= 0 && to >= end)
        })
    };
    let new = last.iter().rev().take(DUPLICATES).find(|&&at| !is_duplicate(at)).copied();
    new.or(last.last().copied())
}
