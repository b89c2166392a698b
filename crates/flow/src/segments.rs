//! Where the time goes: between each two consecutive hops, over all flows.

use std::collections::HashMap;

use xweave_trace::Row;
use xweave_wire::record::Kind;

use crate::{
    durations::{Durations, Spread},
    functions::{Function, Functions, Number},
    graph::Flow,
    places::{Place, Stays, Step},
    takers::Wait,
};

/// The time between two hops that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Shapes of paths of a kind that are told apart: the commonest is among the first.
const SHAPES: usize = 4 << 10;

/// The paths of flows of one kind, added up.
#[derive(Default)]
pub(crate) struct Paths {
    shapes: HashMap<Vec<Number>, Shape>,
    /// By the places that they are between; and each one's place in `times`.
    pairs: HashMap<(Number, Number), usize>,
    times: Vec<Times>,
    stays: Stays,
    /// The path of a flow, and its shape.
    path: Vec<Step>,
    shape: Vec<Number>,
}

/// The flows of one shape.
#[derive(Default)]
struct Shape {
    flows: u64,
    /// The segments' places in [`Paths::times`], in their order.
    times: Vec<usize>,
    /// And where a flow is meanwhile.
    stays: Vec<usize>,
}

impl Paths {
    /// Adds a flow's. One that lost records has no path: its neighbours are none.
    pub(crate) fn add(&mut self, flow: &Flow, functions: &mut Functions, tell: impl Fn(&Row) -> Function) {
        if flow.lost > 0 {
            return;
        }
        path(flow, &mut self.path, |row| functions.of(row, &tell));
        self.shape.clear();
        self.shape.extend(self.path.iter().map(|step| step.function));
        if self.shapes.len() < SHAPES && !self.shapes.contains_key(&self.shape) {
            let (pairs, times) = (&mut self.pairs, &mut self.times);
            let of = self.shape.windows(2).map(|pair| place_of(pairs, times, pair)).collect();
            let stays = self.stays.numbers(&self.shape, functions);
            self.shapes.insert(self.shape.clone(), Shape { flows: 0, times: of, stays });
        }
        let mut shape = self.shapes.get_mut(&self.shape);
        if let Some(shape) = &mut shape {
            shape.flows += 1;
        }
        for (position, pair) in self.path.windows(2).enumerate() {
            let at = match &shape {
                Some(shape) => shape.times[position],
                None => place_of(&mut self.pairs, &mut self.times, &[pair[0].function, pair[1].function]),
            };
            self.times[at].ns.add(pair[1].time_ns.saturating_sub(pair[0].time_ns));
            self.times[at].positions += position as u64;
        }
        match shape {
            Some(shape) => self.stays.add(&shape.stays, &self.path, flow),
            None => {
                let stays = self.stays.numbers(&self.shape, functions);
                self.stays.add(&stays, &self.path, flow);
            }
        }
    }

    /// The places, as [`Stays::told`].
    pub(crate) fn places<'a>(
        &mut self,
        kind: &str,
        domain: impl Fn(u8) -> &'a str,
    ) -> impl Iterator<Item = (Place, Vec<Wait>)> {
        std::mem::take(&mut self.stays).told(kind, domain)
    }

    /// The segments: those of the commonest path first, in its order; the others by their mean place in their flows.
    pub(crate) fn segments(&mut self, kind: &str, functions: &Functions) -> Vec<Segment> {
        let named = |place: &Number| functions.name(*place);
        // The longer shape of two equally common ones tells more; then any, but always the same.
        let commonest = self.shapes.iter().max_by(|(a, of), (b, other)| {
            let tie = || b.iter().map(named).cmp(a.iter().map(named));
            (of.flows, a.len()).cmp(&(other.flows, b.len())).then_with(tie)
        });
        let main: HashMap<(Number, Number), usize> = commonest
            .iter()
            .flat_map(|(shape, _)| {
                shape.windows(2).enumerate().rev().map(|(at, pair)| ((pair[0], pair[1]), at))
            })
            .collect();
        let times = &mut self.times;
        let mut ordered: Vec<(&(Number, Number), usize)> =
            self.pairs.iter().map(|(pair, at)| (pair, *at)).collect();
        ordered.sort_by(|(a, x), (b, y)| {
            let place = |pair| main.get(pair).copied().unwrap_or(usize::MAX);
            let mean = |times: &Times| times.positions as f64 / times.ns.count() as f64;
            let tie = || (named(&a.0), named(&a.1)).cmp(&(named(&b.0), named(&b.1)));
            place(a).cmp(&place(b)).then(mean(&times[*x]).total_cmp(&mean(&times[*y]))).then_with(tie)
        });
        let name = |place: Number| functions.name(place).unwrap_or_default().to_owned();
        let mut segment = |(pair, at): (&(Number, Number), usize)| {
            let times = &mut times[at];
            let Spread { min_ns, p50_ns, p99_ns, max_ns } = times.ns.spread();
            Segment {
                kind: kind.to_owned(),
                from: name(pair.0),
                to: name(pair.1),
                count: times.ns.count(),
                min_ns,
                p50_ns,
                p99_ns,
                max_ns,
                main: main.contains_key(pair),
            }
        };
        ordered.into_iter().map(&mut segment).collect()
    }
}

fn place_of(pairs: &mut HashMap<(Number, Number), usize>, times: &mut Vec<Times>, pair: &[Number]) -> usize {
    *pairs.entry((pair[0], pair[1])).or_insert_with(|| {
        times.push(Times::default());
        times.len() - 1
    })
}

/// The hops on a flow's path. What a flow operation recorded at the function of the hop before it
/// is no step of its own: advice and operation are woven into the same place.
fn path(flow: &Flow, path: &mut Vec<Step>, mut place: impl FnMut(&Row) -> Number) {
    let operation = |row: &Row| {
        matches!(
            row.kind,
            Kind::Start | Kind::Move | Kind::Copy | Kind::Quit | Kind::Split | Kind::Merge | Kind::Frame
        )
    };
    path.clear();
    let mut last: Option<(&Row, Number)> = None;
    for (record, row) in flow.path().enumerate() {
        let here = place(row);
        let same = last.is_some_and(|(last, there)| {
            last.tid == row.tid && there == here && (operation(last) || operation(row))
        });
        if !same {
            path.push(Step { function: here, time_ns: row.time_ns, record });
        }
        last = Some((row, here));
    }
}

#[derive(Default)]
struct Times {
    ns: Durations,
    /// Sum of the places in their flows.
    positions: u64,
}
