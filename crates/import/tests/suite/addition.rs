//! What Xen recorded, as part of a trace that was recorded meanwhile.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::common::Scratch;
use crate::common::xentrace::*;
use proptest::prelude::*;
use xweave_import::{Error, ErrorKind, Options, Outcome};
use xweave_model::{Spec, Step, TimeState, explain};
use xweave_trace::{
    Clock, Domain, DomainXen, Event, Manifest, Method, Role, Trace, TscLine, Writer,
    event::{Kind, State},
};

/// The TSC counts twice a nanosecond, from this at 0.
const BEGIN: u64 = 1 << 50;

fn tsc(ns: u64) -> u64 {
    BEGIN + 2 * ns
}

fn domain(number: u8, name: &str, role: Role, domid: Option<u16>) -> Domain {
    let xen = domid.map(|domid| DomainXen { host: "dom0".into(), domid, since: None });
    Domain { number, name: name.into(), role, xen, ..Domain::default() }
}

/// A recording of dom0 and a guest, which is domain 3: dom0's idle CPU wakes a thread at 61 µs, which has it at 69 µs.
fn recorded(scratch: &Scratch, line: Option<TscLine>) {
    let clock = |name: &str, method, tsc| Clock { domain: name.into(), method, tsc, ..Clock::default() };
    let manifest = Manifest {
        reference: "dom0".into(),
        domains: vec![
            domain(1, "dom0", Role::Host, None),
            domain(2, "vm1", Role::Guest, Some(3)),
            domain(4, "vm2", Role::Guest, None),
        ],
        clocks: vec![clock("dom0", Method::Reference, line), clock("vm1", Method::CommonTsc, None)],
        ..Manifest::default()
    };
    let mut writer = Writer::replace(&scratch.dir(), manifest).unwrap();
    let name = writer.name_of(1, "nginx");
    let event = |kind, time, tid, other, code| Event { other, code, ..Event::new(kind, 1, time, 0, tid) };
    writer.event(Event { name, ..event(Kind::Thread, 1_000, 77, 0, 0) }).unwrap();
    writer.event(event(Kind::Wake, 61_000, 0, 77, 0)).unwrap();
    writer.event(event(Kind::Switch, 69_000, 0, 77, State::Runnable.code())).unwrap();
    writer.event(event(Kind::Exit, 70_000, 77, 0, 0)).unwrap();
    (writer.manifest_mut().start_ns, writer.manifest_mut().end_ns) = (1_000, 70_000);
    writer.finish().unwrap();
}

fn line() -> TscLine {
    TscLine { error_ns: 40, points: vec![(tsc(0), 0), (tsc(40_000), 40_000), (tsc(90_000), 90_000)] }
}

/// d0 has the CPU, d3 preempts it at 62 µs for 5 µs: while dom0's thread waits for its CPU.
fn story() -> Window {
    let [d0, d3] = [vcpu(0, 0), vcpu(3, 0)];
    Window::default()
        .at(tsc(50_000), CONTINUE_RUNNING, &[d0])
        .at(tsc(50_010), HYPERCALL, &[32])
        .at(tsc(62_000), CSCHED2_SCHEDULE, &[0, 0])
        .at(tsc(62_010), runstate(RUNNING, RUNNABLE), &[d0])
        .at(tsc(62_020), runstate(RUNNABLE, RUNNING), &[d3])
        .at(tsc(67_000), CSCHED2_SCHEDULE, &[0, 0])
        .at(tsc(67_010), runstate(RUNNING, BLOCKED), &[d3])
        .at(tsc(67_020), runstate(RUNNABLE, RUNNING), &[d0])
        .at(tsc(80_000), HYPERCALL, &[32])
}

fn add(scratch: &Scratch, content: &[u8], options: &Options) -> Result<Outcome, Error> {
    add_while(scratch, content, options, &|| true)
}

fn add_while(
    scratch: &Scratch,
    content: &[u8],
    options: &Options,
    goes_on: &dyn Fn() -> bool,
) -> Result<Outcome, Error> {
    let added = xweave_import::add(&scratch.write("xen.xt", content), &scratch.dir(), options, goes_on)?;
    assert_eq!(added.manifest, *Trace::open(&scratch.dir()).unwrap().manifest());
    Ok(added.outcome)
}

/// All files of a trace, but for when they were written.
fn files(scratch: &Scratch) -> BTreeMap<PathBuf, Vec<u8>> {
    let folders = ["", "records", "events"].map(|folder| scratch.dir().join(folder));
    let all = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let files = all.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn what_xen_did_meanwhile_is_part_of_the_trace() {
    let scratch = Scratch::new();
    recorded(&scratch, Some(line()));
    let outcome = add(&scratch, &file(&[(0, story())]), &Options::default()).unwrap();
    assert_eq!((outcome.damage, outcome.warnings), (vec![], vec![]));
    let trace = Trace::open(&scratch.dir()).unwrap();
    let manifest = trace.manifest();
    assert!(manifest.complete);
    let domains: Vec<_> = manifest
        .domains
        .iter()
        .map(|of| (of.number, &*of.name, of.vm.as_ref().map(|vm| (&*vm.host, vm.pid))))
        .collect();
    let (d0, d3) = (1, 0x0003_0001);
    let vms =
        [(1, "dom0", Some(("xen", d0))), (2, "vm1", Some(("xen", d3))), (4, "vm2", None), (3, "xen", None)];
    assert_eq!(domains, vms);
    let clock = manifest.clocks.iter().find(|clock| clock.domain == "xen").unwrap();
    assert_eq!((clock.method, clock.error_ns), (Method::CommonTsc, 41));
    assert_eq!(manifest.events, 4 + outcome.events);
    let all: Vec<Event> = trace.events().collect();
    assert_eq!(all.len() as u64, manifest.events);
    assert!(all.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    let switches = all.iter().filter(|event| (event.domain, event.kind) == (3, Kind::Switch));
    let switches: Vec<_> = switches.map(|event| (event.time_ns, event.tid, event.other)).collect();
    assert_eq!(switches, [(62_020, d0, d3), (67_020, d3, d0)]);

    // So it is known why dom0's thread waited.
    let spec = "between:wake..switch@dom0".parse::<Spec>().unwrap();
    let mut waits = Vec::new();
    explain(&trace, &spec, &mut |found, _| {
        let ns = |state| {
            let steps = found.steps.iter().filter(|step| step.spent == state);
            steps.map(|step: &Step| step.to - step.from).sum::<i64>()
        };
        waits.push((found.total_ns, ns(TimeState::Preempted), ns(TimeState::Exit)));
    });
    // Left at 62 µs for the scheduler, there again at 67.02.
    assert_eq!(waits, [(8_000, 5_000, 20)]);
}

#[test]
fn what_is_of_before_and_after_the_recording_is_left_out_and_counted() {
    let scratch = Scratch::new();
    recorded(&scratch, Some(line()));
    let second = |n: u64| tsc(0) - 2_000_000_000 + n * 4_000_000_000;
    let before = Window::default().at(second(0), HYPERCALL, &[32]).at(second(0) + 1, HYPERCALL, &[32]);
    let after = Window::default().at(second(1), HYPERCALL, &[32]);
    let windows = [(0, before), (0, story()), (0, after)];
    let alone = add(&scratch, &file(&[(0, story())]), &Options::default()).unwrap();
    recorded(&scratch, Some(line()));
    let outcome = add(&scratch, &file(&windows), &Options::default()).unwrap();
    assert_eq!(outcome.warnings.len(), 1, "{:?}", outcome.warnings);
    assert!(
        outcome.warnings[0].ends_with("xen.xt: 3 records are of before or after the recording, and left out")
    );
    let trace = Trace::open(&scratch.dir()).unwrap();
    assert_eq!(trace.manifest().warnings, outcome.warnings);
    assert!(trace.events().all(|event| event.time_ns < 100_000));
    // Who had the CPU then is known all the same.
    assert_eq!(outcome.kinds, alone.kinds);
}

#[test]
fn what_cannot_be_added_leaves_the_trace_as_it_was() {
    let scratch = Scratch::new();
    let whole = file(&[(0, story())]);
    let refused = |line: Option<TscLine>, content: &[u8], options: &Options, kind, said: &str| {
        recorded(&scratch, line);
        let before = files(&scratch);
        let error = add(&scratch, content, options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
        assert!(files(&scratch) == before, "{said}");
    };
    let usual = Options::default();
    let unknown = Options { domids: vec![("vm3".into(), 4)], ..Options::default() };
    let backward = TscLine { error_ns: 0, points: vec![(9, 5), (8, 9)] };
    refused(None, &whole, &usual, ErrorKind::Foreign, "does not tell what the TSC was");
    refused(Some(backward), &whole, &usual, ErrorKind::Foreign, "cannot be placed");
    refused(Some(line()), &whole, &unknown, ErrorKind::Foreign, "has no domain vm3");
    refused(Some(line()), b"something else", &usual, ErrorKind::Foreign, "is none of xentrace");
    refused(Some(line()), b"", &usual, ErrorKind::Foreign, "is none of xentrace");

    // Where it is broken off, what was written until then is taken away again.
    recorded(&scratch, Some(line()));
    let before = files(&scratch);
    let many =
        (0..400_000).fold(Window::default(), |window, nth| window.at(tsc(nth % 90_000), HYPERCALL, &[32]));
    let asked = std::cell::Cell::new(0);
    let goes_on = || asked.replace(asked.get() + 1) < 60;
    let error = add_while(&scratch, &file(&[(0, many)]), &usual, &goes_on).unwrap_err();
    assert_eq!((error.kind(), asked.get()), (ErrorKind::Interrupted, 61), "{error}");
    assert!(files(&scratch) == before, "{error}");

    // Once is enough.
    recorded(&scratch, Some(line()));
    add(&scratch, &whole, &usual).unwrap();
    let before = files(&scratch);
    let error = add(&scratch, &whole, &usual).unwrap_err().to_string();
    assert!(error.contains("has a domain xen already") && files(&scratch) == before, "{error}");
}

#[test]
fn a_trace_that_is_not_complete_is_added_to_if_that_is_wanted() {
    let scratch = Scratch::new();
    recorded(&scratch, Some(line()));
    let manifest = scratch.dir().join("trace.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"complete\": true", "\"complete\": false")).unwrap();
    let whole = file(&[(0, story())]);
    let error = add(&scratch, &whole, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("is not complete") && error.contains("--force"), "{error}");
    let domids = vec![("vm2".into(), 9)];
    add(&scratch, &whole, &Options { force: true, domids, ..Options::default() }).unwrap();
    let trace = Trace::open(&scratch.dir()).unwrap();
    // Whoever is not known by itself is who the user says.
    let vm2 = &trace.manifest().domains[2];
    assert_eq!(vm2.vm.as_ref().map(|vm| vm.pid), Some(0x0009_0001));
    assert_eq!(vm2.xen.as_ref().map(|xen| (&*xen.host, xen.domid)), Some(("dom0", 9)));
    assert!(!trace.manifest().complete, "which it does not become by that");
}

#[test]
fn what_was_killed_while_it_was_added_is_added_again() {
    let scratch = Scratch::new();
    recorded(&scratch, Some(line()));
    let (domain, clock) =
        (domain(0, "xen", Role::Host, None), Clock { domain: "xen".into(), ..Clock::default() });
    let mut writer = Writer::extend(&scratch.dir(), domain, clock, false).unwrap();
    let number = writer.manifest().domains[3].number;
    for time in 0..70_000 {
        writer.event(Event::new(Kind::Wake, number, time, 0, 1)).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let whole = file(&[(0, story())]);
    let error = add(&scratch, &whole, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("is being added") && error.contains("--force"), "{error}");
    add(&scratch, &whole, &Options { force: true, ..Options::default() }).unwrap();
    let trace = Trace::open(&scratch.dir()).unwrap();
    assert!(trace.manifest().complete && trace.manifest().domains[3].exit.is_some());
    let again = Scratch::new();
    recorded(&again, Some(line()));
    add(&again, &whole, &Options::default()).unwrap();
    let all = |trace: &Trace| {
        trace.events().map(|event| (event.domain, event.time_ns, event.kind)).collect::<Vec<_>>()
    };
    assert_eq!(all(&trace), all(&Trace::open(&again.dir()).unwrap()));
}

#[test]
fn a_guest_that_was_restored_is_no_machine_of_xens() {
    let scratch = Scratch::new();
    recorded(&scratch, Some(line()));
    let manifest = scratch.dir().join("trace.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"domid\": 3", "\"domid\": 3, \"since\": 5")).unwrap();
    let outcome = add(&scratch, &file(&[(0, story())]), &Options::default()).unwrap();
    let trace = Trace::open(&scratch.dir()).unwrap();
    let vms: Vec<_> = trace.manifest().domains.iter().map(|of| of.vm.as_ref().map(|vm| vm.pid)).collect();
    assert_eq!(vms, [Some(1), None, None, None]);
    assert!(outcome.warnings[0].starts_with("vm1: it was restored"), "{:?}", outcome.warnings);
}

proptest! {
    #[test]
    fn whatever_the_file_and_the_line_are_the_trace_stays_readable(
        junk in prop::collection::vec(any::<u32>(), 0..64),
        points in prop::collection::vec(any::<(u64, i64)>(), 0..4),
        steps in prop::collection::vec((1_u64..1 << 40, 1_i64..1 << 40), 1..4),
        in_order in any::<bool>(),
        error_ns in any::<u64>(),
    ) {
        let scratch = Scratch::new();
        let mut at = (tsc(0), 0);
        let ordered = steps.iter().map(|(ticks, ns)| {
            at = (at.0 + ticks, at.1 + ns);
            at
        });
        let points = if in_order { std::iter::once((tsc(0), 0)).chain(ordered).collect() } else { points };
        let given = TscLine { error_ns, points };
        recorded(&scratch, Some(given));
        let window = junk.chunks(3).fold(story(), |window, words| window.untimed(words[0] & 0x0fff_ffff, &words[1..]));
        let _ = add(&scratch, &file(&[(0, window)]), &Options::default());
        let trace = Trace::open(&scratch.dir()).unwrap();
        let all: Vec<Event> = trace.events().collect();
        prop_assert_eq!(all.len() as u64, trace.manifest().events);
        prop_assert_eq!(all.iter().filter(|event| event.domain == 1).count(), 4);
    }
}
