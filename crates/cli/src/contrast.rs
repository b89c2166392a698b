//! `xweave compare --transaction`: slow transactions against typical ones, or those of two runs.

use std::{io::Write, process::ExitCode};

use xweave_model::{Contrast, Spec};
use xweave_report::{
    View, absent,
    contrast::{self, Sides},
    document, losses, next, transactions,
};
use xweave_trace::Trace;

use crate::{failure::Failure, shown};

/// What is shown.
pub struct Shown {
    /// A JSON document.
    pub json: bool,
    /// Each cause, object and state.
    pub all: bool,
    /// How many causes.
    pub limit: usize,
    /// Columns where standard output is no terminal.
    pub wide: u16,
}

/// Compares the transactions of a trace, or of two.
pub fn run(traces: &[Trace], spec: &Spec, how: &Shown) -> Result<ExitCode, Failure> {
    let (sides, contrast) = match traces {
        [first, second, ..] => (Sides::OfRuns, Contrast::of_runs([first, second], spec)),
        [only] => (Sides::OfRun, Contrast::of_slow(only, spec)),
        [] => return Ok(ExitCode::SUCCESS),
    };
    let contrast = contrast.map_err(|few| {
        let sizes = [few.found, few.least];
        Failure::Failed(absent::too_few(&traces[few.run], spec, sizes, "compare them", &few.outcome))
    })?;
    let printed = shown::print(|out| match how.json {
        true => document::contrast::write(out, &contrast, spec),
        false => tables(traces, &contrast, sides, spec, how, out),
    })?;
    if printed.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    Failure::unless_whole(contrast.outcomes.iter().flat_map(|outcome| &outcome.damaged))
}

fn tables(
    traces: &[Trace],
    contrast: &Contrast,
    sides: Sides,
    spec: &Spec,
    how: &Shown,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let view = View::of_stdout(how.wide);
    for (trace, outcome) in traces.iter().zip(&contrast.outcomes) {
        write!(out, "{}", losses::text(outcome, trace.manifest(), how.all, view))?;
    }
    writeln!(out, "{}", contrast::headline(contrast, sides, &spec.to_string(), view))?;
    let limit = (!how.all).then_some(how.limit);
    write!(out, "{}", contrast::causes(contrast, sides, limit, view))?;
    if how.all {
        write!(out, "\n{}", contrast::parts(contrast, sides, view))?;
    }
    writeln!(out, "\nExamples, step by step:")?;
    let last = traces.len() - 1;
    for (at, side) in contrast.sides.iter().enumerate() {
        let command = next::explain_command(&traces[at.min(last)], spec);
        writeln!(out, "  {command} --id {}", transactions::id(side.example))?;
    }
    Ok(())
}
