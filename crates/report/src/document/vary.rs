//! What `xweave vary --json` prints: why the requests of a trace vary.
//!
//! The keys are described in `docs/vary.md`, and with the types that they are made of: [`xweave_vary::variation::Variation`].

use std::io::{self, Write};

use serde::Serialize;
use xweave_model::Spec;
use xweave_vary::Variation;

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    /// The kind of requests, as `--transaction` writes it.
    transaction: String,
    #[serde(flatten)]
    variation: &'a Variation,
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, variation: &Variation, spec: &Spec) -> io::Result<()> {
    super::stream(out, &Document { transaction: spec.to_string(), variation })
}
