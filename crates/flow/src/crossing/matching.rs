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

/// Of what says the same, the pairs: in its order, as many as there can be, and of these the nearest to each other.
///
/// What may have come off first is what was put on first, and so on; where there are more of one side, those are left
/// whose partners are missing: of what was put on the earliest, of what came off the latest that can be.
pub(super) fn in_order<'e>(
    ins: &[&'e Event],
    outs: &[&'e Event],
    errors: &Errors,
) -> Vec<(&'e Event, &'e Event)> {
    let (Some(first_in), Some(first_out)) = (ins.first(), outs.first()) else { return Vec::new() };
    let of_outs = outs.iter().map(|off| errors.between(first_in, off));
    let error = ins.iter().map(|put| errors.between(put, first_out)).chain(of_outs).max().unwrap_or(0);
    let may = |put: &Event, off: &Event| put.time <= off.time.saturating_add_unsigned(error);
    let (mut before, mut taken) = (0, Vec::new());
    for &off in outs {
        while ins.get(before).is_some_and(|put| may(put, off)) {
            before += 1;
        }
        if taken.len() < before {
            taken.push(off);
        }
    }
    let (mut after, mut put_on) = (0, Vec::new());
    for &put in ins.iter().rev() {
        while outs.iter().rev().nth(after).is_some_and(|off| may(put, off)) {
            after += 1;
        }
        if put_on.len() < after {
            put_on.push(put);
        }
    }
    put_on.into_iter().rev().zip(taken).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use xweave_trace::{Domain, Manifest, Trace, Writer};

    use super::*;
    use crate::crossing::{CONTENT, Channel, Guest, OnRing};

    fn event(put: bool, time: i64, row: usize) -> Event {
        let channel = Channel { guest: Guest::Domain(2), carrier: 0, ring: CONTENT, to_host: true };
        let (domain, at) = (if put { 2 } else { 1 }, OnRing::default());
        Event { channel, index: 0, check: 0, time, put, row, local: row, domain, told: false, at }
    }

    /// Of clocks without an error.
    fn exact() -> Errors {
        let dir = tempfile::tempdir().unwrap();
        let domain = |number: u8| Domain { name: number.to_string(), number, ..Domain::default() };
        let manifest = Manifest { domains: vec![domain(1), domain(2)], ..Manifest::default() };
        Writer::create(dir.path(), manifest).unwrap().finish().unwrap();
        Errors::of(&Trace::open(dir.path()).unwrap())
    }

    /// The most pairs that there can be, and the least time that these take together: all are tried.
    fn best(ins: &[i64], outs: &[i64]) -> (usize, i64) {
        let Some((off, outs)) = outs.split_first() else { return (0, 0) };
        let mut found = best(ins, outs);
        for (at, put) in ins.iter().enumerate().filter(|(_, put)| *put <= off) {
            let left: Vec<i64> =
                ins.iter().enumerate().filter(|(nth, _)| *nth != at).map(|(_, t)| *t).collect();
            let (pairs, time) = best(&left, outs);
            let with = (pairs + 1, time + off - put);
            if with.0 > found.0 || with.0 == found.0 && with.1 < found.1 {
                found = with;
            }
        }
        found
    }

    proptest! {
        #[test]
        fn what_says_the_same_is_paired_in_its_order_as_often_and_as_near_as_can_be(
            mut ins in vec(0i64..12, 0..6),
            mut outs in vec(0i64..12, 0..6),
        ) {
            ins.sort_unstable();
            outs.sort_unstable();
            let all = |put: bool, times: &[i64]| -> Vec<Event> {
                times.iter().enumerate().map(|(row, &time)| event(put, time, row)).collect()
            };
            let (put_on, off) = (all(true, &ins), all(false, &outs));
            let found = in_order(&put_on.iter().collect::<Vec<_>>(), &off.iter().collect::<Vec<_>>(), &exact());
            prop_assert!(found.iter().all(|(put, off)| put.time <= off.time));
            prop_assert!(found.is_sorted_by(|a, b| a.0.row < b.0.row && a.1.row < b.1.row));
            let time = found.iter().map(|(put, off)| off.time - put.time).sum();
            prop_assert_eq!((found.len(), time), best(&ins, &outs));
        }
    }
}
