//! Two traces, object by object, and what explains the difference.
//!
//! As in Horikawa's framework (Application of Event Trace Framework for Performance Problem Solutions), the same work is
//! recorded twice, and compared by how long each object worked and how often and with how much data it was used.
//! Findings say which of these changed, and how much of the difference that explains at most.
//!
//! `shared` says what both recorded, `changed` and `finding` are what is found, `rules` finds it.

mod changed;
mod finding;
mod rules;
mod shared;

use std::{cmp::Reverse, collections::BTreeMap};

pub use self::{
    changed::{ChangeKind, Changed, ServiceChange},
    finding::{FACTOR, Finding, Found, LEAST_NS, SHARE},
};
use self::{
    finding::{Difference, differs},
    rules::Rules,
    shared::Shared,
};
use crate::{
    recorded::LeftOut,
    usage::{Figures, Key, Usage},
};

/// What an object has more or less of counts as changed from here on: times in nanoseconds, how often, bytes.
const CHANGED: [u64; 3] = [LEAST_NS, 100, 64 << 10];

/// A process that is ready longer by at most so many times what another one ran longer may have waited for that one: as many
/// threads as that wait for one CPU.
const WAITERS: u64 = 10;

/// An object of which both traces tell; one that a trace lacks all the same has done nothing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Which it is.
    pub key: Key,
    /// How long it worked, in nanoseconds.
    pub time_ns: [u64; 2],
    /// How often.
    pub count: [u64; 2],
    /// How much data.
    pub bytes: [u64; 2],
    /// How long was waited, for a processor or for it, in nanoseconds.
    pub wait_ns: [u64; 2],
    /// Disks: sums of the requests' times in the disk, from being given to being done, in nanoseconds.
    pub device_ns: [u64; 2],
    /// Disks: bytes between the end of a request and the beginning of the next, either way.
    pub seek_bytes: [u64; 2],
}

impl Compared {
    /// Whether it did more or less in the second trace, beyond noise.
    pub fn changed(&self) -> bool {
        let beyond = |[a, b]: [u64; 2], least| a.abs_diff(b) >= least && differs(a as f64, b as f64);
        let [time, count, bytes] = CHANGED;
        beyond(self.time_ns, time)
            || beyond(self.wait_ns, time)
            || beyond(self.count, count)
            || beyond(self.bytes, bytes)
    }
}

/// Two traces compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Time from each one's first event to its last, in nanoseconds.
    pub span_ns: [u64; 2],
    /// How much longer the second took; less, if negative.
    pub difference_ns: i64,
    /// How many events each has.
    pub events: [u64; 2],
    /// What only one of them recorded: nothing of that is among the objects.
    pub left_out: Vec<LeftOut>,
    /// All objects of both, by kind and domain.
    pub objects: Vec<Compared>,
    /// What explains the difference, what explains most first; what may be idle time comes last. Empty if nothing differs
    /// beyond noise.
    pub findings: Vec<Finding>,
}

impl Comparison {
    /// Compares two traces.
    pub fn of(a: &Usage, b: &Usage) -> Self {
        let mut pairs: BTreeMap<&Key, [Figures; 2]> = BTreeMap::new();
        for (at, usage) in [a, b].into_iter().enumerate() {
            for (key, figures) in &usage.objects {
                pairs.entry(key).or_default()[at] = *figures;
            }
        }
        let shared = Shared::of(a, b);
        let both = pairs.into_iter().filter_map(|(key, pair)| {
            let pair = shared.comparable(key.kind(), &key.domain, pair)?;
            Some((key, pair))
        });
        let pairs: Vec<(&Key, _)> = both.collect();
        let difference = Difference { span_ns: [a.span_ns, b.span_ns] };
        let mut rules = Rules::of(a, b, difference);
        for (key, pair) in &pairs {
            // The recorder's own processes are among the objects, and nothing is found of them.
            if !key.object.is_recorders() {
                rules.look_at(key, *pair);
            }
        }
        let findings = rules.found();
        let ranks: Vec<[u64; 2]> = findings.iter().map(|finding| rank(finding, &findings)).collect();
        let mut ranked: Vec<_> = findings.into_iter().zip(ranks).collect();
        ranked.sort_by_key(|(finding, rank)| {
            let waits = matches!(finding.changed, Changed::RunQueue { .. });
            (finding.may_be_idle, Reverse(*rank), waits, Reverse(weight(finding)))
        });
        let findings = ranked.into_iter().map(|(finding, _)| finding).collect();
        let object = |(key, [a, b]): (&Key, [Figures; 2])| Compared {
            key: key.clone(),
            time_ns: [a.time_ns, b.time_ns],
            count: [a.count, b.count],
            bytes: [a.bytes, b.bytes],
            wait_ns: [a.wait_ns, b.wait_ns],
            device_ns: [a.device_ns, b.device_ns],
            seek_bytes: [a.distance, b.distance],
        };
        Self {
            span_ns: difference.span_ns,
            difference_ns: difference.ns(),
            events: [a.events, b.events],
            left_out: LeftOut::of([&a.recorded, &b.recorded]),
            objects: pairs.into_iter().map(object).collect(),
            findings,
        }
    }

    /// Whether one took longer than the other, beyond noise.
    pub fn took_longer(&self) -> bool {
        self.difference_ns.unsigned_abs() as f64 >= Difference { span_ns: self.span_ns }.least()
    }
}

/// What a finding explains, and its change, in nanoseconds.
fn weight(finding: &Finding) -> [u64; 2] {
    [finding.explained_ns, finding.changed_ns].map(i64::unsigned_abs)
}

/// The weight by which a finding has its place: who waited for a CPU waited for the others that ran there, and comes no
/// earlier than the one of these that ran longer by most; unless it was for something else, as of a guest's CPUs for its host.
fn rank(finding: &Finding, all: &[Finding]) -> [u64; 2] {
    let own = weight(finding);
    if !matches!(finding.changed, Changed::RunQueue { .. }) {
        return own;
    }
    let is_same = |one: &Found, other: &Found| matches!(one, Found::One(_)) && one == other;
    let of_another = |other: &&Finding| {
        matches!(other.changed, Changed::Ran { .. })
            && other.domain == finding.domain
            && (other.changed_ns > 0) == (finding.changed_ns > 0)
            && !is_same(&other.object, &finding.object)
    };
    let ran = all.iter().filter(of_another).map(weight).max();
    match ran.filter(|[_, ran]| ran.saturating_mul(WAITERS) >= own[1]) {
        Some(ran) => [own[0].min(ran[0]), own[1].min(ran[1])],
        None => own,
    }
}

#[cfg(test)]
mod tests;
