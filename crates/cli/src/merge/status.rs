//! `xweave merge status`: what is merged now.

use std::{io::Write, process::ExitCode};

use xweave_merge::{Host, Status};
use xweave_report::{View, document, merge as report};

use super::WIDE;
use crate::{failure::Failure, shown};

/// Tell what of this host's virtual machines is merged now, whoever had it merged
///
/// Each page that is marked for KSM is looked at: KSM's own counters are out of date when it does not run.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo xweave merge status")]
pub struct Args {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Looks at this machine, and tells.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let host = Host::read().map_err(super::failed)?;
    let status = Status::read(&host).map_err(super::failed)?;
    shown::only(|out| match args.json {
        true => document::merge::write_status(out, &status),
        false => write!(out, "{}", report::status(&status, View::of_stdout(WIDE))),
    })
}
