//! Whose traces are read.

use std::path::Path;

use xweave_report::closing;
use xweave_trace::Trace;

use crate::{failure::Failure, told};

/// Whose traces are read: one's own and root's, as perf has it with `perf.data`.
#[derive(clap::Args)]
pub struct Owner {
    /// Read a trace even if another user owns it or can write to it, or if it claims more rows than its size allows
    #[arg(short, long)]
    force: bool,
}

impl Owner {
    /// Whether what keeps from harm is to be done all the same.
    pub fn forced(&self) -> bool {
        self.force
    }

    /// Opens a trace.
    pub fn open(&self, dir: &Path) -> Result<Trace, Failure> {
        let open = if self.force { Trace::open_forced } else { Trace::open };
        open(dir).map_err(|error| Failure::of_trace(error.kind(), error.to_string()))
    }

    /// The same, for what does not itself say of a trace what it lacks.
    pub fn open_telling(&self, dir: &Path) -> Result<Trace, Failure> {
        let trace = self.open(dir)?;
        if !trace.manifest().complete {
            let said = closing::unfinished(trace.manifest().stored_until_ns());
            told::tell(&format!("{}: {said}", dir.display()));
        }
        if let Some(damaged) = trace.sites_damaged() {
            told::tell(&format!("{damaged}: functions are shown by the numbers of their sites"));
        }
        Ok(trace)
    }
}
