//! What `xweave records --json` prints: `summary`, `sites`, `groups`, `bits` and `records`.

use std::io::{self, Write};

use serde::Serialize;
use xweave_flow::Stored;

#[derive(Serialize)]
struct Document<'a> {
    summary: Summary,
    #[serde(flatten)]
    stored: &'a Stored,
}

#[derive(Serialize)]
struct Summary {
    /// Records that advice made and that were meant.
    records: u64,
    /// Records of the whole trace that were lost.
    lost: u64,
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, stored: &Stored, lost: u64) -> io::Result<()> {
    super::stream(out, &Document { summary: Summary { records: stored.count, lost }, stored })
}
