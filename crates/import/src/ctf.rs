//! CTF 1.8, the directories of LTTng and of `perf data convert --to-ctf`. The program babeltrace2 decodes them; its
//! lines become records as the kernel would have written them, which go the way of all others.

mod child;
mod line;
mod shape;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    path::{Path, PathBuf},
};

use xweave_trace::{Event, event::Kind};

use crate::{
    dat::Options,
    error::{Error, ErrorKind},
    input::shown,
    kernel::Kernel,
    merge::Early,
    sink::Sink,
};

use child::{Child, Said};
use line::{Line, Pairs, half};
use shape::Shape;

/// A CTF trace that babeltrace2 has begun to read.
pub(crate) struct Ctf {
    /// What trace-cmd's files say in options.
    pub options: Options,
    tracer: Tracer,
    child: RefCell<Child>,
}

/// What recorded a trace, and what of.
#[derive(Clone, Copy, Debug, Default)]
struct Tracer {
    /// perf did: its names are those of tracefs.
    perf: bool,
    /// No tracepoint tells of threads' beginnings, or ends: what perf itself tells counts.
    forks: bool,
    exits: bool,
}

/// What came of the lines.
#[derive(Default)]
pub(crate) struct Replay {
    pub lost: u64,
    /// How often records were lost that nobody counted.
    pub gaps: u64,
    /// Records that had to get a later time than theirs.
    pub early: Early,
    pub damage: Vec<Error>,
    pub warnings: Vec<String>,
}

/// How deep a session's traces may lie: `HOST/SESSION/archives/CHUNK/ust/uid/0/64-bit`.
const DEPTH: usize = 8;
/// A directory with more below it is no session's; nor are more traces told.
const DIRECTORIES: usize = 1024;
const TRACES: usize = 16;

/// Where the trace is: LTTng's session has that of the kernel in a directory of that name.
fn place(dir: &Path) -> Result<PathBuf, Error> {
    let kernel = dir.join("kernel");
    let found = [dir, &kernel].into_iter().find(|dir| dir.join(METADATA).is_file()).map(Path::to_owned);
    let found = found.map_or_else(|| only(dir), Ok)?;
    // The program takes it for no option, and for no address of a network.
    found.canonicalize().map_err(|error| Error::io("open", &found, error))
}

/// The file that makes a directory a CTF trace.
const METADATA: &str = "metadata";

/// The one trace that lies somewhere in a directory.
fn only(dir: &Path) -> Result<PathBuf, Error> {
    let mut traces = Vec::new();
    let mut looked = 0;
    let mut level = vec![dir.to_owned()];
    for _ in 0..DEPTH {
        let mut below = Vec::new();
        for dir in level {
            looked += 1;
            if looked > DIRECTORIES {
                let what = "has very many directories: give the one that has the file `metadata`";
                return Err(Error::new(ErrorKind::Foreign, what));
            }
            // What cannot be read has no trace that could be.
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            // A link could lead back.
            let entries = entries.filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()));
            for entry in entries.map(|entry| entry.path()) {
                if entry.join(METADATA).is_file() { traces.push(entry) } else { below.push(entry) }
            }
        }
        level = below;
    }
    traces.sort();
    match &traces[..] {
        [] => {
            let what = "is a directory without a CTF trace: give the one that has the file `metadata` \
                        (LTTng's: …/kernel)";
            Err(Error::new(ErrorKind::Foreign, what))
        }
        [only] => Ok(only.clone()),
        several => {
            let told = several.iter().take(TRACES);
            let told: Vec<_> = told.map(|trace| shown(trace.as_os_str().as_encoded_bytes())).collect();
            let more = if several.len() > TRACES { ", …" } else { "" };
            let what = format!(
                "has {} CTF traces: give the one that you mean, or several, each of which becomes a domain: {}{more}",
                several.len(),
                told.join(", ")
            );
            Err(Error::new(ErrorKind::Foreign, what))
        }
    }
}

impl Ctf {
    /// Has `program`, which is babeltrace2, begin to read the trace in `dir`.
    pub(crate) fn open(program: &str, dir: &Path) -> Result<Self, Error> {
        let place = place(dir)?;
        let metadata = child::metadata(program, &place)?;
        let said = |name: &str| {
            let values = metadata.lines().filter_map(|line| line.split_once('='));
            let mut values = values.filter(|(key, _)| key.trim() == name);
            let value = values.next().map_or("?", |(_, value)| value.trim().trim_end_matches(';'));
            shown(value.trim_matches('"').split_ascii_whitespace().next().unwrap_or("?").as_bytes())
        };
        let known = |names: [&str; 2]| names.map(said).into_iter().find(|value| value != "?");
        let word = |names| known(names).unwrap_or_else(|| "?".to_owned());
        let describes = |name: &str| metadata.contains(&format!("\"{name}\""));
        let clock = metadata.split_once("clock {").and_then(|(_, clock)| clock.split_once("name = "));
        let clock = clock.and_then(|(_, clock)| clock.split_once(';')).map_or("", |(name, _)| name);
        let options = Options {
            clock: shown(clock.trim_matches('"').as_bytes()).chars().take(64).collect(),
            uname: format!(
                "Linux {} {} {}",
                word(["hostname", "host"]),
                word(["kernel_release", "release"]),
                word(["machine", "architecture"])
            ),
            // babeltrace2 makes them so, whatever the clock is.
            nanoseconds: true,
            ..Options::default()
        };
        let child = RefCell::new(Child::read(program, &place)?);
        let tracer = Tracer {
            perf: said("tracer_name") == "perf",
            forks: !describes("sched:sched_process_fork"),
            exits: !describes("sched:sched_process_exit"),
        };
        Ok(Self { options, tracer, child })
    }

    /// Gives the kernel what was recorded.
    pub(crate) fn replay(&self, kernel: &mut Kernel, out: &mut impl Sink) -> Result<Replay, Error> {
        let mut lines = Lines::new(self.tracer, kernel, out);
        let mut child = self.child.borrow_mut();
        while let Some(line) = child.line() {
            lines.take(line)?;
        }
        let Lines { early, strange, .. } = lines;
        let Said { lost, gaps, failure, warnings } = child.end();
        let mut damage: Vec<Error> = failure.into_iter().map(child::damaged).collect();
        if let Some((first, count)) = strange {
            let what = format!("a line that is no event: {first:?} (of {count})");
            damage.push(child::damaged(what));
        }
        Ok(Replay { lost, gaps, early, damage, warnings })
    }
}

/// The lines of a trace, one after the other.
struct Lines<'a, S: Sink> {
    tracer: Tracer,
    kernel: &'a mut Kernel,
    out: &'a mut S,
    /// How events are told, by their names.
    shapes: HashMap<String, Shape>,
    /// Which system call each thread is in, where its end does not tell: the number of the event that began it.
    calls: HashMap<u32, u16>,
    /// The names of the system calls that those events begin.
    begins: HashMap<u16, String>,
    /// Which thread each processor runs, as switches tell.
    running: HashMap<u32, u32>,
    /// Threads that were there before the recording, until it has a time.
    before: Vec<(u32, u32, Vec<u8>)>,
    record: Vec<u8>,
    last: Option<i64>,
    early: Early,
    /// The first line that was no event, and how many.
    strange: Option<(String, u64)>,
}

/// The most threads whose system calls are kept: as many as a kernel has (PID_MAX_LIMIT).
const THREADS: usize = 1 << 22;
/// The most kinds of events: records have numbers of 16 bits.
const SHAPES: usize = u16::MAX as usize;

impl<'a, S: Sink> Lines<'a, S> {
    fn new(tracer: Tracer, kernel: &'a mut Kernel, out: &'a mut S) -> Self {
        Self {
            tracer,
            kernel,
            out,
            shapes: HashMap::new(),
            calls: HashMap::new(),
            begins: HashMap::new(),
            running: HashMap::new(),
            before: Vec::new(),
            record: Vec::new(),
            last: None,
            early: Early::default(),
            strange: None,
        }
    }

    /// The next line.
    fn take(&mut self, line: &[u8]) -> Result<(), Error> {
        let Some(event) = Line::parse(line) else {
            let (_, count) = self.strange.get_or_insert_with(|| (shown(line.get(..80).unwrap_or(line)), 0));
            *count += 1;
            return Ok(());
        };
        // perf tells so of what was there before the recording.
        let told = self.tracer.perf && event.name.starts_with("perf_");
        if told && event.time == 0 && self.last.is_none() {
            if event.name == "perf_comm" {
                self.before.extend(shape::thread(event.fields, b"comm"));
            }
            return Ok(());
        }
        let last = self.last.unwrap_or(event.time);
        self.early.take(event.time, last);
        let time = event.time.max(last);
        self.last = Some(time);
        for (tid, process, name) in std::mem::take(&mut self.before) {
            self.kernel.thread(time, tid, process, &name, self.out)?;
        }
        if told { self.told(time, &event) } else { self.event(time, &event) }
    }

    /// What perf itself tells of threads.
    fn told(&mut self, time: i64, line: &Line) -> Result<(), Error> {
        let field = |name: &[u8]| Pairs(line.fields).find(|(field, _)| *field == name);
        let number = |name| field(name).and_then(|(_, value)| half(value)).unwrap_or(0);
        let new = |kind, tid| Event::new(kind, self.kernel.domain(), time, line.cpu, tid);
        match line.name {
            "perf_comm" => {
                let Some((tid, process, name)) = shape::thread(line.fields, b"comm") else { return Ok(()) };
                self.kernel.thread(time, tid, process, &name, self.out)
            }
            "perf_fork" => {
                let (tid, event) = (number(b"tid"), new(Kind::Fork, number(b"ptid")));
                self.kernel.belongs(tid, number(b"pid"));
                if !self.tracer.forks {
                    return Ok(());
                }
                self.kernel.fork(Event { other: tid, ..event }, None, self.out)
            }
            "perf_exit" if self.tracer.exits => {
                let event = new(Kind::Exit, number(b"tid"));
                self.kernel.end_vcpu(event.tid);
                self.kernel.emit(event, self.out)
            }
            _ => Ok(()),
        }
    }

    /// What a tracer tells.
    fn event(&mut self, time: i64, line: &Line) -> Result<(), Error> {
        let field = |fields, name: &[u8]| {
            Pairs(fields).find(|(field, _)| *field == name).and_then(|(_, value)| half(value))
        };
        let told =
            if self.tracer.perf { field(line.fields, b"common_pid") } else { field(line.context, b"tid") };
        let switch = line.name == "sched_switch" && !self.tracer.perf;
        let previous = if switch { field(line.fields, b"prev_tid") } else { None };
        let tid = told.or(previous).or(self.running.get(&line.cpu).copied()).unwrap_or(0);
        if !self.tracer.perf {
            if let Some((tid, process, name)) = shape::thread(line.context, b"procname") {
                self.kernel.thread(time, tid, process, &name, self.out)?;
            }
            match line.name {
                "sched_switch" => {
                    self.running.insert(line.cpu, field(line.fields, b"next_tid").unwrap_or(0));
                }
                "sched_process_fork" => {
                    let child = (field(line.fields, b"child_tid"), field(line.fields, b"child_pid"));
                    if let (Some(tid), Some(process)) = child {
                        self.kernel.belongs(tid, process);
                    }
                }
                "lttng_statedump_process_state" => {
                    let Some((tid, process, name)) = shape::thread(line.fields, b"name") else {
                        return Ok(());
                    };
                    return self.kernel.thread(time, tid, process, &name, self.out);
                }
                _ => {}
            }
        }
        let name = self.name(line.name, tid);
        if !self.shapes.contains_key(&*name) && self.shapes.len() < SHAPES {
            let id = u16::try_from(self.shapes.len()).unwrap_or(u16::MAX);
            let shape = Shape::of(id, &name, self.tracer.perf, line.fields);
            self.kernel.describe(&shape.format);
            self.shapes.insert(name.clone().into_owned(), shape);
        }
        self.begun(&name, tid);
        match self.shapes.get(&*name) {
            Some(shape) => shape.record(tid, line.fields, &mut self.record),
            // More names than any tracer has: of no type that is described.
            None => {
                self.record.clear();
                self.record.extend([0xff, 0xff, 0, 0]);
                self.record.extend(tid.to_le_bytes());
            }
        }
        self.kernel.record(time, line.cpu, &self.record, self.out)
    }
}

impl<S: Sink> Lines<'_, S> {
    /// What an event is called: the end of a system call by the call that the thread is in.
    fn name<'n>(&mut self, name: &'n str, tid: u32) -> Cow<'n, str> {
        if self.tracer.perf {
            return name.into();
        }
        if name != shape::ANY_EXIT {
            return name.into();
        }
        let call = self.calls.remove(&tid).and_then(|begun| self.begins.get(&begun));
        // What began before the recording: as newer versions call it.
        format!("syscall_exit_{}", call.map_or("unknown", String::as_str)).into()
    }

    /// Notes the system call that a thread is in, by the event that began it.
    fn begun(&mut self, name: &str, tid: u32) {
        let Some(call) = shape::call_begun(name).filter(|_| !self.tracer.perf) else { return };
        let Some(id) = self.shapes.get(name).map(|shape| shape.format.id) else { return };
        self.begins.entry(id).or_insert_with(|| call.to_owned());
        if self.calls.len() < THREADS || self.calls.contains_key(&tid) {
            self.calls.insert(tid, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xweave_trace::event::{Name, Names};

    #[derive(Default)]
    struct List {
        names: Names,
        events: Vec<Event>,
    }

    impl Sink for List {
        fn name(&mut self, text: &str) -> Name {
            self.names.give(text)
        }

        fn event(&mut self, event: Event) -> Result<(), Error> {
            self.events.push(event);
            Ok(())
        }
    }

    /// The events of these lines, and how many were none.
    fn events(tracer: Tracer, lines: &[impl AsRef<[u8]>]) -> (List, u64) {
        let (mut kernel, mut out) = (Kernel::new(1, &[], true), List::default());
        let mut all = Lines::new(tracer, &mut kernel, &mut out);
        for line in lines {
            all.take(line.as_ref()).unwrap();
        }
        let strange = all.strange.map_or(0, |(_, count)| count);
        kernel.finish(&mut out).unwrap();
        (out, strange)
    }

    #[test]
    fn contexts_tell_of_threads() {
        let lines = [
            r#"timestamp = 1.000000005, name = syscall_entry_read, stream.packet.context = { cpu_id = 1 }, stream.event.context = { pid = 4, tid = 5, procname = "db" }, event.fields = { fd = 3, count = 8 }"#,
            "timestamp = 0.999999999, name = early, stream.packet.context = { cpu_id = 1 }, event.fields = { }",
            "[warning] none",
        ];
        let (list, strange) = events(Tracer::default(), &lines);
        assert_eq!(strange, 1);
        let [thread, call, other] = list.events[..] else { panic!("{:?}", list.events) };
        assert_eq!((thread.kind, thread.other, thread.object), (Kind::Thread, 5, 4));
        assert_eq!((call.kind, call.tid, call.cpu), (Kind::SyscallEnter, 5, 1));
        assert_eq!((other.kind, other.time_ns), (Kind::Other, 1_000_000_005));
        assert_eq!([thread, call, other].map(|event| list.names.text(event.name)), ["db", "read", "early"]);
    }

    #[test]
    fn names_of_lttng_up_to_2_3_are_known() {
        let line = |time: u32, name: &str, fields: &str| {
            format!(
                "timestamp = 1.{time:09}, name = {name}, stream.packet.context = {{ cpu_id = 0 }}, \
                 stream.event.context = {{ tid = 5 }}, event.fields = {{ {fields} }}"
            )
        };
        let lines = [
            line(1, "exit_syscall", "ret = 0"),
            line(2, "sys_read", "fd = 3, count = 8"),
            line(3, "softirq_entry", "vec = 1"),
            line(4, "softirq_exit", "vec = 1"),
            line(5, "exit_syscall", "ret = 8"),
            line(6, "compat_sys_write", "fd = 3"),
            line(7, "exit_syscall", "ret = -1"),
        ];
        let (list, strange) = events(Tracer::default(), &lines);
        assert_eq!(strange, 0);
        let told: Vec<_> =
            list.events.iter().map(|event| (event.kind, list.names.text(event.name), event.bytes)).collect();
        assert_eq!(
            told,
            [
                (Kind::SyscallExit, "unknown", 0),
                (Kind::SyscallEnter, "read", 0),
                (Kind::SoftirqEnter, "", 0),
                (Kind::SoftirqExit, "", 0),
                (Kind::SyscallExit, "read", 8),
                (Kind::SyscallEnter, "write", 0),
                (Kind::SyscallExit, "write", u64::MAX),
            ]
        );
    }

    #[test]
    fn idle_states_and_frequencies_are_those_of_their_processors() {
        let line = |time: u32, name: &str, fields: &str| {
            format!(
                "timestamp = 1.{time:09}, name = {name}, stream.packet.context = {{ cpu_id = 2 }}, \
                 event.fields = {{ {fields} }}"
            )
        };
        let lines = [
            line(1, "power_cpu_idle", "state = 3, cpu_id = 2"),
            line(2, "power_cpu_idle", "state = 4294967295, cpu_id = 2"),
            line(3, "power_cpu_frequency", "state = 3400000, cpu_id = 5"),
        ];
        let (list, _) = events(Tracer::default(), &lines);
        let told: Vec<_> = list
            .events
            .iter()
            .map(|event| (event.kind, event.cpu, event.code, event.object, event.bytes))
            .collect();
        assert_eq!(
            told,
            [
                (Kind::CpuIdle, 2, 3, 0, 0),
                (Kind::CpuIdle, 2, -1, 0, 0),
                (Kind::CpuFrequency, 2, 0, 5, 3_400_000)
            ]
        );
    }

    #[test]
    fn a_sessions_only_trace_is_found_and_of_several_all_are_told() {
        let session = tempfile::tempdir().unwrap();
        let trace = |path: &str| {
            let path = session.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join(METADATA), "").unwrap();
            path.canonicalize().unwrap()
        };
        let none = place(session.path()).unwrap_err().to_string();
        assert!(none.contains("without a CTF trace"), "{none}");
        let first = trace("box/auto-1/kernel");
        assert_eq!(place(session.path()).unwrap(), first);
        let second = trace("box/auto-1/ust/uid/0/64-bit");
        let several = place(session.path()).unwrap_err().to_string();
        assert!(several.contains("has 2 CTF traces"), "{several}");
        for trace in [first, second] {
            assert!(several.contains(&*trace.to_string_lossy()), "{several}");
        }
        // LTTng's own name for the kernel's says which is meant.
        assert_eq!(place(&session.path().join("box/auto-1")).unwrap().file_name().unwrap(), "kernel");
    }

    #[test]
    fn what_perf_tells_of_threads_counts_where_no_tracepoint_does() {
        let lines = [
            r#"timestamp = 0.000000000, name = perf_comm, event.fields = { pid = 4, tid = 4, comm = "make" }"#,
            "timestamp = 2.000000000, name = perf_fork, event.fields = { pid = 6, ppid = 4, tid = 6, ptid = 4 }",
            "timestamp = 3.000000000, name = perf_exit, event.fields = { pid = 6, ppid = 4, tid = 6, ptid = 4 }",
        ];
        let (list, _) = events(Tracer { perf: true, forks: true, exits: true }, &lines);
        let kinds: Vec<_> =
            list.events.iter().map(|event| (event.kind, event.time_ns / 1_000_000_000)).collect();
        assert_eq!(kinds, [(Kind::Thread, 2), (Kind::Fork, 2), (Kind::Exit, 3)]);
        let (list, _) = events(Tracer { perf: true, ..Tracer::default() }, &lines);
        assert_eq!(list.events.len(), 1);
    }

    /// A line with anything in it, but mostly in the form of lines.
    fn line() -> impl Strategy<Value = String> {
        let names = prop::sample::select(vec![
            "sched_switch",
            "sched_process_fork",
            "sched:sched_switch",
            "sched_process_exec",
            "perf_comm",
            "perf_fork",
            "syscall_entry_futex",
            "syscall_exit_futex",
            "syscalls:sys_enter_futex",
            "raw_syscalls:sys_enter",
            "block_rq_issue",
            "block_bio_complete",
            "sock:inet_sock_set_state",
            "kvm_x86_exit",
            "sched_process_exit",
            "lttng_statedump_process_state",
            "x86_irq_vectors_local_timer_entry",
            "x",
        ]);
        let fields = prop::sample::select(vec![
            "tid",
            "pid",
            "prev_tid",
            "next_tid",
            "prev_pid",
            "next_pid",
            "prev_comm",
            "next_comm",
            "prev_state",
            "comm",
            "child_tid",
            "child_pid",
            "child_comm",
            "parent_tid",
            "filename",
            "uaddr",
            "op",
            "ret",
            "_syscall_nr",
            "id",
            "args",
            "dev",
            "old_dev",
            "sector",
            "nr_sector",
            "rwbs",
            "skaddr",
            "newstate",
            "family",
            "sport",
            "dport",
            "saddr",
            "daddr",
            "saddr_v6",
            "daddr_v6",
            "exit_reason",
            "vector",
            "name",
            "procname",
            "common_pid",
        ]);
        let value = prop_oneof![
            any::<i64>().prop_map(|number| number.to_string()),
            any::<u64>().prop_map(|number| format!("{number:#x}")),
            "\"[a-z\\\\\", ={}]{0,20}\"",
            "\\[ \\[0\\] = [0-9]{1,25} \\]",
            ".{0,10}",
        ];
        let pairs = prop::collection::vec((fields, value), 0..8);
        (any::<u32>(), names, any::<u32>(), pairs.clone(), pairs).prop_map(|(time, name, cpu, context, fields)| {
            let list = |pairs: Vec<(&str, String)>| {
                pairs.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
            };
            let (context, fields) = (list(context), list(fields));
            format!(
                "timestamp = {time}.000000000, name = {name}, stream.packet.context = {{ cpu_id = {cpu} }}, \
                 stream.event.context = {{ {context} }}, event.fields = {{ {fields} }}"
            )
        })
    }

    proptest! {
        /// Whatever the lines say: events in the order of their times.
        #[test]
        fn any_lines_are_events_in_order(lines in prop::collection::vec(line(), 0..30), perf: bool, forks: bool) {
            let (list, strange) = events(Tracer { perf, forks, exits: !forks }, &lines);
            prop_assert_eq!(strange, 0);
            prop_assert!(list.events.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
        }
    }
}
