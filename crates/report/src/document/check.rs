//! What `xweave check --json` prints.

use serde::Serialize;
use xweave_aspect as aspect;
use xweave_weave::{self as weave, Clause, SiteInfo, Weaving};

use super::diagnostic::{self, Diagnostic};
use crate::check::{PROBE_US, probes};

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct Check<'a> {
    /// What would be woven: one for each clause and domain.
    pub advice: Vec<Advice<'a>>,
    /// What patterns match, but no hook can reach.
    pub skipped: Vec<Skipped<'a>>,
    /// What aspects can do without, and a kernel lacks.
    pub absent: Vec<Absent<'a>>,
    /// The probes of events, by domain, if any were asked for.
    pub events: Vec<Events<'a>>,
    /// What is to be known.
    pub warnings: Vec<Diagnostic<'a>>,
    /// What is wrong: nothing can be woven.
    pub errors: Vec<Diagnostic<'a>>,
}

/// A clause in a domain.
#[derive(Clone, Debug, Serialize)]
pub struct Advice<'a> {
    /// The advice's name, or the flow's, the kind and a number: `packet.transit3`.
    pub name: &'a str,
    /// The domain.
    pub domain: &'a str,
    /// How many join points each choice of how exact to be would have.
    pub sites: Sites,
    /// How many would be woven.
    pub woven: usize,
    /// How many of these are instructions.
    pub probes: usize,
    /// What it costs to pass one of those, in microseconds: at least, and at most.
    pub probe_us: [f64; 2],
    /// The file that the clause is in.
    pub file: &'a str,
    /// Its line there.
    pub line: u32,
    /// What it does.
    pub action: &'static str,
    /// The functions, one for each join point.
    pub functions: Vec<&'a str>,
    /// The join points: `tcp_sendmsg`, or `tcp_sendmsg+0x1f` where it is an instruction.
    pub places: Vec<String>,
}

/// How many join points there are.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sites {
    /// Of `every`.
    pub every: usize,
    /// Of `first`.
    pub first: usize,
    /// Of `function`.
    pub function: usize,
}

/// A function that a pattern matched, but that cannot be hooked.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Skipped<'a> {
    /// The clause, as in [`Advice::name`].
    pub name: &'a str,
    /// The domain.
    pub domain: &'a str,
    /// The function.
    pub function: &'a str,
    /// Why.
    pub reason: &'a str,
}

/// A function or tracepoint that a clause names with `?`, and that a kernel lacks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Absent<'a> {
    /// The clause, as in [`Advice::name`].
    pub name: &'a str,
    /// The domain.
    pub domain: &'a str,
    /// The function or tracepoint.
    pub function: &'a str,
}

/// The probes of events in a domain.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Events<'a> {
    /// The domain.
    pub domain: &'a str,
    /// How many its kernel has a place for.
    pub probes: usize,
    /// What it has no place for, and why.
    pub left_out: &'a [String],
}

impl<'a> Check<'a> {
    /// Of what was found in the domains, of the probes of events there, and of mistakes.
    pub fn new(
        found: &'a Weaving,
        events: &'a [(&'a str, weave::Events)],
        errors: &'a [aspect::Diagnostic],
    ) -> Self {
        let skipped = found.domains.iter().flat_map(|of| {
            of.skipped.iter().map(|skipped| Skipped {
                name: &skipped.clause,
                domain: &of.domain,
                function: &skipped.function,
                reason: &skipped.reason,
            })
        });
        let absent = found.domains.iter().flat_map(|of| {
            of.absent.iter().map(|absent| Absent {
                name: &absent.clause,
                domain: &of.domain,
                function: &absent.name,
            })
        });
        Self {
            advice: found.clauses().into_iter().map(Advice::new).collect(),
            skipped: skipped.collect(),
            absent: absent.collect(),
            events: events.iter().map(Events::new).collect(),
            warnings: diagnostic::all(&found.warnings),
            errors: diagnostic::all(errors),
        }
    }
}

impl<'a> Events<'a> {
    fn new((domain, events): &'a (&'a str, weave::Events)) -> Self {
        Self { domain, probes: probes(events), left_out: &events.left_out }
    }
}

impl<'a> Advice<'a> {
    fn new(clause: Clause<'a>) -> Self {
        let Clause { file, line, name, domain, action, counts, sites } = clause;
        Self {
            name,
            domain,
            sites: Sites { every: counts.every, first: counts.first, function: counts.function },
            woven: sites.len(),
            probes: sites.iter().filter(|site| site.is_instruction()).count(),
            probe_us: [PROBE_US.0, PROBE_US.1],
            file,
            line,
            action: action.name(),
            functions: sites.iter().map(|site| site.function.as_str()).collect(),
            places: sites.iter().copied().map(SiteInfo::place).collect(),
        }
    }
}
