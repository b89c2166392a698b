//! What `xweave vary` says of traces, sentence by sentence: none is more than its own tables say.

use xweave_model::Spec;
use xweave_report::{View, variation};
use xweave_trace::{
    Domain, Event, Manifest, Role, Trace, Writer,
    event::{Context, Kind, Name, State},
};
use xweave_vary::Variation;

const PLAIN: View = View { width: 2_000, color: false };
const MS: i64 = 1_000_000;

/// The threads: the one whose requests these are, and others that have its CPU.
const SERVER: u32 = 7;
const OTHERS: [(u32, &str); 3] = [(8, "cron"), (9, "sshd"), (10, "make")];

/// What a request's time is spent on, in nanoseconds.
#[derive(Clone, Copy)]
enum Spent {
    Running(i64),
    /// Another thread has its CPU: by its place in [`OTHERS`].
    Ready(usize, i64),
    /// It waits until a timer is over.
    Asleep(i64),
}
use Spent::{Asleep, Ready, Running};

struct World {
    writer: Writer,
    time: i64,
    marks: [Name; 2],
}

impl World {
    fn event(&mut self, kind: Kind, tid: u32, fill: impl FnOnce(&mut Event)) {
        let mut event = Event::new(kind, 1, self.time, 0, tid);
        fill(&mut event);
        self.writer.event(event).unwrap();
        self.time += 1;
    }

    fn switch(&mut self, from: u32, state: State, to: u32) {
        self.event(Kind::Switch, from, |event| (event.other, event.code) = (to, state.code()));
    }

    fn request(&mut self, parts: &[Spent]) {
        let [begin, end] = self.marks;
        self.event(Kind::Other, SERVER, |event| event.name = begin);
        for part in parts {
            match *part {
                Running(ns) => self.time += ns,
                Ready(other, ns) => {
                    let (other, _) = OTHERS[other];
                    self.switch(SERVER, State::Runnable, other);
                    self.time += ns;
                    self.switch(other, State::Runnable, SERVER);
                }
                Asleep(ns) => {
                    self.switch(SERVER, State::Sleeping, 0);
                    self.time += ns;
                    self.event(Kind::IrqEnter, 0, |event| event.object = 0x1_00ec);
                    let woken =
                        |event: &mut Event| (event.other, event.code) = (SERVER, Context::Hard.code());
                    self.event(Kind::Wake, 0, woken);
                    self.event(Kind::IrqExit, 0, |event| event.object = 0x1_00ec);
                    self.switch(0, State::Runnable, SERVER);
                }
            }
        }
        self.event(Kind::Other, SERVER, |event| event.name = end);
        self.time += 100_000;
    }
}

/// What varies among requests that are spent so.
fn varied(requests: impl IntoIterator<Item = Vec<Spent>>) -> (Variation, String) {
    let dir = tempfile::tempdir().unwrap();
    let host = Domain { name: "host".into(), number: 1, role: Role::Host, cpus: 1, ..Domain::default() };
    let manifest = Manifest { reference: "host".into(), domains: vec![host], ..Manifest::default() };
    let mut writer = Writer::create(dir.path(), manifest).unwrap();
    writer.sites(&[]).unwrap();
    let marks = ["begin", "end"].map(|name| writer.name(name));
    let mut world = World { writer, time: 1, marks };
    for (tid, name) in OTHERS.into_iter().chain([(SERVER, "server")]) {
        let name = world.writer.name(name);
        world.event(Kind::Thread, 0, |event| {
            (event.other, event.object, event.name) = (tid, tid.into(), name)
        });
    }
    world.switch(0, State::Runnable, SERVER);
    requests.into_iter().for_each(|request| world.request(&request));
    world.writer.finish().unwrap();
    let spec: Spec = "between:begin..end".parse().unwrap();
    let (found, _) = Variation::of(&Trace::open(dir.path()).unwrap(), &spec).unwrap();
    let text = [
        variation::headline(&found, "requests", PLAIN),
        variation::causes(&found, true, PLAIN),
        variation::spikes(&found, PLAIN),
    ];
    (found, text.join("\n"))
}

/// Some time that is never quite the same, and nobody's fault.
fn noise(nth: i64) -> i64 {
    nth * 7_919 % 10_007
}

#[test]
fn what_would_make_requests_longer_is_never_told_as_a_gain() {
    // Most wait for a CPU; a few do not, and take longer all the same.
    let (found, text) = varied((0..200).map(|nth| match nth % 50 {
        0 => vec![Running(24 * MS + noise(nth))],
        1..30 => vec![Running(4 * MS + noise(nth)), Ready(0, 12 * MS)],
        _ => vec![Running(4 * MS + noise(nth))],
    }));
    let cron = found.causes.iter().find(|cause| cause.by().is_some()).unwrap();
    assert!(cron.named, "{text}");
    // With its median time in each request, the slowest would be slower.
    assert!(text.contains("Without it: p99 not shorter, p50 16.0"), "{text}");
    for cause in &found.causes {
        assert!(cause.remedy.is_none() || cause.gain.is_any(), "{cause:?}");
        assert!(!text.contains("p99 not shorter, p50 not shorter"), "{text}");
    }
    let rows: Vec<_> = text.lines().skip_while(|line| !line.starts_with("Of variance")).collect();
    assert!(
        rows.iter().any(|row| row.contains("none")) && !rows.iter().any(|row| row.contains("-12.0")),
        "{text}"
    );
}

#[test]
fn requests_of_two_kinds_do_not_vary_little_though_the_median_is_the_slow_ones() {
    let (found, text) = varied((0..200).map(|nth| match nth * 37 % 100 {
        0..45 => vec![Running(50_000 + noise(nth) / 10)],
        _ => vec![Running(50_000 + noise(nth) / 10), Ready(0, 10 * MS)],
    }));
    assert!(!found.steady && !text.contains("vary little"), "{text}");
    assert!(text.contains("45 % of 200 requests took less than two thirds of that median."), "{text}");
    // Its median is the long time: without it all would be quick.
    assert!(text.contains("1. server in host waited for a CPU, because of cron."), "{text}");
    assert!(text.contains("Without it: p99 10.0"), "{text}");
}

#[test]
fn one_cause_of_all_of_it_is_not_called_many_and_not_most_where_requests_are_too_few_to_be_sure() {
    let (found, text) = varied((0..60).map(|nth| match nth {
        20 | 45 => vec![Running(MS + noise(nth)), Ready(0, 9 * MS)],
        _ => vec![Running(MS + noise(nth))],
    }));
    let largest = &found.causes[0];
    assert!(largest.shares.share_of_variance > 0.95 && !largest.named, "{largest:?}");
    assert!(!text.contains("spread over many"), "{text}");
    assert!(text.contains("60 requests are too few to be sure."), "{text}");
    assert!(text.contains("The largest: server in host waited for a CPU, "), "{text}");
}

#[test]
fn slow_requests_are_as_many_spikes_as_there_are_with_others_between_them() {
    let (found, text) = varied((0..400).map(|nth| match nth {
        100..220 if nth % 3 == 0 => vec![Running(MS + noise(nth)), Asleep(9 * MS)],
        _ => vec![Running(MS + noise(nth))],
    }));
    assert_eq!((found.spikes.spikes, found.spikes.requests), (40, 40));
    assert!(text.contains("40 spikes (40 requests that stand out from those around them)"), "{text}");
    assert!(!text.contains("the rest is steady"), "{text}");
}

#[test]
fn who_had_less_than_half_of_it_is_not_all_of_why() {
    let (_, text) = varied((0..200).map(|nth| match nth % 10 {
        0 => vec![Running(MS + noise(nth)), Ready(0, 5 * MS), Ready(1, 6 * MS), Ready(2, 5 * MS)],
        5 => vec![Running(MS + noise(nth)), Ready(0, 6 * MS), Ready(1, 7 * MS), Ready(2, 6 * MS)],
        _ => vec![Running(MS + noise(nth))],
    }));
    assert!(text.contains(", in part because of sshd") && text.contains("by sshd 37 %, "), "{text}");
    let (_, text) = varied((0..200).map(|nth| match nth % 20 {
        0 => vec![Running(MS + noise(nth)), Ready(0, 5 * MS)],
        5 | 10 => vec![Running(MS + noise(nth)), Ready(1, 6 * MS)],
        _ => vec![Running(MS + noise(nth))],
    }));
    assert!(text.contains("because of sshd") && !text.contains("in part"), "{text}");
}
