//! `xweave merge --dry-run`: prints what guests hold twice.

use std::{io::Write, process::ExitCode};

use xweave_merge::{Estimate, Host, page_cache_query::Querier};
use xweave_report::{View, document, merge as report};

use super::{
    WIDE,
    guests::{self, FirstQuery},
};
use crate::{failure::Failure, shown, told};

/// Asks the guests, and prints the estimate. With `contents`, pages are compared by what they contain, too.
pub fn run(args: &guests::Args, contents: bool, json: bool) -> Result<ExitCode, Failure> {
    let mut querier = Querier::new(args.query(contents, false)?, false);
    let progress = FirstQuery::default();
    let caches = querier.ask(&progress.listener());
    progress.end();
    let caches = caches?;
    caches.notes.iter().for_each(|note| told::tell(note));
    // Without the right to read it, nothing is printed about the host.
    let host = Host::read().unwrap_or_default();
    let may_merge: Vec<_> = caches.pids.iter().map(|pid| host.may_merge((*pid)?)).collect();
    let same_by = args.same_by();
    let estimate = Estimate::of(&caches.guests, same_by);
    shown::only(|out| match json {
        true => document::merge::write(out, &estimate, &caches.looked_at, &may_merge, same_by),
        false => {
            let view = View::of_stdout(WIDE);
            write!(out, "{}", report::estimate(&estimate, &caches.looked_at, &may_merge, args.limit, view))
        }
    })
}
