//! What was found, counted.

use std::{cmp::Reverse, collections::BTreeMap};

use xweave_trace::Trace;

use crate::{
    crossing::{CarrierCounts, FoundPeer},
    dropped::Dropped,
    graph::{Flow, Incomplete},
    join::Totals,
    strangers::{KindCount, Strangers},
};

/// Reasons for drops that are told apart: the kernel has some hundred.
const REASONS: usize = 1 << 10;

/// Counts over a trace's flows.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Until when something of it was stored, in nanoseconds since 1970; none if nothing was.
    pub stored_until_ns: Option<u64>,
    /// Flows that ended where nobody saw it: something began under a key that still carried them, so that they did not
    /// take in a stranger.
    pub overwritten: u64,
    /// Lost records whose flow is not known: any flow may miss one.
    pub lost_unattributed: u64,
    /// Sites at which the kernel skips hits without counting them: what is lost there is not among [`Summary::lost`].
    pub uncounted_sites: u64,
    /// Records that the manifest tells of and that could not be read.
    pub unreadable: u64,
    /// Flows that were taken as they were when more were under way than memory should hold: what was recorded of them
    /// later is of other flows here.
    pub set_down: u64,
    /// Files that could not be read, and why.
    pub damaged: Vec<String>,
    /// Why flows are incomplete.
    pub incomplete: IncompleteCounts,
    /// Of those without a start, the frames of strangers, by their kinds, the commonest first.
    pub elsewhere: Vec<KindCount>,
    /// Why flows were dropped, the commonest reason first.
    pub dropped: Vec<DropCount>,
    /// What happened on each carrier.
    pub carriers: Vec<CarrierCounts>,
    /// Guests whose process was found by their rings' keys, no clock having told.
    pub found: Vec<FoundPeer>,
}

/// Flows by the reason why they are incomplete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropCount {
    /// The reason: [`crate::Dropped::reason`].
    pub reason: String,
    /// How many flows.
    pub flows: u64,
}

/// What is counted of flows one by one.
#[derive(Default)]
pub(crate) struct FlowCounts {
    flows: u64,
    complete: u64,
    crossed: u64,
    incomplete: IncompleteCounts,
    dropped: BTreeMap<String, u64>,
    strangers: Strangers,
}

impl FlowCounts {
    pub(crate) fn add(&mut self, flow: &Flow) {
        self.strangers.add(flow);
        self.flows += 1;
        self.complete += u64::from(flow.complete());
        self.crossed += u64::from(flow.crossings > 0);
        let of = &mut self.incomplete;
        match flow.incomplete {
            None => {}
            Some(Incomplete::Lost) => of.lost += 1,
            Some(Incomplete::NoStart) => of.no_start += 1,
            Some(Incomplete::Unmatched) => of.unmatched += 1,
            Some(Incomplete::Dropped) => of.dropped += 1,
            Some(Incomplete::NoEnd) => of.no_end += 1,
        }
        if let Some(Dropped { reason, .. }) = &flow.dropped {
            let room = self.dropped.len() < REASONS || self.dropped.contains_key(reason);
            let reason = if room { reason } else { "other reasons" };
            *self.dropped.entry(reason.to_owned()).or_default() += 1;
        }
    }
}

impl Summary {
    pub(crate) fn of(trace: &Trace, mut totals: Totals, counts: FlowCounts) -> Self {
        let manifest = trace.manifest();
        let strangers = counts.strangers.told(manifest);
        for (site, flows) in strangers.by_site {
            let carrier = trace.site(site).and_then(|site| site.carrier.as_deref());
            let of = totals.carriers.iter_mut().find(|of| carrier == Some(of.carrier.as_str()));
            of.into_iter().for_each(|of| of.strangers += flows);
        }
        let count = |(reason, flows): (String, u64)| DropCount { reason, flows };
        let mut dropped: Vec<DropCount> = counts.dropped.into_iter().map(count).collect();
        dropped.sort_by_key(|count| Reverse(count.flows));
        Self {
            flows: counts.flows,
            complete: counts.complete,
            crossed: counts.crossed,
            incomplete: counts.incomplete,
            elsewhere: strangers.kinds,
            dropped,
            records: totals.records,
            lost: manifest.loss.records(),
            negative_gaps: totals.carriers.iter().map(|c| c.negative_gaps).sum(),
            clock_error_ns: manifest.clocks.iter().map(|clock| clock.error_ns).max().unwrap_or(0),
            clock_breaks: manifest.clocks.iter().map(|clock| clock.breaks.len() as u64).sum(),
            recording_complete: manifest.complete,
            stored_until_ns: manifest.stored_until_ns(),
            overwritten: manifest.loss.sites.iter().fold(0, |sum, site| sum.saturating_add(site.overwritten)),
            lost_unattributed: manifest.loss.unattributed,
            uncounted_sites: manifest.loss.uncounted.iter().map(|domain| u64::from(domain.sites)).sum(),
            unreadable: manifest.records.saturating_sub(totals.records),
            set_down: totals.set_down,
            damaged: totals.damaged.iter().map(ToString::to_string).collect(),
            carriers: totals.carriers,
            found: totals.found,
        }
    }

    /// Frames of strangers.
    pub fn began_elsewhere(&self) -> u64 {
        self.elsewhere.iter().map(|kind| kind.flows).sum()
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
