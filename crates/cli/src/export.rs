//! `xweave export`: a trace for the viewers and engines of others.

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
    views::{self, ViewsError},
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

/// Write a trace for a tool that you already have: Perfetto, DuckDB
///
/// Perfetto: open the file at ui.perfetto.dev (it stays in the browser), or with trace_processor. It has a machine for each
/// domain with its CPUs and threads, vCPUs below the threads of the host that run them, the steps of flows with arrows from
/// step to step across domains, flows and transactions as a whole, lost events, and how far clocks may be off. Times are
/// those of the trace, in nanoseconds.
///
/// DuckDB: the file has views in SQL over the trace's own files, of threads and their waits, virtual machines and flows.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave export trace --to perfetto                      writes trace.pftrace
  xweave export trace --to perfetto -o /tmp/t.pftrace
  xweave export trace --to perfetto --transaction request:80
  xweave export trace --to perfetto --json | jq .arrows
  xweave export trace --to duckdb && duckdb -init trace.sql")]
pub struct Args {
    /// A trace directory, of `xweave record` or `xweave import`; `latest`: the newest in the current directory
    #[arg(value_name = "DIR")]
    trace: TraceDir,
    #[command(flatten)]
    owner: Owner,
    /// For which tool
    #[arg(long, value_name = "TOOL")]
    to: Tool,
    /// The file to write [default: the trace's name, with .pftrace or .sql]; one that is there is replaced only with --force
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
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Tool {
    /// Perfetto (ui.perfetto.dev)
    Perfetto,
    /// DuckDB: views in SQL, which read the trace where it is
    Duckdb,
}

impl Tool {
    /// What its files' names end in.
    fn extension(self) -> &'static str {
        match self {
            Self::Perfetto => "pftrace",
            Self::Duckdb => "sql",
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let output = args.output.clone().unwrap_or_else(|| names::of_file(&args.trace, args.to.extension()));
    if args.to == Tool::Duckdb && args.transaction.is_some() {
        return Err(Failure::Usage(
            "--transaction is for --to perfetto: the views are of all events".to_owned(),
        ));
    }
    Only::reading([&*args.trace]).writing(&output).apply()?;
    let trace = args.owner.open_telling(&args.trace)?;
    file::check(&output, args.owner.forced())?;
    let with_events = trace.has_events();
    if !with_events && !trace.has_flows() {
        return Err(Failure::Usage(nothing(&trace)));
    }
    if args.to == Tool::Duckdb {
        return write_views(&trace, &output, args.json);
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

fn write_views(trace: &Trace, output: &Path, json: bool) -> Result<ExitCode, Failure> {
    let sql = views::sql(trace)?;
    file::write_text(output, &sql)?;
    shown::print(|out| match json {
        true => document::write(out, &own::of_views(trace, output, &sql)),
        false => write!(out, "{}", summary::of_views(output)),
    })?;
    Ok(ExitCode::SUCCESS)
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

impl From<ViewsError> for Failure {
    fn from(error: ViewsError) -> Self {
        Self::usage(error)
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
