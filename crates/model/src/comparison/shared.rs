//! What both traces recorded: nothing else is compared.

use std::collections::{BTreeMap, BTreeSet};

use crate::usage::{Figures, Usage, UsageKind};

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
    pub(super) fn comparable(
        &self,
        kind: UsageKind,
        domain: &str,
        [a, b]: [Figures; 2],
    ) -> Option<[Figures; 2]> {
        let one_sided = |group: &str| self.0.get(domain).is_some_and(|groups| groups.contains(group));
        if one_sided(group(kind)) {
            return None;
        }
        // How long threads waited, and what ran between an exit and the next entry, is told by the scheduler.
        let by_sched = matches!(kind, UsageKind::Peer | UsageKind::Exit);
        let counted = |of: Figures| Figures { time_ns: 0, wait_ns: 0, ..of };
        Some(if by_sched && one_sided("sched") { [counted(a), counted(b)] } else { [a, b] })
    }
}

/// The events that tell of objects of a kind.
fn group(kind: UsageKind) -> &'static str {
    match kind {
        UsageKind::Disk | UsageKind::DiskUser => "block",
        UsageKind::Peer | UsageKind::Service | UsageKind::Qdisc => "net",
        UsageKind::Vcpu | UsageKind::Exit => "vm",
        _ => "sched",
    }
}
