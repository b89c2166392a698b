//! Transactions of two runs, for a page: how long the first run's took beside the second's, and what
//! `xweave compare --transaction --json` prints of both.

use serde_json::{Value, json};
use xweave_flow::Histogram;
use xweave_model::{Contrast, Spec, Tally, explain};
use xweave_trace::Trace;

use super::{
    bounded::{cut, cut_lists},
    grid::Grid,
    levels::CELLS,
    transactions::{PROGRAMS, called},
};
use crate::{
    View,
    contrast::{Sides, headline},
    document::contrast::ContrastDocument,
};

/// What there is at most of each, and in how many bytes.
const CAUSES: usize = 60;
const PARTS: usize = 300;
const LIST: usize = 64 << 10;

/// Those of the kinds that the first run has, too.
pub(super) fn of(first: &Trace, second: &Trace, kinds: &[Spec]) -> Vec<Value> {
    if !first.has_events() {
        return Vec::new();
    }
    kinds.iter().filter_map(|spec| kind(first, second, spec)).collect()
}

fn kind(first: &Trace, second: &Trace, spec: &Spec) -> Option<Value> {
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
    let max_ns = totals.quantile(1.0)?;
    let lives = tally.programs.as_ref().map(|programs| programs.all(&outcome.objects));
    let contrast = Contrast::of_runs([first, second], spec);
    let view = View { width: u16::MAX, color: false };
    let said = match &contrast {
        Ok(contrast) => headline(contrast, Sides::OfRuns, &called(spec), view),
        Err(few) => format!("{few} in each run"),
    };
    let lists = [("causes", CAUSES), ("parts", PARTS)];
    Some(json!({
        "transaction": spec.to_string(),
        "first": {
            "transactions": totals.transactions(),
            "p50_ns": totals.quantile(0.5),
            "p99_ns": totals.quantile(0.99),
            "max_ns": max_ns,
            "bins": times.bins(),
            "by_size": by_size.value(),
            "lives": lives.map(|lives| cut(&lives, PROGRAMS, LIST)),
        },
        "headline": said.trim_end(),
        "contrast": contrast.ok().map(|contrast| cut_lists(&ContrastDocument::new(&contrast), &lists, LIST)),
    }))
}
