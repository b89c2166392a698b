//! What both traces recorded: nothing else is compared.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::usage::{Figures, Usage, kind};

/// A group of events that one of the traces lacks: what it tells of is not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The group: `sched`, `block`, `net` or `vm`.
    pub events: &'static str,
    /// Which of the traces lacks it, 0 or 1.
    pub missing_in: usize,
    /// Of which domains.
    pub domains: Vec<String>,
    /// Whether of all that both traces have.
    #[serde(skip)]
    pub everywhere: bool,
}

/// Which groups of events one of two traces has of a domain, and the other has not.
pub(super) struct Shared(BTreeMap<String, BTreeSet<&'static str>>);

impl Shared {
    /// Of two traces; domains that one of them lacks are none of its own, and have nothing to be compared with.
    pub(super) fn of(a: &Usage, b: &Usage) -> Self {
        let mut one_sided: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
        for (one, other) in [(a, b), (b, a)] {
            for (domain, groups) in &one.recorded {
                let others = other.recorded.get(domain);
                let lacks = |group: &&&str| !others.is_some_and(|others| others.contains(**group));
                one_sided.entry(domain.clone()).or_default().extend(groups.iter().filter(lacks).copied());
            }
        }
        Self(one_sided)
    }

    /// The figures of an object that can be compared; none if none can.
    pub(super) fn comparable(&self, kind: &str, domain: &str, [a, b]: [Figures; 2]) -> Option<[Figures; 2]> {
        let one_sided = |group: &str| self.0.get(domain).is_some_and(|groups| groups.contains(group));
        if one_sided(group(kind)) {
            return None;
        }
        // How long threads waited, and what ran between an exit and the next entry, is told by the scheduler.
        let by_sched = matches!(kind, kind::PEER | kind::EXIT);
        let counted = |of: Figures| Figures { time_ns: 0, wait_ns: 0, ..of };
        Some(if by_sched && one_sided("sched") { [counted(a), counted(b)] } else { [a, b] })
    }

    /// What each of the traces lacks, by groups.
    pub(super) fn left_out(&self, a: &Usage, b: &Usage) -> Vec<LeftOut> {
        let both: Vec<_> = self.0.iter().filter(|(domain, _)| has(a, domain) && has(b, domain)).collect();
        let mut all = Vec::new();
        for events in ["sched", "block", "net", "vm"] {
            for (missing_in, usage) in [a, b].into_iter().enumerate() {
                let lacks = |domain: &str, groups: &BTreeSet<&str>| {
                    groups.contains(events) && !usage.recorded[domain].contains(events)
                };
                let of = both.iter().filter(|(domain, groups)| lacks(domain, groups));
                let domains: Vec<_> = of.map(|(domain, _)| (*domain).clone()).collect();
                let everywhere = domains.len() == both.len();
                if !domains.is_empty() {
                    all.push(LeftOut { events, missing_in, domains, everywhere });
                }
            }
        }
        all
    }
}

fn has(usage: &Usage, domain: &str) -> bool {
    usage.recorded.contains_key(domain)
}

/// The events that tell of objects of a kind.
fn group(kind: &str) -> &'static str {
    match kind {
        kind::DISK | kind::USE => "block",
        kind::PEER | kind::SERVICE => "net",
        kind::VCPU | kind::EXIT => "vm",
        _ => "sched",
    }
}
