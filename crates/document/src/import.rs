//! The document of `xweave import`.

use std::{borrow::Cow, collections::BTreeMap};

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Import<'a> {
    /// Trace directory.
    pub trace: Cow<'a, str>,
    /// Events written.
    pub events: u64,
    /// Records that the recorder lost, as far as it counted.
    pub lost: u64,
    /// Domains, in the order of the files.
    pub domains: Vec<ImportedDomain<'a>>,
    /// Number of events by kind; only kinds that occur.
    pub kinds: &'a BTreeMap<&'static str, u64>,
    /// Number of records by name, of records that have no kind of event.
    pub unknown: &'a BTreeMap<String, u64>,
    /// Xen's records outside the time of the trace that they were added to.
    pub outside: u64,
    /// Warnings, in words.
    pub warnings: &'a [String],
    /// Parts of the files that could not be read.
    pub damage: &'a [String],
}

/// A file that was imported.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ImportedDomain<'a> {
    /// Name of the domain.
    pub name: &'a str,
    /// Path of the file.
    pub file: Cow<'a, str>,
    /// Number of events.
    pub events: u64,
    /// Records that are missing.
    pub lost: u64,
}
