//! Transactions' time added up: of one, by object; of many, by what is alike.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::{
    breakdown::TimeState,
    explanation::{Explained, Step},
    objects::{Cause, Objects, Role},
    power::Power,
    thread::between,
    vcpu::exit_reason,
};

/// Adds time. Events may have any times: a sum stays at the most there is rather than begin anew.
pub(crate) fn add_ns(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

/// All time that one object took of a transaction in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The domain whose time it was; of what lies between two, both.
    pub domain: String,
    /// What took it.
    pub object: String,
    /// What kind of object that is.
    pub kind: &'static str,
    /// What it was spent on.
    pub state: &'static str,
    /// How much, in nanoseconds.
    pub ns: u64,
    /// How often.
    pub count: u64,
    /// What more is known of why, in words.
    pub why: Option<String>,
}

/// The parts of a transaction, the largest first. Their sum is its whole time.
pub fn parts(transaction: &Explained, objects: &Objects) -> Vec<Part> {
    let mut sums: FxHashMap<_, (u64, u64)> = FxHashMap::default();
    for step in &transaction.steps {
        let sum = sums.entry((step.object, step.spent, step.cause)).or_default();
        add_ns(&mut sum.0, between(step.from, step.to));
        sum.1 += 1;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|((object, spent, _), (ns, _))| (std::cmp::Reverse(*ns), *object, *spent));
    let part = |((object, spent, cause), (ns, count)): ((_, TimeState, Option<Cause>), _)| {
        let named = objects.named(object);
        Part {
            domain: named.domain.clone(),
            object: named.name.clone(),
            kind: named.kind,
            state: spent.name(),
            ns,
            count,
            why: cause.map(|cause| objects.why(cause)),
        }
    };
    sums.into_iter().map(part).collect()
}

/// What many transactions' time was spent on.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    sums: BTreeMap<Such, Sum>,
    /// By what kept them: also who did, and how long.
    kept: BTreeMap<String, (Sum, BTreeMap<String, u64>)>,
    lengths: Vec<u64>,
}

/// What is told together: time of alike objects, spent in one way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Such {
    /// The domain whose time it was; of what lies between two, both.
    pub domain: String,
    /// What took it: objects of a name.
    pub group: String,
    /// What kind of objects these are.
    pub kind: &'static str,
    /// What it was spent on.
    pub spent: TimeState,
    /// What more is known of why, in words.
    pub why: Option<String>,
    /// Who had the processor meanwhile; or for what exits a vCPU was out of its guest.
    pub by: Option<Who>,
    /// What the objects are for.
    pub role: Role,
    /// What more is known of why.
    pub reason: Option<Reason>,
}

/// Who did something, with those that are like it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// What they are called: `nginx`, `vCPUs of vm1`, `io exits`.
    pub name: String,
    /// What they are.
    pub is: Is,
}

/// What did something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Is {
    /// Objects, for this.
    Object(Role),
    /// A vCPU's exits, for a reason by its name ([`exit_reason`]).
    Exits(String),
}

/// What is known of why, without who or what it was: [`Cause`] has that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Another thread, or vCPU, had the processor.
    Had,
    /// It was sent again, as it was not answered, or refused.
    Repeated,
    /// A futex was waited for meanwhile.
    Futex,
    /// The other end of a pipe was.
    Pipe,
    /// A page of a file was.
    PageFault,
    /// A page that was swapped out was.
    SwapIn,
    /// It had not yet received what it then took up, and did not wait for it.
    Earlier,
    /// Another thread had received the request.
    Moved,
    /// Several things were sent before the answer came.
    Ahead,
    /// The processor saved power.
    Power(Power),
    /// Interrupts of the host ran above a vCPU's thread.
    Interrupted,
    /// The vCPU had come out of its guest.
    Exited,
}

impl From<Cause> for Reason {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Had(_) => Self::Had,
            Cause::Repeated(_) | Cause::Refused(..) => Self::Repeated,
            Cause::Futex(_) => Self::Futex,
            Cause::Data(..) | Cause::Room(..) => Self::Pipe,
            Cause::PageOf(_) => Self::PageFault,
            Cause::Swapped => Self::SwapIn,
            Cause::Earlier => Self::Earlier,
            Cause::Moved(_) => Self::Moved,
            Cause::Ahead(_) => Self::Ahead,
            Cause::Power(power) => Self::Power(power),
            Cause::Interrupted => Self::Interrupted,
            Cause::Exited(_) => Self::Exited,
        }
    }
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
            let named = objects.named(object);
            let (domain, group) = (named.domain.clone(), named.group.clone());
            let why = cause.map(|cause| objects.why_such(cause));
            let by = match cause {
                Some(Cause::Had(other)) => {
                    let other = objects.named(other);
                    Some(Who { name: other.group.clone(), is: Is::Object(other.role.clone()) })
                }
                Some(Cause::Exited(reason)) => Some(Who {
                    name: objects.why_such(Cause::Exited(reason)),
                    is: Is::Exits(exit_reason(reason)),
                }),
                _ => None,
            };
            let (role, reason) = (named.role.clone(), cause.map(Reason::from));
            let such = Self { domain, group, kind: named.kind, spent, why, by, role, reason };
            add_ns(sums.entry(such).or_default(), ns);
        }
        sums
    }

    /// What kept the transactions, and by whom.
    pub fn kept(&self) -> (String, Option<String>) {
        let (of, group) = (&self.domain, || Some(self.group.clone()));
        let by = || self.by.as_ref().map(|by| by.name.clone());
        let (what, by) = match (self.spent, self.kind) {
            (TimeState::Ready | TimeState::Preempted, _) => {
                (format!("{} waited for a CPU of {of}", self.group), by())
            }
            (TimeState::Running, _) => (format!("running in {of}"), group()),
            (TimeState::Network | TimeState::Retransmit, _) => (format!("on the network, {of}"), None),
            (TimeState::Queue | TimeState::Device | TimeState::Completion, "disk") => {
                (format!("disk I/O of {of}"), group())
            }
            (TimeState::Exit, _) => (format!("exits of {}", self.group), by()),
            (spent, _) => (format!("{} in {of}", spent.name()), group()),
        };
        let kept_for = match self.reason {
            Some(Reason::Pipe) => " at the other end of a pipe",
            Some(Reason::PageFault) => " for page faults",
            Some(Reason::SwapIn) => " for swap-ins",
            _ => "",
        };
        (what + kept_for, by)
    }
}

/// What kept transactions, and who: all of it in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// `vCPUs of vm1 waited for a CPU of host`, `running in vm1`, `on the network, host → vm1`.
    pub what: String,
    /// How much.
    pub ns: u64,
    /// How many transactions it kept.
    pub transactions: u64,
    /// By whom, as far as that is known, the most first: who had the CPU, who ran, which disk.
    pub by: Vec<By>,
}

/// A share of what kept transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct By {
    /// Threads of a name, the vCPUs of a guest, `xweave itself`.
    pub who: String,
    /// How much.
    pub ns: u64,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Total {
    /// The domain whose time it was.
    pub domain: String,
    /// What took it: objects of a name.
    pub object: String,
    /// What kind of objects these are.
    pub kind: &'static str,
    /// What it was spent on.
    pub state: &'static str,
    /// How much, in nanoseconds.
    pub ns: u64,
    /// How many transactions had any of it.
    pub transactions: u64,
    /// What more is known of why.
    pub why: Option<String>,
}

impl Totals {
    /// Adds a transaction.
    pub fn add(&mut self, transaction: &Explained, objects: &Objects) {
        self.add_sums(transaction.length(), &Such::sums(&transaction.steps, objects));
    }

    /// Adds what a transaction's time, or so long a part of it, was spent on; tells what kept it, and how long.
    pub(crate) fn add_sums(&mut self, length: u64, sums: &BTreeMap<Such, u64>) -> BTreeMap<String, u64> {
        self.lengths.push(length);
        let mut kept: BTreeMap<String, u64> = BTreeMap::new();
        for (such, &ns) in sums {
            let (what, by) = such.kept();
            if let Some(by) = by {
                add_ns(self.kept.entry(what.clone()).or_default().1.entry(by).or_default(), ns);
            }
            add_ns(kept.entry(what).or_default(), ns);
            match self.sums.get_mut(such) {
                Some(sum) => sum.add(ns),
                None => self.sums.entry(such.clone()).or_default().add(ns),
            }
        }
        for (what, ns) in &kept {
            match self.kept.get_mut(what) {
                Some((sum, _)) => sum.add(*ns),
                None => self.kept.entry(what.clone()).or_default().0.add(*ns),
            }
        }
        kept
    }

    /// What the time was spent on, the most first.
    pub fn all(&self) -> Vec<Total> {
        let total = |(such, sum): (&Such, &Sum)| Total {
            domain: such.domain.clone(),
            object: such.group.clone(),
            kind: such.kind,
            state: such.spent.name(),
            ns: sum.ns,
            transactions: sum.transactions,
            why: such.why.clone(),
        };
        let mut all: Vec<Total> = self.sums.iter().map(total).collect();
        all.sort_by_key(|total| std::cmp::Reverse(total.ns));
        all
    }

    /// What kept the transactions, the most first.
    pub fn causes(&self) -> Vec<Kept> {
        let most_first = |by: &BTreeMap<String, u64>| {
            let mut by: Vec<By> = by.iter().map(|(who, ns)| By { who: who.clone(), ns: *ns }).collect();
            by.sort_by_key(|by| std::cmp::Reverse(by.ns));
            by
        };
        let kept = |(what, (sum, by)): (&String, &(Sum, _))| Kept {
            what: what.clone(),
            ns: sum.ns,
            transactions: sum.transactions,
            by: most_first(by),
        };
        let mut all: Vec<Kept> = self.kept.iter().map(kept).collect();
        all.sort_by_key(|kept| std::cmp::Reverse(kept.ns));
        all
    }

    /// Of a cause, as [`Kept::what`] has it: the reason known of most of its time, and of how much of it, in nanoseconds.
    pub fn reason(&self, what: &str) -> Option<(&str, u64)> {
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for (such, sum) in self.sums.iter().filter(|(such, _)| such.kept().0 == what) {
            if let Some(why) = &such.why {
                add_ns(reasons.entry(why).or_default(), sum.ns);
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
    use crate::{breakdown::Object, machine::Machine, thread::ThreadId, usage::Figures};

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
                prop_assert_eq!(sum(parts(&one, &objects).iter().map(|part| part.ns)), sum(times.clone()));
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
