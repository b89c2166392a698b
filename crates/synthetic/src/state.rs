//! What there is: threads and what they do, processors and what interrupts them, disks and locks.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use xweave_trace::event::{Event, Name, Names};

use crate::{
    disk::Disk,
    id::{Cpu, Thread},
    random::Random,
    truth::{Part, Transaction},
};

/// Why a guest was left, as AMD's SVM numbers it.
pub(crate) const EXIT_INTERRUPT: i32 = 0x60;

/// How long a thread may keep its processor while others wait for it.
pub(crate) const SLICE: i64 = 3_000_000;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the random numbers begin with: the same number, the same events.
    pub random: u64,
    /// Processors of the host, which has the domain number 1.
    pub cpus: u32,
    /// Guests, numbered from 2.
    pub guests: u8,
    /// vCPUs of each.
    pub vcpus: u32,
    /// Threads of each domain that make transactions.
    pub clients: usize,
    /// Threads of each domain that answer, at each of two levels.
    pub servers: usize,
    /// Threads of each domain that clients of it hand jobs to, by a queue with a condition variable.
    pub pool: usize,
    /// Of each domain: one that takes calls and hands them on to so many workers, which answer. 0: there is none.
    pub workers: usize,
    /// Of each domain: threads that carry the tasks of a runtime, as Go's and Tokio's do. There is a task for each
    /// connection, which takes the calls on it, may ask another server, and goes on meanwhile on no thread, and then on
    /// any. 0: there is none.
    pub carriers: usize,
    /// Of a hundred times that a server or a task is asked, so often several requests are sent on the connection before
    /// the first answer is read (pipelining). They are answered in their order.
    pub pipelined: u64,
    /// Whether what is sent are datagrams, each received by a call of its own of which no duration is told (UDP).
    pub datagrams: bool,
    /// Threads of the host that take processor time and belong to no transaction.
    pub others: usize,
    /// Whether clients ask servers of other domains too.
    pub abroad: bool,
    /// Whether every third client of the host and all vCPUs of the first guest may run for a part of the time only, as
    /// `cpu.max` has it.
    pub quotas: bool,
    /// Whether processors of the host save power: they go into idle states, which it takes time to come out of, and run at half
    /// their frequency at times.
    pub power: bool,
    /// So many transactions are made; those that are under way then are not told.
    pub transactions: usize,
}

impl Config {
    /// One domain.
    pub fn single(random: u64) -> Self {
        Self {
            random,
            cpus: 3,
            guests: 0,
            vcpus: 0,
            clients: 6,
            servers: 2,
            pool: 2,
            workers: 2,
            carriers: 3,
            pipelined: 25,
            datagrams: false,
            others: 2,
            abroad: true,
            quotas: true,
            power: false,
            transactions: 10_000,
        }
    }

    /// A host and two guests, that ask each other.
    pub fn virtualized(random: u64) -> Self {
        Self { guests: 2, vcpus: 2, clients: 3, servers: 1, pool: 1, carriers: 2, ..Self::single(random) }
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Sleep,
    Disk,
    Lock(usize),
    /// The answer to its call.
    Answer,
    /// Somebody to call.
    Calls,
    Child(Thread),
    /// A vCPU: interrupts for it.
    Halted,
    /// A carrier: something for any task.
    Poll,
    /// A carrier: another one to need it.
    Park,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Now {
    Ready,
    Running,
    Waiting(Wait),
    Dead,
}

impl Wait {
    /// Whether it is that of a carrier that has nothing to carry.
    pub(crate) fn idles(self) -> bool {
        matches!(self, Self::Poll | Self::Park)
    }
}

/// How far an access to a disk has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Queued,
    Given,
    /// The disk is done; whether the interrupt's handler has said so.
    Done(bool),
    Over,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// On its way to this thread.
    Going(Thread),
    /// There, and perhaps not received yet.
    There(Thread),
    /// The answer, from this thread.
    Coming(Thread),
    Back,
}

pub(crate) struct ThreadState {
    pub(crate) domain: usize,
    pub(crate) tid: u32,
    pub(crate) process: u64,
    pub(crate) name: Name,
    pub(crate) role: Role,
    pub(crate) cpu: Cpu,
    pub(crate) now: Now,
    pub(crate) steps: VecDeque<Step>,
    /// Work that is left of the step under way.
    pub(crate) work: i64,
    /// Its sleep is over.
    pub(crate) late: bool,
    pub(crate) access: (usize, Stage),
    /// Requests of that access that are not done.
    pub(crate) parts: u64,
    /// Its calls of which it has not received the answers, the oldest first. They are answered in their order.
    pub(crate) asked: VecDeque<Call>,
    /// Who calls it, in their order, and whose socket the call came on.
    pub(crate) calls: VecDeque<(Thread, Thread)>,
    /// Since when it waits in a call that receives.
    pub(crate) receiving: Option<i64>,
    /// Who is about to give it the futex that it waits for.
    pub(crate) giver: Option<Thread>,
    /// How much it may run, if that is limited.
    pub(crate) quota: Option<Quota>,
    pub(crate) parent: Option<Thread>,
    /// Its transaction under way.
    pub(crate) open: Option<usize>,
    /// Its requests under way on a connection.
    pub(crate) requests: Option<usize>,
    /// The guest's processor that it is.
    pub(crate) backs: Option<Cpu>,
    /// Of a carrier: its task; of a task: its carrier.
    pub(crate) carries: Option<Thread>,
}

impl ThreadState {
    /// The oldest of its calls that is `before` goes on.
    pub(crate) fn call_goes_on(&mut self, before: impl Fn(Call) -> bool, after: Call) {
        if let Some(call) = self.asked.iter_mut().find(|call| before(**call)) {
            *call = after;
        }
    }
}

/// A part of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    /// Left of this period.
    pub(crate) left: i64,
    /// It has been used up while it ran, and it has not run since.
    pub(crate) used_up: bool,
    /// It is not among those that may run.
    pub(crate) withheld: bool,
}

/// What a quota gives in each [`PERIOD`].
pub(crate) const QUOTA: i64 = 4_000_000;

/// How often it does.
pub(crate) const PERIOD: i64 = 9_000_000;

#[derive(Default)]
pub(crate) struct CpuState {
    pub(crate) domain: usize,
    /// Its number in its domain.
    pub(crate) number: u32,
    pub(crate) current: Option<Thread>,
    pub(crate) queue: VecDeque<Thread>,
    /// Time left to the current thread.
    pub(crate) slice: i64,
    /// Interrupts under way, the innermost last.
    pub(crate) frames: Vec<VecDeque<Phase>>,
    /// Interrupts that wait for a hard one to end.
    pub(crate) pending: VecDeque<Irq>,
    /// A hard interrupt is under way.
    pub(crate) hard: bool,
    /// A soft one is.
    pub(crate) soft: bool,
    /// The current thread is to leave, if another one waits.
    pub(crate) leave: bool,
    /// Of a guest's processor.
    pub(crate) vcpu: Option<Vcpu>,
    /// The idle state that it is in, and nothing has begun to bring it out of.
    pub(crate) idle: Option<usize>,
    /// It runs at half its frequency.
    pub(crate) slow: bool,
}

pub(crate) struct Domain {
    pub(crate) number: u8,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) disks: Vec<usize>,
    pub(crate) locks: Vec<usize>,
    /// Threads that answer, by level.
    pub(crate) servers: [Vec<Thread>; LEVELS],
    pub(crate) runtime: Runtime,
    /// By their numbers, from [`FIRST`] on.
    pub(crate) threads: Vec<Thread>,
}

/// The number of each domain's first thread.
pub(crate) const FIRST: u32 = 1001;

/// What the carriers share, which no kernel knows of.
#[derive(Default)]
pub(crate) struct Runtime {
    pub(crate) carriers: Vec<Thread>,
    /// One for each who asks.
    pub(crate) tasks: BTreeMap<Thread, Thread>,
    /// Tasks that something has come for, and no carrier has seen it.
    pub(crate) readable: VecDeque<Thread>,
    /// Tasks that can go on.
    pub(crate) ready: VecDeque<Thread>,
    /// Who waits for what comes, or has just been woken by that.
    pub(crate) polls: Option<Thread>,
}

/// What servers there are: those that clients ask, the tasks that they ask, those that these ask, those that get jobs from
/// clients of their process, those that hand calls on, and those that get them from these. None asks one before it.
pub(crate) const LEVELS: usize = 6;
pub(crate) const SERVER: usize = 0;
pub(crate) const TASK: usize = 1;
pub(crate) const STORE: usize = 2;
pub(crate) const POOL: usize = 3;
pub(crate) const DISPATCHER: usize = 4;
pub(crate) const WORKER: usize = 5;

pub(crate) struct Lock {
    pub(crate) address: u64,
    /// It is a futex: who waits for it waits for what its owner does.
    pub(crate) futex: bool,
    pub(crate) owner: Option<Thread>,
    /// The last that had it.
    pub(crate) last: Thread,
    /// The last that was to have it next.
    pub(crate) next: Option<Thread>,
    pub(crate) waiters: VecDeque<Thread>,
}

/// What happens at a time that is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// A thread's sleep is over.
    Awake(Thread),
    /// A disk has done the request at this place.
    Disk(usize, usize),
    /// A message from one thread to another comes into the other's domain; `true`: an answer.
    Arrive(Thread, Thread, bool),
    /// A processor gets an interrupt that is nobody's.
    Noise(Cpu),
    /// A thread's quota begins anew.
    Refill(Thread),
    /// A processor changes its frequency.
    Frequency(Cpu),
}

/// The machine. It is an iterator of events, which ends when all transactions are made.
pub struct Simulation {
    pub(crate) now: i64,
    pub(crate) random: Random,
    pub(crate) domains: Vec<Domain>,
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) threads: Vec<ThreadState>,
    pub(crate) disks: Vec<Disk>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) names: Names,
    pub(crate) alarms: BinaryHeap<Reverse<(i64, u64, Alarm)>>,
    pub(crate) alarmed: u64,
    /// Transactions under way; an empty place is free.
    pub(crate) open: Vec<Option<Open>>,
    pub(crate) made: Vec<Transaction>,
    pub(crate) answered: Vec<Transaction>,
    pub(crate) left: usize,
    pub(crate) abroad: bool,
    pub(crate) pipelined: u64,
    pub(crate) datagrams: bool,
    pub(crate) power: bool,
    pub(crate) told: VecDeque<Event>,
    /// Processors that may have something else to do now.
    pub(crate) changed: Vec<Cpu>,
}

/// A transaction under way.
pub(crate) struct Open {
    pub(crate) thread: Thread,
    /// It is its requests': not what the thread does meanwhile, but what is done for them.
    pub(crate) requests: bool,
    pub(crate) transaction: Transaction,
    /// What each carrier does while a task that it may be the one to take waits for any.
    pub(crate) queued: BTreeMap<(Thread, Thread), BTreeMap<Part, i64>>,
}

/// What a thread is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It makes transactions.
    Client,
    /// It answers, at one of the [`LEVELS`]. A task is no thread of the kernel's, and none of its events is told of.
    Server(usize),
    /// It carries tasks.
    Carrier,
    /// It takes processor time.
    Other,
    /// It was made by another, which waits for its end.
    Child,
    /// A guest's processor.
    Vcpu,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server(SERVER) => "server",
            Self::Server(TASK) => "task",
            Self::Server(STORE) => "store",
            Self::Server(POOL) => "pool",
            Self::Server(DISPATCHER) => "dispatcher",
            Self::Server(_) => "worker",
            Self::Carrier => "carrier",
            Self::Other => "other",
            Self::Child => "child",
            Self::Vcpu => "CPU/KVM",
        }
    }
}

/// What a thread does next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The transaction begins.
    Begin,
    /// It ends.
    End,
    /// Takes processor time.
    Work(i64),
    /// Waits for so long.
    Sleep(i64),
    /// Waits, unless that is over already.
    Block(Wait),
    /// The same, in a call for a futex at this address.
    Futex(u64, Wait),
    /// That call is over.
    FutexOver(u64),
    /// The same as [`Step::Block`], in a read of this pipe.
    Pipe(u64, Wait),
    /// That call, which began then, is over.
    PipeRead(u64, i64),
    /// A page fault that began then is over, or a swap-in.
    Fault(i64),
    /// Takes a lock.
    Take(usize),
    /// Tries again, having been woken.
    Retake(usize),
    /// Gives it back.
    Give(usize),
    /// Wakes a thread that waited for that lock.
    Wake(Thread, usize),
    /// Asks a disk for bytes at a sector; `true`: and waits for them.
    Read(usize, u64, u64, bool),
    /// Asks a thread, and goes on.
    AskAhead(Thread),
    /// Asks a thread, and waits for its answer and those to earlier calls; before, it sleeps for so long.
    Ask(Thread, i64),
    /// Takes the answer, or several.
    Answered(Thread),
    /// Takes a call.
    Serve,
    /// Hands the call of this thread on.
    HandOver(Thread),
    /// Answers it, on this one's socket.
    Answer(Thread, Thread),
    /// A carrier goes on with the next task.
    Carry,
    /// It looks for tasks that something has come for.
    Poll,
    /// It lets another one do so.
    Unpark,
    /// The task waits, unless that is over already: its carrier goes on with others.
    Yield(Wait),
    /// Makes a child, and waits for its end.
    Fork,
    /// Tells its parent.
    Exit,
    /// Ends.
    Die,
}

/// An interrupt: what its handlers do.
#[derive(Clone, Debug)]
pub(crate) struct Irq {
    pub(crate) object: u64,
    pub(crate) phases: VecDeque<Phase>,
}

/// A part of an interrupt.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// It takes time.
    Work(i64),
    /// The handler begins; whether it is soft, and its number.
    Enter(bool, u64),
    /// The handler of a softirq that a thread has raised begins.
    Raised(u64),
    /// It ends.
    Exit(bool, u64),
    /// It does something.
    Do(Act),
}

/// What handlers do.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A thread's time is over.
    Awake(Thread),
    /// The disk has done the request at this place: tells so.
    DiskDone(usize, usize),
    /// Wakes who waited for it.
    DiskWake(Vec<Thread>),
    /// A message from one thread to another, perhaps an answer, is there.
    Deliver(Thread, Thread, bool),
    /// A guest's processor gets an interrupt.
    Kick(Cpu, Box<Irq>),
    /// The thread's time slice is over.
    Leave,
    /// The processor has come out of its idle state.
    ComeOut,
    /// Wakes a thread that runs, and may have been about to wait: it does not.
    WakeRunning,
}

impl Phase {
    /// The time that it takes yet.
    pub(crate) fn left(&self) -> i64 {
        if let Self::Work(left) = self { *left } else { 0 }
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, step: i64) {
        if let Self::Work(left) = self {
            *left -= step;
        }
    }
}

/// Where a vCPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the guest.
    Guest,
    /// In the host, which has so much to do for it yet.
    Out { left: i64 },
}

/// A vCPU.
pub(crate) struct Vcpu {
    pub(crate) thread: Thread,
    pub(crate) mode: Mode,
    /// Interrupts that it gets when it goes into the guest.
    pub(crate) injected: VecDeque<Irq>,
    /// Other processors that it is to tell, being out for that.
    pub(crate) kicks: Vec<(Cpu, Irq)>,
    pub(crate) halting: bool,
    pub(crate) halted: Option<i64>,
}

impl Vcpu {
    pub(crate) fn new(thread: Thread) -> Self {
        let (injected, kicks) = (VecDeque::new(), Vec::new());
        Self { thread, mode: Mode::Out { left: 0 }, injected, kicks, halting: false, halted: None }
    }
}
