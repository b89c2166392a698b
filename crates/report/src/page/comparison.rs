//! Two runs of the same work, for a page: what `xweave compare --json` prints, what changed most of it.

use std::cmp::Reverse;

use serde_json::{Value, json};
use xweave_model::{Comparison, comparison::Compared};

use super::bounded::cut;
use crate::{
    comparison::headline,
    document::compare::{ComparedDocument, FindingDocument},
};

/// What there is at most of each, and in how many bytes.
const FINDINGS: usize = 50;
const OBJECTS: usize = 500;
const LIST: usize = 192 << 10;

/// `first` is what the first of the runs is called; `transactions` of both are told, too.
pub(super) fn of(compared: &Comparison, first: &str, transactions: &[Value]) -> Value {
    let change = |[a, b]: [u64; 2]| a.abs_diff(b);
    let mut objects: Vec<&Compared> = compared.objects.iter().collect();
    objects.sort_by_key(|one| Reverse(change(one.time_ns).max(change(one.wait_ns))));
    let objects: Vec<_> = objects.into_iter().map(ComparedDocument::new).collect();
    let findings: Vec<_> = compared.findings.iter().map(FindingDocument::new).collect();
    json!({
        "first": first,
        "headline": headline(compared).trim_end(),
        "span_ns": compared.span_ns,
        "difference_ns": compared.difference_ns,
        "took_longer": compared.took_longer(),
        "events": compared.events,
        "findings": cut(&findings, FINDINGS, LIST),
        "transactions": transactions,
        "objects": cut(&objects, OBJECTS, LIST),
        "changed": compared.objects.iter().filter(|one| one.changed()).count(),
    })
}
