//! What `xweave vary --json` prints: why the requests of a trace vary.
//!
//! The keys are described in `docs/vary.md`, and with the types that they are made of: [`xweave_vary::variation::Variation`].

use std::io::{self, Write};

use serde::Serialize;
use xweave_model::Spec;
use xweave_vary::{Variation, each::Each};

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    /// The kind of requests, as `--transaction` writes it.
    transaction: String,
    #[serde(flatten)]
    variation: &'a Variation,
    /// The requests one by one, where they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    each: Option<&'a [Each]>,
}

/// Writes the document; with `each`, the requests one by one as well.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut impl Write,
    variation: &Variation,
    each: Option<&[Each]>,
    spec: &Spec,
) -> io::Result<()> {
    super::stream(out, &Document { transaction: spec.to_string(), variation, each })
}
