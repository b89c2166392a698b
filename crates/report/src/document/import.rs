//! What `xweave import --json` prints.

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use serde::Serialize;
use xweave_import::{Outcome, import::Imported};

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct Import<'a> {
    /// The trace directory.
    pub trace: Cow<'a, str>,
    /// Events that were written.
    pub events: u64,
    /// Records that the recorder lost, as far as it counted.
    pub lost: u64,
    /// The domains, in the order of the files.
    pub domains: Vec<Domain<'a>>,
    /// How many events of each kind; the kinds that there are.
    pub kinds: &'a BTreeMap<&'static str, u64>,
    /// Names of the records that have no kind of their own, and how many of each.
    pub unknown: &'a BTreeMap<String, u64>,
    /// Records of Xen's that are of no time of the trace that they were added to.
    pub outside: u64,
    /// What else there is to know, in words.
    pub warnings: &'a [String],
    /// What could not be read.
    pub damage: &'a [String],
}

/// What came of a file.
#[derive(Clone, Debug, Serialize)]
pub struct Domain<'a> {
    /// The domain's name.
    pub name: &'a str,
    /// The file.
    pub file: Cow<'a, str>,
    /// How many events.
    pub events: u64,
    /// Records that are missing.
    pub lost: u64,
}

impl<'a> Import<'a> {
    /// Of an import into that trace directory.
    pub fn new(trace: &'a Path, outcome: &'a Outcome) -> Self {
        let domain = |of: &'a Imported| Domain {
            name: &of.name,
            file: super::path(&of.file),
            events: of.events,
            lost: of.lost,
        };
        Self {
            trace: super::path(trace),
            events: outcome.events,
            lost: outcome.lost,
            domains: outcome.domains.iter().map(domain).collect(),
            kinds: &outcome.kinds,
            unknown: &outcome.unknown,
            outside: outcome.outside,
            warnings: &outcome.warnings,
            damage: &outcome.damage,
        }
    }
}
