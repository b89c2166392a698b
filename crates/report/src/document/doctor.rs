//! The document of `xweave doctor`.

use xweave_document::doctor::{Doctor, DoctorCheck};
use xweave_record::Check;

/// Builds the document of the checks.
pub fn build(checks: &[Check]) -> Doctor<'_> {
    Doctor { checks: checks.iter().map(build_check).collect() }
}

fn build_check(of: &Check) -> DoctorCheck<'_> {
    DoctorCheck { name: of.name, ok: of.ok, needed: of.needed, found: &of.found, remedy: of.remedy }
}
