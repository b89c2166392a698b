//! One recording, from the aspects' text to a finished trace directory.
//!
//! ```text
//! transport ─► link (a connection with one agent) ─┐
//! kernels, codes ─► what each domain's kernel is   ├─► recording ─► trace directory
//! weave    ─► a plan for each domain               ┘        ▲
//!                                      events, in order of time
//! ```
//!
//! The controller holds no probe itself: agents do. It may be killed at any moment; the agents see
//! their streams close and go, and what had been written stays readable.

mod budget;
mod capture;
mod codes;
mod command;
mod describe;
mod doctor;
mod domain;
mod error;
mod events;
mod interrupt;
mod kernels;
mod link;
mod options;
mod progress;
mod recording;
mod session;
mod transport;
mod weaving;

pub use budget::Budget;
pub use doctor::{Check, doctor};
pub use domain::{DomainSpec, symbols};
pub use error::Error;
pub use options::{Options, Until};
pub use progress::{Outcome, Phase};
pub use recording::record;
pub use transport::Transport;
pub use xweave_weave::Group;
