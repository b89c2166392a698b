//! The catalogue of events: what happens in a kernel, in a normal form.
//!
//! The kinds are those of Horikawa's framework (Application of Event Trace Framework for Performance Problem
//! Solutions): a process's changes of state, disk accesses, communication; and of virtual machines besides. What
//! communication means is not decided here: an event says what was sent, and the analysis what for.
//!
//! Each kind has one entry in [`catalogue`](Kind), from which come its number, name, group and layout, the C
//! enumerations that the probes are compiled with ([`c_header`]) and its row in `docs/trace-format.md`
//! ([`document::kinds`]).

mod c;
mod catalogue;
mod code;
pub mod document;
mod group;
mod member;

pub use c::c_header;
pub use catalogue::{HEADER, Kind};
pub use code::{Access, Context, HoldReason, Quota, Refusal, Sending, State};
pub use group::{Group, UnknownGroup};
pub use member::{Field, Member};

/// Number that a vector's interrupts have behind it as `object`, of vectors that no device's handler is called for
/// (arch/x86/include/asm/irq_vectors.h).
pub const VECTORS: u64 = 1 << 16;
