//! The flows of a page: what `xweave flows --json` prints, of the flows themselves a choice.

use std::collections::HashMap;

use xweave_document::{
    flows::Flow,
    page::flows::{Distribution, NumberedExchange, PageFlows},
    value::{Cut, Id},
};
use xweave_flow::{FlowKind, Flows, Join, Levels, Wanted, choice::Choice, exchange};
use xweave_trace::Trace;

use super::bounded::{Budget, cut};
use crate::document::{
    exchange::{self as exchange_document, build_service},
    flows::{build_flow, build_kind, build_place, build_segment, build_site, build_summary},
    parts::build_bins,
};

/// What there is at most of each.
const KINDS: usize = 32;
const PLACES: usize = 500;
const SEGMENTS: usize = 2_000;
const SITES: usize = 500;
const SERVICES: usize = 32;

/// Room for the flows with their steps, for requests, and for each list beside them, in bytes.
const FLOWS: usize = 5 << 19;
const EXCHANGES: usize = 512 << 10;
const LIST: usize = 192 << 10;

/// Of requests, so many of the slowest and at even shares of the others, out of so many.
const SLOWEST: usize = 50;
const QUANTILES: usize = 100;
const SAMPLE: usize = 1 << 12;

/// Requests are found in the frames of all flows at a time: not in more than memory should hold, nor of more records.
const AT_ONCE: u64 = 250_000;
const RECORDS_AT_ONCE: u64 = 8 << 20;

/// What is known of the flows.
pub(super) struct Found {
    /// Without the flows themselves.
    pub(super) flows: Flows,
    /// Those that the page has, in ascending order of their IDs.
    pub(super) chosen: Vec<u64>,
    /// Who was asked, the most frequent first; none, if there are too many flows to find that.
    pub(super) services: Vec<exchange::Service>,
    pub(super) document: PageFlows,
}

/// Goes through the flows of a trace.
pub(super) fn of<'a>(trace: &'a Trace, join: &dyn Fn() -> Join<'a>) -> Found {
    let mut levels = Levels::default();
    let wanted = Wanted { of: &|_| true, kept: Some(0) };
    let Ok(flows) = Flows::each(trace, join(), wanted, |flow| {
        levels.add(&flow);
        Ok::<_, std::convert::Infallible>(())
    });
    let flows = flows.with_takers(trace);
    let kinds = &flows.kinds()[..flows.kinds().len().min(KINDS)];
    let summary = flows.summary();
    let few = summary.flows <= AT_ONCE && summary.records <= RECORDS_AT_ONCE;
    let requests = few.then(|| requests(trace, join));
    let distributions = levels.distributions(kinds).into_iter();
    let distributions = distributions.map(|of| Distribution { bins: build_bins(&of.bins), kind: of.kind });
    // The typical flow and those of the slowest requests are asked for first.
    let mut wanted: Vec<u64> = flows.typical().map(|flow| flow.id).into_iter().collect();
    wanted.extend(requests.iter().flat_map(|requests| &requests.flows));
    wanted.extend(levels.chosen(kinds));
    let sample = sample(trace, join, &wanted);
    let mut chosen: Vec<u64> = sample.iter().map(|flow| flow.id.0).collect();
    chosen.sort_unstable();
    let headlines = kinds.iter().map(|kind| headline(&flows, kind)).collect();
    let services = |of: &Requests| cut(of.services.iter().map(build_service), SERVICES, LIST);
    let document = PageFlows {
        summary: build_summary(flows.summary()),
        typical: flows.typical().map(|flow| Id(flow.id)),
        kinds: cut(flows.kinds().iter().map(build_kind), KINDS, LIST),
        places: cut(flows.places().iter().map(build_place), PLACES, LIST),
        segments: cut(flows.segments().iter().map(build_segment), SEGMENTS, LIST),
        sites: cut(flows.sites().iter().map(build_site), SITES, LIST),
        distributions: cut(distributions, KINDS, LIST),
        services: requests.as_ref().map(services),
        exchanges: requests.as_ref().map(|requests| requests.exchanges.clone()),
        flows: sample,
        headlines,
    };
    let services = requests.map(|requests| requests.services).unwrap_or_default();
    Found { flows, chosen, services, document }
}

/// The answer for a kind, as `xweave flows` gives it.
fn headline(flows: &Flows, kind: &FlowKind) -> String {
    crate::places::headline(kind, flows.places_of(kind)).trim_end().to_owned()
}

/// The flows of these IDs that there is room for, the first ones rather than others; in the order of their beginnings.
fn sample<'a>(trace: &'a Trace, join: &dyn Fn() -> Join<'a>, ids: &[u64]) -> Vec<Flow<'static>> {
    let mut ranks: HashMap<u64, usize> = HashMap::new();
    for (rank, id) in ids.iter().enumerate() {
        ranks.entry(*id).or_insert(rank);
    }
    let mut found: Vec<(usize, Flow<'static>)> = Vec::new();
    let wanted = Wanted { of: &|flow| ranks.contains_key(&flow.id), kept: Some(0) };
    let Ok(_) = Flows::each(trace, join(), wanted, |flow| {
        if let Some(rank) = ranks.get(&flow.flow().id) {
            let flow = build_flow(&flow);
            if Budget::of(FLOWS / 16).admit(&flow) {
                found.push((*rank, flow.into_owned()));
            }
        }
        Ok::<_, std::convert::Infallible>(())
    });
    found.sort_by_key(|(rank, _)| *rank);
    let mut budget = Budget::of(FLOWS);
    found.retain(|(_, flow)| budget.admit(flow));
    found.sort_by_key(|(_, flow)| (flow.start_ns, flow.id));
    found.into_iter().map(|(_, flow)| flow).collect()
}

/// What `xweave flows --by connection --json` prints, of the requests a choice.
struct Requests {
    services: Vec<exchange::Service>,
    exchanges: Cut<NumberedExchange>,
    /// Flows of the requests that the page has, the slowest first.
    flows: Vec<u64>,
}

fn requests<'a>(trace: &'a Trace, join: &dyn Fn() -> Join<'a>) -> Requests {
    let all = exchange::of(&Flows::read(trace, join(), Wanted { of: &|_| true, kept: None }));
    let mut choice = Choice::new(SLOWEST, QUANTILES, SAMPLE);
    for (number, exchange) in all.iter().enumerate() {
        choice.offer(exchange.total_ns(), number as u64, || number);
    }
    let numbered = |number: usize| NumberedExchange {
        number,
        exchange: exchange_document::build(&all[number]).into_owned(),
    };
    let mut chosen: Vec<_> = choice.into_chosen().into_iter().map(numbered).collect();
    let mut budget = Budget::of(EXCHANGES);
    chosen.retain(|one| budget.admit(one));
    let sides = chosen.iter().flat_map(|one| [&one.exchange.request, &one.exchange.answer]);
    let flows = sides.flat_map(|side| side.flows.iter().copied()).collect();
    chosen.sort_by_key(|one| one.number);
    let services = exchange::services(&all);
    Requests { services, exchanges: Cut { of: all.len(), all: chosen }, flows }
}
