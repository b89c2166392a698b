//! Kinds of flow: what a request frame, an acknowledgement and an ARP request go through is not one path.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use xweave_trace::Row;

use crate::{
    durations::{Durations, Spread},
    functions::{Function, Functions},
    graph::Flow,
    places::Place,
    segments::{Paths, Segment},
    takers::Wait,
};

/// All flows of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
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
fn what(flow: &Flow) -> Cow<'_, str> {
    match (&flow.frame, flow.name.as_str()) {
        (Some(frame), _) => frame.kind(),
        (None, "") => "flow".into(),
        // Made of others, and never given to a device as a whole.
        (None, name) if flow.parents.len() > 1 => format!("{name}, put together").into(),
        (None, name) => name.into(),
    }
}

/// The name of a flow's kind: what flows are, and the domains that their paths begin and end in.
pub(crate) struct KindName<'a> {
    what: Cow<'a, str>,
    from: &'a str,
    /// Where another one than they begin in.
    to: Option<&'a str>,
}

impl<'a> KindName<'a> {
    pub(crate) fn of(flow: &'a Flow, domain: impl Fn(u8) -> &'a str) -> Self {
        Self::new(what(flow), flow.ends, domain)
    }

    fn new(what: Cow<'a, str>, (from, to): (u8, u8), domain: impl Fn(u8) -> &'a str) -> Self {
        Self { what, from: domain(from), to: (to != from).then(|| domain(to)) }
    }
}

impl fmt::Display for KindName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.what, self.from)?;
        self.to.map_or(Ok(()), |to| write!(f, " → {to}"))
    }
}

/// What is added up of the flows of one kind: of the complete ones, and of the others.
#[derive(Default)]
struct Kind([OfSome; 2]);

#[derive(Default)]
struct OfSome {
    times: Durations,
    paths: Paths,
}

/// What is told of all kinds.
#[derive(Default)]
pub(crate) struct Told {
    pub kinds: Vec<FlowKind>,
    pub places: Vec<Place>,
    /// Of each place, some of the times on it, if it is a carrier.
    pub waits: Vec<Vec<Wait>>,
    pub segments: Vec<Segment>,
}

/// All flows, added up by their kinds.
#[derive(Default)]
pub(crate) struct Kinds(BTreeMap<(String, (u8, u8)), Kind>);

impl Kinds {
    pub(crate) fn add(&mut self, flow: &Flow, functions: &mut Functions, tell: impl Fn(&Row) -> Function) {
        let Kind(of) = self.0.entry((what(flow).into_owned(), flow.ends)).or_default();
        let some = &mut of[usize::from(!flow.complete())];
        some.times.add(flow.total_ns());
        some.paths.add(flow, functions, tell);
    }

    /// The kinds, the commonest first, and the places and segments of each, in the same order: of the complete flows, if
    /// there are any.
    pub(crate) fn told<'a>(self, domain: impl Fn(u8) -> &'a str, functions: &Functions) -> Told {
        let count = |Kind(of): &Kind| of.iter().map(|some| some.times.count()).sum::<u64>();
        let mut groups: Vec<_> = self.0.into_iter().collect();
        groups.sort_by_key(|(_, kind)| std::cmp::Reverse(count(kind)));
        let mut told = Told::default();
        for ((what, ends), kind) in groups {
            let name = KindName::new(what.into(), ends, &domain).to_string();
            let flows = count(&kind);
            let Kind([mut done, mut others]) = kind;
            let complete = done.times.count();
            let some = if complete > 0 { &mut done } else { &mut others };
            let (places, waits): (Vec<_>, Vec<_>) = some.paths.places(&name, &domain).unzip();
            told.places.extend(places);
            told.waits.extend(waits);
            told.segments.extend(some.paths.segments(&name, functions));
            let Spread { p50_ns, p99_ns, max_ns, .. } = some.times.spread();
            told.kinds.push(FlowKind { name, flows, complete, p50_ns, p99_ns, max_ns });
        }
        told
    }
}
