//! The document of `xweave compare`: the objects of both runs, and what explains the difference.

use std::io::{self, Write};

use xweave_document::compare::{Compare, CompareFinding, ComparedObject, LeftOutEvents};
use xweave_model::{
    Comparison,
    comparison::{Compared, Finding},
    recorded::LeftOut,
};

use super::parts::build_role;
use crate::words::{changes, objects};

/// Builds the rows of the groups of events that only one run has.
pub(super) fn build_left_out(of: &[LeftOut]) -> Vec<LeftOutEvents> {
    let left = |of: &LeftOut| LeftOutEvents {
        events: of.events,
        missing_in: of.missing_in,
        domains: of.domains.clone(),
    };
    of.iter().map(left).collect()
}

/// Builds the row of an object.
pub fn build_object(of: &Compared) -> ComparedObject {
    ComparedObject {
        object: objects::usage(&of.key.object).into(),
        kind: of.key.kind().name(),
        domain: of.key.domain.clone(),
        time_ns: of.time_ns,
        count: of.count,
        bytes: of.bytes,
        wait_ns: of.wait_ns,
        device_ns: of.device_ns,
        seek_bytes: of.seek_bytes,
        role: of.key.object.group().map(build_role),
    }
}

/// Builds the row of a finding.
pub fn build_finding(of: &Finding) -> CompareFinding {
    CompareFinding {
        what: of.change().name(),
        domain: of.domain.clone(),
        object: changes::object(&of.object).into(),
        kind: of.kind().name(),
        explained_ns: of.explained_ns,
        changed_ns: of.changed_ns,
        may_be_idle: of.may_be_idle,
        text: changes::finding(of).into(),
    }
}

/// Writes the document.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    let document = Compare {
        span_ns: comparison.span_ns,
        difference_ns: comparison.difference_ns,
        events: comparison.events,
        left_out: build_left_out(&comparison.left_out),
        objects: comparison.objects.iter().map(build_object).collect(),
        findings: comparison.findings.iter().map(build_finding).collect(),
    };
    super::stream(out, &document)
}
