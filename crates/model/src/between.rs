//! Transactions that lie between two places: events, functions and advice, joined by what both tell.

use std::{fmt, str::FromStr};

use rustc_hash::FxHashMap;
use xweave_trace::{
    MAX_VALUES, Row, Site, Trace,
    event::{Event, Kind, Names, Sending},
};

use crate::{
    breakdown::{Object, Piece, TimeState, breakdown, breakdown_at, breakdown_of_cpu},
    connection::EndId,
    disk::DiskId,
    machine::Machine,
    thread::ThreadId,
    vcpu::CpuId,
};

/// The most that are under way: while as many are, others that begin are not followed.
const MOST: usize = 1 << 20;

/// The most calls of a function within one another, of a thread.
const NESTED: usize = 64;

/// After so many nanoseconds, what has not ended is given up, but of threads, which may wait for as long as they like:
/// most of it never ends, such as what was sent to where no events are recorded.
const PATIENCE: i64 = 60_000_000_000;

/// `FROM..TO[,by=KEY]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Between {
    from: Place,
    to: Place,
    by: Option<By>,
}

/// `NAME[:entry|:return][@DOMAIN]`: a kind of events, an event of another tool's, a function or advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it is called.
    pub name: String,
    /// Which end of the function.
    edge: Option<Edge>,
    /// The domain's name, if only that one's counts.
    pub domain: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Entry,
    Return,
}

/// Why a text names no two places, with what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BetweenError {
    /// There are not two names.
    #[error(
        "write between:FROM..TO, two names of events, functions or advice, such as between:disk_queue..disk_issue"
    )]
    Places,
    /// It does not say what joins the two.
    #[error("`{0}` joins nothing: write by=thread, by=cpu, by=flow, or by=v1 to by=v7 for a stored value")]
    By(String),
}

/// What is the same at both places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The thread: above which it happened, that was woken, switched to or begun.
    Thread,
    /// The processor; for what is injected into a vCPU, the guest's.
    Cpu,
    /// The flow that records belong to.
    Flow,
    /// What records stored, by its place from 0: in whatever domains.
    Value(usize),
}

impl Between {
    /// Both places.
    pub fn places(&self) -> [&Place; 2] {
        [&self.from, &self.to]
    }

    /// Whether its places are one function or advice, whose calls may be within one another.
    fn nests(&self) -> bool {
        self.from.name == self.to.name && self.from.kind().is_none()
    }
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (text, domain) = match text.rsplit_once('@') {
            Some((text, domain)) => (text, Some(domain)),
            None => (text, None),
        };
        let (name, edge) = match text.rsplit_once(':') {
            Some((name, "entry")) => (name, Some(Edge::Entry)),
            Some((name, "return")) => (name, Some(Edge::Return)),
            _ => (text, None),
        };
        let told = !name.is_empty() && domain != Some("");
        told.then(|| Self { name: name.to_owned(), edge, domain: domain.map(str::to_owned) })
    }

    /// The kind of events that is called so.
    fn kind(&self) -> Option<Kind> {
        let named = |kind: &Kind| kind.name() == self.name && !matches!(kind, Kind::Other | Kind::Lost);
        Kind::ALL.into_iter().find(named)
    }

    /// Whether records of a site are of this place.
    fn is(&self, site: &Site) -> bool {
        let named = site.function == self.name || site.advice == self.name;
        let here = self.domain.as_ref().is_none_or(|domain| *domain == site.domain);
        named && here && self.edge.is_none_or(|edge| edge == edge_of(site))
    }
}

fn edge_of(site: &Site) -> Edge {
    let returns = ["fexit", "kretprobe", "uretprobe"];
    let returns = site.hook.as_deref().is_some_and(|hook| returns.contains(&hook));
    if returns { Edge::Return } else { Edge::Entry }
}

impl FromStr for Between {
    type Err = BetweenError;

    fn from_str(text: &str) -> Result<Self, BetweenError> {
        let (text, by) = match text.rsplit_once(",by=") {
            Some((text, by)) => (text, Some(By::parse(by).ok_or_else(|| BetweenError::By(by.to_owned()))?)),
            None => (text, None),
        };
        let places = text.split_once("..").map(|(from, to)| (Place::parse(from), Place::parse(to)));
        match places {
            Some((Some(from), Some(to))) => Ok(Self { from, to, by }),
            _ => Err(BetweenError::Places),
        }
    }
}

impl By {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "thread" => Some(Self::Thread),
            "cpu" => Some(Self::Cpu),
            "flow" => Some(Self::Flow),
            _ => {
                let nth: usize = text.strip_prefix('v')?.parse().ok()?;
                (1..=MAX_VALUES).contains(&nth).then(|| Self::Value(nth - 1))
            }
        }
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.from, self.to)?;
        match self.by {
            None => Ok(()),
            Some(By::Thread) => f.write_str(",by=thread"),
            Some(By::Cpu) => f.write_str(",by=cpu"),
            Some(By::Flow) => f.write_str(",by=flow"),
            Some(By::Value(at)) => write!(f, ",by=v{}", at + 1),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        f.write_str(match self.edge {
            None => "",
            Some(Edge::Entry) => ":entry",
            Some(Edge::Return) => ":return",
        })?;
        self.domain.as_ref().map_or(Ok(()), |domain| write!(f, "@{domain}"))
    }
}

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
    /// One lock.
    Lock,
}

impl Joined {
    /// What two kinds of events have in common by nature.
    fn of(from: Kind, to: Kind) -> Self {
        use Kind as K;
        let both = |kinds: &[Kind]| kinds.contains(&from) && kinds.contains(&to);
        if both(&[K::DiskQueue, K::DiskIssue, K::DiskComplete]) {
            Self::Access
        } else if (from, to) == (K::Send, K::Receive) {
            Self::Sent
        } else if both(&[K::Send, K::Receive, K::Socket, K::Accept, K::Retransmit, K::SynDrop]) {
            Self::End
        } else if both(&[K::VmInject, K::IrqEnter, K::IrqExit, K::SoftirqEnter, K::SoftirqExit]) {
            Self::By(By::Cpu)
        } else if (from, to) == (K::LockWake, K::LockAcquired) {
            Self::Lock
        } else {
            Self::By(By::Thread)
        }
    }
}

/// Who passed a place, as the other place tells it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Thread(ThreadId),
    Cpu(CpuId),
    Access(DiskId, u64),
    End(EndId),
    Lock(u8, u64),
    Flow(u64),
    Value(u64),
}

/// Something that passed the first place, the second one, or both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    pub(crate) time: i64,
    cpu: CpuId,
    /// Whose time it is.
    thread: ThreadId,
    from: Option<Key>,
    to: Option<Key>,
    /// Whether a record tells it, and no event.
    recorded: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    from: i64,
    /// The domain of the first place.
    domain: u8,
    /// When the disk was given it.
    issued: Option<i64>,
}

/// The thread that passed the second place, and the pieces of the time between.
pub(crate) type Ended = (ThreadId, Vec<Piece>);

/// What lies between two places.
#[derive(Debug)]
pub struct Betweens {
    between: Between,
    joined: Joined,
    kinds: [Option<Kind>; 2],
    /// The numbers of the domains that are asked for; 0 is none's.
    domains: [Option<u8>; 2],
    open: FxHashMap<Key, Vec<Open>>,
    /// How often each of the places was passed.
    passed: [u64; 2],
    /// How many were not told, as one of the places may have been passed again meanwhile: events were lost.
    uncertain: u64,
}

impl Betweens {
    /// A finder of these, in a trace whose domains have these numbers.
    pub(crate) fn new(between: &Between, number: &dyn Fn(&str) -> Option<u8>) -> Self {
        let kinds = between.places().map(Place::kind);
        let joined = match (between.by, kinds) {
            (Some(by), _) => Joined::By(by),
            (None, [Some(from), Some(to)]) => Joined::of(from, to),
            (None, _) => Joined::By(By::Thread),
        };
        let of = |place: &Place| place.domain.as_ref().map(|name| number(name).unwrap_or(0));
        let domains = between.places().map(of);
        Self {
            between: between.clone(),
            joined,
            kinds,
            domains,
            open: FxHashMap::default(),
            passed: [0; 2],
            uncertain: 0,
        }
    }

    /// What they are called.
    pub(crate) fn name(&self) -> String {
        let [from, to] = self.between.places();
        format!("{from} .. {to}")
    }

    /// How often each of the two places was passed.
    pub(crate) fn passed(&self) -> [u64; 2] {
        self.passed
    }

    /// How many are not told because of what was lost.
    pub(crate) fn uncertain(&self) -> u64 {
        self.uncertain
    }

    /// The beginning of the earliest that is under way, in nanoseconds.
    pub(crate) fn earliest(&self) -> Option<i64> {
        self.open.values().flatten().map(|open| open.from).min()
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

    /// An event, which the machine has taken in. Gives what it ended.
    pub(crate) fn feed(&mut self, event: &Event, machine: &Machine, names: &Names) -> Option<Ended> {
        let [from, to] =
            [0, 1].map(|side| self.is(side, event, names).then(|| self.key(side, event, machine)));
        if event.kind == Kind::DiskIssue && self.joined == Joined::Access {
            let open = access(event).and_then(|key| self.open.get_mut(&key)).and_then(|open| open.last_mut());
            open.into_iter().for_each(|open| open.issued = open.issued.or(Some(event.time_ns)));
        }
        if from.is_none() && to.is_none() {
            return None;
        }
        let cpu = match to.flatten() {
            Some(Key::Cpu(cpu)) => cpu,
            _ => CpuId { domain: event.domain, cpu: event.cpu },
        };
        let thread = ThreadId { domain: event.domain, tid: subject(1, event) };
        let (time, counts) = (event.time_ns, [from.is_some(), to.is_some()]);
        let passing = Passing { time, cpu, thread, from: from.flatten(), to: to.flatten(), recorded: false };
        self.pass(&passing, counts, machine)
    }

    /// A record at one of the places.
    pub(crate) fn mark(&mut self, passing: &Passing, machine: &Machine) -> Option<Ended> {
        self.pass(passing, [passing.from.is_some(), passing.to.is_some()], machine)
    }

    fn pass(&mut self, passing: &Passing, counts: [bool; 2], machine: &Machine) -> Option<Ended> {
        for (passed, counts) in self.passed.iter_mut().zip(counts) {
            *passed += u64::from(counts);
        }
        // Where both places are one, an end is the next one's beginning.
        let ended = passing.to.and_then(|key| self.close(key));
        if let Some(key) = passing.from
            && (self.open.len() < MOST || self.open.contains_key(&key))
        {
            let open = self.open.entry(key).or_default();
            if !self.between.nests() || open.len() == NESTED {
                open.clear();
            }
            open.push(Open { from: passing.time, domain: passing.cpu.domain, issued: None });
        }
        let ended = ended?;
        if self.is_uncertain(&ended, passing, machine) {
            self.uncertain += 1;
            return None;
        }
        let pieces = self.pieces(&ended, passing, machine);
        (!pieces.is_empty()).then_some((passing.thread, pieces))
    }

    /// Whether a place may have been passed meanwhile by what is joined: what was lost may have told of that. Of what
    /// stays on a CPU only that CPU's events would have. Records have losses of their own.
    fn is_uncertain(&self, open: &Open, passing: &Passing, machine: &Machine) -> bool {
        let lost = |domain, cpu| machine.lost(domain, cpu, open.from, passing.time);
        let CpuId { domain, cpu } = passing.cpu;
        match passing.to {
            _ if passing.recorded => false,
            None => false,
            Some(Key::Cpu(_)) if open.domain == domain => lost(domain, Some(cpu)),
            Some(Key::Cpu(_)) => lost(domain, Some(cpu)) || lost(open.domain, None),
            Some(_) => lost(domain, None) || (open.domain != domain && lost(open.domain, None)),
        }
    }

    fn close(&mut self, key: Key) -> Option<Open> {
        let open = self.open.get_mut(&key)?;
        let last = open.pop();
        if open.is_empty() {
            self.open.remove(&key);
        }
        last
    }

    fn pieces(&self, open: &Open, passing: &Passing, machine: &Machine) -> Vec<Piece> {
        let Passing { time, cpu, thread, .. } = *passing;
        match (self.joined, passing.to) {
            (Joined::Access, Some(Key::Access(disk, _))) => {
                let was_issued = self.kinds[0] == Some(Kind::DiskIssue);
                let issued = if was_issued { open.from } else { open.issued.unwrap_or(time).min(time) };
                let piece = |from, to, spent| {
                    let object = Object::Disk(disk);
                    (from < to).then_some(Piece { from, to, object, spent, cause: None, depth: 0 })
                };
                let queue = piece(open.from, issued, TimeState::Queue);
                queue.into_iter().chain(piece(issued, time, TimeState::Device)).collect()
            }
            (Joined::By(By::Cpu), _) => breakdown_of_cpu(machine, cpu, open.from, time),
            (Joined::By(By::Thread), _) if thread.tid != 0 => breakdown(machine, thread, open.from, time),
            _ => breakdown_at(machine, cpu, thread.tid, open.from, time),
        }
    }

    fn is(&self, side: usize, event: &Event, names: &Names) -> bool {
        let place = self.between.places()[side];
        let named = match event.kind {
            Kind::Other => names.text(event.name) == place.name && place.edge.is_none(),
            kind => self.kinds[side] == Some(kind),
        };
        // What was told to be sent when the call began is corrected when it is over.
        let corrects = event.kind == Kind::Send
            && matches!(Sending::of(event.code), Sending::Shortens | Sending::Cancels);
        named && !corrects && self.domains[side].is_none_or(|domain| domain == event.domain)
    }

    fn key(&self, side: usize, event: &Event, machine: &Machine) -> Option<Key> {
        let here = CpuId { domain: event.domain, cpu: event.cpu };
        match self.joined {
            Joined::By(By::Thread) => match subject(side, event) {
                0 => Some(Key::Cpu(here)),
                tid => Some(Key::Thread(ThreadId { domain: event.domain, tid })),
            },
            Joined::By(By::Cpu) if event.kind == Kind::VmInject => {
                let vcpu = machine.vcpus.which(ThreadId { domain: event.domain, tid: event.tid });
                vcpu.map(Key::Cpu)
            }
            Joined::By(By::Cpu) => Some(Key::Cpu(here)),
            Joined::By(By::Flow | By::Value(_)) => None,
            Joined::Access => access(event),
            Joined::Sent if event.kind == Kind::Receive => {
                EndId::of(event).and_then(|end| machine.connections.peer(end)).map(Key::End)
            }
            Joined::Sent | Joined::End => EndId::of(event).map(Key::End),
            Joined::Lock => Some(Key::Lock(event.domain, event.object)),
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

/// Which sites' records are of the places, and how.
#[derive(Debug)]
pub(crate) struct Sites {
    by: By,
    /// By the site's number: whether it is the first place, and the second.
    all: FxHashMap<u32, [bool; 2]>,
}

impl Sites {
    pub(crate) fn of(trace: &Trace, between: &Between) -> Self {
        let sites = trace.sites();
        let mut is = between.places().map(|place| place.clone());
        if between.nests() {
            // Of a function whose calls and returns are both recorded, its call is meant.
            let has = |edge| sites.iter().any(|site| is[0].is(site) && edge_of(site) == edge);
            if has(Edge::Entry) && has(Edge::Return) {
                is[0].edge = is[0].edge.or(Some(Edge::Entry));
                is[1].edge = is[1].edge.or(Some(Edge::Return));
            }
        }
        let all = sites.iter().map(|site| (site.site, [is[0].is(site), is[1].is(site)]));
        let all = all.filter(|(_, is)| is.contains(&true)).collect();
        Self { by: between.by.unwrap_or(By::Thread), all }
    }

    /// Whether no site is one of the places.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What a record tells.
    pub(crate) fn passing(&self, row: &Row) -> Option<Passing> {
        let [from, to] = *self.all.get(&row.site)?;
        let cpu = CpuId { domain: row.domain, cpu: row.cpu };
        let thread = ThreadId { domain: row.domain, tid: row.tid };
        let key = match self.by {
            By::Thread if row.tid == 0 => Some(Key::Cpu(cpu)),
            By::Thread => Some(Key::Thread(thread)),
            By::Cpu => Some(Key::Cpu(cpu)),
            By::Flow => (row.flow != 0).then_some(Key::Flow(row.flow)),
            By::Value(at) => row.values().get(at).copied().map(Key::Value),
        };
        let [from, to] = [from, to].map(|is| key.filter(|_| is));
        Some(Passing { time: row.time_ns, cpu, thread, from, to, recorded: true })
    }
}
