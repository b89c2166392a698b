//! Messages about transactions and values that a trace lacks, with what it has instead.

use std::collections::BTreeSet;

use xweave_model::{Between, Census, Outcome, Spec};
use xweave_text::nearest;
use xweave_trace::Trace;

use crate::{losses, machines, next};

/// Maximum number of functions and advice that are listed.
const NAMES: usize = 24;

/// Names that are suggested for one that does not exist.
const SUGGESTIONS: usize = 3;

/// A trace has no transactions of that kind; `outcome` is that of looking for them.
pub fn no_transactions(trace: &Trace, spec: &Spec, outcome: &Outcome) -> String {
    format!(
        "{} has no transactions of the kind {spec} that began and ended in it{}",
        trace.dir().display(),
        instead(trace, spec, outcome)
    )
}

/// A trace has fewer transactions than are needed: those found, and the minimum. `purpose` completes "to … it takes at least".
pub fn too_few(
    trace: &Trace,
    spec: &Spec,
    [found, least]: [usize; 2],
    purpose: &str,
    outcome: &Outcome,
) -> String {
    if found == 0 {
        return no_transactions(trace, spec, outcome);
    }
    let (dir, command) = (trace.dir().display(), next::explain_command(trace, spec));
    format!(
        "{dir} has {found} of the kind {spec}: to {purpose} it takes at least {least}; record for longer, or see each with \
         {command} --limit {found}"
    )
}

/// No flow of a trace has a value of that name; lists the names that there are, similar ones first.
pub fn no_value(trace: &Trace, name: &str) -> String {
    let mut names: Vec<&str> =
        trace.sites().iter().flat_map(|site| &site.values).map(String::as_str).collect();
    names.push("connection");
    names.sort_unstable();
    names.dedup();
    let near = nearest(name, names.iter().copied(), 1);
    let (dir, there) = (trace.dir().display(), names.join(", "));
    match &near[..] {
        [near, ..] => format!("no flow in {dir} has a value called {name}: {near}? There are {there}"),
        [] => format!("no flow in {dir} has a value called {name}: there are {there}"),
    }
}

/// What a trace has instead of such transactions, or why they were not found: a clause that begins with a semicolon.
fn instead(trace: &Trace, spec: &Spec, outcome: &Outcome) -> String {
    if matches!(spec, Spec::Call(..)) && trace.manifest().key.is_none() {
        return "; calls are known by a key in their messages: record with --key, for example line:Call-ID"
            .to_owned();
    }
    if let Some(uncertain) = losses::uncertain(outcome) {
        return format!("; {uncertain}");
    }
    if let Some(unanswered) = losses::unanswered(outcome) {
        return format!("; {unanswered}");
    }
    if let Spec::Request(_, Some(domain)) = spec {
        let domains = trace.manifest().domains.iter().map(|domain| domain.name.as_str());
        if !domains.clone().any(|name| name == domain) {
            return format!("; there is no domain {domain}: {}", xweave_text::instead(domain, domains));
        }
    }
    let census = Census::of(trace);
    match (spec, &outcome.passed) {
        (Spec::Between(between), Some(passed)) => {
            places_passed(trace, between, passed, outcome.reached.as_deref(), census)
        }
        _ => {
            let none = "none of any kind, but perhaps between:FROM..TO";
            format!("; it has: {}", list_or(machines::kinds(&census), none))
        }
    }
}

/// How often each place was passed, and which of them was never passed in turn.
fn places_passed(
    trace: &Trace,
    between: &Between,
    passed: &[u64],
    reached: Option<&[u64]>,
    census: Census,
) -> String {
    let names: Vec<&str> = census.events.iter().chain(&census.sites).map(String::as_str).collect();
    let mut text = String::new();
    for (place, times) in between.places().iter().zip(passed.iter().copied()) {
        let unknown_domain =
            place.domain.as_ref().filter(|name| !trace.manifest().domains.iter().any(|d| d.name == **name));
        text += &match (times, unknown_domain) {
            (0, Some(domain)) => format!("; there is no domain {domain}"),
            (0, None) if names.contains(&&*place.name) => format!("; {place} happened, but not so"),
            (0, None) => {
                let near = nearest(&place.name, names.iter().copied(), SUGGESTIONS);
                let suggestion = match near.is_empty() {
                    true => String::new(),
                    false => format!(": did you mean {}?", near.join(", ")),
                };
                format!("; {place} did not happen{suggestion}")
            }
            (times, _) => format!("; {place} happened {times} times"),
        };
    }
    if passed.contains(&0) {
        let events = list_or(census.events.into_iter().collect(), "no events");
        let sites = first_names(census.sites);
        return format!("{text}. It has events ({events}) and functions and advice ({sites})");
    }
    let never = reached.unwrap_or_default().iter().position(|reached| *reached == 0).unwrap_or_default();
    match between.places().get(never) {
        Some(place) if never > 1 => {
            format!(
                "{text}; {place} never of what had passed those before: see several points in docs/explain.md"
            )
        }
        _ => format!("{text}, never of one and the same: see by=KEY in docs/explain.md"),
    }
}

fn list_or(names: Vec<String>, none: &str) -> String {
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}

/// The first names, and the number of the others.
fn first_names(names: BTreeSet<String>) -> String {
    let more = names.len().saturating_sub(NAMES);
    let first: Vec<_> = names.into_iter().take(NAMES).collect();
    match (first.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (_, 0) => first.join(", "),
        _ => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_up_to_a_limit() {
        let names = |count: usize| first_names((0..count).map(|nth| format!("f{nth:02}")).collect());
        assert_eq!((names(0), names(2)), ("none".to_owned(), "f00, f01".to_owned()));
        assert!(names(NAMES).ends_with("f22, f23") && names(NAMES + 3).ends_with("f23 and 3 more"));
    }
}
