//! Kinds of flow: what a request frame, an acknowledgement and an ARP request go through is not one path.

use std::collections::BTreeMap;

use serde::Serialize;
use xweave_trace::Row;

use crate::{
    graph::Flow,
    segments::{self, Place, Segment},
};

/// All flows of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowKind {
    /// What they are, and the domains that their paths begin and end in: `TCP data, vm1 → vm2`.
    pub name: String,
    /// How many.
    pub flows: u64,
    /// How many of them are known from their beginning to their end.
    pub complete: u64,
    /// Half of the complete ones took at most this long, in nanoseconds; of all, if none is complete.
    pub p50_ns: i64,
    /// All but one in a hundred.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
}

/// What a flow is, in a few words.
fn what(flow: &Flow) -> String {
    match (&flow.frame, flow.name.as_str()) {
        (Some(frame), _) => frame.kind(),
        (None, "") => "flow".into(),
        // Made of others, and never given to a device as a whole.
        (None, name) if flow.parents.len() > 1 => format!("{name}, put together"),
        (None, name) => name.to_owned(),
    }
}

/// The name of a flow's kind.
pub(crate) fn name<'a>(flow: &Flow, domain: impl Fn(u8) -> &'a str) -> String {
    named(&what(flow), flow.ends, domain)
}

fn named<'a>(what: &str, (from, to): (u8, u8), domain: impl Fn(u8) -> &'a str) -> String {
    if from == to {
        format!("{what}, {}", domain(from))
    } else {
        format!("{what}, {} → {}", domain(from), domain(to))
    }
}

/// The kinds, the commonest first, and the segments of each, in the same order.
pub(crate) fn of<'a>(
    flows: &[Flow],
    rows: &[Row],
    domain: impl Fn(u8) -> &'a str,
    place: impl Fn(&Row) -> Place,
    names: &[String],
) -> (Vec<FlowKind>, Vec<Segment>) {
    let mut groups: BTreeMap<(String, (u8, u8)), Vec<&Flow>> = BTreeMap::new();
    for flow in flows {
        groups.entry((what(flow), flow.ends)).or_default().push(flow);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, flows)| std::cmp::Reverse(flows.len()));
    let (mut kinds, mut all) = (Vec::new(), Vec::new());
    for ((what, ends), flows) in groups {
        let name = named(&what, ends, &domain);
        let complete = flows.iter().filter(|flow| flow.complete()).count();
        let mut ns: Vec<i64> = (flows.iter().filter(|flow| complete == 0 || flow.complete()))
            .map(|flow| flow.total_ns())
            .collect();
        ns.sort_unstable();
        all.extend(segments::of(&name, &flows, rows, &place, names));
        kinds.push(FlowKind {
            name,
            flows: flows.len() as u64,
            complete: complete as u64,
            p50_ns: segments::rank(&ns, 50),
            p99_ns: segments::rank(&ns, 99),
            max_ns: segments::rank(&ns, 100),
        });
    }
    (kinds, all)
}
