//! Replays a trace: the one interpreter of scheduler events, interrupts and losses.
//!
//! A [`Replay`] takes events in the order of their times and returns [`Transition`]s: a thread ran on a CPU from one time to
//! another, left it, was dispatched, was woken by whom after which wait; an interrupt ended after how long; events of a
//! CPU were lost. Analyses read transitions and never scheduler events, so that all of them agree on what a lost event, a
//! wakeup that races with a sleep, or an interrupt without an end means. [`Replay::threads`] and [`Replay::cpu`] answer
//! what happened earlier, as far back as it was not [forgotten](Replay::forget_before).
//!
//! Modules: `ids` names threads and CPUs, `thread` is the state machine of threads, `cpu` that of CPUs and the interrupts
//! on them, `by_cpu` finds them, `gaps` and `loss` are the times of which events were lost, `transition` is what comes of an event, `replay` feeds them all.

mod by_cpu;
mod cpu;
mod gaps;
mod ids;
mod loss;
mod replay;
mod thread;
mod transition;

pub use by_cpu::ByCpu;
pub use cpu::{Cpu, Interval};
pub use ids::{CpuId, ThreadId, between};
pub use loss::{EarlyEnd, Loss, LossOfCpu, LossOfDomain, Losses};
pub use replay::Replay;
pub use thread::{Ended, Since, Source, Thread, ThreadState, Threads};
pub use transition::Transition;
