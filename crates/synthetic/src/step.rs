//! What the steps of a script do.

use xweave_trace::event::{Connection, Kind, State};

use crate::{
    disk::{LARGEST, Request, SECTOR},
    id::{Cpu, Thread},
    state::{Alarm, Call, Now, Role, Simulation, Stage, Step, Wait},
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
            Step::Block(wait) => self.wait(thread, cpu, wait),
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
                    self.tell(Kind::LockWake, cpu, |event| event.object = address);
                    self.first(thread, [Step::Work(300), Step::Wake(waiter, lock)]);
                }
            }
            Step::Wake(waiter, lock) => self.wake_from(waiter, Wait::Lock(lock), cpu),
            Step::Read(disk, position, bytes, waits) => {
                self.read_disk(thread, cpu, disk, position, bytes, waits)
            }
            Step::Ask(server) => {
                self.threads[thread].call = Call::Going(server);
                self.first(thread, [Step::Work(900), Step::Block(Wait::Answer), Step::Answered(server)]);
                self.send(thread, server, false, cpu);
            }
            Step::Answered(server) => self.receive(thread, server, cpu),
            Step::Serve => match self.threads[thread].calls.pop_front() {
                None => self.first(thread, [Step::Block(Wait::Calls), Step::Serve]),
                Some(client) => {
                    self.receive(thread, client, cpu);
                    let mut steps = self.service(thread);
                    steps.push(Step::Answer(client));
                    self.threads[thread].steps.extend(steps);
                }
            },
            Step::Answer(client) => {
                self.threads[client].call = Call::Coming(thread);
                self.send(thread, client, true, cpu);
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
        self.tell(Kind::DiskQueue, cpu, |event| {
            (event.object, event.position, event.bytes) = (object, position, bytes);
        });
        if self.disks[disk].merge(position, bytes, waiter) {
            self.tell(Kind::DiskMerge, cpu, |event| {
                (event.object, event.position, event.bytes) = (object, position, bytes);
            });
        } else {
            for at in 0..bytes.div_ceil(LARGEST) {
                let waiters = waiter.into_iter().collect();
                let (position, bytes) = (position + at * LARGEST / SECTOR, LARGEST.min(bytes - at * LARGEST));
                self.disks[disk].queue.push_back(Request { position, bytes, waiters });
            }
        }
        self.issue(disk, cpu);
    }

    /// Gives the disk what waits, as far as it takes more.
    fn issue(&mut self, disk: usize, cpu: Cpu) {
        while let Some(place) = self.disks[disk].given.iter().position(Option::is_none) {
            let Some(request) = self.disks[disk].queue.pop_front() else { return };
            let (object, position, bytes) = (self.disks[disk].device, request.position, request.bytes);
            for &waiter in &request.waiters {
                self.threads[waiter].access.1 = Stage::Given;
            }
            self.disks[disk].given[place] = Some(request);
            self.tell(Kind::DiskIssue, cpu, |event| {
                (event.object, event.position, event.bytes) = (object, position, bytes);
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
        let port = |at: Thread| match self.threads[at].role {
            Role::Server(_) => 5_000 + at as u64,
            _ => 40_000 + at as u64 % 20_000,
        };
        // A server that asks another one does so from a port of its own.
        let local = if self.asks(thread, other) { port(thread) | 0x8000 } else { port(thread) };
        let remote = if self.asks(other, thread) { port(other) | 0x8000 } else { port(other) };
        let position = (address(thread) ^ address(other)) << 32 | local << 16 | remote;
        (0xffff_8880_0000_0000 | (thread as u64) << 32 >> 8 | (other as u64) << 6, position)
    }

    fn asks(&self, thread: Thread, other: Thread) -> bool {
        let level = |at: Thread| match self.threads[at].role {
            Role::Server(level) => level + 1,
            _ => 0,
        };
        level(thread) < level(other)
    }

    fn send(&mut self, from: Thread, to: Thread, answer: bool, cpu: Cpu) {
        let (object, position) = self.socket(from, to);
        let bytes = if answer { 4_000 } else { 200 };
        debug_assert_eq!(Connection(position).peer().0, self.socket(to, from).1);
        self.tell(Kind::Send, cpu, |event| {
            (event.object, event.position, event.bytes) = (object, position, bytes);
        });
        if self.threads[from].domain != self.threads[to].domain {
            let way = self.random.between(20_000, 90_000);
            self.alarm(way, Alarm::Arrive(from, to, answer));
        } else if self.random.percent(50) {
            self.loopback(cpu, from, to, answer);
        } else {
            self.deliver(from, to, answer, cpu);
        }
    }

    fn receive(&mut self, thread: Thread, other: Thread, cpu: Cpu) {
        let (object, position) = self.socket(thread, other);
        let bytes = if self.asks(thread, other) { 4_000 } else { 200 };
        self.tell(Kind::Receive, cpu, |event| {
            (event.object, event.position, event.bytes) = (object, position, bytes);
        });
    }

    /// A message is at its receiver.
    pub(crate) fn deliver(&mut self, from: Thread, to: Thread, answer: bool, cpu: Cpu) {
        if answer {
            self.threads[to].call = Call::Back;
            self.wake_from(to, Wait::Answer, cpu);
        } else {
            self.threads[from].call = Call::There(to);
            self.threads[to].calls.push_back(from);
            self.wake_from(to, Wait::Calls, cpu);
        }
    }
}
