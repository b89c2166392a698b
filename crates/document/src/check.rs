//! The document of `xweave check`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnostic::Diagnostic;

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Check<'a> {
    /// Clauses that would be woven, by domain.
    pub advice: Vec<CheckedAdvice<'a>>,
    /// Functions that a pattern matches and that cannot be hooked.
    pub skipped: Vec<SkippedFunction<'a>>,
    /// Functions and tracepoints that aspects can do without, and a kernel lacks.
    pub absent: Vec<AbsentFunction<'a>>,
    /// Probes of events by domain, if any were requested.
    pub events: Vec<CheckedEvents<'a>>,
    /// Warnings.
    pub warnings: Vec<Diagnostic<'a>>,
    /// Mistakes: nothing can be woven.
    pub errors: Vec<Diagnostic<'a>>,
}

/// A clause in a domain.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CheckedAdvice<'a> {
    /// Name of the advice, or the flow's, the kind and a number: `packet.transit3`.
    pub name: &'a str,
    /// Domain.
    pub domain: &'a str,
    /// Number of join points by precision.
    pub sites: SitesByPrecision,
    /// Number of join points that would be woven.
    pub woven: usize,
    /// Number of these that are instructions.
    pub probes: usize,
    /// Cost of passing one of these, in microseconds: at least, and at most.
    pub probe_us: [f64; 2],
    /// File of the clause.
    pub file: &'a str,
    /// Line of the clause.
    pub line: u32,
    /// What the clause does to flows; `advice` if it only stores.
    pub action: &'static str,
    /// Functions, one for each join point.
    pub functions: Vec<&'a str>,
    /// Join points: `tcp_sendmsg`, or `tcp_sendmsg+0x1f` if it is an instruction.
    pub places: Vec<String>,
}

/// Number of join points by precision.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SitesByPrecision {
    /// With `every`.
    pub every: usize,
    /// With `first`.
    pub first: usize,
    /// With `function`.
    pub function: usize,
}

/// A function that a pattern matches and that cannot be hooked.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SkippedFunction<'a> {
    /// Clause, as in `advice`.
    pub name: &'a str,
    /// Domain.
    pub domain: &'a str,
    /// Function.
    pub function: &'a str,
    /// Reason, in words.
    pub reason: &'a str,
}

/// A function or tracepoint that a clause names with `?`, and that a kernel lacks.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AbsentFunction<'a> {
    /// Clause, as in `advice`.
    pub name: &'a str,
    /// Domain.
    pub domain: &'a str,
    /// Function or tracepoint.
    pub function: &'a str,
}

/// Probes of events in a domain.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CheckedEvents<'a> {
    /// Domain.
    pub domain: &'a str,
    /// Number of probes that its kernel has a place for.
    pub probes: usize,
    /// Events that it has no place for, and why.
    pub left_out: &'a [String],
}
