//! Processors: interrupts above threads, and which thread comes next.

use std::collections::VecDeque;

use xweave_trace::event::{Context, Kind, Quota, State};

use crate::{
    id::{Cpu, Thread},
    state::{Act, EXIT_INTERRUPT, Irq, Mode, Now, Phase, SLICE, Simulation, Stage, Wait},
};

/// Interrupts by their numbers, as `object` tells them.
const TIMER: u64 = 0x1_0000 | 236;
const DISK: u64 = 30;
const NETWORK: u64 = 40;
const OTHER: u64 = 50;
const SOFT_NETWORK: u64 = 3;
const SOFT_BLOCK: u64 = 4;

/// An interrupt that does everything in its hard part.
fn hard(object: u64, before: i64, act: Option<Act>, after: i64) -> Irq {
    let phases = [Phase::Enter(false, object), Phase::Work(before)];
    let end = [Phase::Work(after), Phase::Exit(false, object)];
    Irq { object, phases: phases.into_iter().chain(act.map(Phase::Do)).chain(end).collect() }
}

/// An interrupt whose work is done in the soft part that it raises.
fn soft(object: u64, number: u64, acts: Vec<Phase>) -> Irq {
    let mut irq = hard(object, 800, None, 300);
    irq.phases.extend([Phase::Work(150), Phase::Enter(true, number)]);
    irq.phases.extend(acts);
    irq.phases.push_back(Phase::Exit(true, number));
    irq
}

impl Simulation {
    pub(crate) fn timer(&self, thread: Thread) -> Irq {
        hard(TIMER, 700, Some(Act::Awake(thread)), 400)
    }

    pub(crate) fn disk_irq(&mut self, disk: usize, place: usize) -> Irq {
        let waiters = self.disks[disk].given[place].as_ref().map(|request| request.waiters.clone());
        let acts = vec![
            Phase::Work(900),
            Phase::Do(Act::DiskDone(disk, place)),
            Phase::Work(400),
            Phase::Do(Act::DiskWake(waiters.unwrap_or_default())),
            Phase::Work(600),
        ];
        if self.random.percent(50) {
            return soft(DISK, SOFT_BLOCK, acts);
        }
        let mut phases = VecDeque::from(acts);
        phases.push_front(Phase::Enter(false, DISK));
        phases.push_back(Phase::Exit(false, DISK));
        Irq { object: DISK, phases }
    }

    pub(crate) fn network_irq(&mut self, from: Thread, to: Thread, answer: bool) -> Irq {
        let acts = vec![Phase::Work(1500), Phase::Do(Act::Deliver(from, to, answer)), Phase::Work(500)];
        soft(NETWORK, SOFT_NETWORK, acts)
    }

    pub(crate) fn noise_irq(&mut self) -> Irq {
        let long = self.random.between(2_000, 30_000);
        if self.random.percent(20) {
            return hard(OTHER, long, Some(Act::WakeRunning), 400);
        }
        if self.random.percent(50) {
            return soft(OTHER, SOFT_NETWORK, vec![Phase::Work(long)]);
        }
        hard(OTHER, long, None, 0)
    }

    /// A softirq that the thread on this processor raises by sending to one of its own domain.
    pub(crate) fn loopback(&mut self, cpu: Cpu, from: Thread, to: Thread, answer: bool) {
        let phases = [
            Phase::Raised(SOFT_NETWORK),
            Phase::Work(700),
            Phase::Do(Act::Deliver(from, to, answer)),
            Phase::Work(300),
            Phase::Exit(true, SOFT_NETWORK),
        ];
        self.cpus[cpu].frames.push(phases.into());
    }

    /// A processor, of the host or of a guest, gets an interrupt from a device or a timer.
    pub(crate) fn interrupt(&mut self, cpu: Cpu, irq: Irq) {
        match self.cpus[cpu].vcpu.as_ref().map(|vcpu| vcpu.thread) {
            None => self.raise(cpu, irq),
            Some(vcpu) => {
                let object = irq.object;
                let host = hard(object, 1_000, Some(Act::Kick(cpu, Box::new(irq))), 500);
                self.raise(self.threads[vcpu].cpu, host);
            }
        }
    }

    /// A processor of the host gets an interrupt.
    fn raise(&mut self, cpu: Cpu, mut irq: Irq) {
        let guest = self.cpus[cpu].current.and_then(|current| self.threads[current].backs);
        if let Some(guest) = guest.filter(|guest| self.live(*guest)) {
            self.come_out(guest, EXIT_INTERRUPT, 300);
        }
        for phase in self.way_out(cpu).into_iter().rev() {
            irq.phases.push_front(phase);
        }
        self.cpus[cpu].pending.push_back(irq);
        self.changed.push(cpu);
    }

    /// Whether a processor really runs: a guest's may not.
    pub(crate) fn live(&self, cpu: Cpu) -> bool {
        self.cpus[cpu].vcpu.as_ref().is_none_or(|vcpu| {
            let thread = &self.threads[vcpu.thread];
            vcpu.mode == Mode::Guest && thread.now == Now::Running && self.cpus[thread.cpu].frames.is_empty()
        })
    }

    /// Does what takes no time, until each processor is at something that does.
    pub(crate) fn settle_all(&mut self) {
        while let Some(cpu) = self.changed.pop() {
            let host = self.cpus[cpu].vcpu.as_ref().map_or(cpu, |vcpu| self.threads[vcpu.thread].cpu);
            self.settle(host);
        }
    }

    pub(crate) fn settle(&mut self, cpu: Cpu) {
        while self.live(cpu) && self.settle_frames(cpu) {
            let here = &mut self.cpus[cpu];
            let Some(current) = here.current else {
                if let Some(next) = here.queue.pop_front().or_else(|| self.pull(cpu)) {
                    let phases = self.way_out(cpu);
                    if phases.is_empty() {
                        self.switch(cpu, State::Runnable, Some(next));
                    } else {
                        self.cpus[cpu].queue.push_front(next);
                        self.cpus[cpu].frames.push(phases.into());
                    }
                    continue;
                }
                if self.cpus[cpu].vcpu.is_some() {
                    self.halt(cpu);
                } else {
                    self.go_idle(cpu);
                }
                return;
            };
            let used_up = self.threads[current].quota.is_some_and(|quota| quota.left <= 0);
            if here.leave && used_up {
                here.leave = false;
                if let Some(quota) = &mut self.threads[current].quota {
                    (quota.used_up, quota.withheld) = (true, true);
                }
                self.threads[current].now = Now::Ready;
                let next = here.queue.pop_front();
                self.switch(cpu, State::Throttled, next);
            } else if here.leave {
                here.leave = false;
                here.slice = SLICE;
                if let Some(next) = here.queue.pop_front() {
                    here.queue.push_back(current);
                    self.threads[current].now = Now::Ready;
                    self.switch(cpu, State::Runnable, Some(next));
                }
            } else if used_up || here.slice <= 0 && !here.queue.is_empty() {
                let irq = hard(TIMER, 600, Some(Act::Leave), 300);
                if here.vcpu.is_some() { here.pending.push_back(irq) } else { self.raise(cpu, irq) }
            } else if let Some(guest) = self.threads[current].backs {
                if !self.settle_guest(cpu, guest) {
                    return;
                }
            } else if self.threads[current].work > 0 {
                return;
            } else {
                self.step(current, cpu);
            }
        }
    }

    /// Goes on with interrupts; true if there is none under way.
    fn settle_frames(&mut self, cpu: Cpu) -> bool {
        while self.live(cpu) {
            let here = &mut self.cpus[cpu];
            if !here.hard
                && let Some(irq) = here.pending.pop_front()
            {
                here.frames.push(irq.phases);
            }
            let Some(frame) = here.frames.last_mut() else { return true };
            if frame.front().is_some_and(|phase| phase.left() > 0) {
                return false;
            }
            match frame.pop_front() {
                None => {
                    here.frames.pop();
                }
                Some(Phase::Work(_)) => {}
                Some(Phase::Enter(soft, object)) => {
                    *(if soft { &mut here.soft } else { &mut here.hard }) = true;
                    let kind = if soft { Kind::SoftirqEnter } else { Kind::IrqEnter };
                    let code = if soft { Context::Hard.code() } else { 0 };
                    self.tell(kind, cpu, |event| (event.object, event.code) = (object, code));
                }
                Some(Phase::Raised(object)) => {
                    here.soft = true;
                    let code = Context::Task.code();
                    self.tell(Kind::SoftirqEnter, cpu, |event| (event.object, event.code) = (object, code));
                }
                Some(Phase::Exit(soft, object)) => {
                    *(if soft { &mut here.soft } else { &mut here.hard }) = false;
                    if here.soft
                        && let Some(rest) = here.frames.pop()
                        && let Some(below) = here.frames.last_mut()
                    {
                        // Softirqs do not interrupt each other: the one under way is ended first.
                        below.extend(rest);
                    }
                    let kind = if soft { Kind::SoftirqExit } else { Kind::IrqExit };
                    self.tell(kind, cpu, |event| event.object = object);
                }
                Some(Phase::Do(act)) => self.act(cpu, act),
            }
        }
        false
    }

    fn act(&mut self, cpu: Cpu, act: Act) {
        match act {
            Act::Awake(thread) => self.wake_from(thread, Wait::Sleep, cpu),
            Act::DiskDone(disk, place) => self.disk_done(disk, place, cpu),
            Act::DiskWake(waiters) => {
                for waiter in waiters {
                    if self.threads[waiter].access.1 == Stage::Done(true) {
                        self.threads[waiter].access.1 = Stage::Over;
                        self.wake_from(waiter, Wait::Disk, cpu);
                    }
                }
            }
            Act::Deliver(from, to, answer) => self.deliver(from, to, to, answer, cpu),
            Act::Kick(guest, irq) => self.kick(cpu, guest, *irq),
            Act::Leave => self.cpus[cpu].leave = true,
            Act::ComeOut => self.tell(Kind::CpuIdle, cpu, |event| event.code = -1),
            Act::WakeRunning => self.wake_running(cpu),
        }
    }

    /// The processor goes to another thread; what becomes of the one before is the caller's.
    pub(crate) fn switch(&mut self, cpu: Cpu, state: State, next: Option<Thread>) {
        let other = next.map_or(0, |next| self.threads[next].tid);
        self.tell(Kind::Switch, cpu, |event| (event.other, event.code) = (other, state.code()));
        let here = &mut self.cpus[cpu];
        (here.current, here.slice, here.leave) = (next, SLICE, false);
        if let Some(next) = next {
            (self.threads[next].now, self.threads[next].cpu) = (Now::Running, cpu);
            if let Some(quota) = &mut self.threads[next].quota {
                quota.used_up = false;
            }
        }
    }

    /// A processor that has nothing to do takes a thread that waits for another one.
    fn pull(&mut self, cpu: Cpu) -> Option<Thread> {
        let domain = self.cpus[cpu].domain;
        let from = self.domains[domain].cpus.iter().copied().find(|from| {
            *from != cpu && self.cpus[*from].current.is_some() && !self.cpus[*from].queue.is_empty()
        })?;
        let thread = self.cpus[from].queue.pop_back()?;
        self.migrate(thread, cpu, cpu);
        Some(thread)
    }

    /// What runs on `by` gives a thread to another processor.
    fn migrate(&mut self, thread: Thread, to: Cpu, by: Cpu) {
        let [from, to_number] = [self.threads[thread].cpu, to].map(|cpu| u64::from(self.cpus[cpu].number));
        let tid = self.threads[thread].tid;
        self.threads[thread].cpu = to;
        self.tell(Kind::Migrate, by, |event| {
            (event.other, event.object, event.position) = (tid, to_number, from);
        });
    }

    /// Wakes a thread that had set its state to wait, and has not left its processor.
    fn wake_running(&mut self, cpu: Cpu) {
        let domain = &self.domains[self.cpus[cpu].domain];
        let others = domain.cpus.iter().copied().filter(|other| *other != cpu);
        let Some(thread) = others.filter_map(|other| self.cpus[other].current).next() else { return };
        self.tell_wake(thread, cpu);
    }

    fn tell_wake(&mut self, thread: Thread, cpu: Cpu) {
        let other = self.threads[thread].tid;
        let object = u64::from(self.cpus[self.threads[thread].cpu].number) + 1;
        let here = &self.cpus[cpu];
        let context = match (here.hard, here.soft) {
            (true, _) => Context::Hard,
            (false, true) => Context::Softirq,
            (false, false) => Context::Task,
        };
        let withheld = self.threads[thread].quota.is_some_and(|quota| quota.withheld);
        let quota = if withheld { Quota::UsedUp } else { Quota::Left };
        self.tell(Kind::Wake, cpu, |event| {
            (event.other, event.object, event.code) = (other, object, context.code() + quota.code());
        });
    }

    /// The thread on this processor begins to wait.
    pub(crate) fn block(&mut self, thread: Thread, cpu: Cpu, wait: Wait) {
        self.threads[thread].now = Now::Waiting(wait);
        let state = if wait == Wait::Disk { State::Blocked } else { State::Sleeping };
        let next = self.cpus[cpu].queue.pop_front();
        self.switch(cpu, state, next);
    }

    /// Wakes a thread if it waits for this.
    pub(crate) fn wake_from(&mut self, thread: Thread, wait: Wait, cpu: Cpu) {
        if self.threads[thread].now == Now::Waiting(wait) {
            self.tell_wake(thread, cpu);
            self.ready(thread, Some(cpu));
        }
    }

    /// A thread can run: it is given to a processor that idles, or to the one with the fewest waiting.
    pub(crate) fn ready(&mut self, thread: Thread, from: Option<Cpu>) {
        self.threads[thread].now = Now::Ready;
        let domain = self.threads[thread].domain;
        let last = self.threads[thread].cpu;
        let idles = |cpu: &Cpu| self.cpus[*cpu].current.is_none() && self.cpus[*cpu].queue.is_empty();
        let all = &self.domains[domain].cpus;
        let mut near = [Some(last), from].into_iter().flatten().filter(|cpu| all.contains(cpu));
        let idle = near.find(idles).or_else(|| all.iter().copied().find(idles));
        let least = || all.iter().copied().min_by_key(|cpu| (self.cpus[*cpu].queue.len(), *cpu != last));
        let cpu = idle.or_else(least).unwrap_or(last);
        match from {
            Some(from) if cpu != last => self.migrate(thread, cpu, from),
            _ => self.threads[thread].cpu = cpu,
        }
        // A quota that was used up by the last that it did has a little left, as the kernel's has.
        if let Some(quota) = &mut self.threads[thread].quota {
            quota.left = quota.left.max(100_000);
        }
        self.cpus[cpu].queue.push_back(thread);
        self.changed.push(cpu);
        let Some(from) = from.filter(|from| *from != cpu && idle.is_some()) else { return };
        if self.cpus[cpu].vcpu.is_some() {
            self.kick_from(from, cpu);
        } else if self.cpus[cpu].frames.is_empty() {
            // The way out of idling.
            let mut phases = self.way_out(cpu);
            phases.push(Phase::Work(1_500));
            self.cpus[cpu].frames.push(phases.into());
        }
    }
}
