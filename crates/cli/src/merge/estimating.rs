//! `xweave merge --dry-run`: what guests hold twice.

use std::{io::Write, process::ExitCode};

use xweave_merge::{Estimate, Host};
use xweave_report::{View, document, merge as report};

use super::{WIDE, asking};
use crate::{failure::Failure, shown, told};

/// Asks the guests, and tells. Whether what pages hold is compared, too.
pub fn run(asked: &asking::Args, contents: bool, json: bool) -> Result<ExitCode, Failure> {
    let told = asked.ask(contents, false)?;
    told.missing.iter().for_each(|message| told::tell(message));
    // Of what it may not look at, nothing is told.
    let host = Host::look(&xweave_system::kvm::list_vms()).unwrap_or_default();
    let may_merge: Vec<_> = told.pids.iter().map(|pid| host.may_merge((*pid)?)).collect();
    let same_by = asked.same_by();
    let estimate = Estimate::of(&told.guests, same_by);
    shown::only(|out| match json {
        true => document::merge::write(out, &estimate, &told.looked_at, &may_merge, same_by),
        false => {
            let view = View::of_stdout(WIDE);
            write!(out, "{}", report::estimate(&estimate, &told.looked_at, &may_merge, asked.limit, view))
        }
    })
}
