//! What the steps of a script do.

use xweave_trace::event::{Kind, State};

use crate::{
    disk::{LARGEST, Request, SECTOR},
    id::{Cpu, Thread},
    state::{Alarm, Call, DISPATCHER, Now, POOL, Role, SERVER, Simulation, Stage, Step, TASK, WORKER, Wait},
};

impl Simulation {
    /// The thread on this processor does its next step.
    pub(crate) fn step(&mut self, thread: Thread, cpu: Cpu) {
        let Some(step) = self.threads[thread].steps.pop_front() else {
            let steps = self.script(thread);
            return self.threads[thread].steps.extend(steps);
        };
        match step {
            Step::Begin => self.mark(thread, true),
            Step::End => self.mark(thread, false),
            Step::Work(work) => self.threads[thread].work = work,
            Step::Sleep(long) => {
                self.threads[thread].late = false;
                self.alarm(long, Alarm::Awake(thread));
                self.block(thread, cpu, Wait::Sleep);
            }
            Step::Block(wait) => {
                if matches!(wait, Wait::Answer | Wait::Calls) {
                    self.threads[thread].receiving = Some(self.now);
                }
                self.wait(thread, cpu, wait);
            }
            Step::Futex(address, wait) => {
                self.tell(Kind::LockWait, cpu, |event| event.object = address);
                self.first(thread, [Step::Work(600), Step::Block(wait), Step::FutexOver(address)]);
            }
            Step::FutexOver(address) => {
                self.tell(Kind::LockAcquired, cpu, |event| event.object = address);
            }
            Step::Pipe(pipe, wait) => {
                self.first(thread, [Step::Work(600), Step::Block(wait), Step::PipeRead(pipe, self.now)]);
            }
            Step::PipeRead(pipe, since) => self.piped(Kind::PipeRead, pipe, self.now - since, cpu),
            Step::Fault(since) => {
                let kind = if self.random.percent(50) { Kind::PageFault } else { Kind::SwapIn };
                let lasted = self.now.abs_diff(since);
                self.tell(kind, cpu, |event| (event.bytes, event.code) = (lasted, 1));
            }
            Step::Take(lock) => self.take(thread, cpu, lock),
            Step::Retake(lock) => {
                let address = self.locks[lock].address;
                self.tell(Kind::LockAcquired, cpu, |event| event.object = address);
                self.take(thread, cpu, lock);
            }
            Step::Give(lock) => {
                let address = self.locks[lock].address;
                self.locks[lock].owner = None;
                if let Some(waiter) = self.locks[lock].waiters.pop_front() {
                    self.threads[waiter].giver = Some(thread);
                    self.locks[lock].next = Some(waiter);
                    self.tell(Kind::LockWake, cpu, |event| event.object = address);
                    self.first(thread, [Step::Work(300), Step::Wake(waiter, lock)]);
                }
            }
            Step::Wake(waiter, lock) => self.wake_from(waiter, Wait::Lock(lock), cpu),
            Step::Read(disk, position, bytes, waits) => {
                self.read_disk(thread, cpu, disk, position, bytes, waits)
            }
            Step::AskAhead(server) => {
                let who = self.carried(thread);
                self.threads[who].asked.push_back(Call::Going(server));
                self.mark_requests(thread);
                self.first(thread, [Step::Work(900)]);
                self.send(who, server, who, false, cpu);
            }
            Step::Ask(server, sleep) => {
                let who = self.carried(thread);
                self.threads[who].asked.push_back(Call::Going(server));
                if self.level(server) == Some(POOL) {
                    let taken = [self.handed(thread, Wait::Answer), Step::Answered(server)];
                    self.first(thread, taken);
                    self.first(thread, [Step::Work(900)]);
                    self.hand(thread, server, false, cpu);
                    return;
                }
                self.mark_requests(thread);
                self.first(thread, [self.block_of(thread, Wait::Answer), Step::Answered(server)]);
                if sleep > 0 {
                    self.first(thread, [Step::Sleep(sleep), Step::Work(400)]);
                }
                self.first(thread, [Step::Work(900)]);
                self.send(who, server, who, false, cpu);
            }
            Step::Answered(server) => self.answered(thread, server, cpu),
            Step::Serve => self.serve(thread, cpu),
            Step::HandOver(client) => {
                let workers = &self.domains[self.threads[thread].domain].servers[WORKER];
                let worker = workers[self.random.place(workers.len())];
                self.threads[client].call_goes_on(|call| call == Call::There(thread), Call::Going(worker));
                self.deliver(client, worker, thread, false, cpu);
            }
            Step::Answer(client, _) if self.level(thread) == Some(POOL) => {
                self.hand(thread, client, true, cpu)
            }
            Step::Answer(client, owner) => {
                let there = |call| matches!(call, Call::There(_));
                self.threads[client].call_goes_on(there, Call::Coming(thread));
                self.send(thread, client, owner, true, cpu);
            }
            Step::Carry => self.carry(thread),
            Step::Poll => self.poll(thread),
            Step::Unpark => self.unpark(thread, cpu),
            Step::Yield(wait) => {
                if !self.is_over(self.carried(thread), wait) {
                    self.lay_down(thread, wait);
                }
            }
            Step::Fork => {
                let child = self.spawn(self.threads[thread].domain, Role::Child, Some(thread));
                let (tid, process, name) = {
                    let child = &self.threads[child];
                    (child.tid, child.process, child.name)
                };
                self.tell(Kind::Fork, cpu, |event| {
                    (event.other, event.object, event.name) = (tid, process, name);
                });
                self.ready(child, Some(cpu));
                self.first(thread, [Step::Work(2_000), Step::Block(Wait::Child(child))]);
            }
            Step::Exit => {
                if let Some(parent) = self.threads[thread].parent.take() {
                    self.wake_from(parent, Wait::Child(thread), cpu);
                }
            }
            Step::Die => {
                self.tell(Kind::Exit, cpu, |_| ());
                self.threads[thread].now = Now::Dead;
                let next = self.cpus[cpu].queue.pop_front();
                self.switch(cpu, State::Dead, next);
            }
        }
    }

    /// It takes answers that are there.
    fn answered(&mut self, thread: Thread, server: Thread, cpu: Cpu) {
        let who = self.carried(thread);
        let there = self.threads[who].asked.iter().take_while(|call| **call == Call::Back).count();
        let taken = if self.random.percent(50) { there } else { 1 };
        self.threads[who].asked.drain(..taken);
        self.mark_requests(thread);
        if self.level(server) == Some(POOL) {
            return;
        }
        if !self.threads[who].asked.is_empty() {
            let before = self.random.between(1_000, 30_000);
            let next = [Step::Work(before), self.block_of(thread, Wait::Answer), Step::Answered(server)];
            self.first(thread, next);
        }
        self.receive(thread, who, server, taken, cpu);
    }

    /// It takes a call; those that have come on the same connection perhaps too.
    fn serve(&mut self, thread: Thread, cpu: Cpu) {
        let who = self.carried(thread);
        let level = self.level(who);
        let Some((client, owner)) = self.threads[who].calls.pop_front() else {
            let wait = match level {
                Some(POOL) => self.handed(thread, Wait::Calls),
                Some(WORKER) => Step::Futex(self.futex(thread), Wait::Calls),
                _ => self.block_of(thread, Wait::Calls),
            };
            return self.first(thread, [wait, Step::Serve]);
        };
        if level == Some(DISPATCHER) {
            let before = self.random.between(2_000, 40_000);
            return self.threads[thread].steps.extend([Step::Work(before), Step::HandOver(client)]);
        }
        let mut calls = 1;
        if matches!(level, Some(SERVER | TASK)) && self.random.percent(50) {
            let before = self.threads[who].calls.len();
            self.threads[who].calls.retain(|(other, _)| *other != client);
            calls += before - self.threads[who].calls.len();
        }
        if level != Some(POOL) {
            self.receive(thread, owner, client, calls, cpu);
        }
        for _ in 0..calls {
            let steps = self.service(thread);
            self.threads[thread].steps.extend(steps);
            self.threads[thread].steps.push_back(Step::Answer(client, owner));
        }
        if who != thread {
            self.threads[thread].steps.push_back(Step::Serve);
        }
    }

    /// Which server it is; none if it is no server.
    pub(crate) fn level(&self, thread: Thread) -> Option<usize> {
        match self.threads[thread].role {
            Role::Server(level) => Some(level),
            _ => None,
        }
    }

    /// Where a thread waits for what others of its process have for it.
    pub(crate) fn futex(&self, thread: Thread) -> u64 {
        0x7f00_0001_0000 + u64::from(self.threads[thread].tid) * 64
    }

    /// Steps to be done before those that are left.
    pub(crate) fn first<const COUNT: usize>(&mut self, thread: Thread, steps: [Step; COUNT]) {
        for step in steps.into_iter().rev() {
            self.threads[thread].steps.push_front(step);
        }
    }

    /// Whether what a thread or a task is about to wait for is there already.
    fn is_over(&self, who: Thread, wait: Wait) -> bool {
        let state = &self.threads[who];
        let runtime = &self.domains[state.domain].runtime;
        match wait {
            Wait::Disk => state.access.1 == Stage::Over,
            Wait::Lock(lock) => self.locks[lock].owner.is_none(),
            Wait::Answer => state.asked.front() == Some(&Call::Back),
            Wait::Calls => !state.calls.is_empty(),
            Wait::Child(child) => self.threads[child].parent.is_none(),
            Wait::Poll => !runtime.readable.is_empty(),
            Wait::Park => !runtime.ready.is_empty() || runtime.polls.is_none(),
            Wait::Sleep | Wait::Halted => false,
        }
    }

    fn wait(&mut self, thread: Thread, cpu: Cpu, wait: Wait) {
        if self.is_over(thread, wait) {
            return;
        }
        if let Wait::Lock(lock) = wait {
            self.threads[thread].giver = None;
            self.locks[lock].waiters.push_back(thread);
        }
        self.block(thread, cpu, wait);
    }

    fn take(&mut self, thread: Thread, cpu: Cpu, lock: usize) {
        let taken = &mut self.locks[lock];
        if taken.owner.is_none() {
            (taken.owner, taken.last) = (Some(thread), thread);
            return;
        }
        let address = taken.address;
        self.tell(Kind::LockWait, cpu, |event| event.object = address);
        self.first(thread, [Step::Work(600), Step::Block(Wait::Lock(lock)), Step::Retake(lock)]);
    }

    fn read_disk(&mut self, thread: Thread, cpu: Cpu, disk: usize, position: u64, bytes: u64, waits: bool) {
        let object = self.disks[disk].device;
        let waiter = waits.then_some(thread);
        if waits {
            self.threads[thread].access = (disk, Stage::Queued);
            self.threads[thread].parts = bytes.div_ceil(LARGEST);
            // Some of what is read is a page of its memory.
            if self.random.percent(30) {
                self.first(thread, [Step::Fault(self.now)]);
            }
            self.first(thread, [Step::Work(700), Step::Block(Wait::Disk)]);
        }
        let bio = self.disks[disk].name();
        self.tell(Kind::DiskQueue, cpu, |event| {
            (event.object, event.position, event.bytes, event.other) = (object, position, bytes, bio);
        });
        if self.disks[disk].merge(position, bytes, bio, waiter) {
            self.tell(Kind::DiskMerge, cpu, |event| {
                (event.object, event.position, event.bytes) = (object, position, bytes);
            });
        } else {
            let parts = bytes.div_ceil(LARGEST);
            for at in 0..parts {
                let waiters = waiter.into_iter().collect();
                // What is split off has a name that nobody told of.
                let bio = if at + 1 == parts { bio } else { self.disks[disk].name() };
                let (position, bytes) = (position + at * LARGEST / SECTOR, LARGEST.min(bytes - at * LARGEST));
                self.disks[disk].queue.push_back(Request { position, bytes, bio, waiters });
            }
        }
        self.issue(disk, cpu);
    }

    /// Gives the disk what waits, as far as it takes more.
    fn issue(&mut self, disk: usize, cpu: Cpu) {
        while let Some(place) = self.disks[disk].given.iter().position(Option::is_none) {
            let waiting = self.disks[disk].queue.len();
            if waiting == 0 {
                return;
            }
            // Mostly the next one; each processor has a queue of its own.
            let next = if self.random.percent(80) { 0 } else { self.random.place(waiting) };
            let Some(request) = self.disks[disk].queue.remove(next) else { return };
            let (object, position, bytes) = (self.disks[disk].device, request.position, request.bytes);
            let bio = request.bio;
            for &waiter in &request.waiters {
                self.threads[waiter].access.1 = Stage::Given;
            }
            self.disks[disk].given[place] = Some(request);
            self.tell(Kind::DiskIssue, cpu, |event| {
                (event.object, event.position, event.bytes, event.other) = (object, position, bytes, bio);
            });
            let turn = self.random.between(0, 400_000);
            let service = self.disks[disk].service(position, bytes, turn);
            self.alarm(service, Alarm::Disk(disk, place));
        }
    }

    /// The disk's interrupt tells that a request is done.
    pub(crate) fn disk_done(&mut self, disk: usize, place: usize, cpu: Cpu) {
        let Some(request) = self.disks[disk].given[place].take() else { return };
        let object = self.disks[disk].device;
        self.tell(Kind::DiskComplete, cpu, |event| {
            (event.object, event.position, event.bytes) = (object, request.position, request.bytes);
            event.other = request.bio;
        });
        for waiter in request.waiters {
            self.threads[waiter].parts -= 1;
            if self.threads[waiter].parts == 0 {
                self.threads[waiter].access.1 = Stage::Done(true);
            }
        }
        debug_assert_eq!(self.disks[disk].domain, self.cpus[cpu].domain);
        self.issue(disk, cpu);
    }
}
