//! Comparisons of made-up figures.

use super::*;
use crate::usage::kind;

const KB: u64 = 1024;

fn usage(span_ns: u64, objects: &[(&'static str, &str, Figures)]) -> Usage {
    let key = |kind, object: &str| Key { kind, domain: "vm1".into(), object: object.into() };
    let objects = objects.iter().map(|(kind, object, figures)| (key(*kind, object), *figures)).collect();
    Usage { objects, span_ns, cpus: [("vm1".to_owned(), 2)].into(), ..Usage::default() }
}

fn disk(time_ms: u64, count: u64, kilobytes: u64) -> Figures {
    let time_ns = time_ms * 1_000_000;
    Figures { time_ns, device_ns: time_ns, count, bytes: kilobytes * KB, ..Figures::default() }
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
        "disk 8:0: 11 × the requests for the same bytes: they shrank from 55 KiB to 4.9 KiB"
    );
    assert_eq!((finding.what, finding.kind), ("requests", kind::DISK));
    // A request takes as long as before, so more of them explain the whole, and no more than that.
    assert_eq!(finding.changed_ns / 1_000_000, 515_923);
    assert_eq!((finding.explained_ns, compared.difference_ns), (514_000_000_000, 514_000_000_000));
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
            "disk 8:0: a request takes 5.00 ms instead of 1.00 ms: they lie 64 MiB apart on average instead of 512 KiB"
        ]
    );
    // The same request for request, and so is what became faster although it lies farther apart.
    let slow = Figures { time_ns: 5_000_000_000, device_ns: 5_000_000_000, ..a };
    let why = "not for how far apart and how large they are: it is the disk, or what else uses it";
    assert_eq!(told(a, slow), [format!("disk 8:0: a request takes 5.00 ms instead of 1.00 ms: {why}")]);
    let fast = Figures { distance: far.distance, ..a };
    assert_eq!(told(slow, fast), [format!("disk 8:0: a request takes 1.00 ms instead of 5.00 ms: {why}")]);
    let queued = Figures { wait_ns: 8_000_000_000, ..a };
    assert_eq!(
        told(a, queued),
        ["disk 8:0: requests wait 8.00 ms for it instead of 0 ns: on average 0.4 at a time, before 0.0"]
    );
    // More requests wait for each other: that comes after why there are more.
    let at_once = Figures { wait_ns: 88_000_000_000, ..disk(11_000, 11_000, 40_000) };
    let text = told(a, at_once);
    assert!(text[0].contains("11 × the requests") && text[1].contains("wait 8.00 ms"), "{text:?}");
    let more = disk(3_000, 3_000, 120_000);
    assert_eq!(
        told(disk(1_000, 1_000, 40_000), more),
        ["disk 8:0: 3.0 × the data: 117 MiB instead of 39 MiB"]
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
    assert_eq!((&*all.object, all.what, all.changed_ns), ("4 processes", "CPU", 4_000_000_000));
    assert!(all.text.starts_with("4 processes, the first of them reader1: ran 1.500 s"), "{}", all.text);
}

#[test]
fn what_explains_most_comes_first_and_none_explains_more_than_the_difference() {
    let process = |ran, waited| Figures { time_ns: ran, wait_ns: waited, count: 100, ..Figures::default() };
    let ran = |time_ns| Figures { time_ns, count: 10, ..Figures::default() };
    let of = |span_ns, process, cached, lock, halted| {
        let wait = |wait_ns| Figures { wait_ns, count: 10, ..Figures::default() };
        let objects = [
            (kind::PROCESS, "nginx", process),
            (kind::PROCESS, "cache", ran(cached)),
            (kind::LOCK, "locks of nginx", wait(lock)),
            (kind::VCPU, "vCPU 0 of vm1", wait(halted)),
        ];
        usage(span_ns, &objects)
    };
    let a = of(4_000_000_000, process(1_000_000_000, 100_000_000), 2_000_000_000, 50_000_000, 9_000_000_000);
    let b =
        of(8_000_000_000, process(6_000_000_000, 900_000_000), 1_000_000_000, 2_050_000_000, 17_000_000_000);
    let told = |a, b| {
        let found = Comparison::of(a, b).findings.into_iter();
        found.map(|f| (f.what, f.changed_ns / 100_000_000, f.explained_ns / 100_000_000)).collect::<Vec<_>>()
    };
    // Waits that may be idle come last, however long they are.
    assert_eq!(
        told(&a, &b),
        [("CPU", 50, 40), ("run_queue", 8, 8), ("CPU", -10, 0), ("halted", 80, 40), ("lock", 20, 20)]
    );
    assert_eq!(
        told(&b, &a),
        [("CPU", -50, -40), ("run_queue", -8, -8), ("CPU", 10, 0), ("halted", -80, -40), ("lock", -20, -20)]
    );
    let compared = Comparison::of(&a, &b);
    assert_eq!((compared.difference_ns, compared.took_longer()), (4_000_000_000, true));
    assert_eq!(
        compared.findings[1].text,
        "nginx: waited 900.00 ms for a CPU instead of 100.00 ms; the domain's CPUs were busy 44 % of the time, \
         before 38 %"
    );
    let same = Comparison::of(&Usage { span_ns: 8_000_000_000, ..a }, &b);
    assert!(!same.took_longer() && same.findings.iter().all(|finding| finding.explained_ns == 0));
    assert_eq!(same.findings[0].what, "CPU", "{:#?}", same.findings);
}

#[test]
fn a_disk_in_which_fewer_requests_are_at_a_time_is_told_apart_from_a_slower_one() {
    let a = Figures { device_ns: 4_000_000_000, ..disk(1_000, 1_000, 40_000) };
    let b = Figures { device_ns: 4_000_000_000, ..disk(4_000, 1_000, 40_000) };
    let of = |figures, seconds: u64| usage(seconds * 1_000_000_000, &[(kind::DISK, "disk vda", figures)]);
    let found = Comparison::of(&of(a, 2), &of(b, 5)).findings;
    let [one] = &*found else { panic!("{found:#?}") };
    assert_eq!((one.what, one.explained_ns), ("overlap", 3_000_000_000));
    assert_eq!(
        one.text,
        "disk vda: on average 1.0 requests are in it at a time instead of 4.0, each for 4.00 ms"
    );
}

#[test]
fn more_requests_that_take_less_each_explain_no_more_than_the_disk_is_busy_longer() {
    let of = |figures, seconds: u64| usage(seconds * 1_000_000_000, &[(kind::DISK, "disk vda", figures)]);
    let found =
        Comparison::of(&of(disk(2_000, 1_000, 80_000), 9), &of(disk(5_000, 20_000, 80_000), 12)).findings;
    let [one] = &*found else { panic!("{found:#?}") };
    assert_eq!((one.what, one.changed_ns, one.explained_ns), ("requests", 3_000_000_000, 3_000_000_000));
}

#[test]
fn exits_of_a_guest_that_halts_may_be_idle_and_others_not() {
    let of = |ns| {
        let figures = Figures { time_ns: ns, count: 10, ..Figures::default() };
        usage(
            9_000_000_000,
            &[(kind::EXIT, "exits hlt of vm1", figures), (kind::EXIT, "exits msr of vm1", figures)],
        )
    };
    let found = Comparison::of(&of(1_000_000_000), &of(5_000_000_000)).findings;
    let told: Vec<_> = found.iter().map(|one| (&*one.object, one.may_be_idle)).collect();
    assert_eq!(told, [("exits msr of vm1", false), ("exits hlt of vm1", true)]);
}

#[test]
fn an_object_is_changed_if_a_figure_is_beyond_noise() {
    let changed = |a: Figures, b: Figures| {
        let of = |figures| usage(9_000_000_000, &[(kind::PROCESS, "nginx", figures)]);
        Comparison::of(&of(a), &of(b)).objects[0].changed()
    };
    let a = Figures { time_ns: 10_000_000, count: 200, ..Figures::default() };
    assert!(!changed(a, a));
    assert!(!changed(a, Figures { time_ns: 12_000_000, count: 240, ..a }), "by a factor of 1.2");
    assert!(!changed(Figures { count: 2, ..a }, Figures { count: 9, ..a }), "a few more times");
    assert!(changed(a, Figures { time_ns: 13_000_000, ..a }));
    assert!(changed(a, Figures { count: 301, ..a }));
    assert!(changed(a, Figures { bytes: 64 << 10, ..a }));
}

#[test]
fn a_process_that_ran_in_one_trace_only_is_told_as_such_even_if_it_never_was_switched_in() {
    let of = |time_ns| {
        usage(
            2_000_000_000,
            &[(kind::PROCESS, "work", Figures { time_ns, wait_ns: 1, ..Figures::default() })],
        )
    };
    let told = |a, b| Comparison::of(&of(a), &of(b)).findings[0].text.clone();
    assert_eq!(told(1_000_000_000, 0), "work: ran 1.000 s in the first trace only");
    assert_eq!(told(0, 1_000_000_000), "work: ran 1.000 s in the second trace only");
}

/// Figures of a domain of which those groups of events were recorded.
fn recorded(groups: &[&'static str], objects: &[(&'static str, &str, Figures)]) -> Usage {
    let recorded = [("vm1".to_owned(), groups.iter().copied().collect())].into();
    Usage { recorded, ..usage(5_000_000_000, objects) }
}

#[test]
fn what_only_one_trace_recorded_is_not_compared_and_what_did_nothing_is() {
    let used = [(kind::DISK, "disk vda", disk(2_000, 1_000, 80_000))];
    let compared = Comparison::of(&recorded(&["block", "sched"], &used), &recorded(&["sched"], &[]));
    assert_eq!((&*compared.objects, &*compared.findings), (&[][..], &[][..]));
    let [left] = &*compared.left_out else { panic!("{:?}", compared.left_out) };
    assert_eq!((left.events, left.missing_in, left.everywhere), ("block", 1, true));
    // It was recorded, and no access was seen.
    let idle = Comparison::of(&recorded(&["block"], &used), &recorded(&["block"], &[]));
    assert_eq!((idle.left_out.len(), idle.findings.len(), idle.objects.len()), (0, 1, 1));
    // The other trace has no such domain.
    let other = Usage { recorded: [("vm2".to_owned(), ["block"].into())].into(), ..Usage::default() };
    assert_eq!(Comparison::of(&recorded(&["block"], &used), &other).objects, []);
}

#[test]
fn without_the_scheduler_messages_are_counted_and_their_waits_not_compared() {
    let peer = |wait_ns| {
        let figures = Figures { wait_ns, time_ns: wait_ns, count: 7, ..Figures::default() };
        [(kind::PEER, "peer at :80", figures)]
    };
    let with = recorded(&["net", "sched"], &peer(2_000_000_000));
    let compared = Comparison::of(&with, &recorded(&["net"], &peer(0)));
    assert_eq!(compared.findings, []);
    assert_eq!((compared.objects[0].count, compared.objects[0].wait_ns), ([7, 7], [0, 0]));
}
