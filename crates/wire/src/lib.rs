//! The messages between a controller and the agents in its domains.
//!
//! A connection is any ordered byte stream: standard input and output of a command, or a vsock
//! stream. It opens with a fixed [`frame::Preamble`] in both directions, so that two programs of
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
//! Rooms: [`frame`] cuts the stream, [`message`] says what may be said, [`plan`] is what a
//! controller asks an agent to weave, [`record`] is what advice wrote, [`event`] what built-in probes did.

pub mod event;
pub mod frame;
pub mod message;
pub mod plan;
pub mod record;

/// The version of the protocol. Raised when any message, or the layout of records or events, changes.
pub const VERSION: u16 = 5;

/// The vsock port that a guest's agent listens on, unless told otherwise.
pub const VSOCK_PORT: u32 = 7390;
