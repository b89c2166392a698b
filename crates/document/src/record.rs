//! The document of `xweave record`.

use std::borrow::Cow;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The document. Its members that the trace's manifest (`trace.json`) has too are of the types of that file: `D` is its
/// domain, `C` its clock and `L` its losses.
#[derive(Clone, Debug, Serialize)]
pub struct Record<'a, D, C, L> {
    /// Trace directory.
    pub trace: Cow<'a, str>,
    /// Records in it.
    pub records: u64,
    /// Events in it.
    pub events: u64,
    /// Records and events that are missing.
    pub lost: u64,
    /// Kernels that were woven.
    pub domains: &'a [D],
    /// Guests that were named and are not recorded.
    pub left_out: Vec<LeftOutGuest<'a>>,
    /// Way of each domain's times onto the time line.
    pub clocks: &'a [C],
    /// Warnings, in words.
    pub warnings: &'a [String],
    /// Losses by site and by kind of event.
    pub loss: &'a L,
    /// Exit status of the command that was recorded; null if there was none, or a signal ended it.
    pub command_status: Option<i32>,
    /// Sites woven, in all domains.
    pub sites: usize,
    /// Time that loading and attaching took, in nanoseconds.
    pub attach_ns: u64,
    /// Time that detaching took in the slowest domain, in nanoseconds.
    pub detach_ns: u64,
}

/// A guest that is not recorded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LeftOutGuest<'a> {
    /// Name of the guest.
    pub domain: &'a str,
    /// Reason, in words.
    pub reason: &'a str,
}
