//! What is true of a transaction, as only the machine itself can know.

use std::{collections::BTreeMap, fmt};

/// A thread of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// The domain's number.
    pub domain: u8,
    /// The thread's, there; 0 is the idle one.
    pub tid: u32,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.domain, self.tid)
    }
}

/// A processor of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Processor {
    /// The domain's number.
    pub domain: u8,
    /// The processor's, there.
    pub cpu: u32,
}

/// What a moment of a transaction was spent on.
///
/// While its thread waits for an answer, for a child, or for who has a futex, the moment is spent on what the one that it waits for does,
/// which may wait for others in turn. If a task is to answer that no thread carries yet, it is what the one does that will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The thread ran: on a vCPU, while that really ran.
    Running(Who),
    /// An interrupt ran above the thread, on this processor.
    Interrupted(Processor),
    /// More of that, or of the thread's running, than it would have taken at the highest frequency.
    Slow(Who),
    /// It could have run.
    Ready {
        /// The thread.
        who: Who,
        /// Who had the processor that it waited for; thread 0 if an interrupt, or the way out of idling.
        had: Who,
    },
    /// Its access waited for the disk with this device number.
    DiskQueue(u8, u64),
    /// The disk did it.
    DiskDevice(u8, u64),
    /// The disk had done it, and the interrupt that says so had not yet woken the thread. `true`: the interrupt's
    /// handler had not yet begun, so that no event of the thread's domain tells of it.
    DiskCompletion(u8, u64, bool),
    /// It could have run, but had used up its quota the last time that it ran.
    Throttled(Who),
    /// The lock of the kernel's at this address was held.
    Lock {
        /// The address.
        address: u64,
        /// By this thread, at this moment (it waited for the same lock if it is not the one who woke).
        holder: Who,
    },
    /// The thread slept, its time not being over.
    Sleep(Who),
    /// Its time was over, and the timer's interrupt had not yet woken it.
    Late(Who),
    /// A message was on the way from one domain to another, or there and not yet delivered; and, of a request, who
    /// is to serve it was not busy with others.
    Flight {
        /// The number of the domain that sent.
        from: u8,
        /// The number of the domain that is to receive.
        to: u8,
    },
    /// The thread ran or was ready on a guest's processor, which was outside the guest.
    Outside(Processor, Outside),
}

/// What a guest's processor did outside the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outside {
    /// It was halted, and what wakes it was under way.
    Halted,
    /// Its thread was ready in the host, and this one had the processor; thread 0 if it was on the way out of idling.
    Ready(Who),
    /// Its thread had used up its quota.
    Throttled,
    /// The host worked for it.
    Working,
    /// An interrupt of the host was above it.
    Interrupted,
}

/// A thread's work between two moments, in both of which it ran.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The thread.
    pub who: Who,
    /// When it began, in nanoseconds.
    pub from: i64,
    /// When it ended.
    pub to: i64,
    /// What it was spent on, in nanoseconds; they sum to `to - from`.
    pub parts: BTreeMap<Part, i64>,
}
