//! `xweave flows`: the flow table and the segments of a trace.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use xweave_flow::Flows;
use xweave_report::{View, closing, document, hops, segments};

use crate::{arguments, confinement::Only, failure::Failure, shown, trust::Owner};

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Show the path and latency of flows, step by step
///
/// Without options: the steps of a typical flow, the latency of each segment over all flows, and a
/// summary of what was followed and lost.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  xweave flows trace                        a typical flow, and the segments of all
  xweave flows trace --flow 0x200000000000001
  xweave flows trace --name virtio_tx --limit 5
  xweave flows trace --json | jq .summary")]
pub struct Args {
    /// A trace directory, of `xweave record -o`
    #[arg(value_name = "DIR")]
    trace: PathBuf,
    #[command(flatten)]
    owner: Owner,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
    /// Show the flow with this ID (decimal or 0x…)
    #[arg(long, value_name = "ID", value_parser = arguments::id)]
    flow: Option<u64>,
    /// Show the first N flows
    #[arg(long, value_name = "N", conflicts_with = "flow")]
    limit: Option<usize>,
    /// Only flows of this xflow definition
    #[arg(long, value_name = "XFLOW")]
    name: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    Only::reading([&*args.trace]).apply()?;
    let trace = args.owner.open(&args.trace)?;
    let mut flows = Flows::of(&trace);
    if let Some(name) = &args.name {
        flows.retain(|flow| flow.name == *name);
    }
    if let Some(id) = args.flow {
        let Some(found) = flows.flow(id).map(|flow| flow.id) else {
            let dir = args.trace.display();
            return Err(Failure::Failed(format!(
                "{dir} has no flow {id:#x}: `xweave flows {dir} --json` lists all"
            )));
        };
        flows.retain(|flow| flow.id == found);
    }
    if args.json {
        flows.truncate(args.limit.unwrap_or(usize::MAX));
        return shown::only(|out| document::flows::write(out, &flows));
    }
    shown::only(|out| tables(&flows, args.limit, out))
}

fn tables(flows: &Flows, limit: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let view = View::of_stdout(WIDE);
    let shown = match limit {
        Some(limit) => flows.flows().iter().take(limit).collect(),
        None => Vec::from_iter(flows.typical()),
    };
    for flow in shown {
        writeln!(out, "{}", hops::table(flows, flow, view))?;
    }
    if !flows.segments().is_empty() {
        writeln!(out, "{}", segments::table(flows.segments(), view))?;
    }
    write!(out, "{}", closing::line(flows.summary(), view))
}
