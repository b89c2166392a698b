//! What `xweave compare --json` prints: the objects of both runs, and what explains the difference.
//!
//! The keys are described in `docs/compare.md`, and with the types that they are made of:
//! [`xweave_model::comparison::Compared`] and [`xweave_model::comparison::Finding`].

use std::io::{self, Write};

use xweave_model::Comparison;

/// Writes the document, which is never in memory as a whole.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    super::stream(out, comparison)
}
