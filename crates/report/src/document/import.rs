//! The document of `xweave import`.

use std::path::Path;

use xweave_document::import::{Import, ImportedDomain};
use xweave_import::{Outcome, import::Imported};

/// Builds the document of an import into a trace directory.
pub fn build<'a>(trace: &'a Path, outcome: &'a Outcome) -> Import<'a> {
    Import {
        trace: super::path(trace),
        events: outcome.events,
        lost: outcome.lost,
        domains: outcome.domains.iter().map(build_domain).collect(),
        kinds: &outcome.kinds,
        unknown: &outcome.unknown,
        outside: outcome.outside,
        warnings: &outcome.warnings,
        damage: &outcome.damage,
    }
}

fn build_domain(of: &Imported) -> ImportedDomain<'_> {
    ImportedDomain { name: &of.name, file: super::path(&of.file), events: of.events, lost: of.lost }
}
