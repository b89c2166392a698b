//! The compiled probes of events, and what they are given when they are made to fit a kernel.

use serde::{Deserialize, Serialize};

/// The compiled probes, which fit many kernels: made when xweave is built.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EventObject {
    /// The BPF object.
    pub elf: Vec<u8>,
    /// The arguments that programs read.
    pub parameters: Vec<ProbeParameters>,
}

/// The types of the first arguments of a probe's function or tracepoint: those that its program reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeParameters {
    /// The program's name.
    pub program: String,
    /// As C writes them, without qualifiers.
    pub types: Vec<String>,
}

/// Values that programs are given as constants of their object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventConstants {
    /// Whether `tcp_connect` is hooked.
    pub(crate) sees_connects: bool,
    /// Whether the tracepoint `tcp_retransmit_skb` has an error as its third argument.
    pub(crate) retransmit_has_error: bool,
    /// The value of `BIO_TRACE_COMPLETION`.
    pub(crate) bio_trace_completion: u32,
}
