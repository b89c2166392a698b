//! Where the time between two moments of a thread went.
//!
//! The way goes back along the thread's line. While it ran or was ready, it was its own time, less that of
//! interrupts above it. While it waited for a disk, it was the disk's. While it waited and another thread woke it,
//! it was what that thread did meanwhile, which is told in the same way: so the way goes on through wakers, as far
//! as there are any. While it waited for the other end of a connection, it was what that end did until it sent, in
//! whatever domain that is, and then the way in between; before it began, it was what its maker did; if what came had to be sent again, the way leads to who
//! sent it first. What a guest's processor does is told of the time only in which its vCPU was inside
//! the guest: the rest is the host's. The parts neither overlap nor leave a gap, so they sum to the whole exactly.

use std::fmt;

use xweave_trace::event::{Connection, State};

use crate::{
    connection::Refused,
    disk::DiskId,
    machine::Machine,
    thread::{Ended, Thread, ThreadId, ThreadState},
    vcpu::{CpuId, Vcpu},
};

/// Wakers of wakers up to here: further, and where threads have woken each other in a circle, a wait is a wait.
const DEPTH: usize = 32;

/// Whose time it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// A thread.
    Thread(ThreadId),
    /// A disk.
    Disk(DiskId),
    /// A lock at an address, and who held it.
    Lock {
        /// The address.
        address: u64,
        /// The thread that gave it away.
        holder: ThreadId,
    },
    /// Interrupts of a processor.
    Interrupts(CpuId),
    /// A vCPU, named as its guest does; the time is the host's.
    Vcpu(CpuId),
    /// What lies between the two ends of a connection.
    Link {
        /// The domain that sent.
        from: u8,
        /// The domain that received.
        to: u8,
        /// The port by which the service is known.
        service: u16,
    },
    /// The other end of a domain's connection, of which there are no events.
    Remote {
        /// The domain.
        domain: u8,
        /// The port by which the service is known.
        service: u16,
    },
}

/// What it was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimeState {
    /// A thread ran, or interrupts did above it.
    Running,
    /// It could have run, and another had the processor.
    Ready,
    /// It could have run, and its processor was idle: it was still waking up.
    Waking,
    /// An access waited for the disk.
    Queue,
    /// The disk did it.
    Device,
    /// What a disk had done was on its way back to who waited.
    Completion,
    /// The lock was held.
    Lock,
    /// Something sent was on its way.
    Network,
    /// Something sent did not arrive: TCP waited before it sent it again.
    Retransmit,
    /// The hypervisor worked for the vCPU: it had left the guest.
    Exit,
    /// The vCPU could have gone on, and another thread had its processor.
    Preempted,
    /// The vCPU was halted, or its thread waited for something else.
    Halted,
    /// The thread was stopped: by a signal, or by who traces it.
    Stopped,
    /// The thread waited for a time, a device, or something that no event tells of.
    Waiting,
    /// What the thread did is not known: the trace begins later, or events were lost.
    Unknown,
}

impl TimeState {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Waking => "waking",
            Self::Queue => "queue",
            Self::Device => "device",
            Self::Completion => "completion",
            Self::Lock => "lock",
            Self::Network => "network",
            Self::Retransmit => "retransmit",
            Self::Exit => "exit",
            Self::Preempted => "preempted",
            Self::Halted => "halted",
            Self::Stopped => "stopped",
            Self::Waiting => "waiting",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for TimeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What more is known of why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// This thread had the processor.
    Had(ThreadId),
    /// It was sent again so many times.
    Repeated(usize),
    /// The same, because it was not answered.
    Refused(usize, Refused),
}

/// A piece of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its beginning, in nanoseconds.
    pub from: i64,
    /// Its end, the next one's beginning.
    pub to: i64,
    /// Whose it was.
    pub object: Object,
    /// What it was spent on.
    pub spent: TimeState,
    /// What more is known of why.
    pub cause: Option<Cause>,
    /// For how many others, each waiting for the next, the object worked: 0 is the transaction's own thread.
    pub depth: u8,
}

/// The pieces of a thread's time between two moments, in their order and without gaps.
pub fn breakdown(machine: &Machine, thread: ThreadId, from: i64, to: i64) -> Vec<Piece> {
    let mut walk = BackwardWalk { machine, on: Vec::new(), back: Vec::new() };
    walk.follow(thread, from, to);
    walk.pieces()
}

/// The pieces of a processor's time between two moments: for what goes on above no thread, as a packet does.
pub fn breakdown_of_cpu(machine: &Machine, cpu: CpuId, from: i64, to: i64) -> Vec<Piece> {
    let mut walk = BackwardWalk { machine, on: Vec::new(), back: Vec::new() };
    let interrupts = Object::Interrupts(cpu);
    let gaps: Vec<_> = machine.cpu(cpu).into_iter().flat_map(|cpu| cpu.gaps(from, to)).collect();
    let mut end = to;
    for (lost, known) in gaps.into_iter().rev() {
        walk.on_cpu(cpu, known, end, interrupts, TimeState::Waiting);
        walk.add(lost, known, interrupts, TimeState::Unknown);
        end = lost;
    }
    walk.on_cpu(cpu, from, end, interrupts, TimeState::Waiting);
    walk.pieces()
}

/// The pieces of a connection's coming about between two moments, `connection` being the end that asked: what was asked
/// was on its way, or was sent again as nobody had answered.
pub fn breakdown_of_handshake(machine: &Machine, connection: Connection, from: i64, to: i64) -> Vec<Piece> {
    let ends = [connection, connection.peer()].map(|end| machine.connections.end(end));
    let [Some(asks), Some(answers)] = ends else { return Vec::new() };
    let link = Object::Link { from: asks.domain, to: answers.domain, service: asks.service };
    let mut walk = BackwardWalk { machine, on: Vec::new(), back: Vec::new() };
    walk.repeat(connection, from, from, to, link, TimeState::Network);
    walk.pieces()
}

struct BackwardWalk<'m> {
    machine: &'m Machine,
    /// The threads whose waits have led here.
    on: Vec<ThreadId>,
    /// From the last to the first.
    back: Vec<Piece>,
}

impl BackwardWalk<'_> {
    /// In their order; neighbours that are the same are one.
    fn pieces(mut self) -> Vec<Piece> {
        self.back.reverse();
        self.back.dedup_by(|next, piece| {
            let what = |piece: &Piece| (piece.object, piece.spent, piece.cause, piece.depth);
            let same = what(next) == what(piece);
            if same {
                piece.to = next.to;
            }
            same
        });
        self.back
    }

    /// Adds a piece before those that there are.
    fn add(&mut self, from: i64, to: i64, object: Object, spent: TimeState) {
        self.because(from, to, object, spent, None);
    }

    fn because(&mut self, from: i64, to: i64, object: Object, spent: TimeState, cause: Option<Cause>) {
        if from < to {
            let depth = u8::try_from(self.on.len().saturating_sub(1)).unwrap_or(u8::MAX);
            self.back.push(Piece { from, to, object, spent, cause, depth });
        }
    }

    fn follow(&mut self, id: ThreadId, from: i64, to: i64) {
        let me = Object::Thread(id);
        let machine = self.machine;
        self.on.push(id);
        match machine.threads.get(id) {
            None => self.add(from, to, me, TimeState::Unknown),
            Some(thread) => {
                for (a, b, doing) in machine.threads.line(id, from, to).into_iter().rev() {
                    match doing {
                        Some(ThreadState::Unknown) => self.add(a, b, me, TimeState::Unknown),
                        None => match thread.born_of(b) {
                            // Before it began, whoever made it was on the way to that.
                            Some(maker) if !self.far(maker) => self.follow(maker, a, b),
                            _ => self.add(a, b, me, TimeState::Unknown),
                        },
                        Some(ThreadState::Ready) => self.ready(id, thread, a, b),
                        Some(ThreadState::Running { cpu }) => {
                            self.on_cpu(CpuId { domain: id.domain, cpu }, a, b, me, TimeState::Running);
                        }
                        Some(ThreadState::Waiting { state, over }) => {
                            if self.waiting(id, state, over, from, a, b) {
                                break;
                            }
                        }
                    }
                }
            }
        }
        self.on.pop();
    }

    /// What a processor was for, between its interrupts.
    fn on_cpu(&mut self, cpu: CpuId, from: i64, to: i64, object: Object, spent: TimeState) {
        let machine = self.machine;
        let interrupts: Vec<_> =
            machine.cpu(cpu).into_iter().flat_map(|cpu| cpu.interrupts(from, to)).collect();
        let mut end = to;
        for interrupt in interrupts.into_iter().rev() {
            self.in_guest(cpu, interrupt.to, end, object, spent, None);
            self.in_guest(
                cpu,
                interrupt.from,
                interrupt.to,
                Object::Interrupts(cpu),
                TimeState::Running,
                None,
            );
            end = interrupt.from;
        }
        self.in_guest(cpu, from, end, object, spent, None);
    }

    /// What a processor was for, if it is no virtual one, or while that was inside its guest.
    fn in_guest(
        &mut self,
        cpu: CpuId,
        from: i64,
        to: i64,
        object: Object,
        spent: TimeState,
        cause: Option<Cause>,
    ) {
        let Some(vcpu) = self.machine.vcpus.of(cpu, from) else {
            return self.because(from, to, object, spent, cause);
        };
        let inside: Vec<_> = vcpu.inside(from, to).collect();
        let mut end = to;
        for (entered, left) in inside.into_iter().rev() {
            self.in_host(cpu, vcpu, left, end);
            self.because(entered, left, object, spent, cause);
            end = entered;
        }
        self.in_host(cpu, vcpu, from, end);
    }

    /// A vCPU was outside its guest.
    fn in_host(&mut self, cpu: CpuId, vcpu: &Vcpu, from: i64, to: i64) {
        if from >= to {
            return;
        }
        let object = Object::Vcpu(cpu);
        let Some(thread) = self.machine.threads.get(vcpu.thread) else {
            return self.add(from, to, object, TimeState::Unknown);
        };
        for (a, b, doing) in self.machine.threads.line(vcpu.thread, from, to).into_iter().rev() {
            match doing {
                None | Some(ThreadState::Unknown) => self.add(a, b, object, TimeState::Unknown),
                Some(ThreadState::Running { .. }) => self.add(a, b, object, TimeState::Exit),
                Some(ThreadState::Waiting { .. }) => self.add(a, b, object, TimeState::Halted),
                Some(ThreadState::Ready) => {
                    // Who had the processor may be among what was lost, and which it was.
                    let lost = self.machine.threads.lost(vcpu.thread.domain, b, b + 1);
                    for (a, b, had) in self.had_the_cpu(vcpu.thread, thread, a, b) {
                        if had.is_none() && lost {
                            self.add(a, b, object, TimeState::Unknown);
                            continue;
                        }
                        let cause = had.filter(|had| had.tid != 0).map(Cause::Had);
                        let spent = if cause.is_none() && had.is_some() {
                            TimeState::Halted
                        } else {
                            TimeState::Preempted
                        };
                        self.because(a, b, object, spent, cause);
                    }
                }
            }
        }
    }

    /// Who had the processor that a thread was waiting for, from the last to the first; none where that is not
    /// known.
    fn had_the_cpu(
        &self,
        id: ThreadId,
        thread: &Thread,
        from: i64,
        to: i64,
    ) -> Vec<(i64, i64, Option<ThreadId>)> {
        let cpu = thread.next_cpu(to).and_then(|cpu| self.machine.cpu(CpuId { domain: id.domain, cpu }));
        let mut had = Vec::new();
        let mut at = from;
        for stretch in cpu.into_iter().flat_map(|cpu| cpu.threads(from, to)) {
            if at < stretch.from {
                had.push((at, stretch.from, None));
            }
            had.push((stretch.from, stretch.to, Some(ThreadId { domain: id.domain, tid: stretch.tid })));
            at = stretch.to;
        }
        if at < to {
            had.push((at, to, None));
        }
        had.reverse();
        had
    }

    fn ready(&mut self, id: ThreadId, thread: &Thread, from: i64, to: i64) {
        let me = Object::Thread(id);
        let cpu = thread.next_cpu(to).map(|cpu| CpuId { domain: id.domain, cpu });
        for (a, b, had) in self.had_the_cpu(id, thread, from, to) {
            let (spent, cause) = match had {
                // Itself: it was seen to be ready before the processor had left it.
                Some(had) if had.tid != 0 && had != id => (TimeState::Ready, Some(Cause::Had(had))),
                Some(had) if had.tid == 0 => (TimeState::Waking, None),
                _ => (TimeState::Ready, None),
            };
            match cpu {
                Some(cpu) => self.in_guest(cpu, a, b, me, spent, cause),
                // Whether the processor that it waited for was there is not known.
                None if self.machine.threads.lost(id.domain, to, to + 1) => {
                    self.add(a, b, me, TimeState::Unknown);
                }
                None => self.because(a, b, me, spent, cause),
            }
        }
    }

    /// A wait, or the part of it between two moments. Whether the way has left the thread: it was told from
    /// `begin` on.
    fn waiting(
        &mut self,
        id: ThreadId,
        state: State,
        over: Option<Ended>,
        begin: i64,
        from: i64,
        to: i64,
    ) -> bool {
        let me = Object::Thread(id);
        // Whatever it had been waiting for, and did when it went on.
        if state == State::Stopped {
            self.add(from, to, me, TimeState::Stopped);
            return false;
        }
        if over == Some(Ended::Lost) {
            self.add(from, to, me, TimeState::Unknown);
            return false;
        }
        if let Some(Ended::Interrupt { access: Some(number) }) = over
            && let Some(access) = self.machine.disks.access(number)
        {
            let disk = Object::Disk(access.disk);
            let issued = access.issued.unwrap_or(access.queued).clamp(from, to);
            let done = access.done.unwrap_or(to).clamp(issued, to);
            // It waited before the access was asked for only if somebody else did that.
            let queued = access.queued.clamp(from, issued);
            // When it was issued, or that this was another, may be among what was lost.
            let lost = self.machine.threads.lost(id.domain, access.queued, done);
            let state = |state| if lost { TimeState::Unknown } else { state };
            self.add(done, to, disk, TimeState::Completion);
            self.add(issued, done, disk, state(TimeState::Device));
            self.add(queued, issued, disk, state(TimeState::Queue));
            self.add(from, queued, me, TimeState::Waiting);
            return false;
        }
        if over.is_some()
            && let Some(connection) = self.machine.connections.waited_for(id, to)
            && let Some(left) = self.peer(id, connection, over, begin, from, to)
        {
            return left;
        }
        match over {
            Some(Ended::Thread(waker)) if waker != id => {
                if let Some(address) = self.machine.lock(id, to) {
                    self.add(from, to, Object::Lock { address, holder: waker }, TimeState::Lock);
                } else if self.far(waker) {
                    self.add(from, to, me, TimeState::Waiting);
                } else {
                    self.follow(waker, from, to);
                }
            }
            _ => self.add(from, to, me, TimeState::Waiting),
        }
        false
    }

    /// Whether the way must not lead to a thread.
    fn far(&self, thread: ThreadId) -> bool {
        self.on.contains(&thread) || self.on.len() >= DEPTH
    }

    /// A wait for the other end of a connection; none if what woke the thread is the better account.
    fn peer(
        &mut self,
        id: ThreadId,
        connection: Connection,
        over: Option<Ended>,
        begin: i64,
        from: i64,
        to: i64,
    ) -> Option<bool> {
        let connections = &self.machine.connections;
        // What the thread itself had sent, and is answered.
        let asked = connections.sent_to(connection.peer(), from, from).map_or(from, |sent| sent.time);
        let Some(peer) = connections.end(connection.peer()) else {
            if let Some(Ended::Thread(_)) = over {
                return None;
            }
            let service = connections.end(connection)?.service;
            let remote = Object::Remote { domain: id.domain, service };
            let spent = TimeState::Waiting;
            self.repeat(connection, asked, from, to, remote, spent);
            return Some(false);
        };
        // In one kernel the sender itself wakes who waits.
        let sent = connections.sent_to(connection, from, to);
        if let (Some(Ended::Thread(waker)), Some(sent)) = (over, sent)
            && waker == sent.thread
        {
            return None;
        }
        let link = Object::Link { from: peer.domain, to: id.domain, service: peer.service };
        // That something was sent, or was sent later, may be among what was lost.
        let since = sent.map_or(asked, |sent| sent.time);
        let lost = self.machine.threads.lost(peer.domain, since.min(to), to);
        let spent = if lost { TimeState::Unknown } else { TimeState::Network };
        let Some(sent) = sent else {
            // The kernel at the other end answered.
            self.repeat(connection, asked, from, to, link, spent);
            return Some(false);
        };
        // What had to be sent again was on its way since it was sent first: what the thread did before it
        // waited delayed nothing.
        let first = sent.time.min(to);
        if first < from && connections.repeated(connection, first, to).is_some() {
            let first = first.max(begin);
            self.repeat(connection, sent.time, first, to, link, spent);
            if !self.far(sent.thread) {
                self.follow(sent.thread, begin, first);
            } else {
                self.add(begin, first, Object::Thread(id), TimeState::Waiting);
            }
            return Some(true);
        }
        let first = first.max(from);
        self.repeat(connection, sent.time, first, to, link, spent);
        if self.far(sent.thread) {
            self.add(from, first, Object::Thread(id), TimeState::Waiting);
        } else {
            self.follow(sent.thread, from, first);
        }
        Some(false)
    }

    /// Something that was sent at `since` was on its way, of which the time between two moments is told: until it
    /// was last sent again it did not arrive.
    fn repeat(
        &mut self,
        connection: Connection,
        since: i64,
        from: i64,
        to: i64,
        object: Object,
        spent: TimeState,
    ) {
        let connections = &self.machine.connections;
        let Some((last, count)) = connections.repeated(connection, since.min(from), to) else {
            return self.add(from, to, object, spent);
        };
        let last = last.clamp(from, to);
        let cause = match connections.refused(connection, since.min(from), last) {
            Some(refused) => Cause::Refused(count, refused),
            None => Cause::Repeated(count),
        };
        self.add(last, to, object, spent);
        self.because(from, last, object, TimeState::Retransmit, Some(cause));
    }
}
