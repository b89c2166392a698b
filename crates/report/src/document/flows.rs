//! What `xweave flows --json` prints: the flows and their hops, their places and segments, and how much was lost where.
//!
//! The keys are described in `docs/trace-format.md`, and with the types that they are made of: [`xweave_flow::Summary`],
//! [`xweave_flow::Flow`], [`xweave_flow::Hop`], [`xweave_flow::Segment`].

use std::io::{self, Write};

use serde::Serialize;
use xweave_flow::{Exchange, FlowDocument, Flows, Service, Summary, by_value::Groups};

/// Writes the document of the flows that are kept.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, flows: &Flows) -> io::Result<()> {
    super::stream(out, flows)
}

/// The document as it is made: first the flows one by one, then what is known of all. It is never in memory as a whole.
pub struct Stream<'o, W> {
    out: &'o mut W,
    /// How many more flows are written.
    left: usize,
    any: bool,
}

impl<'o, W: Write> Stream<'o, W> {
    /// Begins a document of so many flows at most.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn begin(out: &'o mut W, most: usize) -> io::Result<Self> {
        write!(out, "{{\"schema\":{},\"flows\":[", super::SCHEMA)?;
        Ok(Self { out, left: most, any: false })
    }

    /// Writes a flow.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn flow(&mut self, flow: &FlowDocument<'_>) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
        self.left = left;
        if self.any {
            self.out.write_all(b",")?;
        }
        self.any = true;
        Ok(serde_json::to_writer(&mut *self.out, flow)?)
    }

    /// Writes what is known of all flows.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn end(self, flows: &Flows) -> io::Result<()> {
        let about = serde_json::to_string(&flows.about())?;
        // Members of the same object.
        writeln!(self.out, "],{}", about.strip_prefix('{').unwrap_or(&about))
    }
}

/// Flows by a stored value: what `xweave flows --by VALUE --json` prints.
#[derive(Serialize)]
pub struct ByValue<'a> {
    /// Counts of the trace's flows.
    pub summary: &'a Summary,
    /// What the value is called.
    pub by: &'a str,
    /// The groups.
    #[serde(flatten)]
    pub groups: &'a Groups,
}

/// Writes that document.
///
/// # Errors
/// Those of `out`.
pub fn write_by_value(out: &mut impl Write, groups: &ByValue<'_>) -> io::Result<()> {
    super::stream(out, groups)
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
