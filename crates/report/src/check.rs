//! What would be woven where.

use xweave_text as text;
use xweave_weave::{Events, SiteInfo, Weaving};

/// What it costs to pass an instruction's probe, in microseconds: made a jump by the kernel, and where that cannot
/// be, a breakpoint. Documentation/trace/kprobes.rst of Linux 6.12, "Optimized Probe Overhead", x86-64.
pub const PROBE_US: (f64, f64) = (0.06, 0.99);

/// Join points that are named of a clause.
const NAMED: usize = 4;

/// Each clause in each domain with its join points, what cannot be hooked, and what a kernel lacks.
pub fn table(found: &Weaving) -> String {
    let mut table = String::new();
    for clause in found.clauses() {
        let (domain, name, sites, counts) = (clause.domain, clause.name, &clause.sites, clause.counts);
        let places: Vec<_> = sites.iter().take(NAMED).copied().map(SiteInfo::place).collect();
        let more = sites.len().saturating_sub(places.len());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let line = format!(
            "{domain:<10} {name:<24} {:<7} {}{more}  ({}:{})",
            clause.action.name(),
            places.join(", "),
            clause.file,
            clause.line
        );
        table.push_str(&format!("{}\n", text::printable(&line)));
        if counts.every == counts.function {
            continue;
        }
        let margin = format!("{:<10} {:<24} {:<7}", "", "", "");
        table.push_str(&format!(
            "{margin} {} join points: every {}, first {}, function {}\n",
            sites.len(),
            counts.every,
            counts.first,
            counts.function
        ));
        let probes = sites.iter().filter(|site| site.is_instruction()).count();
        if probes > 0 {
            table.push_str(&format!(
                "{margin} {probes} probes of instructions, {} to {} µs each time one is passed; \
                 functions' hooks are calls\n",
                PROBE_US.0, PROBE_US.1
            ));
        }
    }
    for domain in &found.domains {
        for of in &domain.skipped {
            let line =
                format!("{:<10} {:<24} skipped {}: {}", domain.domain, of.clause, of.function, of.reason);
            table.push_str(&format!("{}\n", text::lines(&line)));
        }
        for of in &domain.absent {
            let line =
                format!("{:<10} {:<24} without {}: this kernel has none", domain.domain, of.clause, of.name);
            table.push_str(&format!("{}\n", text::printable(&line)));
        }
    }
    table
}

/// By domain, what its kernel has no place for of the probes of events.
pub fn table_of_events(events: &[(&str, Events)]) -> String {
    let of = |(domain, events): &(&str, Events)| {
        let line = |left_out: &String| format!("{domain:<10} {}\n", text::printable(left_out));
        events.left_out.iter().map(line).collect::<String>()
    };
    events.iter().map(of).collect()
}

/// How many join points and event probes there are, in how many domains.
pub fn closing(found: &Weaving, events: &[(&str, Events)]) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let total = found.domains.iter().map(|domain| domain.sites.len()).sum();
    let probes = events.iter().map(|(_, events)| probes(events)).sum();
    let what = match (total, probes) {
        (_, 0) => count(total, "join point"),
        (0, _) => count(probes, "event probe"),
        _ => format!("{} and {}", count(total, "join point"), count(probes, "event probe")),
    };
    format!("{what} in {}\n", count(found.domains.len(), "domain"))
}

/// How many probes a kernel has a place for.
pub(crate) fn probes(events: &Events) -> usize {
    events.plan.as_ref().map_or(0, |plan| plan.programs.len())
}
