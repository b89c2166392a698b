//! Which changes are told, object by object.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    changed::{Changed, ServiceChange},
    finding::{Difference, FACTOR, Finding, Found, differs},
};
use crate::{
    exit::ExitReason,
    mean::mean,
    usage::{Figures, Key, Usage, UsageKind, UsageObject},
};

/// So many findings of one kind in a domain are told one by one; more are told as one.
const FEW: usize = 3;

/// How many times farther a disk must have moved for that to be called seeking.
const SEEKING: f64 = 2.0;

/// Looks at one object after the other.
pub(super) struct Rules {
    difference: Difference,
    busy: [BTreeMap<String, f64>; 2],
    found: Vec<Finding>,
}

impl Rules {
    /// For two traces, which have this difference.
    pub(super) fn of(a: &Usage, b: &Usage, difference: Difference) -> Self {
        Self { difference, busy: [busy(a), busy(b)], found: Vec::new() }
    }

    /// What was found, in no order.
    pub(super) fn found(self) -> Vec<Finding> {
        together(self.found, self.difference)
    }

    /// An object in both traces.
    pub(super) fn look_at(&mut self, key: &Key, pair: [Figures; 2]) {
        let waited = |figures: &Figures| figures.wait_ns;
        let worked = |figures: &Figures| figures.time_ns;
        match key.kind() {
            UsageKind::Disk => self.disk(key, pair),
            UsageKind::Process => self.process(key, pair),
            UsageKind::Lock | UsageKind::Peer | UsageKind::Qdisc => self.took(key, pair, waited),
            UsageKind::Exit | UsageKind::Interrupt => self.took(key, pair, worked),
            UsageKind::Vcpu => {
                let ns = pair.map(|figures| figures.wait_ns);
                self.changes(key, ns, Changed::Halted(ns));
            }
            // A disk's use by a process is told with the disk.
            UsageKind::DiskUser | UsageKind::Service => {}
        }
    }

    /// Whether two times differ beyond noise.
    fn matters(&self, a: f64, b: f64) -> bool {
        (b - a).abs() >= self.difference.least() && differs(a, b)
    }

    /// Tells of a time that changed, if that is beyond noise.
    fn changes(&mut self, key: &Key, [a, b]: [u64; 2], changed: Changed) {
        let (a, b) = (a as f64, b as f64);
        if self.matters(a, b) {
            self.tell(key, b - a, changed);
        }
    }

    fn tell(&mut self, key: &Key, by: f64, changed: Changed) {
        if by.abs() < self.difference.least() {
            return;
        }
        let changed_ns = self.difference.change(by);
        let Key { domain, object } = key.clone();
        self.found.push(Finding {
            explained_ns: self.difference.explained(changed_ns),
            changed_ns,
            may_be_idle: may_be_idle(&object),
            domain,
            object: Found::One(object),
            changed,
        });
    }

    /// The time that a disk was busy is the product of how much was read or written, in how many requests that was
    /// cut, and how long each kept it busy. Each that changed is told, with what it makes of the difference; what is made up
    /// for by another (more requests, but smaller ones) is not.
    fn disk(&mut self, key: &Key, [a, b]: [Figures; 2]) {
        if a.count == 0 || b.count == 0 {
            let in_second = a.count == 0;
            let changed = Changed::UsedInOne { in_second, figures: if in_second { b } else { a } };
            return self.tell(key, b.time_ns as f64 - a.time_ns as f64, changed);
        }
        let before = self.found.len();
        if self.matters(a.time_ns as f64, b.time_ns as f64) {
            self.requests(key, [a, b]);
            self.each_request(key, [a, b]);
        }
        if self.matters(a.wait_ns as f64, b.wait_ns as f64) {
            self.queueing(key, [a, b], before);
        }
    }

    /// How much data there was, and in how many requests.
    fn requests(&mut self, key: &Key, [a, b]: [Figures; 2]) {
        let (requests_a, requests_b) = (a.count as f64, b.count as f64);
        let (bytes_a, bytes_b) = (a.bytes as f64, b.bytes as f64);
        let sizes = [a, b].map(|of| mean(of.bytes, of.count));
        let busy = mean(a.time_ns, a.count);
        let of_same_size = if a.bytes > 0 { requests_a * bytes_b / bytes_a } else { requests_b };
        let other_data = differs(bytes_a, bytes_b);
        if other_data {
            let by = part((of_same_size - requests_a) * busy, [a, b]);
            self.tell(key, by, Changed::Data([a.bytes, b.bytes]));
        }
        if differs(of_same_size, requests_b) {
            let by = part((requests_b - of_same_size) * busy, [a, b]);
            self.tell(key, by, Changed::Requests { of_same_size, requests: b.count, sizes, other_data });
        }
    }

    /// How long a request kept the disk busy: for its own time in it, or as fewer are in it at a time.
    fn each_request(&mut self, key: &Key, pair: [Figures; 2]) {
        let busy = pair.map(|of| mean(of.time_ns, of.count));
        if !differs(busy[0], busy[1]) {
            return;
        }
        let by = part((busy[1] - busy[0]) * pair[1].count as f64, pair);
        let device_ns = pair.map(|of| mean(of.device_ns, of.count));
        let slower = busy[1] > busy[0];
        if !differs(device_ns[0], device_ns[1]) || slower != (device_ns[1] > device_ns[0]) {
            let under_way = pair.map(|of| mean(of.device_ns, of.time_ns));
            return self.tell(key, by, Changed::Overlap { under_way, device_ns: device_ns[1] });
        }
        let [far, sizes] =
            [pair.map(|of| mean(of.distance, of.count)), pair.map(|of| mean(of.bytes, of.count))];
        // Nothing is slower for being nearer, or smaller.
        let times = |[a, b]: [f64; 2]| if slower { b / a.max(1.0) } else { a / b.max(1.0) };
        let with = if times(far) > SEEKING {
            ServiceChange::Distance(far)
        } else if times(sizes) > FACTOR {
            ServiceChange::Size(sizes)
        } else {
            ServiceChange::Nothing
        };
        self.tell(key, by, Changed::Service { device_ns, with });
    }

    /// How long requests wait for the disk, beside what was found of it before.
    fn queueing(&mut self, key: &Key, pair: [Figures; 2], before: usize) {
        let wait_ns = pair.map(|of| mean(of.wait_ns, of.count));
        let waiting = [0, 1].map(|at| mean(pair[at].wait_ns, self.difference.span_ns[at]));
        let longer = pair[1].wait_ns as f64 - pair[0].wait_ns as f64;
        // Where the disk has more to do, more wait at a time: that is why, and explains no less.
        let work = self.found[before..].iter().map(|finding| finding.changed_ns as f64);
        let most = work.filter(|work| work * longer > 0.0).map(f64::abs).reduce(f64::max);
        let by = most.map_or(longer, |most| longer.clamp(-most, most));
        self.tell(key, by, Changed::Queueing { wait_ns, waiting });
    }

    fn process(&mut self, key: &Key, pair: [Figures; 2]) {
        let (ran, ready) = (pair.map(|of| of.time_ns), pair.map(|of| of.wait_ns));
        let busy = [0, 1].map(|at: usize| self.busy[at].get(&key.domain).copied().unwrap_or(0.0));
        self.changes(key, ran, Changed::Ran { ns: ran, switched_in: pair.map(|of| of.count) });
        self.changes(key, ready, Changed::RunQueue { ns: ready, busy });
    }

    /// Something that was waited for, or that took time, as `time` tells of its figures.
    fn took(&mut self, key: &Key, pair: [Figures; 2], time: fn(&Figures) -> u64) {
        let ns = pair.map(|of| time(&of));
        self.changes(key, ns, Changed::Took { ns, count: pair.map(|of| of.count) });
    }
}

/// Whether a change of an object is of waiting that may be for want of anything to do: a pool's threads wait for a lock, a
/// client for what it is told next, and a guest halts until there is something to do.
fn may_be_idle(object: &UsageObject) -> bool {
    match object {
        UsageObject::Locks(_) | UsageObject::Peer(_) | UsageObject::Vcpu { .. } => true,
        UsageObject::Exits { reason, .. } => *reason == ExitReason::Halt,
        _ => false,
    }
}

/// What one thing makes of the change of a disk's busy time: no more than all of it.
fn part(changed: f64, [a, b]: [Figures; 2]) -> f64 {
    let all = b.time_ns as f64 - a.time_ns as f64;
    changed.clamp(all.min(0.0), all.max(0.0))
}

/// Many findings of one kind, of objects of one kind in a domain, become one: of nine processes that do the same.
fn together(found: Vec<Finding>, difference: Difference) -> Vec<Finding> {
    let mut groups: BTreeMap<_, Vec<Finding>> = BTreeMap::new();
    // Those of disks stay in their order: of two that explain as much, the cause comes first.
    let (mut findings, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|finding| finding.kind() == UsageKind::Disk);
    for finding in others {
        let group = (finding.change().name(), finding.kind(), finding.domain.clone(), finding.may_be_idle);
        groups.entry(group).or_default().push(finding);
    }
    for mut group in groups.into_values() {
        // What there is more of and what there is less of do not add up.
        for more in [true, false] {
            let (mut these, others): (Vec<_>, Vec<_>) =
                group.into_iter().partition(|finding| (finding.changed_ns > 0) == more);
            group = others;
            if these.len() <= FEW {
                findings.append(&mut these);
                continue;
            }
            these.sort_by_key(|finding| Reverse(finding.changed_ns.unsigned_abs()));
            let changed_ns = difference.change(these.iter().map(|finding| finding.changed_ns as f64).sum());
            let (count, first) = (these.len(), these.swap_remove(0));
            findings.push(Finding {
                object: Found::Several { count, first: first.object.first().clone() },
                explained_ns: difference.explained(changed_ns),
                changed_ns,
                ..first
            });
        }
    }
    findings
}

/// The share of each domain's processors that ran something.
fn busy(usage: &Usage) -> BTreeMap<String, f64> {
    let mut ran: BTreeMap<String, f64> = BTreeMap::new();
    for (key, figures) in &usage.objects {
        if key.kind() == UsageKind::Process {
            *ran.entry(key.domain.clone()).or_default() += figures.time_ns as f64;
        }
    }
    for (domain, ran) in &mut ran {
        let cpus = usage.cpus.get(domain).copied().unwrap_or(1).max(1);
        // Its own span: one domain may be recorded for longer than another.
        let span_ns = usage.spans.get(domain).copied().unwrap_or(usage.span_ns);
        *ran /= f64::from(cpus) * (span_ns as f64).max(1.0);
    }
    ran
}
