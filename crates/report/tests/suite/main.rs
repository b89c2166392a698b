//! The tests of this crate's public interface, in one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod agree;
mod comparison;
mod contrast;
mod divided;
mod documents;
mod exchanges;
mod lives;
mod look;
mod machines;
mod made_up;
mod merge;
mod objects;
mod page;
mod records;
mod snapshot;
mod tables;
mod transactions;
mod variation;
mod varied;
