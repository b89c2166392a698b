//! One recording, from the aspects' text to a finished trace directory.
//!
//! ```text
//! transport ─► link ─► session ─┐   one domain: its bytes, its messages, what it may say
//!                               ├─► capture ─► trace directory
//! deploy ─► a plan for each ────┘   all domains, in one loop that none of them can stop
//! ```
//!
//! The controller holds no probe itself: agents do. It may be killed at any moment; the agents see
//! their streams close and go, and what had been written stays readable.
//!
//! Guests are hostile: `wire` bounds what a message says, `session` what a domain may say when, `budget` what it may use;
//! what is parsed or compiled of what it sent, [`confined`] processes do.

mod back_ends;
mod budget;
mod cached;
mod cached_files;
mod capture;
mod command;
mod deploy;
mod describe;
mod doctor;
mod domain;
mod drops;
mod error;
mod events;
#[cfg(test)]
mod exchanges;
mod hypervisor;
mod identity;
mod kernels;
mod knobs;
mod link;
mod options;
mod pace;
mod progress;
mod question;
mod recording;
mod remaining;
#[cfg(test)]
mod scripted;
mod secret;
mod session;
mod settings;
mod sharing;
mod transport;
mod violation;
mod waiting;
mod weaving;
mod xen;

pub use budget::{Budget, free_space};
pub use cached::{Caches, DomainCache, cached};
pub use deploy::work as confined;
pub use doctor::{Check, doctor};
pub use domain::{DomainSpec, symbols};
pub use error::Error;
pub use hypervisor::place_file;
pub use knobs::{DomainKnobs, knobs};
pub use options::{Options, Until};
pub use progress::{Analysed, Outcome, Phase};
pub use recording::record;
pub use remaining::{LeftOut, Remaining, Required};
pub use settings::{Made, Settings};
pub use transport::Transport;
