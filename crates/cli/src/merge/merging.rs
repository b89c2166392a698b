//! `xweave merge`: gives back what guests hold twice, once or again and again.

use std::{
    io::Write,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use xweave_merge::{
    Outcome,
    merging::{self, Asked, MergeError, Pace},
};
use xweave_report::{View, document, merge as report};
use xweave_wire::pages::LookedAt;

use super::{Allow, WIDE, asking};
use crate::{failure::Failure, shown, told};

/// How soon Ctrl-C is noticed between two times.
const NOTICED: Duration = Duration::from_millis(100);

/// Asks the guests where their pages lie, marks those that several hold, has KSM look at them, and tells: once, or each time
/// that `every` has passed, until Ctrl-C.
pub fn run(
    asked: &asking::Args,
    allow: &[Allow],
    every: Option<Duration>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let cache = xweave_weave::cache_directory().map_err(Failure::usage)?;
    let begun = Instant::now();
    let mut pace = every.map(|_| Pace::default());
    let (mut outcome, mut looked_at) = once(asked, allow, &cache, pace.as_mut(), true)?;
    let mut next = Duration::ZERO;
    if every.is_some() {
        told::tell(&report::line(&outcome));
    }
    while let Some(every) = every.filter(|_| !xweave_interrupt::pending()) {
        next += every;
        while begun.elapsed() < next && !xweave_interrupt::pending() {
            thread::sleep(NOTICED.min(next.saturating_sub(begun.elapsed())));
        }
        if xweave_interrupt::pending() {
            break;
        }
        match once(asked, allow, &cache, pace.as_mut(), false) {
            Ok((now, looked)) => {
                told::tell(&report::line(&now));
                (outcome, looked_at) = (now.after(&outcome), looked);
            }
            Err(_) if xweave_interrupt::pending() => break,
            // A guest that starts anew is there the next time.
            Err(failure) => told::tell(&failure.message()),
        }
    }
    let is_told = shown::only(|out| match json {
        true => document::merge::write_outcome(out, &outcome, &looked_at, asked.same_by()),
        false => {
            let view = View::of_stdout(WIDE);
            write!(out, "{}", report::outcome(&outcome, &looked_at, asked.limit, view))
        }
    });
    match outcome.taken.cut && every.is_none() && xweave_interrupt::pending() {
        true => is_told.map(|_| ExitCode::from(130)),
        false => is_told,
    }
}

/// The first time, it is told how far that is.
fn once(
    asked: &asking::Args,
    allow: &[Allow],
    cache: &Path,
    pace: Option<&mut Pace>,
    is_first: bool,
) -> Result<(Outcome, Vec<LookedAt>), Failure> {
    let asking::Told { guests, pids, looked_at } = asked.ask(false, true, is_first)?;
    let may_inject = allow.contains(&Allow::Inject);
    let asked = Asked { guests, pids, same_by: asked.same_by(), may_inject };
    let outcome = merging::merge(asked, &super::host()?, cache, pace, xweave_interrupt::pending);
    let outcome = outcome.map_err(|error| match error {
        MergeError::NotAllowed { .. } => Failure::usage(error),
        _ => Failure::Failed(error.to_string()),
    })?;
    Ok((outcome, looked_at))
}
