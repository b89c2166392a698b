//! Flows: what `xweave flows` prints with `--json`, and of the flows themselves a choice.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    exchange::{Exchange, Service},
    flows::{Flow, FlowKind, FlowSummary, Place, Segment, SiteCounts},
    value::{Bin, Cut, Id},
};

/// Flows of a trace.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PageFlows {
    /// Counts.
    pub summary: FlowSummary,
    /// ID of the typical flow; null if there is none.
    pub typical: Option<Id>,
    /// Kinds of flow, the commonest first.
    pub kinds: Cut<FlowKind>,
    /// Places in the order in which flows come there, by kind.
    pub places: Cut<Place>,
    /// Times between consecutive hops.
    pub segments: Cut<Segment>,
    /// Sites of the trace.
    pub sites: Cut<SiteCounts>,
    /// Distributions of the times of the kinds.
    pub distributions: Cut<Distribution>,
    /// Services, the most frequent first; null if there are too many flows to find them.
    pub services: Option<Cut<Service>>,
    /// Exchanges: the slowest ones and a choice of the others; null with `services`.
    pub exchanges: Option<Cut<NumberedExchange>>,
    /// Flows: the typical one, those of the slowest exchanges, and a choice of each kind.
    pub flows: Vec<Flow<'static>>,
    /// Answer for each kind, as the command prints it.
    pub headlines: Vec<String>,
}

/// Distribution of the times of a kind of flow: of the complete ones, or of all, if none is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Distribution {
    /// Kind.
    pub kind: String,
    /// Bins, the shortest times first.
    pub bins: Vec<Bin>,
}

/// An exchange with its number.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct NumberedExchange {
    /// Place in the order of the beginnings, which `inside` of others refers to.
    pub number: usize,
    /// Exchange.
    #[serde(flatten)]
    pub exchange: Exchange<'static>,
}
