//! A small machine, simulated, that tells what a kernel's tracepoints would: [`Event`](xweave_trace::Event)s in the
//! normal form, in the order of their times; and, for each transaction that its threads make, where the time truly
//! went, which only the machine itself can know. Tests hold the model against it, and benchmarks feed on it.
//!
//! Processors have a queue each, served in turns with time slices. Threads do a script of steps ([`Config`] says how
//! many of which kind there are): work, sleep, take locks, read disks that have queues and merge neighbours, ask each
//! other over sockets in their own domain or another's, several times before they read the first answer or once, make a child
//! and wait for it. Some servers are tasks of a runtime, which a few threads carry in turns: a task that has asked somebody
//! goes on on any of them. Interrupts come above whatever
//! runs, soft ones follow hard ones or are raised by the thread below. A guest's processors are threads of the
//! host's scheduler: they halt when the guest idles, are woken by interrupts for it, and are preempted by the host's
//! own threads.
//!
//! The truth is counted forwards, moment by moment, from what each thread is really waiting for. So it shares nothing
//! with an analysis that goes backwards from who woke whom. While a task waits for any of the threads that may carry it, an
//! account is kept for each of them; the one that takes it then shows which of these is true.
//!
//! Beside it stand [`scene`]: worlds of one mechanism each, whose truth is known; [`agent`]: what speaks to a controller as a domain would, honest or hostile; and [`unknown`], which makes
//! a kernel one that nobody prepared for.
//!
//! Modules: `state` is what there is, `simulation` the passing of time; `processor` interrupts and scheduling, `guest`
//! vCPUs, `step` what a step of a script does, `script` the scripts, `message` calls and answers, `runtime` tasks and those
//! who carry them, `disk` the disks, `power` idle states and frequencies, `account` the counting of [`truth`].
//!
//! ```
//! use xweave_synthetic::{Config, Simulation};
//!
//! let mut machine = Simulation::new(&Config { transactions: 10, ..Config::single(1) });
//! let events = machine.by_ref().count();
//! let made = machine.take_transactions();
//! assert!(events > 100 && made.len() >= 10);
//! assert!(made.iter().all(|one| one.parts.values().sum::<i64>() == one.to - one.from));
//! ```

mod account;
pub mod agent;
mod disk;
mod guest;
mod id;
mod message;
mod power;
mod processor;
mod random;
mod runtime;
pub mod scene;
mod script;
mod simulation;
mod state;
mod step;
pub mod truth;
pub mod unknown;

pub use state::{Config, Simulation};
pub use truth::{Outside, Part, Processor, Transaction, Who};
