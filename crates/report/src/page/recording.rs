//! What was recorded, and how exact its times are.

use serde_json::{Value, json};
use xweave_flow::Summary;
use xweave_trace::{Clock, Domain, Trace};

use super::bounded::cut;

/// Of more domains, and parts of a command, the first are told.
const DOMAINS: usize = 64;
const WORDS: usize = 64;

/// Of a trace, and its flows, if it has any.
pub(super) fn of(trace: &Trace, summary: Option<&Summary>) -> Value {
    let manifest = trace.manifest();
    let domain = |domain: &Domain| {
        let clock = manifest.clocks.iter().find(|clock| clock.domain == domain.name);
        let error = |clock: &Clock| clock.error_ns;
        json!({
            "name": domain.name,
            "role": domain.role,
            "host": domain.vm.as_ref().map(|vm| &vm.host),
            "kernel": domain.kernel,
            "cpus": domain.cpus,
            "clock_error_ns": clock.map(error).filter(|error| *error != u64::MAX),
            "clock": clock.map(|clock| clock.method),
        })
    };
    let error = summary.map(|summary| summary.clock_error_ns).unwrap_or_else(|| {
        let errors = manifest.clocks.iter().map(|clock| clock.error_ns);
        errors.max().unwrap_or(u64::MAX)
    });
    json!({
        "created_ns": manifest.created_ns.to_string(),
        "complete": manifest.complete,
        "start_ns": manifest.start_ns,
        "end_ns": manifest.end_ns,
        "records": summary.map_or(manifest.records, |summary| summary.records),
        "events": manifest.events,
        "lost": manifest.lost,
        "clock_error_ns": Some(error).filter(|error| *error != u64::MAX),
        "command": cut(&manifest.command, WORDS, 16 << 10),
        "domains": cut(&manifest.domains.iter().map(domain).collect::<Vec<_>>(), DOMAINS, 32 << 10),
    })
}
