//! The tests of this crate's public interface, in one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod addition;
mod common;
mod ctf;
mod dat;
mod hostile;
mod perf;
mod xen;
