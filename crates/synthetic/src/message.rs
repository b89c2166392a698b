//! Calls and answers on their way, and the sockets that they are sent and received on.

use xweave_trace::event::{Connection, Kind, Sending};

use crate::{
    id::{Cpu, Thread},
    state::{Alarm, Call, Role, Simulation, Step, TASK, WORKER, Wait},
};

/// The number of each domain's only network namespace.
const NETNS: u32 = 0xf000_0000;

/// Bytes of a call.
const CALL: u64 = 200;

/// Bytes of an answer.
const ANSWER: u64 = 4_000;

impl Simulation {
    /// The socket of one thread to another, and the connection as it knows it. Servers listen on ports of their own, tasks
    /// on one together; clients have one port each.
    fn socket(&self, thread: Thread, other: Thread) -> (u64, u64) {
        let address = |at: Thread| 0x0a4d_0000 | self.threads[at].domain as u64;
        // In each domain the same: over its loopback device it has them for itself.
        let apart = self.threads[thread].domain != self.threads[other].domain;
        let port = |at: Thread, asks: bool| {
            let domain = if apart { self.threads[at].domain as u64 } else { 0 };
            let tid = match self.domains[self.threads[at].domain].runtime.carriers.first() {
                Some(first) if self.level(at) == Some(TASK) && !asks => self.threads[*first].tid,
                _ => self.threads[at].tid,
            };
            let number = u64::from(tid) + domain * 5_000;
            match self.threads[at].role {
                // A server that asks another one does so from a port of its own.
                Role::Server(_) if asks => (4_000 + number) | 0x8000,
                Role::Server(_) => 4_000 + number,
                _ => 33_000 + number % 20_000,
            }
        };
        let (local, remote) = (port(thread, self.asks(thread, other)), port(other, self.asks(other, thread)));
        let position = (address(thread) ^ address(other)) << 32 | local << 16 | remote;
        (0xffff_8880_0000_0000 | (thread as u64) << 32 >> 8 | (other as u64) << 6, position)
    }

    fn asks(&self, thread: Thread, other: Thread) -> bool {
        let level = |at: Thread| self.level(at).map_or(0, |level| level + 1);
        level(thread) < level(other)
    }

    /// From `from` to `to`, on a socket of `owner`.
    pub(crate) fn send(&mut self, from: Thread, to: Thread, owner: Thread, answer: bool, cpu: Cpu) {
        let (object, position) = self.socket(owner, to);
        let bytes = if answer { ANSWER } else { CALL };
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

    /// So many messages of the other are received on a socket of `owner`.
    pub(crate) fn receive(&mut self, thread: Thread, owner: Thread, other: Thread, count: usize, cpu: Cpu) {
        let (object, position) = self.socket(owner, other);
        let each = if self.asks(owner, other) { ANSWER } else { CALL };
        let (calls, bytes) = if self.datagrams { (count, each) } else { (1, count as u64 * each) };
        // It waited within the call, or to be told when to make it.
        let since = self.threads[thread].receiving.take().filter(|_| self.level(thread) != Some(WORKER));
        let within = self.random.percent(50);
        let lasted = since.filter(|_| within).map_or(200, |since| self.now - since + 100);
        let lasted = if self.datagrams { 0 } else { i32::try_from(lasted).unwrap_or(i32::MAX) };
        for _ in 0..calls {
            self.tell(Kind::Receive, cpu, |event| {
                (event.object, event.position, event.bytes) = (object, position, bytes);
                (event.code, event.other) = (lasted, NETNS);
            });
        }
    }

    /// A pipe that a thread reads what others of its process have for it from; of others, it is a futex.
    fn pipe(&self, thread: Thread) -> Option<u64> {
        let tid = u64::from(self.threads[thread].tid);
        tid.is_multiple_of(2).then_some(1_000 + tid)
    }

    /// How a thread waits for what others of its process have for it.
    pub(crate) fn handed(&self, thread: Thread, wait: Wait) -> Step {
        match self.pipe(thread) {
            Some(pipe) => Step::Pipe(pipe, wait),
            None => Step::Futex(self.futex(thread), wait),
        }
    }

    /// From `from` to `to` in one process.
    pub(crate) fn hand(&mut self, from: Thread, to: Thread, answer: bool, cpu: Cpu) {
        if let Some(pipe) = self.pipe(to) {
            self.piped(Kind::PipeWrite, pipe, Sending::Begins.code().into(), cpu);
        }
        self.deliver(from, to, from, answer, cpu);
    }

    /// A pointer is written to a pipe, or read from it.
    pub(crate) fn piped(&mut self, kind: Kind, pipe: u64, code: i64, cpu: Cpu) {
        self.tell(kind, cpu, |event| {
            (event.object, event.position, event.bytes) = (pipe, 14, 8);
            event.code = i32::try_from(code).unwrap_or(i32::MAX);
        });
    }

    /// A message is at its receiver; a call came on a socket of `owner`.
    pub(crate) fn deliver(&mut self, from: Thread, to: Thread, owner: Thread, answer: bool, cpu: Cpu) {
        let wait = if answer {
            self.threads[to].call_goes_on(|call| call != Call::Back, Call::Back);
            Wait::Answer
        } else {
            self.threads[from].call_goes_on(|call| matches!(call, Call::Going(_)), Call::There(to));
            self.threads[to].calls.push_back((from, owner));
            Wait::Calls
        };
        if self.level(to) == Some(TASK) {
            self.readable(to, wait, cpu);
        } else {
            self.wake_from(to, wait, cpu);
        }
    }
}
