//! The tests of this crate's public interface, in one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod ancestry;
mod clock;
mod copies;
mod drops;
mod exchange;
mod hostile;
mod interrupts;
mod join;
mod keys;
mod latency;
mod notation;
mod places;
mod window;
mod wrap;
mod xen;
