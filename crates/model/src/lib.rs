//! What a trace's events say of the objects of a system, and where the time of a transaction went.
//!
//! It is the model of Horikawa (Application of Event Trace Framework for Performance Problem Solutions):
//! transactions are served by objects, which ask each other and wait for each other; the most basic one is the
//! thread.
//!
//! Rooms, in the order of the work: [`thread`] is the state machine of the scheduler's events, [`disk`] the accesses
//! under way, [`machine`] feeds both and knows what runs where; [`breakdown`] goes the way back through wakers.

pub mod breakdown;
pub mod disk;
pub mod machine;
pub mod thread;

pub use breakdown::{Object, Piece, Spent, breakdown};
pub use machine::Machine;
pub use thread::ThreadId;
