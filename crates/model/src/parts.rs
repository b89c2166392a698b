//! Transactions' time added up: of one, by object; of many, by what is alike.

use std::{cmp::Reverse, collections::BTreeMap};

use rustc_hash::FxHashMap;

use xweave_replay::between;

use crate::{
    breakdown::TimeState,
    delay::{Awaited, Delay, DelayKind, Offender},
    explanation::{Explained, Step},
    objects::{Cause, DomainRef, ObjectGroup, ObjectKind, ObjectNumber, Objects, Reason},
};

/// Adds time. Events may have any times: a sum stays at the most there is rather than begin anew.
pub(crate) fn add_ns(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

/// All time that one object took of a transaction in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What took it.
    pub object: ObjectNumber,
    /// What it was spent on.
    pub spent: TimeState,
    /// What more is known of why.
    pub cause: Option<Cause>,
    /// How much, in nanoseconds.
    pub ns: u64,
    /// How often.
    pub count: u64,
}

/// The parts of a transaction, the largest first. Their sum is its whole time.
pub fn parts(transaction: &Explained) -> Vec<Part> {
    let mut sums: FxHashMap<_, (u64, u64)> = FxHashMap::default();
    for step in &transaction.steps {
        let sum = sums.entry((step.object, step.spent, step.cause)).or_default();
        add_ns(&mut sum.0, between(step.from, step.to));
        sum.1 += 1;
    }
    let part = |((object, spent, cause), (ns, count))| Part { object, spent, cause, ns, count };
    let mut parts: Vec<Part> = sums.into_iter().map(part).collect();
    parts.sort_by_key(|part| (Reverse(part.ns), part.object, part.spent));
    parts
}

/// What many transactions' time was spent on.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    sums: BTreeMap<Such, Sum>,
    /// By what kept them: also who did, and how long.
    kept: BTreeMap<Delay, (Sum, BTreeMap<Offender, u64>)>,
    kinds: BTreeMap<DelayKind, Sum>,
    lengths: Vec<u64>,
}

/// What is told together: time of alike objects, spent in one way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Such {
    /// The domain whose time it was; of what lies between two, both.
    pub domain: DomainRef,
    /// What took it.
    pub group: ObjectGroup,
    /// What kind of objects these are.
    pub kind: ObjectKind,
    /// What it was spent on.
    pub spent: TimeState,
    /// What more is known of why.
    pub reason: Option<Reason>,
}

impl Such {
    /// The time of steps by what is alike: no more and no less than all of it.
    pub fn sums(steps: &[Step], objects: &Objects) -> BTreeMap<Self, u64> {
        let mut sums: BTreeMap<Self, u64> = BTreeMap::new();
        let mut known: FxHashMap<_, u64> = FxHashMap::default();
        for step in steps {
            let sum = known.entry((step.object, step.spent, step.cause)).or_default();
            add_ns(sum, between(step.from, step.to));
        }
        for ((object, spent, cause), ns) in known {
            let object = objects.get(object);
            let such = Self {
                domain: object.domain.clone(),
                group: object.group.clone(),
                kind: object.kind,
                spent,
                reason: cause.map(|cause| objects.reason(cause)),
            };
            add_ns(sums.entry(such).or_default(), ns);
        }
        sums
    }

    /// Who had the processor meanwhile; or for what exits a vCPU was out of its guest.
    pub fn by(&self) -> Option<Offender> {
        match &self.reason {
            Some(Reason::Had(other) | Reason::HadByOwn(other)) => Some(Offender::Objects(other.clone())),
            Some(Reason::Exited(reason)) => Some(Offender::Exits(*reason)),
            _ => None,
        }
    }

    /// What such time kept transactions with, and who did it, if that is known.
    pub fn delay(&self) -> (Delay, Option<Offender>) {
        let own = || Some(Offender::Objects(self.group.clone()));
        let (kind, by) = match (self.spent, self.kind) {
            (TimeState::Ready | TimeState::Preempted, _) => (DelayKind::CpuWait, self.by()),
            (TimeState::Running, _) => (DelayKind::Running, own()),
            (TimeState::Network | TimeState::Retransmit, _) => (DelayKind::Network, None),
            (TimeState::Queue | TimeState::Device | TimeState::Completion, ObjectKind::Disk) => {
                (DelayKind::Disk, own())
            }
            (TimeState::Exit, _) => (DelayKind::Exits, self.by()),
            (spent, _) => (DelayKind::Other(spent), own()),
        };
        let whom = matches!(kind, DelayKind::CpuWait | DelayKind::Exits).then(|| self.group.clone());
        let awaited = match self.reason {
            Some(Reason::PipeData(_) | Reason::PipeRoom(_)) => Some(Awaited::Pipe),
            Some(Reason::PageFault(_)) => Some(Awaited::PageFault),
            Some(Reason::SwapIn) => Some(Awaited::SwapIn),
            _ => None,
        };
        (Delay { kind, domain: self.domain.clone(), whom, awaited }, by)
    }
}

/// What kept transactions, and who: all of it in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What kept them.
    pub delay: Delay,
    /// How much.
    pub ns: u64,
    /// How many transactions it kept.
    pub transactions: u64,
    /// By whom, as far as that is known, the most first: who had the CPU, who ran, which disk.
    pub by: Vec<(Offender, u64)>,
}

/// What kept transactions in one way, whomever: several threads' waits for a CPU are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptByKind {
    /// In which way.
    pub kind: DelayKind,
    /// How much, in nanoseconds.
    pub ns: u64,
    /// How many transactions it kept.
    pub transactions: u64,
    /// By whom, in all these ways: as [`Kept::by`].
    pub by: Vec<(Offender, u64)>,
    /// What kept them, the most first.
    pub causes: Vec<Kept>,
}

/// The most first.
fn sorted(by: &BTreeMap<Offender, u64>) -> Vec<(Offender, u64)> {
    let mut by: Vec<_> = by.iter().map(|(who, ns)| (who.clone(), *ns)).collect();
    by.sort_by_key(|(_, ns)| Reverse(*ns));
    by
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ns: u64,
    transactions: u64,
}

impl Sum {
    /// So much of one transaction.
    fn add(&mut self, ns: u64) {
        add_ns(&mut self.ns, ns);
        self.transactions += 1;
    }
}

/// Time that all transactions spent in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// Whose time, and what it was spent on.
    pub such: Such,
    /// How much, in nanoseconds.
    pub ns: u64,
    /// How many transactions had any of it.
    pub transactions: u64,
}

impl Totals {
    /// Adds a transaction.
    pub fn add(&mut self, transaction: &Explained, objects: &Objects) {
        self.add_sums(transaction.length(), &Such::sums(&transaction.steps, objects));
    }

    /// Adds what a transaction's time, or so long a part of it, was spent on. Returns what kept it, and how long.
    pub(crate) fn add_sums(&mut self, length: u64, sums: &BTreeMap<Such, u64>) -> BTreeMap<Delay, u64> {
        self.lengths.push(length);
        let mut kept: BTreeMap<Delay, u64> = BTreeMap::new();
        for (such, &ns) in sums {
            let (delay, by) = such.delay();
            if let Some(by) = by {
                add_ns(self.kept.entry(delay.clone()).or_default().1.entry(by).or_default(), ns);
            }
            add_ns(kept.entry(delay).or_default(), ns);
            match self.sums.get_mut(such) {
                Some(sum) => sum.add(ns),
                None => self.sums.entry(such.clone()).or_default().add(ns),
            }
        }
        let mut kinds: BTreeMap<DelayKind, u64> = BTreeMap::new();
        for (delay, ns) in &kept {
            add_ns(kinds.entry(delay.kind).or_default(), *ns);
        }
        for (kind, ns) in kinds {
            self.kinds.entry(kind).or_default().add(ns);
        }
        for (delay, ns) in &kept {
            match self.kept.get_mut(delay) {
                Some((sum, _)) => sum.add(*ns),
                None => self.kept.entry(delay.clone()).or_default().0.add(*ns),
            }
        }
        kept
    }

    /// What the time was spent on, the most first.
    pub fn all(&self) -> Vec<Total> {
        let total = |(such, sum): (&Such, &Sum)| Total {
            such: such.clone(),
            ns: sum.ns,
            transactions: sum.transactions,
        };
        let mut all: Vec<Total> = self.sums.iter().map(total).collect();
        all.sort_by_key(|total| Reverse(total.ns));
        all
    }

    /// What kept the transactions, the most first.
    pub fn causes(&self) -> Vec<Kept> {
        let kept = |(delay, (sum, by)): (&Delay, &(Sum, _))| Kept {
            delay: delay.clone(),
            ns: sum.ns,
            transactions: sum.transactions,
            by: sorted(by),
        };
        let mut all: Vec<Kept> = self.kept.iter().map(kept).collect();
        all.sort_by_key(|kept| Reverse(kept.ns));
        all
    }

    /// What kept the transactions by kind, and in each what kept them: the most first.
    pub fn causes_by_kind(&self) -> Vec<KeptByKind> {
        let all = self.causes();
        let of_kind = |(kind, sum): (&DelayKind, &Sum)| {
            let causes: Vec<Kept> = all.iter().filter(|kept| kept.delay.kind == *kind).cloned().collect();
            let mut by: BTreeMap<Offender, u64> = BTreeMap::new();
            for (who, ns) in causes.iter().flat_map(|kept| &kept.by) {
                add_ns(by.entry(who.clone()).or_default(), *ns);
            }
            KeptByKind { kind: *kind, ns: sum.ns, transactions: sum.transactions, by: sorted(&by), causes }
        };
        let mut kinds: Vec<_> = self.kinds.iter().map(of_kind).collect();
        kinds.sort_by_key(|kind| Reverse(kind.ns));
        kinds
    }

    /// The reason known of most of what kept transactions in one way, and of how much of it, in nanoseconds.
    pub fn reason(&self, delay: &Delay) -> Option<(&Reason, u64)> {
        let mut reasons: BTreeMap<&Reason, u64> = BTreeMap::new();
        for (such, sum) in self.sums.iter().filter(|(such, _)| such.delay().0 == *delay) {
            if let Some(reason) = &such.reason {
                add_ns(reasons.entry(reason).or_default(), sum.ns);
            }
        }
        reasons.into_iter().max_by_key(|(_, ns)| *ns)
    }

    /// How many parts there are to list.
    pub fn parts(&self) -> usize {
        self.sums.len()
    }

    /// How many transactions there are.
    pub fn transactions(&self) -> usize {
        self.lengths.len()
    }

    /// All their time, in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.lengths.iter().copied().fold(0, u64::saturating_add)
    }

    /// How long each transaction took, in nanoseconds.
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// The smallest time that at least that share of the transactions does not exceed; none of none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        let rank = (share * lengths.len() as f64).ceil() as usize;
        lengths.get(rank.saturating_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{breakdown::Object, machine::Machine, usage::Figures};
    use xweave_replay::ThreadId;

    /// As it would be if there were no most.
    fn sum(of: impl Iterator<Item = u64>) -> u64 {
        u64::try_from(of.map(u128::from).sum::<u128>()).unwrap_or(u64::MAX)
    }

    fn time() -> impl Strategy<Value = i64> {
        prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -5..5_i64]
    }

    proptest! {
        /// Events have the times that who tells them gives them: what is more than there can be is the most there can be.
        #[test]
        fn sums_of_whatever_times_do_not_begin_anew(
            transactions in prop::collection::vec(prop::collection::vec((time(), time(), 1..3_u32), 1..8), 1..8),
        ) {
            let (mut objects, machine) = (Objects::default(), Machine::default());
            let mut totals = Totals::default();
            let (mut all, mut lengths) = (Vec::new(), Vec::new());
            for steps in transactions {
                let mut step = |(from, to, tid)| {
                    let object = Object::Thread(ThreadId { domain: 1, tid });
                    let object = objects.number(object, &machine, &xweave_trace::event::Names::default());
                    Step { from, to, object, spent: TimeState::Running, cause: None, depth: 0 }
                };
                let steps: Vec<Step> = steps.into_iter().map(&mut step).collect();
                let total_ns = steps[0].to.saturating_sub(steps[0].from);
                let one = Explained { id: 1, domain: 1, total_ns, steps, ..Explained::default() };
                let times = one.steps.iter().map(|step| between(step.from, step.to));
                prop_assert_eq!(sum(parts(&one).iter().map(|part| part.ns)), sum(times.clone()));
                all.extend(times);
                lengths.push(one.length());
                totals.add(&one, &objects);
            }
            prop_assert_eq!(totals.ns(), sum(lengths.into_iter()));
            prop_assert_eq!(sum(totals.all().iter().map(|total| total.ns)), sum(all.iter().copied()));
            prop_assert_eq!(sum(totals.causes().iter().map(|kept| kept.ns)), sum(all.into_iter()));
        }

        #[test]
        fn figures_of_whatever_objects_do_not_begin_anew(values in prop::collection::vec(any::<u64>(), 1..6)) {
            let mut figures = Figures::default();
            for &of in &values {
                let other = Figures { time_ns: of, count: of, bytes: of, written: of, wait_ns: of, device_ns: of, distance: of };
                figures.add(&other);
            }
            let of = sum(values.into_iter());
            let whole = Figures { time_ns: of, count: of, bytes: of, written: of, wait_ns: of, device_ns: of, distance: of };
            prop_assert_eq!(figures, whole);
        }
    }
}
