//! What `xweave compare --transaction --json` prints: the two sides, and where the difference lies.
//!
//! The keys are described in `docs/compare.md`, and with the types that they are made of:
//! [`xweave_model::contrast::Contrast`].

use std::io::{self, Write};

use serde::Serialize;
use xweave_model::{Contrast, Spec};

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    /// The kind of transactions, as `--transaction` writes it.
    transaction: String,
    #[serde(flatten)]
    contrast: &'a Contrast,
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, contrast: &Contrast, spec: &Spec) -> io::Result<()> {
    super::stream(out, &Document { transaction: spec.to_string(), contrast })
}
