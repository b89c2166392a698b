//! `xweave vary`: why response time varies, and what a remedy changes.

mod experiment;
mod finding;

use std::process::ExitCode;

use xweave_model::Spec;
use xweave_vary::experiment::Experiment;

use crate::{failure::Failure, names::TraceDir, trust::Owner};

/// Analyse tail latency: which stage, which cause, which setting; --try runs an experiment
///
/// Each request's time is divided by where it was (device, ring, socket, server, and back) and by what that time was
/// spent on. Prints the stages and causes that vary with the whole or make the slowest slow, the responsible process or
/// VM, a remedy, and its expected effect.
///
/// With --try, COMMAND is run under each setting in turn and recorded: in rounds, each of which has every setting once,
/// in random order. The answer is by how much each setting changes the response time of requests, what kept them, and
/// CPU use, with confidence intervals. All settings are put back afterwards, also after Ctrl-C or a crash.
#[derive(clap::Args)]
#[command(after_help = format!("{}{}", finding::HELP, experiment::HELP))]
pub struct Args {
    /// A trace directory; `latest`: the newest in the current directory; or that of an experiment, to be looked at again
    #[arg(value_name = "DIR")]
    dir: Option<TraceDir>,
    #[command(flatten)]
    owner: Owner,
    /// Which requests [default: those of the service with the most, by their frames, or else by events; without any, flows]
    #[arg(long, value_name = "SPEC")]
    transaction: Option<Spec>,
    #[command(flatten)]
    finding: finding::Args,
    #[command(flatten)]
    experiment: experiment::Args,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let Args { dir, owner, transaction, finding, experiment, json } = args;
    match dir {
        None => experiment::run(experiment, transaction, json),
        Some(dir) if Experiment::is_at(&dir) => experiment::evaluate(&dir, &owner, transaction, json),
        Some(dir) => finding::run(&dir, &owner, transaction, finding, json),
    }
}
