//! What is to be broken down: transactions of several kinds, found in the order of their ends.

mod lifetimes;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use xweave_replay::{ThreadId, Transition};
use xweave_trace::event::{Connection, Event, Kind, Names, Sending};

pub use self::lifetimes::Lifetimes;
use crate::{
    between::{Betweens, Ended},
    breakdown::{Piece, breakdown, breakdown_of_answer, breakdown_of_handshake, breakdown_of_request},
    bytes::Bytes,
    connection::{
        Answered, EndId, GIVEN_UP, IDLE,
        tcp::{CLOSE, ESTABLISHED, FIN_WAIT1, LAST_ACK, SYN_SENT},
    },
    machine::Machine,
    passed::Passed,
    place::Mark,
    spec::Spec,
    unasked::is_unasked,
    unused::Unused,
};

/// How long after a connection was established it is given up that somebody of the trace accepts it, in nanoseconds.
const ACCEPTING: i64 = 1_000_000_000;

/// A transaction that was found, broken down.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// What tells it from others of its kind.
    pub name: String,
    /// The port of the service that was asked, if it is a request or a connection.
    pub service: Option<u16>,
    /// The thread that it ended on.
    pub thread: ThreadId,
    /// Its time, in order and without gaps.
    pub pieces: Vec<Piece>,
    /// When it passed each of its places, if it lies between some.
    pub points: Vec<i64>,
    /// Where it was until when, in turn, if that is known.
    pub segments: Vec<Passed>,
    /// How much data it carried, if that is known.
    pub bytes: Option<Bytes>,
    /// Of a life: how long its thread ran in system calls, in nanoseconds; if these were recorded.
    pub in_calls_ns: Option<u64>,
}

impl Transaction {
    /// One of which no more is known.
    pub(crate) fn new(name: String, thread: ThreadId, pieces: Vec<Piece>) -> Self {
        Self {
            name,
            service: None,
            thread,
            pieces,
            points: Vec::new(),
            segments: Vec::new(),
            bytes: None,
            in_calls_ns: None,
        }
    }
}

/// Finds transactions of events that come one after the other; of those that records of flows tell there are none here.
#[derive(Debug)]
pub enum Finder {
    /// See [`Spec::Connect`].
    Connect(Connects),
    /// See [`Spec::Request`].
    Request(Requests),
    /// See [`Spec::Process`] and [`Spec::Thread`].
    Lifetime(Lifetimes),
    /// See [`Spec::Between`].
    Between(Betweens),
}

impl Finder {
    /// A finder of such transactions; none for flows, which records tell of.
    /// `number` gives a domain's, by its name.
    pub fn new(spec: &Spec, number: &dyn Fn(&str) -> Option<u8>) -> Option<Self> {
        Some(match spec {
            Spec::Connect(port) => Self::Connect(Connects { port: *port, ..Connects::default() }),
            Spec::Request(port, domain) => {
                // Of a domain that is not there, none is.
                let domain = domain.as_ref().map(|domain| number(domain).unwrap_or(0));
                Self::Request(Requests::of(*port, domain))
            }
            Spec::Process(name) => Self::Lifetime(Lifetimes::of(name.clone(), false)),
            Spec::Thread(name) => Self::Lifetime(Lifetimes::of(name.clone(), true)),
            Spec::Between(between) => Self::Between(Betweens::new(between, number)),
            Spec::Flow(_) | Spec::Exchange(..) | Spec::Call(..) => return None,
        })
    }

    /// Takes in an event that the machine has taken in. Gives the transaction that it ended.
    pub fn feed(&mut self, event: &Event, machine: &Machine, names: &Names) -> Option<Transaction> {
        match self {
            Self::Connect(connects) => connects.feed(event, machine),
            Self::Request(requests) => requests.feed(event, machine, names),
            Self::Lifetime(lifetimes) => lifetimes.feed(event, machine, names),
            Self::Between(betweens) => {
                let ended = betweens.feed(event, machine, names);
                transaction(betweens, ended)
            }
        }
    }

    /// Takes in a record at one of the places, if transactions lie between these. Gives the one that it ended.
    pub(crate) fn mark(&mut self, mark: &Mark, machine: &Machine) -> Option<Transaction> {
        let Self::Between(betweens) = self else { return None };
        let ended = betweens.mark(mark, machine);
        transaction(betweens, ended)
    }

    /// The beginning of the earliest that is under way, in nanoseconds: nothing since then may be forgotten.
    pub fn earliest(&self) -> Option<i64> {
        match self {
            Self::Connect(connects) => connects.open.values().map(|open| open.from).min(),
            Self::Request(requests) => requests.open.values().map(|open| open.told).min(),
            Self::Lifetime(lifetimes) => lifetimes.earliest(),
            Self::Between(betweens) => betweens.earliest(),
        }
    }

    /// How many transactions are not told, as what was lost may have told of their ends.
    pub(crate) fn uncertain(&self) -> u64 {
        match self {
            Self::Between(betweens) => betweens.uncertain(),
            _ => 0,
        }
    }

    /// How many requests were found to which there is no answer, and no stream that one may yet come on.
    pub(crate) fn unanswered(&self) -> u64 {
        match self {
            Self::Request(requests) => requests.unanswered(),
            _ => 0,
        }
    }

    /// The connections and requests on streams that are no transactions, if it looks for such.
    pub(crate) fn unused(&self) -> Option<Unused> {
        match self {
            Self::Connect(connects) => Some(connects.unused),
            Self::Request(requests) => Some(requests.unused),
            Self::Lifetime(_) | Self::Between(_) => None,
        }
    }

    /// How often each of the places was passed, if transactions lie between some; and by what had passed those before.
    pub(crate) fn passed(&self) -> Option<[&[u64]; 2]> {
        match self {
            Self::Between(betweens) => Some(betweens.passed()),
            _ => None,
        }
    }

    /// How many are under way.
    pub(crate) fn open(&self) -> usize {
        match self {
            Self::Connect(connects) => connects.open.len(),
            Self::Request(requests) => requests.open.len(),
            Self::Lifetime(lifetimes) => lifetimes.open(),
            Self::Between(betweens) => betweens.open(),
        }
    }

    /// Gives those that are over although nothing said so; all of them at the end of a trace, when `now` is none.
    pub fn settle(&mut self, now: Option<i64>) -> Vec<Transaction> {
        match self {
            Self::Connect(connects) => connects.settle(now),
            Self::Request(requests) => requests.settle(now),
            Self::Between(betweens) => {
                now.into_iter().for_each(|now| betweens.settle(now));
                Vec::new()
            }
            Self::Lifetime(_) => Vec::new(),
        }
    }
}

fn transaction(betweens: &Betweens, ended: Option<Ended>) -> Option<Transaction> {
    let Ended { thread, pieces, points, bytes } = ended?;
    let segments = betweens.segments(&points);
    Some(Transaction { points, segments, bytes, ..Transaction::new(betweens.name(), thread, pieces) })
}

/// Connections that are asked for.
#[derive(Debug, Default)]
pub struct Connects {
    port: Option<u16>,
    /// By the end that asks.
    open: FxHashMap<EndId, Asked>,
    /// Those who have been answered and do not run yet.
    answered: FxHashMap<ThreadId, EndId>,
    unused: Unused,
}

#[derive(Debug)]
struct Asked {
    from: i64,
    thread: ThreadId,
    established: Option<i64>,
    /// When the server's kernel had it: since then it waits to be accepted.
    arrived: Option<i64>,
    /// As the client sees it: until its thread went on.
    seen: Option<Vec<Piece>>,
}

impl Asked {
    fn over(self, end: EndId) -> Option<Transaction> {
        Some(between_ends(end, self.thread, self.seen?))
    }
}

/// A transaction on a connection, which is called `40000 → 80` as by the one who asks.
fn between_ends(end: EndId, thread: ThreadId, pieces: Vec<Piece>) -> Transaction {
    let [own, service] = [end.connection.local_port(), end.connection.remote_port()];
    Transaction { service: Some(service), ..Transaction::new(format!("{own} → {service}"), thread, pieces) }
}

impl Connects {
    fn feed(&mut self, event: &Event, machine: &Machine) -> Option<Transaction> {
        let thread = ThreadId { domain: event.domain, tid: event.tid };
        let dispatched = |transition: &Transition| match *transition {
            Transition::Dispatched { thread, .. } => Some(thread),
            _ => None,
        };
        if let Some(client) = machine.transitions().iter().find_map(dispatched) {
            let asked = self.open.get_mut(&self.answered.remove(&client)?)?;
            asked.seen = Some(breakdown(machine, client, asked.from, event.time_ns));
            return None;
        }
        if !matches!(event.kind, Kind::Socket | Kind::Accept) {
            return None;
        }
        let end = EndId::of(event)?;
        match event.kind {
            Kind::Socket if event.code == SYN_SENT => {
                if self.port.is_none_or(|port| port == end.connection.remote_port()) {
                    let new =
                        Asked { from: event.time_ns, thread, established: None, arrived: None, seen: None };
                    return self.open.insert(end, new).and_then(|before| before.over(end));
                }
                None
            }
            Kind::Socket if event.code == ESTABLISHED => {
                let asks = machine.connections.peer(end);
                if let Some(asked) = asks.and_then(|asks| self.open.get_mut(&asks)) {
                    asked.arrived = Some(event.time_ns);
                }
                let asked = self.open.get_mut(&end)?;
                asked.established = Some(event.time_ns);
                self.answered.insert(asked.thread, end);
                None
            }
            Kind::Socket if event.code == CLOSE => {
                let asked = self.open.remove(&end)?;
                self.unused.unanswered += u64::from(asked.seen.is_none());
                asked.over(end)
            }
            Kind::Accept => {
                let end = machine.connections.peer(end)?;
                let asked = self.open.remove(&end)?;
                let mut pieces = Vec::new();
                if let Some(arrived) = asked.arrived {
                    pieces = breakdown_of_handshake(machine, end, asked.from, arrived);
                }
                let since = pieces.last().map_or(asked.from, |piece| piece.to);
                pieces.extend(breakdown(machine, thread, since, event.time_ns));
                (!pieces.is_empty()).then(|| between_ends(end, thread, pieces))
            }
            _ => None,
        }
    }

    fn settle(&mut self, now: Option<i64>) -> Vec<Transaction> {
        let late = |asked: &Asked| match (now, asked.established) {
            (Some(now), Some(established)) => now > established + ACCEPTING && asked.seen.is_some(),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let over: Vec<EndId> =
            self.open.iter().filter(|(_, asked)| late(asked)).map(|(end, _)| *end).collect();
        let mut over: Vec<_> = over
            .into_iter()
            .filter_map(|end| {
                let asked = self.open.remove(&end)?;
                self.unused.open += u64::from(asked.seen.is_none());
                asked.over(end)
            })
            .collect();
        over.sort_by_key(|transaction| transaction.pieces.last().map(|piece| piece.to));
        over
    }
}

/// Requests and their answers.
#[derive(Debug)]
pub struct Requests {
    port: Option<u16>,
    /// As this domain alone sees them.
    domain: Option<u8>,
    /// By the end that the transaction is told of.
    open: FxHashMap<EndId, Exchange>,
    /// The threads of these, so that the end of one finds what it has open.
    of: BTreeSet<(ThreadId, EndId)>,
    services: FxHashMap<u16, Service>,
    /// Those on streams that are no transactions.
    unused: Unused,
}

/// What requests to a port are.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    /// Some are on streams.
    streams: bool,
    /// Some are datagrams that were answered.
    datagrams: bool,
    /// How many had no answer.
    unanswered: u64,
}

#[derive(Debug)]
struct Exchange {
    /// Until then its time is told by `pieces`: the beginning, if it was not answered yet.
    told: i64,
    thread: ThreadId,
    /// Told as the server's: it begins with receiving and ends with sending.
    server: bool,
    /// It is on a stream, as far as is known.
    stream: bool,
    /// How many requests it is; of datagrams each has an answer of its own.
    asked: u64,
    pieces: Vec<Piece>,
    bytes: Bytes,
}

impl Exchange {
    fn over(self, end: EndId) -> Option<Transaction> {
        let connection = if self.server { end.connection.peer() } else { end.connection };
        let told = between_ends(EndId { connection, ..end }, self.thread, self.pieces);
        let whole = Transaction { bytes: Some(self.bytes), ..told };
        (!whole.pieces.is_empty()).then_some(whole)
    }
}

/// The service's port of an end that answers, or asks.
fn port_of(end: EndId, server: bool) -> u16 {
    if server { end.connection.local_port() } else { end.connection.remote_port() }
}

/// Whether a thread is one of the recorder's, by its name or its process's.
fn of_recorder(thread: ThreadId, machine: &Machine, names: &Names) -> bool {
    let Some(known) = machine.threads().get(thread) else { return false };
    let process = u32::try_from(known.process).ok();
    let first = process.and_then(|tid| machine.threads().get(ThreadId { tid, ..thread }));
    let is = |name| machine.recorders.has(thread.domain, known.process, names.text(name));
    [Some(known), first].into_iter().flatten().any(|thread| is(thread.name))
}

impl Requests {
    fn of(port: Option<u16>, domain: Option<u8>) -> Self {
        Self {
            port,
            domain,
            open: FxHashMap::default(),
            of: BTreeSet::new(),
            services: FxHashMap::default(),
            unused: Unused::default(),
        }
    }

    fn begin(&mut self, end: EndId, new: Exchange) -> Option<Exchange> {
        let thread = new.thread;
        let before = self.open.insert(end, new);
        if let Some(before) = before.as_ref().filter(|before| before.thread != thread) {
            self.of.remove(&(before.thread, end));
        }
        self.of.insert((thread, end));
        before
    }

    fn close(&mut self, end: EndId) -> Option<Exchange> {
        let open = self.open.remove(&end)?;
        self.of.remove(&(open.thread, end));
        Some(open)
    }

    fn service(&mut self, end: EndId, server: bool) -> &mut Service {
        self.services.entry(port_of(end, server)).or_default()
    }

    /// Nothing more comes of it.
    fn over(&mut self, end: EndId, open: Exchange) -> Option<Transaction> {
        match open.pieces.is_empty() {
            true if open.stream => self.unused.unanswered += 1,
            true => self.service(end, open.server).unanswered += open.asked,
            false => {}
        }
        open.over(end)
    }

    /// Of datagrams; where it is not known whether they are, a port that is asked for tells, unless it has streams.
    fn unanswered(&self) -> u64 {
        let are = |service: &&Service| service.datagrams || self.port.is_some() && !service.streams;
        self.services.values().filter(are).map(|service| service.unanswered).fold(0, u64::saturating_add)
    }

    fn settle(&mut self, now: Option<i64>) -> Vec<Transaction> {
        let late = |(end, open): (&EndId, &Exchange)| {
            let service = self.services.get(&port_of(*end, open.server)).copied().unwrap_or_default();
            // Where it may be a stream, an answer may take longer.
            let after = if service.datagrams && !service.streams { GIVEN_UP } else { IDLE };
            let over =
                |now: i64| !open.stream && open.pieces.is_empty() && open.told < now.saturating_sub(after);
            now.is_none_or(over).then_some(*end)
        };
        let ends: Vec<EndId> = self.open.iter().filter_map(late).collect();
        let over = |end| {
            let open = self.close(end)?;
            if open.stream && open.pieces.is_empty() {
                // It may yet be answered: nothing was late.
                self.unused.open += 1;
                return None;
            }
            self.over(end, open)
        };
        let mut all: Vec<_> = ends.into_iter().filter_map(over).collect();
        all.sort_by_key(|transaction| transaction.pieces.last().map(|piece| piece.to));
        all
    }

    /// A datagram is the answer to a request, which is over at once.
    fn answer(
        &mut self,
        end: EndId,
        server: bool,
        event: &Event,
        machine: &Machine,
        answered: Answered,
    ) -> Option<Transaction> {
        let thread = ThreadId { domain: event.domain, tid: event.tid };
        let told = if server { breakdown_of_answer } else { breakdown_of_request };
        let mut bytes = Bytes { sent: answered.bytes, received: 0 };
        bytes.exchange(event, server);
        let pieces = told(machine, thread, end, answered.asked, event.time_ns);
        let new = |told, asked, pieces, bytes| Exchange {
            told,
            thread,
            server,
            stream: false,
            asked,
            pieces,
            bytes,
        };
        let left = answered.left.map_or(0, |(left, _)| left as u64);
        let asked = self.close(end).map_or(0, |open| open.asked);
        let service = self.service(end, server);
        service.datagrams = true;
        service.unanswered += asked.saturating_sub(left + 1);
        if let Some((left, since)) = answered.left {
            self.begin(end, new(since, left as u64, Vec::new(), Bytes::default()));
        }
        new(answered.asked, 1, pieces, bytes).over(end)
    }

    fn feed(&mut self, event: &Event, machine: &Machine, names: &Names) -> Option<Transaction> {
        if event.kind == Kind::Exit {
            let thread = ThreadId { domain: event.domain, tid: event.tid };
            let first = EndId { domain: 0, netns: 0, connection: Connection(0) };
            let (_, end) = *self.of.range((thread, first)..).next().filter(|(of, _)| *of == thread)?;
            let open = self.close(end)?;
            return self.over(end, open);
        }
        if !matches!(event.kind, Kind::Send | Kind::Receive | Kind::Socket) {
            return None;
        }
        if self.domain.is_some_and(|domain| domain != event.domain) {
            return None;
        }
        let end = EndId::of(event)?;
        let (local, remote) = (end.connection.local_port(), end.connection.remote_port());
        if event.kind == Kind::Socket {
            // It is closed from this end: what was sent before the other end closed may still be received.
            let over = [FIN_WAIT1, CLOSE, LAST_ACK].contains(&event.code);
            if !over {
                return None;
            }
            // Only streams have states.
            let open = Exchange { stream: true, ..self.close(end)? };
            return self.over(end, open);
        }
        // A socket that is not connected, as of UDP servers, has no requests of its own.
        if remote == 0 || local == 0 {
            return None;
        }
        let service = machine.connections.service(end);
        if self.port.is_some_and(|port| port != service) {
            return None;
        }
        let server = local == service;
        let told_by_client = |client: EndId| self.domain.is_none_or(|domain| domain == client.domain);
        if server && remote != service && machine.connections.peer(end).is_some_and(told_by_client) {
            // It is told as the client's. What was begun before the client was seen is not whole.
            self.close(end);
            return None;
        }
        let thread = ThreadId { domain: event.domain, tid: event.tid };
        // What the recorder asks its agents is nobody's request, but if its port was named.
        if self.port.is_none() && of_recorder(thread, machine, names) {
            return None;
        }
        let begins = (event.kind == Kind::Receive) == server;
        if event.kind == Kind::Send {
            let sending = Sending::of(event.code);
            if sending.corrects()
                && let Some(open) = self.open.get_mut(&end)
            {
                open.bytes.exchange(event, server);
            }
            match sending {
                Sending::Over | Sending::Begins => {}
                Sending::Shortens => return None,
                Sending::Cancels => {
                    // It was no request.
                    if !server && self.open.get(&end).is_some_and(|open| open.pieces.is_empty()) {
                        self.close(end);
                    }
                    return None;
                }
            }
        }
        let datagrams = machine.connections.is_of_datagrams(end);
        if datagrams && !begins {
            let answered = machine.connections.answered(end, event.time_ns)?;
            return self.answer(end, server, event, machine, answered);
        }
        self.service(end, server).streams |= !datagrams;
        let new = || {
            let mut bytes = Bytes::default();
            bytes.exchange(event, server);
            let (told, stream, pieces) = (event.time_ns, !datagrams, Vec::new());
            Exchange { told, thread, server, stream, asked: 1, pieces, bytes }
        };
        match (begins, self.open.get_mut(&end)) {
            (true, Some(open)) if open.pieces.is_empty() => {
                open.bytes.exchange(event, server);
                (open.asked, open.stream) = (open.asked + 1, !datagrams);
                None
            }
            (true, Some(_)) => self.begin(end, new())?.over(end),
            (true, None) => {
                self.begin(end, new());
                None
            }
            (false, Some(open))
                if open.pieces.first().is_some_and(|first| {
                    is_unasked(machine, end, server, event, [first.from, open.told])
                }) =>
            {
                let open = self.close(end)?;
                self.over(end, open)
            }
            (false, Some(open)) => {
                let told = if server { breakdown_of_answer } else { breakdown_of_request };
                open.pieces.extend(told(machine, thread, end, open.told, event.time_ns));
                open.bytes.exchange(event, server);
                let before = std::mem::replace(&mut open.thread, thread);
                open.told = event.time_ns;
                if before != thread {
                    self.of.remove(&(before, end));
                    self.of.insert((thread, end));
                }
                None
            }
            (false, None) => None,
        }
    }
}
