//! Two traces, object by object, and what explains the difference.
//!
//! As in Horikawa's framework (Application of Event Trace Framework for Performance Problem Solutions), the same work is
//! recorded twice, and compared by how long each object worked and how often and with how much data it was used.
//! Findings say which of these changed, and how much of the time that explains.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::Serialize;
use xweave_text::size;

use crate::{
    format::{mean, span, times},
    objects::RECORDER,
    usage::{Figures, Key, Usage, kind},
};

/// What differs by a smaller factor is taken for noise.
pub const FACTOR: f64 = 1.25;

/// What explains a smaller share of the longer trace's time is not told.
pub const SHARE: f64 = 0.01;

/// What explains less, in nanoseconds, is not told either.
pub const LEAST_NS: u64 = 1_000_000;

/// So many findings of one kind in a domain are told one by one; more are told as one.
const FEW: usize = 3;

/// How many times farther a disk must have moved for that to be called seeking.
pub const SEEKING: f64 = 2.0;

/// An object in both traces; one that a trace lacks has done nothing in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// What it is called.
    pub object: String,
    /// What it is: one of [`kind`].
    pub kind: &'static str,
    /// The domain that it belongs to.
    pub domain: String,
    /// How long it worked, in nanoseconds.
    pub time_ns: [u64; 2],
    /// How often.
    pub count: [u64; 2],
    /// How much data.
    pub bytes: [u64; 2],
    /// How long was waited, for a processor or for it, in nanoseconds.
    pub wait_ns: [u64; 2],
    /// Disks: sums of the times from being given an access to its being done, in nanoseconds.
    pub device_ns: [u64; 2],
    /// Disks: bytes between the end of an access and the beginning of the next, either way.
    pub seek_bytes: [u64; 2],
}

/// Something that explains a difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What changed: `requests`, `data`, `seeking`, `service`, `queueing`, `processor`, `run_queue`, `lock`, `peer`, `exits`,
    /// `halted` or `interrupts`.
    pub what: &'static str,
    /// The object's domain.
    pub domain: String,
    /// The object.
    pub object: String,
    /// The object's kind.
    pub kind: &'static str,
    /// The time that the second trace has more of it (less, if negative), in nanoseconds. Times of objects that work
    /// at once overlap: findings do not sum to the difference.
    pub explained_ns: i64,
    /// The finding in words.
    pub text: String,
}

/// Two traces compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Time from each one's first event to its last, in nanoseconds.
    pub span_ns: [u64; 2],
    /// How many events each has.
    pub events: [u64; 2],
    /// All objects of both, by kind, domain and name.
    pub objects: Vec<Compared>,
    /// What explains the difference, what explains most first. Empty if nothing differs beyond noise.
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
        let span_ns = [a.span_ns, b.span_ns];
        let longer = a.span_ns.max(b.span_ns);
        let mut rules = Rules {
            least: (longer as f64 * SHARE).max(LEAST_NS as f64),
            busy: [busy(a), busy(b)],
            span_ns,
            found: Vec::new(),
        };
        for (key, pair) in &pairs {
            // The recorder's own processes are among the objects, and nothing is found of them.
            if !key.object.contains(RECORDER) {
                rules.look_at(key, *pair);
            }
        }
        let mut findings = together(rules.found);
        findings.sort_by_key(|finding| Reverse(finding.explained_ns.unsigned_abs()));
        let object = |(key, [a, b]): (&Key, [Figures; 2])| Compared {
            object: key.object.clone(),
            kind: key.kind,
            domain: key.domain.clone(),
            time_ns: [a.time_ns, b.time_ns],
            count: [a.count, b.count],
            bytes: [a.bytes, b.bytes],
            wait_ns: [a.wait_ns, b.wait_ns],
            device_ns: [a.device_ns, b.device_ns],
            seek_bytes: [a.distance, b.distance],
        };
        Self {
            span_ns,
            events: [a.events, b.events],
            objects: pairs.into_iter().map(object).collect(),
            findings,
        }
    }
}

/// Many findings of one kind, of objects of one kind in a domain, become one: of nine processes that do the same.
fn together(found: Vec<Finding>) -> Vec<Finding> {
    let mut groups: BTreeMap<(&'static str, &'static str, String), Vec<Finding>> = BTreeMap::new();
    // Those of disks stay in their order: of two that explain as much, the cause comes first.
    let (mut findings, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|finding| finding.kind == kind::DISK);
    for finding in others {
        groups.entry((finding.what, finding.kind, finding.domain.clone())).or_default().push(finding);
    }
    for ((what, kind, domain), mut group) in groups {
        // Those that explain more and those that explain less do not add up.
        for more in [true, false] {
            let (mut these, others): (Vec<_>, Vec<_>) =
                group.into_iter().partition(|finding| (finding.explained_ns > 0) == more);
            group = others;
            if these.len() <= FEW {
                findings.append(&mut these);
                continue;
            }
            these.sort_by_key(|finding| Reverse(finding.explained_ns.unsigned_abs()));
            let explained_ns = these.iter().map(|finding| finding.explained_ns).sum();
            let object = format!("{} {}", these.len(), plural(kind));
            let text = format!("{object}, the first of them {}", these[0].text);
            let domain = domain.clone();
            findings.push(Finding { what, domain, object, kind, explained_ns, text });
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

struct Rules {
    /// What explains less, in nanoseconds, is not told.
    least: f64,
    busy: [BTreeMap<String, f64>; 2],
    span_ns: [u64; 2],
    found: Vec<Finding>,
}

impl Rules {
    fn look_at(&mut self, key: &Key, pair: [Figures; 2]) {
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
                    let text = format!("halted {} in place of {}", span(b), span(a));
                    self.tell(key, "halted", b as f64 - a as f64, text);
                }
            }
            // A disk's use by a process is told with the disk.
            _ => {}
        }
    }

    /// Whether two times differ beyond noise.
    fn matters(&self, a: f64, b: f64) -> bool {
        (b - a).abs() >= self.least && differs(a, b)
    }

    fn tell(&mut self, key: &Key, what: &'static str, explained: f64, text: String) {
        if explained.abs() < self.least {
            return;
        }
        // Many may wait at a time: that explains no more than all of a run.
        let longer = self.span_ns[0].max(self.span_ns[1]) as f64;
        let explained = explained.clamp(-longer, longer);
        #[allow(clippy::cast_possible_truncation, reason = "a time of a trace, in nanoseconds")]
        let explained_ns = explained.round() as i64;
        let Key { kind, domain, object } = key.clone();
        let text = format!("{object}: {text}");
        self.found.push(Finding { what, domain, object, kind, explained_ns, text });
    }

    /// The time that a disk was busy is the product of how much was read or written, in how many accesses that was
    /// cut, and how long each took. Each that changed is told, with what it makes of the difference.
    fn disk(&mut self, key: &Key, [a, b]: [Figures; 2]) {
        let before = self.found.len();
        let (accesses_a, accesses_b) = (a.count as f64, b.count as f64);
        if a.count == 0 || b.count == 0 {
            let (which, used) = if a.count == 0 { ("second", b) } else { ("first", a) };
            let text = format!(
                "used in the {which} trace only: {} accesses, {}, busy {}",
                used.count,
                size(used.bytes as f64),
                span(used.time_ns)
            );
            return self.tell(key, "data", b.time_ns as f64 - a.time_ns as f64, text);
        }
        let each = [mean(a.time_ns, a.count), mean(b.time_ns, b.count)];
        let sizes = [mean(a.bytes, a.count), mean(b.bytes, b.count)];
        let same_size = if a.bytes > 0 { accesses_a * b.bytes as f64 / a.bytes as f64 } else { accesses_b };
        if self.matters(a.time_ns as f64, b.time_ns as f64) {
            if differs(a.bytes as f64, b.bytes as f64) {
                let data = times(a.bytes as f64, b.bytes as f64);
                let text =
                    format!("{data} the data: {} in place of {}", size(b.bytes as f64), size(a.bytes as f64));
                self.tell(key, "data", (same_size - accesses_a) * each[0], text);
            }
            if differs(same_size, accesses_b) {
                let shrank = if sizes[1] < sizes[0] { "shrank" } else { "grew" };
                let for_what =
                    if differs(a.bytes as f64, b.bytes as f64) { "as much data" } else { "the same bytes" };
                let text = format!(
                    "{} the accesses for {for_what}: requests {shrank} from {} to {}",
                    times(same_size, accesses_b),
                    size(sizes[0]),
                    size(sizes[1])
                );
                self.tell(key, "requests", (accesses_b - same_size) * each[0], text);
            }
            if differs(each[0], each[1]) {
                let far = [mean(a.distance, a.count), mean(b.distance, b.count)];
                // Nothing is slower for being nearer, or smaller.
                let slower = each[1] > each[0];
                let with = |[a, b]: [f64; 2]| if slower { b / a.max(1.0) } else { a / b.max(1.0) };
                let (what, why) = if with(far) > SEEKING {
                    let why =
                        format!("they lie {} apart on average in place of {}", size(far[1]), size(far[0]));
                    ("seeking", why)
                } else if with(sizes) > FACTOR {
                    ("service", format!("they are of {} in place of {}", size(sizes[1]), size(sizes[0])))
                } else {
                    let why =
                        "not for how far apart and how large they are: it is the disk, or what else uses it";
                    ("service", why.to_owned())
                };
                let text =
                    format!("an access takes {} in place of {}: {why}", span_of(each[1]), span_of(each[0]));
                self.tell(key, what, (each[1] - each[0]) * accesses_b, text);
            }
        }
        if self.matters(a.wait_ns as f64, b.wait_ns as f64) {
            let waits = [mean(a.wait_ns, a.count), mean(b.wait_ns, b.count)];
            let [few, many] = [0, 1].map(|at| mean([a, b][at].wait_ns, self.span_ns[at]));
            let text = format!(
                "accesses wait {} for it in place of {}: on average {many:.1} at a time, before {few:.1}",
                span_of(waits[1]),
                span_of(waits[0])
            );
            let longer = b.wait_ns as f64 - a.wait_ns as f64;
            // Where the disk has more to do, more wait at a time: that is why, and explains no less.
            let work = self.found[before..].iter().map(|finding| finding.explained_ns as f64);
            let most = work.filter(|work| work * longer > 0.0).map(f64::abs).reduce(f64::max);
            let explained = most.map_or(longer, |most| longer.clamp(-most, most));
            self.tell(key, "queueing", explained, text);
        }
    }

    fn process(&mut self, key: &Key, [a, b]: [Figures; 2]) {
        if self.matters(a.time_ns as f64, b.time_ns as f64) {
            let text = match (a.count, b.count) {
                (0, _) => format!("ran {} in the second trace only", span(b.time_ns)),
                (_, 0) => format!("ran {} in the first trace only", span(a.time_ns)),
                _ => format!(
                    "ran {} in place of {}, {} the processor time, given a processor {} times in place of {}",
                    span(b.time_ns),
                    span(a.time_ns),
                    times(a.time_ns as f64, b.time_ns as f64),
                    b.count,
                    a.count
                ),
            };
            self.tell(key, "processor", b.time_ns as f64 - a.time_ns as f64, text);
        }
        if self.matters(a.wait_ns as f64, b.wait_ns as f64) {
            let of = |at: usize| 100.0 * self.busy[at].get(&key.domain).copied().unwrap_or(0.0);
            let text = format!(
                "waited {} for a processor in place of {}; the domain's were busy {:.0} % of the time, before {:.0} %",
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
                "{verb} {} in place of {}; {counted}: {} in place of {}",
                span(b),
                span(a),
                counts[1],
                counts[0]
            );
            self.tell(key, what, b as f64 - a as f64, text);
        }
    }
}

/// Whether two figures differ by more than noise.
fn differs(a: f64, b: f64) -> bool {
    a.max(b) > FACTOR * a.min(b)
}

fn span_of(ns: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of times is one")]
    span(ns.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: u64 = 1024;

    fn usage(span_ns: u64, objects: &[(&'static str, &str, Figures)]) -> Usage {
        let key = |kind, object: &str| Key { kind, domain: "vm1".into(), object: object.into() };
        let objects = objects.iter().map(|(kind, object, figures)| (key(*kind, object), *figures)).collect();
        Usage { objects, span_ns, cpus: [("vm1".to_owned(), 2)].into(), ..Usage::default() }
    }

    fn disk(time_ms: u64, count: u64, kilobytes: u64) -> Figures {
        Figures { time_ns: time_ms * 1_000_000, count, bytes: kilobytes * KB, ..Figures::default() }
    }

    #[test]
    fn the_papers_slow_reading_is_told_as_smaller_requests() {
        // Tables 2 and 3: nine files of 100 MB one after the other, and at once.
        let a = usage(55_000_000_000, &[(kind::DISK, "disk 8:0", disk(54_560, 17_152, 944_476))]);
        let b = usage(569_000_000_000, &[(kind::DISK, "disk 8:0", disk(570_483, 191_112, 944_484))]);
        let compared = Comparison::of(&a, &b);
        let [finding] = &*compared.findings else { panic!("{:#?}", compared.findings) };
        assert_eq!(
            finding.text,
            "disk 8:0: 11 × the accesses for the same bytes: requests shrank from 55 KiB to 4.9 KiB"
        );
        assert_eq!((finding.what, finding.kind), ("requests", kind::DISK));
        // An access takes as long as before, so more of them explain the whole.
        assert_eq!(finding.explained_ns / 1_000_000_000, 553);
        let [disk] = &*compared.objects else { panic!() };
        assert_eq!((disk.count, disk.bytes), ([17_152, 191_112], [944_476 * KB, 944_484 * KB]));
    }

    #[test]
    fn what_is_within_noise_is_not_told() {
        let with = |disk, ran, waited| {
            let process = Figures { time_ns: ran, wait_ns: waited, count: 100, ..Figures::default() };
            usage(10_000_000_000, &[(kind::DISK, "disk 8:0", disk), (kind::PROCESS, "dd", process)])
        };
        let a = with(disk(1_000, 1_000, 40_000), 500_000_000, 1_000_000);
        // A fifth more of all; and a wait that is fifty times as long, but half a percent of the time.
        let b = with(disk(1_200, 1_100, 44_000), 600_000_000, 50_000_000);
        assert_eq!(Comparison::of(&a, &b).findings, []);
        assert_eq!(Comparison::of(&a, &a).findings, []);
    }

    #[test]
    fn seeking_a_slower_disk_and_queueing_are_told_apart() {
        let told = |a: Figures, b: Figures| {
            let of = |figures| usage(20_000_000_000, &[(kind::DISK, "disk 8:0", figures)]);
            let findings = Comparison::of(&of(a), &of(b)).findings;
            findings.into_iter().map(|finding| finding.text).collect::<Vec<_>>()
        };
        let a = Figures { distance: 1_000 * 512 * KB, ..disk(1_000, 1_000, 40_000) };
        let far = Figures { distance: 1_000 * 64 * KB * KB, ..disk(5_000, 1_000, 40_000) };
        assert_eq!(
            told(a, far),
            [
                "disk 8:0: an access takes 5.00 ms in place of 1.00 ms: they lie 64 MiB apart on average in place of 512 KiB"
            ]
        );
        // The same access for access, and so is what became faster although it lies farther apart.
        let slow = Figures { time_ns: 5_000_000_000, ..a };
        let why = "not for how far apart and how large they are: it is the disk, or what else uses it";
        assert_eq!(told(a, slow), [format!("disk 8:0: an access takes 5.00 ms in place of 1.00 ms: {why}")]);
        let fast = Figures { distance: far.distance, ..a };
        assert_eq!(
            told(slow, fast),
            [format!("disk 8:0: an access takes 1.00 ms in place of 5.00 ms: {why}")]
        );
        let queued = Figures { wait_ns: 8_000_000_000, ..a };
        assert_eq!(
            told(a, queued),
            ["disk 8:0: accesses wait 8.00 ms for it in place of 0 ns: on average 0.4 at a time, before 0.0"]
        );
        // More accesses wait for each other: that comes after why there are more.
        let at_once = Figures { wait_ns: 88_000_000_000, ..disk(11_000, 11_000, 40_000) };
        let text = told(a, at_once);
        assert!(text[0].contains("11 × the accesses") && text[1].contains("wait 8.00 ms"), "{text:?}");
        let more = disk(3_000, 3_000, 120_000);
        assert_eq!(
            told(disk(1_000, 1_000, 40_000), more),
            ["disk 8:0: 3.0 × the data: 117 MiB in place of 39 MiB"]
        );
    }

    #[test]
    fn many_that_changed_alike_are_one_finding_and_the_recorder_is_none() {
        let ran = |ns| Figures { time_ns: ns, count: 10, ..Figures::default() };
        let of = |ns| {
            let names = ["reader1", "reader2", "reader3", "reader4", RECORDER];
            let objects: Vec<_> = names.iter().map(|name| (kind::PROCESS, *name, ran(ns))).collect();
            usage(10_000_000_000, &objects)
        };
        let findings = Comparison::of(&of(500_000_000), &of(1_500_000_000)).findings;
        let [all] = &*findings else { panic!("{findings:#?}") };
        assert_eq!((&*all.object, all.what, all.explained_ns), ("4 processes", "processor", 4_000_000_000));
        assert!(all.text.starts_with("4 processes, the first of them reader1: ran 1.500 s"), "{}", all.text);
    }

    #[test]
    fn what_explains_most_comes_first() {
        let process =
            |ran, waited| Figures { time_ns: ran, wait_ns: waited, count: 100, ..Figures::default() };
        let of = |process, lock| {
            let lock = Figures { wait_ns: lock, count: 10, ..Figures::default() };
            usage(8_000_000_000, &[(kind::PROCESS, "nginx", process), (kind::LOCK, "locks of nginx", lock)])
        };
        let a = of(process(1_000_000_000, 100_000_000), 50_000_000);
        let b = of(process(6_000_000_000, 900_000_000), 2_050_000_000);
        let told: Vec<_> =
            Comparison::of(&a, &b).findings.into_iter().map(|f| (f.what, f.explained_ns)).collect();
        assert_eq!(told, [("processor", 5_000_000_000), ("lock", 2_000_000_000), ("run_queue", 800_000_000)]);
        let run_queue = &Comparison::of(&a, &b).findings[2].text;
        assert_eq!(
            run_queue,
            "nginx: waited 900.00 ms for a processor in place of 100.00 ms; the domain's were busy 38 % of the time, \
             before 6 %"
        );
    }
}
