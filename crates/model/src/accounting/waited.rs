//! Who waited for a processor that others had, as it is told.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::{
    objects::ObjectGroup,
    usage::{Key, Waited},
};

/// By domain and who waited; who had them longest first. By the places of their keys: who waited, and who had it.
pub(super) fn told(waited: &FxHashMap<(usize, Option<usize>), u64>, keys: &[Key]) -> Vec<Waited> {
    let group = |place: usize| keys[place].object.group().cloned().unwrap_or(ObjectGroup::Others);
    // The recorder's agents in guests are other objects than its processes in the host.
    let mut sums: BTreeMap<(&str, ObjectGroup, ObjectGroup), u64> = BTreeMap::new();
    for ((who, by), ns) in waited {
        let by = by.map_or(ObjectGroup::Others, group);
        let sum = sums.entry((&keys[*who].domain, group(*who), by)).or_default();
        *sum = sum.saturating_add(*ns);
    }
    let one = |((domain, who, by), ns): ((&str, _, _), _)| Waited { domain: domain.to_owned(), who, by, ns };
    let mut all: Vec<_> = sums.into_iter().map(one).collect();
    all.sort_by(|a, b| {
        let who = (&a.domain, &a.who).cmp(&(&b.domain, &b.who));
        who.then(b.ns.cmp(&a.ns)).then_with(|| a.by.cmp(&b.by))
    });
    all
}
