//! Where the time goes: between each two consecutive hops, over all flows.

use std::collections::HashMap;

use serde::Serialize;
use xweave_trace::Row;
use xweave_wire::record::Kind;

use crate::graph::Flow;

/// The time between two hops that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// The kind of flow that it is of: [`FlowKind::name`](crate::FlowKind::name).
    pub kind: String,
    /// Where it begins: `domain:function`.
    pub from: String,
    /// Where it ends: `domain:function`.
    pub to: String,
    /// How often it was seen.
    pub count: u64,
    /// Shortest, in nanoseconds. Negative where clocks are in error.
    pub min_ns: i64,
    /// Half took at most this long.
    pub p50_ns: i64,
    /// All but one in a hundred took at most this long.
    pub p99_ns: i64,
    /// Longest.
    pub max_ns: i64,
    /// Whether it lies on the path that most flows of its kind take.
    pub main: bool,
}

/// Where on the path a hop is: functions of a domain, numbered.
pub(crate) type Place = u32;

/// Adds up the segments of flows of one kind, those of the commonest path first, in its order; the others by
/// their mean place in their flows.
///
/// Flows that lost records are left out, since their neighbours are none; so are, if there are
/// complete flows, all that are not.
pub(crate) fn of(
    kind: &str,
    flows: &[&Flow],
    rows: &[Row],
    place: impl Fn(&Row) -> Place,
    names: &[String],
) -> Vec<Segment> {
    let any_complete = flows.iter().any(|flow| flow.complete());
    let taken = |flow: &&&Flow| flow.lost == 0 && (flow.complete() || !any_complete);
    let mut shapes: HashMap<Vec<Place>, u64> = HashMap::new();
    let mut all: HashMap<(Place, Place), Times> = HashMap::new();
    for flow in flows.iter().filter(taken) {
        let path = path(flow, rows, &place);
        for (position, pair) in path.windows(2).enumerate() {
            let times = all.entry((pair[0].0, pair[1].0)).or_default();
            times.ns.push(pair[1].1.saturating_sub(pair[0].1));
            times.positions += position as u64;
        }
        *shapes.entry(path.into_iter().map(|(place, _)| place).collect()).or_default() += 1;
    }
    // The longer shape of two equally common ones tells more; then any, but always the same.
    let commonest = shapes.into_iter().max_by(|(a, n), (b, m)| (n, a.len(), b).cmp(&(m, b.len(), a)));
    let main: HashMap<(Place, Place), usize> = commonest
        .iter()
        .flat_map(|(shape, _)| shape.windows(2).enumerate().rev().map(|(at, pair)| ((pair[0], pair[1]), at)))
        .collect();

    let mut ordered: Vec<_> = all.into_iter().collect();
    ordered.sort_by(|(a, x), (b, y)| {
        let place = |pair| main.get(pair).copied().unwrap_or(usize::MAX);
        let mean = |times: &Times| times.positions as f64 / times.ns.len() as f64;
        place(a).cmp(&place(b)).then(mean(x).total_cmp(&mean(y))).then(a.cmp(b))
    });
    let name = |place: Place| names.get(place as usize).cloned().unwrap_or_default();
    let segment = |((from, to), times): ((Place, Place), Times)| {
        let main = main.contains_key(&(from, to));
        times.segment(kind, name(from), name(to), main)
    };
    ordered.into_iter().map(segment).collect()
}

/// The hops on a flow's path. What a flow operation recorded at the function of the hop before it
/// is no step of its own: advice and operation are woven into the same place.
fn path(flow: &Flow, rows: &[Row], place: impl Fn(&Row) -> Place) -> Vec<(Place, i64)> {
    let operation = |row: &Row| {
        matches!(
            row.kind,
            Kind::Start | Kind::Move | Kind::Copy | Kind::Quit | Kind::Split | Kind::Merge | Kind::Frame
        )
    };
    let mut path: Vec<(Place, i64)> = Vec::new();
    let mut last: Option<&Row> = None;
    for step in flow.steps.iter().filter(|step| step.on_path) {
        let row = &rows[step.row];
        let here = place(row);
        let same = last.is_some_and(|last| {
            last.tid == row.tid && place(last) == here && (operation(last) || operation(row))
        });
        if !same {
            path.push((here, row.time_ns));
        }
        last = Some(row);
    }
    path
}

/// The smallest of the values, which are in ascending order and not none, that at least that share does not exceed.
pub(crate) fn rank(ns: &[i64], percent: usize) -> i64 {
    ns[(ns.len() * percent).div_ceil(100).max(1) - 1]
}

#[derive(Default)]
struct Times {
    ns: Vec<i64>,
    /// Sum of the places in their flows.
    positions: u64,
}

impl Times {
    fn segment(mut self, kind: &str, from: String, to: String, main: bool) -> Segment {
        self.ns.sort_unstable();
        let rank = |percent| rank(&self.ns, percent);
        Segment {
            kind: kind.to_owned(),
            from,
            to,
            count: self.ns.len() as u64,
            min_ns: rank(0),
            p50_ns: rank(50),
            p99_ns: rank(99),
            max_ns: rank(100),
            main,
        }
    }
}
