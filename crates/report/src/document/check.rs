//! The document of `xweave check`.

use xweave_aspect as aspect;
use xweave_document::check::{
    AbsentFunction, Check, CheckedAdvice, CheckedEvents, SitesByPrecision, SkippedFunction,
};
use xweave_weave::{self as weave, Clause, SiteInfo, Weaving};

use super::diagnostic;
use crate::check::{PROBE_US, probes};

/// Builds the document of what was found in the domains, of the probes of events there, and of mistakes.
pub fn build<'a>(
    found: &'a Weaving,
    events: &'a [(&'a str, weave::Events)],
    errors: &'a [aspect::Diagnostic],
) -> Check<'a> {
    let skipped = found.domains.iter().flat_map(|of| {
        of.skipped.iter().map(|skipped| SkippedFunction {
            name: &skipped.clause,
            domain: &of.domain,
            function: &skipped.function,
            reason: &skipped.reason,
        })
    });
    let absent = found.domains.iter().flat_map(|of| {
        of.absent.iter().map(|absent| AbsentFunction {
            name: &absent.clause,
            domain: &of.domain,
            function: &absent.name,
        })
    });
    Check {
        advice: found.clauses().into_iter().map(build_advice).collect(),
        skipped: skipped.collect(),
        absent: absent.collect(),
        events: events.iter().map(build_events).collect(),
        warnings: diagnostic::build_all(&found.warnings),
        errors: diagnostic::build_all(errors),
    }
}

fn build_events<'a>((domain, events): &'a (&'a str, weave::Events)) -> CheckedEvents<'a> {
    CheckedEvents { domain, probes: probes(events), left_out: &events.left_out }
}

fn build_advice(clause: Clause<'_>) -> CheckedAdvice<'_> {
    let Clause { file, line, name, domain, action, counts, sites } = clause;
    CheckedAdvice {
        name,
        domain,
        sites: SitesByPrecision { every: counts.every, first: counts.first, function: counts.function },
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
