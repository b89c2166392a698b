//! Which of what was put on under one key, and of what came off, belong together: the likeliest pairs by their times.

use super::{Event, errors::Errors};

/// How much nearer an `xin` after an `xout` must be than one before it, to be taken for its pair.
const AGAINST_CAUSALITY: u64 = 4;

/// A pair that may be. The order is that of likelihood.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    pub(super) cost: u64,
    /// Places among those put on and those taken off.
    pub(super) put: usize,
    pub(super) off: usize,
    /// Whether it contradicts causality.
    pub(super) against: bool,
}

/// Which of two sides belong together.
pub(super) struct Matching {
    pub(super) partner_of_in: Vec<Option<usize>>,
    pub(super) partner_of_out: Vec<Option<usize>>,
    pub(super) pairs: usize,
    /// Of all pairs.
    pub(super) cost: u64,
}

/// The likeliest pairs first, each side once.
pub(super) fn matched<'c>(
    ins: usize,
    outs: usize,
    candidates: impl Iterator<Item = &'c Candidate>,
) -> Matching {
    let (partner_of_in, partner_of_out) = (vec![None; ins], vec![None; outs]);
    let mut found = Matching { partner_of_in, partner_of_out, pairs: 0, cost: 0 };
    for candidate in candidates {
        let (put, off) = (&mut found.partner_of_in[candidate.put], &mut found.partner_of_out[candidate.off]);
        if put.is_none() && off.is_none() {
            (*put, *off) = (Some(candidate.off), Some(candidate.put));
            found.pairs += 1;
            found.cost = found.cost.saturating_add(candidate.cost);
        }
    }
    found
}

/// Pairs that may be, the likeliest first.
pub(super) fn candidates(ins: &[&Event], outs: &[&Event], errors: &Errors) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (o, out) in outs.iter().enumerate() {
        let Some(first) = ins.first() else { break };
        let error = errors.stated(first, out);
        let latest = out.time.saturating_add_unsigned(error);
        let after = ins.partition_point(|event| event.time <= latest);
        let mut consider = |i: usize| {
            let gap = out.time.saturating_sub(ins[i].time);
            let against = gap < 0 && gap.unsigned_abs() > errors.between(ins[i], out);
            let weight = if against { AGAINST_CAUSALITY } else { 1 };
            let cost = gap.unsigned_abs().saturating_mul(weight);
            all.push(Candidate { cost, put: i, off: o, against });
        };
        if let Some(before) = after.checked_sub(1) {
            consider(before);
            // Within the error it may as well have been put on later.
            if ins[before].time.saturating_add_unsigned(error) >= out.time && before > 0 {
                consider(before - 1);
            }
        }
        if after < ins.len() {
            consider(after);
        }
    }
    all.sort_unstable();
    all
}
