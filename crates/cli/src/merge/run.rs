//! `xweave merge`: gives back what guests hold twice, once or again and again.

use std::{io::Write, process::ExitCode};

use xweave_merge::{
    direct,
    merging::MergeError,
    run::{self, Finished, Options, Problem, RunError, Step},
};
use xweave_report::{View, document, merge as report};

use super::{
    WIDE,
    guests::{self, FirstQuery},
};
use crate::{failure::Failure, shown, told};

/// Runs with these options, and prints the steps and the outcome.
pub fn run(options: Options, args: &guests::Args, json: bool) -> Result<ExitCode, Failure> {
    let is_repeated = options.schedule.every.is_some();
    let progress = FirstQuery::default();
    let on_reserve = |event| told::tell(&report::event(&event));
    let finished = run::run(options, &progress.listener(), on_reserve, &mut |step| match step {
        Step::Answered => progress.end(),
        Step::Plenty { available, below } => told::tell(&report::plenty(available, below)),
        Step::Merged(outcome) if is_repeated => told::tell(&report::line(outcome)),
        Step::Merged(_) => {}
        Step::Problem(problem) => told::tell(&text(problem)),
    });
    progress.end();
    let Finished { outcome, looked_at, cut, within_nodes } = finished.map_err(failure)?;
    let is_told = shown::only(|out| match json {
        true => document::merge::write_outcome(out, &outcome, &looked_at, args.same_by()),
        false => {
            let view = View::of_stdout(WIDE);
            write!(out, "{}", report::outcome(&outcome, &looked_at, args.limit, view))
        }
    });
    if let Some(within) = within_nodes
        && direct::leave_nodes(within).map_err(super::failed)?
    {
        told::tell(report::STAYS_WITHIN);
    }
    match cut {
        true => is_told.map(|_| ExitCode::from(130)),
        false => is_told,
    }
}

/// A problem's message, fit to be shown.
fn text(problem: &Problem) -> String {
    xweave_text::lines(&problem.to_string()).into_owned()
}

fn failure(error: RunError) -> Failure {
    match error {
        RunError::Ask(error) => error.into(),
        RunError::Merge(error) if xweave_interrupt::pending() => Failure::Interrupted(error.to_string()),
        RunError::Merge(error @ MergeError::NotAllowed { .. }) => Failure::usage(error),
        error => super::failed(error),
    }
}
