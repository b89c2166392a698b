//! The document of `xweave export`.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Export<'a> {
    /// File that was written.
    pub file: Cow<'a, str>,
    /// Kind of the transactions; null if there are none.
    pub transaction: Option<String>,
    /// Contents of the file, counted.
    #[serde(flatten)]
    pub counts: ExportCounts,
    /// Files of the trace that could not be read, or not to their ends.
    pub damage: &'a [String],
}

/// Contents of an exported file, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ExportCounts {
    /// Domains; each is a machine of the viewer.
    pub domains: u64,
    /// Flows.
    pub flows: u64,
    /// Records of flows: on their paths, and off these.
    pub hops: u64,
    /// Arrows: from each record of a path to the next.
    pub arrows: u64,
    /// Transactions.
    pub transactions: u64,
    /// Steps of transactions.
    pub steps: u64,
    /// Context switches.
    pub switches: u64,
    /// Wakeups.
    pub wakeups: u64,
    /// Interrupts, hard and soft.
    pub interrupts: u64,
    /// Times in which vCPUs were in their guests.
    pub in_guest: u64,
    /// VM exits, up to the next VM entry.
    pub exits: u64,
    /// Times in which events were lost.
    pub losses: u64,
    /// Discontinuities of clocks.
    pub clock_breaks: u64,
    /// Events of CPUs whose numbers the viewer does not support.
    pub left_out: u64,
    /// Tracks.
    pub tracks: u64,
    /// Slices: they have a beginning and an end.
    pub slices: u64,
    /// Instants: they have a time only.
    pub instants: u64,
    /// Packets that the contents are encoded in.
    pub packets: u64,
    /// Bytes of the packets.
    pub bytes: u64,
}
