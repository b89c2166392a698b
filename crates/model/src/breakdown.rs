//! Where the time between two moments of a thread went.
//!
//! The way goes back along the thread's line. While it ran or was ready, it was its own time, less that of
//! interrupts above it. While it waited for a disk, it was the disk's. While it waited and another thread woke it,
//! it was what that thread did meanwhile, which is told in the same way: so the way goes on through wakers, as far
//! as there are any. The parts neither overlap nor leave a gap, so they sum to the whole exactly.

use std::fmt;

use xweave_trace::event::State;

use crate::{
    disk::DiskId,
    machine::{CpuId, Machine},
    thread::{Doing, Ended, ThreadId},
};

/// Wakers of wakers up to here: further, and where threads have woken each other in a circle, a wait is a wait.
const DEPTH: usize = 32;

/// Whose time it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// A thread.
    Thread(ThreadId),
    /// A disk.
    Disk(DiskId),
    /// A lock at an address, and who held it.
    Lock {
        /// The address.
        address: u64,
        /// The thread that gave it away.
        holder: ThreadId,
    },
    /// Interrupts of a processor.
    Interrupts(CpuId),
}

/// What it was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Spent {
    /// A thread ran, or interrupts did above it.
    Running,
    /// It could have run, and had no processor.
    Ready,
    /// An access waited for the disk.
    Queue,
    /// The disk did it.
    Device,
    /// What a disk had done was on its way back to who waited.
    Completion,
    /// The lock was held.
    Held,
    /// The thread waited for a time, a device, or something that no event tells of.
    Waiting,
    /// What the thread did is not known: the trace begins later, or events were lost.
    Unknown,
}

impl Spent {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Queue => "queue",
            Self::Device => "device",
            Self::Completion => "completion",
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A piece of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its beginning, in nanoseconds.
    pub from: i64,
    /// Its end, the next one's beginning.
    pub to: i64,
    /// Whose it was.
    pub object: Object,
    /// What it was spent on.
    pub spent: Spent,
}

/// The pieces of a thread's time between two moments, in their order and without gaps.
pub fn breakdown(machine: &Machine, thread: ThreadId, from: i64, to: i64) -> Vec<Piece> {
    let mut way = Way { machine, on: Vec::new(), pieces: Vec::new() };
    way.follow(thread, from, to);
    way.pieces
}

struct Way<'m> {
    machine: &'m Machine,
    /// The threads whose waits have led here.
    on: Vec<ThreadId>,
    pieces: Vec<Piece>,
}

impl Way<'_> {
    /// Adds a piece, to the one before it if that is the same.
    fn add(&mut self, from: i64, to: i64, object: Object, spent: Spent) {
        if from >= to {
            return;
        }
        match self.pieces.last_mut() {
            Some(last) if last.to == from && (last.object, last.spent) == (object, spent) => last.to = to,
            _ => self.pieces.push(Piece { from, to, object, spent }),
        }
    }

    fn follow(&mut self, id: ThreadId, from: i64, to: i64) {
        let me = Object::Thread(id);
        let machine = self.machine;
        let Some(thread) = machine.threads.get(id) else {
            return self.add(from, to, me, Spent::Unknown);
        };
        self.on.push(id);
        for (a, b, doing) in thread.between(from, to) {
            match doing {
                None => self.add(a, b, me, Spent::Unknown),
                Some(Doing::Ready) => self.add(a, b, me, Spent::Ready),
                Some(Doing::Running { cpu }) => self.running(id, CpuId { domain: id.domain, cpu }, a, b),
                Some(Doing::Waiting { state, over }) => self.waiting(id, state, over, a, b),
            }
        }
        self.on.pop();
    }

    fn running(&mut self, id: ThreadId, cpu: CpuId, from: i64, to: i64) {
        let me = Object::Thread(id);
        let mut at = from;
        for interrupt in self.machine.cpu(cpu).into_iter().flat_map(|cpu| cpu.interrupts(from, to)) {
            self.add(at, interrupt.from, me, Spent::Running);
            self.add(interrupt.from, interrupt.to, Object::Interrupts(cpu), Spent::Running);
            at = interrupt.to;
        }
        self.add(at, to, me, Spent::Running);
    }

    /// A wait, or the part of it between two moments.
    fn waiting(&mut self, id: ThreadId, state: State, over: Option<Ended>, from: i64, to: i64) {
        let me = Object::Thread(id);
        match over {
            Some(Ended::Interrupt { access: Some(number) }) => {
                let Some(access) = self.machine.disks.access(number) else {
                    return self.add(from, to, me, Spent::Waiting);
                };
                let disk = Object::Disk(access.disk);
                let issued = access.issued.unwrap_or(access.queued).clamp(from, to);
                let done = access.done.unwrap_or(to).clamp(issued, to);
                // It waited before the access was asked for only if somebody else did that.
                let queued = access.queued.clamp(from, issued);
                self.add(from, queued, me, Spent::Waiting);
                self.add(queued, issued, disk, Spent::Queue);
                self.add(issued, done, disk, Spent::Device);
                self.add(done, to, disk, Spent::Completion);
            }
            Some(Ended::Thread(waker)) if waker != id => {
                if let Some(address) = self.machine.lock(id, to) {
                    return self.add(from, to, Object::Lock { address, holder: waker }, Spent::Held);
                }
                if self.on.contains(&waker) || self.on.len() >= DEPTH || state == State::Stopped {
                    return self.add(from, to, me, Spent::Waiting);
                }
                self.follow(waker, from, to);
            }
            _ => self.add(from, to, me, Spent::Waiting),
        }
    }
}
