//! Who waited for a processor that others had, as it is told.

use rustc_hash::FxHashMap;

use crate::{
    objects::ObjectGroup,
    usage::{Key, Waited},
};

/// By domain and who waited; who had them longest first. By the places of their keys: who waited, and who had it.
pub(super) fn told(waited: &FxHashMap<(usize, Option<usize>), u64>, keys: &[Key]) -> Vec<Waited> {
    let group = |place: usize| keys[place].object.group().cloned().unwrap_or(ObjectGroup::Others);
    let one = |((who, by), ns): (&(usize, Option<usize>), &u64)| Waited {
        domain: keys[*who].domain.clone(),
        who: group(*who),
        by: by.map_or(ObjectGroup::Others, group),
        ns: *ns,
    };
    let mut all: Vec<_> = waited.iter().map(one).collect();
    all.sort_by(|a, b| {
        let who = (&a.domain, &a.who).cmp(&(&b.domain, &b.who));
        who.then(b.ns.cmp(&a.ns)).then_with(|| a.by.cmp(&b.by))
    });
    all
}
