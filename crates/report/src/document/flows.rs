//! What `xweave flows --json` prints: the flows and their hops, their segments, and how much was lost where.
//!
//! The keys are described in `docs/trace-format.md`, and with the types that they are made of: [`xweave_flow::Summary`],
//! [`xweave_flow::Flow`], [`xweave_flow::Hop`], [`xweave_flow::Segment`].

use std::io::{self, Write};

use xweave_flow::Flows;

/// Writes the document, which is never in memory as a whole.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, flows: &Flows) -> io::Result<()> {
    super::stream(out, flows)
}
