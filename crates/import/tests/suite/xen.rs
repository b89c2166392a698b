//! A file of `xentrace` that was recorded for real (tests/data/README.md), files written by hand, and what becomes of them.

use std::collections::BTreeMap;

use crate::common::damage::damaged;
use crate::common::xentrace::*;
use crate::common::{Scratch, unpacked};
use proptest::{prelude::*, sample::Index};
use xweave_import::{ErrorKind, Options, Outcome};
use xweave_model::{
    ExitReason, ObjectGroup, Spec, Step, TimeState, Usage, UsageObject, explain,
    usage::{Figures, Key},
};
use xweave_trace::{
    Event, Method, Trace,
    event::{Context, Kind, State},
};

/// Threads of the domain `xen`: the first vCPUs of these domains.
const D1: u32 = 0x0001_0001;
const D2: u32 = 0x0002_0001;

/// With a TSC whose ticks are nanoseconds.
fn import(scratch: &Scratch, windows: &[(u32, Window)]) -> (Outcome, Trace) {
    import_bytes(scratch, &file(windows))
}

fn import_bytes(scratch: &Scratch, content: &[u8]) -> (Outcome, Trace) {
    let options = Options { force: true, cpu_hz: Some(1_000_000_000), ..Options::default() };
    let path = scratch.write("by-hand.xt", content);
    let outcome = xweave_import::import(&[path], &scratch.dir(), &options).unwrap();
    (outcome, Trace::open(&scratch.dir()).unwrap())
}

fn events(trace: &Trace) -> Vec<Event> {
    let all: Vec<Event> = trace.events().collect();
    assert!(all.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    all
}

fn figures(usage: &Usage, object: UsageObject) -> Figures {
    let key = Key { domain: "xen".to_owned(), object };
    usage.objects.get(&key).copied().unwrap_or_default()
}

fn vcpus(guest: &str) -> ObjectGroup {
    ObjectGroup::Vcpus { guest: guest.to_owned() }
}

fn of_vcpus(usage: &Usage, guest: &str) -> Figures {
    figures(usage, UsageObject::Process(vcpus(guest)))
}

/// What a vCPU's thread did before it was known to be one.
fn of_thread(usage: &Usage, guest: &str) -> Figures {
    let threads = ObjectGroup::Threads { name: format!("{guest}v0"), guest: Some(guest.to_owned()) };
    figures(usage, UsageObject::Process(threads))
}

fn of_vcpu(usage: &Usage, guest: &str, number: u64) -> Figures {
    figures(usage, UsageObject::Vcpu { number, of: vcpus(guest) })
}

/// What vCPUs were in Xen for: how long and how often.
fn exits(usage: &Usage, guest: &str) -> BTreeMap<String, (u64, u64)> {
    let of = usage.objects.iter().filter_map(|(key, figures)| match &key.object {
        UsageObject::Exits { reason, of } if *of == vcpus(guest) => {
            Some((reason.to_string(), (figures.time_ns, figures.count)))
        }
        _ => None,
    });
    of.collect()
}

#[test]
fn two_busy_guests_and_dom0() {
    let scratch = Scratch::new();
    let (outcome, trace) = scratch.import(&[scratch.file("busy.xt")]);
    assert_eq!((&outcome.damage, &outcome.warnings, outcome.lost), (&vec![], &vec![], 0));
    let domain = &trace.manifest().domains[0];
    assert_eq!((domain.name.as_str(), domain.cpus), ("xen", 2));
    let guests: Vec<_> = domain.vms.iter().map(|vm| (vm.pid, vm.name.as_str())).collect();
    assert_eq!(guests, [(1, "d0"), (D1, "d1"), (D2, "d2")]);
    // Xen itself: `Detected 2596.097 MHz processor`.
    assert!(domain.tsc_hz.abs_diff(2_596_097_000) < 2_596_097_000 / 10_000, "{}", domain.tsc_hz);

    // As `xenalyze -s` counts hypercalls of the guests, and what dom0 was woken; it does not know whose the first two
    // records of each CPU are.
    let mut counts: BTreeMap<(u32, String), usize> = BTreeMap::new();
    let all = events(&trace);
    for event in all.iter().filter(|event| event.kind == Kind::VmExit) {
        *counts.entry((event.tid, ExitReason::of(event.code).to_string())).or_default() += 1;
    }
    let count = |tid, name: &str| counts.get(&(tid, name.to_owned())).copied().unwrap_or(0);
    let calls = ["stack_switch", "xen_version", "iret", "set_segment_base", "evtchn_op", "emulate_privop"];
    assert_eq!(calls.map(|name| count(D1, name)), [13, 1, 85, 13, 17, 13]);
    assert_eq!(calls.map(|name| count(D2, name)), [17, 2, 85, 17, 15, 17]);
    assert_eq!(count(D1, "vcpu_op set_singleshot_timer"), 83);
    assert_eq!(count(1, "sched_op block"), 44);
    assert_eq!(all.iter().filter(|event| event.kind == Kind::Wake && event.other == 1).count(), 43);

    // How long they had a CPU, waited for one, and were blocked, in xenalyze's ticks of that rate.
    let usage = Usage::of(&trace);
    let ns = |ticks: u64| ticks * 1_000_000 / 2_596_097;
    for (guest, running, runnable, blocked) in [
        ("d0", 88 * 13_452_913, 70 * 8_591_003, 42 * 14_584_181),
        ("d1", 89 * 20_309_999, 59 * 10_231_925, 0),
        ("d2", 83 * 21_210_841, 54 * 11_759_580, 0),
    ] {
        let had = of_vcpus(&usage, guest);
        let vcpu = of_vcpu(&usage, guest, 0);
        for (ours, theirs) in
            [(had.time_ns, ns(running)), (had.wait_ns, ns(runnable)), (vcpu.wait_ns, ns(blocked))]
        {
            assert!(ours.abs_diff(theirs) <= theirs / 25, "{guest}: {ours} and {theirs}");
        }
        let waits = usage.waited.iter().filter(|waited| waited.who == vcpus(guest));
        let by: u64 = waits.map(|waited| waited.ns).sum();
        assert!(by <= had.wait_ns && by > had.wait_ns * 9 / 10, "{guest}: {by} of {}", had.wait_ns);
    }
}

/// Whatever a vCPU had a CPU for is in its guest or in Xen, to the nanosecond.
#[test]
fn what_a_vcpu_ran_is_in_its_guest_and_in_xen() {
    let scratch = Scratch::new();
    let (_, trace) = scratch.import(&[scratch.file("busy.xt")]);
    let usage = Usage::of(&trace);
    let all = events(&trace);
    for (guest, tid) in [("d0", 1), ("d1", D1), ("d2", D2)] {
        // Before it is first in its guest, nothing says why it is not. Who leaves a CPU first has had it all the time.
        let entered =
            all.iter().find(|event| event.kind == Kind::VmEnter && event.tid == tid).unwrap().time_ns;
        let switched = all.iter().find(|event| event.kind == Kind::Switch && event.other == tid);
        let switched = switched.map(|switched| switched.time_ns).filter(|switched| *switched <= entered);
        let begin = all.iter().find(|event| event.kind != Kind::Thread).unwrap().time_ns;
        let before = entered - switched.unwrap_or(begin);
        let ran = of_vcpus(&usage, guest).time_ns + of_thread(&usage, guest).time_ns;
        let inside = of_vcpu(&usage, guest, 0).time_ns;
        let out: u64 = exits(&usage, guest).values().map(|(ns, _)| ns).sum();
        // Where it was when the recording ended is told by what never came.
        let last =
            all.iter().rfind(|e| [Kind::VmEnter, Kind::VmExit].contains(&e.kind) && e.tid == tid).unwrap();
        let (mut since, mut after) = (Some(last.time_ns), 0);
        for switch in all.iter().filter(|e| e.kind == Kind::Switch && e.time_ns > last.time_ns) {
            if switch.tid == tid {
                after += since.take().map_or(0, |since| switch.time_ns - since);
            } else if switch.other == tid {
                since = Some(switch.time_ns);
            }
        }
        after += since.map_or(0, |since| all.last().unwrap().time_ns - since);
        assert_eq!(ran, inside + out + (before + after).unsigned_abs(), "{guest}");
        assert!(before + after < 10_000_000, "{guest}: {before} and {after}");
    }
}

/// A PVH guest that boots: it reads a port of the PIT, again and again, and Xen loses some of the records.
#[test]
fn a_pvh_guest_that_boots() {
    let scratch = Scratch::new();
    let options = Options { force: true, cpu_hz: Some(2_596_097_000), ..Options::default() };
    let outcome = xweave_import::import(&[scratch.file("hvm.xt")], &scratch.dir(), &options).unwrap();
    assert_eq!((&outcome.damage, outcome.lost, outcome.domains[0].gaps), (&vec![], 89, 1));
    let trace = Trace::open(&scratch.dir()).unwrap();
    let all = events(&trace);
    // As many as there are records VMENTRY, and VMEXIT with SVM's VMEXIT_IOIO and VMEXIT_INTR.
    const D5: u32 = 0x0005_0001;
    let of = |kind, code| all.iter().filter(move |e| (e.kind, e.tid, e.code) == (kind, D5, code)).count();
    assert_eq!([of(Kind::VmEnter, 0), of(Kind::VmExit, 0x7b), of(Kind::VmExit, 0x60)], [3_391, 3_392, 2]);
    // From the ones to the others, but where records were lost.
    let (ns, count) = exits(&Usage::of(&trace), "d5")["io"];
    assert_eq!(count, 3_392);
    assert!(ns.abs_diff(41_447_094 * 1_000_000 / 2_596_097) <= count, "{ns}");
    let loss = all.iter().find(|event| event.kind == Kind::Lost).unwrap();
    assert_eq!((loss.tid, loss.bytes), (D5, 89));
}

/// What dom0's kernel and Xen recorded at a time, by the same TSC: nothing happens in dom0 while Xen says that its vCPU is
/// not there.
#[test]
fn dom0_is_on_the_time_line_of_xen() {
    let scratch = Scratch::new();
    let files = ["dom0.dat", "dom0.xt"].map(|name| scratch.file(name));
    let options = Options { force: true, domids: vec![(files[0].clone(), 0)], ..Options::default() };
    let outcome = xweave_import::import(&files, &scratch.dir(), &options).unwrap();
    assert_eq!((&outcome.damage, &outcome.warnings), (&vec![], &vec![]));
    let trace = Trace::open(&scratch.dir()).unwrap();
    let manifest = trace.manifest();
    let [dom0, xen] = &manifest.domains[..] else { panic!("{:?}", manifest.domains) };
    assert_eq!((dom0.name.as_str(), xen.name.as_str(), manifest.reference.as_str()), ("dom0", "xen", "xen"));
    let vm = dom0.vm.as_ref().unwrap();
    assert_eq!((vm.host.as_str(), vm.pid), ("xen", 1));
    let clocks: Vec<_> = manifest.clocks.iter().map(|clock| (clock.method, clock.error_ns)).collect();
    assert_eq!(clocks, [(Method::CommonTsc, 1), (Method::Reference, 0)]);

    // When its vCPU was there, and as long as it is told.
    let all: Vec<Event> = trace.events().collect();
    let of_xen = |event: &&Event| event.domain == xen.number && event.tid == 1;
    let told = all.iter().filter(of_xen).filter(|e| [Kind::VmEnter, Kind::VmExit].contains(&e.kind));
    let told: Vec<_> = told.map(|event| (event.time_ns, event.kind)).collect();
    let last = told.last().unwrap().0;
    let mut inside = 0;
    let events = all.iter().filter(|event| event.domain == dom0.number && event.kind != Kind::Thread);
    for event in events.filter(|event| (told[0].0..last).contains(&event.time_ns)) {
        let before = told.partition_point(|(time, _)| *time < event.time_ns);
        assert_eq!(told[before - 1].1, Kind::VmEnter, "{event:?}");
        inside += 1;
    }
    assert!(inside > 150, "{inside}");
    // So `explain` knows of what dom0 did that others had its CPU.
    let spec = "between:wake..switch@dom0".parse::<Spec>().unwrap();
    let (mut preempted, mut count) = (0, 0);
    let outcome = explain(&trace, &spec, &mut |found, _| {
        let ns = |step: &Step| step.to - step.from;
        assert_eq!(found.steps.iter().map(ns).sum::<i64>(), found.total_ns);
        preempted +=
            found.steps.iter().filter(|step| step.spent == TimeState::Preempted).map(ns).sum::<i64>();
        count += 1;
    });
    assert_eq!((outcome.outside.len(), outcome.lost.len()), (0, 0));
    assert!(count > 20 && preempted > 1_000_000, "{preempted} ns in {count}");
}

/// Two vCPUs and one CPU: d1 wakes d2 and is preempted by it; d2 blocks; an interrupt wakes it.
fn story() -> Window {
    let [d1, d2] = [vcpu(1, 0), vcpu(2, 0)];
    Window::default()
        .at(1_000, CONTINUE_RUNNING, &[d1])
        .at(1_500, HYPERCALL, &[32])
        .at(1_700, WAKE, &[2, 0])
        .at(1_710, runstate(BLOCKED, RUNNABLE), &[d2])
        .at(1_730, CSCHED2_RUNQ_POS, &[d2, 0])
        .at(5_000, HYPERCALL, &[23])
        .at(9_000, CSCHED2_SCHEDULE, &[0, 0])
        .at(9_100, SWITCH_INFPREV, &[1, 0, 8_000])
        .at(9_130, runstate(RUNNING, RUNNABLE), &[d1])
        .at(9_150, runstate(RUNNABLE, RUNNING), &[d2])
        .at(9_200, CSCHED2_RUNQ_POS, &[d1, 0])
        .at(12_000, HYPERCALL, &[1 << 20 | 29, 1])
        .at(12_010, BLOCK, &[2, 0])
        .at(12_020, CSCHED2_SCHEDULE, &[0, 0])
        .at(12_030, runstate(RUNNING, BLOCKED), &[d2])
        .at(12_040, runstate(RUNNABLE, RUNNING), &[d1])
        .at(14_950, WAKE, &[2, 0])
        .at(14_960, runstate(BLOCKED, RUNNABLE), &[d2])
        .at(15_000, IRQ_HANDLED, &[16, 14_900, 14_990])
        .at(20_000, CSCHED2_SCHEDULE, &[0, 0])
        .at(20_010, runstate(RUNNING, RUNNABLE), &[d1])
        .at(20_020, runstate(RUNNABLE, RUNNING), &[d2])
        .at(21_000, HYPERCALL, &[23])
}

#[test]
fn who_had_the_cpu_who_waited_and_who_was_halted() {
    let scratch = Scratch::new();
    let (outcome, trace) = import(&scratch, &[(0, story())]);
    assert_eq!((&outcome.damage, &outcome.warnings), (&vec![], &vec![]));
    let all = events(&trace);
    let of = |kind| all.iter().filter(move |event| event.kind == kind);
    let switches: Vec<_> = of(Kind::Switch).map(|e| (e.time_ns, e.tid, e.other, State::of(e.code))).collect();
    assert_eq!(
        switches,
        [
            (9_150, D1, D2, State::Runnable),
            (12_040, D2, D1, State::Sleeping),
            (20_020, D1, D2, State::Runnable)
        ]
    );
    // The hypercall's wake-up is the vCPU's, that in the handler the interrupt's.
    let wakes: Vec<_> = of(Kind::Wake).map(|e| (e.time_ns, e.tid, e.other, Context::of(e.code))).collect();
    assert_eq!(wakes, [(1_710, D1, D2, Some(Context::Task)), (14_960, D1, D2, Some(Context::Hard))]);
    let irqs: Vec<_> = all.iter().filter(|e| [Kind::IrqEnter, Kind::IrqExit].contains(&e.kind)).collect();
    assert_eq!(irqs.iter().map(|e| (e.time_ns, e.object)).collect::<Vec<_>>(), [(14_900, 16), (15_000, 16)]);

    let usage = Usage::of(&trace);
    let d1 = exits(&usage, "d1");
    assert_eq!(d1["evtchn_op"], (1_730 - 1_500, 1));
    assert_eq!(d1["iret"], (0, 1));
    // Before it was preempted, on which it had the CPU again at once, the handler, and before it was preempted again.
    assert_eq!(d1["interrupt"], (150 + (15_000 - 14_900), 3));
    assert_eq!(exits(&usage, "d2")["sched_op block"], (12_040 - 12_000, 1));
    let vcpu = |guest: &str| of_vcpu(&usage, guest, 0);
    let thread = |guest: &str| of_vcpus(&usage, guest);
    assert_eq!(vcpu("d2").wait_ns, 14_960 - 12_040);
    assert_eq!(thread("d1").wait_ns, 12_040 - 9_150);
    let waited: Vec<_> = usage.waited.iter().map(|w| (w.who.clone(), w.by.clone(), w.ns)).collect();
    assert_eq!(
        waited,
        [
            (vcpus("d1"), vcpus("d2"), 12_040 - 9_150),
            // That it was woken before is the first that was seen of it: since when it had been blocked is not known.
            (vcpus("d2"), vcpus("d1"), 20_020 - 14_960)
        ]
    );
    // All its time.
    let ran = |guest: &str| thread(guest).time_ns + of_thread(&usage, guest).time_ns;
    assert_eq!(ran("d1") + thread("d1").wait_ns, 20_020 - 1_000);
}

#[test]
fn cpus_are_merged_by_their_times() {
    let scratch = Scratch::new();
    let [d1, d2] = [vcpu(1, 0), vcpu(2, 0)];
    // The second window of CPU 0 is before the only one of CPU 7, and later.
    let windows = [
        (0, Window::default().at(1_000, CONTINUE_RUNNING, &[d1]).at(3_000, HYPERCALL, &[1])),
        (0, Window::default().at(5_000, HYPERCALL, &[2])),
        (7, Window::default().at(2_000, CONTINUE_RUNNING, &[d2]).at(4_000, HYPERCALL, &[3])),
    ];
    let (outcome, trace) = import(&scratch, &windows);
    assert_eq!((outcome.warnings, outcome.domains[0].late), (vec![], (0, 0)));
    let calls =
        events(&trace).into_iter().filter(|event| event.kind == Kind::VmExit && event.time_ns >= 3_000);
    let calls: Vec<_> = calls.map(|event| (event.time_ns, event.cpu, event.tid)).collect();
    assert_eq!(calls, [(3_000, 0, D1), (4_000, 7, D2), (5_000, 0, D1)]);
}

#[test]
fn an_hvm_guest_is_left_for_the_hardwares_reasons() {
    let scratch = Scratch::new();
    let d3 = vcpu(3, 1);
    let window = Window::default()
        .at(1_000, CONTINUE_RUNNING, &[d3])
        .at(1_100, VMENTRY, &[])
        .at(2_000, VMEXIT64, &[0x7b, 0, 0])
        .untimed(INJ_VIRQ, &[0xf3, 0])
        .at(2_500, VMENTRY, &[])
        // What the scheduler does tells no more: it has been left.
        .at(4_000, VMEXIT64, &[0x60, 0, 0])
        .at(4_100, CSCHED2_SCHEDULE, &[0, 0])
        .at(4_300, VMENTRY, &[])
        .at(5_000, VMEXIT64, &[0x78, 0, 0]);
    let (_, trace) = import(&scratch, &[(0, window)]);
    let all = events(&trace);
    let inject = all.iter().find(|event| event.kind == Kind::VmInject).unwrap();
    assert_eq!((inject.time_ns, inject.object, inject.position), (2_000, 1, 0xf3));
    let usage = Usage::of(&trace);
    let exits = exits(&usage, "d3");
    assert_eq!((exits["io"], exits["interrupt"], exits["hlt"].1), ((500, 1), (300, 1), 1));
    assert_eq!(of_vcpu(&usage, "d3", 1).time_ns, 900 + 1_500 + 700);
}

#[test]
fn calls_within_a_multicall_are_in_it() {
    let scratch = Scratch::new();
    let window = Window::default()
        .at(1_000, CONTINUE_RUNNING, &[vcpu(0, 0)])
        .at(2_000, HYPERCALL, &[1 << 22 | 13, 2])
        .at(2_100, SUBCALL, &[1 << 20 | 1 << 24 | 20, 0, 1])
        .at(2_300, PAGE_GRANT_MAP, &[1])
        .at(2_400, SUBCALL, &[14])
        .at(9_000, HYPERCALL, &[23]);
    let (outcome, trace) = import(&scratch, &[(0, window)]);
    let others: Vec<_> = outcome.unknown.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(
        others,
        [
            ("page_grant_map", 1),
            ("subcall:grant_table_op map_grant_ref", 1),
            ("subcall:update_va_mapping", 1)
        ]
    );
    assert_eq!(exits(&Usage::of(&trace), "d0")["multicall"], (400, 1));
}

#[test]
fn what_xen_had_no_room_for_has_its_time_and_says_who_runs() {
    let scratch = Scratch::new();
    let window = Window::default()
        .at(1_000, CONTINUE_RUNNING, &[vcpu(1, 0)])
        .at(2_000, HYPERCALL, &[23])
        .at(8_000, LOST_RECORDS, &[77, vcpu(0, 2), 2_500, 0])
        .at(9_000, HYPERCALL, &[23]);
    let (outcome, trace) = import(&scratch, &[(0, window)]);
    assert_eq!((outcome.lost, outcome.domains[0].gaps), (77, 1));
    let all = events(&trace);
    let loss = all.iter().find(|event| event.kind == Kind::Lost).unwrap();
    assert_eq!((loss.time_ns, loss.position, loss.bytes, loss.tid), (8_000, 5_500, 77, D2));
    let after = all.iter().find(|event| event.kind == Kind::VmExit && event.time_ns == 9_000).unwrap();
    assert_eq!(after.tid, D2);
    let manifest = trace.manifest();
    assert_eq!(manifest.loss.events[0].dropped, 77);
}

#[test]
fn idle_cpus_run_nothing() {
    let scratch = Scratch::new();
    let (idle, d1) = (vcpu(IDLE, 3), vcpu(1, 0));
    let window = Window::default()
        .at(1_000, runstate(RUNNING, BLOCKED), &[d1])
        .at(1_010, runstate(RUNNABLE, RUNNING), &[idle])
        .at(5_000, WAKE, &[1, 0])
        .at(5_010, runstate(BLOCKED, RUNNABLE), &[d1])
        .at(5_100, runstate(RUNNING, RUNNABLE), &[idle])
        .at(5_110, runstate(RUNNABLE, RUNNING), &[d1])
        .at(6_000, HYPERCALL, &[23]);
    let (_, trace) = import(&scratch, &[(3, window)]);
    let usage = Usage::of(&trace);
    assert_eq!(usage.busy["xen"][&3], 10 + (6_000 - 5_110));
    let halt = events(&trace).into_iter().find(|event| event.kind == Kind::VmHalt).unwrap();
    assert_eq!((halt.time_ns, halt.bytes, halt.tid), (5_110, 5_010 - 1_010, D1));
}

#[test]
fn without_a_rate_it_says_how_to_learn_it() {
    let scratch = Scratch::new();
    let path = scratch.write("short.xt", &file(&[(0, story())]));
    let error = scratch.try_import(&[path]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    let text = error.to_string();
    assert!(text.contains("short.xt") && text.contains("--cpu-hz") && text.contains("xl dmesg"), "{text}");
    // A rate that the records belie is taken, and told.
    let busy = scratch.file("busy.xt");
    let options = Options { force: true, cpu_hz: Some(2_400_000_000), ..Options::default() };
    let outcome = xweave_import::import(&[busy], &scratch.dir(), &options).unwrap();
    assert!(outcome.warnings.iter().any(|warning| warning.contains("2596.")), "{:?}", outcome.warnings);
    assert_eq!(Trace::open(&scratch.dir()).unwrap().manifest().domains[0].tsc_hz, 2_400_000_000);
    // What is no file of a domain on the same TSC.
    let domids = |name: &str| Options { domids: vec![(name.into(), 0)], ..options.clone() };
    let both = [scratch.file("busy.xt"), scratch.file("plain.data")];
    for (files, name, why) in [
        (&both[..], "none.dat", "no file of that name"),
        (&both[..], both[1].to_str().unwrap(), "trace-cmd record -C x86-tsc"),
        (&both[1..], both[1].to_str().unwrap(), "none of the files is one of xentrace"),
    ] {
        let options = Options { cpu_hz: None, ..domids(name) };
        let error = xweave_import::import(files, &scratch.dir(), &options).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    // Other tools' files say it themselves.
    let error = xweave_import::import(&[scratch.file("plain.data")], &scratch.dir(), &options).unwrap_err();
    assert!(error.to_string().contains("--cpu-hz is for files of xentrace"), "{error}");
}

#[test]
fn what_is_before_the_end_of_a_truncated_file_is_read() {
    let scratch = Scratch::new();
    let whole = unpacked("busy.xt");
    let (complete, _) = scratch.import(&[scratch.write("whole.xt", &whole)]);
    // Within a record of the second window.
    let second = 12 + usize::try_from(u32::from_le_bytes(whole[8..12].try_into().unwrap())).unwrap();
    let cut = second + 12 + 4_001;
    let (outcome, trace) = scratch.import(&[scratch.write("cut.xt", &whole[..cut])]);
    assert!(
        outcome.damage[0].contains(&format!("at byte {cut}: it ends within records of CPU")),
        "{:?}",
        outcome.damage
    );
    let some = 100..complete.events / 2;
    assert!(some.contains(&outcome.events), "{}", outcome.events);
    assert!(events(&trace).iter().any(|event| event.cpu == 1));
    // Something else where records of a CPU begin: those before are read.
    let mut worse = whole.clone();
    worse[second] ^= 1;
    let (outcome, _) = scratch.import(&[scratch.write("worse.xt", &worse)]);
    assert!(outcome.damage[0].contains(&format!("at byte {second}: ")), "{:?}", outcome.damage);
    assert!(some.contains(&outcome.events), "{}", outcome.events);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Any bytes may be wrong: that costs what they describe, and nothing else.
    #[test]
    fn damage_is_told(
        flips in prop::collection::vec((any::<Index>(), any::<u8>()), 1..20),
        cut in any::<Index>(),
    ) {
        let scratch = Scratch::new();
        // By the first four, it is known for what it is.
        let place = |at: &Index, early, length: usize| at.index(if early { 100 } else { length - 4 }) + 4;
        let content = damaged(unpacked("busy.xt"), &flips, cut, 4, place);
        let file = scratch.write("damaged.xt", &content);
        let options = Options { force: true, cpu_hz: Some(2_596_097_000), ..Options::default() };
        xweave_import::import(&[file], &scratch.dir(), &options).unwrap();
        events(&Trace::open(&scratch.dir()).unwrap());
    }
}
