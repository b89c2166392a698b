//! The tests of this crate's public interface, in one program: it is linked once.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod between;
mod calls;
mod contrast;
mod datagrams;
mod default_spec;
mod explanation;
mod flows;
mod guests;
mod hostile;
mod lives;
mod loss;
mod notation;
mod points;
mod requests;
mod streams;
mod synthetic;
mod usage;
mod vcpu;
