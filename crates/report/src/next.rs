//! Which commands show what a trace has.

use xweave_model::Spec;
use xweave_text::argument;
use xweave_trace::Trace;

/// What is said of a trace without flows where flows are wanted; none if an aspect of it defines some.
pub fn instead_of_flows(trace: &Trace) -> Option<String> {
    if trace.has_flows() || trace.sites_damaged().is_some() {
        return None;
    }
    let commands: Vec<_> = commands(trace).into_iter().map(|command| format!("`{command}`")).collect();
    let instead = match commands.is_empty() {
        true => "record with one that does, such as virtio-net".to_owned(),
        false => format!("see {}", commands.join(" and ")),
    };
    Some(format!("{} was recorded without an aspect that defines flows: {instead}", trace.dir().display()))
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
