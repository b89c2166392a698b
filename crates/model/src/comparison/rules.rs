//! Which changes are told, object by object, and in which words.

use std::{cmp::Reverse, collections::BTreeMap};

use xweave_text::size;

use super::finding::{Difference, FACTOR, Finding, differs};
use crate::{
    format::{mean, span, times},
    usage::{Figures, Key, Usage, kind},
    vcpu::HALT,
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
        match key.kind {
            kind::DISK => self.disk(key, pair),
            kind::PROCESS => self.process(key, pair),
            kind::LOCK => self.took(key, pair, waited, ["lock", "waited", "waits"]),
            kind::PEER => self.took(key, pair, waited, ["peer", "was waited for", "sends and receives"]),
            kind::EXIT => self.took(key, pair, worked, ["exits", "kept the guest out", "exits"]),
            kind::INTERRUPT => self.took(key, pair, worked, ["interrupts", "took", "interrupts"]),
            kind::VCPU => {
                let [a, b] = pair.map(|figures| figures.wait_ns);
                if self.matters(a as f64, b as f64) {
                    let text = format!("halted {} instead of {}", span(b), span(a));
                    self.tell(key, "halted", b as f64 - a as f64, text);
                }
            }
            // A disk's use by a process is told with the disk.
            _ => {}
        }
    }

    /// Whether two times differ beyond noise.
    fn matters(&self, a: f64, b: f64) -> bool {
        (b - a).abs() >= self.difference.least() && differs(a, b)
    }

    fn tell(&mut self, key: &Key, what: &'static str, changed: f64, text: String) {
        if changed.abs() < self.difference.least() {
            return;
        }
        let changed_ns = self.difference.change(changed);
        let Key { kind, domain, object } = key.clone();
        let text = format!("{object}: {text}");
        self.found.push(Finding {
            what,
            explained_ns: self.difference.explained(changed_ns),
            changed_ns,
            may_be_idle: may_be_idle(what, &object),
            domain,
            object,
            kind,
            text,
        });
    }

    /// The time that a disk was busy is the product of how much was read or written, in how many requests that was
    /// cut, and how long each kept it busy. Each that changed is told, with what it makes of the difference; what is made up
    /// for by another (more requests, but smaller ones) is not.
    fn disk(&mut self, key: &Key, [a, b]: [Figures; 2]) {
        if a.count == 0 || b.count == 0 {
            let (which, used) = if a.count == 0 { ("second", b) } else { ("first", a) };
            let text = format!(
                "used in the {which} trace only: {} requests, {}, busy {}",
                used.count,
                size(used.bytes as f64),
                span(used.time_ns)
            );
            return self.tell(key, "data", b.time_ns as f64 - a.time_ns as f64, text);
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
        let same_size = if a.bytes > 0 { requests_a * bytes_b / bytes_a } else { requests_b };
        let other_data = differs(bytes_a, bytes_b);
        if other_data {
            let text = format!(
                "{} the data: {} instead of {}",
                times(bytes_a, bytes_b),
                size(bytes_b),
                size(bytes_a)
            );
            self.tell(key, "data", part((same_size - requests_a) * busy, [a, b]), text);
        }
        if differs(same_size, requests_b) {
            let shrank = if sizes[1] < sizes[0] { "shrank" } else { "grew" };
            let for_what = if other_data { "as much data" } else { "the same bytes" };
            let text = format!(
                "{} the requests for {for_what}: they {shrank} from {} to {}",
                times(same_size, requests_b),
                size(sizes[0]),
                size(sizes[1])
            );
            self.tell(key, "requests", part((requests_b - same_size) * busy, [a, b]), text);
        }
    }

    /// How long a request kept the disk busy: for its own time in it, or as fewer are in it at a time.
    fn each_request(&mut self, key: &Key, pair: [Figures; 2]) {
        let busy = pair.map(|of| mean(of.time_ns, of.count));
        if !differs(busy[0], busy[1]) {
            return;
        }
        let changed = part((busy[1] - busy[0]) * pair[1].count as f64, pair);
        let device = pair.map(|of| mean(of.device_ns, of.count));
        let slower = busy[1] > busy[0];
        if !differs(device[0], device[1]) || slower != (device[1] > device[0]) {
            let [few, many] = pair.map(|of| mean(of.device_ns, of.time_ns));
            let text = format!(
                "on average {many:.1} requests are in it at a time instead of {few:.1}, each for {}",
                span_of(device[1])
            );
            return self.tell(key, "overlap", changed, text);
        }
        let [far, sizes] =
            [pair.map(|of| mean(of.distance, of.count)), pair.map(|of| mean(of.bytes, of.count))];
        // Nothing is slower for being nearer, or smaller.
        let with = |[a, b]: [f64; 2]| if slower { b / a.max(1.0) } else { a / b.max(1.0) };
        let (what, why) = if with(far) > SEEKING {
            let why = format!("they lie {} apart on average instead of {}", size(far[1]), size(far[0]));
            ("seeking", why)
        } else if with(sizes) > FACTOR {
            ("service", format!("they are of {} instead of {}", size(sizes[1]), size(sizes[0])))
        } else {
            let why = "not for how far apart and how large they are: it is the disk, or what else uses it";
            ("service", why.to_owned())
        };
        let text = format!("a request takes {} instead of {}: {why}", span_of(device[1]), span_of(device[0]));
        self.tell(key, what, changed, text);
    }

    /// How long requests wait for the disk, beside what was found of it before.
    fn queueing(&mut self, key: &Key, pair: [Figures; 2], before: usize) {
        let waits = pair.map(|of| mean(of.wait_ns, of.count));
        let [few, many] = [0, 1].map(|at| mean(pair[at].wait_ns, self.difference.span_ns[at]));
        let text = format!(
            "requests wait {} for it instead of {}: on average {many:.1} at a time, before {few:.1}",
            span_of(waits[1]),
            span_of(waits[0])
        );
        let longer = pair[1].wait_ns as f64 - pair[0].wait_ns as f64;
        // Where the disk has more to do, more wait at a time: that is why, and explains no less.
        let work = self.found[before..].iter().map(|finding| finding.changed_ns as f64);
        let most = work.filter(|work| work * longer > 0.0).map(f64::abs).reduce(f64::max);
        let changed = most.map_or(longer, |most| longer.clamp(-most, most));
        self.tell(key, "queueing", changed, text);
    }

    fn process(&mut self, key: &Key, [a, b]: [Figures; 2]) {
        if self.matters(a.time_ns as f64, b.time_ns as f64) {
            let text = match (a.time_ns, b.time_ns) {
                (0, _) => format!("ran {} in the second trace only", span(b.time_ns)),
                (_, 0) => format!("ran {} in the first trace only", span(a.time_ns)),
                _ => format!(
                    "ran {} instead of {}, {} the CPU time, switched in {} times instead of {}",
                    span(b.time_ns),
                    span(a.time_ns),
                    times(a.time_ns as f64, b.time_ns as f64),
                    b.count,
                    a.count
                ),
            };
            self.tell(key, "CPU", b.time_ns as f64 - a.time_ns as f64, text);
        }
        if self.matters(a.wait_ns as f64, b.wait_ns as f64) {
            let of = |at: usize| 100.0 * self.busy[at].get(&key.domain).copied().unwrap_or(0.0);
            let text = format!(
                "waited {} for a CPU instead of {}; the domain's CPUs were busy {:.0} % of the time, before {:.0} %",
                span(b.wait_ns),
                span(a.wait_ns),
                of(1),
                of(0)
            );
            self.tell(key, "run_queue", b.wait_ns as f64 - a.wait_ns as f64, text);
        }
    }

    /// Something that was waited for, or that took time, as `time` tells of its figures.
    fn took(&mut self, key: &Key, pair: [Figures; 2], time: fn(&Figures) -> u64, words: [&'static str; 3]) {
        let ([a, b], [what, verb, counted]) = ([time(&pair[0]), time(&pair[1])], words);
        if self.matters(a as f64, b as f64) {
            let counts = pair.map(|figures| figures.count);
            let text = format!(
                "{verb} {} instead of {}; {counted}: {} instead of {}",
                span(b),
                span(a),
                counts[1],
                counts[0]
            );
            self.tell(key, what, b as f64 - a as f64, text);
        }
    }
}

/// Whether a change is of waiting that may be for want of anything to do: a pool's threads wait for a lock, a client for
/// what it is told next, and a guest halts until there is something to do.
fn may_be_idle(what: &str, object: &str) -> bool {
    let halts = || object.strip_prefix("exits ").is_some_and(|exits| exits.split(' ').next() == Some(HALT));
    matches!(what, "lock" | "peer" | "halted") || (what == "exits" && halts())
}

/// What one thing makes of the change of a disk's busy time: no more than all of it.
fn part(changed: f64, [a, b]: [Figures; 2]) -> f64 {
    let all = b.time_ns as f64 - a.time_ns as f64;
    changed.clamp(all.min(0.0), all.max(0.0))
}

fn span_of(ns: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of times is one")]
    span(ns.max(0.0) as u64)
}

/// Many findings of one kind, of objects of one kind in a domain, become one: of nine processes that do the same.
fn together(found: Vec<Finding>, difference: Difference) -> Vec<Finding> {
    let mut groups: BTreeMap<_, Vec<Finding>> = BTreeMap::new();
    // Those of disks stay in their order: of two that explain as much, the cause comes first.
    let (mut findings, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|finding| finding.kind == kind::DISK);
    for finding in others {
        let group = (finding.what, finding.kind, finding.domain.clone(), finding.may_be_idle);
        groups.entry(group).or_default().push(finding);
    }
    for ((what, kind, domain, may_be_idle), mut group) in groups {
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
            let explained_ns = difference.explained(changed_ns);
            let object = format!("{} {}", these.len(), plural(kind));
            let text = format!("{object}, the first of them {}", these[0].text);
            let domain = domain.clone();
            findings.push(Finding {
                what,
                domain,
                object,
                kind,
                explained_ns,
                changed_ns,
                may_be_idle,
                text,
            });
        }
    }
    findings
}

fn plural(kind: &str) -> &'static str {
    match kind {
        kind::PROCESS => "processes",
        kind::LOCK => "processes' locks",
        kind::PEER => "peers",
        kind::EXIT => "kinds of exits",
        kind::INTERRUPT => "interrupts",
        _ => "vCPUs",
    }
}

/// The share of each domain's processors that ran something.
fn busy(usage: &Usage) -> BTreeMap<String, f64> {
    let mut ran: BTreeMap<String, f64> = BTreeMap::new();
    for (key, figures) in &usage.objects {
        if key.kind == kind::PROCESS {
            *ran.entry(key.domain.clone()).or_default() += figures.time_ns as f64;
        }
    }
    for (domain, ran) in &mut ran {
        let cpus = usage.cpus.get(domain).copied().unwrap_or(1).max(1);
        *ran /= f64::from(cpus) * (usage.span_ns as f64).max(1.0);
    }
    ran
}
