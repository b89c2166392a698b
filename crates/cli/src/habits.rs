//! Words that other tools (perf, bpftrace, trace-cmd) know, and what does the same here.

use clap::{
    Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Commands of other tools.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["top", "stat", "kvm", "sched", "live"],
        "xweave record --events sched,block,net,vm -o DIR --duration 10s, then xweave explain DIR --machines: what each \
         machine did, and who waited for whom",
    ),
    (
        &["list", "probes"],
        "xweave record --help lists the library's aspects and the groups of events; xweave check -e 'execution(tcp_%) \
         { STORE_DATA1(1); }' the functions that a pattern matches",
    ),
    (
        &["script", "dump", "show", "hist"],
        "xweave records DIR for what advice stored, xweave flows DIR for flows, xweave explain DIR --all for events",
    ),
    (&["diff"], "xweave compare BEFORE AFTER"),
    (&["probe", "trace", "stream"], "xweave record -e 'execution(FUNCTION) { STORE_DATA1(1); }' -o DIR"),
    (&["timechart"], "xweave export DIR --to perfetto"),
];

/// Options of other tools' `record`.
const OPTIONS: &[(&[&str], &str)] = &[
    (
        &["-p", "--pid", "-t", "--tid"],
        "a recording is of whole kernels: xweave explain DIR --transaction process:NAME is about one program, and `AND \
         pid(NUMBER)` limits an aspect to a process",
    ),
    (&["-a", "--all-cpus"], "all CPUs are recorded: leave it out"),
    (&["-C", "--cpu", "-G", "--cgroup"], "not possible, since a recording is of whole kernels: leave it out"),
    (
        &["-g", "--call-graph", "-k", "-u"],
        "not possible, since no stacks are recorded: events tell who waited for whom",
    ),
    (
        &["-F", "--freq", "-c", "--count"],
        "not possible, since nothing is sampled and every event is recorded: leave it out",
    ),
    (&["-m", "--mmap-pages", "-b", "--buffer-size"], "--buffer SIZE"),
];

/// Returns what does the same as the word that an argument error is about; none if no other tool is known to have it.
/// `command` is the first argument.
pub fn translate(error: &Error, command: &str) -> Option<String> {
    let (kind, table) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, COMMANDS),
        ErrorKind::UnknownArgument if command == "record" => (ContextKind::InvalidArg, OPTIONS),
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    let (_, instead) = table.iter().find(|(words, _)| words.contains(&&**word))?;
    Some(format!("`{word}` is another tool's; here: {instead}"))
}
