//! `xweave merge`: memory that guests hold twice.

mod doctor;
mod estimating;

use std::process::ExitCode;

use crate::failure::Failure;

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Find out what memory guests hold twice: pages of the same files in their page caches
///
/// Each guest is asked which pages of its programs, libraries and kernels its page cache holds. Pages at the same place
/// of files with the same path, size and time of change are taken for equal: that is what KSM could give back if it
/// looked there. Nothing is changed, in guests and host: xweave merges nothing yet.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  xweave merge doctor                    which memory of this host's guests KSM may merge
  xweave merge --dry-run --domain vm1=vsock:3 --domain vm2=vsock:4
  xweave merge --dry-run --contents --domain vm1=vsock:3 --domain vm2=vsock:4   compare what pages hold
  xweave merge --dry-run --include /srv/www --domain vm1=vsock:3 --domain vm2=vsock:4
  xweave merge --dry-run --by inode --domain …   guests whose disks are clones of one image")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    estimating: estimating::Args,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum What {
    Doctor(doctor::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        Some(What::Doctor(args)) => doctor::run(&args),
        None => estimating::run(args.estimating, args.json),
    }
}
