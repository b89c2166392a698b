//! `xweave export`: a trace for the viewers of others.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use xweave_export::{
    Phase, Written, document as own,
    file::{self, FileError},
    summary,
};
use xweave_flow::Join;
use xweave_model::{Spec, all_transactions};
use xweave_report::{document, next, number::count};
use xweave_trace::Trace;

use crate::{
    confinement::Only,
    failure::Failure,
    names::{self, TraceDir},
    shown,
    trust::Owner,
};

/// Write a trace for a viewer that you already have: Perfetto
///
/// Open the file at ui.perfetto.dev (it stays in the browser), or with trace_processor. It has a machine for each domain
/// with its CPUs and threads, vCPUs below the threads of the host that run them, the steps of flows with arrows from step
/// to step across domains, flows and transactions as a whole, lost events, and how far clocks may be off. Times are those
/// of the trace, in nanoseconds.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave export trace --to perfetto                      writes trace.pftrace
  xweave export trace --to perfetto -o /tmp/t.pftrace
  xweave export trace --to perfetto --transaction request:80
  xweave export trace --to perfetto --json | jq .arrows")]
pub struct Args {
    /// A trace directory, of `xweave record` or `xweave import`; `latest`: the newest in the current directory
    #[arg(value_name = "DIR")]
    trace: TraceDir,
    #[command(flatten)]
    owner: Owner,
    /// For which viewer
    #[arg(long, value_name = "VIEWER")]
    to: Viewer,
    /// The file to write [default: the trace's name, with .pftrace]; one that is there is replaced only with --force
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which transactions, as of explain [default: what the trace has: flows or requests]
    #[arg(long, value_name = "SPEC")]
    transaction: Option<Spec>,
    /// Print a JSON document: how many of what were written
    #[arg(long)]
    json: bool,
}

/// What reads such files.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Viewer {
    /// Perfetto (ui.perfetto.dev)
    Perfetto,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let Viewer::Perfetto = args.to;
    let output = args.output.clone().unwrap_or_else(|| names::of_file(&args.trace, "pftrace"));
    Only::reading([&*args.trace]).writing(&output).apply()?;
    let trace = args.owner.open_telling(&args.trace)?;
    file::check(&output, args.owner.forced())?;
    let with_events = trace.has_events();
    if !with_events && !trace.has_flows() {
        return Err(Failure::Usage(nothing(&trace)));
    }
    if args.transaction.is_some() && !with_events {
        return Err(Failure::no_events(&trace));
    }
    let asked = args.transaction.clone();
    let spec = asked.or_else(|| all_transactions(&trace)).filter(|_| with_events);
    let written = write(&trace, spec.as_ref(), &output)?;
    let counts = &written.counts;
    shown::print(|out| match args.json {
        true => document::write(out, &own::build(&output, spec.as_ref(), &written)),
        false => write!(out, "{}", summary::text(&output, spec.as_ref(), counts)),
    })?;
    let whole = Failure::unless_whole(&written.damaged)?;
    match &args.transaction {
        Some(spec) if counts.transactions == 0 => Err(Failure::Failed(format!(
            "{dir} has no transactions of the kind {spec}, and the file has all else; xweave explain {dir} --machines \
             tells what kinds there are",
            dir = args.trace.display()
        ))),
        _ => Ok(whole),
    }
}

fn nothing(trace: &Trace) -> String {
    let dir = trace.dir().display();
    let without_flows = next::instead_of_flows(trace).unwrap_or_else(|| format!("{dir} has no flows"));
    format!("{without_flows}; it has no events either, so that there is nothing to see")
}

/// Writes the file, with a progress bar on a terminal.
fn write(trace: &Trace, spec: Option<&Spec>, output: &Path) -> Result<Written, Failure> {
    let bar = Bar::new(trace);
    let written = file::write_perfetto(trace, || Join::of(trace), spec, output, &mut |phase| bar.show(phase));
    bar.0.finish_and_clear();
    Ok(written?)
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Exists(_) | FileError::NoFile(_) => Self::usage(error),
            FileError::Write { .. } => Self::Failed(error.to_string()),
        }
    }
}

/// How far it is, on a terminal.
struct Bar(ProgressBar, u64);

impl Bar {
    fn new(trace: &Trace) -> Self {
        let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar, trace.manifest().events)
    }

    fn show(&self, phase: Phase) {
        self.0.set_message(match phase {
            Phase::Flows(done) => format!("writing flows: {}", count(done)),
            Phase::Events(done) => format!("writing events: {} of {}", count(done), count(self.1)),
            Phase::Transactions(done) => format!("writing transactions: {}", count(done)),
        });
    }
}
