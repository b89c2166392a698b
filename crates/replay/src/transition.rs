//! What an event means: the transitions that analyses read.

use xweave_trace::event::{Context, State};

use crate::{
    ids::{CpuId, ThreadId},
    loss::Loss,
    thread::Ended,
};

/// A change of what threads and CPUs do. Times are in nanoseconds of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Events of a CPU were lost, from [`Loss::from`] to [`Loss::to`]: what happened there is unknown.
    Lost {
        /// Where and when.
        loss: Loss,
        /// The thread that ran there before; its `tid` is 0 if that was the idle thread or is unknown.
        had: ThreadId,
    },
    /// A CPU ran one thread, interrupts above it included. Follows from the switch that ends it, or from a loss.
    Ran {
        /// The CPU.
        cpu: CpuId,
        /// The thread; 0 is the idle thread.
        tid: u32,
        /// When it was dispatched; `i64::MIN` if before the first event.
        from: i64,
        /// When it left.
        to: i64,
    },
    /// A thread left its CPU.
    Left {
        /// The thread, never the idle one.
        thread: ThreadId,
        /// The CPU that it left.
        cpu: u32,
        /// When.
        time: i64,
        /// The state in which it left: still runnable, asleep, dead.
        state: State,
    },
    /// A thread was given a CPU.
    Dispatched {
        /// The thread, never the idle one.
        thread: ThreadId,
        /// The CPU.
        cpu: u32,
        /// When.
        time: i64,
    },
    /// A wakeup ended a thread's wait: it is ready. A wakeup of a thread that runs or is ready is no transition.
    Woken {
        /// The thread.
        thread: ThreadId,
        /// When.
        time: i64,
        /// Since when it had waited.
        since: i64,
        /// Whether the beginning of the wait was seen; otherwise the thread may have waited for longer.
        whole: bool,
        /// Who woke it.
        by: Ended,
        /// The context that the waker ran in, if that was recorded.
        context: Option<Context>,
        /// The CPU whose queue it joined, if that was recorded.
        cpu: Option<u32>,
    },
    /// A thread was moved to another CPU's queue.
    Migrated {
        /// The thread.
        thread: ThreadId,
        /// When.
        time: i64,
        /// The CPU that it waits for from now on.
        to: u32,
    },
    /// A thread was created: it is ready.
    Began {
        /// The new thread.
        thread: ThreadId,
        /// When.
        time: i64,
    },
    /// An interrupt handler, hard or soft, began.
    InterruptBegan {
        /// The CPU.
        cpu: CpuId,
        /// The thread below it.
        tid: u32,
        /// When.
        time: i64,
        /// Whether it is a softirq.
        soft: bool,
        /// The interrupt's number, as the event has it.
        number: u64,
    },
    /// An interrupt handler ended whose beginning was seen.
    InterruptEnded {
        /// The CPU.
        cpu: CpuId,
        /// Whether it is a softirq.
        soft: bool,
        /// The interrupt's number.
        number: u64,
        /// How long it ran, without the interrupts above it, in nanoseconds.
        own_ns: u64,
    },
}
