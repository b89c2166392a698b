//! What is another in a second trace.

use xweave_model::{
    UsageKind,
    comparison::{Changed, Finding, Found, ServiceChange},
    usage::Figures,
};
use xweave_text::size;

use super::{Sentence, objects};
use crate::number::span;

/// What a finding is about: `disk vda`; of several, `9 processes`.
pub fn object(of: &Found) -> Sentence {
    match of {
        Found::One(one) => objects::usage(one),
        Found::Several { count, first } => Sentence::new(format!("{count} {}", plural(first.kind()))),
    }
}

/// A finding: `disk vda: 2.0 × the data: 8 MiB instead of 4 MiB`.
pub fn finding(of: &Finding) -> Sentence {
    let changed = changed(&of.changed, of.kind());
    Sentence::new(match &of.object {
        Found::One(one) => format!("{}: {changed}", objects::usage(one)),
        Found::Several { first, .. } => {
            format!("{}, the first of them {}: {changed}", object(&of.object), objects::usage(first))
        }
    })
}

fn changed(of: &Changed, kind: UsageKind) -> String {
    match of {
        Changed::UsedInOne { in_second, figures: Figures { count, bytes, time_ns, .. } } => {
            let which = if *in_second { "second" } else { "first" };
            let (bytes, busy) = (size(*bytes as f64), span(*time_ns));
            format!("used in the {which} trace only: {count} requests, {bytes}, busy {busy}")
        }
        Changed::Data(bytes) => {
            let [a, b] = bytes.map(|bytes| bytes as f64);
            format!("{} the data: {} instead of {}", times(a, b), size(b), size(a))
        }
        Changed::Requests { of_same_size, requests, sizes: [a, b], other_data } => format!(
            "{} the requests for {}: they {} from {} to {}",
            times(*of_same_size, *requests as f64),
            if *other_data { "as much data" } else { "the same bytes" },
            if b < a { "shrank" } else { "grew" },
            size(*a),
            size(*b)
        ),
        Changed::Overlap { under_way: [few, many], device_ns } => format!(
            "on average {many:.1} requests are in it at a time instead of {few:.1}, each for {}",
            mean_span(*device_ns)
        ),
        Changed::Service { device_ns: [a, b], with } => {
            let why = match with {
                ServiceChange::Distance([near, far]) => {
                    format!("they lie {} apart on average instead of {}", size(*far), size(*near))
                }
                ServiceChange::Size([one, other]) => {
                    format!("they are of {} instead of {}", size(*other), size(*one))
                }
                ServiceChange::Nothing => {
                    "not for how far apart and how large they are: it is the disk, or what else uses it"
                        .to_owned()
                }
            };
            format!("a request takes {} instead of {}: {why}", mean_span(*b), mean_span(*a))
        }
        Changed::Queueing { wait_ns: [a, b], waiting: [few, many] } => format!(
            "requests wait {} for it instead of {}: on average {many:.1} at a time, before {few:.1}",
            mean_span(*b),
            mean_span(*a)
        ),
        Changed::Ran { ns: [0, b], .. } => format!("ran {} in the second trace only", span(*b)),
        Changed::Ran { ns: [a, 0], .. } => format!("ran {} in the first trace only", span(*a)),
        Changed::Ran { ns: [a, b], switched_in: [before, after] } => format!(
            "ran {} instead of {}, {} the CPU time, switched in {after} times instead of {before}",
            span(*b),
            span(*a),
            times(*a as f64, *b as f64)
        ),
        Changed::RunQueue { ns: [a, b], busy: [before, after] } => format!(
            "waited {} for a CPU instead of {}; the domain's CPUs were busy {:.0} % of the time, before {:.0} %",
            span(*b),
            span(*a),
            100.0 * after,
            100.0 * before
        ),
        Changed::Halted([a, b]) => format!("halted {} instead of {}", span(*b), span(*a)),
        Changed::Took { ns: [a, b], count: [before, after] } => {
            let [verb, counted] = match kind {
                UsageKind::Lock => ["waited", "waits"],
                UsageKind::Peer => ["was waited for", "sends and receives"],
                UsageKind::Exit => ["kept the guest out", "exits"],
                UsageKind::Qdisc => ["held frames back for", "frames"],
                _ => ["took", "interrupts"],
            };
            format!("{verb} {} instead of {}; {counted}: {after} instead of {before}", span(*b), span(*a))
        }
    }
}

/// `11 ×`, `1.5 ×`, `0.025 ×`: how the second compares with the first.
fn times(a: f64, b: f64) -> String {
    let factor = if a > 0.0 { b / a } else { f64::INFINITY };
    match factor {
        _ if factor.is_infinite() => "infinitely many times".to_owned(),
        9.95.. => format!("{factor:.0} ×"),
        0.1.. => format!("{factor:.1} ×"),
        _ => format!("{factor:.3} ×"),
    }
}

fn mean_span(ns: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of times is one")]
    span(ns.max(0.0) as u64)
}

fn plural(kind: UsageKind) -> &'static str {
    match kind {
        UsageKind::Process => "processes",
        UsageKind::Lock => "processes' futexes and locks",
        UsageKind::Peer => "peers",
        UsageKind::Exit => "kinds of exits",
        UsageKind::Interrupt => "interrupts",
        UsageKind::Qdisc => "queueing disciplines",
        _ => "vCPUs",
    }
}

#[cfg(test)]
mod tests {
    use xweave_model::{ObjectGroup, UsageObject};

    use super::*;

    fn told(changed: Changed, object: Found) -> String {
        let domain = "vm1".to_owned();
        let finding = Finding { changed, domain, object, explained_ns: 0, changed_ns: 0, may_be_idle: false };
        super::finding(&finding).to_string()
    }

    #[test]
    fn factors_are_short() {
        assert_eq!([times(1.0, 11.14), times(2.0, 3.0), times(40.0, 1.0)], ["11 ×", "1.5 ×", "0.025 ×"]);
    }

    #[test]
    fn a_disks_changes_say_why_it_is_slower() {
        let kb = 1024.0;
        let vda = || Found::One(UsageObject::Disk("vda".into()));
        let (of_same_size, sizes) = (17_152.0, [55.1 * kb, 4.9 * kb]);
        for (changed, text) in [
            (
                Changed::Requests { of_same_size, requests: 191_112, sizes, other_data: false },
                "disk vda: 11 × the requests for the same bytes: they shrank from 55 KiB to 4.9 KiB",
            ),
            (
                Changed::Service {
                    device_ns: [1e6, 5e6],
                    with: ServiceChange::Distance([512.0 * kb, 64.0 * kb * kb]),
                },
                "disk vda: a request takes 5.00 ms instead of 1.00 ms: they lie 64 MiB apart on average instead of 512 KiB",
            ),
            (
                Changed::Service { device_ns: [5e6, 1e6], with: ServiceChange::Nothing },
                "disk vda: a request takes 1.00 ms instead of 5.00 ms: not for how far apart and how large they are: it is \
                 the disk, or what else uses it",
            ),
            (
                Changed::Queueing { wait_ns: [0.0, 8e6], waiting: [0.0, 0.4] },
                "disk vda: requests wait 8.00 ms for it instead of 0 ns: on average 0.4 at a time, before 0.0",
            ),
            (
                Changed::Data([40_000 << 10, 120_000 << 10]),
                "disk vda: 3.0 × the data: 117 MiB instead of 39 MiB",
            ),
            (
                Changed::Overlap { under_way: [4.0, 1.0], device_ns: 4e6 },
                "disk vda: on average 1.0 requests are in it at a time instead of 4.0, each for 4.00 ms",
            ),
        ] {
            assert_eq!(told(changed, vda()), text);
        }
    }

    #[test]
    fn processes_changes_say_how_busy_the_cpus_were() {
        let process =
            |name: &str| UsageObject::Process(ObjectGroup::Threads { name: name.into(), guest: None });
        let (second, ran) = (1_000_000_000, |ns| Changed::Ran { ns, switched_in: [10, 12] });
        for (changed, text) in [
            (ran([second, 0]), "work: ran 1.000 s in the first trace only"),
            (ran([0, second]), "work: ran 1.000 s in the second trace only"),
            (
                ran([second, 2 * second]),
                "work: ran 2.000 s instead of 1.000 s, 2.0 × the CPU time, switched in 12 times instead of 10",
            ),
            (
                Changed::RunQueue { ns: [100_000_000, 900_000_000], busy: [0.38, 0.44] },
                "work: waited 900.00 ms for a CPU instead of 100.00 ms; the domain's CPUs were busy 44 % of the time, \
                 before 38 %",
            ),
        ] {
            assert_eq!(told(changed, Found::One(process("work"))), text);
        }
        let several = Found::Several { count: 4, first: process("reader1") };
        assert_eq!(
            told(ran([0, second]), several),
            "4 processes, the first of them reader1: ran 1.000 s in the second trace only"
        );
    }
}
