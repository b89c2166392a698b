//! Transactions of two runs, for a page: how long the first run's took beside the second's, and what
//! `xweave compare --transaction --json` prints of both.

use xweave_document::page::comparison::{Contrasted, FirstRun, PageContrast};
use xweave_flow::Histogram;
use xweave_model::{Contrast, Spec, Tally, explain};
use xweave_trace::Trace;

use super::{
    bounded::cut,
    grid::Grid,
    levels::CELLS,
    transactions::{PROGRAMS, called},
};
use crate::{
    View,
    contrast::{Sides, headline},
    document::{
        contrast::{build_cause, build_figures, build_part},
        lives,
        parts::build_bins,
    },
};

/// What there is at most of each, and in how many bytes.
const CAUSES: usize = 60;
const PARTS: usize = 300;
const LIST: usize = 64 << 10;

/// Builds those of the kinds that the first run has, too.
pub(super) fn build(first: &Trace, second: &Trace, kinds: &[Spec]) -> Vec<Contrasted> {
    if !first.has_events() {
        return Vec::new();
    }
    kinds.iter().filter_map(|spec| kind(first, second, spec)).collect()
}

fn kind(first: &Trace, second: &Trace, spec: &Spec) -> Option<Contrasted> {
    let (mut tally, mut times) = (Tally::of(spec, false), Histogram::default());
    let mut by_size = Grid::of_at_most(CELLS);
    let outcome = explain(first, spec, &mut |transaction, objects| {
        tally.add(&transaction, objects);
        times.add(transaction.total_ns);
        if let Some(bytes) = transaction.bytes {
            by_size.add(bytes.all(), transaction.length(), transaction.id);
        }
    });
    let totals = &tally.totals;
    if totals.transactions() == 0 {
        return None;
    }
    let lives = tally.programs.as_ref().map(|programs| programs.all(&outcome.objects));
    let contrast = Contrast::of_runs([first, second], spec);
    let view = View { width: u16::MAX, color: false };
    let said = match &contrast {
        Ok(contrast) => headline(contrast, Sides::OfRuns, &called(spec), view),
        Err(few) => format!("{few} in each run"),
    };
    let first = FirstRun {
        transactions: totals.transactions(),
        p50_ns: totals.quantile(0.5)?,
        p99_ns: totals.quantile(0.99)?,
        max_ns: totals.quantile(1.0)?,
        bins: build_bins(&times.bins()),
        by_size: by_size.build(),
        lives: lives.map(|lives| cut(lives.iter().map(lives::build), PROGRAMS, LIST)),
    };
    Some(Contrasted {
        transaction: spec.to_string(),
        first,
        headline: said.trim_end().to_owned(),
        contrast: contrast.ok().as_ref().map(build_contrast),
    })
}

fn build_contrast(of: &Contrast) -> PageContrast {
    let mut causes: Vec<_> = of.causes.iter().map(build_cause).collect();
    causes.iter_mut().for_each(|cause| cause.by.truncate(CAUSES));
    PageContrast {
        figures: build_figures(of),
        causes: cut(causes, CAUSES, LIST),
        parts: cut(of.parts.iter().map(build_part), PARTS, LIST),
    }
}
