//! `xweave merge --dry-run`: what guests hold twice.

use std::{io::Write, process::ExitCode};

use xweave_merge::{Estimate, Host, SameBy, tree::Guest};
use xweave_record::{DomainCache, DomainSpec};
use xweave_report::{View, document, merge as report};
use xweave_weave::Role;
use xweave_wire::pages::{Files, LookedAt};

use super::WIDE;
use crate::{failure::Failure, progress::Progress, shown};

/// Where files lie that guests are likely to have in common.
const USUAL: [&str; 3] = ["/usr", "/lib", "/boot"];

#[derive(clap::Args)]
pub struct Args {
    /// Only tell what would be given back
    #[arg(long, required = true)]
    dry_run: bool,
    /// A guest, as for xweave record: NAME=vsock:CID, or NAME=COMMAND
    #[arg(long, value_name = "NAME=TRANSPORT", required = true)]
    domain: Vec<String>,
    /// Look at files below this folder, in its own file system [default: /usr, /lib and /boot]
    #[arg(long, value_name = "FOLDER")]
    include: Vec<String>,
    /// But not at this file or folder
    #[arg(long, value_name = "PATH")]
    exclude: Vec<String>,
    /// What makes files of two guests the same, besides size and time of change
    #[arg(long, value_name = "WHAT", value_enum, default_value = "path")]
    by: By,
    /// Compare what pages hold, too: guests read what they have cached
    #[arg(long)]
    contents: bool,
    /// Files to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// What makes files the same.
#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    /// Their paths
    Path,
    /// Their inode numbers: of disks that began as one image
    Inode,
}

/// Asks the guests, and tells.
pub fn run(args: Args, json: bool) -> Result<ExitCode, Failure> {
    let Args { dry_run: _, domain, mut include, exclude, by, contents, limit } = args;
    if include.is_empty() {
        include = USUAL.map(str::to_owned).to_vec();
    }
    if let Some(path) = include.iter().chain(&exclude).find(|path| !path.starts_with('/')) {
        return Err(Failure::Usage(format!(
            "`{path}` is no absolute path: name it from / on, as the guests do"
        )));
    }
    let domains: Result<Vec<_>, _> = domain.iter().map(|text| DomainSpec::parse(text)).collect();
    let domains = domains.map_err(Failure::usage)?;
    if domains.iter().filter(|domain| domain.role() == Role::Guest).count() < 2 {
        return Err(Failure::Usage(
            "it takes two guests to hold something twice: name another with --domain".to_owned(),
        ));
    }
    let files = Files { include, exclude, contents };
    let mut progress = Progress::new(None);
    let told = xweave_record::cached(&domains, &files, &mut |phase| progress.show(&phase));
    progress.end();
    let told = told?;
    // Of what it may not look at, nothing is told.
    let host = Host::look(&xweave_agent::vms()).unwrap_or_default();
    let may_merge: Vec<_> = told.iter().map(|of| host.may_merge(of.pid?)).collect();
    let (guests, looked_at): (Vec<Guest>, Vec<LookedAt>) = told
        .into_iter()
        .map(|DomainCache { domain, files, looked_at, .. }| (Guest { name: domain, files }, looked_at))
        .unzip();
    let same_by = match by {
        By::Path => SameBy::Path,
        By::Inode => SameBy::Inode,
    };
    let estimate = Estimate::of(&guests, same_by);
    shown::only(|out| match json {
        true => document::merge::write(out, &estimate, &looked_at, &may_merge, same_by),
        false => {
            let view = View::of_stdout(WIDE);
            write!(out, "{}", report::estimate(&estimate, &looked_at, &may_merge, limit, view))
        }
    })
}
