//! The tests of this crate's public interface, in one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod checker;
mod common;
mod docs;
mod format;
mod language;
mod pointcuts;
mod xml;
