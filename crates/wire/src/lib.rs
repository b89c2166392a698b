//! The messages between a controller and the agents in its domains.
//!
//! A connection is any ordered byte stream: standard input and output of a command, or a vsock
//! stream. It opens with a fixed preamble ([`frame`]) in both directions, so that two programs of
//! different protocol versions can tell each other so; then length-prefixed frames follow, each
//! one message in postcard's encoding.
//!
//! ```text
//! controller                         agent
//!   ── preamble ───────────────────►
//!   ◄────────────────── preamble ───
//!   ── Request ────────────────────►        one at a time, answered in order
//!   ◄────────────────── Reply ──────
//!   ◄────────────────── Event ──────        records, events, clock samples: whenever there are some
//! ```
//!
//! Modules: [`frame`] cuts the stream, [`message`] says what may be said, [`plan`] is what a
//! controller asks an agent to weave, [`knob`] which settings it may have changed, [`pages`] what its page cache holds, [`record`] is what advice wrote, [`event`] what built-in probes did. An agent may
//! be hostile: [`limits`] is what a controller takes of it, and `xweave_text` makes its words fit to be shown.

use std::time::Duration;

pub mod bounded;
pub mod event;
pub mod frame;
pub mod knob;
pub mod limits;
pub mod message;
pub mod pages;
pub mod plan;
pub mod record;

/// The version of the protocol. Raised when any message, or the layout of records or events, changes.
pub const VERSION: u16 = 27;

/// The vsock port that a guest's agent listens on, unless told otherwise.
pub const VSOCK_PORT: u32 = 7390;

/// The largest port that only programs with `CAP_NET_BIND_SERVICE` can bind (`LAST_RESERVED_PORT` of
/// net/vmw_vsock/af_vsock.c). Controllers connect from one of these, and agents that listen take no others: that a
/// connection comes from the host does not tell who on the host it is from.
pub const LAST_RESERVED_PORT: u32 = 1023;

/// For how long an agent keeps its probes without a word from its controller.
pub const LEASE: Duration = Duration::from_secs(30);
