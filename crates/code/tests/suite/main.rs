//! The tests of this crate's public interface, in one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod dwarf;
mod dwarf_hostile;
mod hostile;
mod image;
mod inlining;
mod layout;
