//! What `xweave flows --json` prints: the flows and their hops, their segments, and how much was lost where.
//!
//! The keys are described in `docs/trace-format.md`, and with the types that they are made of: [`xweave_flow::Summary`],
//! [`xweave_flow::Flow`], [`xweave_flow::Hop`], [`xweave_flow::Segment`].

use std::io::{self, Write};

use serde::Serialize;
use xweave_flow::{Exchange, Flows, Service, Summary};

/// Writes the document, which is never in memory as a whole.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, flows: &Flows) -> io::Result<()> {
    super::stream(out, flows)
}

/// Requests and their answers: what `xweave flows --by connection --json` prints.
#[derive(Serialize)]
pub struct Connections<'a> {
    /// Counts of the trace's flows.
    pub summary: &'a Summary,
    /// By client's domain and server.
    pub services: &'a [Service],
    /// One by one, in the order of their beginnings.
    pub exchanges: &'a [Exchange],
}

/// Writes that document.
///
/// # Errors
/// Those of `out`.
pub fn write_connections(out: &mut impl Write, connections: &Connections<'_>) -> io::Result<()> {
    super::stream(out, connections)
}
