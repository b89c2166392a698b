//! The passing of time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use xweave_trace::event::{Event, Kind, Names};

use crate::{
    disk::Disk,
    id::{Cpu, Thread},
    random::Random,
    state::{
        Alarm, Config, CpuState, DISPATCHER, Domain, FIRST, Lock, Mode, Now, Open, PERIOD, POOL, QUOTA,
        Quota, Role, Runtime, SERVER, STORE, Simulation, Stage, TASK, ThreadState, Vcpu, WORKER,
    },
    truth::{Transaction, Who},
};

impl Simulation {
    /// A machine at the beginning of its time.
    pub fn new(config: &Config) -> Self {
        let mut machine = Self {
            now: 1_000_000_000,
            random: Random::new(config.random),
            domains: Vec::new(),
            cpus: Vec::new(),
            threads: Vec::new(),
            disks: Vec::new(),
            locks: Vec::new(),
            names: Names::default(),
            alarms: BinaryHeap::new(),
            alarmed: 0,
            open: Vec::new(),
            made: Vec::new(),
            answered: Vec::new(),
            left: config.transactions,
            abroad: config.abroad,
            pipelined: config.pipelined,
            datagrams: config.datagrams,
            power: config.power,
            told: VecDeque::new(),
            changed: Vec::new(),
        };
        for number in 1..=config.guests + 1 {
            machine.build(number, if number == 1 { config.cpus } else { config.vcpus }, config);
        }
        machine.make_tasks();
        for cpu in 0..machine.cpus.len() {
            machine.noise(cpu);
            machine.change_frequency(cpu);
            machine.changed.push(cpu);
        }
        machine.settle_all();
        machine
    }

    /// The texts that events have.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The number of each guest, and the process of domain 1 that runs it.
    pub fn guests(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        let vcpus = self.threads.iter().filter_map(|thread| Some((thread.backs?, thread.process)));
        let first = vcpus.filter(|(cpu, _)| self.cpus[*cpu].number == 0);
        first.map(|(cpu, process)| (self.domains[self.cpus[cpu].domain].number, process))
    }

    /// The transactions that were made since this was last asked, in the order of their ends.
    pub fn take_transactions(&mut self) -> Vec<Transaction> {
        std::mem::take(&mut self.made)
    }

    /// The same of requests of clients on connections, from when the first was sent until the last answer was received. What
    /// the client does meanwhile counts only when the next answer has been sent and is not received yet.
    pub fn take_requests(&mut self) -> Vec<Transaction> {
        std::mem::take(&mut self.answered)
    }

    /// When the oldest transaction under way began; now, if there is none. What was over before is not asked about.
    pub fn oldest(&self) -> i64 {
        let began = self.open.iter().flatten().map(|open| open.transaction.from);
        began.min().unwrap_or(self.now).min(self.told.front().map_or(self.now, |event| event.time_ns))
    }

    fn build(&mut self, number: u8, cpus: u32, config: &Config) {
        let domain = self.domains.len();
        let mine: Vec<Cpu> = (0..cpus).map(|at| self.cpus.len() + at as usize).collect();
        self.domains.push(Domain {
            number,
            cpus: mine.clone(),
            disks: Vec::new(),
            locks: Vec::new(),
            servers: Default::default(),
            runtime: Runtime::default(),
            threads: Vec::new(),
        });
        for number in 0..cpus {
            self.cpus.push(CpuState { domain, number, ..CpuState::default() });
        }
        if domain > 0 {
            for &cpu in &mine {
                let thread = self.spawn(0, Role::Vcpu, None);
                self.threads[thread].backs = Some(cpu);
                if config.quotas && domain == 1 {
                    self.limit(thread);
                }
                self.cpus[cpu].vcpu = Some(Vcpu::new(thread));
                self.ready(thread, None);
            }
        }
        for at in 0..2 {
            self.domains[domain].disks.push(self.disks.len());
            let device = (254 << 20) | (at as u64 * 16);
            self.disks.push(Disk::new(domain, device, mine[at % mine.len()], 1 + at));
            self.domains[domain].locks.push(self.locks.len());
            // One is a lock of the kernel's, the other one of user space.
            let futex = at == 0;
            let address = if futex { 0x7f00_0000_1000 } else { 0xffff_8880_0000_1000 };
            self.locks.push(Lock {
                address,
                futex,
                owner: None,
                last: 0,
                next: None,
                waiters: VecDeque::new(),
            });
        }
        let kinds = [
            (Role::Server(STORE), config.servers),
            (Role::Server(SERVER), config.servers),
            (Role::Server(POOL), config.pool),
            (Role::Server(WORKER), config.workers),
            (Role::Server(DISPATCHER), config.workers.min(1)),
            (Role::Carrier, config.carriers),
            (Role::Client, config.clients),
            (Role::Other, if domain == 0 { config.others } else { 0 }),
        ];
        for (role, count) in kinds {
            for at in 0..count {
                let thread = self.spawn(domain, role, None);
                if config.quotas && domain == 0 && role == Role::Client && at % 3 == 0 {
                    self.limit(thread);
                }
                match role {
                    Role::Server(level) => self.domains[domain].servers[level].push(thread),
                    Role::Carrier => self.domains[domain].runtime.carriers.push(thread),
                    _ => {}
                }
                self.ready(thread, None);
            }
        }
    }

    /// Makes a thread, and tells of it.
    pub(crate) fn spawn(&mut self, domain: usize, role: Role, parent: Option<Thread>) -> Thread {
        let thread = self.threads.len();
        let name = self.names.give(role.name());
        let others = &mut self.domains[domain].threads;
        let tid = FIRST + u32::try_from(others.len()).unwrap_or(u32::MAX - FIRST);
        others.push(thread);
        let cpu = self.domains[domain].cpus[thread % self.domains[domain].cpus.len()];
        let process = match role {
            Role::Vcpu => 900 + self.domains.len() as u64,
            Role::Server(level) => 910 + level as u64,
            Role::Carrier => 910 + TASK as u64,
            _ => u64::from(tid),
        };
        self.threads.push(ThreadState {
            domain,
            tid,
            process,
            name,
            role,
            cpu,
            now: Now::Ready,
            steps: VecDeque::new(),
            work: 0,
            late: false,
            access: (0, Stage::Over),
            parts: 0,
            asked: VecDeque::new(),
            calls: VecDeque::new(),
            receiving: None,
            giver: None,
            quota: None,
            parent,
            open: None,
            requests: None,
            backs: None,
            carries: None,
        });
        if parent.is_none() && role != Role::Server(TASK) {
            self.tell(Kind::Thread, cpu, |event| {
                (event.other, event.object, event.name) = (tid, process, name);
            });
        }
        thread
    }

    /// Tells of something that happens on a processor now.
    pub(crate) fn tell(&mut self, kind: Kind, cpu: Cpu, fill: impl FnOnce(&mut Event)) {
        let here = &self.cpus[cpu];
        let tid = here.current.map_or(0, |thread| self.threads[thread].tid);
        let domain = self.domains[here.domain].number;
        let mut event = Event::new(kind, domain, self.now, here.number, tid);
        fill(&mut event);
        self.told.push_back(event);
    }

    fn limit(&mut self, thread: Thread) {
        self.threads[thread].quota = Some(Quota { left: QUOTA, used_up: false, withheld: false });
        let first = self.random.between(1, PERIOD);
        self.alarm(first, Alarm::Refill(thread));
    }

    /// A period of a thread's quota begins.
    fn refill(&mut self, thread: Thread) {
        self.alarm(PERIOD, Alarm::Refill(thread));
        let Some(quota) = &mut self.threads[thread].quota else { return };
        quota.left = QUOTA;
        if std::mem::take(&mut quota.withheld) {
            let cpu = self.threads[thread].cpu;
            self.cpus[cpu].queue.push_back(thread);
            self.changed.push(cpu);
        }
    }

    pub(crate) fn who(&self, thread: Thread) -> Who {
        let thread = &self.threads[thread];
        Who { domain: self.domains[thread.domain].number, tid: thread.tid }
    }

    pub(crate) fn alarm(&mut self, after: i64, alarm: Alarm) {
        self.alarmed += 1;
        self.alarms.push(Reverse((self.now + after, self.alarmed, alarm)));
    }

    pub(crate) fn noise(&mut self, cpu: Cpu) {
        let mean = if self.cpus[cpu].vcpu.is_some() { 4_000_000 } else { 800_000 };
        let after = self.random.between(1000, 2 * mean);
        self.alarm(after, Alarm::Noise(cpu));
    }

    /// A thread's transaction begins or ends.
    pub(crate) fn mark(&mut self, thread: Thread, begins: bool) {
        if begins {
            self.threads[thread].open = Some(self.open(thread, false));
        } else if let Some(transaction) = self.threads[thread].open.take().and_then(|place| self.close(place))
        {
            self.made.push(transaction);
            self.left = self.left.saturating_sub(1);
        }
    }

    /// A thread, if it is a client's, sends or has received something: its requests under way are those that it knows of now.
    pub(crate) fn mark_requests(&mut self, thread: Thread) {
        let state = &self.threads[thread];
        match (state.requests, state.asked.is_empty()) {
            (None, false) if state.role == Role::Client => {
                self.threads[thread].requests = Some(self.open(thread, true));
            }
            (Some(place), true) => {
                self.threads[thread].requests = None;
                let answered = self.close(place);
                self.answered.extend(answered);
            }
            _ => {}
        }
    }

    fn open(&mut self, thread: Thread, requests: bool) -> usize {
        let (who, from) = (self.who(thread), self.now);
        let place = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        let transaction = Transaction { who, from, to: from, parts: BTreeMap::new() };
        self.open[place] = Some(Open { thread, requests, transaction, queued: BTreeMap::new() });
        place
    }

    fn close(&mut self, place: usize) -> Option<Transaction> {
        let Open { transaction, .. } = self.open[place].take()?;
        Some(Transaction { to: self.now, ..transaction })
    }

    /// Lets time pass to the next that happens, and does it.
    fn pass(&mut self) {
        let works = (0..self.domains[0].cpus.len()).filter_map(|cpu| self.until_change(cpu)).min();
        let alarm = self.alarms.peek().map(|Reverse((time, ..))| *time - self.now);
        let step = works.into_iter().chain(alarm).min().unwrap_or(1);
        if step > 0 {
            self.account(step);
            for cpu in 0..self.domains[0].cpus.len() {
                self.advance(cpu, step);
            }
            self.now += step;
        }
        while let Some(Reverse((time, _, alarm))) = self.alarms.peek().copied() {
            if time > self.now {
                break;
            }
            self.alarms.pop();
            self.ring(alarm);
        }
        self.changed.extend(0..self.domains[0].cpus.len());
        self.settle_all();
    }

    fn ring(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Awake(thread) => {
                self.threads[thread].late = true;
                let cpu = self.threads[thread].cpu;
                let irq = self.timer(thread);
                self.interrupt(cpu, irq);
            }
            Alarm::Disk(disk, place) => {
                let waiters = self.disks[disk].given[place].as_ref().map(|request| request.waiters.clone());
                for waiter in waiters.into_iter().flatten() {
                    if self.threads[waiter].parts == 1 {
                        self.threads[waiter].access.1 = Stage::Done(false);
                    }
                }
                let irq = self.disk_irq(disk, place);
                self.interrupt(self.disks[disk].cpu, irq);
            }
            Alarm::Arrive(from, to, answer) => {
                let irq = self.network_irq(from, to, answer);
                let cpu = self.domains[self.threads[to].domain].cpus[0];
                self.interrupt(cpu, irq);
            }
            Alarm::Refill(thread) => self.refill(thread),
            Alarm::Frequency(cpu) => self.change_frequency(cpu),
            Alarm::Noise(cpu) => {
                self.noise(cpu);
                let irq = self.noise_irq();
                self.interrupt(cpu, irq);
            }
        }
    }

    /// The time until what this processor of the host does changes by itself.
    fn until_change(&self, cpu: Cpu) -> Option<i64> {
        let here = &self.cpus[cpu];
        if let Some(frame) = here.frames.last() {
            return Some(frame.front().map_or(0, |phase| self.takes(cpu, phase.left())));
        }
        let current = here.current?;
        let inner = match self.threads[current].backs.map(|guest| (guest, self.mode(guest))) {
            None => Some(self.takes(cpu, self.threads[current].work)),
            Some((_, Mode::Out { left, .. })) => Some(left),
            Some((guest, Mode::Guest)) => self.until_change(guest),
        };
        let slice = (!here.queue.is_empty()).then_some(here.slice.max(0));
        let quota = self.threads[current].quota.map(|quota| quota.left.max(0));
        inner.into_iter().chain(slice).chain(quota).min()
    }

    /// Time passes on a processor.
    fn advance(&mut self, cpu: Cpu, step: i64) {
        let done = self.done_in(cpu, step);
        let here = &mut self.cpus[cpu];
        if let Some(phase) = here.frames.last_mut().and_then(|frame| frame.front_mut()) {
            return phase.pass(done);
        }
        let Some(current) = here.current else { return };
        here.slice -= step;
        if let Some(quota) = &mut self.threads[current].quota {
            quota.left -= step;
        }
        match self.threads[current].backs.map(|guest| (guest, self.mode(guest))) {
            None => self.threads[current].work -= done,
            Some((guest, Mode::Out { .. })) => self.out(guest, step),
            Some((guest, Mode::Guest)) => self.advance(guest, step),
        }
    }
}

impl Iterator for Simulation {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        while self.told.is_empty() {
            if self.left == 0 {
                return None;
            }
            self.pass();
        }
        self.told.pop_front()
    }
}
