//! Who waited for a processor that others had, as it is told.

use rustc_hash::FxHashMap;

use crate::usage::{Key, OTHERS, Waited};

/// By domain and who waited; who had them longest first. By the places of their keys: who waited, and who had it.
pub(super) fn told(waited: &FxHashMap<(usize, Option<usize>), u64>, keys: &[Key]) -> Vec<Waited> {
    let one = |((who, by), ns): (&(usize, Option<usize>), &u64)| {
        let Key { domain, object, .. } = keys[*who].clone();
        let by = by.map_or_else(|| OTHERS.to_owned(), |by| keys[by].object.clone());
        Waited { domain, object, by, ns: *ns }
    };
    let mut all: Vec<_> = waited.iter().map(one).collect();
    all.sort_by(|a, b| {
        let who = (&a.domain, &a.object).cmp(&(&b.domain, &b.object));
        who.then(b.ns.cmp(&a.ns)).then_with(|| a.by.cmp(&b.by))
    });
    all
}
