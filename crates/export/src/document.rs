//! What `xweave export --json` prints.

use std::{borrow::Cow, path::Path};

use serde::Serialize;
use xweave_model::Spec;

use crate::counts::{Counts, Written};

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct Export<'a> {
    /// The file that was written.
    pub file: Cow<'a, str>,
    /// The kind of transactions; null where there are none.
    pub transaction: Option<String>,
    /// How many of what are in it.
    #[serde(flatten)]
    pub counts: &'a Counts,
    /// What could not be read of the trace.
    pub damage: &'a [String],
}

impl<'a> Export<'a> {
    /// Of what was written to a file.
    pub fn new(file: &'a Path, spec: Option<&Spec>, written: &'a Written) -> Self {
        let (counts, damage) = (&written.counts, &*written.damaged);
        Self { file: file.to_string_lossy(), transaction: spec.map(ToString::to_string), counts, damage }
    }
}
