//! `xweave merge`: memory that guests hold twice.

mod doctor;
mod dry_run;
mod guests;
mod release;
mod run;
mod status;
mod ways;

use std::{fmt::Display, process::ExitCode, time::Duration};

use xweave_merge::{
    reserve::HowMuch,
    run::{Options, Schedule},
};

use crate::{arguments::duration, failure::Failure};

/// Columns where standard output is no terminal.
const WIDE: u16 = 160;

/// Deduplicate the page caches of guests with guided KSM: pages of the same files are merged
///
/// Each guest is asked which pages of its programs, libraries and kernels its page cache holds, and where these lie. Pages at
/// the same place of files with the same path, size and time of change are likely equal: the host's KSM is made to look at
/// these, and where QEMU has marked all memory, at all. With --dry-run, nothing is changed, in guests and host.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  xweave merge doctor                    which memory of this host's guests KSM may merge
  xweave merge --dry-run --domain vm1=vsock:3 --domain vm2=vsock:4
  xweave merge --dry-run --contents --domain vm1=vsock:3 --domain vm2=vsock:4   compare what pages hold
  xweave merge --dry-run --include /srv/www --domain vm1=vsock:3 --domain vm2=vsock:4
  xweave merge --dry-run --by inode --domain …   guests whose disks are clones of one image
  sudo xweave merge --domain vm1=vsock:3 --domain vm2=vsock:4   merge what QEMU has marked (mem-merge=on)
  sudo xweave merge --allow inject --domain vm1=vsock:3 --domain vm2=vsock:4   mark it, and merge it
  sudo xweave merge --allow qmp --qmp vm1=/run/vm1.qmp --domain vm1=vsock:3 --domain vm2=vsock:4   have QEMU mark all of it
  sudo xweave merge --every 1m --allow inject --domain vm1=vsock:3 --domain vm2=vsock:4   and what they read later
  sudo xweave merge --every 10s --below 4G --allow inject --domain …   only while memory is short
  sudo xweave merge --every 1m --reserve 25% --allow inject --domain …   and have memory when guests write to it
  sudo xweave merge --numa-local --allow inject --domain …   only within NUMA nodes
  sudo xweave merge status               what is merged now
  sudo xweave merge release --allow inject vm1 vm2   what was merged is theirs again")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Only tell what would be given back
    #[arg(long, conflicts_with_all = ["allow", "qmp"])]
    dry_run: bool,
    /// Verify by content: guests hash their cached pages
    #[arg(long, requires = "dry_run")]
    contents: bool,
    #[command(flatten)]
    ways: ways::Args,
    /// Do it again each time that so much has passed, until Ctrl-C: 30s, 10m
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "dry_run")]
    every: Option<Duration>,
    /// Only while less memory of this host is available: 4G, 500M
    #[arg(long, value_name = "SIZE", value_parser = xweave_text::parse_size, requires = "every")]
    below: Option<u64>,
    /// Keep this much of the freed memory in reserve for copy-on-write, until memory gets short: 25%, 2G
    #[arg(long, value_name = "SIZE", requires = "every")]
    reserve: Option<HowMuch>,
    /// Have KSM merge pages of each NUMA node among themselves only: no guest reads another node's memory for it
    #[arg(long, conflicts_with = "dry_run")]
    numa_local: bool,
    #[command(flatten)]
    guests: guests::Args,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum What {
    Doctor(doctor::Args),
    Release(release::Args),
    Status(status::Args),
}

fn failed(error: impl Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        Some(What::Doctor(args)) => doctor::run(&args),
        Some(What::Release(args)) => release::run(&args),
        Some(What::Status(args)) => status::run(&args),
        None if args.dry_run => dry_run::run(&args.guests, args.contents, args.json),
        None => {
            let options = Options {
                allowed: args.ways.allowed(&args.guests.names())?,
                query: args.guests.query(false, true)?,
                same_by: args.guests.same_by(),
                schedule: Schedule { every: args.every, below: args.below },
                reserve: args.reserve,
                numa_local: args.numa_local,
            };
            run::run(options, &args.guests, args.json)
        }
    }
}
