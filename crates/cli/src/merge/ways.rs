//! `--allow` and `--qmp`: what may be done to guests' processes, to mark their memory for KSM.

use std::path::PathBuf;

use xweave_merge::Allowed;
use xweave_text::printable;

use crate::failure::Failure;

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// A way of marking memory that nobody has marked for KSM; of several, the first that is possible, in this order
    #[arg(long, value_name = "WAY", value_enum, value_delimiter = ',')]
    allow: Vec<Allow>,
    /// Where a guest's QEMU listens for QMP, if its command line does not say it
    #[arg(long, value_name = "NAME=PATH", value_parser = socket)]
    qmp: Vec<(String, PathBuf)>,
}

/// How memory may be marked for KSM by somebody else than its process.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Allow {
    /// Inject system calls into QEMU (ptrace): io_uring_setup, then madvise through the ring; madvise itself where it may have no ring
    Inject,
    /// Ask QEMU to mark all of the guest's memory
    Qmp,
}

fn socket(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("name a guest and the path of its socket: NAME=PATH".to_owned()),
    }
}

impl Args {
    /// What is allowed, of these guests.
    pub fn allowed(&self, guests: &[&str]) -> Result<Allowed, Failure> {
        let qmp = self.allow.contains(&Allow::Qmp);
        if let Some((name, _)) = self.qmp.iter().find(|(name, _)| !qmp || !guests.contains(&&**name)) {
            let why =
                if qmp { "is none of the guests named here" } else { "is not to be asked: add --allow qmp" };
            return Err(Failure::Usage(format!("--qmp: `{}` {why}", printable(name))));
        }
        let inject = self.allow.contains(&Allow::Inject);
        Ok(Allowed { inject, qmp, sockets: self.qmp.iter().cloned().collect() })
    }
}
