//! The document of `xweave latency`.

use std::io::{self, Write};

use xweave_document::latency::{CallTimes, FunctionLatency, Latencies};
use xweave_flow::latency::{self, Latency};

use super::parts::build_bins;

/// Writes the document of calls, and of how many records the trace lost.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, found: &latency::Latencies, lost: u64) -> io::Result<()> {
    let function = |of: &latency::FunctionLatency| FunctionLatency {
        domain: of.domain.clone(),
        function: of.function.clone(),
        times: build_times(&of.latency),
    };
    let document = Latencies {
        all: build_times(&found.all),
        functions: found.functions.iter().map(function).collect(),
        recorder_calls: found.of_recorder,
        partial_calls: found.partial,
        lost,
    };
    super::stream(out, &document)
}

fn build_times(of: &Latency) -> CallTimes {
    CallTimes {
        calls: of.calls,
        total_ns: of.total_ns,
        min_ns: of.min_ns,
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
        max_ns: of.max_ns,
        histogram: build_bins(&of.histogram.bins()),
    }
}
