//! What people see of transactions.

use crate::snapshot::{assert_looks, views};
use xweave_model::{Spec, explain, parts::Totals};
use xweave_report::{View, document::explain::build_summary, losses, mermaid, steps, transactions};
use xweave_trace::{
    Domain, EventLoss, Manifest, Trace, Writer,
    event::{Event, Kind, State},
};

const VIEW: View = View { width: 160, color: false };
const NARROW: View = View { width: 80, color: false };

/// A thread asks another, which another one keeps from its processor, and waits for it.
fn asked() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "vm1".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let mut event = |time_us: i64, kind, cpu, tid, name: &str, with: fn(&mut Event)| {
        let name = writer.name(name);
        let mut event = Event { name, ..Event::new(kind, 1, time_us * 1000, cpu, tid) };
        with(&mut event);
        writer.event(event).unwrap();
    };
    event(0, Kind::Thread, 0, 0, "client", |event| (event.other, event.object) = (7, 7));
    event(0, Kind::Thread, 0, 0, "server", |event| (event.other, event.object) = (8, 8));
    event(0, Kind::Thread, 0, 0, "hog", |event| (event.other, event.object) = (9, 9));
    event(1, Kind::Switch, 0, 0, "", |event| event.other = 7);
    event(1, Kind::Switch, 1, 0, "", |event| event.other = 9);
    event(10, Kind::Other, 0, 7, "ask", |_| ());
    event(12, Kind::Wake, 0, 7, "", |event| event.other = 8);
    event(14, Kind::Switch, 0, 7, "", |event| event.code = State::Sleeping.code());
    event(1012, Kind::Switch, 1, 9, "", |event| event.other = 8);
    event(1212, Kind::Wake, 1, 8, "", |event| event.other = 7);
    event(1215, Kind::Switch, 0, 0, "", |event| event.other = 7);
    event(1220, Kind::Other, 0, 7, "answered", |_| ());
    writer.finish().unwrap();
    dir
}

/// What an event of [`of_vm1`] is: when, in microseconds, its kind, thread and name, what else it is about, and its code.
type Told<'a> = &'a mut dyn FnMut(i64, Kind, u32, &str, u32, i32);

/// A trace of one domain with these events, all on one CPU.
fn of_vm1(tell: impl FnOnce(Told<'_>)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "vm1".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    tell(&mut |time_us, kind, tid, name, other, code| {
        let (name, object) = (writer.name(name), u64::from(other));
        let event = Event { name, other, object, code, ..Event::new(kind, 1, time_us * 1000, 0, tid) };
        writer.event(event).unwrap();
    });
    writer.finish().unwrap();
    dir
}

/// A thread that two others keep from its processor, in turns of 100 µs, and that an interrupt interrupts for moments.
fn preempted() -> tempfile::TempDir {
    of_vm1(|event| {
        for (tid, name) in [(7, "server"), (8, "cc1"), (9, "ld")] {
            event(0, Kind::Thread, 0, name, tid, 0);
        }
        event(1, Kind::Switch, 0, "", 7, 0);
        event(10, Kind::Other, 7, "a", 0, 0);
        let runnable = State::Runnable.code();
        event(500, Kind::Switch, 7, "", 8, runnable);
        event(600, Kind::Switch, 8, "", 9, runnable);
        event(750, Kind::Switch, 9, "", 8, runnable);
        event(850, Kind::Switch, 8, "", 7, runnable);
        for time in [900, 903] {
            event(time, Kind::IrqEnter, 7, "", 33, 0);
            event(time + 1, Kind::IrqExit, 7, "", 33, 0);
        }
        event(905, Kind::Switch, 7, "", 8, runnable);
        event(907, Kind::Switch, 8, "", 7, runnable);
        event(2000, Kind::Other, 7, "b", 0, 0);
    })
}

#[test]
fn tables_say_who_took_the_time() {
    let dir = asked();
    let trace = Trace::open(dir.path()).unwrap();
    let spec: Spec = "between:ask..answered".parse().unwrap();
    let (mut totals, mut found) = (Totals::default(), Vec::new());
    let outcome = explain(&trace, &spec, &mut |transaction, objects| {
        totals.add(&transaction, objects);
        found.push(transaction);
    });
    let of = "between:ask..answered";
    assert_eq!(
        transactions::totals(&totals, of, VIEW),
        "\
1 transaction (between:ask..answered), 1.21 ms in all: p50 1.21 ms, p99 1.21 ms, max 1.21 ms

Share      Time      In  Cause
 82 %  998.0 µs  1 of 1  server waited for a CPU of vm1
                           by hog 82 %
 17 %  209.0 µs  1 of 1  running in vm1
                           by server 17 %
1 other cause: 3.0 µs (0 %)
"
    );
    assert_eq!(
        transactions::totals(&totals, of, NARROW).lines().take(2).collect::<Vec<_>>(),
        ["1 transaction (between:ask..answered), 1.21 ms in all: p50 1.21 ms,", "p99 1.21 ms, max 1.21 ms"]
    );
    let all = transactions::breakdown(&totals, VIEW);
    assert!(all.starts_with("Domain  Object  State        Time   Share  In  Why\n"), "{all}");
    assert!(all.contains("\nvm1     server  ready    998.0 µs  82.5 %   1  hog had the CPU\n"), "{all}");
    let text = transactions::table(&found, &outcome.objects, VIEW);
    assert!(text.contains("998.0 µs ready: server/8, vm1; hog/9 had the CPU"), "{text}");
}

#[test]
fn steps_that_go_on_alike_or_are_short_are_one_row_until_all_are_asked_for() {
    let dir = preempted();
    let trace = Trace::open(dir.path()).unwrap();
    let mut found = Vec::new();
    let outcome =
        explain(&trace, &"between:a..b".parse().unwrap(), &mut |transaction, _| found.push(transaction));
    assert_eq!(
        steps::table(&found[0], &outcome.objects, false, VIEW),
        "\
1 a .. b: 1.99 ms
Time (µs)  Duration (µs)  Domain  Object                         State           Why
      0.0          490.0  vm1     server/7                       running
    490.0          350.0  vm1     server/7                       ready           cc1, ld had the CPU
    840.0           50.0  vm1     server/7                       running
    890.0            7.0  vm1     server/7, interrupts of CPU 0  running, ready  5 steps of up to 2.0 µs
    897.0        1 093.0  vm1     server/7                       running
11 steps in 5 rows: --all lists each
"
    );
    assert_eq!(
        steps::table(&found[0], &outcome.objects, false, NARROW),
        "\
1 a .. b: 1.99 ms
Time (µs)  Duration (µs)  Domain  Object         State     Why
      0.0          490.0  vm1     server/7       running
    490.0          350.0  vm1     server/7       ready     cc1, ld had the CPU
    840.0           50.0  vm1     server/7       running
    890.0            7.0  vm1     server/7,      running,  5 steps of up to
                                  interrupts of  ready     2.0 µs
                                  CPU 0
    897.0        1 093.0  vm1     server/7       running
11 steps in 5 rows: --all lists each
"
    );
    let all = steps::table(&found[0], &outcome.objects, true, VIEW);
    assert_eq!(all.lines().count(), 2 + found[0].steps.len(), "{all}");
}

#[test]
fn what_was_lost_is_said_with_its_times() {
    let dir = asked();
    let trace = Trace::open(dir.path()).unwrap();
    let outcome = explain(&trace, &"process".parse::<Spec>().unwrap(), &mut |_, _| ());
    assert_eq!(losses::text(&outcome, trace.manifest(), false, VIEW), "");

    let dir = tempfile::tempdir().unwrap();
    let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
    let domains = vec![domain("host", 1), domain("vm1", 2), domain("vm2", 3)];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let mut lose = |domain, time_ms: i64, cpu, ms: u64, events| {
        let told = Event::new(Kind::Lost, domain, time_ms * 1_000_000, cpu, 0);
        writer.event(Event { position: ms * 1_000_000 - 1, bytes: events, ..told }).unwrap();
    };
    lose(1, 100, 3, 20, 1200);
    lose(1, 300, 3, 10, 34);
    (0..10).for_each(|cpu| lose(2, 500, cpu, 1, 5));
    let loss = |domain: &str, dropped| EventLoss { domain: domain.into(), dropped, ..EventLoss::default() };
    let losses = vec![loss("host", 1240), loss("vm1", 50), loss("vm2", 1)];
    writer.manifest_mut().loss.events = losses;
    writer.manifest_mut().loss.unwritten = 2;
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let outcome = explain(&trace, &"process".parse::<Spec>().unwrap(), &mut |_, _| ());
    let text = losses::text(&outcome, trace.manifest(), true, VIEW);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        "! host: 1 240 events were lost (CPU 3: 1 234 in 2 gaps of 30.00 ms together, between 0.080000 s and \
         0.300000 s; 6 at unknown times): what the former may have told of is unknown, and anything may lack the latter"
    );
    assert!(lines[1].starts_with("! vm1: 50 events were lost (CPU 0: 5 in 1 gap of 1.00 ms"), "{text}");
    assert!(lines[1].ends_with("; 10 on 2 other CPUs): what they may have told of is unknown"), "{text}");
    assert_eq!(lines[2], "! vm2: 1 event was lost (1 at unknown times): anything may lack them");
    assert!(lines[3].starts_with("! 2 records and events arrived"), "{text}");
    let first = losses::text(&outcome, trace.manifest(), false, VIEW);
    assert_eq!(first.lines().collect::<Vec<_>>(), [&lines[..3], &["! and 1 more remark: --all"]].concat());
    let summary = serde_json::to_value(build_summary(&outcome, &Totals::default())).unwrap();
    assert_eq!((&summary["lost"], &summary["losses"][0]["untimed"]), (&1291.into(), &6.into()));
    assert_eq!(summary["losses"][0]["cpus"][0]["ns"], 30_000_000);
}

#[test]
fn a_sequence_diagram_has_the_basic_events() {
    let dir = asked();
    let trace = Trace::open(dir.path()).unwrap();
    let mut text = String::new();
    explain(&trace, &"between:ask..answered".parse::<Spec>().unwrap(), &mut |transaction, objects| {
        text = mermaid::diagram(&transaction, objects);
    });
    assert_eq!(
        text,
        "sequenceDiagram
    participant o0 as vm1: client/7
    participant o1 as vm1: server/8
    Note over o0: ask .. answered, 0 µs
    o0->>+o1: Request 4.0 µs
    Note over o1: Accept 1 002.0 µs
    o1-->>-o0: Finish 1 202.0 µs
    Note over o0: Resume 1 205.0 µs
    Note over o1: until 1 002.0 µs: hog/9 had the CPU
    Note over o0: end, 1 210.0 µs
"
    );
}

/// A thread that five others keep from its processor, one after the other.
fn crowded() -> tempfile::TempDir {
    of_vm1(|event| {
        let names = [
            "server",
            "postgres",
            "qemu-system-x86",
            "containerd-shim",
            "prometheus-node",
            "unattended-upgr",
        ];
        for (tid, name) in (7..).zip(names) {
            event(0, Kind::Thread, 0, name, tid, 0);
        }
        event(1, Kind::Switch, 0, "", 7, 0);
        event(10, Kind::Other, 7, "a", 0, 0);
        let runnable = State::Runnable.code();
        for (at, tid) in (0..).zip(7..12) {
            event(500 + at * 300, Kind::Switch, tid, "", tid + 1, runnable);
        }
        event(2_000, Kind::Switch, 12, "", 7, runnable);
        event(2_100, Kind::Other, 7, "b", 0, 0);
    })
}

#[test]
fn who_is_behind_a_cause_is_moved_in_on_every_line() {
    let dir = crowded();
    let trace = Trace::open(dir.path()).unwrap();
    let mut totals = Totals::default();
    explain(&trace, &"between:a..b".parse().unwrap(), &mut |transaction, objects| {
        totals.add(&transaction, objects);
    });
    for view in views() {
        assert_looks(&transactions::totals(&totals, "between:a..b", view), "causes", view);
    }
}

/// A thread that takes turns with another one, for a moment that is longer each time.
fn in_turns(turns: u32) -> tempfile::TempDir {
    of_vm1(|event| {
        event(0, Kind::Thread, 0, "server", 7, 0);
        event(0, Kind::Thread, 0, "hog", 8, 0);
        event(1, Kind::Switch, 0, "", 7, 0);
        event(10, Kind::Other, 7, "a", 0, 0);
        let mut time = 10;
        for turn in 0..turns {
            time += 100 + i64::from(turn * 37 % 101);
            event(time, Kind::Switch, 7, "", 8, State::Runnable.code());
            time += 50 + i64::from(turn * 61 % 97);
            event(time, Kind::Switch, 8, "", 7, State::Runnable.code());
        }
        event(time + 500, Kind::Other, 7, "b", 0, 0);
    })
}

#[test]
fn a_long_transaction_fits_a_screen_and_all_of_it_is_listed_if_asked_for() {
    let dir = in_turns(100);
    let trace = Trace::open(dir.path()).unwrap();
    let mut found = Vec::new();
    let outcome =
        explain(&trace, &"between:a..b".parse().unwrap(), &mut |transaction, _| found.push(transaction));
    let [one] = &*found else { panic!("{found:?}") };
    for view in views() {
        let text = steps::table(one, &outcome.objects, false, view);
        assert!((10..60).contains(&text.lines().count()), "{text}");
        assert!(text.contains("201 steps in ") && text.ends_with(" rows: --all lists each\n"), "{text}");
        // Without a gap: the first row begins with it, and durations sum up to all of it.
        assert_eq!(steps::table(one, &outcome.objects, true, view).lines().count(), 2 + one.steps.len());
    }
}

/// Waits of several threads for CPUs are one thing to see to, though each is less than what ran.
#[test]
fn waits_of_several_threads_are_one_line_before_each_of_them() {
    let dir = of_vm1(|event| {
        for (tid, name) in [(7, "server"), (8, "cc1"), (9, "worker")] {
            event(0, Kind::Thread, 0, name, tid, 0);
        }
        let (runnable, sleeping) = (State::Runnable.code(), State::Sleeping.code());
        event(1, Kind::Switch, 0, "", 7, 0);
        event(10, Kind::Other, 7, "ask", 0, 0);
        // It waits for a CPU, runs, and waits for another one, which waits for a CPU.
        event(20, Kind::Switch, 7, "", 8, runnable);
        event(320, Kind::Switch, 8, "", 7, runnable);
        event(720, Kind::Wake, 7, "", 9, 0);
        event(730, Kind::Switch, 7, "", 8, sleeping);
        event(1_030, Kind::Switch, 8, "", 9, runnable);
        event(1_060, Kind::Wake, 9, "", 7, 0);
        event(1_070, Kind::Switch, 9, "", 7, sleeping);
        event(1_110, Kind::Other, 7, "answered", 0, 0);
    });
    let trace = Trace::open(dir.path()).unwrap();
    let spec: Spec = "between:ask..answered".parse().unwrap();
    let mut totals = Totals::default();
    explain(&trace, &spec, &mut |transaction, objects| totals.add(&transaction, objects));
    let text = transactions::totals(&totals, "requests", VIEW);
    let lines: Vec<&str> = text.lines().skip(3).map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            " 55 %  610.0 µs  1 of 1  waiting for a CPU",
            "                           by cc1 55 %",
            " 28 %  310.0 µs  1 of 1    server waited for a CPU of vm1",
            "                             by cc1 27 %",
            " 27 %  300.0 µs  1 of 1    worker waited for a CPU of vm1",
            "                             by cc1 27 %",
            " 45 %  490.0 µs  1 of 1  running in vm1",
            "                           by server 42 %, worker 3 %"
        ]
    );
}
