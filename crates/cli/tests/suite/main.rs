//! The tests of this crate's public interface, in one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod bombs;
mod called;
mod confined;
mod explain;
mod files;
mod flows;
mod fmt;
mod measured;
mod mistakes;
mod mutated;
#[path = "../peak/child.rs"]
mod peak;
mod record;
mod records;
mod taken_over;
mod vary;
