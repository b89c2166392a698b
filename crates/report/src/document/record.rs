//! The document of `xweave record`.

use std::time::Duration;

use xweave_document::record::{LeftOutGuest, Record};
use xweave_record::Outcome;
use xweave_trace::{Clock, Domain, Loss};

/// Builds the document of a recording.
pub fn build(outcome: &Outcome) -> Record<'_, Domain, Clock, Loss> {
    let manifest = &outcome.manifest;
    let left_out = outcome.left_out.iter();
    Record {
        trace: super::path(&outcome.trace),
        records: manifest.records,
        events: manifest.events,
        lost: manifest.lost,
        domains: &manifest.domains,
        left_out: left_out.map(|left| LeftOutGuest { domain: &left.domain, reason: &left.reason }).collect(),
        clocks: &manifest.clocks,
        warnings: &manifest.warnings,
        loss: &manifest.loss,
        command_status: outcome.command.and_then(|status| status.code()),
        sites: outcome.sites,
        attach_ns: nanoseconds(outcome.weaving),
        detach_ns: nanoseconds(outcome.unweaving),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
