//! The way of a flow, or of a request and its answer, leg by leg: where it was, until when, and who then took it on.
//!
//! While a server waits for what it asks others, a request is where that is.

use std::{collections::HashMap, sync::Arc};

use xweave_trace::Row;

use crate::{
    exchange::{self, Exchange},
    flows::Flows,
    functions::Functions,
    graph::Flow,
    places::{self, Spot},
};

/// From one step of a way to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Where it was: `ring host→vm1`, `socket of vm1`; of an exchange, on which way, `answer, ring vm1→host`; of one that its
    /// server made for it, whose, `vm1 asks vm2: answer, ring vm2→host`.
    pub place: Arc<str>,
    /// Until when, in nanoseconds. The next one begins there.
    pub until_ns: i64,
    /// The number of the domain that took it on from there.
    pub domain: u8,
    /// The CPU.
    pub cpu: u32,
    /// The thread that had the CPU.
    pub tid: u32,
}

/// A way, from its beginning on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// In nanoseconds.
    pub start_ns: i64,
    /// In turn: none ends before the one before it.
    pub legs: Vec<Leg>,
}

/// The most legs of a way: who makes up one of thousands makes it up for thousands of exchanges.
const LEGS: usize = 1024;

/// How deep ways of exchanges are told that were made for others.
const DEPTH: usize = 8;

/// Finds the ways of flows and exchanges, and names their places.
pub struct Ways<'f> {
    flows: &'f Flows,
    /// All of them, in the order of their beginnings.
    exchanges: &'f [Exchange],
    functions: Functions,
    /// By what stands before them, places that have been named.
    names: HashMap<String, HashMap<Spot, Arc<str>>>,
}

/// Where a request is that was to be sent.
const LATE: &str = "client, until it asked";

/// Where a call is between an answer and what is asked next.
const BETWEEN: &str = "client, until it asked again";

/// What stands before the places of an exchange.
const REQUEST: &str = "request, ";
const ANSWER: &str = "answer, ";

/// A [leg's](Leg::place) place as flows name it, without on which way of which exchange it is.
pub fn bare(place: &str) -> &str {
    let place = own(place);
    place.strip_prefix(REQUEST).or_else(|| place.strip_prefix(ANSWER)).unwrap_or(place)
}

/// Whether a [leg's](Leg::place) place is the queue of a socket from which a server reads.
pub fn is_servers_socket(place: &str) -> bool {
    let place = own(place);
    place.strip_prefix(REQUEST).unwrap_or(place).starts_with("socket")
}

/// A place without whose exchange it is on.
fn own(place: &str) -> &str {
    place.rsplit_once(MADE).map_or(place, |(_, own)| own)
}

/// What stands between whose exchange it is that was made for another, and a place.
const MADE: &str = ": ";

impl<'f> Ways<'f> {
    /// Of these flows, and of [all their exchanges](exchange::of).
    pub fn of(flows: &'f Flows, exchanges: &'f [Exchange]) -> Self {
        Self { flows, exchanges, functions: Functions::default(), names: HashMap::new() }
    }

    /// The way of one of the flows.
    pub fn flow(&mut self, flow: &Flow) -> Way {
        let mut way = Going::from(flow.start_ns, flow.end_ns);
        self.go(&mut way, flow, "", i64::MAX);
        way.way
    }

    /// The way of a request and its answer: of what carried the request's last byte, the server, and what carried the
    /// answer's first byte. The rest of the answer is the last leg. Where one waits for the server, and for the rest of the
    /// answer, those that the server made for it are gone through. It begins when it was due, in nanoseconds, if that is
    /// before the request's first frame began.
    pub fn exchange(&mut self, exchange: &Exchange, due_ns: i64) -> Way {
        let mut way = self.asked(exchange, due_ns, exchange.end_ns);
        self.go_and_return(&mut way, exchange, "", DEPTH);
        way.way
    }

    /// The way of a call: of its exchanges in turn, and between them whoever asks. What begins before the one before it ended
    /// is told from there on. It begins when it was due, as [`Self::exchange`] does.
    pub fn call(&mut self, exchanges: &[&Exchange], due_ns: i64) -> Way {
        let end_ns = exchanges.iter().map(|exchange| exchange.end_ns).max().unwrap_or_default();
        let Some((begins, _)) = exchanges.split_first() else {
            return Way { start_ns: end_ns, legs: Vec::new() };
        };
        let mut way = self.asked(begins, due_ns, end_ns);
        for exchange in exchanges {
            if let Some(first) = self.first(exchange) {
                way.until(exchange.start_ns, || BETWEEN.into(), first);
            }
            self.go_and_return(&mut way, exchange, "", DEPTH);
        }
        way.way
    }

    /// Until it asked, a client was late.
    fn asked(&self, exchange: &Exchange, due_ns: i64, end_ns: i64) -> Going {
        let mut way = Going::from(due_ns.min(exchange.start_ns), end_ns);
        if let Some(first) = self.first(exchange) {
            way.until(exchange.start_ns, || LATE.into(), first);
        }
        way
    }

    /// The first of what is told of an exchange.
    fn first(&self, exchange: &Exchange) -> Option<&'f Row> {
        self.flows.flow(*exchange.request.flows.first()?)?.path().next()
    }

    /// `whose` stands before all places.
    fn go_and_return(&mut self, way: &mut Going, exchange: &Exchange, whose: &str, depth: usize) {
        let all = self.flows.flows();
        let flow = |at: usize| all.get(at);
        let (asked, answered) = (format!("{whose}{REQUEST}"), format!("{whose}{ANSWER}"));
        for (nth, &at) in exchange.way.iter().enumerate() {
            let Some(now) = flow(at) else { continue };
            // What is cut off goes on while what it was cut from waits to be sent again.
            let until =
                exchange.way.get(nth + 1).and_then(|&next| flow(next)).map_or(i64::MAX, |next| next.start_ns);
            if let Some(first) = now.path().next() {
                let before = exchange::before_its_last(exchange.repeats);
                let place = if nth == 0 { before } else { "request, being put together" };
                way.until(first.time_ns, || format!("{whose}{place}").into(), first);
            }
            self.go(way, now, &asked, until);
        }
        let Some(answer) = flow(exchange.answered_by) else { return };
        if let Some(first) = answer.path().next() {
            let server = format!("{whose}server in {}", exchange.server_domain);
            self.wait(way, exchange, first, &server, depth);
        }
        self.go(way, answer, &answered, i64::MAX);
        let last =
            exchange.answer.flows.iter().filter_map(|id| self.flows.flow(*id)).max_by_key(|flow| flow.end_ns);
        if let Some(last) = last.and_then(|flow| flow.path().next_back()) {
            self.wait(way, exchange, last, &format!("{answered}frames after its first"), depth);
        }
    }

    /// Until then it waits for who answers; or for whom that asks, one after the other.
    fn wait(&mut self, way: &mut Going, exchange: &Exchange, until: &Row, place: &str, depth: usize) {
        let (exchanges, end_ns) = (self.exchanges, way.end_ns);
        let made = exchange.made.iter().filter(|_| depth > 0).filter_map(|&at| exchanges.get(at));
        for made in made.take_while(|made| made.start_ns < until.time_ns) {
            let Some(first) = self.first(made) else { continue };
            way.until(made.start_ns, || place.into(), first);
            way.end_ns = end_ns.min(until.time_ns);
            let whose = format!("{} asks {}{MADE}", made.client_domain, made.server_domain);
            self.go_and_return(way, made, &whose, depth - 1);
            way.end_ns = end_ns;
        }
        way.until(until.time_ns, || place.into(), until);
    }

    /// Goes on along a flow's path, not beyond that time.
    fn go(&mut self, way: &mut Going, flow: &Flow, before: &str, until: i64) {
        let path: Vec<&Row> = flow.path().take(LEGS).collect();
        let numbers: Vec<_> =
            path.iter().map(|row| self.functions.of(row, |row| self.flows.function_of(row))).collect();
        for (spot, row) in places::spots(&numbers, &self.functions).into_iter().zip(path.iter().skip(1)) {
            if row.time_ns > until {
                break;
            }
            let (flows, names) = (self.flows, &mut self.names);
            let name = || {
                let known = names.get(before).and_then(|names| names.get(&spot));
                if let Some(known) = known {
                    return known.clone();
                }
                let (domain, place) = spot.named(|number| flows.domain(number), None);
                let crosses = matches!(spot, Spot::Crossing { .. });
                let name: Arc<str> =
                    if crosses { format!("{before}{place}") } else { format!("{before}{place} of {domain}") }
                        .into();
                names.entry(before.to_owned()).or_default().insert(spot, name.clone());
                name
            };
            way.until(row.time_ns, name, row);
        }
    }
}

/// A way as far as it is told.
struct Going {
    way: Way,
    /// It goes no further.
    end_ns: i64,
}

impl Going {
    fn from(start_ns: i64, end_ns: i64) -> Self {
        Self { way: Way { start_ns, legs: Vec::new() }, end_ns }
    }

    /// Goes on until then, unless that is past already.
    fn until(&mut self, time: i64, place: impl FnOnce() -> Arc<str>, row: &Row) {
        let Way { start_ns, legs } = &mut self.way;
        let at = legs.last().map_or(*start_ns, |leg| leg.until_ns);
        let until_ns = time.min(self.end_ns);
        if until_ns > at && legs.len() < LEGS {
            let Row { domain, cpu, tid, .. } = *row;
            legs.push(Leg { place: place(), until_ns, domain, cpu, tid });
        }
    }
}
