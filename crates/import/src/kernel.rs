//! One kernel's records, one after the other, as events.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use xweave_bytes::read_le;
use xweave_trace::{
    TimeSpan, VmName,
    event::{Access, Event, Kind, Name, State, VECTORS},
};

use crate::{
    error::Error,
    format::{Format, Number},
    input::{shown, trimmed},
    partition::Partitions,
    sink::Sink,
    tracepoint::{Meaning, Range, Wake, context},
};

/// Softirqs that were raised and have not begun are no more.
const RAISED: usize = 1 << 16;

/// A thread's name, filled with zeros.
type Comm = [u8; 16];

/// A kind of record.
struct Tracepoint {
    meaning: Meaning,
    name: String,
    /// What its events are called, once there is one.
    called: Option<Name>,
    /// Records that became events of kind `other`.
    unknown: u64,
}

/// So many virtual machines are told apart: each gets a number of its own, as domains have.
const VMS: usize = 256;

/// What is known of a kernel while its records go by.
pub(crate) struct Kernel {
    domain: u8,
    tracepoints: Vec<Tracepoint>,
    /// Number of a record's type → place in `tracepoints`; `u16::MAX` is none.
    by_id: Vec<u16>,
    /// Types of records that no format describes: how many came.
    strange: FxHashMap<u16, u64>,
    /// Thread → its name, and the process it belongs to (0: unknown).
    threads: FxHashMap<u32, (Comm, u32)>,
    /// Thread that was not seen yet → its process.
    processes: FxHashMap<u32, u32>,
    /// Thread → the vCPU that it was last seen to run.
    vcpus: FxHashMap<u32, u64>,
    /// The processes of threads that ran vCPUs, and are no more.
    ended_vms: BTreeSet<u32>,
    /// Socket → its connection, from when its state was told.
    connections: FxHashMap<u64, u64>,
    /// Thread → the address that it waits at.
    futexes: FxHashMap<u32, u64>,
    partitions: Partitions,
    /// By processor and number: what raised a softirq that has not begun.
    raised: FxHashMap<(u32, u32), i32>,
    /// What tells the same twice is taken once: which way was seen first.
    waking: bool,
    forks: bool,
    calls: Option<Calls>,
    /// System calls have the numbers of this machine.
    x86_64: bool,
    counts: [u64; Kind::ALL.len()],
    /// The first and the last time.
    pub span: Option<TimeSpan>,
    /// Processors that had events, counted up to the last one.
    pub cpus: u32,
}

/// How system calls are told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    Raw,
    Named,
}

impl Kernel {
    pub(crate) fn new(domain: u8, formats: &[Format], x86_64: bool) -> Self {
        let mut kernel = Self {
            domain,
            tracepoints: Vec::new(),
            by_id: vec![u16::MAX; 1 << 16],
            strange: FxHashMap::default(),
            threads: FxHashMap::default(),
            processes: FxHashMap::default(),
            vcpus: FxHashMap::default(),
            ended_vms: BTreeSet::new(),
            connections: FxHashMap::default(),
            futexes: FxHashMap::default(),
            partitions: Partitions::default(),
            raised: FxHashMap::default(),
            waking: false,
            forks: false,
            calls: None,
            x86_64,
            counts: [0; Kind::ALL.len()],
            span: None,
            cpus: 0,
        };
        for format in formats {
            kernel.describe(format);
        }
        kernel
    }

    /// What records of a type mean; of more types than there are numbers, those that come last have no meaning.
    pub(crate) fn describe(&mut self, format: &Format) {
        let place = u16::try_from(self.tracepoints.len()).ok().filter(|place| *place < u16::MAX);
        let Some(place) = place else { return };
        self.by_id[usize::from(format.id)] = place;
        let name = match format.system.as_str() {
            "" => format.name.clone(),
            system => format!("{system}:{}", format.name),
        };
        let meaning = Meaning::of(format);
        self.tracepoints.push(Tracepoint { meaning, name, called: None, unknown: 0 });
    }

    /// A kind of record that no kind of events stands for: its place, for [`Kernel::other`].
    pub(crate) fn of_no_kind(&mut self, name: &str) -> usize {
        let (meaning, name) = (Meaning::Other, name.to_owned());
        self.tracepoints.push(Tracepoint { meaning, name, called: None, unknown: 0 });
        self.tracepoints.len() - 1
    }

    /// The processes whose threads ran vCPUs, as virtual machines without names: of those whose processes are told.
    pub(crate) fn vms(&self) -> Vec<VmName> {
        let mut processes = self.ended_vms.clone();
        processes.extend(self.vcpus.keys().filter_map(|tid| self.process(*tid)));
        processes.into_iter().take(VMS).map(|pid| VmName { pid, name: String::new() }).collect()
    }

    /// The process that a thread belongs to, if that is known.
    fn process(&self, tid: u32) -> Option<u32> {
        self.threads.get(&tid).map(|(_, process)| *process).filter(|process| *process != 0)
    }

    /// A thread is no more: another one may get its number.
    pub(crate) fn end_vcpu(&mut self, tid: u32) {
        if self.vcpus.remove(&tid).is_some()
            && self.ended_vms.len() < VMS
            && let Some(process) = self.process(tid)
        {
            self.ended_vms.insert(process);
        }
    }

    /// How many events of each kind there were, in the kinds' order.
    pub(crate) fn counts(&self) -> &[u64; Kind::ALL.len()] {
        &self.counts
    }

    /// Names of records that became events of kind `other`, and how many.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (String, u64)> {
        let known = self.tracepoints.iter().filter(|point| point.unknown > 0);
        let known = known.map(|point| (point.name.clone(), point.unknown));
        known.chain(self.strange.iter().map(|(id, count)| (format!("type {id}, of no format"), *count)))
    }

    /// What a thread is called, and which process it belongs to (0: unknown), from when its records begin.
    pub(crate) fn thread(
        &mut self,
        time: i64,
        tid: u32,
        process: u32,
        comm: &[u8],
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        // The idle ones have no name of their own.
        if tid == 0 {
            return Ok(());
        }
        let comm = padded(comm);
        let known = self.threads.get(&tid).copied();
        let told = self.processes.remove(&tid).or(known.map(|(_, process)| process)).unwrap_or(0);
        let process = if process == 0 { told } else { process };
        if known == Some((comm, process)) {
            return Ok(());
        }
        self.threads.insert(tid, (comm, process));
        let name = out.name(&text(&comm));
        let event = Event::new(Kind::Thread, self.domain, time, 0, 0);
        self.emit(Event { other: tid, object: process.into(), name, ..event }, out)
    }

    /// A thread was made; it is called as who made it, if nothing tells.
    pub(crate) fn fork(
        &mut self,
        event: Event,
        comm: Option<&[u8]>,
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        let process = self.processes.remove(&event.other).unwrap_or(0);
        let parents = || self.threads.get(&event.tid).map_or(Comm::default(), |(comm, _)| *comm);
        let comm = comm.map_or_else(parents, padded);
        self.threads.insert(event.other, (comm, process));
        let name = out.name(&text(&comm));
        self.emit(Event { kind: Kind::Fork, object: process.into(), name, ..event }, out)
    }

    /// A thread that will be told of belongs to a process.
    pub(crate) fn belongs(&mut self, tid: u32, process: u32) {
        self.processes.insert(tid, process);
    }

    /// The number of its domain.
    pub(crate) fn domain(&self) -> u8 {
        self.domain
    }

    /// Ends: what had to wait goes on.
    pub(crate) fn finish(&mut self, out: &mut impl Sink) -> Result<(), Error> {
        self.partitions.flush(out)
    }

    /// Events of a processor are missing: `count`, or an unknown number (0), after `since` and before `time`.
    pub(crate) fn lost(
        &mut self,
        time: i64,
        cpu: u32,
        since: i64,
        count: u64,
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        let event = Event::new(Kind::Lost, self.domain, time, cpu, 0);
        // What comes next is seen: the last that is missing came before it.
        let position = u64::try_from(time.saturating_sub(since)).unwrap_or(0).max(1);
        self.emit(Event { object: 1, position, bytes: count, ..event }, out)
    }

    /// An event as it is.
    #[inline]
    pub(crate) fn emit(&mut self, event: Event, out: &mut impl Sink) -> Result<(), Error> {
        self.counts[event.kind as usize] += 1;
        let moment = TimeSpan::at(event.time_ns);
        self.span = Some(self.span.map_or(moment, |span| span.joined(moment)));
        self.cpus = self.cpus.max(event.cpu.saturating_add(1));
        self.partitions.event(event, out)
    }

    /// The next record: its time, its processor, and its bytes from `common_type` on.
    pub(crate) fn record(
        &mut self,
        time: i64,
        cpu: u32,
        record: &[u8],
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        // All of them begin with `common_type`, two more short fields, and `common_pid`.
        let Some(head) = record.first_chunk::<8>() else { return Ok(()) };
        let (Some(tid), Some(id)) = (read_le(head, 4), read_le::<u16>(head, 0)) else { return Ok(()) };
        let place = usize::from(self.by_id[usize::from(id)]);
        let Some(point) = self.tracepoints.get(place) else {
            *self.strange.entry(id).or_default() += 1;
            let name = out.name(&format!("type {id}"));
            return self.emit(Event { name, ..Event::new(Kind::Other, self.domain, time, cpu, tid) }, out);
        };
        let meaning = point.meaning;
        let domain = self.domain;
        let new = move |kind| Event::new(kind, domain, time, cpu, tid);
        let event = match meaning {
            Meaning::Switch { tid, comm, state, next, next_comm } => {
                let (tid, next) = (tid.low(record), next.low(record));
                let code = State::of_kernel(state.of(record)).code();
                self.called(time, tid, comm.of(record), out)?;
                self.called(time, next, next_comm.of(record), out)?;
                Event { tid, other: next, code, ..Event::new(Kind::Switch, self.domain, time, cpu, tid) }
            }
            Meaning::Waking(how) => {
                self.waking = true;
                wake(new(Kind::Wake), &how, record)
            }
            Meaning::Wakeup(how) if !self.waking => wake(new(Kind::Wake), &how, record),
            Meaning::Migrate { tid, from, to } => Event {
                other: tid.low(record),
                object: to.low(record).into(),
                position: from.low(record).into(),
                ..new(Kind::Migrate)
            },
            Meaning::WakeupNew { tid, comm } if !self.forks => {
                let event = Event { other: tid.low(record), ..new(Kind::Fork) };
                return self.fork(event, Some(comm.of(record)), out);
            }
            // Told already.
            Meaning::Wakeup(_) | Meaning::WakeupNew { .. } => return Ok(()),
            Meaning::Fork { parent, child, comm } => {
                self.forks = true;
                let event = Event { tid: parent.low(record), other: child.low(record), ..new(Kind::Fork) };
                return self.fork(event, Some(comm.of(record)), out);
            }
            Meaning::Exec { tid, file } => {
                let (tid, file) = (tid.low(record), trimmed(file.of(record)));
                let name = file.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                // From now on it is the only thread, and has the process's number.
                return self.thread(time, tid, tid, name, out);
            }
            Meaning::Rename { tid, comm } => {
                return self.thread(time, tid.low(record), 0, comm.of(record), out);
            }
            Meaning::Exit { tid } => {
                let tid = tid.low(record);
                self.end_vcpu(tid);
                self.threads.remove(&tid);
                Event { tid, ..new(Kind::Exit) }
            }
            Meaning::IrqEnter(number) => Event { object: number.of(record), ..new(Kind::IrqEnter) },
            Meaning::IrqExit(number) => Event { object: number.of(record), ..new(Kind::IrqExit) },
            Meaning::VectorEnter(number) => Event { object: vector(number, record), ..new(Kind::IrqEnter) },
            Meaning::VectorExit(number) => Event { object: vector(number, record), ..new(Kind::IrqExit) },
            Meaning::SoftirqRaise { number, flags } => {
                // Who raised it is told by its beginning.
                if self.raised.len() >= RAISED {
                    self.raised.clear();
                }
                self.raised.insert((cpu, number.low(record)), context(flags, record));
                return Ok(());
            }
            Meaning::SoftirqEnter(number) => {
                let code = self.raised.remove(&(cpu, number.low(record))).unwrap_or(0);
                Event { object: number.of(record), code, ..new(Kind::SoftirqEnter) }
            }
            Meaning::SoftirqExit(number) => Event { object: number.of(record), ..new(Kind::SoftirqExit) },
            Meaning::DiskQueue(range) => disk(new(Kind::DiskQueue), &range, record),
            Meaning::DiskIssue(range) => disk(new(Kind::DiskIssue), &range, record),
            Meaning::DiskMerge(range) => disk(new(Kind::DiskMerge), &range, record),
            Meaning::DiskDone(range) => disk(new(Kind::DiskComplete), &range, record),
            Meaning::Socket { sock, protocol, state, ends } => {
                /// include/uapi/linux/in.h: other protocols use TCP's states for their own.
                const IPPROTO_TCP: u64 = 6;
                if protocol.is_some_and(|protocol| protocol.of(record) != IPPROTO_TCP) {
                    return self.other(place, time, cpu, tid, out);
                }
                let (object, position) = (sock.of(record), ends.connection(record));
                let code = state.low(record).cast_signed();
                /// include/net/tcp_states.h
                const TCP_CLOSE: i32 = 7;
                if code == TCP_CLOSE {
                    self.connections.remove(&object);
                } else {
                    self.connections.insert(object, position);
                }
                Event { object, position, code, ..new(Kind::Socket) }
            }
            Meaning::Send { sock, result } => {
                return self.transfer(new(Kind::Send), sock, result, record, out);
            }
            Meaning::Receive { sock, result } => {
                return self.transfer(new(Kind::Receive), sock, result, record, out);
            }
            Meaning::Retransmit { sock, state, ends } => {
                /// What has no state yet is an answer to a request for a connection: include/net/tcp_states.h.
                const TCP_NEW_SYN_RECV: i32 = 12;
                let code = state.map_or(TCP_NEW_SYN_RECV, |state| state.low(record).cast_signed());
                let (object, position) = (sock.of(record), ends.connection(record));
                Event { object, position, code, ..new(Kind::Retransmit) }
            }
            Meaning::LockWait(lock) => Event { object: lock.of(record), ..new(Kind::LockWait) },
            Meaning::LockDone { lock, result } => Event {
                object: lock.of(record),
                code: result.low(record).cast_signed(),
                ..new(Kind::LockAcquired)
            },
            Meaning::SyscallEnter { number, args } => {
                if *self.calls.get_or_insert(Calls::Raw) != Calls::Raw {
                    return Ok(());
                }
                let object = number.of(record);
                /// arch/x86/entry/syscalls/syscall_64.tbl
                const FUTEX: u64 = 202;
                self.emit(Event { object, ..new(Kind::SyscallEnter) }, out)?;
                if let (FUTEX, true, Some(args)) = (object, self.x86_64, args) {
                    let arg = |at: usize| read_le(args.of(record), at * 8).unwrap_or(0);
                    return self.futex(new(Kind::LockWait), arg(0), arg(1), out);
                }
                return Ok(());
            }
            Meaning::SyscallExit { number, result } => {
                if *self.calls.get_or_insert(Calls::Raw) != Calls::Raw {
                    return Ok(());
                }
                let event =
                    Event { object: number.of(record), bytes: result.of(record), ..new(Kind::SyscallExit) };
                return self.returned(event, out);
            }
            Meaning::NamedEnter { number } | Meaning::FutexEnter { number, .. } => {
                if *self.calls.get_or_insert(Calls::Named) != Calls::Named {
                    return Ok(());
                }
                let name = self.call_name(place, "sys_enter_", out);
                self.emit(Event { object: number.of(record), name, ..new(Kind::SyscallEnter) }, out)?;
                if let Meaning::FutexEnter { address, operation, .. } = meaning {
                    return self.futex(new(Kind::LockWait), address.of(record), operation.of(record), out);
                }
                return Ok(());
            }
            Meaning::NamedExit { number, result } => {
                if *self.calls.get_or_insert(Calls::Named) != Calls::Named {
                    return Ok(());
                }
                let name = self.call_name(place, "sys_exit_", out);
                let (object, bytes) = (number.of(record), result.of(record));
                let event = Event { object, bytes, name, ..new(Kind::SyscallExit) };
                return self.returned(event, out);
            }
            Meaning::VmEnter { vcpu } => Event { object: self.vcpu(tid, vcpu, record), ..new(Kind::VmEnter) },
            Meaning::VmExit { vcpu, reason } => Event {
                object: self.vcpu(tid, vcpu, record),
                code: reason.low(record).cast_signed(),
                ..new(Kind::VmExit)
            },
            Meaning::VmHalt { ns, polled } => {
                // `waited` tells whether it slept.
                let code = i32::from(polled.is_some_and(|waited| waited.of(record) == 0));
                let object = self.vcpu(tid, None, record);
                Event { object, bytes: ns.of(record), code, ..new(Kind::VmHalt) }
            }
            Meaning::VmInject { vector } => {
                let object = self.vcpu(tid, None, record);
                Event { object, position: vector.of(record), ..new(Kind::VmInject) }
            }
            Meaning::CpuIdle { state } => {
                Event { code: state.low(record).cast_signed(), ..new(Kind::CpuIdle) }
            }
            Meaning::CpuIdleMiss { state, below } => {
                let code = state.low(record).cast_signed();
                Event { object: below.of(record), code, ..new(Kind::CpuIdleMiss) }
            }
            Meaning::CpuFrequency { cpu, khz } => {
                Event { object: cpu.of(record), bytes: khz.of(record), ..new(Kind::CpuFrequency) }
            }
            Meaning::Other => return self.other(place, time, cpu, tid, out),
        };
        self.emit(event, out)
    }

    /// A thread runs under that name: an event if it did not before.
    #[inline]
    fn called(&mut self, time: i64, tid: u32, comm: &[u8], out: &mut impl Sink) -> Result<(), Error> {
        // Processors have an idle thread each, all with this number.
        if tid == 0 {
            return Ok(());
        }
        if let Some((known, _)) = self.threads.get(&tid)
            && comm == known
        {
            return Ok(());
        }
        self.thread(time, tid, 0, comm, out)
    }

    /// A record that no kind of events stands for.
    pub(crate) fn other(
        &mut self,
        place: usize,
        time: i64,
        cpu: u32,
        tid: u32,
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        let Some(point) = self.tracepoints.get_mut(place) else { return Ok(()) };
        point.unknown += 1;
        let name = *point.called.get_or_insert_with(|| out.name(&point.name));
        self.emit(Event { name, ..Event::new(Kind::Other, self.domain, time, cpu, tid) }, out)
    }

    /// The name of a system call, of its tracepoint's.
    fn call_name(&mut self, place: usize, prefix: &str, out: &mut impl Sink) -> Name {
        let Some(point) = self.tracepoints.get_mut(place) else { return Name::default() };
        *point.called.get_or_insert_with(|| {
            let name = point.name.rsplit(':').next().unwrap_or_default();
            out.name(name.strip_prefix(prefix).unwrap_or(name))
        })
    }

    fn transfer(
        &mut self,
        event: Event,
        sock: Number,
        result: Number,
        record: &[u8],
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        let (object, bytes) = (sock.of(record), result.of(record));
        // An error: nothing was transferred.
        if bytes.cast_signed() < 0 {
            return Ok(());
        }
        let position = self.connections.get(&object).copied().unwrap_or(0);
        self.emit(Event { object, position, bytes, ..event }, out)
    }

    /// The vCPU that a thread runs: as the record tells, else as it was last told.
    fn vcpu(&mut self, tid: u32, told: Option<Number>, record: &[u8]) -> u64 {
        match told {
            Some(vcpu) => {
                let vcpu = vcpu.of(record);
                self.vcpus.insert(tid, vcpu);
                vcpu
            }
            None => self.vcpus.get(&tid).copied().unwrap_or(0),
        }
    }

    /// A system call on a lock of a program.
    fn futex(
        &mut self,
        event: Event,
        address: u64,
        operation: u64,
        out: &mut impl Sink,
    ) -> Result<(), Error> {
        // include/uapi/linux/futex.h, without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
        match operation & 0x7f {
            // FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2
            0 | 6 | 9 | 11 | 13 => {
                self.futexes.insert(event.tid, address);
                self.emit(Event { kind: Kind::LockWait, object: address, ..event }, out)
            }
            // FUTEX_WAKE, FUTEX_WAKE_OP, FUTEX_UNLOCK_PI, FUTEX_WAKE_BITSET
            1 | 5 | 7 | 10 => self.emit(Event { kind: Kind::LockWake, object: address, ..event }, out),
            _ => Ok(()),
        }
    }

    /// A system call ended, and with it what it waited for.
    fn returned(&mut self, event: Event, out: &mut impl Sink) -> Result<(), Error> {
        if let Some(address) = self.futexes.remove(&event.tid) {
            let code = (event.bytes & 0xffff_ffff) as u32;
            let done =
                Event { kind: Kind::LockAcquired, object: address, bytes: 0, name: Name::default(), ..event };
            self.emit(Event { code: code.cast_signed(), ..done }, out)?;
        }
        self.emit(event, out)
    }
}

fn wake(event: Event, wake: &Wake, record: &[u8]) -> Event {
    let Wake { tid, cpu, flags } = *wake;
    let object = cpu.map_or(0, |cpu| u64::from(cpu.low(record)) + 1);
    Event { other: tid.low(record), object, code: context(flags, record), ..event }
}

fn vector(number: Number, record: &[u8]) -> u64 {
    VECTORS | u64::from(number.low(record))
}

fn disk(event: Event, range: &Range, record: &[u8]) -> Event {
    // Such as R, WS, FWFS, D, N: a letter of what it does, behind F if caches are emptied first, then flags.
    let how = match range.how.of(record) {
        [b'F', letter, ..] | [letter, ..] => *letter,
        [] => 0,
    };
    let access = match how {
        b'R' => Access::Read,
        b'W' => Access::Write,
        _ => Access::Other,
    };
    Event {
        object: range.dev.of(record),
        position: range.sector.of(record),
        bytes: range.size(record),
        code: access.code(),
        ..event
    }
}

fn padded(comm: &[u8]) -> Comm {
    let mut padded = Comm::default();
    for (to, from) in padded.iter_mut().take(15).zip(trimmed(comm)) {
        *to = *from;
    }
    padded
}

fn text(comm: &Comm) -> String {
    shown(trimmed(comm))
}
