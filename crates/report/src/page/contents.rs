//! What a page has of a trace.

use std::collections::HashSet;

use xweave_document::page::{PageHeading, TracePage};
use xweave_flow::Join;
use xweave_model::{Comparison, Outcome, RecorderUse, Spec, Usage};
use xweave_trace::Trace;

use super::{
    bounded::cut, comparison, contrast, findings::Findings, flows, machines, recording, transactions, usage,
    variation,
};
use crate::{closing, losses};

/// What a reader must know is told in so many lines and bytes at most.
const REMARKS: usize = 100;
const REMARKS_BYTES: usize = 64 << 10;

/// How many kinds of transactions may be asked for: a page has room for so many.
pub const ASKED: usize = transactions::ASKED;

/// What stands above a page.
#[derive(Clone, Copy)]
pub struct Heading<'a> {
    /// Its title.
    pub title: &'a str,
    /// Whether the command that recorded the trace is shown whole: what was run meanwhile, and what reaches domains, may have
    /// secrets in it.
    pub whole_command: bool,
}

impl<'a> From<&'a str> for Heading<'a> {
    /// Without what may be secret.
    fn from(title: &'a str) -> Self {
        Self { title, whole_command: false }
    }
}

/// The document of a page.
pub struct Contents<'a> {
    trace: &'a Trace,
    usage: Option<Usage>,
    /// The kinds of transactions that are explained.
    kinds: Vec<Spec>,
    document: TracePage,
    lacking: Option<(Spec, Outcome)>,
}

impl<'a> Contents<'a> {
    /// Goes through a trace, some times over. `join` goes through its records. The transactions that are `asked` for are
    /// explained first, in that order.
    pub fn of(trace: &'a Trace, heading: Heading<'_>, asked: &[Spec], join: &dyn Fn() -> Join<'a>) -> Self {
        let has_events = trace.has_events();
        let found = trace.has_flows().then(|| flows::of(trace, join));
        let chosen = found.as_ref().map(|found| &*found.chosen).unwrap_or_default();
        let services = found.as_ref().map(|found| &*found.services).unwrap_or_default();
        let (own, varied) = has_events.then(|| variation::of(trace, services)).flatten().unzip();
        let varied = varied.flatten();
        let varies = varied.as_ref().map(|varied| &varied.spec);
        let mut explained = match has_events {
            true => transactions::of(trace, asked, varies, own, chosen),
            false => Vec::new(),
        };
        let usage = has_events.then(|| Usage::of_times(trace));

        let summary = found.as_ref().map(|found| found.flows.summary());
        let mut findings = Findings::default();
        found.iter().for_each(|found| findings.of_flows(&found.flows));
        explained.iter().take(1).for_each(|kind| findings.of_transactions(&kind.spec, &kind.totals));
        varied.iter().for_each(|varied| findings.of_variation(&varied.variation, &varied.spec));
        usage.iter().for_each(|usage| findings.of_machines(usage));
        let unfinished = || closing::unfinished(trace.manifest().stored_until_ns());
        let mut remarks: Vec<String> = match summary {
            Some(summary) => closing::remarks(summary),
            None => (!trace.manifest().complete).then(unfinished).into_iter().collect(),
        };
        remarks.extend(explained.iter().flat_map(|kind| kind.remarks.iter().cloned()));
        if explained.is_empty() {
            let recorder = usage.iter().map(|usage| RecorderUse::of(trace, usage));
            remarks.extend(recorder.filter_map(|of| losses::recorder(&of)));
        }
        remarks.extend(usage.iter().flat_map(|usage| usage.damaged.iter().map(ToString::to_string)));
        remarks.extend(losses::warnings(trace.manifest()));
        let mut met = HashSet::new();
        remarks.retain(|remark| met.insert(remark.clone()));

        let lacking = explained.iter_mut().find(|kind| kind.totals.transactions() == 0);
        let lacking = lacking.map(|kind| (kind.spec.clone(), std::mem::take(&mut kind.outcome)));
        let recording = recording::build(trace, summary, heading.whole_command);
        let (kinds, explained) = explained.into_iter().map(|kind| (kind.spec, kind.document)).unzip();
        let document = TracePage {
            heading: PageHeading::new(heading.title),
            recording,
            findings: findings.into_first(),
            remarks: cut(remarks, REMARKS, REMARKS_BYTES),
            flows: found.map(|found| found.document),
            explained,
            machines: usage.as_ref().map(machines::build),
            comparison: None,
            usage: usage.as_ref().and_then(usage::build),
            variation: varied.as_ref().map(variation::Found::build),
        };
        Self { trace, usage, kinds, document, lacking }
    }

    /// Which transactions that were asked for did not begin and end in the trace, if there are such: the first kind of
    /// them, and what was gone through.
    pub fn lacking(&self) -> Option<(&Spec, &Outcome)> {
        self.lacking.as_ref().map(|(spec, outcome)| (spec, outcome))
    }

    /// Also compares it with another run of the same work: that one is the first, this one the second. Without events in
    /// both there is nothing to compare.
    #[must_use]
    pub fn against(mut self, first: &Trace, name: &str) -> Self {
        if let Some(usage) = &self.usage {
            let transactions = contrast::build(first, self.trace, &self.kinds);
            let compared = Comparison::of(&Usage::of(first), usage);
            self.document.comparison = Some(comparison::build(&compared, name, transactions));
            Findings::of_comparison(&compared, &mut self.document.findings);
        }
        self
    }

    /// The document.
    pub fn document(&self) -> &TracePage {
        &self.document
    }
}
