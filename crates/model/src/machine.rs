//! The kernels of a trace: what each event changes, of threads and CPUs by the transitions of the [replay](xweave_replay).

use rustc_hash::FxHashMap;
use xweave_replay::{ByCpu, Cpu, CpuId, Ended, Loss, Replay, Source, ThreadId, Threads, Transition};
use xweave_trace::{
    Trace,
    event::{Context, Event, Kind},
};

use crate::{
    connection::Connections,
    disk::Disks,
    futex::{FutexId, Futexes},
    group::Recorders,
    guests::Guests,
    held::Holds,
    lock::Waits,
    power::{self, Highest, PowerOfCpu},
    vcpu::{Guest, Vcpus},
    wait::{CallWaits, WaitedFor},
};

/// The kernels of a trace, as events tell of them.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Threads and CPUs.
    replay: Replay,
    /// Disks.
    pub disks: Disks,
    /// Connections.
    pub connections: Connections,
    /// What held messages back on their way.
    pub holds: Holds,
    /// vCPUs.
    pub vcpus: Vcpus,
    /// Who recorded them.
    pub(crate) recorders: Recorders,
    /// The processors' highest frequencies.
    pub(crate) highest: Highest,
    power: ByCpu<PowerOfCpu>,
    /// Threads that wait for locks.
    locks: FxHashMap<ThreadId, Waits>,
    /// Which futexes are locks.
    futexes: Futexes,
    /// What waits within calls were for.
    waits: CallWaits,
    /// Locks that ended a wait, and who gave them: by who waited and when the wait was over.
    given: FxHashMap<(ThreadId, i64), u64>,
    /// Accesses to disks that a thread completed as it woke who had asked for them: by who waited and when the wait was over.
    handed: FxHashMap<(ThreadId, i64), u64>,
    /// What the last event changed of threads and CPUs.
    transitions: Vec<Transition>,
}

impl Machine {
    /// Kernels of which nothing was seen yet, some of them run by others.
    pub fn new(guests: Vec<Guest>) -> Self {
        Self::lossy(guests, Vec::new())
    }

    /// The kernels of a trace, whose replay knows of losses.
    pub fn of(trace: &Trace, replay: Replay) -> Self {
        Self { recorders: Recorders::of(trace), replay, ..Self::new(Guests::of(trace).all) }
    }

    /// Kernels of whose events some were lost.
    pub fn lossy(guests: Vec<Guest>, losses: Vec<Loss>) -> Self {
        Self { vcpus: Vcpus::new(guests), replay: Replay::new(losses), ..Self::default() }
    }

    /// The same, whose processors have these highest frequencies in the recording.
    pub fn with_highest(self, highest: Highest) -> Self {
        Self { highest, ..self }
    }

    /// All threads.
    pub fn threads(&self) -> &Threads {
        &self.replay.threads
    }

    /// A processor, if something was seen of it.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.replay.cpu(id)
    }

    /// A processor's idle states and frequencies, if any were seen.
    pub(crate) fn power(&self, id: CpuId) -> Option<&PowerOfCpu> {
        self.power.get(id)
    }

    /// The lock that a thread had been waiting for when it was woken at this time.
    pub fn lock(&self, thread: ThreadId, woken: i64) -> Option<u64> {
        self.given.get(&(thread, woken)).copied()
    }

    /// Whether a futex that a thread waited for, until another one woke it, is a lock which that one held.
    pub(crate) fn held_futex(&self, thread: ThreadId, woken: i64, waker: ThreadId, address: u64) -> bool {
        let lock = self.futex_of(thread, address).is_some_and(|futex| self.futexes.is_lock(futex));
        lock && self.futexes.was_given(thread, woken, waker)
    }

    /// The access to a disk, by its number, that a thread had waited for, and another one completed as it woke it at this time.
    pub(crate) fn handed_access(&self, thread: ThreadId, woken: i64) -> Option<u64> {
        self.handed.get(&(thread, woken)).copied()
    }

    /// What a wait that was over at this time was for, if an event at the end of the call told that.
    pub fn waited_for(&self, thread: ThreadId, over: i64) -> Option<WaitedFor> {
        self.waits.of(thread, over)
    }

    /// Whether events of a domain were lost between two times: on any of its CPUs, or on this one.
    pub fn lost(&self, domain: u8, cpu: Option<u32>, from: i64, to: i64) -> bool {
        self.replay.lost(domain, cpu, from, to)
    }

    /// Takes in an event. A domain's events come in the order of their times.
    #[inline]
    pub fn feed(&mut self, event: &Event) {
        self.until(event.time_ns);
        self.apply(event);
    }

    /// Time goes on until then: something may have been lost.
    #[inline]
    pub fn until(&mut self, time: i64) {
        self.transitions.clear();
        if self.replay.loses_until(time) {
            self.replay.advance(time, &mut self.transitions);
            self.take_transitions(0);
        }
    }

    /// Takes in an event of now: time has gone on [until](Self::until) then.
    pub(crate) fn apply(&mut self, event: &Event) {
        if !matches!(event.kind, Kind::Thread | Kind::Lost) {
            self.vcpus.seen(CpuId { domain: event.domain, cpu: event.cpu }, event.time_ns);
        }
        let first = self.transitions.len();
        self.replay.apply(event, &mut self.transitions);
        self.take_transitions(first);
        self.take(event);
        let last = self.transitions.len();
        self.replay.resume_loss(event, &mut self.transitions);
        self.take_transitions(last);
    }

    /// What the last event changed of threads and CPUs.
    pub(crate) fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// Takes in what the replay has told, from one transition on.
    #[inline]
    fn take_transitions(&mut self, first: usize) {
        if first == self.transitions.len() {
            return;
        }
        // By reference: a copy of what was just written in parts would wait for all of them.
        let transitions = std::mem::take(&mut self.transitions);
        transitions[first..].iter().for_each(|transition| self.take_transition(transition));
        self.transitions = transitions;
    }

    fn take_transition(&mut self, transition: &Transition) {
        match *transition {
            Transition::Lost { loss: Loss { cpu, from, to }, had } => {
                if let Some(power) = self.power.get_mut(cpu) {
                    power.lose(from);
                }
                self.vcpus.lose(from, had);
                self.disks.lose(cpu.domain, to);
                self.holds.lose(cpu.domain);
            }
            Transition::Woken { thread, time, since, by, context, .. } => {
                let lost = self.threads().last_loss(thread.domain);
                let waits = self.locks.get(&thread).filter(|waits| waits.since() >= lost);
                if let Some(lock) = waits.and_then(Waits::innermost) {
                    self.given.insert((thread, time), lock);
                    if let Ended::Thread { by, .. } = by
                        && let Some(futex) = self.futex_of(thread, lock)
                    {
                        self.futexes.woken(thread, time, by, futex);
                    }
                }
                match by {
                    Ended::Thread { by, .. } => self.vcpus.woken(thread, by),
                    Ended::Interrupt { cpu, .. } => {
                        self.vcpus.wakes(time, CpuId { domain: thread.domain, cpu });
                    }
                    Ended::Unseen | Ended::Lost => {}
                }
                // What comes by the network wakes in its softirq, never in a hard interrupt.
                let local = matches!(by, Ended::Interrupt { source: Source::Timer, .. })
                    || context == Some(Context::Hard);
                self.connections.woken(thread, since, time, local);
                self.waits.woken(thread, since, time, by);
            }
            Transition::InterruptBegan { cpu, tid, time, soft, .. } => {
                self.vcpus.interrupted(time, ThreadId { domain: cpu.domain, tid });
                if !soft {
                    self.vcpus.taken(time, cpu);
                }
            }
            Transition::Ran { .. }
            | Transition::Left { .. }
            | Transition::Dispatched { .. }
            | Transition::Migrated { .. }
            | Transition::Began { .. }
            | Transition::InterruptEnded { .. } => {}
        }
    }

    fn take(&mut self, event: &Event) {
        let Event { time_ns: time, domain, cpu, tid, .. } = *event;
        let (thread, cpu) = (ThreadId { domain, tid }, CpuId { domain, cpu });
        let last_loss = || self.replay.threads.last_loss(domain);
        match event.kind {
            Kind::DiskQueue => {
                self.disks.queue(event);
            }
            Kind::DiskIssue => self.disks.issue(event),
            Kind::DiskComplete => {
                for number in self.disks.done(event).ended {
                    if let Some(below) = self.replay.cpu(cpu).and_then(Cpu::last_completion) {
                        self.disks.lies_on(number, below);
                    }
                    let by = self.disks.access(number).map(|access| access.thread);
                    self.replay.complete(cpu, time, number, by);
                }
            }
            Kind::DiskRemap => {
                self.disks.remap(event);
            }
            Kind::Wake => {
                let woken = ThreadId { domain, tid: event.other };
                if let Some(access) = self.cpu(cpu).and_then(|cpu| cpu.completed_for(woken, time)) {
                    self.handed.insert((woken, time), access);
                }
            }
            Kind::LockWait => {
                if let Some(futex) = self.futex_of(thread, event.object) {
                    self.futexes.wait(futex, thread, time);
                }
                self.locks.entry(thread).or_default().begin(event.object, time);
            }
            Kind::LockAcquired => {
                if let Some(futex) = self.futex_of(thread, event.object) {
                    self.futexes.acquired(futex, thread, time, event.code);
                }
                if let Some(waits) = self.locks.get_mut(&thread) {
                    waits.end(event.object);
                    if waits.is_empty() {
                        self.locks.remove(&thread);
                    }
                }
            }
            Kind::LockWake => {
                if let Some(futex) = self.futex_of(thread, event.object) {
                    self.futexes.wake(futex, thread, time);
                }
            }
            Kind::Send => self.connections.send(event, thread, last_loss()),
            Kind::Receive => self.connections.receive(event, thread, last_loss()),
            Kind::Accept => self.connections.accept(event, thread),
            Kind::Socket => {
                let in_thread = tid != 0 && self.cpu(cpu).is_none_or(Cpu::is_in_thread);
                self.connections.state(event, in_thread.then_some(thread));
            }
            Kind::Retransmit => self.connections.repeat(event),
            Kind::SynDrop => self.connections.refuse(event),
            Kind::QdiscEnqueue
            | Kind::QdiscDequeue
            | Kind::NeighEnqueue
            | Kind::NeighDequeue
            | Kind::TcpHold
            | Kind::TcpRelease => self.holds.feed(event),
            Kind::PipeWrite => self.waits.pipe_write(event, thread),
            Kind::PipeRead => {
                if self.waits.pipe_read(event, thread) {
                    self.connections.waited_for_another(thread);
                }
            }
            Kind::PipeFull => self.waits.pipe_full(event, thread),
            Kind::PageFault => self.waits.fault(event, thread, WaitedFor::PageOf(event.name)),
            Kind::SwapIn => self.waits.fault(event, thread, WaitedFor::Swapped),
            Kind::VmEnter => {
                let process = self.threads().process(thread);
                self.vcpus.enter(event, thread, process);
            }
            Kind::VmHalt => self.vcpus.halted(time, thread, event.bytes),
            Kind::VmInject => self.vcpus.inject(time, thread),
            Kind::VmExit => self.vcpus.exit(time, thread, Some(event.code), last_loss()),
            Kind::CpuIdle => self.power.get_or_insert_with(cpu, PowerOfCpu::default).idles(event),
            Kind::CpuFrequency => {
                if let Some((cpu, khz)) = power::frequency(event) {
                    self.power.get_or_insert_with(cpu, PowerOfCpu::default).runs_at(time, khz);
                }
            }
            // A thread's end is told by the switch from it.
            Kind::Exit => self.connections.ended(thread),
            Kind::Fork => self.connections.begun(ThreadId { domain: event.domain, tid: event.other }),
            // The replay's.
            Kind::Switch
            | Kind::Migrate
            | Kind::Thread
            | Kind::IrqEnter
            | Kind::IrqExit
            | Kind::SoftirqEnter
            | Kind::SoftirqExit
            | Kind::Lost
            // Of no object.
            | Kind::DiskMerge
            | Kind::SyscallEnter
            | Kind::SyscallExit
            | Kind::Key
            | Kind::CpuIdleMiss
            | Kind::Other => {}
        }
    }

    /// The futex at an address, as a thread calls it; none, if it is a lock of the kernel.
    fn futex_of(&self, thread: ThreadId, address: u64) -> Option<FutexId> {
        let process = self.threads().process(thread);
        (address >> 63 == 0).then_some(FutexId { domain: thread.domain, process, address })
    }

    /// How many threads, connections, waits and processors are remembered: what forgetting looks through.
    pub(crate) fn remembered(&self) -> usize {
        self.replay.remembered()
            + self.connections.remembered()
            + self.holds.remembered()
            + self.given.len()
            + self.handed.len()
            + self.waits.remembered()
    }

    /// Forgets what was over before this time: memory is for what is under way.
    pub fn forget_before(&mut self, time: i64) {
        self.replay.forget_before(time);
        self.disks.forget_before(time);
        self.connections.forget_before(time);
        self.holds.forget_before(time);
        self.vcpus.forget_before(time);
        self.waits.forget_before(time);
        self.given.retain(|(_, woken), _| *woken >= time);
        self.handed.retain(|(_, woken), _| *woken >= time);
        self.futexes.forget_before(time);
        self.power.values_mut().for_each(|power| power.forget_before(time));
    }
}
