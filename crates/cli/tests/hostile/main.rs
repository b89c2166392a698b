//! Hostile domains: whatever an agent does, the host is unharmed, the controller keeps its budget, its deadlines and obeys
//! Ctrl-C, and the other domains' records are whole.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

mod events;
#[path = "../peak/child.rs"]
mod peak;
mod rows;
mod sent;
mod stage;
mod told;
