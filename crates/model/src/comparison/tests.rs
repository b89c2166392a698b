//! Comparisons of made-up figures.

use super::*;
use crate::{
    exit::ExitReason,
    objects::ObjectGroup,
    test_objects::{exits, process, threads, vcpus},
    usage::{UsageKind, UsageObject},
};

const KB: u64 = 1024;

fn usage(span_ns: u64, objects: &[(UsageObject, Figures)]) -> Usage {
    let key = |object: &UsageObject| Key { domain: "vm1".into(), object: object.clone() };
    let objects = objects.iter().map(|(object, figures)| (key(object), *figures)).collect();
    Usage { objects, span_ns, cpus: [("vm1".to_owned(), 2)].into(), ..Usage::default() }
}

fn vda() -> UsageObject {
    UsageObject::Disk("vda".into())
}

fn disk(time_ms: u64, count: u64, kilobytes: u64) -> Figures {
    let time_ns = time_ms * 1_000_000;
    Figures { time_ns, device_ns: time_ns, count, bytes: kilobytes * KB, ..Figures::default() }
}

#[test]
fn the_papers_slow_reading_is_told_as_smaller_requests() {
    // Tables 2 and 3: nine files of 100 MB one after the other, and at once.
    let a = usage(55_000_000_000, &[(vda(), disk(54_560, 17_152, 944_476))]);
    let b = usage(569_000_000_000, &[(vda(), disk(570_483, 191_112, 944_484))]);
    let compared = Comparison::of(&a, &b);
    let [finding] = &*compared.findings else { panic!("{:#?}", compared.findings) };
    let Changed::Requests { requests, sizes: [before, after], other_data, .. } = finding.changed else {
        panic!("{finding:?}")
    };
    assert_eq!((requests, other_data), (191_112, false));
    assert!((before / KB as f64 - 55.1).abs() < 0.1 && (after / KB as f64 - 4.9).abs() < 0.1, "{finding:?}");
    assert_eq!((finding.change(), finding.kind()), (ChangeKind::Requests, UsageKind::Disk));
    // A request takes as long as before, so more of them explain the whole, and no more than that.
    assert_eq!(finding.changed_ns / 1_000_000, 515_923);
    assert_eq!((finding.explained_ns, compared.difference_ns), (514_000_000_000, 514_000_000_000));
    let [disk] = &*compared.objects else { panic!() };
    assert_eq!((disk.count, disk.bytes), ([17_152, 191_112], [944_476 * KB, 944_484 * KB]));
}

#[test]
fn what_is_within_noise_is_not_told() {
    let with = |disk, ran, waited| {
        let dd = Figures { time_ns: ran, wait_ns: waited, count: 100, ..Figures::default() };
        usage(10_000_000_000, &[(vda(), disk), (process("dd"), dd)])
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
        let of = |figures| usage(20_000_000_000, &[(vda(), figures)]);
        let findings = Comparison::of(&of(a), &of(b)).findings;
        findings.into_iter().map(|finding| finding.changed).collect::<Vec<_>>()
    };
    let (kb, ms) = (KB as f64, 1e6);
    let a = Figures { distance: 1_000 * 512 * KB, ..disk(1_000, 1_000, 40_000) };
    let far = Figures { distance: 1_000 * 64 * KB * KB, ..disk(5_000, 1_000, 40_000) };
    let with = ServiceChange::Distance([512.0 * kb, 64.0 * kb * kb]);
    assert_eq!(told(a, far), [Changed::Service { device_ns: [ms, 5.0 * ms], with }]);
    // The same request for request, and so is what became faster although it lies farther apart.
    let slow = Figures { time_ns: 5_000_000_000, device_ns: 5_000_000_000, ..a };
    let with = ServiceChange::Nothing;
    assert_eq!(told(a, slow), [Changed::Service { device_ns: [ms, 5.0 * ms], with }]);
    let fast = Figures { distance: far.distance, ..a };
    assert_eq!(told(slow, fast), [Changed::Service { device_ns: [5.0 * ms, ms], with }]);
    let queued = Figures { wait_ns: 8_000_000_000, ..a };
    assert_eq!(told(a, queued), [Changed::Queueing { wait_ns: [0.0, 8.0 * ms], waiting: [0.0, 0.4] }]);
    // More requests wait for each other: that comes after why there are more.
    let at_once = Figures { wait_ns: 88_000_000_000, ..disk(11_000, 11_000, 40_000) };
    let found = told(a, at_once);
    let kinds: Vec<_> = found.iter().map(|changed| changed.kind(UsageKind::Disk)).collect();
    assert_eq!(kinds[1..], [ChangeKind::Queueing], "{found:?}");
    let more = disk(3_000, 3_000, 120_000);
    let bytes = [40_000, 120_000].map(|kilobytes| kilobytes * KB);
    assert_eq!(told(disk(1_000, 1_000, 40_000), more), [Changed::Data(bytes)]);
}

#[test]
fn many_that_changed_alike_are_one_finding_and_the_recorder_is_none() {
    let ran = |ns| Figures { time_ns: ns, count: 10, ..Figures::default() };
    let of = |ns| {
        let readers = ["reader1", "reader2", "reader3", "reader4"].map(process);
        let all = readers.into_iter().chain([UsageObject::Process(ObjectGroup::Recorder)]);
        usage(10_000_000_000, &all.map(|object| (object, ran(ns))).collect::<Vec<_>>())
    };
    let findings = Comparison::of(&of(500_000_000), &of(1_500_000_000)).findings;
    let [all] = &*findings else { panic!("{findings:#?}") };
    assert_eq!(all.object, Found::Several { count: 4, first: process("reader1") });
    assert_eq!((all.change(), all.changed_ns), (ChangeKind::Processor, 4_000_000_000));
    assert_eq!(all.changed, Changed::Ran { ns: [500_000_000, 1_500_000_000], switched_in: [10, 10] });
}

#[test]
fn what_explains_most_comes_first_and_none_explains_more_than_the_difference() {
    let busy = |ran, waited| Figures { time_ns: ran, wait_ns: waited, count: 100, ..Figures::default() };
    let ran = |time_ns| Figures { time_ns, count: 10, ..Figures::default() };
    let of = |span_ns, nginx, cached, lock, halted| {
        let wait = |wait_ns| Figures { wait_ns, count: 10, ..Figures::default() };
        let objects = [
            (process("nginx"), nginx),
            (process("cache"), ran(cached)),
            (UsageObject::Locks(threads("nginx")), wait(lock)),
            (UsageObject::Vcpu { number: 0, of: vcpus() }, wait(halted)),
        ];
        usage(span_ns, &objects)
    };
    let a = of(4_000_000_000, busy(1_000_000_000, 100_000_000), 2_000_000_000, 50_000_000, 9_000_000_000);
    let b = of(8_000_000_000, busy(6_000_000_000, 900_000_000), 1_000_000_000, 2_050_000_000, 17_000_000_000);
    let told = |a, b| {
        let found = Comparison::of(a, b).findings.into_iter();
        found
            .map(|f| (f.change(), f.changed_ns / 100_000_000, f.explained_ns / 100_000_000))
            .collect::<Vec<_>>()
    };
    // Waits that may be idle come last, however long they are.
    assert_eq!(
        told(&a, &b),
        [
            (ChangeKind::Processor, 50, 40),
            (ChangeKind::RunQueue, 8, 8),
            (ChangeKind::Processor, -10, 0),
            (ChangeKind::Halted, 80, 40),
            (ChangeKind::Lock, 20, 20)
        ]
    );
    assert_eq!(
        told(&b, &a),
        [
            (ChangeKind::Processor, -50, -40),
            (ChangeKind::RunQueue, -8, -8),
            (ChangeKind::Processor, 10, 0),
            (ChangeKind::Halted, -80, -40),
            (ChangeKind::Lock, -20, -20)
        ]
    );
    let compared = Comparison::of(&a, &b);
    assert_eq!((compared.difference_ns, compared.took_longer()), (4_000_000_000, true));
    let Changed::RunQueue { ns, busy } = &compared.findings[1].changed else { panic!("{compared:?}") };
    assert_eq!(*ns, [100_000_000, 900_000_000]);
    assert_eq!(busy.map(|share| (100.0 * share).round()), [38.0, 44.0]);
    let same = Comparison::of(&Usage { span_ns: 8_000_000_000, ..a }, &b);
    assert!(!same.took_longer() && same.findings.iter().all(|finding| finding.explained_ns == 0));
    assert_eq!(same.findings[0].change(), ChangeKind::Processor, "{:#?}", same.findings);
}

#[test]
fn who_waited_for_a_cpu_comes_after_who_ran_unless_that_is_too_little() {
    let of = |ran_ms: u64, ready_ms: u64| Figures {
        time_ns: ran_ms * 1_000_000,
        wait_ns: ready_ms * 1_000_000,
        count: 100,
        ..Figures::default()
    };
    let first = |gzip_ms| {
        let a = usage(40_000_000_000, &[(process("rcu_preempt"), of(1, 2))]);
        let with = [(process("rcu_preempt"), of(1, 21_000)), (process("gzip"), of(gzip_ms, 0))];
        let found = Comparison::of(&a, &usage(40_000_000_000, &with)).findings;
        found.iter().map(|finding| finding.change()).collect::<Vec<_>>()
    };
    assert_eq!(first(8_000), [ChangeKind::Processor, ChangeKind::RunQueue]);
    assert_eq!(first(1_000), [ChangeKind::RunQueue, ChangeKind::Processor]);
}

#[test]
fn a_disk_in_which_fewer_requests_are_at_a_time_is_told_apart_from_a_slower_one() {
    let a = Figures { device_ns: 4_000_000_000, ..disk(1_000, 1_000, 40_000) };
    let b = Figures { device_ns: 4_000_000_000, ..disk(4_000, 1_000, 40_000) };
    let of = |figures, seconds: u64| usage(seconds * 1_000_000_000, &[(vda(), figures)]);
    let found = Comparison::of(&of(a, 2), &of(b, 5)).findings;
    let [one] = &*found else { panic!("{found:#?}") };
    assert_eq!((one.change(), one.explained_ns), (ChangeKind::Overlap, 3_000_000_000));
    assert_eq!(one.changed, Changed::Overlap { under_way: [4.0, 1.0], device_ns: 4e6 });
}

#[test]
fn more_requests_that_take_less_each_explain_no_more_than_the_disk_is_busy_longer() {
    let of = |figures, seconds: u64| usage(seconds * 1_000_000_000, &[(vda(), figures)]);
    let found =
        Comparison::of(&of(disk(2_000, 1_000, 80_000), 9), &of(disk(5_000, 20_000, 80_000), 12)).findings;
    let [one] = &*found else { panic!("{found:#?}") };
    assert_eq!(
        (one.change(), one.changed_ns, one.explained_ns),
        (ChangeKind::Requests, 3_000_000_000, 3_000_000_000)
    );
}

#[test]
fn exits_of_a_guest_that_halts_may_be_idle_and_others_not() {
    let of = |ns| {
        let figures = Figures { time_ns: ns, count: 10, ..Figures::default() };
        usage(9_000_000_000, &[(exits(ExitReason::Halt), figures), (exits(ExitReason::Msr), figures)])
    };
    let found = Comparison::of(&of(1_000_000_000), &of(5_000_000_000)).findings;
    let told: Vec<_> = found.iter().map(|one| (one.object.first().clone(), one.may_be_idle)).collect();
    assert_eq!(told, [(exits(ExitReason::Msr), false), (exits(ExitReason::Halt), true)]);
}

#[test]
fn an_object_is_changed_if_a_figure_is_beyond_noise() {
    let changed = |a: Figures, b: Figures| {
        let of = |figures| usage(9_000_000_000, &[(process("nginx"), figures)]);
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

/// Figures of a domain of which those groups of events were recorded.
fn recorded(groups: &[&'static str], objects: &[(UsageObject, Figures)]) -> Usage {
    let recorded = [("vm1".to_owned(), groups.iter().copied().collect())].into();
    Usage { recorded, ..usage(5_000_000_000, objects) }
}

#[test]
fn what_only_one_trace_recorded_is_not_compared_and_what_did_nothing_is() {
    let used = [(vda(), disk(2_000, 1_000, 80_000))];
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
        [(UsageObject::Peer(Some(80)), figures)]
    };
    let with = recorded(&["net", "sched"], &peer(2_000_000_000));
    let compared = Comparison::of(&with, &recorded(&["net"], &peer(0)));
    assert_eq!(compared.findings, []);
    assert_eq!((compared.objects[0].count, compared.objects[0].wait_ns), ([7, 7], [0, 0]));
}
