//! Why requests vary: what `xweave vary` finds, with the requests one by one as columns for charts.

use std::cmp::Reverse;

use xweave_document::{
    page::variation::{PageVariation, RequestColumns, SegmentColumn},
    value::Id,
};
use xweave_flow::exchange::Service;
use xweave_model::Spec;
use xweave_trace::Trace;
use xweave_vary::{
    Requests, Variation,
    each::{Each, each},
    usual_among,
    variation::LEAST,
};

use super::{
    bounded::cut,
    transactions::{self, Kind, LIST},
};
use crate::{
    document::vary::{build_cause, build_figures, build_segment, build_setting},
    next,
    variation::said,
};

/// What there is at most of each.
const SEGMENTS: usize = 64;
const CAUSES: usize = 40;
const OFFENDERS: usize = 5;

/// So many requests are drawn, and lines of so many segments: those that vary most.
const DRAWN: usize = 2_000;
const LINES: usize = 6;

/// What is found.
pub(super) struct Found {
    pub(super) spec: Spec,
    pub(super) variation: Variation,
    requests: Requests,
}

/// Explains the requests that the command looks at if it is told nothing, and finds why they vary. Without the latter, if there
/// are too few; neither, if there are none of a service. Both take the requests from one pass over the events.
pub(super) fn of(trace: &Trace, services: &[Service]) -> Option<(Kind, Option<Found>)> {
    let chosen = usual_among(trace, LEAST as u64, || services.to_vec())
        .filter(|of| !matches!(of.spec, Spec::Flow(_)))?;
    let spec = chosen.spec.clone();
    let mut requests = Requests::default();
    // Only flows are chosen, and these are none.
    let mut kind = transactions::kind(trace, spec.clone(), &[], &mut |transaction, objects| {
        requests.add(transaction, objects);
    });
    kind.remarks.extend(next::other_services(&chosen));
    let outcome = std::mem::take(&mut kind.outcome);
    let found = match Variation::of_requests(&mut requests, outcome, trace.manifest()) {
        Ok(variation) => Some(Found { spec, variation, requests }),
        Err(few) => {
            kind.outcome = *few.outcome;
            None
        }
    };
    Some((kind, found))
}

impl Found {
    /// Builds what the page has of it.
    pub(super) fn build(&self) -> PageVariation {
        let of = &self.variation;
        PageVariation {
            transaction: self.spec.to_string(),
            said: said(of, &self.spec.to_string()),
            figures: build_figures(of),
            segments: cut(of.segments.iter().map(build_segment), SEGMENTS, LIST),
            causes: cut(of.causes.iter().map(|found| build_cause(found, of.times, OFFENDERS)), CAUSES, LIST),
            settings: cut(of.settings.iter().map(build_setting), CAUSES, LIST),
            each: self.columns(),
        }
    }

    /// The requests as columns. Of very many, of each run of some the slowest: a spike is what is looked for.
    fn columns(&self) -> RequestColumns {
        let all = self.requests.all();
        let every = all.len().div_ceil(DRAWN).max(1);
        let slowest = |(run, requests): (usize, &[xweave_vary::requests::Request])| {
            let at = (0..requests.len()).max_by_key(|at| (requests[*at].total_ns, Reverse(*at)));
            run * every + at.unwrap_or(0)
        };
        let places: Vec<usize> = all.chunks(every).enumerate().map(slowest).collect();
        let drawn = each(&self.requests, places.iter().copied());
        let segments = &self.variation.segments[..self.variation.segments.len().min(SEGMENTS)];
        let mut most: Vec<usize> = (0..segments.len()).collect();
        let share = |at: usize| segments[at].shares.most();
        most.sort_by(|one, other| share(*other).total_cmp(&share(*one)));
        let crowded =
            most.iter().copied().filter(|at| segments[*at].others.is_some_and(|others| others.max > 1));
        let segments = lines(&drawn, most.iter().copied(), |one| &one.segments_ns);
        let others = lines(&drawn, crowded, |one| &one.others);
        RequestColumns {
            every,
            number: places,
            id: drawn.iter().map(|one| Id(one.id)).collect(),
            total_ns: drawn.iter().map(|one| one.total_ns).collect(),
            segments,
            others,
        }
    }
}

/// Builds the columns of some of the segments.
fn lines(
    drawn: &[Each],
    segments: impl Iterator<Item = usize>,
    values: fn(&Each) -> &Vec<u64>,
) -> Vec<SegmentColumn> {
    let line = |at: usize| SegmentColumn {
        segment: at,
        values: drawn.iter().map(|one| values(one).get(at).copied().unwrap_or(0)).collect(),
    };
    segments.take(LINES).map(line).collect()
}
