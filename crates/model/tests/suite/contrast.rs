//! Slow transactions beside typical ones, and those of two runs: where the difference lies, to the nanosecond.

use proptest::prelude::*;
use tempfile::TempDir;
use xweave_model::{
    Contrast, Delay, DomainRef, ObjectGroup, Offender, Spec, contrast::Share, delay::DelayKind,
};
use xweave_trace::{
    Domain, Manifest, Trace, Writer,
    event::{Event, Kind, State},
};

/// A thread goes from `a` to `b` again and again, each time running so long and then kept from its processor so long.
fn run(times: &[(i64, i64)]) -> TempDir {
    recorded(times, &[])
}

/// The same, where the recorder says that it recorded these groups of events.
fn recorded(times: &[(i64, i64)], groups: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let events = groups.iter().map(|group| (*group).to_owned()).collect();
    let domains = vec![Domain { name: "vm1".into(), number: 1, events, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let mut event = |time: i64, kind, tid: u32, name: &str, other: u32| {
        let (name, code) = (writer.name(name), State::Runnable.code());
        let event = Event { name, other, object: other.into(), code, ..Event::new(kind, 1, time, 0, tid) };
        writer.event(event).unwrap();
    };
    for (tid, name) in [(7, "server"), (8, "hog")] {
        event(0, Kind::Thread, 0, name, tid);
    }
    event(0, Kind::Switch, 0, "", 7);
    let mut time = 10;
    for (running, ready) in times {
        event(time, Kind::Other, 7, "a", 0);
        time += running;
        if *ready > 0 {
            event(time, Kind::Switch, 7, "", 8);
            time += ready;
            event(time, Kind::Switch, 8, "", 7);
        }
        event(time, Kind::Other, 7, "b", 0);
        time += 10;
    }
    writer.finish().unwrap();
    dir
}

fn spec() -> Spec {
    "between:a..b".parse().unwrap()
}

fn open(dir: &TempDir) -> Trace {
    Trace::open(dir.path()).unwrap()
}

/// Parts, causes and who is behind these sum to the means, and their differences to the difference.
fn adds_up(of: &Contrast) {
    let [a, b] = of.sides.each_ref().map(|side| side.mean_ns);
    for at in [0, 1] {
        assert_eq!(of.parts.iter().map(|part| part.ns[at]).sum::<u64>(), [a, b][at]);
        assert_eq!(of.causes.iter().map(|cause| cause.ns[at]).sum::<u64>(), [a, b][at]);
    }
    assert_eq!(of.difference_ns, b.cast_signed() - a.cast_signed());
    assert_eq!(of.parts.iter().map(|part| part.difference_ns).sum::<i64>(), of.difference_ns);
    assert_eq!(of.causes.iter().map(|cause| cause.difference_ns).sum::<i64>(), of.difference_ns);
}

#[test]
fn the_slow_ones_of_a_run_were_kept_by_what_the_typical_ones_were_not() {
    // Of 100, nine are kept for much longer, and one for longest.
    let times: Vec<_> =
        (0..100).map(|n| (1_000 + n % 7, if n % 11 == 5 { 5_000 + n } else { n % 3 })).collect();
    let dir = run(&times);
    let found = Contrast::of_slow(&open(&dir), &spec()).unwrap();
    adds_up(&found);
    let [typical, slow] = &found.sides;
    assert_eq!((typical.share, typical.chosen, typical.transactions), (Share::MiddleHalf, 50, 100));
    assert_eq!((slow.share, slow.chosen, slow.p99_ns), (Share::SlowestTenth, 10, typical.p99_ns));
    assert!(found.differs && found.difference_ns > 4_000, "{found:?}");
    let cause = &found.causes[0];
    let threads = |name: &str| ObjectGroup::Threads { name: name.into(), guest: None };
    let vm1 = || DomainRef::One("vm1".into());
    let (kind, whom) = (DelayKind::CpuWait, Some(threads("server")));
    assert_eq!(cause.delay, Delay { kind, domain: vm1(), whom, awaited: None });
    assert!(cause.differs && cause.difference_ns * 10 > found.difference_ns * 9, "{cause:?}");
    assert_eq!(cause.by[0].who, Offender::Objects(threads("hog")));
    assert_eq!(cause.by[0].difference_ns, cause.difference_ns);
    let running = &found.causes[1];
    let delay = Delay { kind: DelayKind::Running, domain: vm1(), whom: None, awaited: None };
    assert!(running.delay == delay && !running.differs, "{running:?}");
    // The example is one of them: transactions are numbered in the order of their ends.
    assert_eq!((slow.example - 1) % 11, 5);
}

#[test]
fn two_runs_differ_by_their_typical_transactions_and_not_by_a_few_outliers() {
    let before: Vec<_> = (0..40).map(|n| (1_000 + n, 0)).collect();
    let mut after: Vec<_> = (0..40).map(|n| (1_000 + n, 300)).collect();
    after[3] = (1_000, 1_000_000_000);
    let [a, b] = [run(&before), run(&after)];
    let (a, b) = (open(&a), open(&b));
    let found = Contrast::of_runs([&a, &b], &spec()).unwrap();
    adds_up(&found);
    assert!(found.differs && (290..310).contains(&found.difference_ns), "{}", found.difference_ns);
    let backward = Contrast::of_runs([&b, &a], &spec()).unwrap();
    assert_eq!(backward.difference_ns, -found.difference_ns);
    let same = Contrast::of_runs([&a, &a], &spec()).unwrap();
    assert!(!same.differs && same.difference_ns == 0 && same.error_ns > 0);
}

#[test]
fn what_only_one_of_two_runs_recorded_is_told() {
    let times: Vec<_> = (0..40).map(|n| (1_000 + n, 0)).collect();
    let [a, b] = [recorded(&times, &["sched", "block"]), recorded(&times, &["sched"])];
    let found = Contrast::of_runs([&open(&a), &open(&b)], &spec()).unwrap();
    let [left] = &*found.left_out else { panic!("{:?}", found.left_out) };
    assert_eq!(
        (left.events, left.missing_in, left.domains.as_slice()),
        ("block", 1, &["vm1".to_owned()][..])
    );
    assert_eq!(Contrast::of_runs([&open(&a), &open(&a)], &spec()).unwrap().left_out, []);
    // What the recorder does not name is known by the events that there are.
    let found = Contrast::of_runs([&open(&b), &open(&run(&times))], &spec()).unwrap();
    assert_eq!(found.left_out, []);
}

#[test]
fn too_few_are_not_compared() {
    let dir = run(&[(1_000, 0); 39]);
    let few = Contrast::of_slow(&open(&dir), &spec()).unwrap_err();
    assert_eq!((few.run, few.found, few.least), (0, 39, 40));
    let enough = run(&[(1_000, 0); 40]);
    assert!(Contrast::of_slow(&open(&enough), &spec()).is_ok());
    let none = run(&[]);
    let few = Contrast::of_runs([&open(&enough), &open(&none)], &spec()).unwrap_err();
    assert_eq!((few.run, few.found, few.outcome.passed), (1, 0, Some(vec![0, 0])));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_they_took_the_parts_of_the_difference_sum_to_it(
        times in prop::collection::vec((1..10_000_000_i64, 0..10_000_000_i64), 40..150),
        others in prop::collection::vec((1..10_000_i64, 0..10_i64), 18..50),
    ) {
        let [a, b] = [run(&times), run(&others)];
        adds_up(&Contrast::of_slow(&open(&a), &spec()).unwrap());
        adds_up(&Contrast::of_runs([&open(&a), &open(&b)], &spec()).unwrap());
    }
}
