//! Which commands show what a trace has.

use xweave_trace::Trace;

/// The commands, the one that most is to be seen by first; none for a trace of nothing.
pub fn commands(trace: &Trace) -> Vec<String> {
    let (sites, dir) = (trace.sites(), trace.dir().display());
    let mut commands = Vec::new();
    if sites.iter().any(|site| site.xflow.is_some()) {
        commands.push(format!("xweave flows {dir}"));
    } else if !sites.is_empty() {
        commands.push(format!("xweave records {dir}"));
    }
    if trace.manifest().events > 0 {
        commands.push(format!("xweave explain {dir}"));
    }
    commands
}
