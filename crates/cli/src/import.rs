//! `xweave import`: what other tools have recorded, as a trace.

use std::{fs, io::Write, path::PathBuf, process::ExitCode};

use xweave_import::{Error, ErrorKind, Options};
use xweave_report::{
    document::{self, import::Import},
    import,
};

use crate::{arguments, confinement::Only, failure::Failure, shown, told};

/// Make a trace of what other tools have recorded
///
/// Give the files of a host and its guests that were recorded together (`trace-cmd record -A GUEST`) together: they
/// become one trace with one time line.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave import trace.dat -o trace
  xweave import perf.data -o trace
  xweave import lttng-traces/auto-1/kernel -o trace  needs babeltrace2
  xweave import trace.dat trace-vm1.dat -o trace     a host and its guest
  xweave import trace.dat -o trace --json | jq .unknown
  duckdb -c \"select kind, count(*) from 'trace/events/*.parquet' group by 1\"")]
pub struct Args {
    /// trace.dat of trace-cmd, perf.data of perf, or a CTF directory of LTTng
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The trace directory to create
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Replace an existing trace
    #[arg(long)]
    force: bool,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(missing) = args.files.iter().find(|file| !file.exists()) {
        return Err(Failure::Usage(format!(
            "{}: there is no such file; what can be imported: trace.dat of trace-cmd, perf.data of perf, directories \
             of LTTng (CTF)",
            missing.display()
        )));
    }
    let made = !args.output.exists();
    let only = Only::reading(args.files.iter().map(|file| &**file)).writing_in(&args.output);
    // Directories are CTF, which a program decodes.
    let decoded = args.files.iter().any(|file| file.is_dir());
    let only = if decoded { only.starting(None) } else { only };
    only.apply()?;
    let options = Options { force: args.force, command: arguments::command_line() };
    let outcome = xweave_import::import(&args.files, &args.output, &options).map_err(|error| {
        if made {
            // It was made for the trace that is not there; with anything in it, it stays.
            let _ = fs::remove_dir(&args.output);
        }
        failure(error)
    })?;
    shown::print(|out| match args.json {
        true => document::write(out, &Import::new(&args.output, &outcome)),
        false => write!(out, "{}", import::summary(&args.output, &outcome)),
    })?;
    for warning in outcome.warnings.iter().chain(&outcome.damage) {
        told::tell(warning);
    }
    if outcome.damage.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let dir = args.output.display();
    Err(Failure::Failed(format!("{dir} has what could be read; record again for the rest")))
}

fn failure(error: Error) -> Failure {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Damaged => Failure::Failed(format!("{text}; nothing was imported: record again")),
        ErrorKind::Io => Failure::Failed(text),
        ErrorKind::Trace(kind) => Failure::of_trace(kind, text),
        _ => Failure::Usage(text),
    }
}
