//! Two runs of the same work, for a page: what `xweave compare --json` prints, what changed most of it.

use std::cmp::Reverse;

use xweave_document::page::comparison::{self, Contrasted};
use xweave_model::{Comparison, comparison::Compared};

use super::bounded::cut;
use crate::{
    comparison::headline,
    document::compare::{build_finding, build_object},
};

/// What there is at most of each, and in how many bytes.
const FINDINGS: usize = 50;
const OBJECTS: usize = 500;
const LIST: usize = 192 << 10;

/// Builds the comparison. `first` is the name of the first run; `transactions` are those of both.
pub(super) fn build(
    compared: &Comparison,
    first: &str,
    transactions: Vec<Contrasted>,
) -> comparison::Comparison {
    let change = |[a, b]: [u64; 2]| a.abs_diff(b);
    let mut objects: Vec<&Compared> = compared.objects.iter().collect();
    objects.sort_by_key(|one| Reverse(change(one.time_ns).max(change(one.wait_ns))));
    comparison::Comparison {
        first: first.to_owned(),
        headline: headline(compared).trim_end().to_owned(),
        span_ns: compared.span_ns,
        difference_ns: compared.difference_ns,
        took_longer: compared.took_longer(),
        events: compared.events,
        findings: cut(compared.findings.iter().map(build_finding), FINDINGS, LIST),
        transactions,
        objects: cut(objects.into_iter().map(build_object), OBJECTS, LIST),
        changed: compared.objects.iter().filter(|one| one.changed()).count(),
    }
}
