//! What `xweave record --json` prints.

use std::{borrow::Cow, time::Duration};

use serde::Serialize;
use xweave_record::Outcome;
use xweave_trace::{Clock, Domain, Loss};

/// The document. What is of the trace's manifest is described there: [`xweave_trace::Manifest`].
#[derive(Clone, Debug, Serialize)]
pub struct Record<'a> {
    /// The trace directory.
    pub trace: Cow<'a, str>,
    /// Records in it.
    pub records: u64,
    /// Events in it.
    pub events: u64,
    /// Records and events that are missing.
    pub lost: u64,
    /// The running kernels that were woven.
    pub domains: &'a [Domain],
    /// The guests that were named and are not recorded.
    pub left_out: Vec<LeftOut<'a>>,
    /// How each domain's times came onto the time line.
    pub clocks: &'a [Clock],
    /// What else there is to know, in words.
    pub warnings: &'a [String],
    /// What could not be recorded.
    pub loss: &'a Loss,
    /// The exit status of the command that was recorded; null if there was none, or a signal ended it.
    pub command_status: Option<i32>,
    /// Sites woven, in all domains.
    pub sites: usize,
    /// How long loading and attaching took.
    pub attach_ns: u64,
    /// How long detaching took, the domain's that took longest.
    pub detach_ns: u64,
}

/// A guest that is not recorded.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut<'a> {
    /// Its name.
    pub domain: &'a str,
    /// Why, in words.
    pub reason: &'a str,
}

impl<'a> LeftOut<'a> {
    fn new(left: &'a xweave_record::LeftOut) -> Self {
        Self { domain: &left.domain, reason: &left.reason }
    }
}

impl<'a> Record<'a> {
    /// Of a recording.
    pub fn new(outcome: &'a Outcome) -> Self {
        let manifest = &outcome.manifest;
        Self {
            trace: super::path(&outcome.trace),
            records: manifest.records,
            events: manifest.events,
            lost: manifest.lost,
            domains: &manifest.domains,
            left_out: outcome.left_out.iter().map(LeftOut::new).collect(),
            clocks: &manifest.clocks,
            warnings: &manifest.warnings,
            loss: &manifest.loss,
            command_status: outcome.command.and_then(|status| status.code()),
            sites: outcome.sites,
            attach_ns: nanoseconds(outcome.weaving),
            detach_ns: nanoseconds(outcome.unweaving),
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
