//! CPUs of a host and a guest, and the events that a kernel's probes write of what happens on them.
//!
//! Time is the caller's: each step is told when it is to happen, and returns when it is over. A CPU's events are in the order
//! in which they were put; one that would be too early comes right after the one before. A guest's CPU does something only
//! while its vCPU is inside the guest, so whoever brings an interrupt [wakes](Stage::bring_interrupt) the vCPU first.

use std::collections::BTreeMap;

use xweave_trace::event::{Context, Event, Kind, Names, Quota, State};

use crate::random::Random;

/// Number of the host's domain.
pub(super) const HOST: u8 = 1;
/// Number of the guest's domain.
pub(super) const GUEST: u8 = 2;

/// Vectors, as `object` has them.
pub(super) const TIMER: u64 = 0x1_0000 | 236;
pub(super) const RESCHEDULE: u64 = 0x1_0000 | 253;

/// Softirqs by their numbers.
pub(super) const SOFT_TIMER: u64 = 1;
pub(super) const SOFT_NET_TX: u64 = 2;
pub(super) const SOFT_NET_RX: u64 = 3;
pub(super) const SOFT_BLOCK: u64 = 4;

/// Reasons for exits, as AMD's SVM numbers them.
pub(super) const EXIT_INTERRUPT: i32 = 0x60;
pub(super) const EXIT_WINDOW: i32 = 0x64;
pub(super) const EXIT_PAUSE: i32 = 0x77;
pub(super) const EXIT_HALT: i32 = 0x78;
pub(super) const EXIT_IO: i32 = 0x7b;
pub(super) const EXIT_MSR: i32 = 0x7c;
pub(super) const EXIT_HYPERCALL: i32 = 0x81;
pub(super) const EXIT_NPF: i32 = 0x400;

/// A CPU of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) domain: u8,
    pub(super) cpu: u32,
}

/// A CPU of the host.
pub(super) const fn host(cpu: u32) -> Place {
    Place { domain: HOST, cpu }
}

/// A CPU of the guest.
pub(super) const fn guest(cpu: u32) -> Place {
    Place { domain: GUEST, cpu }
}

/// How a thread that was woken comes to its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// At once.
    Fast,
    /// The CPU takes so long to come out of idling.
    Idle(i64),
    /// This thread has the CPU, for so long.
    Behind(u32, i64),
    /// Its quota is used up, for so long.
    Throttled(i64),
    /// At once; but of a vCPU's thread, this one takes the CPU before the vCPU is inside, for so long.
    Interrupted(u32, i64),
}

/// What brings an interrupt to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bringer {
    /// The device itself; of a guest's CPU, what runs on this CPU of the host.
    From(Place, Context),
    /// A timer of the CPU; of a guest's, one that its host emulates.
    Timer,
}

#[derive(Clone, Debug, Default)]
struct CpuState {
    current: u32,
    last: i64,
    /// Threads that are able to run, and were made to leave it.
    left: Vec<u32>,
}

/// A vCPU.
#[derive(Clone, Debug)]
struct VcpuState {
    thread: u32,
    /// The CPU of the host that its thread has.
    home: Place,
    inside: bool,
    /// When it came out because it halted, until its thread is seen to sleep.
    halts: Option<i64>,
    /// Since when it has been halted.
    halted: Option<i64>,
}

/// The machines, and what was recorded of them.
pub(super) struct Stage {
    pub(super) random: Random,
    pub(super) events: Vec<Event>,
    pub(super) names: Names,
    cpus: BTreeMap<Place, CpuState>,
    vcpus: Vec<VcpuState>,
    /// How long KVM polls before a halted vCPU's thread sleeps.
    pub(super) polls: i64,
}

impl Stage {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            events: Vec::new(),
            names: Names::default(),
            cpus: BTreeMap::new(),
            vcpus: Vec::new(),
            polls: 0,
        }
    }

    /// Adds a vCPU that is halted: number 0 first.
    pub(super) fn add_vcpu(&mut self, thread: u32, home: Place, at: i64) {
        self.vcpus.push(VcpuState { thread, home, inside: false, halts: None, halted: None });
        let number = self.vcpus.len() - 1;
        // That it has been one shows from what it did before.
        self.switch(home, at, thread, State::Runnable);
        self.vcpus[number].inside = true;
        self.put(home, at + 500, Kind::VmEnter, |event| event.object = number as u64);
        self.halt_vcpu(number, at + 2_000);
    }

    /// Puts an event, at that time or right after the CPU's last one. Returns when.
    pub(super) fn put(&mut self, place: Place, at: i64, kind: Kind, fill: impl FnOnce(&mut Event)) -> i64 {
        let cpu = self.cpus.entry(place).or_default();
        let at = at.max(cpu.last + 40);
        cpu.last = at;
        let mut event = Event::new(kind, place.domain, at, place.cpu, cpu.current);
        fill(&mut event);
        self.events.push(event);
        at
    }

    /// The thread that a CPU runs.
    pub(super) fn current_thread(&self, place: Place) -> u32 {
        self.cpus.get(&place).map_or(0, |cpu| cpu.current)
    }

    /// The time of a CPU's last event.
    pub(super) fn last_time(&self, place: Place) -> i64 {
        self.cpus.get(&place).map_or(0, |cpu| cpu.last)
    }

    pub(super) fn draw(&mut self, low: i64, high: i64) -> i64 {
        self.random.between(low, high)
    }

    fn vcpu_number(&self, place: Place) -> Option<usize> {
        let number = usize::try_from(place.cpu).ok()?;
        (place.domain == GUEST && number < self.vcpus.len()).then_some(number)
    }

    /// The CPU of the host that a guest's CPU has.
    pub(super) fn home_of(&self, place: Place) -> Place {
        self.vcpu_number(place).map_or(place, |number| self.vcpus[number].home)
    }

    /// The CPU goes to another thread; the one before is left in `state`.
    pub(super) fn switch(&mut self, place: Place, at: i64, to: u32, state: State) -> i64 {
        let at = self.put(place, at, Kind::Switch, |event| (event.other, event.code) = (to, state.code()));
        self.cpus.entry(place).or_default().current = to;
        at
    }

    /// The thread that runs there begins to wait. One that was made to leave the CPU before has it for a moment; then it idles.
    pub(super) fn put_to_sleep(&mut self, place: Place, at: i64, state: State) -> i64 {
        let slept = self.go_idle(place, at, state);
        if let Some(number) = self.vcpu_number(place) {
            let last = self.last_time(place);
            self.halt_vcpu(number, last + 600);
        }
        slept
    }

    fn go_idle(&mut self, place: Place, at: i64, mut state: State) -> i64 {
        let (mut at, mut slept) = (at, None);
        while let Some(next) = self.cpus.entry(place).or_default().left.pop() {
            at = self.switch(place, at, next, std::mem::replace(&mut state, State::Sleeping));
            slept = slept.or(Some(at));
            at += self.draw(4_000, 30_000);
        }
        let at = self.switch(place, at, 0, state);
        slept.unwrap_or(at)
    }

    /// The CPU goes from another thread, which may be able to go on, to one that does.
    pub(super) fn take_turn(&mut self, place: Place, at: i64, to: u32) -> i64 {
        let other = self.current_thread(place);
        if other == 0 || !self.random.percent(50) {
            return self.switch(place, at, to, State::Sleeping);
        }
        self.cpus.entry(place).or_default().left.push(other);
        self.switch(place, at, to, State::Runnable)
    }

    /// What runs on a CPU wakes a thread of its domain, which waits for CPU `target` from then on.
    pub(super) fn wake(
        &mut self,
        place: Place,
        at: i64,
        context: Context,
        thread: u32,
        target: Place,
        quota: Quota,
    ) -> i64 {
        self.put(place, at, Kind::Wake, |event| {
            (event.other, event.object) = (thread, u64::from(target.cpu) + 1);
            event.code = context.code() + quota.code();
        })
    }

    /// What runs on `place` wakes a thread that then runs on `target`, a CPU of the same kernel that is no virtual one or whose
    /// vCPU is inside. Returns when it runs.
    pub(super) fn wake_and_run(
        &mut self,
        (place, at, context): (Place, i64, Context),
        thread: u32,
        target: Place,
        how: Dispatch,
    ) -> i64 {
        if let Dispatch::Behind(other, _) = how
            && self.current_thread(target) != other
        {
            self.run_other(target, at - 30_000, other);
        }
        let quota = if matches!(how, Dispatch::Throttled(_)) { Quota::UsedUp } else { Quota::Left };
        let woken = self.wake(place, at, context, thread, target, quota);
        let soon = self.draw(1_200, 5_000);
        self.run_woken(target, woken + soon, thread, how)
    }

    /// A thread that was woken gets its CPU.
    pub(super) fn run_woken(&mut self, target: Place, at: i64, thread: u32, how: Dispatch) -> i64 {
        match how {
            Dispatch::Fast | Dispatch::Interrupted(..) => self.take_turn(target, at, thread),
            Dispatch::Idle(ns) | Dispatch::Throttled(ns) => {
                self.switch(target, at + ns, thread, State::Runnable)
            }
            Dispatch::Behind(_, ns) => self.take_turn(target, at + ns, thread),
        }
    }

    /// Another thread is woken by a timer on an idle CPU, and runs there.
    pub(super) fn run_other(&mut self, place: Place, at: i64, other: u32) -> i64 {
        let at = self.bring_interrupt(place, at, Bringer::Timer);
        let at = self.wake_by_interrupt(place, at, TIMER, other);
        self.switch(place, at + 700, other, State::Runnable)
    }

    /// The thread that runs there loses its CPU to another one for so long. Returns when it runs again.
    pub(super) fn preempt_thread(&mut self, place: Place, at: i64, other: u32, ns: i64) -> i64 {
        let own = self.current_thread(place);
        let at = self.wake_by_interrupt(place, at, TIMER, other);
        let at = self.switch(place, at + 500, other, State::Runnable);
        self.take_turn(place, at + ns, own)
    }

    /// The thread that runs there has used up its quota: it runs again so long after.
    pub(super) fn throttle_thread(&mut self, place: Place, at: i64, ns: i64) -> i64 {
        let own = self.current_thread(place);
        let at = self.tick_timer(place, at);
        let at = self.switch(place, at + 400, 0, State::Throttled);
        self.idle_again(place, at + 600);
        let at = self.tick_timer(place, at + ns);
        self.switch(place, at + 600, own, State::Runnable)
    }

    /// A CPU takes an interrupt, which does nothing more. Returns when it is over.
    pub(super) fn take_interrupt(&mut self, place: Place, at: i64, irq: u64) -> i64 {
        let at = self.put(place, at, Kind::IrqEnter, |event| event.object = irq);
        self.put(place, at + 300, Kind::IrqExit, |event| event.object = irq)
    }

    /// A CPU takes an interrupt, which wakes a thread there. Returns when it is over.
    pub(super) fn wake_by_interrupt(&mut self, place: Place, at: i64, irq: u64, thread: u32) -> i64 {
        let at = self.put(place, at, Kind::IrqEnter, |event| event.object = irq);
        let at = self.wake(place, at + 300, Context::Hard, thread, place, Quota::Left);
        self.put(place, at + 200, Kind::IrqExit, |event| event.object = irq)
    }

    /// A timer's interrupt, and nothing else.
    pub(super) fn tick_timer(&mut self, place: Place, at: i64) -> i64 {
        let at = self.bring_interrupt(place, at, Bringer::Timer);
        self.take_interrupt(place, at, TIMER)
    }

    /// Makes a CPU able to take an interrupt, which is brought at that time. Returns when it does.
    pub(super) fn bring_interrupt(&mut self, place: Place, at: i64, by: Bringer) -> i64 {
        self.bring_interrupt_when(place, at, by, Dispatch::Fast)
    }

    /// The same; if the CPU is a guest's and halted, its vCPU comes to a CPU of the host in this way.
    pub(super) fn bring_interrupt_when(&mut self, place: Place, at: i64, by: Bringer, how: Dispatch) -> i64 {
        let Some(number) = self.vcpu_number(place) else { return at };
        let VcpuState { home, thread, inside, .. } = self.vcpus[number];
        if inside {
            return self.interrupt_inside(number, at);
        }
        if self.is_polling(number, at) {
            // KVM sees it while it polls.
            let at = at + 300;
            self.vcpus[number].halts = None;
            return self.resume_from_halt(number, at, 1);
        }
        self.settle_halt(number);
        let at = match by {
            Bringer::From(from, context) => self.wake_and_run((from, at, context), thread, home, how),
            Bringer::Timer => {
                let at = self.wake_by_interrupt(home, at, TIMER, thread);
                self.run_woken(home, at + 900, thread, how)
            }
        };
        let at = match how {
            Dispatch::Interrupted(other, ns) => self.preempt_thread(home, at + 300, other, ns),
            _ => at,
        };
        self.resume_from_halt(number, at + 600, 0)
    }

    /// An interrupt for a vCPU whose guest has interrupts disabled: it is taken so long after. Meanwhile the guest writes to an
    /// emulated device, if it does; else it runs.
    pub(super) fn take_interrupt_late(&mut self, place: Place, at: i64, ns: i64, writes: bool) -> i64 {
        let Some(number) = self.vcpu_number(place) else { return at };
        let at = self.exit_for_interrupt(number, at);
        let mut at = self.enter_guest(number, at + 400);
        let end = at + ns;
        while writes && at < end {
            at = self.exit_guest(number, at + 1_500, EXIT_IO);
            let works = self.draw(20_000, 90_000);
            at = self.enter_guest(number, at + works);
        }
        let at = self.exit_guest(number, at.max(end), EXIT_WINDOW);
        let at = self.inject_interrupt(number, at + 500);
        self.enter_guest(number, at + 300)
    }

    /// A vCPU that is inside loses its CPU, just before something for it comes at that time, and goes in with the interrupt so
    /// long after.
    pub(super) fn resume_preempted(&mut self, place: Place, at: i64, other: u32, ns: i64) -> i64 {
        let Some(number) = self.vcpu_number(place) else { return at };
        let home = self.vcpus[number].home;
        let out = self.exit_guest(number, at - 20_000, EXIT_INTERRUPT);
        let at = self.preempt_thread(home, out + 200, other, ns + 20_000);
        let at = self.inject_interrupt(number, at + 500);
        self.enter_guest(number, at + 300)
    }

    /// The guest's CPU halts again after an interrupt, if no thread runs there.
    pub(super) fn idle_again(&mut self, place: Place, at: i64) {
        if let Some(number) = self.vcpu_number(place)
            && self.current_thread(place) == 0
            && self.vcpus[number].inside
        {
            self.halt_vcpu(number, at);
        }
    }

    /// An interrupt for a vCPU that is inside its guest: it comes out for the host's, and takes it as it goes in.
    fn interrupt_inside(&mut self, number: usize, at: i64) -> i64 {
        let at = self.exit_for_interrupt(number, at);
        let at = self.inject_interrupt(number, at + 400);
        self.enter_guest(number, at + 300)
    }

    /// A vCPU comes out of its guest for an interrupt of the host, which is taken. Returns when.
    fn exit_for_interrupt(&mut self, number: usize, at: i64) -> i64 {
        let at = self.exit_guest(number, at, EXIT_INTERRUPT);
        self.take_interrupt(self.vcpus[number].home, at + 200, RESCHEDULE)
    }

    fn inject_interrupt(&mut self, number: usize, at: i64) -> i64 {
        let home = self.vcpus[number].home;
        self.put(home, at, Kind::VmInject, |event| (event.object, event.position) = (number as u64, 0x22))
    }

    /// A vCPU that had halted goes into its guest, with an interrupt.
    fn resume_from_halt(&mut self, number: usize, at: i64, polled: i32) -> i64 {
        let at = self.tell_halt_of(number, at, polled);
        let at = self.inject_interrupt(number, at + 300);
        self.enter_guest(number, at + 300)
    }

    /// KVM tells that a vCPU was halted until now.
    fn tell_halt_of(&mut self, number: usize, at: i64, polled: i32) -> i64 {
        let VcpuState { home, halted, .. } = self.vcpus[number];
        let asleep = halted.map_or(0, |since| at.abs_diff(since));
        self.vcpus[number].halted = None;
        self.put(home, at, Kind::VmHalt, |event| {
            (event.object, event.bytes, event.code) = (number as u64, asleep, polled);
        })
    }

    /// The same of a guest's CPU, whose vCPU's thread was interrupted in that.
    pub(super) fn tell_halt(&mut self, place: Place, at: i64) -> i64 {
        self.vcpu_number(place).map_or(at, |number| self.tell_halt_of(number, at, 0))
    }

    /// A vCPU that is to be halted still goes into its guest at once, as an interrupt is pending.
    pub(super) fn resume_at_once(&mut self, place: Place, at: i64) -> i64 {
        let Some(number) = self.vcpu_number(place) else { return at };
        self.vcpus[number].halted = Some(at - 400);
        self.resume_from_halt(number, at, 1)
    }

    /// The thread that runs on a guest's CPU halts it as it waits for a lock of the kernel.
    pub(super) fn halt_spinning(&mut self, place: Place, at: i64) {
        if let Some(number) = self.vcpu_number(place) {
            self.halt_vcpu(number, at);
            self.settle_halt(number);
        }
    }

    /// What runs on a CPU of the host wakes a vCPU that halted for a lock. Returns when that is inside.
    pub(super) fn kick_spinning(&mut self, place: Place, from: (Place, i64, Context)) -> i64 {
        let Some(number) = self.vcpu_number(place) else { return from.1 };
        let VcpuState { thread, home, .. } = self.vcpus[number];
        let at = self.wake_and_run(from, thread, home, Dispatch::Fast);
        let at = self.tell_halt_of(number, at + 600, 0);
        self.enter_guest(number, at + 300)
    }

    pub(super) fn enter_guest(&mut self, number: usize, at: i64) -> i64 {
        self.vcpus[number].inside = true;
        let home = self.vcpus[number].home;
        let at = self.put(home, at, Kind::VmEnter, |event| event.object = number as u64);
        at + 400
    }

    pub(super) fn exit_guest(&mut self, number: usize, at: i64, reason: i32) -> i64 {
        self.vcpus[number].inside = false;
        let place = guest(u32::try_from(number).unwrap_or(0));
        let at = at.max(self.last_time(place) + 200);
        let home = self.vcpus[number].home;
        self.put(home, at, Kind::VmExit, |event| (event.object, event.code) = (number as u64, reason))
    }

    /// The guest's CPU idles: its vCPU halts, and its thread sleeps unless it polls.
    fn halt_vcpu(&mut self, number: usize, at: i64) {
        let at = self.exit_guest(number, at, EXIT_HALT);
        (self.vcpus[number].halts, self.vcpus[number].halted) = (Some(at), Some(at));
    }

    fn is_polling(&self, number: usize, at: i64) -> bool {
        self.vcpus[number].halts.is_some_and(|halts| at < halts + self.polls)
    }

    /// A halted vCPU's thread has gone to sleep.
    fn settle_halt(&mut self, number: usize) {
        if let Some(halts) = self.vcpus[number].halts.take() {
            let (home, polls) = (self.vcpus[number].home, self.polls);
            self.go_idle(home, halts + polls + 900, State::Sleeping);
        }
    }

    /// Whether nothing runs on a CPU of the host; that what halts there sleeps by then is put.
    pub(super) fn is_idle(&mut self, place: Place, at: i64) -> bool {
        let here = (0..self.vcpus.len()).find(|number| self.vcpus[*number].home == place);
        if let Some(number) = here {
            if self.vcpus[number].inside || self.is_polling(number, at) {
                return false;
            }
            self.settle_halt(number);
        }
        self.current_thread(place) == 0 && self.last_time(place) < at
    }

    /// A guest's thread does something that makes its vCPU come out for so long, and go in again. `does` is done in the host
    /// meanwhile.
    pub(super) fn trap_to_host(
        &mut self,
        place: Place,
        at: i64,
        reason: i32,
        does: impl FnOnce(&mut Self, Place, i64) -> i64,
    ) -> i64 {
        let Some(number) = self.vcpu_number(place) else { return at };
        let home = self.vcpus[number].home;
        let at = self.exit_guest(number, at, reason);
        let at = does(self, home, at + 500);
        self.enter_guest(number, at + 500)
    }
}
