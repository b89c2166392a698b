//! Where the time between two moments of a thread went.
//!
//! The way goes back along the thread's line. While it ran or was ready, it was its own time, less that of
//! interrupts above it. While it waited for a disk, it was the disk's. While it waited and another thread woke it,
//! it was what that thread did meanwhile, which is told in the same way: so the way goes on through wakers, as far
//! as there are any. While it waited for the other end of a connection, it was what that end did until it sent, in
//! whatever domain that is, and then the way in between. An answer's work may have gone on from thread to thread: the way
//! leads from what a thread received to who had asked for that. Before a thread began, it was what its maker did; if what came
//! had to be sent again, the way leads to who sent it first. What a guest's processor does is told of the time only in which its vCPU was inside
//! the guest: the rest is the host's. The parts neither overlap nor leave a gap, so they sum to the whole exactly.

mod access;
mod backend;
mod delivery;
mod exchange;
mod frequency;
mod leg;
mod processor;
mod ready;
mod trail;
mod transit;

use std::fmt;

use xweave_replay::{CpuId, Ended, Source, ThreadId, ThreadState};
use xweave_trace::event::State;

use self::transit::Transit;
pub(crate) use self::{
    leg::{breakdown_of_carrier_at, breakdown_until_read_at},
    processor::time_on_cpu,
};
use crate::{
    connection::{EndId, Refused},
    disk::DiskId,
    held::Holder,
    machine::Machine,
    power::Power,
    wait::WaitedFor,
};

/// Wakers of wakers up to here: further, and where threads have woken each other in a circle, a wait is a wait.
const DEPTH: usize = 32;

/// Nanoseconds within which who gives a lock away has woken who waits for it.
const GIVES: i64 = 100_000;

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
    /// What holds messages back on their way.
    Holder(Holder),
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum TimeState {
    /// A thread ran, or interrupts did above it.
    Running,
    /// It could have run, and another had the processor.
    Ready,
    /// It could have run, and its processor was idle: it was still waking up.
    Waking,
    /// It could have run, and a CPU quota (`cpu.max`) was used up.
    Throttled,
    /// An access waited for the disk.
    Queue,
    /// The disk did it.
    Device,
    /// What a disk had done was on its way back to who waited.
    Completion,
    /// The lock was held.
    Lock,
    /// A frame waited in a queueing discipline.
    Qdisc,
    /// A frame waited for the link-layer address of its next hop.
    Neigh,
    /// TCP held back what it was given to send.
    SendQueue,
    /// Something sent was on its way.
    Network,
    /// Something sent did not arrive: TCP waited before it sent it again.
    Retransmit,
    /// The hypervisor worked for the vCPU: it had left the guest.
    Exit,
    /// The vCPU could have gone on, and another thread had its processor.
    Preempted,
    /// The vCPU was halted.
    Halted,
    /// The thread was stopped: by a signal, or by who traces it.
    Stopped,
    /// The thread waited for a time, a device, or something that no event tells of.
    Waiting,
    /// What the thread did is not known: the trace begins later, or events were lost.
    Unknown,
}

impl From<Holder> for TimeState {
    fn from(holder: Holder) -> Self {
        match holder {
            Holder::Qdisc(_) => Self::Qdisc,
            Holder::Neigh { .. } => Self::Neigh,
            Holder::SendQueue { .. } => Self::SendQueue,
        }
    }
}

impl TimeState {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        self.into()
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
    /// The same, and that is of the same process.
    HadByOwn(ThreadId),
    /// It was sent again so many times.
    Repeated(usize),
    /// The same, because it was not answered.
    Refused(usize, Refused),
    /// A thread waited for the futex at this address meanwhile.
    Futex(u64),
    /// The same, and that is a lock, which the thread that ended the wait had held.
    HeldFutex(u64),
    /// A thread waited for this meanwhile.
    Awaited(WaitedFor),
    /// It had not yet received what it then took up, and did not wait for it: it may have run for others.
    Earlier,
    /// This thread had received the request.
    Moved(ThreadId),
    /// So many times something was sent before the answer came: if these were requests, what was done for which cannot be
    /// told.
    Ahead(usize),
    /// The processor saved power.
    Power(Power),
    /// Interrupts of the host ran above the vCPU's thread.
    Interrupted,
    /// The vCPU had come out of its guest for this reason, as an event's `code` ([`ExitReason`](crate::ExitReason)).
    Exited(i32),
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
    let mut walk = BackwardWalk::new(machine);
    walk.follow(thread, from, to);
    walk.pieces()
}

/// The pieces of a request's time, from when it was sent on a connection, of which `end` is the end that asks, until
/// `thread` received the answer: not all that this thread, or the one that answered, did meanwhile was for it. Until the
/// answer was sent it is told of who sent that; only then of who received it.
pub fn breakdown_of_request(
    machine: &Machine,
    thread: ThreadId,
    end: EndId,
    from: i64,
    to: i64,
) -> Vec<Piece> {
    let mut walk = BackwardWalk::new(machine);
    walk.exchanged(thread, thread, end, from, to);
    walk.pieces()
}

/// The pieces of an answer's time, from when the request was received at `end` until `thread` sent it.
pub fn breakdown_of_answer(
    machine: &Machine,
    thread: ThreadId,
    end: EndId,
    from: i64,
    to: i64,
) -> Vec<Piece> {
    let mut walk = BackwardWalk::new(machine);
    walk.exchange = Some(Exchange { asks: None, answers: Some(Answer { end, sent: to }) });
    // Of several datagrams it may be the answer to another one.
    let others = machine.connections.answered(end, to).and_then(|answered| answered.left);
    walk.note = others.map(|(left, _)| Cause::Ahead(left.saturating_add(1)));
    walk.trail(thread, from, to);
    walk.pieces()
}

/// The pieces of a processor's time between two moments: for what goes on above no thread, as a packet does. What the processor
/// did instead is unknown, but for a guest's that had an interrupt pending and could not take it.
pub fn breakdown_of_cpu(machine: &Machine, cpu: CpuId, from: i64, to: i64) -> Vec<Piece> {
    let mut walk = BackwardWalk::new(machine);
    let interrupts = Object::Interrupts(cpu);
    let gaps: Vec<_> = machine.cpu(cpu).into_iter().flat_map(|cpu| cpu.gaps(from, to)).collect();
    let mut end = to;
    for gap in gaps.into_iter().rev() {
        walk.on_cpu(cpu, gap.to, end, interrupts, TimeState::Unknown);
        walk.add(gap.from, gap.to, interrupts, TimeState::Unknown);
        end = gap.from;
    }
    walk.on_cpu(cpu, from, end, interrupts, TimeState::Unknown);
    walk.pieces()
}

/// The pieces of the time between two moments of what then goes on upon a processor, above a thread: of that thread,
/// or of the processor's interrupts, if the processor is idle or serves one at the end.
pub fn breakdown_at(machine: &Machine, cpu: CpuId, tid: u32, from: i64, to: i64) -> Vec<Piece> {
    let interrupted = || machine.cpu(cpu).is_some_and(|cpu| cpu.interrupts(to - 1, to).next().is_some());
    if tid == 0 || interrupted() {
        return breakdown_of_cpu(machine, cpu, from, to);
    }
    breakdown(machine, ThreadId { domain: cpu.domain, tid }, from, to)
}

/// The pieces of a connection's coming about between two moments, `asks` being the end that asked: what was asked
/// was on its way, or was sent again as nobody had answered.
pub fn breakdown_of_handshake(machine: &Machine, asks: EndId, from: i64, to: i64) -> Vec<Piece> {
    let Some(answers) = machine.connections.peer(asks) else { return Vec::new() };
    let service = machine.connections.service(asks);
    let mut walk = BackwardWalk::new(machine);
    walk.repeat(asks, from, from, to, Transit::between(asks, answers, service));
    walk.pieces()
}

/// A request and its answer.
#[derive(Clone, Copy)]
struct Exchange {
    /// The end that asks, if something was seen of it.
    asks: Option<EndId>,
    /// While it is told of who answers.
    answers: Option<Answer>,
}

/// How a request is answered.
#[derive(Clone, Copy)]
struct Answer {
    end: EndId,
    /// When.
    sent: i64,
}

struct BackwardWalk<'m> {
    machine: &'m Machine,
    /// The threads whose waits have led here.
    on: Vec<ThreadId>,
    /// The request and answer whose time is told; none if it is a thread's.
    exchange: Option<Exchange>,
    /// The futex, or what else, that the first thread waited for on the way here of which that is known.
    awaited: Option<Cause>,
    /// The access to a disk, by its number, that who is told of completed for another one.
    handed_access: Option<u64>,
    /// What is known of the threads that run.
    note: Option<Cause>,
    /// From the last to the first.
    back: Vec<Piece>,
}

impl<'m> BackwardWalk<'m> {
    fn new(machine: &'m Machine) -> Self {
        Self {
            machine,
            on: Vec::new(),
            exchange: None,
            awaited: None,
            handed_access: None,
            note: None,
            back: Vec::new(),
        }
    }

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
            let runs = spent == TimeState::Running && matches!(object, Object::Thread(_));
            let cause = cause.or(self.awaited).or(self.note.filter(|_| runs));
            let depth = u8::try_from(self.on.len().saturating_sub(1)).unwrap_or(u8::MAX);
            self.back.push(Piece { from, to, object, spent, cause, depth });
        }
    }

    fn follow(&mut self, id: ThreadId, from: i64, to: i64) {
        let me = Object::Thread(id);
        let machine = self.machine;
        self.on.push(id);
        match machine.threads().get(id) {
            None => self.add(from, to, me, TimeState::Unknown),
            Some(thread) => {
                for (a, b, doing) in machine.threads().line(id, from, to).into_iter().rev() {
                    match doing {
                        Some(ThreadState::Unknown) => self.add(a, b, me, TimeState::Unknown),
                        None => match thread.born_of(b) {
                            // Before it began, whoever made it was on the way to that.
                            Some(maker) if !self.far(maker) => self.follow(maker, a, b),
                            _ => self.add(a, b, me, TimeState::Unknown),
                        },
                        Some(ThreadState::Ready { cpu, since }) => {
                            self.ready(id, cpu.or_else(|| thread.next_cpu(b)), since, a, b);
                        }
                        Some(ThreadState::Running { cpu }) => {
                            self.on_cpu(CpuId { domain: id.domain, cpu }, a, b, me, TimeState::Running);
                        }
                        Some(ThreadState::Waiting { state, over }) => {
                            let awaited = machine.waited_for(id, b).map(Cause::Awaited);
                            if self.awaiting(awaited, |walk| walk.waiting(id, state, over, from, a, b)) {
                                break;
                            }
                        }
                    }
                }
            }
        }
        self.on.pop();
    }

    /// Does something on the way that a wait for this leads to, unless that of another one has led here.
    fn awaiting<T>(&mut self, awaited: Option<Cause>, does: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.awaited;
        self.awaited = outer.or(awaited);
        let done = does(self);
        self.awaited = outer;
        done
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
        if let Some(Ended::Interrupt { access: Some(number), cpu, .. }) = over
            && let Some(access) = self.machine.disks.access(number)
        {
            self.accessing(access, id, Some(cpu), from, to);
            return false;
        }
        if let Some(Ended::Thread { by, .. }) = over
            && self.handed(id, by, from, to)
        {
            return false;
        }
        if over.is_some()
            && let Some(awaited) = self.machine.connections.waited_for(id, to)
            && let Some(left) = self.peer(id, awaited, over, begin, from, to)
        {
            return left;
        }
        if let Some(over) = over
            && self.had_no_request(id, to)
        {
            // What it does next tells that it did not wait for a lock, say, for somebody else's request.
            let takes =
                self.machine.connections.waited_for(id, to).is_some_and(|awaited| self.serves(awaited.end));
            match over {
                // It had nothing to do, until another thread handed the request on.
                Ended::Thread { by, softirq: false } if takes && !self.far(by) => {
                    self.follow(by, begin, to);
                    return true;
                }
                // It had nothing to do, until something came, which another thread received.
                Ended::Thread { softirq: true, .. } | Ended::Interrupt { source: Source::Network, .. } => {
                    if let Some(asks) = self.exchange.and_then(|exchange| exchange.asks) {
                        self.request_on_its_way(id, asks, begin, to);
                        return true;
                    }
                }
                _ => {}
            }
        }
        match over {
            Some(Ended::Thread { by: waker, .. }) if waker != id => {
                let lock = self.machine.lock(id, to);
                // That it is one, and was given, may be among what was lost.
                if lock.is_some()
                    && self.machine.threads().lost(id.domain, to.saturating_sub(GIVES).max(from), to)
                {
                    self.add(from, to, me, TimeState::Unknown);
                    return false;
                }
                // A futex that is not known as a lock may be anything that threads wait for.
                self.awaiting(lock.map(Cause::Futex), |walk| walk.follow_waker(id, waker, from, to));
            }
            // Who completes an access waits for that itself.
            _ => match self.handed_access.and_then(|number| self.machine.disks.access(number)) {
                Some(access) => {
                    self.accessing(access, id, over.and_then(Ended::cpu), from, to);
                }
                None => self.until_interrupt(id, over, from, to),
            },
        }
        false
    }

    /// A wait that another thread ended by giving what events tell of: a lock, or an access to a disk that it completed. That was
    /// waited for, whatever the thread took up next. Whether it was such a wait.
    fn handed(&mut self, id: ThreadId, by: ThreadId, from: i64, to: i64) -> bool {
        let machine = self.machine;
        if by == id {
            return false;
        }
        match machine.lock(id, to) {
            // A lock of the kernel's is given by who held it.
            Some(address) if !is_futex(address) => {
                self.add(from, to, Object::Lock { address, holder: by }, TimeState::Lock);
            }
            Some(address) if machine.held_futex(id, to, by, address) => {
                let awaited = Some(Cause::HeldFutex(address));
                self.awaiting(awaited, |walk| walk.follow_waker(id, by, from, to));
            }
            _ => {
                let Some(access) = machine.handed_access(id, to) else { return false };
                let outer = self.handed_access.replace(access);
                self.follow_waker(id, by, from, to);
                self.handed_access = outer;
            }
        }
        true
    }

    /// What the thread did that ended a wait, unless the way has come from there.
    fn follow_waker(&mut self, id: ThreadId, by: ThreadId, from: i64, to: i64) {
        if self.far(by) {
            return self.add(from, to, Object::Thread(id), TimeState::Waiting);
        }
        let since = self.had_nothing_until(id, by, from, to);
        self.follow(by, since, to);
        self.add(from, since, Object::Thread(id), TimeState::Waiting);
    }

    /// Since when what the thread did that ended a wait may have been for that: if nothing tells what was waited for, and it is of
    /// another process, as the kernel's threads are, it may only have brought it. Before it last slept it did other things; but
    /// for a disk it waits in the middle of something.
    fn had_nothing_until(&self, id: ThreadId, by: ThreadId, from: i64, to: i64) -> i64 {
        let threads = self.machine.threads();
        let [own, other] = [id, by].map(|id| threads.process(id));
        if self.awaited.is_some() || self.handed_access.is_some() || own == 0 || other == 0 || own == other {
            return from;
        }
        let of_disk = |over| matches!(over, Some(Ended::Interrupt { access: Some(_), .. }));
        let line = threads.line(by, from, to);
        waits(&line).find(|wait| !of_disk(wait.over)).map_or(from, |wait| wait.from)
    }

    /// Whether the way must not lead to a thread.
    fn far(&self, thread: ThreadId) -> bool {
        self.on.contains(&thread) || self.on.len() >= DEPTH
    }
}

/// A wait of a thread, from when until when, in nanoseconds, and what ended it.
struct Wait {
    from: i64,
    to: i64,
    over: Option<Ended>,
}

/// The waits of a thread's line, from the last to the first.
fn waits(line: &[(i64, i64, Option<ThreadState>)]) -> impl Iterator<Item = Wait> {
    line.iter().rev().filter_map(|(from, to, doing)| match *doing {
        Some(ThreadState::Waiting { over, .. }) => Some(Wait { from: *from, to: *to, over }),
        _ => None,
    })
}

/// Whether a lock's address is one of user space: a futex's.
fn is_futex(address: u64) -> bool {
    address >> 63 == 0
}
