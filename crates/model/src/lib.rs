//! What a trace's events say of the objects of a system, and where the time of a transaction went.
//!
//! It is the model of Horikawa (Application of Event Trace Framework for Performance Problem Solutions):
//! transactions are served by objects, which ask each other and wait for each other; the most basic one is the
//! thread.
//!
//! Modules, in the order of the work: what threads and CPUs did comes from the [replay](xweave_replay); [`disk`] is the accesses
//! under way (`sectors` finds those at a place), `lock` the locks that are waited for, [`wait`] what else within calls of the kernel's, [`connection`] who sent what to whom (`ports` which of its ports is the service's), [`held`] what held messages back on their way (queueing disciplines, neighbours without an address, TCP), [`guests`] who runs whom, [`vcpu`] when guests'
//! processors were really theirs (`exit` why they were not), [`power`] idle states and frequencies; [`machine`] feeds them all. [`mod@breakdown`] goes the way back
//! from a moment through wakers and senders; [`transaction`] finds what is to be broken down, as a [`spec`] says (`unasked` is no part of an answer, [`Unused`] counts what is no transaction; [`between`] what lies between two [places](place) or more, `pair` from each to the next), `paths` are those that records tell of, [`passed`] where one was until when; `clock_errors` says what clocks cannot tell; [`DefaultSpec`] says which are looked at where none are asked for; [`explanation`] does it
//! for a whole trace with the [`objects`] (`group` what is like others), [`parts`] adds up, [`delay`] what kept them, [`intervals`] from place to place, [`sizes`] by how much data they carried, [`lives`] by program, `tally` in all these ways at once ([`mod@mean`] divides), [`slowest`] keeps those that took longest, and [`sequence`] tells one as messages between
//! objects.
//!
//! [`census`] is what there is to ask for, [`recorded`] which groups of events were recorded, [`RecorderUse`] what that took, [`usage`] what each object did in a whole trace ([`VcpuStates`]: how vCPUs' time is divided), which `accounting` counts (`interrupt` is what an interrupt is for), [`mod@blame`] who kept whom waiting, and [`comparison`] holds two traces
//! side by side; [`contrast`] holds slow transactions beside fast ones, and those of one trace beside another's.

mod accounting;
pub mod between;
pub mod blame;
pub mod breakdown;
mod by_domain;
mod bytes;
pub mod census;
mod clock_errors;
pub mod comparison;
pub mod connection;
pub mod contrast;
mod default_spec;
pub mod delay;
pub mod disk;
mod exit;
pub mod explanation;
mod futex;
mod group;
pub mod guests;
pub mod held;
mod interrupt;
pub mod intervals;
mod listeners;
pub mod lives;
mod lock;
pub mod machine;
pub mod mean;
pub mod objects;
mod pair;
pub mod parts;
pub mod passed;
mod paths;
pub mod place;
mod ports;
pub mod power;
pub mod recorded;
mod recorder_use;
mod sectors;
pub mod sequence;
pub mod sizes;
pub mod slowest;
pub mod spec;
mod tally;
#[cfg(test)]
mod test_objects;
pub mod transaction;
mod unasked;
mod unused;
pub mod usage;
pub mod vcpu;
mod vcpu_numbers;
mod vcpu_states;
pub mod wait;

pub use between::Between;
pub use blame::{Blame, Tenant};
pub use breakdown::{Cause, Object, Piece, TimeState, breakdown};
pub use bytes::Bytes;
pub use census::Census;
pub use comparison::Comparison;
pub use contrast::Contrast;
pub use default_spec::{DefaultSpec, all_transactions, is_of_terminals};
pub use delay::{Delay, Offender};
pub use exit::ExitReason;
pub use explanation::{Explained, Outcome, Step, explain};
pub use interrupt::Interrupt;
pub use intervals::Intervals;
pub use machine::Machine;
pub use objects::{DomainRef, ObjectGroup, ObjectKind, ObjectRef, Objects};
pub use passed::Stretch;
pub use power::Power;
pub use recorder_use::RecorderUse;
pub use sizes::Sizes;
pub use slowest::Slowest;
pub use spec::{Spec, SpecError};
pub use tally::Tally;
pub use unused::Unused;
pub use usage::{Usage, UsageKind, UsageObject};
pub use vcpu::Guest;
pub use vcpu_states::VcpuStates;
pub use xweave_replay::{CpuId, Loss, LossOfCpu, LossOfDomain, ThreadId};
