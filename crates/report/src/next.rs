//! Which commands show what a trace has.

use std::collections::BTreeSet;

use xweave_model::{DefaultSpec, Spec, is_of_terminals};
use xweave_text::argument;
use xweave_trace::Trace;

/// What is said of a trace without flows where flows are wanted; none if an aspect of it defines some.
pub fn instead_of_flows(trace: &Trace) -> Option<String> {
    if trace.has_flows() || trace.sites_damaged().is_some() {
        return None;
    }
    let commands: Vec<_> = commands(trace).into_iter().map(|command| format!("`{command}`")).collect();
    let see = match commands.is_empty() {
        true => String::new(),
        false => format!("see {}, or ", commands.join(" and ")),
    };
    Some(format!(
        "{} was recorded without an aspect that defines flows: {see}record with one that does, as `{}`",
        trace.dir().display(),
        record_command(["virtio-net".to_owned()].into_iter(), &groups(trace))
    ))
}

/// What is said of a trace without events where events are wanted.
pub fn instead_of_events(trace: &Trace) -> String {
    // What the command line itself had is called by its option.
    let aspects = trace.manifest().aspects.iter().map(|aspect| match &*aspect.name {
        text if text.starts_with("-e") => "-e …".to_owned(),
        name => argument(name).into_owned(),
    });
    let with_both = record_command(aspects.filter(|name| !name.starts_with("--")), &EVENTS);
    format!(
        "{} has no events: record them, too, as `{with_both}`, or bring in what another tool recorded with xweave import",
        trace.dir().display()
    )
}

/// The groups of events that most answers need.
const EVENTS: [&str; 4] = ["sched", "block", "net", "vm"];

/// The groups of events that a trace was recorded with.
fn groups(trace: &Trace) -> Vec<&str> {
    let all = trace.manifest().domains.iter().flat_map(|domain| &domain.events);
    all.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The command that records aspects and groups of events, without its domains and how long it takes.
fn record_command(aspects: impl Iterator<Item = String>, groups: &[&str]) -> String {
    let events = (!groups.is_empty()).then(|| format!("--events {}", groups.join(",")));
    format!("xweave record {} …", aspects.chain(events).collect::<Vec<_>>().join(" "))
}

/// How to learn why such transactions took their time, a line; none without events.
pub fn why(trace: &Trace, transactions: &str) -> Option<String> {
    let command = format!("xweave explain {} --transaction {}", argument_of(trace), argument(transactions));
    (trace.manifest().events > 0).then(|| format!("Why they took that long: {command}\n"))
}

/// The command that explains transactions of a kind.
pub fn explain_command(trace: &Trace, spec: &Spec) -> String {
    format!("xweave explain {} --transaction {}", argument_of(trace), argument(&spec.to_string()))
}

/// What tells of requests that were not asked for by their kind, and what else does; none where nothing else is known to.
pub fn evidence(spec: &Spec) -> Option<String> {
    let Spec::Exchange(Some(port), None) = spec else { return None };
    Some(format!(
        "These are requests as their frames tell of them ({spec}); as events alone do: --transaction request:{port}"
    ))
}

/// So many services that were not chosen are named.
const SERVICES: usize = 5;

/// Which services were not chosen; none if there are no others.
pub fn other_services(of: &DefaultSpec) -> Option<String> {
    let others = &of.others;
    let named: Vec<_> =
        others.iter().take(SERVICES).map(|(spec, count)| format!("{spec} ({count})")).collect();
    if named.is_empty() {
        return None;
    }
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let counted = if of.whole { "" } else { ", counted in the first four million events" };
    let apart = if others.iter().any(|(spec, _)| is_of_terminals(spec)) { " (terminals apart)" } else { "" };
    Some(format!(
        "Only {} is shown, the service with the most requests{apart}{counted}. Others, by --transaction: {}{more}",
        of.spec,
        named.join(", ")
    ))
}

/// The trace, as commands name it.
pub fn argument_of(trace: &Trace) -> String {
    argument(&trace.dir().to_string_lossy()).into_owned()
}

/// The commands, the one that most is to be seen by first; none for a trace of nothing.
pub fn commands(trace: &Trace) -> Vec<String> {
    let dir = argument_of(trace);
    let mut commands = Vec::new();
    if trace.has_flows() {
        commands.push(format!("xweave flows {dir}"));
    } else if !trace.sites().is_empty() {
        commands.push(format!("xweave records {dir}"));
    }
    if trace.manifest().events > 0 {
        commands.push(format!("xweave explain {dir}"));
    }
    commands
}
