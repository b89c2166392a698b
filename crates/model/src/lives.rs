//! Lives of processes and threads, by program: how long they took, and what for.

use std::collections::BTreeMap;

use xweave_replay::between;

use crate::{
    breakdown::TimeState,
    explanation::{Explained, Step},
    objects::{ObjectKind, Objects},
    spec::Spec,
};

/// What lives were spent on: together all of their time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On a CPU, with the interrupts above it.
    pub on_cpu_ns: u64,
    /// Ready for a CPU, which others had, or which was waking up or withheld.
    pub ready_ns: u64,
    /// Waiting for a disk.
    pub disk_ns: u64,
    /// Waiting for what was sent, while it was on its way, or for a peer of which there are no events.
    pub network_ns: u64,
    /// Waiting for a lock of the kernel.
    pub lock_ns: u64,
    /// Waiting for other threads, while these ran, were ready or waited for something else than the above.
    pub others_ns: u64,
    /// Of a guest's: while the host had its vCPU, or that was halted.
    pub host_ns: u64,
    /// Waiting for a time, or something that no event tells of; or stopped.
    pub waiting_ns: u64,
    /// What they did is not known.
    pub unknown_ns: u64,
}

impl Spent {
    /// All of it.
    pub fn ns(&self) -> u64 {
        let Self { on_cpu_ns, ready_ns, disk_ns, network_ns, lock_ns, .. } = *self;
        let Self { others_ns, host_ns, waiting_ns, unknown_ns, .. } = *self;
        let all =
            [on_cpu_ns, ready_ns, disk_ns, network_ns, lock_ns, others_ns, host_ns, waiting_ns, unknown_ns];
        all.into_iter().fold(0, u64::saturating_add)
    }

    fn add(&mut self, step: &Step, objects: &Objects) {
        use TimeState as S;
        let kind = objects.get(step.object).kind;
        let sum = match (step.spent, kind) {
            (S::Unknown, _) => &mut self.unknown_ns,
            (S::Queue | S::Device | S::Completion, _) => &mut self.disk_ns,
            (S::Network | S::Retransmit | S::Qdisc | S::Neigh | S::SendQueue, _) | (_, ObjectKind::Peer) => {
                &mut self.network_ns
            }
            (S::Lock, _) => &mut self.lock_ns,
            (_, ObjectKind::Vcpu) => &mut self.host_ns,
            _ if step.depth > 0 => &mut self.others_ns,
            (S::Running, _) => &mut self.on_cpu_ns,
            (S::Ready | S::Waking | S::Throttled | S::Preempted, _) => &mut self.ready_ns,
            (S::Exit | S::Halted | S::Stopped | S::Waiting, _) => &mut self.waiting_ns,
        };
        *sum = sum.saturating_add(between(step.from, step.to));
    }
}

/// Lives of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lives {
    /// The domain.
    pub domain: String,
    /// What they are called at their ends.
    pub program: String,
    /// How many.
    pub lives: u64,
    /// From the first one's beginning to the last one's end, in nanoseconds.
    pub span_ns: u64,
    /// All their time.
    pub elapsed_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// What it was spent on.
    pub spent: Spent,
    /// Of the time on a CPU: in user space, with the faults there. None, if system calls were not recorded of all of them.
    pub user_ns: Option<u64>,
    /// The rest of that: in system calls, and interrupts.
    pub system_ns: Option<u64>,
}

/// The programs whose processes, or threads, began and ended in a trace.
#[derive(Clone, Debug, Default)]
pub struct Programs(BTreeMap<(u8, String), Sum>);

#[derive(Clone, Copy, Debug)]
struct Sum {
    lives: u64,
    from: i64,
    to: i64,
    min_ns: u64,
    max_ns: u64,
    spent: Spent,
    /// In system calls and interrupts, if the former were recorded.
    system_ns: Option<u64>,
}

impl Programs {
    /// None yet, of transactions that are lives.
    pub fn of(spec: &Spec) -> Option<Self> {
        matches!(spec, Spec::Process(_) | Spec::Thread(_)).then(Self::default)
    }

    /// Adds a life.
    pub fn add(&mut self, life: &Explained, objects: &Objects) {
        let program = life.name.rsplit_once('/').map_or(&*life.name, |(program, _)| program);
        let (from, to) = (life.start_ns, life.start_ns.saturating_add(life.total_ns));
        let ns = between(from, to);
        let spent = Spent::default();
        let new = Sum { lives: 0, from, to, min_ns: ns, max_ns: ns, spent, system_ns: Some(0) };
        let sum = self.0.entry((life.domain, program.to_owned())).or_insert(new);
        sum.lives += 1;
        (sum.from, sum.to) = (sum.from.min(from), sum.to.max(to));
        (sum.min_ns, sum.max_ns) = (sum.min_ns.min(ns), sum.max_ns.max(ns));
        life.steps.iter().for_each(|step| sum.spent.add(step, objects));
        let above = |step: &&Step| {
            let kind = objects.get(step.object).kind;
            step.depth == 0 && step.spent == TimeState::Running && kind == ObjectKind::Interrupts
        };
        let interrupts = life.steps.iter().filter(above).map(|step| between(step.from, step.to));
        let system = life.in_calls_ns.map(|ns| interrupts.fold(ns, u64::saturating_add));
        sum.system_ns = sum.system_ns.zip(system).map(|(sum, ns)| sum.saturating_add(ns));
    }

    /// Those that took most time first.
    pub fn all(&self, objects: &Objects) -> Vec<Lives> {
        let lives = |((domain, program), sum): (&(u8, String), &Sum)| Lives {
            domain: objects.domain(*domain).to_owned(),
            program: program.clone(),
            lives: sum.lives,
            span_ns: between(sum.from, sum.to),
            elapsed_ns: sum.spent.ns(),
            min_ns: sum.min_ns,
            max_ns: sum.max_ns,
            spent: sum.spent,
            user_ns: sum.system_ns.map(|ns| sum.spent.on_cpu_ns.saturating_sub(ns)),
            system_ns: sum.system_ns.map(|ns| ns.min(sum.spent.on_cpu_ns)),
        };
        let mut all: Vec<Lives> = self.0.iter().map(lives).collect();
        all.sort_by_key(|lives| std::cmp::Reverse(lives.elapsed_ns));
        all
    }
}
