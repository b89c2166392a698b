//! `xweave merge release`: what was merged is each guest's own again.

use std::{io::Write, process::ExitCode};

use xweave_merge::release::{ReleaseError, release};
use xweave_report::{View, document, merge as report};

use super::{WIDE, ways};
use crate::{failure::Failure, shown, told};

/// Give virtual machines memory of their own again: nothing of it is merged, nor marked for KSM
///
/// Each page that is merged is copied, which takes as much memory as merging gave back.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sudo xweave merge release --allow inject vm1 vm2")]
pub struct Args {
    /// Their names, as xweave merge doctor has them, or their processes' IDs
    #[arg(value_name = "VM", required = true)]
    vms: Vec<String>,
    #[command(flatten)]
    ways: ways::Args,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// Releases the virtual machines, and prints what of them was merged.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let names: Vec<&str> = args.vms.iter().map(String::as_str).collect();
    let allowed = args.ways.allowed(&names)?;
    let released = release(&args.vms, &allowed, xweave_interrupt::pending).map_err(failure)?;
    released.within_nodes.iter().for_each(|why| told::tell(why));
    shown::only(|out| match args.json {
        true => document::merge::write_released(out, &released.vms),
        false => write!(out, "{}", report::released(&released.vms, View::of_stdout(WIDE))),
    })
}

fn failure(error: ReleaseError) -> Failure {
    match error {
        ReleaseError::NotAllowed | ReleaseError::Unknown(_) => Failure::usage(error),
        ReleaseError::Unmark(..) if xweave_interrupt::pending() => Failure::Interrupted(error.to_string()),
        error => super::failed(error),
    }
}
