//! Which groups of events were recorded of each domain, and which of these one of two recordings lacks.

use std::collections::{BTreeMap, BTreeSet};

use xweave_trace::{Trace, event::Kind};

use crate::by_domain::ByDomain;

/// The groups of events that were recorded, by domain: as the recorder says, and of which there are events.
pub type Groups = BTreeMap<String, BTreeSet<&'static str>>;

/// A group of events that one of two traces lacks: what it tells of cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The group: `sched`, `block`, `net` or `vm`.
    pub events: &'static str,
    /// Which of the traces lacks it, 0 or 1.
    pub missing_in: usize,
    /// Of which domains.
    pub domains: Vec<String>,
    /// Whether of all that both traces have.
    pub everywhere: bool,
}

impl LeftOut {
    /// What each of two traces lacks and the other has, by groups, of the domains that both have.
    pub(crate) fn of(traces: [&Groups; 2]) -> Vec<Self> {
        let [a, b] = traces;
        let both: Vec<&String> = a.keys().filter(|domain| b.contains_key(*domain)).collect();
        let mut all = Vec::new();
        for events in ["sched", "block", "net", "vm"] {
            for (missing_in, (lacking, other)) in [(a, b), (b, a)].into_iter().enumerate() {
                let lacks = |domain: &&&String| {
                    !lacking[**domain].contains(events) && other[**domain].contains(events)
                };
                let domains: Vec<String> =
                    both.iter().filter(lacks).map(|domain| (*domain).clone()).collect();
                let everywhere = domains.len() == both.len();
                if !domains.is_empty() {
                    all.push(Self { events, missing_in, domains, everywhere });
                }
            }
        }
        all
    }
}

/// The kinds of events that a trace has of each domain, by its number, as bits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(ByDomain<u64>);

impl Seen {
    /// There is an event of that kind.
    pub(crate) fn add(&mut self, domain: u8, kind: Kind) {
        self.0[domain] |= 1 << kind as u8;
    }

    /// The groups that were recorded of each domain: those that the recorder names, which may have had no event, and those
    /// of which there is one, as imports name none.
    pub(crate) fn groups(&self, trace: &Trace) -> Groups {
        let of = |number: u8, named: &[String]| {
            let seen = self.0[number];
            let is = |kind: Kind, group: &str| {
                seen & 1 << kind as u8 != 0 || named.iter().any(|name| name == group)
            };
            let known = Kind::ALL.into_iter().filter_map(|kind| Some((kind, kind.group_name()?)));
            known.filter(|(kind, group)| is(*kind, group)).map(|(_, group)| group).collect()
        };
        let domains = trace.manifest().domains.iter();
        domains.map(|domain| (domain.name.clone(), of(domain.number, &domain.events))).collect()
    }
}
