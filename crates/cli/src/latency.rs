//! `xweave latency`: how long calls of a function take.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use xweave_flow::latency::{self, Latencies};
use xweave_record::{Budget, DomainSpec, Options, Until};
use xweave_report::{View, document, latency as report};
use xweave_weave::EventChoice;

use crate::{
    arguments::{Groups, buffer, command_line, duration},
    confinement::Only,
    failure::Failure,
    names::TraceDir,
    progress::Progress,
    shown, told,
    trust::Owner,
};

/// Functions that are listed, unless all are asked for.
const LISTED: usize = 16;

/// Columns where standard output is no terminal.
const WIDE: u16 = 120;

/// Show how long calls of functions take, as a histogram
///
/// Times are from a function's entry to its return, in this machine's kernel and those of other domains. Calls that xweave
/// itself makes are not counted. Each call is recorded: the trace is removed afterwards, unless -o names it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave latency vfs_read
  xweave latency vfs_read vfs_write --duration 2s
  xweave latency 'tcp_sendmsg@vm1' --domain vm1=vsock:3
  xweave latency vfs_fsync_range -- dd if=/dev/zero of=file count=100 oflag=sync
  xweave latency vfs_read --events sched,block -o reads; xweave explain reads --points entered,returned
  xweave latency vfs_read --json | jq .p99_ns")]
pub struct Args {
    /// Functions, as execution(…) takes them: NAME, NAME@DOMAIN, with % for any characters
    #[arg(value_name = "FUNCTION", required_unless_present = "of", conflicts_with = "of")]
    functions: Vec<String>,
    /// Show the calls of a trace that this command recorded with -o
    #[arg(long, value_name = "DIR", conflicts_with_all = ["domain", "duration", "output", "events", "buffer", "command"])]
    of: Option<TraceDir>,
    #[command(flatten)]
    owner: Owner,
    /// Another domain: vsock:CID[:PORT], local, or a command that runs `xweave agent --stdio` there
    #[arg(long, value_name = "NAME=TRANSPORT")]
    domain: Vec<String>,
    /// Record for so long: 500ms, 10s, 2m [default: 5s; with COMMAND, until it exits]
    #[arg(long, value_parser = duration)]
    duration: Option<Duration>,
    /// Keep the trace in this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Also record groups of events, by which `xweave explain DIR --points entered,returned` says why calls took long
    #[arg(long, value_name = "GROUP,…", requires = "output", value_parser = Groups::parse)]
    events: Option<Groups>,
    /// Ring buffer size per domain, over all CPUs: a power of two (K, M)
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = buffer)]
    buffer: u32,
    /// Show all functions
    #[arg(long)]
    all: bool,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
    /// Record while this command runs: it is started once everything is woven
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// How long is recorded if nothing else is asked for.
const USUAL: Duration = Duration::from_secs(5);

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    if let Some(trace) = &args.of {
        return show(trace, &args);
    }
    if let Some(output) = &args.output {
        return record_and_show(&args, output);
    }
    // It is removed when it is dropped.
    let folder = tempfile::Builder::new().prefix("xweave-latency-").tempdir().map_err(|error| {
        Failure::Failed(format!("no temporary directory can be made: {error}; name one with -o"))
    })?;
    record_and_show(&args, &folder.path().join("trace"))
}

fn record_and_show(args: &Args, output: &Path) -> Result<ExitCode, Failure> {
    record(args, output)?;
    show_apart(output, args)
}

/// Records the calls.
fn record(args: &Args, output: &Path) -> Result<(), Failure> {
    let until = match (args.command.is_empty(), args.duration) {
        (false, within) => Until::CommandEnds { words: args.command.clone(), within },
        (true, duration) => Until::Elapsed(duration.unwrap_or(USUAL)),
    };
    let domains: Result<Vec<_>, _> = args.domain.iter().map(|text| DomainSpec::parse(text)).collect();
    let cache = xweave_weave::cache_directory().map_err(Failure::usage)?;
    let options = Options {
        expressions: vec![latency::aspect(&args.functions)],
        domains: domains.map_err(Failure::usage)?,
        events: EventChoice::new(args.events.clone().map_or_else(Vec::new, |groups| groups.0), None),
        replace: args.owner.forced(),
        buffer: args.buffer,
        budget: Budget { disk: xweave_record::free_space(output) / 2, ..Budget::default() },
        command_line: command_line(),
        ..Options::new(output.to_owned(), until, cache)
    };
    let mut progress = Progress::new(options.until.limit());
    let outcome = xweave_record::record(&options, &mut |phase| progress.show(&phase));
    progress.end();
    for missing in outcome?.missing() {
        told::tell(&missing);
    }
    Ok(())
}

/// Shows the calls of a trace by another process, which is confined to reading.
fn show_apart(trace: &Path, args: &Args) -> Result<ExitCode, Failure> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("latency").arg("--of").arg(trace);
    command.args(args.json.then_some("--json")).args(args.all.then_some("--all"));
    let status = command.status().map_err(|error| {
        Failure::Failed(format!("xweave cannot be started again to look at the calls: {error}"))
    })?;
    let status = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(status.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn show(dir: &Path, args: &Args) -> Result<ExitCode, Failure> {
    Only::reading([dir]).apply()?;
    let trace = args.owner.open_telling(dir)?;
    let found = Latencies::of(&trace);
    let whole = Failure::unless_whole(&found.damaged);
    let lost = trace.manifest().lost;
    if args.json {
        shown::only(|out| document::latency::write(out, &found, lost))?;
    } else if found.all.calls > 0 {
        let most = if args.all { usize::MAX } else { LISTED };
        shown::only(|out| write!(out, "{}", report::text(&found, lost, most, View::of_stdout(WIDE))))?;
    }
    match found.all.calls {
        0 if !args.json => Err(Failure::Failed(report::nothing(&trace, &found))),
        _ => whole,
    }
}
