//! A request and its answer, found in the frames that carried them.
//!
//! Of a TCP connection, or of two ends that send each other datagrams: what one end sent until the other answered is
//! a request, and what that sends until the first asks again is its answer. TCP's bytes are known by their sequence
//! numbers, so that what is cut, put together or sent again belongs to the exchange that its bytes do. An ICMP echo is
//! known by its own numbers. Where events tell keys of messages, an answer over UDP is that to the last request of its key, and
//! a request of one key and length that comes again, before it was answered, is the same. Requests that a client sends on one stream before it has its answer (pipelining) cannot be
//! told apart and are one. Each datagram is a request of its own: its answers are what the thread that received it sends
//! until it receives the next; of a thread that received none, what it sends is to the first that is not answered.
//!
//! ```text
//! client   ├─ request ─┐                            ┌─ answer ──┤
//! server               └── until its program sends ─┘
//!          ├ in host ┼ host → vm1 ┼ in vm1 ┼ server ┼ in vm1 ┼ vm1 → host ┼ in host ┤      the parts; they sum to the whole
//! ```

mod nested;
mod resent;
mod roles;
mod talk;

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
};

use xweave_trace::Row;

use self::{
    nested::nest,
    resent::{carried_by, last_new, lost_before},
    roles::Roles,
    talk::{Sent, Talk, Turn, Way},
};
pub use self::{resent::Resent, talk::is_answer_over};
use crate::{
    durations::rank,
    flows::Flows,
    graph::{Flow, Incomplete},
    key::Key,
};

/// Who asks whom, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection {
    /// `TCP`, `UDP` or `ICMP`.
    pub protocol: &'static str,
    /// Who asks: who opened the connection or, where that was not seen, who sent first, unless others show that it answers: see
    /// `roles`. An echo's port is its identifier.
    pub client: SocketAddr,
    /// Who answers.
    pub server: SocketAddr,
}

/// One request and its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Who asked whom.
    pub connection: Connection,
    /// The domain in which the request was first seen.
    pub client_domain: String,
    /// The domain that answered.
    pub server_domain: String,
    /// When the first of the request's frames began, in nanoseconds of the reference domain.
    pub start_ns: i64,
    /// When the last of the answer's ended.
    pub end_ns: i64,
    /// The exchange, by its place in the order of their beginnings, during which its client asked: the one for which that
    /// was, if that is known; else the only one under way that the client's domain served, and that ended after it. None if
    /// there is none, or are several.
    pub inside: Option<usize>,
    /// The exchanges that were made for this one, in the order of their beginnings: with its key, or by the thread that had
    /// received it, or answers it.
    pub made: Vec<usize>,
    /// The key of the request, where events tell it.
    pub key: Option<Key>,
    /// How often the client's program sent the request again before it was answered.
    pub repeats: u32,
    /// Whether all of its frames are known from their beginnings to their ends, or their bytes came by others that are.
    pub complete: bool,
    /// Else: why the first that is not known is not.
    pub lacks: Option<Incomplete>,
    /// What of it TCP sent again.
    pub resent: Resent,
    /// What asked.
    pub request: Side,
    /// What answered.
    pub answer: Side,
    /// Where the time went, in its order; the sum is the whole.
    pub parts: Vec<Part>,
    /// What carried the request's last byte, from where that was cut off or put together: the flows' places in [`Flows`].
    pub way: Vec<usize>,
    /// The same of what carried the answer's first byte.
    pub answered_by: usize,
    /// Who had to do with it.
    pub threads: Threads,
}

/// Threads that had to do with an exchange, each with the number of its domain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads {
    /// Who sent the request.
    pub asks: Option<(u8, u32)>,
    /// Who received it, and when, in nanoseconds; of what was sent again the first.
    pub receives: Option<((u8, u32), i64)>,
    /// Who sent the answer.
    pub answers: Option<(u8, u32)>,
}

/// A request without an answer.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// Who asked whom.
    pub connection: Connection,
    /// Why one of its frames is not known to have arrived; none if they all did.
    pub lacks: Option<Incomplete>,
}

/// What the frames of a trace tell of requests.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Those with answers, in the order of their beginnings.
    pub exchanges: Vec<Exchange>,
    /// The others.
    pub unanswered: Vec<Unanswered>,
}

/// The frames of a request, or of an answer.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Bytes of the programs.
    pub bytes: u64,
    /// The IDs of its flows, in the order of their beginnings.
    pub flows: Vec<u64>,
}

/// A part of an exchange's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `request in vm1`, `request, vm1 → host`, `server in vm2`.
    pub name: String,
    /// The domain in which it was, if it was in one.
    pub domain: Option<String>,
    /// Whether it lay between two.
    pub crosses: bool,
    /// How long it took, in nanoseconds.
    pub ns: i64,
}

impl Exchange {
    /// How long it took, in nanoseconds.
    pub fn total_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// What exchanges of one service have in common: protocol, client's domain, server.
    fn service(&self) -> (&'static str, &str, SocketAddr) {
        let Connection { protocol, server, .. } = self.connection;
        // An echo's port is its client's.
        let port = if protocol == "ICMP" { 0 } else { server.port() };
        (protocol, &self.client_domain, SocketAddr::new(server.ip(), port))
    }
}

/// The exchanges of all clients of a domain with one server.
#[derive(Clone, Debug)]
pub struct Service {
    /// `TCP`, `UDP` or `ICMP`.
    pub protocol: &'static str,
    /// The domain in which the requests were first seen.
    pub client_domain: String,
    /// Who answers.
    pub server: SocketAddr,
    /// In which domain.
    pub server_domain: String,
    /// How many exchanges.
    pub exchanges: u64,
    /// How many of them are known from their beginnings to their ends.
    pub complete: u64,
    /// Half of them took at most this long, in nanoseconds.
    pub p50_ns: i64,
    /// All but one in a hundred.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
    /// Where their time went, in its order.
    pub parts: Vec<PartTimes>,
}

impl Service {
    /// Whether an exchange is one of its own.
    pub fn has(&self, exchange: &Exchange) -> bool {
        exchange.service() == (self.protocol, &self.client_domain, self.server)
    }
}

/// A part of the time of several exchanges.
#[derive(Clone, Debug)]
pub struct PartTimes {
    /// As [`Part::name`].
    pub name: String,
    /// How many exchanges have it.
    pub count: u64,
    /// Half of these took at most this long, in nanoseconds.
    pub p50_ns: i64,
    /// All but one in a hundred.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
    /// Its share of the time of all the exchanges, of those too that have no such part: all shares sum to 1.
    pub share: f64,
}

/// Exchanges by client's domain and server: those between two domains first, and of these the most frequent.
pub fn services(exchanges: &[Exchange]) -> Vec<Service> {
    let mut groups: BTreeMap<_, Vec<&Exchange>> = BTreeMap::new();
    for exchange in exchanges {
        groups.entry(exchange.service()).or_default().push(exchange);
    }
    let mut all: Vec<Service> = (groups.into_iter())
        .map(|((protocol, client_domain, server), of)| {
            let mut ns: Vec<i64> = of.iter().map(|exchange| exchange.total_ns()).collect();
            ns.sort_unstable();
            Service {
                protocol,
                client_domain: client_domain.to_owned(),
                server,
                server_domain: of[0].server_domain.clone(),
                exchanges: of.len() as u64,
                complete: of.iter().filter(|exchange| exchange.complete).count() as u64,
                p50_ns: rank(&ns, 50),
                p99_ns: rank(&ns, 99),
                max_ns: rank(&ns, 100),
                parts: part_times(&of),
            }
        })
        .collect();
    all.sort_by_key(|of| (of.client_domain == of.server_domain, std::cmp::Reverse(of.exchanges)));
    all
}

fn part_times(exchanges: &[&Exchange]) -> Vec<PartTimes> {
    /// Times, and the sum of the places in their exchanges.
    type Times = (Vec<i64>, usize);
    let mut parts: BTreeMap<&str, Times> = BTreeMap::new();
    for exchange in exchanges {
        for (place, part) in exchange.parts.iter().enumerate() {
            let (ns, places) = parts.entry(&part.name).or_default();
            ns.push(part.ns);
            // As far into the exchange as if all had as many parts.
            *places += place * 1000 / exchange.parts.len();
        }
    }
    let sum = |all: &mut dyn Iterator<Item = i64>| all.fold(0i64, i64::saturating_add);
    let total = sum(&mut exchanges.iter().map(|exchange| exchange.total_ns()));
    let mut ordered: Vec<(&str, Times)> = parts.into_iter().collect();
    ordered.sort_by_key(|(_, (ns, places))| places / ns.len());
    let times = |(name, (mut ns, _)): (&str, Times)| {
        ns.sort_unstable();
        PartTimes {
            name: name.to_owned(),
            count: ns.len() as u64,
            p50_ns: rank(&ns, 50),
            p99_ns: rank(&ns, 99),
            max_ns: rank(&ns, 100),
            share: sum(&mut ns.iter().copied()) as f64 / total.max(1) as f64,
        }
    };
    ordered.into_iter().map(times).collect()
}

/// All exchanges of a trace, in the order of their beginnings.
pub fn of(flows: &Flows) -> Vec<Exchange> {
    find(flows).exchanges
}

/// All exchanges of a trace, and the requests without an answer.
pub fn find(flows: &Flows) -> Found {
    let by_id: HashMap<u64, usize> =
        flows.flows().iter().enumerate().map(|(at, flow)| (flow.id, at)).collect();
    // Tenants may have the same addresses, and may lie about theirs: not about the domains that frames begin and end in.
    type Ends = (&'static str, [(SocketAddr, u8); 2]);
    let mut talks: BTreeMap<Ends, Talk> = BTreeMap::new();
    let reached = reached(flows.flows());
    let frames = flows.flows().iter().filter_map(|flow| flow.frame.as_ref());
    let mut roles = Roles::default();
    frames.filter_map(|frame| Sent::of(0, 0, frame)).for_each(|sent| roles.add(&sent));
    // In the order of their beginnings, which flows have.
    for (at, flow) in flows.flows().iter().enumerate() {
        let Some(frame) = &flow.frame else { continue };
        let origins = origins(at, flows.flows(), &by_id);
        let began = origins.iter().map(|&at| flows.flows()[at].start_ns).min().unwrap_or(flow.start_ns);
        let Some(sent) = Sent::of(at, began, frame) else { continue };
        let first = flows.flows()[origins[0]].path().next();
        let sent = Sent {
            sender: first.map(thread),
            reader: flow.path().next_back().map(thread),
            ended: flow.end_ns,
            key: flow.key,
            head: flow.head,
            ..sent
        };
        let from = flows.flows()[origins[0]].ends.0;
        let whom = is_on_its_way(flow)
            .then(|| reached.get(&(sent.protocol, [sent.from, sent.to], from)).copied().flatten());
        let whom = whom.flatten();
        let mut ends = [(sent.from, from), (sent.to, whom.unwrap_or(flow.ends.1))];
        ends.sort_unstable();
        talks.entry((sent.protocol, ends)).or_default().take(&sent, || roles.client(&sent));
    }
    let mut found = Found::default();
    for ((protocol, ..), talk) in talks {
        for turn in talk.end() {
            let Way { flows: frames, .. } = &turn.request;
            let lacks = frames.iter().find_map(|&at| flows.flows()[at].incomplete);
            let connection = Connection { protocol, client: turn.client, server: turn.server };
            match turn.exchange(protocol, flows, &by_id) {
                Some(exchange) => found.exchanges.push(exchange),
                None => found.unanswered.push(Unanswered { connection, lacks }),
            }
        }
    }
    found.exchanges.sort_by_key(|exchange| exchange.start_ns);
    nest(&mut found.exchanges);
    found
}

/// Whether the end of a flow's path is not where it was to go.
fn is_on_its_way(flow: &Flow) -> bool {
    !matches!(flow.incomplete, None | Some(Incomplete::NoStart))
}

/// Whose record it is, with the number of its domain.
fn thread(row: &Row) -> (u8, u32) {
    (row.domain, row.tid)
}

/// By protocol, addresses and the domain that sends, the one domain that what was sent so has come to; none of several. Whom
/// those talk to that did not arrive: empty, if all did.
fn reached(flows: &[Flow]) -> HashMap<(&'static str, [SocketAddr; 2], u8), Option<u8>> {
    let mut reached = HashMap::new();
    if !flows.iter().any(is_on_its_way) {
        return reached;
    }
    for flow in flows.iter().filter(|flow| !is_on_its_way(flow)) {
        if let Some(sent) = flow.frame.as_ref().and_then(|frame| Sent::of(0, 0, frame)) {
            let (from, to) = flow.ends;
            let known = reached.entry((sent.protocol, [sent.from, sent.to], from)).or_insert(Some(to));
            *known = known.filter(|known| *known == to);
        }
    }
    reached
}

impl Turn {
    /// None without an answer.
    fn exchange(
        mut self,
        protocol: &'static str,
        flows: &Flows,
        by_id: &HashMap<u64, usize>,
    ) -> Option<Exchange> {
        let all = flows.flows();
        // Requests that come again are answered again, and nobody may be there any more who reads that: then the answer is
        // what somebody read.
        let read = |at: &usize| all[*at].incomplete != Some(Incomplete::Dropped);
        if protocol == "UDP" && self.answer.flows.iter().any(read) {
            self.answer.flows.retain(read);
        }
        let of = |at: usize| origins(at, all, by_id);
        let closes = last_new(&self.answer, all, |_| true, of)?;
        let end_ns = all[closes].end_ns;
        let resent = |way: &Way, at: usize| carried_by(at, way, all);
        let lacks = |way: &Way| {
            let missing = |&at: &usize| all[at].incomplete.filter(|_| resent(way, at).is_none());
            way.flows.iter().find_map(missing)
        };
        // What carried its last byte to the server, from where that was cut off or put together; and the answer's first.
        let begins = self.answer.flows.iter().copied().min_by_key(|&at| all[at].start_ns)?;
        let first = resent(&self.answer, begins).unwrap_or(begins);
        let asked = || self.request.flows.iter().copied();
        let came = |at: &usize| self.repeats == 0 || all[*at].end_ns <= all[first].start_ns;
        let last = last_new(&self.request, all, came, of).or_else(|| asked().next())?;
        let tcp =
            |way: &Way, carrier: usize| lost_before(&of(carrier), way, all).filter(|_| protocol == "TCP");
        let resent = Resent {
            request: tcp(&self.request, last),
            answer: (first != begins).then_some(begins),
            rest: tcp(&self.answer, closes).filter(|_| closes != first).map(|lost| [lost, closes]),
        };
        let start_ns = self.request.began?;
        // Of a request that was sent again it is enough that one came.
        let lacks = match self.repeats {
            0 => lacks(&self.request),
            _ => all[last].incomplete,
        }
        .or_else(|| lacks(&self.answer));
        let mut parts = Parts { at: start_ns, end: end_ns, all: Vec::new() };
        let way = origins(last, all, by_id);
        let client = way.first().map_or("?", |&at| flows.domain(all[at].ends.0));
        let starts = way.first().map_or(start_ns, |&at| all[at].start_ns);
        if let Some(lost) = resent.request.filter(|_| self.repeats == 0) {
            parts.until(all[lost].start_ns, before_its_last(0), Where::Unknown);
            parts.until(starts, before_its_last(1), Where::Unknown);
        }
        parts.until(starts, before_its_last(self.repeats), Where::Unknown);
        for &at in &way {
            parts.path(flows, &all[at], "request");
        }
        let server = flows.domain(all[begins].ends.0);
        parts.until(all[begins].start_ns, &format!("server in {server}"), Where::In(server));
        parts.until(all[first].start_ns, ANSWERED_AGAIN, Where::Unknown);
        parts.path(flows, &all[first], "answer");
        if let Some([lost, again]) = resent.rest {
            parts.until(all[lost].start_ns, AFTER_FIRST, Where::Unknown);
            parts.until(all[again].start_ns, ANSWERED_AGAIN, Where::Unknown);
        }
        parts.until(end_ns, AFTER_FIRST, Where::Unknown);
        // What is asked for the first that came may be answered when others come.
        let taken = match self.repeats {
            0 => last,
            _ => asked().min_by_key(|&at| all[at].end_ns).unwrap_or(last),
        };
        // Who sends again is whatever ran when the timer was over.
        let asks =
            resent.request.map_or_else(|| way.first().copied(), |lost| Some(origins(lost, all, by_id)[0]));
        let threads = Threads {
            asks: asks.and_then(|at| all[at].path().next()).map(thread),
            receives: all[taken].path().next_back().map(|row| (thread(row), all[taken].end_ns)),
            answers: all[origins(begins, all, by_id)[0]].path().next().map(thread),
        };
        Some(Exchange {
            connection: Connection { protocol, client: self.client, server: self.server },
            client_domain: client.to_owned(),
            server_domain: server.to_owned(),
            start_ns,
            end_ns,
            inside: None,
            made: Vec::new(),
            key: self.key,
            repeats: self.repeats,
            complete: lacks.is_none(),
            lacks,
            resent,
            request: self.request.side(all),
            answer: self.answer.side(all),
            parts: parts.all,
            way,
            answered_by: first,
            threads,
        })
    }
}

/// What the time of an answer is called while TCP waited to send it again, and after its first frame.
const ANSWERED_AGAIN: &str = "answer, until it was sent again";
const AFTER_FIRST: &str = "answer, frames after its first";

/// What the time until the last of a request's frames begins is called.
fn before_its_last(repeats: u32) -> &'static str {
    if repeats > 0 { "request, until it was sent again" } else { "request, frames before its last" }
}

/// The most generations that a flow is followed back, and of how many parents the one is looked for that began last.
const GENERATIONS: usize = 16;
const PARENTS: usize = 64;

/// The most steps of a flow that are looked at, and parts that an exchange has: who makes up a way of thousands makes it
/// up for thousands of exchanges.
const STEPS: usize = 1024;
const PARTS: usize = 64;

/// What a flow was cut off or put together from, and so on, the oldest first, itself last: of several parents the one
/// that began last, which the others waited for.
fn origins(at: usize, flows: &[Flow], by_id: &HashMap<u64, usize>) -> Vec<usize> {
    let mut way = vec![at];
    while let Some(&now) = way.last()
        && way.len() < GENERATIONS
    {
        let parents = flows[now].parents.iter().take(PARENTS).filter_map(|id| by_id.get(id).copied());
        let Some(parent) = parents.filter(|at| !way.contains(at)).max_by_key(|&at| flows[at].start_ns) else {
            break;
        };
        way.push(parent);
    }
    way.reverse();
    way
}

/// Parts, as they follow each other: none begins before the one before it ends.
struct Parts {
    at: i64,
    end: i64,
    all: Vec<Part>,
}

/// Where a part of the time was spent.
#[derive(Clone, Copy)]
enum Where<'a> {
    In(&'a str),
    Between,
    Unknown,
}

impl Parts {
    fn until(&mut self, time: i64, name: &str, place: Where<'_>) {
        let time = time.clamp(self.at, self.end.max(self.at));
        let ns = time.saturating_sub(self.at);
        self.at = time;
        let full = self.all.len() == PARTS;
        match self.all.last_mut() {
            Some(last) if last.name == name || full => last.ns = last.ns.saturating_add(ns),
            _ if ns == 0 => {}
            _ => self.all.push(Part {
                name: name.to_owned(),
                domain: if let Where::In(domain) = place { Some(domain.to_owned()) } else { None },
                crosses: matches!(place, Where::Between),
                ns,
            }),
        }
    }

    /// The path of a flow, by the domains that it goes through.
    fn path(&mut self, flows: &Flows, flow: &Flow, what: &str) {
        let mut before: Option<&str> = None;
        for (domain, time) in flows.path_of(flow).take(STEPS) {
            match before {
                Some(before) if before != domain => {
                    self.until(time, &format!("{what}, {before} → {domain}"), Where::Between);
                }
                _ => self.until(time, &format!("{what} in {domain}"), Where::In(domain)),
            }
            before = Some(domain);
        }
    }
}
