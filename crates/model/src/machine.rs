//! What runs where: processors, the interrupts above their threads, and all that events change.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_trace::{
    Trace,
    event::{Context, Event, Kind, Quota, State, VECTORS},
};

use crate::{
    connection::Connections,
    disk::Disks,
    gaps::Gaps,
    group::Recorders,
    guests::Guests,
    lock::Waits,
    loss::Loss,
    power::{self, Highest, PowerOfCpu},
    qdisc::Qdiscs,
    thread::{Ended, Source, ThreadId, Threads},
    vcpu::{CpuId, Guest, Vcpus},
    wait::{CallWaits, WaitedFor},
};

/// More accesses than this an interrupt does not end.
const ENDED: usize = 1 << 10;

/// Interrupts of a processor that are above one another are no more: a soft one, hard ones and their handlers, and one
/// that cannot be masked. Of what is beyond, the end of the oldest was not seen.
pub(crate) const NESTED: usize = 16;

/// A time in which a processor did one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its beginning, in nanoseconds.
    pub from: i64,
    /// Its end.
    pub to: i64,
    /// The thread that had the processor; 0 is the idle one.
    pub tid: u32,
}

/// An interrupt, hard or soft, above a thread.
#[derive(Clone, Copy, Debug)]
struct Frame {
    from: i64,
    soft: bool,
    /// A softirq that the thread below raised, by what it did.
    by_thread: bool,
    source: Source,
}

/// Softirqs, as `include/linux/interrupt.h` numbers them.
mod softirq {
    pub(super) const TIMER: u64 = 1;
    pub(super) const NET_TX: u64 = 2;
    pub(super) const NET_RX: u64 = 3;
    pub(super) const HRTIMER: u64 = 8;
}

/// `LOCAL_TIMER_VECTOR` of arch/x86/include/asm/irq_vectors.h.
const LOCAL_TIMER: u64 = VECTORS | 0xec;

/// A handler that ends an access and wakes who waits for it does so within this time. It is asked only where interrupts
/// themselves were not recorded: then an access that ended longer ago was another interrupt's.
const HANDLER: i64 = 100_000;

/// An access that an interrupt has ended.
#[derive(Clone, Copy, Debug)]
struct Over {
    /// When.
    time: i64,
    /// How many interrupts there were.
    depth: usize,
    number: u64,
    /// Who asked for it.
    by: Option<ThreadId>,
}

/// A processor.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    tid: u32,
    /// Since when; none before the first switch that was seen.
    since: Option<i64>,
    frames: Vec<Frame>,
    /// Since a hard interrupt ended, nothing but interrupts has happened.
    after_irq: bool,
    /// The last that happened: this thread was woken.
    waking: Option<ThreadId>,
    /// Accesses that interrupts under way have ended, in the order of how many of those there were.
    ended: Vec<Over>,
    threads: VecDeque<Interval>,
    /// Interrupts, the outermost only.
    interrupts: VecDeque<Interval>,
    /// When its events were lost.
    gaps: Gaps,
    power: PowerOfCpu,
    /// Since the last of these times nothing has shown who runs.
    lost: Option<i64>,
    /// Nor whether an interrupt is under way.
    unsure: Option<i64>,
}

impl Cpu {
    /// Who had the processor between two times.
    pub fn threads(&self, from: i64, to: i64) -> impl Iterator<Item = Interval> + '_ {
        let last = self.since.map(|since| Interval { from: since, to: i64::MAX, tid: self.tid });
        overlapping(&self.threads, from, to).chain(last.into_iter().flat_map(move |s| clipped(s, from, to)))
    }

    /// The interrupts between two times, whatever thread was below. None overlaps another.
    pub fn interrupts(&self, from: i64, to: i64) -> impl Iterator<Item = Interval> + '_ {
        let open =
            self.frames.first().map(|frame| Interval { from: frame.from, to: i64::MAX, tid: self.tid });
        overlapping(&self.interrupts, from, to)
            .chain(open.into_iter().flat_map(move |s| clipped(s, from, to)))
    }

    /// When its events were lost between two times.
    pub(crate) fn gaps(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.gaps.between(from, to)
    }

    /// Its idle states and frequencies.
    pub(crate) fn power(&self) -> &PowerOfCpu {
        &self.power
    }

    /// Its events were lost between two times.
    fn lose(&mut self, from: i64, to: i64) {
        let until = |since: i64, tid| (since < from).then_some(Interval { from: since, to: from, tid });
        self.threads.extend(self.since.take().and_then(|since| until(since, self.tid)));
        self.interrupts.extend(self.frames.first().and_then(|frame| until(frame.from, self.tid)));
        self.frames.clear();
        self.ended.clear();
        self.after_irq = false;
        self.gaps.add(from, to);
        self.power.lose(from);
        (self.lost, self.unsure) = (Some(to), Some(to));
    }

    fn enter(&mut self, event: &Event, soft: bool) {
        let (time, number) = (event.time_ns, event.object);
        let by_thread = match Context::of(event.code).filter(|_| soft) {
            Some(raised) => raised == Context::Task,
            // Softirqs come at once after hard ones that raised them. Others than the network's are theirs anyway.
            None => {
                let network = matches!(number, softirq::NET_TX | softirq::NET_RX);
                soft && network && self.frames.is_empty() && !self.after_irq
            }
        };
        let source = match (soft, number) {
            (true, softirq::TIMER | softirq::HRTIMER) | (false, LOCAL_TIMER) => Source::Timer,
            (true, softirq::NET_TX | softirq::NET_RX) => Source::Network,
            _ => Source::Other,
        };
        if self.frames.is_empty() {
            self.ended.clear();
        } else if self.frames.len() >= NESTED {
            self.frames.remove(0);
            self.ended.clear();
        }
        self.frames.push(Frame { from: time, soft, by_thread, source });
    }

    fn leave(&mut self, time: i64, soft: bool) {
        // An end whose beginning was not seen ends nothing, unless that was lost.
        let Some(at) = self.frames.iter().rposition(|frame| frame.soft == soft) else {
            let begun = self.unsure.take().filter(|lost| self.frames.is_empty() && *lost < time);
            self.interrupts.extend(begun.map(|lost| Interval { from: lost, to: time, tid: self.tid }));
            return;
        };
        let outermost = self.frames[0];
        self.frames.truncate(at);
        let over = self.ended.iter().rev().take_while(|over| over.depth > at).count();
        self.ended.truncate(self.ended.len() - over);
        if self.frames.is_empty() {
            self.interrupts.push_back(Interval { from: outermost.from, to: time, tid: self.tid });
        }
        self.after_irq |= !soft;
    }
}

fn clipped(stretch: Interval, from: i64, to: i64) -> impl Iterator<Item = Interval> {
    let Interval { from: a, to: b, tid } = stretch;
    let (a, b) = (a.max(from), b.min(to));
    (a < b).then_some(Interval { from: a, to: b, tid }).into_iter()
}

fn overlapping(past: &VecDeque<Interval>, from: i64, to: i64) -> impl Iterator<Item = Interval> + '_ {
    let first = past.partition_point(|stretch| stretch.to <= from);
    let these = past.range(first..).copied().take_while(move |stretch| stretch.from < to);
    these.flat_map(move |stretch| clipped(stretch, from, to))
}

/// The kernels of a trace, as events tell of them.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Threads.
    pub threads: Threads,
    /// Disks.
    pub disks: Disks,
    /// Connections.
    pub connections: Connections,
    /// Queueing disciplines.
    pub qdiscs: Qdiscs,
    /// vCPUs.
    pub vcpus: Vcpus,
    /// Who recorded them.
    pub(crate) recorders: Recorders,
    /// The processors' highest frequencies.
    pub(crate) highest: Highest,
    cpus: FxHashMap<CpuId, Cpu>,
    /// Threads that wait for locks.
    locks: FxHashMap<ThreadId, Waits>,
    /// What waits within calls were for.
    waits: CallWaits,
    /// Locks that ended a wait, and who gave them: by who waited and when the wait was over.
    given: FxHashMap<(ThreadId, i64), u64>,
    /// What will have been lost, in the order of the times.
    losses: VecDeque<Loss>,
    /// The end of the latest loss so far.
    lost_until: i64,
}

impl Machine {
    /// Kernels of which nothing was seen yet, some of them run by others.
    pub fn new(guests: Vec<Guest>) -> Self {
        Self { vcpus: Vcpus::new(guests), ..Self::default() }
    }

    /// The kernels of a trace, of whose events some were lost.
    pub fn of(trace: &Trace, losses: Vec<Loss>) -> Self {
        Self { recorders: Recorders::of(trace), ..Self::lossy(Guests::of(trace).all, losses) }
    }

    /// A processor, if something was seen of it.
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus.get(&id)
    }

    /// The lock that a thread had been waiting for when it was woken at this time.
    pub fn lock(&self, thread: ThreadId, woken: i64) -> Option<u64> {
        self.given.get(&(thread, woken)).copied()
    }

    /// What a wait that was over at this time was for, if an event at the end of the call told that.
    pub fn waited_for(&self, thread: ThreadId, over: i64) -> Option<WaitedFor> {
        self.waits.of(thread, over)
    }

    /// Whether events of a domain were lost between two times: on any of its CPUs, or on this one.
    pub fn lost(&self, domain: u8, cpu: Option<u32>, from: i64, to: i64) -> bool {
        // Nothing was lost of most traces.
        self.lost_until > from
            && self.cpus.iter().any(|(id, here)| {
                id.domain == domain
                    && cpu.is_none_or(|cpu| cpu == id.cpu)
                    && here.gaps(from, to).next().is_some()
            })
    }

    /// The same, whose processors have these highest frequencies in the recording.
    pub fn with_highest(self, highest: Highest) -> Self {
        Self { highest, ..self }
    }

    /// Kernels of whose events some were lost.
    pub fn lossy(guests: Vec<Guest>, mut losses: Vec<Loss>) -> Self {
        losses.sort_unstable_by_key(|loss| loss.from);
        Self { losses: losses.into(), ..Self::new(guests) }
    }

    /// Takes in an event. A domain's events come in the order of their times.
    pub fn feed(&mut self, event: &Event) {
        self.until(event.time_ns);
        if !matches!(event.kind, Kind::Thread | Kind::Lost) {
            self.vcpus.seen(CpuId { domain: event.domain, cpu: event.cpu }, event.time_ns);
        }
        self.take(event);
        // What is seen amid a loss is true of that moment only.
        if event.time_ns < self.lost_until {
            let id = CpuId { domain: event.domain, cpu: event.cpu };
            let lost = self.cpus.get(&id).and_then(|cpu| cpu.gaps.end()).filter(|to| *to > event.time_ns);
            if let Some(to) = lost {
                self.lose(Loss { cpu: id, from: event.time_ns, to });
            }
        }
    }

    /// Time goes on until then: something may have been lost.
    pub fn until(&mut self, time: i64) {
        while let Some(&loss) = self.losses.front().filter(|loss| loss.from <= time) {
            self.losses.pop_front();
            self.lose(loss);
        }
    }

    fn lose(&mut self, loss: Loss) {
        let Loss { cpu: id, from, to } = loss;
        self.lost_until = self.lost_until.max(to);
        let here = self.cpus.entry(id).or_default();
        let had = ThreadId { domain: id.domain, tid: here.tid };
        here.lose(from, to);
        self.threads.lose(had, id.cpu, from, to);
        self.vcpus.lose(from, had);
        self.disks.lose(id.domain, to);
        self.qdiscs.lose(id.domain);
    }

    fn take(&mut self, event: &Event) {
        let Event { time_ns: time, domain, cpu, tid, other, .. } = *event;
        let id = |tid| ThreadId { domain, tid };
        let here = self.cpus.entry(CpuId { domain, cpu }).or_default();
        // Softirqs come at once after hard ones that raised them: whatever else happens is the thread's.
        let interrupts =
            matches!(event.kind, Kind::IrqEnter | Kind::IrqExit | Kind::SoftirqEnter | Kind::SoftirqExit);
        here.after_irq &= interrupts || !here.frames.is_empty();
        let waking = here.waking.take();
        // What the thread is that an event is of shows who has run since events were lost. Names are told of any.
        if !matches!(event.kind, Kind::Thread | Kind::Lost)
            && let Some(since) = here.lost.take()
        {
            let since = since.min(time);
            (here.tid, here.since) = (tid, Some(since));
            self.threads.runs(id(tid), time, cpu, since);
        }
        match event.kind {
            Kind::Switch => {
                // Who is seen to leave it first has had it since before the trace.
                let (since, had) =
                    here.since.replace(time).map_or((i64::MIN, tid), |since| (since, here.tid));
                if since < time {
                    here.threads.push_back(Interval { from: since, to: time, tid: had });
                }
                here.tid = other;
                // Interrupts do not switch: an end was lost.
                here.frames.clear();
                here.ended.clear();
                here.after_irq = false;
                here.unsure = None;
                self.threads.switch(domain, time, cpu, tid, State::of(event.code), other);
            }
            Kind::Wake => {
                let thread = tid != 0
                    && match Context::of(event.code) {
                        Some(Context::Task) => true,
                        // Without its beginning, nobody knows who raised it.
                        Some(Context::Softirq) => {
                            !here.frames.is_empty() && here.frames.iter().all(|frame| frame.by_thread)
                        }
                        Some(Context::Hard) => false,
                        None => here.frames.iter().all(|frame| frame.by_thread),
                    };
                let waker = if here.unsure.is_some() && here.frames.is_empty() {
                    Ended::Lost
                } else if thread {
                    let softirq = Context::of(event.code) != Some(Context::Task) && !here.frames.is_empty();
                    Ended::Thread { by: id(tid), softirq }
                } else {
                    // Not those of an interrupt below: a timer may come above a disk's.
                    let depth = here.frames.len();
                    let from = here.ended.partition_point(|over| {
                        over.depth < depth || depth == 0 && over.time < time.saturating_sub(HANDLER)
                    });
                    let ended = &here.ended[from..];
                    let asked = ended.iter().rev().find(|over| over.by == Some(id(other)));
                    // Of those that others asked for, only what is known to be this interrupt's may be what it waited for.
                    let other = || ended.last().filter(|_| depth > 0);
                    let access = asked.or_else(other).map(|over| over.number);
                    Ended::Interrupt {
                        access,
                        source: here.frames.last().map_or(Source::Other, |frame| frame.source),
                        cpu,
                    }
                };
                here.waking = Some(id(other));
                let cpu = event.object.checked_sub(1).and_then(|cpu| u32::try_from(cpu).ok());
                if let Some(since) = self.threads.wake(id(other), time, waker, cpu, Quota::of(event.code)) {
                    let lost = self.threads.last_loss(domain);
                    let waits = self.locks.get(&id(other)).filter(|waits| waits.since() >= lost);
                    if let Some(lock) = waits.and_then(Waits::innermost) {
                        self.given.insert((id(other), time), lock);
                    }
                    // What comes by the network wakes in its softirq, never in a hard interrupt.
                    let local = matches!(waker, Ended::Interrupt { source: Source::Timer, .. })
                        || Context::of(event.code) == Some(Context::Hard);
                    self.connections.woken(id(other), since, time, local);
                    self.waits.woken(id(other), since, time, waker);
                }
            }
            Kind::Migrate => {
                let [from, to] = [event.position, event.object].map(u32::try_from);
                if let (Ok(from), Ok(to)) = (from, to) {
                    let thread = id(other);
                    self.threads.migrate(thread, time, from, to, waking == Some(thread));
                }
            }
            Kind::Fork => {
                self.threads.fork(id(other), id(tid), time);
                self.threads.describe(id(other), event.object, event.name, time);
            }
            Kind::Thread => self.threads.describe(id(other), event.object, event.name, time),
            Kind::DiskQueue => {
                self.disks.queue(event);
            }
            Kind::DiskIssue => self.disks.issue(event),
            Kind::DiskComplete => {
                let ended = self.disks.done(event).ended;
                let depth = here.frames.len();
                // Interrupts or their ends may not be recorded, and nothing else happen on this processor.
                if here.ended.len() >= ENDED {
                    here.ended.clear();
                }
                for number in ended {
                    if let Some(below) = here.ended.last().filter(|over| over.depth == depth) {
                        self.disks.lies_on(number, below.number);
                    }
                    let by = self.disks.access(number).map(|access| access.thread);
                    here.ended.push(Over { time, depth, number, by });
                }
            }
            Kind::DiskRemap => {
                self.disks.remap(event);
            }
            Kind::IrqEnter => {
                here.enter(event, false);
                self.vcpus.interrupted(time, id(tid));
            }
            Kind::IrqExit => here.leave(time, false),
            Kind::SoftirqEnter => {
                here.enter(event, true);
                self.vcpus.interrupted(time, id(tid));
            }
            Kind::SoftirqExit => here.leave(time, true),
            Kind::LockWait => {
                self.locks.entry(id(tid)).or_default().begin(event.object, time);
            }
            Kind::LockAcquired => {
                if let Some(waits) = self.locks.get_mut(&id(tid)) {
                    waits.end(event.object);
                    if waits.is_empty() {
                        self.locks.remove(&id(tid));
                    }
                }
            }
            Kind::Send => self.connections.send(event, id(tid), self.threads.last_loss(domain)),
            Kind::Receive => self.connections.receive(event, id(tid), self.threads.last_loss(domain)),
            Kind::Accept => self.connections.accept(event, id(tid)),
            Kind::Socket => {
                let thread = here.frames.is_empty() && tid != 0;
                self.connections.state(event, thread.then(|| id(tid)));
            }
            Kind::Retransmit => self.connections.repeat(event),
            Kind::SynDrop => self.connections.refuse(event),
            Kind::QdiscEnqueue => self.qdiscs.enqueue(event),
            Kind::QdiscDequeue => self.qdiscs.dequeue(event),
            Kind::PipeWrite => self.waits.pipe_write(event, id(tid)),
            Kind::PipeRead => {
                if self.waits.pipe_read(event, id(tid)) {
                    self.connections.waited_for_another(id(tid));
                }
            }
            Kind::PipeFull => self.waits.pipe_full(event, id(tid)),
            Kind::PageFault => self.waits.fault(event, id(tid), WaitedFor::PageOf(event.name)),
            Kind::SwapIn => self.waits.fault(event, id(tid), WaitedFor::Swapped),
            Kind::VmEnter => {
                let process = self.threads.get(id(tid)).map_or(0, |thread| thread.process);
                self.vcpus.enter(event, id(tid), process);
            }
            Kind::VmExit => self.vcpus.exit(time, id(tid), Some(event.code), self.threads.last_loss(domain)),
            Kind::CpuIdle => here.power.idles(event),
            Kind::CpuFrequency => {
                if let Some((cpu, khz)) = power::frequency(event) {
                    self.cpus.entry(cpu).or_default().power.runs_at(time, khz);
                }
            }
            // A thread's end is told by the switch from it.
            Kind::Exit => self.connections.ended(id(tid)),
            Kind::DiskMerge
            | Kind::LockWake
            | Kind::SyscallEnter
            | Kind::SyscallExit
            | Kind::VmHalt
            | Kind::VmInject
            | Kind::Key
            | Kind::CpuIdleMiss
            | Kind::Lost
            | Kind::Other => {}
        }
    }

    /// How many threads, connections, waits and processors are remembered: what forgetting looks through.
    pub(crate) fn remembered(&self) -> usize {
        self.threads.len()
            + self.connections.remembered()
            + self.qdiscs.remembered()
            + self.given.len()
            + self.waits.remembered()
            + self.cpus.len()
    }

    /// Forgets what was over before this time: memory is for what is under way.
    pub fn forget_before(&mut self, time: i64) {
        self.threads.forget_before(time);
        self.disks.forget_before(time);
        self.connections.forget_before(time);
        self.qdiscs.forget_before(time);
        self.vcpus.forget_before(time);
        self.waits.forget_before(time);
        self.given.retain(|(_, woken), _| *woken >= time);
        for cpu in self.cpus.values_mut() {
            for past in [&mut cpu.threads, &mut cpu.interrupts] {
                let over = past.partition_point(|stretch| stretch.to <= time);
                past.drain(..over);
            }
            cpu.gaps.forget_before(time);
            cpu.power.forget_before(time);
        }
    }
}
