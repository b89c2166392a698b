//! vCPUs: when each was inside its guest, and which thread of the host is one.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_replay::{ByCpu, CpuId, ThreadId};
use xweave_trace::{TimeSpan, event::Event};

use crate::{exit::ExitReason, vcpu_numbers::VcpuNumbers};

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

impl Guest {
    /// The number of the one, among these, that a process of a domain runs.
    pub(crate) fn of_process(all: &[Self], host: u8, process: u64) -> Option<u8> {
        let found = all.iter().find(|guest| (guest.host, guest.process) == (host, process));
        found.map(|guest| guest.domain)
    }
}

/// A vCPU.
#[derive(Clone, Debug)]
pub struct Vcpu {
    /// The thread of the host that is it.
    pub thread: ThreadId,
    entered: Option<i64>,
    /// Events of the host that may have told were lost.
    unsure: bool,
    /// Events of the guest while it was outside, that it may be inside for when the clocks' error is considered.
    outside: VecDeque<i64>,
    /// How many no entry can explain any more, since its host last told of any vCPU; when the last of them happened.
    suspect: (i64, u64),
    /// When it was inside the guest.
    inside: VecDeque<Stay>,
    /// When it was inside, and had an interrupt pending that the guest did not take.
    pending: VecDeque<TimeSpan>,
    /// From when interrupts were injected until the guest took them.
    delivered: VecDeque<TimeSpan>,
    /// When an interrupt was injected that the guest has not taken yet.
    injected: Option<i64>,
    /// When it was halted, as KVM told at the end.
    halts: VecDeque<TimeSpan>,
    /// An interrupt of the guest's has woken a thread since the last halt; and when each first one did.
    has_woken: bool,
    first_wakes: VecDeque<i64>,
}

/// That a vCPU was inside its guest.
#[derive(Clone, Copy, Debug)]
struct Stay {
    entered: i64,
    left: i64,
    /// Why it came out, by the hardware's number; none if that is not told, or not yet.
    reason: Option<i32>,
    /// KVM told that it was halted then.
    halted: bool,
}

impl Vcpu {
    /// When it was inside the guest between two times.
    pub fn inside(&self, from: i64, to: i64) -> impl Iterator<Item = TimeSpan> + '_ {
        let bounds = TimeSpan { from, to };
        let first = self.inside.partition_point(|stay| stay.left <= from);
        let past = self.inside.range(first..).map(|stay| TimeSpan { from: stay.entered, to: stay.left });
        let now = self.entered.map(|entered| TimeSpan { from: entered, to: i64::MAX });
        past.chain(now)
            .map(move |stay| stay.clipped(bounds))
            .take_while(move |stay| stay.from < to)
            .filter(|stay| !stay.is_empty())
    }

    /// Why it came out of the guest before that time, by an event's `code` ([`ExitReason`]), if that is told.
    pub(crate) fn came_out(&self, before: i64) -> Option<i32> {
        self.last_stay(before)?.reason
    }

    /// Whether it was halted at that time, outside the guest: it came out for that, as the exit's reason says, or KVM did. If KVM
    /// told that it was halted until then and not since, it sleeps for something else: as it is frozen or stopped.
    pub(crate) fn was_halted(&self, at: i64) -> bool {
        // A PV guest of Xen's halts by a hypercall.
        let halts = |reason| matches!(ExitReason::of(reason), ExitReason::Halt | ExitReason::Xen(_));
        let Some(stay) = self.last_stay(at) else { return false };
        if !stay.halted && !stay.reason.is_some_and(halts) {
            return false;
        }
        let begun = |halt: &&TimeSpan| halt.from <= at.saturating_add(HALTING);
        let after =
            |time: i64| self.halts.get(self.halts.partition_point(|halt| halt.to <= time)).filter(begun);
        after(stay.left).is_none() || after(at).is_some()
    }

    /// The last stay inside the guest that was over before that time.
    fn last_stay(&self, before: i64) -> Option<&Stay> {
        let over = self.inside.partition_point(|stay| stay.left <= before);
        self.inside.get(over.checked_sub(1)?)
    }

    /// The last time before another in which it was inside, and the guest did not take an interrupt that was pending: KVM had
    /// asked to be told when it could, and was.
    pub(crate) fn last_pending(&self, bounds: TimeSpan) -> Option<TimeSpan> {
        last_within(&self.pending, bounds)
    }

    /// The last time before another from when an interrupt was injected until the guest took it.
    pub(crate) fn last_delivered(&self, bounds: TimeSpan) -> Option<TimeSpan> {
        last_within(&self.delivered, bounds)
    }

    /// Whether an interrupt of the guest's woke a thread between two times, the second not included, for the first time since a
    /// halt.
    pub(crate) fn woke_first(&self, from: i64, to: i64) -> bool {
        let next = self.first_wakes.partition_point(|woke| *woke < from);
        self.first_wakes.get(next).is_some_and(|woke| *woke < to)
    }

    /// Since when something is known of it.
    fn known_since(&self) -> i64 {
        self.inside.front().map(|stay| stay.entered).or(self.entered).unwrap_or(i64::MAX)
    }
}

/// The last of some times, in order, that ends within bounds, as far as it lies there.
fn last_within(all: &VecDeque<TimeSpan>, bounds: TimeSpan) -> Option<TimeSpan> {
    let over = all.partition_point(|span| span.to <= bounds.to);
    let last = *all.get(over.checked_sub(1)?)?;
    (last.to > bounds.from).then_some(last.clipped(bounds))
}

/// What a guest's events say of which of its processors is which vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// How far times of the guest and of its host may be apart, in nanoseconds.
    pub error_ns: i64,
    /// Events of processors whose vCPUs are known.
    pub events: u64,
    /// Those of them while the vCPU was outside its guest: that cannot be.
    pub outside: u64,
}

/// From when a vCPU came out of its guest to halt, or its thread slept, KVM counts the halt within this time, in nanoseconds.
const HALTING: i64 = 20_000;

/// With more than this error, nothing can be said.
const COARSE: i64 = 1_000_000;

/// All vCPUs.
#[derive(Clone, Debug, Default)]
pub struct Vcpus {
    guests: Vec<Guest>,
    numbers: VcpuNumbers,
    /// How far guests' clocks may be off, and what has been seen of those.
    checks: FxHashMap<u8, Check>,
    /// By the guest's processor.
    all: ByCpu<Vcpu>,
    /// By the thread, so that an event finds it at once.
    of: FxHashMap<ThreadId, CpuId>,
    /// When hosts last told that a vCPU entered or came out, by their numbers.
    told: FxHashMap<u8, i64>,
    /// Threads of hosts that have woken a guest's vCPUs, or were woken by these, by the guests' numbers.
    carriers: FxHashMap<u8, Vec<Carrier>>,
}

/// A thread of a host that may serve a guest's devices.
#[derive(Clone, Copy, Debug)]
struct Carrier {
    thread: ThreadId,
    /// It has woken a vCPU.
    wakes: bool,
    /// A vCPU has woken it.
    is_woken: bool,
}

/// Threads that serve a guest's devices are no more.
const CARRIERS: usize = 64;

impl Vcpus {
    pub(crate) fn new(guests: Vec<Guest>) -> Self {
        Self { guests, ..Self::default() }
    }

    /// Guests' vCPUs have these numbers.
    pub(crate) fn number(&mut self, numbers: VcpuNumbers) {
        self.numbers = numbers;
    }

    /// Times of a guest and its host may be so far apart.
    pub(crate) fn clocks_err(&mut self, guest: u8, error_ns: i64) {
        self.checks.entry(guest).or_default().error_ns = error_ns;
    }

    /// Something happened on a processor.
    pub(crate) fn seen(&mut self, cpu: CpuId, time: i64) {
        let Some(vcpu) = self.all.get_mut(cpu) else { return };
        let Some(check) = self.checks.get_mut(&cpu.domain) else { return };
        if vcpu.unsure || vcpu.known_since() > time || check.error_ns > COARSE {
            return;
        }
        check.events += 1;
        let left = vcpu.inside.back().map_or(i64::MIN, |stay| stay.left);
        if vcpu.entered.is_none() && time.saturating_sub(left) > check.error_ns {
            vcpu.outside.push_back(time);
        }
        while let Some(&seen) = vcpu.outside.front()
            && seen.saturating_add(check.error_ns) < time
        {
            vcpu.outside.pop_front();
            vcpu.suspect = (seen, vcpu.suspect.1 + 1);
            check.events -= 1;
        }
        // Recording may end in the host before it does in the guest: nothing would tell that it is inside.
        if vcpu.suspect.1 > 0
            && self.told.get(&vcpu.thread.domain).is_some_and(|told| *told >= vcpu.suspect.0)
        {
            let suspects = std::mem::take(&mut vcpu.suspect.1);
            (check.events, check.outside) = (check.events + suspects, check.outside + suspects);
        }
    }

    /// What the guests' events say, by their numbers.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (u8, Check)> + '_ {
        self.checks.iter().map(|(guest, check)| (*guest, *check))
    }

    /// The vCPU that a guest's processor is, if events of the host tell of it at that time.
    pub fn of(&self, cpu: CpuId, time: i64) -> Option<&Vcpu> {
        self.all.get(cpu).filter(|vcpu| vcpu.known_since() <= time)
    }

    /// The vCPU that a thread is, if it has been seen as one.
    pub fn which(&self, thread: ThreadId) -> Option<CpuId> {
        self.of.get(&thread).copied()
    }

    /// The guest that a process of a domain runs.
    pub fn guest(&self, host: u8, process: u64) -> Option<u8> {
        Guest::of_process(&self.guests, host, process)
    }

    /// A thread was woken by another one of its domain.
    pub(crate) fn woken(&mut self, thread: ThreadId, by: ThreadId) {
        if self.of.is_empty() {
            return;
        }
        let (guest, other, wakes) = match (self.which(thread), self.which(by)) {
            (Some(vcpu), None) => (vcpu.domain, by, true),
            (None, Some(vcpu)) => (vcpu.domain, thread, false),
            _ => return,
        };
        let carriers = self.carriers.entry(guest).or_default();
        let at = carriers.iter().position(|carrier| carrier.thread == other).unwrap_or_else(|| {
            if carriers.len() == CARRIERS {
                carriers.remove(0);
            }
            carriers.push(Carrier { thread: other, wakes: false, is_woken: false });
            carriers.len() - 1
        });
        let carrier = &mut carriers[at];
        (carrier.wakes, carrier.is_woken) = (carrier.wakes || wakes, carrier.is_woken || !wakes);
    }

    /// Threads of the host that serve a guest's devices: they have woken its vCPUs, and were woken by these.
    pub(crate) fn carriers(&self, guest: u8) -> impl Iterator<Item = ThreadId> + '_ {
        let all = self.carriers.get(&guest).map_or(&[][..], Vec::as_slice);
        all.iter().filter(|carrier| carrier.wakes && carrier.is_woken).map(|carrier| carrier.thread)
    }

    /// Threads of the host that a guest's vCPUs have woken.
    pub(crate) fn backends(&self, guest: u8) -> impl Iterator<Item = ThreadId> + '_ {
        let all = self.carriers.get(&guest).map_or(&[][..], Vec::as_slice);
        all.iter().filter(|carrier| carrier.is_woken).map(|carrier| carrier.thread)
    }

    /// Whether a thread of a process serves a guest's devices: it is one of QEMU's process, or was seen to.
    pub(crate) fn serves(&self, thread: ThreadId, process: u64, guest: u8) -> bool {
        let of_qemu = self.guest(thread.domain, process) == Some(guest);
        of_qemu || self.carriers(guest).any(|carrier| carrier == thread)
    }

    /// The vCPU that a thread is.
    fn vcpu_mut(&mut self, thread: ThreadId) -> Option<&mut Vcpu> {
        self.all.get_mut(*self.of.get(&thread)?)
    }

    /// An interrupt is injected into the vCPU that a thread is.
    pub(crate) fn inject(&mut self, time: i64, thread: ThreadId) {
        if let Some(vcpu) = self.vcpu_mut(thread) {
            vcpu.injected.get_or_insert(time);
        }
    }

    /// A guest's processor takes an interrupt.
    pub(crate) fn taken(&mut self, time: i64, cpu: CpuId) {
        if let Some(vcpu) = self.all.get_mut(cpu)
            && let Some(injected) = vcpu.injected.take().filter(|injected| *injected < time)
        {
            vcpu.delivered.push_back(TimeSpan { from: injected, to: time });
        }
    }

    /// KVM tells that the vCPU that a thread is was halted until now, for so long.
    pub(crate) fn halted(&mut self, time: i64, thread: ThreadId, ns: u64) {
        if let Some(vcpu) = self.vcpu_mut(thread)
            && vcpu.entered.is_none()
            && let Some(last) = vcpu.inside.back_mut()
        {
            last.halted = true;
            vcpu.halts.push_back(TimeSpan { from: time.saturating_sub_unsigned(ns), to: time });
        }
    }

    /// An interrupt of a processor wakes a thread.
    #[inline]
    pub(crate) fn wakes(&mut self, time: i64, cpu: CpuId) {
        if let Some(vcpu) = self.all.get_mut(cpu)
            && !std::mem::replace(&mut vcpu.has_woken, true)
        {
            vcpu.first_wakes.push_back(time);
        }
    }

    /// Thread `thread` of process `process` goes on as vCPU `event.object`.
    pub(crate) fn enter(&mut self, event: &Event, thread: ThreadId, process: u64) {
        let cpu = match self.of.get(&thread) {
            Some(cpu) => *cpu,
            None => {
                let Some(guest) = self.guest(thread.domain, process) else { return };
                let Some(cpu) = self.numbers.cpu(guest, event.object) else { return };
                self.of.insert(thread, cpu);
                cpu
            }
        };
        let new = || Vcpu {
            thread,
            entered: None,
            unsure: false,
            outside: VecDeque::new(),
            suspect: (i64::MIN, 0),
            inside: VecDeque::new(),
            pending: VecDeque::new(),
            delivered: VecDeque::new(),
            injected: None,
            halts: VecDeque::new(),
            has_woken: false,
            first_wakes: VecDeque::new(),
        };
        let vcpu = self.all.get_or_insert_with(cpu, new);
        (vcpu.entered, vcpu.unsure) = (Some(event.time_ns), false);
        self.told.insert(thread.domain, event.time_ns);
        if let Some(check) = self.checks.get_mut(&cpu.domain) {
            let explained = event.time_ns.saturating_sub(check.error_ns);
            check.outside += vcpu.outside.drain(..).filter(|seen| *seen < explained).count() as u64;
        }
    }

    /// Events of the processor that it ran on were lost from that time on: whether it is inside is not known any more.
    pub(crate) fn lose(&mut self, from: i64, thread: ThreadId) {
        self.exit(from, thread, None, None);
        if let Some(vcpu) = self.vcpu_mut(thread) {
            vcpu.unsure = true;
        }
    }

    /// The host handles an interrupt on its processor: it has come out, even if that is told later. KVM on AMD before 6.5
    /// tells of it when interrupts are enabled again, and handled.
    pub(crate) fn interrupted(&mut self, time: i64, thread: ThreadId) {
        if !self.of.is_empty() {
            self.exit(time, thread, None, None);
        }
    }

    /// It came out; for which reason may be told later. If that it went in is among what was lost, it has been inside since
    /// that was over.
    pub(crate) fn exit(&mut self, time: i64, thread: ThreadId, reason: Option<i32>, lost: Option<i64>) {
        let Some(vcpu) = self.of.get(&thread).and_then(|cpu| self.all.get_mut(*cpu)) else { return };
        vcpu.unsure = false;
        if reason.is_some_and(|reason| ExitReason::of(reason) == ExitReason::Halt) {
            // It has taken what was injected.
            (vcpu.has_woken, vcpu.injected) = (false, None);
        }
        self.told.insert(thread.domain, time);
        let behind = |lost: &i64| vcpu.inside.back().is_some_and(|stay| stay.left <= *lost);
        let entered = vcpu.entered.take().or(lost.filter(behind));
        if let Some(entered) = entered.filter(|entered| *entered < time) {
            vcpu.inside.push_back(Stay { entered, left: time, reason, halted: false });
            if reason.is_some_and(|reason| ExitReason::of(reason) == ExitReason::InterruptWindow) {
                vcpu.pending.push_back(TimeSpan { from: entered, to: time });
            }
        } else if let Some(last) = vcpu.inside.back_mut() {
            last.reason = last.reason.or(reason);
        }
    }

    pub(crate) fn forget_before(&mut self, time: i64) {
        for vcpu in self.all.values_mut() {
            // One that began before is kept: what comes after that time has to be known still.
            while vcpu.inside.len() > 1 && vcpu.inside[1].entered <= time {
                vcpu.inside.pop_front();
            }
            for spans in [&mut vcpu.pending, &mut vcpu.delivered, &mut vcpu.halts] {
                let over = spans.partition_point(|span| span.to < time);
                spans.drain(..over);
            }
            let over = vcpu.first_wakes.partition_point(|woke| *woke < time);
            vcpu.first_wakes.drain(..over);
        }
    }
}

#[cfg(test)]
mod tests {
    use xweave_trace::event::Kind;

    use super::*;

    /// Thread 53 of the host is vCPU 0 of its guest, thread 54 is vCPU 1; the first comes out at 100 and does not enter
    /// again, though its guest tells of more events; the other one enters at `last`.
    fn check(last: i64) -> Check {
        let mut vcpus = Vcpus::new(vec![Guest { domain: 2, host: 1, process: 50 }]);
        vcpus.clocks_err(2, 10);
        let [first, second] = [53, 54].map(|tid| ThreadId { domain: 1, tid });
        let enter = |time, vcpu| Event { object: vcpu, ..Event::new(Kind::VmEnter, 1, time, 0, 0) };
        let cpu = CpuId { domain: 2, cpu: 0 };
        vcpus.enter(&enter(1, 0), first, 50);
        vcpus.seen(cpu, 50);
        vcpus.exit(100, first, Some(0x7b), None);
        let mut times = vec![(200, None), (300, None), (900, None), (1_000, None), (last, Some(second))];
        times.sort_by_key(|(time, _)| *time);
        for (time, entering) in times {
            match entering {
                Some(thread) => vcpus.enter(&enter(time, 1), thread, 50),
                None => vcpus.seen(cpu, time),
            }
        }
        vcpus.checks().next().unwrap().1
    }

    #[test]
    fn what_is_forgotten_does_not_make_what_comes_after_it_unknown() {
        let mut vcpus = Vcpus::new(vec![Guest { domain: 2, host: 1, process: 50 }]);
        let (thread, cpu) = (ThreadId { domain: 1, tid: 53 }, CpuId { domain: 2, cpu: 0 });
        for (entered, left) in [(10, 20), (30, 40), (90, 100)] {
            vcpus.enter(&Event::new(Kind::VmEnter, 1, entered, 0, 53), thread, 50);
            vcpus.exit(left, thread, None, None);
        }
        for (forgotten, known_since) in [(25, 10), (50, 30), (89, 30), (90, 90), (200, 90)] {
            vcpus.forget_before(forgotten);
            assert!(vcpus.of(cpu, known_since).is_some(), "{forgotten}");
            assert!(vcpus.of(cpu, known_since - 1).is_none(), "{forgotten}");
        }
    }

    #[test]
    fn what_a_guest_tells_after_its_hosts_last_word_is_not_held_against_it() {
        assert_eq!(check(150), Check { error_ns: 10, events: 2, outside: 0 });
        assert_eq!(check(350), Check { error_ns: 10, events: 4, outside: 2 });
        assert_eq!(check(950), Check { error_ns: 10, events: 5, outside: 3 });
    }
}
