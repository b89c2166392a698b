//! Who kept whom waiting for a CPU: virtual machines and programs, each as one.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{
    group::ObjectGroup,
    usage::{Usage, UsageObject},
};

/// The share of a victim's waits from which on a neighbour or the recorder is told before all that took less.
const TELLING: f64 = 0.1;

/// What uses the CPUs of a domain, as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tenant {
    /// A virtual machine by its name: its vCPUs, its vhost threads, and the other threads of its process.
    Guest(String),
    /// The recorder.
    Recorder,
    /// Processes that are for no guest.
    Processes(ObjectGroup),
}

impl Tenant {
    /// Returns whom processes belong to.
    fn of(group: &ObjectGroup) -> Self {
        match group.guest() {
            Some(guest) => Self::Guest(guest.to_owned()),
            None if group.is_recorders() => Self::Recorder,
            None => Self::Processes(group.clone()),
        }
    }

    /// Whether it is too many to be told apart.
    fn is_unknown(&self) -> bool {
        *self == Self::Processes(ObjectGroup::Others)
    }
}

/// What had the CPU is to what waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// Another tenant of the same CPUs.
    Neighbour,
    /// The recorder.
    Recorder,
    /// The same tenant: other threads of its own.
    Own,
    /// Not known: too many to be told apart.
    Unknown,
}

impl Relation {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Neighbour => "neighbour",
            Self::Recorder => "recorder",
            Self::Own => "own",
            Self::Unknown => "unknown",
        }
    }
}

/// How long one tenant waited for CPUs that another one had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blame {
    /// The domain whose CPUs these are.
    pub domain: String,
    /// What waited.
    pub victim: Tenant,
    /// What had the CPUs.
    pub culprit: Tenant,
    /// What the culprit is to the victim.
    pub relation: Relation,
    /// How long the victim's threads were ready while the culprit's ran, in nanoseconds: a sum over threads.
    pub ns: u64,
    /// How long they were ready in all.
    pub waited_ns: u64,
    /// How long the culprit's threads ran in all.
    pub ran_ns: u64,
    /// How long the victim's threads ran in all.
    pub victim_ran_ns: u64,
}

impl Blame {
    /// The share of the victim's waits.
    pub fn share(&self) -> f64 {
        self.ns as f64 / self.waited_ns.max(1) as f64
    }

    /// Whether it is worth telling before all else: another one had the CPU for much of what the victim waited, and the victim
    /// waited for 1 % of the time.
    pub fn is_telling(&self, span_ns: u64) -> bool {
        let by_other = matches!(self.relation, Relation::Neighbour | Relation::Recorder);
        by_other && self.share() >= TELLING && self.ns / 10 > span_ns / 1000
    }
}

/// What a tenant did in a domain.
#[derive(Clone, Copy, Debug, Default)]
struct Processing {
    ran_ns: u64,
    waited_ns: u64,
}

/// Returns who kept whom waiting. What is telling comes first: neighbours before the recorder; virtual machines that waited
/// before programs, which are there for these; who took more of the CPUs than its victim before who took less, as of two that
/// want the same CPU the busier one waits for longer. Then by time, the longest first. Waits of the recorder are nobody's
/// question.
pub fn blames(usage: &Usage) -> Vec<Blame> {
    let mut tenants: BTreeMap<(&str, Tenant), Processing> = BTreeMap::new();
    for (key, figures) in &usage.objects {
        if let UsageObject::Process(group) = &key.object {
            let tenant = tenants.entry((&key.domain, Tenant::of(group))).or_default();
            tenant.ran_ns += figures.time_ns;
            tenant.waited_ns += figures.wait_ns;
        }
    }
    let mut pairs: BTreeMap<(&str, Tenant, Tenant), u64> = BTreeMap::new();
    for waited in &usage.waited {
        let victim = Tenant::of(&waited.who);
        if victim != Tenant::Recorder {
            *pairs.entry((&waited.domain, victim, Tenant::of(&waited.by))).or_default() += waited.ns;
        }
    }
    // A wait that was not over yet is in the pairs alone.
    let mut sums: BTreeMap<(&str, Tenant), u64> = BTreeMap::new();
    for ((domain, victim, _), ns) in &pairs {
        *sums.entry((*domain, victim.clone())).or_default() += ns;
    }
    let mut all = Vec::new();
    for ((domain, victim, culprit), ns) in pairs {
        let (of_victim, of_culprit) = ((domain, victim), (domain, culprit));
        let waited_ns = tenants.get(&of_victim).map_or(0, |of| of.waited_ns);
        let waited_ns = waited_ns.max(sums.get(&of_victim).copied().unwrap_or(0));
        let ran = |of| tenants.get(of).map_or(0, |of| of.ran_ns);
        let (ran_ns, victim_ran_ns) = (ran(&of_culprit), ran(&of_victim));
        let (victim, culprit) = (of_victim.1, of_culprit.1);
        let relation = relation(&victim, &culprit);
        let domain = domain.to_owned();
        all.push(Blame { domain, victim, culprit, relation, ns, waited_ns, ran_ns, victim_ran_ns });
    }
    all.sort_by_key(|blame| {
        let telling = blame.is_telling(usage.span_ns).then_some(blame.relation);
        let is_guest = telling.is_some() && matches!(blame.victim, Tenant::Guest(_));
        let takes_more = telling.is_some() && blame.ran_ns > blame.victim_ran_ns;
        (telling.is_none(), telling, !is_guest, !takes_more, Reverse(blame.ns))
    });
    all
}

fn relation(victim: &Tenant, culprit: &Tenant) -> Relation {
    match culprit {
        Tenant::Recorder => Relation::Recorder,
        _ if culprit.is_unknown() => Relation::Unknown,
        _ if culprit == victim => Relation::Own,
        _ => Relation::Neighbour,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{Figures, Key, Waited};

    const MS: u64 = 1_000_000;

    fn vcpus(guest: &str) -> ObjectGroup {
        ObjectGroup::Vcpus { guest: guest.to_owned() }
    }

    fn program(name: &str) -> ObjectGroup {
        ObjectGroup::Threads { name: name.to_owned(), guest: None }
    }

    /// A host for ten seconds: who ran and waited, and for whom.
    fn usage(did: &[(ObjectGroup, u64, u64)], waited: &[(ObjectGroup, ObjectGroup, u64)]) -> Usage {
        let mut usage = Usage { span_ns: 10_000 * MS, ..Usage::default() };
        for (group, ran, waited) in did {
            let key = Key { domain: "host".into(), object: UsageObject::Process(group.clone()) };
            let figures = Figures { time_ns: ran * MS, wait_ns: waited * MS, ..Figures::default() };
            usage.objects.insert(key, figures);
        }
        let waits = waited.iter().cloned();
        let waits = waits.map(|(who, by, ms)| Waited { domain: "host".into(), who, by, ns: ms * MS });
        usage.waited = waits.collect();
        usage
    }

    /// vm2 has more vCPUs than there are CPUs: these wait for each other for longer than vm1 waits for vm2.
    #[test]
    fn the_neighbour_comes_before_who_keeps_only_itself_waiting() {
        let vhost = ObjectGroup::Vhost { guest: "vm2".into() };
        let did = [(vcpus("vm1"), 2_000, 8_500), (vcpus("vm2"), 5_000, 21_400), (vhost.clone(), 900, 0)];
        let waited = [
            (vcpus("vm2"), vcpus("vm2"), 19_000),
            (vcpus("vm2"), vcpus("vm1"), 1_000),
            (vcpus("vm1"), vcpus("vm2"), 3_000),
            (vcpus("vm1"), vhost, 500),
            (vcpus("vm1"), vcpus("vm1"), 5_000),
        ];
        let all = blames(&usage(&did, &waited));
        let first = &all[0];
        assert_eq!((&first.victim, &first.culprit), (&guest("vm1"), &guest("vm2")), "{all:?}");
        assert_eq!(first.relation, Relation::Neighbour);
        assert_eq!([first.ns, first.waited_ns, first.ran_ns], [3_500, 8_500, 5_900].map(|ms| ms * MS));
        assert_eq!(all[1].relation, Relation::Own, "{all:?}");
        assert_eq!(all.len(), 4, "{all:?}");
    }

    fn guest(name: &str) -> Tenant {
        Tenant::Guest(name.to_owned())
    }

    /// vm2 computes all the time and vm1 now and then: vm2 waits for vm1 for longer than vm1 for vm2.
    #[test]
    fn of_two_who_wait_for_each_other_the_one_that_took_less_is_the_victim() {
        let did = [(vcpus("vm1"), 2_000, 1_500), (vcpus("vm2"), 6_000, 4_000), (program("tar"), 500, 3_000)];
        let waited = [
            (vcpus("vm2"), vcpus("vm1"), 2_000),
            (vcpus("vm1"), vcpus("vm2"), 1_400),
            (program("tar"), vcpus("vm2"), 3_000),
        ];
        let all = blames(&usage(&did, &waited));
        let told: Vec<_> = all.iter().map(|blame| (&blame.culprit, &blame.victim)).collect();
        let [vm1, vm2, tar] = [guest("vm1"), guest("vm2"), Tenant::Processes(program("tar"))];
        assert_eq!(told, [(&vm2, &vm1), (&vm1, &vm2), (&vm2, &tar)]);
    }

    #[test]
    fn a_neighbour_that_took_little_of_what_it_waited_is_not_told_first() {
        let did = [(vcpus("vm1"), 5_000, 50_000), (program("bash"), 200, 0)];
        let waited = [(vcpus("vm1"), vcpus("vm1"), 49_000), (vcpus("vm1"), program("bash"), 200)];
        let all = blames(&usage(&did, &waited));
        assert_eq!(all[0].relation, Relation::Own, "{all:?}");
        assert!(all.iter().all(|blame| !blame.is_telling(10_000 * MS)), "{all:?}");
    }

    /// It moved to another CPU's queue while it waited, and never ran.
    #[test]
    fn a_wait_that_is_not_over_is_one_all_the_same() {
        let did = [(program("a"), 0, 0), (program("b"), 5_000, 0)];
        let all = blames(&usage(&did, &[(program("a"), program("b"), 5_000)]));
        assert_eq!(all.len(), 1, "{all:?}");
        assert!((all[0].share() - 1.0).abs() < f64::EPSILON && all[0].waited_ns == 5_000 * MS, "{all:?}");
    }

    #[test]
    fn the_recorder_is_told_where_no_neighbour_is_and_its_own_waits_never() {
        let did = [(vcpus("vm1"), 5_000, 1_000), (ObjectGroup::Recorder, 2_000, 700)];
        let waited = [
            (ObjectGroup::Recorder, vcpus("vm1"), 700),
            (vcpus("vm1"), ObjectGroup::Others, 600),
            (vcpus("vm1"), ObjectGroup::Recorder, 400),
        ];
        let all = blames(&usage(&did, &waited));
        let told: Vec<_> = all.iter().map(|blame| (blame.relation, blame.ns / MS)).collect();
        assert_eq!(told, [(Relation::Recorder, 400), (Relation::Unknown, 600)]);
    }
}
