//! What the steps of a script do.

use xweave_trace::event::{Connection, Kind, Sending, State};

use crate::{
    disk::{LARGEST, Request, SECTOR},
    id::{Cpu, Thread},
    state::{Alarm, Call, DISPATCHER, Now, POOL, Role, Simulation, Stage, Step, WORKER, Wait},
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
            Step::Ask(server, sleep) => {
                self.threads[thread].call = Call::Going(server);
                if self.level(server) == Some(POOL) {
                    self.first(thread, [Step::Work(900), Step::Futex(self.futex(thread), Wait::Answer)]);
                    self.deliver(thread, server, thread, false, cpu);
                    return;
                }
                self.first(thread, [Step::Block(Wait::Answer), Step::Answered(server)]);
                if sleep > 0 {
                    self.first(thread, [Step::Sleep(sleep), Step::Work(400)]);
                }
                self.first(thread, [Step::Work(900)]);
                self.send(thread, server, thread, false, cpu);
            }
            Step::Answered(server) => self.receive(thread, thread, server, cpu),
            Step::Serve => match self.threads[thread].calls.pop_front() {
                None if matches!(self.level(thread), Some(POOL | WORKER)) => {
                    self.first(thread, [Step::Futex(self.futex(thread), Wait::Calls), Step::Serve]);
                }
                None => self.first(thread, [Step::Block(Wait::Calls), Step::Serve]),
                Some((client, _)) if self.level(thread) == Some(DISPATCHER) => {
                    let before = self.random.between(2_000, 40_000);
                    self.threads[thread].steps.extend([Step::Work(before), Step::HandOver(client)]);
                }
                Some((client, owner)) => {
                    if self.level(thread) != Some(POOL) {
                        self.receive(thread, owner, client, cpu);
                    }
                    let mut steps = self.service(thread);
                    steps.push(Step::Answer(client, owner));
                    self.threads[thread].steps.extend(steps);
                }
            },
            Step::HandOver(client) => {
                let workers = &self.domains[self.threads[thread].domain].servers[WORKER];
                let worker = workers[self.random.place(workers.len())];
                self.deliver(client, worker, thread, false, cpu);
            }
            Step::Answer(client, _) if self.level(thread) == Some(POOL) => {
                self.deliver(thread, client, thread, true, cpu);
            }
            Step::Answer(client, owner) => {
                self.threads[client].call = Call::Coming(thread);
                self.send(thread, client, owner, true, cpu);
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

    /// Which server it is; none if it is no server.
    pub(crate) fn level(&self, thread: Thread) -> Option<usize> {
        match self.threads[thread].role {
            Role::Server(level) => Some(level),
            _ => None,
        }
    }

    /// Where a thread waits for what others of its process have for it.
    fn futex(&self, thread: Thread) -> u64 {
        0x7f00_0001_0000 + u64::from(self.threads[thread].tid) * 64
    }

    /// Steps to be done before those that are left.
    fn first<const COUNT: usize>(&mut self, thread: Thread, steps: [Step; COUNT]) {
        for step in steps.into_iter().rev() {
            self.threads[thread].steps.push_front(step);
        }
    }

    fn wait(&mut self, thread: Thread, cpu: Cpu, wait: Wait) {
        let state = &self.threads[thread];
        let over = match wait {
            Wait::Disk => state.access.1 == Stage::Over,
            Wait::Lock(lock) => self.locks[lock].owner.is_none(),
            Wait::Answer => state.call == Call::Back,
            Wait::Calls => !state.calls.is_empty(),
            Wait::Child(child) => self.threads[child].parent.is_none(),
            Wait::Sleep | Wait::Halted => false,
        };
        if over {
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

    /// The socket of one thread to another, and the connection as it knows it. Servers listen on ports of their own;
    /// clients have one port each.
    fn socket(&self, thread: Thread, other: Thread) -> (u64, u64) {
        let address = |at: Thread| 0x0a4d_0000 | self.threads[at].domain as u64;
        // In each domain the same: over its loopback device it has them for itself.
        let apart = self.threads[thread].domain != self.threads[other].domain;
        let port = |at: Thread| {
            let domain = if apart { self.threads[at].domain as u64 } else { 0 };
            let number = u64::from(self.threads[at].tid) + domain * 5_000;
            match self.threads[at].role {
                Role::Server(_) => 4_000 + number,
                _ => 33_000 + number % 20_000,
            }
        };
        // A server that asks another one does so from a port of its own.
        let local = if self.asks(thread, other) { port(thread) | 0x8000 } else { port(thread) };
        let remote = if self.asks(other, thread) { port(other) | 0x8000 } else { port(other) };
        let position = (address(thread) ^ address(other)) << 32 | local << 16 | remote;
        (0xffff_8880_0000_0000 | (thread as u64) << 32 >> 8 | (other as u64) << 6, position)
    }

    fn asks(&self, thread: Thread, other: Thread) -> bool {
        let level = |at: Thread| self.level(at).map_or(0, |level| level + 1);
        level(thread) < level(other)
    }

    /// From `from` to `to`, on a socket of `owner`.
    fn send(&mut self, from: Thread, to: Thread, owner: Thread, answer: bool, cpu: Cpu) {
        let (object, position) = self.socket(owner, to);
        let bytes = if answer { 4_000 } else { 200 };
        debug_assert_eq!(Connection(position).peer().0, self.socket(to, owner).1);
        self.tell(Kind::Send, cpu, |event| {
            (event.object, event.position, event.bytes) = (object, position, bytes);
            (event.code, event.other) = (Sending::Begins.code(), NETNS);
        });
        if self.threads[from].domain != self.threads[to].domain {
            let way = self.random.between(20_000, 90_000);
            self.alarm(way, Alarm::Arrive(from, to, answer));
        } else if self.random.percent(50) {
            self.loopback(cpu, from, to, answer);
        } else {
            self.deliver(from, to, to, answer, cpu);
        }
    }

    fn receive(&mut self, thread: Thread, owner: Thread, other: Thread, cpu: Cpu) {
        let (object, position) = self.socket(owner, other);
        let bytes = if self.asks(thread, other) { 4_000 } else { 200 };
        // It waited within the call, or to be told when to make it.
        let since = self.threads[thread].receiving.take().filter(|_| self.level(thread) != Some(WORKER));
        let within = self.random.percent(50);
        let lasted = since.filter(|_| within).map_or(200, |since| self.now - since + 100);
        self.tell(Kind::Receive, cpu, |event| {
            (event.object, event.position, event.bytes) = (object, position, bytes);
            (event.code, event.other) = (i32::try_from(lasted).unwrap_or(i32::MAX), NETNS);
        });
    }

    /// A message is at its receiver; a call came on a socket of `owner`.
    pub(crate) fn deliver(&mut self, from: Thread, to: Thread, owner: Thread, answer: bool, cpu: Cpu) {
        if answer {
            self.threads[to].call = Call::Back;
            self.wake_from(to, Wait::Answer, cpu);
        } else {
            self.threads[from].call = Call::There(to);
            self.threads[to].calls.push_back((from, owner));
            self.wake_from(to, Wait::Calls, cpu);
        }
    }
}

/// The number of each domain's only network namespace.
const NETNS: u32 = 0xf000_0000;
