//! What passes from one place to the next: who is on the way, by what the two places have in common.

use rustc_hash::FxHashMap;
use xweave_replay::{CpuId, ThreadId};
use xweave_trace::event::{Access, Event, Kind, Names, Sending};

use crate::{
    breakdown::{Object, Piece, TimeState, breakdown, breakdown_at, breakdown_of_cpu},
    bytes::Bytes,
    connection::EndId,
    disk::DiskId,
    machine::Machine,
    place::{By, Mark, Place, Told},
    wait::{PipeId, pipe_of},
};

/// The most that are under way between two places: while as many are, others that begin are not followed. Of more
/// places than two, each pair has a share, so that all legs of those under way are no more than these.
const MOST: usize = 1 << 20;

/// The most calls of a function within one another, of a thread.
const NESTED: usize = 64;

/// After so many nanoseconds, what has not ended is given up, but of threads, which may wait for as long as they like:
/// most of it never ends, such as what was sent to where no events are recorded.
const PATIENCE: i64 = 60_000_000_000;

/// What joins a passing of one place with one of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joined {
    By(By),
    /// One request to a disk.
    Access,
    /// One direction of a connection: from the end that sends to the one that receives.
    Sent,
    /// One end of a connection.
    End,
    /// One connection: from one of its ends to the other, in another domain.
    Ends,
    /// One lock.
    Lock,
    /// One pipe.
    Pipe,
}

impl Joined {
    /// What two kinds of events have in common by nature; `apart`, if in a domain each.
    fn of(from: Kind, to: Kind, apart: bool) -> Self {
        use Kind as K;
        let both = |kinds: &[Kind]| kinds.contains(&from) && kinds.contains(&to);
        if both(&[K::DiskQueue, K::DiskIssue, K::DiskComplete]) {
            Self::Access
        } else if (from, to) == (K::Send, K::Receive) {
            Self::Sent
        } else if both(&[K::Send, K::Receive, K::Socket, K::Accept, K::Retransmit, K::SynDrop]) {
            if apart { Self::Ends } else { Self::End }
        } else if both(&[K::VmInject, K::IrqEnter, K::IrqExit, K::SoftirqEnter, K::SoftirqExit]) {
            Self::By(By::Cpu)
        } else if (from, to) == (K::LockWake, K::LockAcquired) {
            Self::Lock
        } else if both(&[K::PipeWrite, K::PipeRead, K::PipeFull]) {
            Self::Pipe
        } else {
            Self::By(By::Thread)
        }
    }
}

/// Who passed a place, as the other place tells it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Told(Told),
    Access(DiskId, u64),
    End(EndId),
    Lock(u8, u64),
    Pipe(PipeId),
}

impl Key {
    fn cpu(cpu: CpuId) -> Self {
        Self::Told(Told::Cpu(cpu))
    }
}

/// Something that passed the first place, the second one, or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    time: i64,
    cpu: CpuId,
    /// Whose time it is.
    thread: ThreadId,
    from: Option<Key>,
    to: Option<Key>,
    /// Which of the two it passed, whether or not it is known who did.
    pub(crate) at: [bool; 2],
    /// How much was read, written or sent there.
    bytes: Option<Bytes>,
    /// Which end of a connection passed the first place, and what that had sent and received before.
    end: Option<(EndId, Bytes)>,
    /// Whether a record tells it, and no event.
    recorded: bool,
}

impl Passing {
    /// A record at a place, or at the next, or at both; none if at neither.
    pub(crate) fn of(mark: &Mark, place: usize) -> Option<Self> {
        let Mark { time, cpu, thread, told, .. } = *mark;
        let at = [place, place + 1].map(|place| mark.is_of(place));
        let [from, to] = at.map(|is| is.then_some(Key::Told(told)));
        let passing = Self { time, cpu, thread, from, to, at, bytes: None, end: None, recorded: true };
        at.contains(&true).then_some(passing)
    }
}

/// What is on the way.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    from: i64,
    /// The domain of the first place.
    domain: u8,
    /// When the disk was given it.
    issued: Option<i64>,
    bytes: Option<Bytes>,
    end: Option<(EndId, Bytes)>,
    /// What it has behind it, from the first place on.
    legs: Vec<Leg>,
}

impl Open {
    /// All its legs, when it has passed the second place. If a time was lower than the one before, it counts as the same.
    pub(crate) fn and(self, passing: &Passing) -> Vec<Leg> {
        let Self { from, issued, bytes, end, mut legs, .. } = self;
        let passing = Passing { time: passing.time.max(from), ..*passing };
        legs.push(Leg { from, issued, bytes, end, passing });
        legs
    }

    fn since(&self) -> i64 {
        self.legs.first().map_or(self.from, Leg::from)
    }
}

/// The way from a place to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    from: i64,
    issued: Option<i64>,
    bytes: Option<Bytes>,
    end: Option<(EndId, Bytes)>,
    /// Of the second place.
    passing: Passing,
}

impl Leg {
    /// When it passed the first place.
    pub(crate) fn from(&self) -> i64 {
        self.from
    }

    /// When it passed the second place.
    pub(crate) fn to(&self) -> i64 {
        self.passing.time
    }

    /// The thread that passed the second place.
    pub(crate) fn thread(&self) -> ThreadId {
        self.passing.thread
    }

    /// How much was read, written or sent at the first place.
    pub(crate) fn bytes(&self) -> Option<Bytes> {
        self.bytes
    }

    /// How much the end of a connection that passed the first place has sent and received since.
    pub(crate) fn carried(&self, machine: &Machine) -> Option<Bytes> {
        self.end.map(|(end, before)| machine.connections.carried(end).since(before))
    }
}

/// Two places, and what is on the way from the first to the second.
#[derive(Debug)]
pub(crate) struct Pair {
    places: [Place; 2],
    joined: Joined,
    kinds: [Option<Kind>; 2],
    /// The numbers of the domains that are asked for; 0 is none's.
    domains: [Option<u8>; 2],
    open: FxHashMap<Key, Vec<Open>>,
    most: usize,
}

impl Pair {
    /// Two of so many places, in a trace whose domains have these numbers.
    pub(crate) fn new(
        places: [&Place; 2],
        by: Option<By>,
        of: usize,
        number: &dyn Fn(&str) -> Option<u8>,
    ) -> Self {
        let kinds = places.map(Place::kind);
        let joined = match (by, kinds) {
            (Some(by), _) => Joined::By(by),
            (None, [Some(from), Some(to)]) => {
                let named = places.map(|place| place.domain.as_ref());
                Joined::of(from, to, named.iter().all(Option::is_some) && named[0] != named[1])
            }
            (None, _) => Joined::By(By::Thread),
        };
        let domains = places.map(|place| place.domain.as_ref().map(|name| number(name).unwrap_or(0)));
        let pairs = of.saturating_sub(1).max(1);
        let most = MOST / (pairs * pairs);
        Self { places: places.map(Clone::clone), joined, kinds, domains, open: FxHashMap::default(), most }
    }

    /// Whether its places are one function or advice, whose calls may be within one another.
    fn nests(&self) -> bool {
        self.places[0].name == self.places[1].name && self.kinds[0].is_none()
    }

    /// Whether what is on the way is a request to a disk, or what was sent, or written to a pipe.
    pub(crate) fn carries_bytes(&self) -> bool {
        matches!(self.joined, Joined::Access | Joined::Sent | Joined::Pipe)
    }

    /// Whether both places are of one connection.
    pub(crate) fn is_of_a_connection(&self) -> bool {
        matches!(self.joined, Joined::Sent | Joined::End | Joined::Ends)
    }

    /// The beginning of the earliest that is under way, in nanoseconds.
    pub(crate) fn earliest(&self) -> Option<i64> {
        self.open.values().flatten().map(Open::since).min()
    }

    /// How many are under way.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Gives up what has been under way for too long.
    pub(crate) fn settle(&mut self, now: i64) {
        if self.joined != Joined::By(By::Thread) {
            self.open
                .retain(|_, open| open.last().is_some_and(|open| open.from.saturating_add(PATIENCE) > now));
        }
    }

    /// What an event is that the machine has taken in; none if it is at neither place.
    pub(crate) fn passing(&mut self, event: &Event, machine: &Machine, names: &Names) -> Option<Passing> {
        let [from, to] =
            [0, 1].map(|side| self.is(side, event, names).then(|| self.key(side, event, machine)));
        if event.kind == Kind::DiskIssue && self.joined == Joined::Access {
            let open = access(event).and_then(|key| self.open.get_mut(&key)).and_then(|open| open.last_mut());
            // Issued again, it had been in the queue again.
            open.into_iter().for_each(|open| open.issued = Some(event.time_ns));
        }
        if from.is_none() && to.is_none() {
            return None;
        }
        let cpu = match to.flatten() {
            Some(Key::Told(Told::Cpu(cpu))) => cpu,
            _ => CpuId { domain: event.domain, cpu: event.cpu },
        };
        let thread = ThreadId { domain: event.domain, tid: subject(1, event) };
        let (time, at) = (event.time_ns, [from.is_some(), to.is_some()]);
        let bytes = if self.carries_bytes() { bytes(event) } else { None };
        let end = match from.flatten() {
            Some(Key::End(end)) => Some((end, machine.connections.carried(end).since(Bytes::of(event)))),
            _ => None,
        };
        Some(Passing {
            time,
            cpu,
            thread,
            from: from.flatten(),
            to: to.flatten(),
            at,
            bytes,
            end,
            recorded: false,
        })
    }

    /// Something is on the way from the first place on.
    pub(crate) fn begin(&mut self, passing: &Passing, legs: Vec<Leg>) {
        let Some(key) = passing.from else { return };
        if self.open.len() >= self.most && !self.open.contains_key(&key) {
            return;
        }
        let nests = self.nests();
        let open = self.open.entry(key).or_default();
        if !nests || open.len() == NESTED {
            open.clear();
        }
        let from = legs.last().map_or(passing.time, Leg::to);
        let Passing { bytes, end, cpu: CpuId { domain, .. }, .. } = *passing;
        open.push(Open { from, domain, issued: None, bytes, end, legs });
    }

    /// What was on the way until now, if the second place was passed.
    pub(crate) fn end(&mut self, passing: &Passing) -> Option<Open> {
        let key = passing.to?;
        let open = self.open.get_mut(&key)?;
        let last = open.pop();
        if open.is_empty() {
            self.open.remove(&key);
        }
        last
    }

    /// Whether a place may have been passed meanwhile by what is joined: what was lost may have told of that. Of what
    /// stays on a CPU only that CPU's events would have. Records have losses of their own.
    pub(crate) fn is_uncertain(&self, open: &Open, passing: &Passing, machine: &Machine) -> bool {
        let lost = |domain, cpu| machine.lost(domain, cpu, open.from, passing.time);
        let CpuId { domain, cpu } = passing.cpu;
        match passing.to {
            _ if passing.recorded => false,
            None => false,
            Some(Key::Told(Told::Cpu(_))) if open.domain == domain => lost(domain, Some(cpu)),
            Some(Key::Told(Told::Cpu(_))) => lost(domain, Some(cpu)) || lost(open.domain, None),
            Some(_) => lost(domain, None) || (open.domain != domain && lost(open.domain, None)),
        }
    }

    /// The pieces of the time on the way.
    pub(crate) fn pieces(&self, leg: &Leg, machine: &Machine) -> Vec<Piece> {
        let Passing { time, cpu, thread, .. } = leg.passing;
        match (self.joined, leg.passing.to) {
            (Joined::Access, Some(Key::Access(disk, _))) => {
                let was_issued = self.kinds[0] == Some(Kind::DiskIssue);
                let issued = if was_issued { leg.from } else { leg.issued.unwrap_or(time).min(time) };
                let piece = |from, to, spent| {
                    let object = Object::Disk(disk);
                    (from < to).then_some(Piece { from, to, object, spent, cause: None, depth: 0 })
                };
                let queue = piece(leg.from, issued, TimeState::Queue);
                queue.into_iter().chain(piece(issued, time, TimeState::Device)).collect()
            }
            (Joined::By(By::Cpu), _) => breakdown_of_cpu(machine, cpu, leg.from, time),
            (Joined::By(By::Thread), _) if thread.tid != 0 => breakdown(machine, thread, leg.from, time),
            _ => breakdown_at(machine, cpu, thread.tid, leg.from, time),
        }
    }

    fn is(&self, side: usize, event: &Event, names: &Names) -> bool {
        let place = &self.places[side];
        let named = match event.kind {
            Kind::Other => names.text(event.name) == place.name && place.edge.is_none(),
            kind => self.kinds[side] == Some(kind) && place.has(event),
        };
        let corrects =
            matches!(event.kind, Kind::Send | Kind::PipeWrite) && Sending::of(event.code).corrects();
        named && !corrects && self.domains[side].is_none_or(|domain| domain == event.domain)
    }

    fn key(&self, side: usize, event: &Event, machine: &Machine) -> Option<Key> {
        let here = CpuId { domain: event.domain, cpu: event.cpu };
        match self.joined {
            Joined::By(By::Thread) => match subject(side, event) {
                0 => Some(Key::cpu(here)),
                tid => Some(Key::Told(Told::Thread(ThreadId { domain: event.domain, tid }))),
            },
            Joined::By(By::Cpu) if event.kind == Kind::VmInject => {
                let vcpu = machine.vcpus.which(ThreadId { domain: event.domain, tid: event.tid });
                vcpu.map(Key::cpu)
            }
            Joined::By(By::Cpu) => Some(Key::cpu(here)),
            Joined::By(By::Flow | By::Value(_)) => None,
            Joined::Access => access(event),
            // It is called after the end of the first place.
            Joined::Sent | Joined::Ends if side == 1 => {
                EndId::of(event).and_then(|end| machine.connections.peer(end)).map(Key::End)
            }
            Joined::Sent | Joined::End | Joined::Ends => EndId::of(event).map(Key::End),
            Joined::Lock => Some(Key::Lock(event.domain, event.object)),
            Joined::Pipe => Some(Key::Pipe(pipe_of(event))),
        }
    }
}

/// The thread that an event is about, as one of the first or the second place.
fn subject(side: usize, event: &Event) -> u32 {
    match event.kind {
        Kind::Wake | Kind::Fork | Kind::Migrate => event.other,
        // It left the processor, and came to it.
        Kind::Switch if side == 1 => event.other,
        _ => event.tid,
    }
}

/// The request of a disk's event: by what the kernel calls it by, or where it is.
fn access(event: &Event) -> Option<Key> {
    let disk = DiskId { domain: event.domain, device: event.object };
    let which = if event.other == 0 { event.position << 1 } else { u64::from(event.other) << 1 | 1 };
    let disks = [Kind::DiskQueue, Kind::DiskIssue, Kind::DiskComplete];
    disks.contains(&event.kind).then_some(Key::Access(disk, which))
}

/// How much a disk's request reads or writes, or was sent.
fn bytes(event: &Event) -> Option<Bytes> {
    match (event.kind, Access::of(event.code)) {
        (Kind::Send | Kind::PipeWrite, _) | (Kind::DiskQueue | Kind::DiskIssue, Access::Write) => {
            Some(Bytes { sent: event.bytes, received: 0 })
        }
        (Kind::DiskQueue | Kind::DiskIssue, Access::Read) => Some(Bytes { sent: 0, received: event.bytes }),
        _ => None,
    }
}
