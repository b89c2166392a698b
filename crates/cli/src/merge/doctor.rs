//! `xweave merge doctor`: what KSM may merge on this host.

use std::{io::Write, process::ExitCode};

use xweave_merge::Host;
use xweave_report::{View, document, merge as report};

use super::WIDE;
use crate::{failure::Failure, shown};

/// Tell which memory of this host's virtual machines KSM may merge, what keeps it from the rest, and how to fix that
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo xweave merge doctor")]
pub struct Args {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Looks at this machine, and tells.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let host = Host::read().map_err(super::failed)?;
    shown::only(|out| match args.json {
        true => document::merge::write_host(out, &host),
        false => write!(out, "{}", report::host(&host, View::of_stdout(WIDE))),
    })
}
