//! `xweave doctor`: what this machine can do.

use std::{io::Write, process::ExitCode};

use xweave_report::{View, doctor, document};

use crate::{failure::Failure, shown};

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Check what this machine supports, and print the command that fixes what is missing
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo xweave doctor")]
pub struct Args {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let checks = xweave_record::doctor();
    shown::print(|out| match args.json {
        true => document::write(out, &document::doctor::build(&checks)),
        false => write!(out, "{}", doctor::table(&checks, View::of_stdout(WIDE))),
    })?;
    let missing: Vec<_> = checks.iter().filter(|c| c.needed && !c.ok).map(|c| c.name).collect();
    if missing.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::Failed(format!("recording on this machine needs: {}", missing.join(", "))))
    }
}
