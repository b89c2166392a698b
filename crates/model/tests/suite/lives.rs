//! Lives of processes, by program.

use std::collections::BTreeMap;

use xweave_model::{
    Spec, explain,
    lives::{Lives, Programs, Spent},
};
use xweave_trace::{
    Domain, Manifest, Trace, Writer,
    event::{Event, Kind, State},
};

/// Two processes of `dd`, one after the other, each of which reads, and one of `sh` that makes them and waits for both.
fn lives(calls: bool) -> (Vec<Lives>, BTreeMap<String, i64>) {
    let dir = tempfile::tempdir().unwrap();
    let domains = vec![Domain { name: "vm1".into(), number: 1, ..Domain::default() }];
    let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
    let [dd, sh] = ["dd", "sh"].map(|name| writer.name(name));
    let mut event = |time, kind, tid, with: &dyn Fn(&mut Event)| {
        let mut event = Event::new(kind, 1, time, 0, tid);
        with(&mut event);
        writer.event(event).unwrap();
    };
    let switch =
        |from: State, to: u32| move |event: &mut Event| (event.code, event.other) = (from.code(), to);
    event(10, Kind::Fork, 1, &|event| (event.other, event.object, event.name) = (7, 7, sh));
    event(20, Kind::Switch, 1, &switch(State::Sleeping, 7));
    for (at, tid) in [(100, 8), (300, 9)] {
        let disk = |event: &mut Event| (event.object, event.position, event.bytes) = (254 << 20, 80, 4096);
        event(at, Kind::Fork, 7, &|event| (event.other, event.object, event.name) = (tid, tid.into(), dd));
        event(at + 10, Kind::Switch, 7, &switch(State::Sleeping, tid));
        if calls {
            event(at + 15, Kind::SyscallExit, tid, &|_| ());
            event(at + 25, Kind::SyscallEnter, tid, &|event| event.object = 0);
        }
        event(at + 30, Kind::DiskQueue, tid, &disk);
        event(at + 30, Kind::DiskIssue, tid, &disk);
        event(at + 35, Kind::Switch, tid, &switch(State::Blocked, 0));
        event(at + 90, Kind::IrqEnter, 0, &|event| event.object = 33);
        event(at + 90, Kind::DiskComplete, 0, &disk);
        event(at + 90, Kind::Wake, 0, &|event| event.other = tid);
        event(at + 91, Kind::IrqExit, 0, &|event| event.object = 33);
        event(at + 95, Kind::Switch, 0, &switch(State::Runnable, tid));
        if calls {
            event(at + 97, Kind::SyscallExit, tid, &|event| event.bytes = 4096);
            event(at + 104, Kind::SyscallEnter, tid, &|event| event.object = 231);
        }
        event(at + 110, Kind::Exit, tid, &|_| ());
        event(at + 111, Kind::Wake, tid, &|event| event.other = 7);
        event(at + 112, Kind::Switch, tid, &switch(State::Dead, 7));
    }
    event(500, Kind::Exit, 7, &|_| ());
    writer.finish().unwrap();
    let trace = Trace::open(dir.path()).unwrap();
    let spec = Spec::Process(None);
    let (mut programs, mut totals) = (Programs::of(&spec).unwrap(), BTreeMap::new());
    let outcome = explain(&trace, &spec, &mut |life, objects| {
        let program = life.name.split('/').next().unwrap().to_owned();
        *totals.entry(program).or_default() += life.total_ns;
        programs.add(&life, objects);
    });
    (programs.all(&outcome.objects), totals)
}

#[test]
fn lives_of_a_program_are_told_together_and_what_they_were_spent_on_sums_to_their_time() {
    let (all, totals) = lives(false);
    let told: Vec<_> =
        all.iter().map(|of| (&*of.program, of.lives, of.span_ns, of.min_ns, of.max_ns)).collect();
    assert_eq!(told, [("sh", 1, 490, 490, 490), ("dd", 2, 310, 110, 110)]);
    for of in &all {
        assert_eq!(i64::try_from(of.elapsed_ns), Ok(totals[&of.program]));
        assert_eq!(of.elapsed_ns, of.spent.ns());
    }
    let dd = Spent { on_cpu_ns: 80, ready_ns: 30, disk_ns: 110, ..Spent::default() };
    assert_eq!(all[1].spent, dd);
    assert_eq!((all[1].user_ns, all[1].system_ns), (None, None));
    // What its children did while it waited for them is theirs, and the disk's.
    let sh = all[0].spent;
    assert!(sh.disk_ns > 100 && sh.others_ns > 50 && sh.on_cpu_ns > 200, "{sh:?}");
}

#[test]
fn the_time_on_a_cpu_is_user_and_system_time_where_system_calls_were_recorded() {
    let (all, _) = lives(true);
    // Of each: it comes out of its maker's call 5 after it has run, and is in others for 10 until it waits, 2 after that,
    // and the last 6.
    let dd = &all[1];
    assert_eq!((dd.system_ns, dd.spent.on_cpu_ns), (Some(2 * (5 + 10 + 2 + 6)), 80));
    assert_eq!(dd.user_ns, Some(80 - 46));
    // None of it was recorded of the one that made them.
    assert_eq!((all[0].user_ns, all[0].system_ns), (None, None));
}

#[test]
fn only_lives_are_told_by_program() {
    for spec in ["request:80", "flow", "between:a..b"] {
        assert!(Programs::of(&spec.parse().unwrap()).is_none(), "{spec}");
    }
    assert!(Programs::of(&"thread:dd".parse().unwrap()).is_some());
}
