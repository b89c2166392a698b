//! vCPUs: when each was inside its guest, and which thread of the host is one.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_trace::event::Event;

use crate::thread::ThreadId;

/// A processor of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuId {
    /// The domain's number.
    pub domain: u8,
    /// Logical CPU.
    pub cpu: u32,
}

/// A guest of the trace: which process of which domain runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guest {
    /// The guest's number.
    pub domain: u8,
    /// The number of the domain that runs it.
    pub host: u8,
    /// The process there.
    pub process: u64,
}

/// A vCPU.
#[derive(Clone, Debug)]
pub struct Vcpu {
    /// The thread of the host that is it.
    pub thread: ThreadId,
    entered: Option<i64>,
    /// Beginnings and ends of its being inside the guest.
    inside: VecDeque<(i64, i64)>,
}

impl Vcpu {
    /// When it was inside the guest between two times.
    pub fn inside(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
        let first = self.inside.partition_point(|(_, end)| *end <= from);
        let past = self.inside.range(first..).copied();
        let now = self.entered.map(|entered| (entered, i64::MAX));
        past.chain(now)
            .map(move |(a, b)| (a.max(from), b.min(to)))
            .take_while(move |(a, _)| *a < to)
            .filter(|(a, b)| a < b)
    }

    /// Since when something is known of it.
    fn known_since(&self) -> i64 {
        self.inside.front().map(|(from, _)| *from).or(self.entered).unwrap_or(i64::MAX)
    }
}

/// All vCPUs.
#[derive(Clone, Debug, Default)]
pub struct Vcpus {
    guests: Vec<Guest>,
    /// By the guest's processor: logical CPU and vCPU have one number on x86 unless somebody hot-plugs.
    all: FxHashMap<CpuId, Vcpu>,
    /// By the thread, so that an event finds it at once.
    of: FxHashMap<ThreadId, CpuId>,
}

impl Vcpus {
    pub(crate) fn new(guests: Vec<Guest>) -> Self {
        Self { guests, ..Self::default() }
    }

    /// The vCPU that a guest's processor is, if events of the host tell of it at that time.
    pub fn of(&self, cpu: CpuId, time: i64) -> Option<&Vcpu> {
        self.all.get(&cpu).filter(|vcpu| vcpu.known_since() <= time)
    }

    /// Thread `thread` of process `process` goes on as vCPU `event.object`.
    pub(crate) fn enter(&mut self, event: &Event, thread: ThreadId, process: u64) {
        let cpu = match self.of.get(&thread) {
            Some(cpu) => *cpu,
            None => {
                let runs = |guest: &&Guest| guest.host == thread.domain && guest.process == process;
                let Some(guest) = self.guests.iter().find(runs) else { return };
                let Ok(cpu) = u32::try_from(event.object) else { return };
                let cpu = CpuId { domain: guest.domain, cpu };
                self.of.insert(thread, cpu);
                cpu
            }
        };
        let new = || Vcpu { thread, entered: None, inside: VecDeque::new() };
        self.all.entry(cpu).or_insert_with(new).entered = Some(event.time_ns);
    }

    /// Events of the processor that it ran on were lost from that time on: whether it is inside is not known any more.
    pub(crate) fn lose(&mut self, from: i64, thread: ThreadId) {
        self.exit(from, thread, None);
    }

    /// It came out. If that it went in is among what was lost, it has been inside since that was over.
    pub(crate) fn exit(&mut self, time: i64, thread: ThreadId, lost: Option<i64>) {
        let Some(vcpu) = self.of.get(&thread).and_then(|cpu| self.all.get_mut(cpu)) else { return };
        let behind = |lost: &i64| vcpu.inside.back().is_some_and(|(_, left)| left <= lost);
        if let Some(entered) = vcpu.entered.take().or(lost.filter(behind))
            && entered < time
        {
            vcpu.inside.push_back((entered, time));
        }
    }

    pub(crate) fn forget_before(&mut self, time: i64) {
        for vcpu in self.all.values_mut() {
            // One is kept, so that it stays known since when.
            while vcpu.inside.len() > 1 && vcpu.inside[0].1 <= time {
                vcpu.inside.pop_front();
            }
        }
    }
}
