//! Which groups of events were recorded of each domain.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use xweave_trace::{Trace, event::Kind};

/// The kinds of events that a trace has of each domain, by its number, as bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(FxHashMap<u8, u64>);

impl Seen {
    /// There is an event of that kind.
    pub(crate) fn add(&mut self, domain: u8, kind: Kind) {
        *self.0.entry(domain).or_default() |= 1 << kind as u8;
    }

    /// The groups that were recorded of each domain: those that the recorder names, which may have had no event, and those
    /// of which there is one, as imports name none.
    pub(crate) fn groups(&self, trace: &Trace) -> BTreeMap<String, BTreeSet<&'static str>> {
        let of = |number: u8, named: &[String]| {
            let seen = self.0.get(&number).copied().unwrap_or(0);
            let is = |kind: Kind, group: &str| {
                seen & 1 << kind as u8 != 0 || named.iter().any(|name| name == group)
            };
            let known = Kind::ALL.into_iter().filter_map(|kind| Some((kind, kind.group()?)));
            known.filter(|(kind, group)| is(*kind, group)).map(|(_, group)| group).collect()
        };
        let domains = trace.manifest().domains.iter();
        domains.map(|domain| (domain.name.clone(), of(domain.number, &domain.events))).collect()
    }
}
