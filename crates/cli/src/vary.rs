//! `xweave vary`: why response time varies, and what a remedy changes.

mod trying;

use std::{path::PathBuf, process::ExitCode};

use xweave_model::Spec;
use xweave_vary::experiment::Experiment;

use crate::{failure::Failure, trust::Owner};

/// Try settings of host and guests under a load, and tell what they change
///
/// With --try, COMMAND is run under each setting in turn and recorded: in rounds, each of which has every setting once,
/// in random order. The answer is by how much each setting changes the response time of requests, what kept them, and
/// CPU use, with confidence intervals. All settings are put back afterwards, also after Ctrl-C or a crash.
#[derive(clap::Args)]
#[command(after_help = trying::HELP)]
pub struct Args {
    /// The directory of an experiment, to be looked at again
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    owner: Owner,
    /// Which transactions, as for xweave explain [default: request]
    #[arg(long, value_name = "SPEC")]
    transaction: Option<Spec>,
    #[command(flatten)]
    trying: trying::Args,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let Args { dir, owner, transaction, trying, json } = args;
    match dir {
        None => trying::run(trying, transaction, json),
        Some(dir) if Experiment::is_at(&dir) => trying::evaluate(&dir, &owner, transaction, json),
        Some(dir) => Err(Failure::Usage(format!(
            "{} is no experiment: `xweave vary --try … -o DIR -- COMMAND` makes one",
            dir.display()
        ))),
    }
}
