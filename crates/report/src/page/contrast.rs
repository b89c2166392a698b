//! Transactions of two runs, for a page: how long the first run's took beside the second's, and what
//! `xweave compare --transaction --json` prints of both.

use serde_json::{Value, json};
use xweave_flow::Histogram;
use xweave_model::{Contrast, Spec, explain, parts::Totals};
use xweave_trace::Trace;

use super::bounded::cut_lists;
use crate::{
    View,
    contrast::{Sides, headline},
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
    let (mut totals, mut times) = (Totals::default(), Histogram::default());
    explain(first, spec, &mut |transaction, objects| {
        totals.add(&transaction, objects);
        times.add(transaction.total_ns);
    });
    let max_ns = totals.quantile(1.0)?;
    let contrast = Contrast::of_runs([first, second], spec);
    let view = View { width: u16::MAX, color: false };
    let said = match &contrast {
        Ok(contrast) => headline(contrast, Sides::OfRuns, &spec.to_string(), view),
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
        },
        "headline": said.trim_end(),
        "contrast": contrast.ok().map(|contrast| cut_lists(&contrast, &lists, LIST)),
    }))
}
