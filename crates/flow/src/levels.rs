//! Very many flows at a glance: how the times of each kind are distributed, and which ones to look at one by one.

use std::collections::HashMap;

use crate::{
    choice::Choice,
    flows::NamedFlow,
    histogram::{Bin, Histogram},
    kinds::FlowKind,
};

/// Of each kind, so many of the slowest and at even shares of the others are looked at.
const SLOWEST: usize = 100;
const QUANTILES: usize = 200;
/// Chosen out of so many.
const SAMPLE: usize = 1 << 12;

/// What is remembered of the flows of all kinds.
#[derive(Default)]
pub struct Levels(HashMap<String, [OfSome; 2]>);

/// Of complete flows, or of others.
struct OfSome {
    times: Histogram,
    choice: Choice<u64>,
}

impl Default for OfSome {
    fn default() -> Self {
        Self { times: Histogram::default(), choice: Choice::new(SLOWEST, QUANTILES, SAMPLE) }
    }
}

/// How long the flows of a kind took: the complete ones, or all, if none is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// The kind: [`FlowKind::name`].
    pub kind: String,
    /// How many took how long.
    pub bins: Vec<Bin>,
}

impl Levels {
    /// Adds a flow.
    pub fn add(&mut self, flow: &NamedFlow<'_>) {
        let of = self.0.entry(flow.kind()).or_default();
        let flow = flow.flow();
        let some = &mut of[usize::from(!flow.complete())];
        some.times.add(flow.total_ns());
        some.choice.offer(flow.total_ns(), flow.id, || flow.id);
    }

    /// How the times of these kinds are distributed.
    pub fn distributions(&self, kinds: &[FlowKind]) -> Vec<Distribution> {
        let bins = |kind: &FlowKind| {
            let [complete, others] = self.0.get(&kind.name)?;
            Some(if kind.complete > 0 { &complete.times } else { &others.times }.bins())
        };
        let distribution =
            |kind: &FlowKind| Some(Distribution { kind: kind.name.clone(), bins: bins(kind)? });
        kinds.iter().filter_map(distribution).collect()
    }

    /// The IDs of the flows of these kinds that are to be looked at, those first that are to be kept where there is little
    /// room: of each kind the slowest, of each a typical one, and so on.
    pub fn chosen(mut self, kinds: &[FlowKind]) -> Vec<u64> {
        let mut all = Vec::new();
        for (at, kind) in kinds.iter().enumerate() {
            let of = self.0.remove(&kind.name).unwrap_or_default();
            let chosen = of.into_iter().flat_map(|some| some.choice.into_chosen());
            all.extend(chosen.enumerate().map(|(rank, id)| (rank, at, id)));
        }
        all.sort_unstable();
        all.into_iter().map(|(.., id)| id).collect()
    }
}
