//! What was found, counted.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::Serialize;
use xweave_trace::{Manifest, Trace};

use crate::{
    crossing::{CarrierCounts, Crossings, FoundPeer},
    graph::{Flow, Incomplete},
    local::Locals,
};

/// Counts over a trace's flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Flows followed.
    pub flows: u64,
    /// Those known from their beginning to their end.
    pub complete: u64,
    /// Those whose path crosses from one domain to another.
    pub crossed: u64,
    /// Records in the trace.
    pub records: u64,
    /// Records that are missing.
    pub lost: u64,
    /// Crossings that contradict causality by more than the clocks' error.
    pub negative_gaps: u64,
    /// No time in the trace is farther from the truth, in nanoseconds, but for those within [`Summary::clock_breaks`].
    pub clock_error_ns: u64,
    /// How often a domain's clock jumped.
    pub clock_breaks: u64,
    /// Whether the recording came to its end.
    pub recording_complete: bool,
    /// Flows that ended where nobody saw it: something began under a key that still carried them, so that they did not
    /// take in a stranger.
    pub overwritten: u64,
    /// Lost records whose flow is not known: any flow may miss one.
    pub lost_unattributed: u64,
    /// Sites at which the kernel skips hits without counting them: what is lost there is not among [`Summary::lost`].
    pub uncounted_sites: u64,
    /// Records that the manifest tells of and that could not be read.
    pub unreadable: u64,
    /// Files that could not be read, and why.
    pub damaged: Vec<String>,
    /// Why flows are incomplete.
    pub incomplete: IncompleteCounts,
    /// Why flows were dropped, the commonest reason first.
    pub dropped: Vec<DropCount>,
    /// What happened on each carrier.
    pub carriers: Vec<CarrierCounts>,
    /// Guests whose process was found by their rings' keys, no clock having told.
    pub found: Vec<FoundPeer>,
}

/// Flows by the reason why they are incomplete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IncompleteCounts {
    /// [`Incomplete::Lost`].
    pub lost: u64,
    /// [`Incomplete::NoStart`].
    pub no_start: u64,
    /// [`Incomplete::Unmatched`].
    pub unmatched: u64,
    /// [`Incomplete::Dropped`].
    pub dropped: u64,
    /// [`Incomplete::NoEnd`].
    pub no_end: u64,
}

/// Flows that were dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DropCount {
    /// The reason: [`crate::Dropped::reason`].
    pub reason: String,
    /// How many flows.
    pub flows: u64,
}

impl Summary {
    /// What does not depend on which flows are looked at.
    pub(crate) fn of(trace: &Trace, locals: &Locals, crossings: Crossings) -> Self {
        let manifest: &Manifest = trace.manifest();
        Self {
            records: locals.records,
            lost: manifest.lost,
            negative_gaps: crossings.carriers.iter().map(|c| c.negative_gaps).sum(),
            clock_error_ns: manifest.clocks.iter().map(|clock| clock.error_ns).max().unwrap_or(0),
            clock_breaks: manifest.clocks.iter().map(|clock| clock.breaks.len() as u64).sum(),
            recording_complete: manifest.complete,
            overwritten: manifest.loss.sites.iter().fold(0, |sum, site| sum.saturating_add(site.overwritten)),
            lost_unattributed: manifest.loss.unattributed,
            uncounted_sites: manifest.loss.uncounted.iter().map(|domain| u64::from(domain.sites)).sum(),
            unreadable: manifest.records.saturating_sub(locals.records),
            damaged: locals.damaged.iter().map(ToString::to_string).collect(),
            carriers: crossings.carriers,
            found: crossings.found,
            ..Self::default()
        }
    }

    /// Counts the flows that are looked at.
    pub(crate) fn count(&mut self, flows: &[Flow]) {
        let reason = |reason| flows.iter().filter(|flow| flow.incomplete == Some(reason)).count() as u64;
        self.flows = flows.len() as u64;
        self.complete = flows.iter().filter(|flow| flow.complete()).count() as u64;
        self.crossed = flows.iter().filter(|flow| flow.crossings > 0).count() as u64;
        self.incomplete = IncompleteCounts {
            lost: reason(Incomplete::Lost),
            no_start: reason(Incomplete::NoStart),
            unmatched: reason(Incomplete::Unmatched),
            dropped: reason(Incomplete::Dropped),
            no_end: reason(Incomplete::NoEnd),
        };
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for dropped in flows.iter().filter_map(|flow| flow.dropped.as_ref()) {
            *reasons.entry(&dropped.reason).or_default() += 1;
        }
        let count = |(reason, flows): (&str, u64)| DropCount { reason: reason.to_owned(), flows };
        self.dropped = reasons.into_iter().map(count).collect();
        self.dropped.sort_by_key(|count| Reverse(count.flows));
    }

    /// Records put on carriers that were not seen to come off.
    pub fn unmatched_xin(&self) -> u64 {
        self.carriers.iter().map(|carrier| carrier.unmatched_xin).sum()
    }

    /// Records come off carriers that were not seen to be put on.
    pub fn unmatched_xout(&self) -> u64 {
        self.carriers.iter().map(|carrier| carrier.unmatched_xout).sum()
    }
}
