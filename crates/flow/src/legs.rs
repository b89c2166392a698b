//! The way of a flow, or of a request and its answer, leg by leg: where it was, until when, and who then took it on.
//!
//! While a server waits for what it asks others, a request is where that is.

use std::{collections::HashMap, sync::Arc};

use xweave_trace::Row;

use crate::{
    exchange::Exchange,
    flow_place::{FlowPlace, Station},
    flows::Flows,
    functions::Functions,
    graph::Flow,
    places::{self, Spot},
};

/// From one step of a way to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Where it was.
    pub place: Arc<WayPlace>,
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

/// Where a flow is on its way, or a request and its answer are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WayPlace {
    /// The exchange that the server made for the one whose way it is, if it is on that.
    pub made: Option<Made>,
    /// Where on the way of the flow, or exchange.
    pub point: WayPoint,
}

/// An exchange that a server made for another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Made {
    /// The domain that asked.
    pub client: String,
    /// The domain that was asked.
    pub server: String,
}

/// A part of the way of a flow, or of a request and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WayPoint {
    /// The request was due, and its client had not asked.
    ClientLate,
    /// Between an answer and what is asked next for the same call.
    ClientBetween,
    /// The request, before its last frame.
    FramesBeforeLast,
    /// The request, until it was sent again.
    SentAgain,
    /// The request, until the frame that carries it was put together.
    PutTogether,
    /// Where a flow is.
    Flow {
        /// Of an exchange, which side the flow is of.
        side: Option<ExchangeSide>,
        /// Where.
        place: FlowPlace,
    },
    /// The server has read the request, and not answered.
    Server {
        /// In which domain.
        domain: String,
    },
    /// The answer, until TCP sent it again.
    AnsweredAgain,
    /// The answer, after its first frame.
    FramesAfterFirst,
}

/// The sides of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExchangeSide {
    /// What asked.
    Request,
    /// What answered.
    Answer,
}

impl WayPlace {
    /// Where the flow is, as flows of no exchange have it.
    pub fn flow_place(&self) -> Option<&FlowPlace> {
        match &self.point {
            WayPoint::Flow { place, .. } => Some(place),
            _ => None,
        }
    }

    /// Whether it is the queue of a socket from which a server reads.
    pub fn is_servers_socket(&self) -> bool {
        matches!(
            self.point,
            WayPoint::Flow {
                side: None | Some(ExchangeSide::Request),
                place: FlowPlace::In { station: Station::Socket { .. }, .. },
            }
        )
    }
}

/// What the time before the last of a request's frames begins is.
fn before_its_last(repeats: u32) -> WayPoint {
    if repeats > 0 { WayPoint::SentAgain } else { WayPoint::FramesBeforeLast }
}

/// Finds the ways of flows and exchanges, and names their places.
pub struct Ways<'f> {
    flows: &'f Flows,
    /// All of them, in the order of their beginnings.
    exchanges: &'f [Exchange],
    functions: Functions,
    /// Places that have been named, by whose exchange they are on and its side.
    names: HashMap<(Option<Made>, Option<ExchangeSide>), Named>,
}

/// Places by what they are for flows.
type Named = HashMap<Spot, Arc<WayPlace>>;

impl<'f> Ways<'f> {
    /// Of these flows, and of [all their exchanges](crate::exchange::of).
    pub fn of(flows: &'f Flows, exchanges: &'f [Exchange]) -> Self {
        Self { flows, exchanges, functions: Functions::default(), names: HashMap::new() }
    }

    /// The way of one of the flows.
    pub fn flow(&mut self, flow: &Flow) -> Way {
        let mut way = Going::from(flow.start_ns, flow.end_ns);
        self.go(&mut way, flow, &None, None, i64::MAX);
        way.way
    }

    /// The way of a request and its answer: of what carried the request's last byte, the server, and what carried the
    /// answer's first byte. The rest of the answer is the last leg. Where one waits for the server, and for the rest of the
    /// answer, those that the server made for it are gone through. It begins when it was due, in nanoseconds, if that is
    /// before the request's first frame began.
    pub fn exchange(&mut self, exchange: &Exchange, due_ns: i64) -> Way {
        let mut way = self.asked(exchange, due_ns, exchange.end_ns);
        self.go_and_return(&mut way, exchange, &None, DEPTH);
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
                way.until(exchange.start_ns, || at(&None, WayPoint::ClientBetween), first);
            }
            self.go_and_return(&mut way, exchange, &None, DEPTH);
        }
        way.way
    }

    /// Until it asked, a client was late.
    fn asked(&self, exchange: &Exchange, due_ns: i64, end_ns: i64) -> Going {
        let mut way = Going::from(due_ns.min(exchange.start_ns), end_ns);
        if let Some(first) = self.first(exchange) {
            way.until(exchange.start_ns, || at(&None, WayPoint::ClientLate), first);
        }
        way
    }

    /// The first of what is told of an exchange.
    fn first(&self, exchange: &Exchange) -> Option<&'f Row> {
        self.flows.flow(*exchange.request.flows.first()?)?.path().next()
    }

    /// `made` is the exchange's own, if it was made for another one.
    fn go_and_return(&mut self, way: &mut Going, exchange: &Exchange, made: &Option<Made>, depth: usize) {
        let all = self.flows.flows();
        let flow = |at: usize| all.get(at);
        for (nth, &number) in exchange.way.iter().enumerate() {
            let Some(now) = flow(number) else { continue };
            // What is cut off goes on while what it was cut from waits to be sent again.
            let until =
                exchange.way.get(nth + 1).and_then(|&next| flow(next)).map_or(i64::MAX, |next| next.start_ns);
            let begins = |at: usize| flow(at)?.path().next();
            if let Some(first) = now.path().next() {
                let lost = exchange.resent.request.filter(|_| nth == 0 && exchange.repeats == 0);
                if let Some(lost) = lost.and_then(begins) {
                    way.until(lost.time_ns, || at(made, before_its_last(0)), lost);
                    way.until(first.time_ns, || at(made, before_its_last(1)), first);
                }
                let point =
                    || if nth == 0 { before_its_last(exchange.repeats) } else { WayPoint::PutTogether };
                way.until(first.time_ns, || at(made, point()), first);
            }
            self.go(way, now, made, Some(ExchangeSide::Request), until);
        }
        let Some(answer) = flow(exchange.answered_by) else { return };
        let begins = |at: usize| flow(at)?.path().next();
        let again = |way: &mut Going, first: &Row| {
            way.until(first.time_ns, || at(made, WayPoint::AnsweredAgain), first);
        };
        if let Some(first) = answer.path().next() {
            let server = WayPoint::Server { domain: exchange.server_domain.clone() };
            let lost = exchange.resent.answer.and_then(begins);
            self.wait(way, exchange, lost.unwrap_or(first), &at(made, server), depth);
            again(way, first);
        }
        self.go(way, answer, made, Some(ExchangeSide::Answer), i64::MAX);
        if let Some([Some(lost), Some(first)]) = exchange.resent.rest.map(|rest| rest.map(begins)) {
            self.wait(way, exchange, lost, &at(made, WayPoint::FramesAfterFirst), depth);
            again(way, first);
        }
        // What came after the end brought nothing new.
        let came = exchange.answer.flows.iter().filter_map(|id| self.flows.flow(*id));
        let last = came.filter(|flow| flow.end_ns <= exchange.end_ns).max_by_key(|flow| flow.end_ns);
        if let Some(last) = last.and_then(|flow| flow.path().next_back()) {
            self.wait(way, exchange, last, &at(made, WayPoint::FramesAfterFirst), depth);
        }
    }

    /// Until then it waits for who answers; or for whom that asks, one after the other.
    fn wait(
        &mut self,
        way: &mut Going,
        exchange: &Exchange,
        until: &Row,
        place: &Arc<WayPlace>,
        depth: usize,
    ) {
        let (exchanges, end_ns) = (self.exchanges, way.end_ns);
        let made = exchange.made.iter().filter(|_| depth > 0).filter_map(|&at| exchanges.get(at));
        for made in made.take_while(|made| made.start_ns < until.time_ns) {
            let Some(first) = self.first(made) else { continue };
            way.until(made.start_ns, || place.clone(), first);
            way.end_ns = end_ns.min(until.time_ns);
            let own = Made { client: made.client_domain.clone(), server: made.server_domain.clone() };
            self.go_and_return(way, made, &Some(own), depth - 1);
            way.end_ns = end_ns;
        }
        way.until(until.time_ns, || place.clone(), until);
    }

    /// Goes on along a flow's path, not beyond that time.
    fn go(
        &mut self,
        way: &mut Going,
        flow: &Flow,
        made: &Option<Made>,
        side: Option<ExchangeSide>,
        until: i64,
    ) {
        let path: Vec<&Row> = flow.path().take(LEGS).collect();
        let numbers: Vec<_> =
            path.iter().map(|row| self.functions.of(row, |row| self.flows.function_of(row))).collect();
        let (flows, names) = (self.flows, self.names.entry((made.clone(), side)).or_default());
        for (spot, row) in places::spots(&numbers, &self.functions).into_iter().zip(path.iter().skip(1)) {
            if row.time_ns > until {
                break;
            }
            let name = || {
                if let Some(known) = names.get(&spot) {
                    return known.clone();
                }
                let place = spot.place(|number| flows.domain(number), None);
                let name = at(made, WayPoint::Flow { side, place });
                names.insert(spot, name.clone());
                name
            };
            way.until(row.time_ns, name, row);
        }
    }
}

fn at(made: &Option<Made>, point: WayPoint) -> Arc<WayPlace> {
    Arc::new(WayPlace { made: made.clone(), point })
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
    fn until(&mut self, time: i64, place: impl FnOnce() -> Arc<WayPlace>, row: &Row) {
        let Way { start_ns, legs } = &mut self.way;
        let at = legs.last().map_or(*start_ns, |leg| leg.until_ns);
        let until_ns = time.min(self.end_ns);
        if until_ns > at && legs.len() < LEGS {
            let Row { domain, cpu, tid, .. } = *row;
            legs.push(Leg { place: place(), until_ns, domain, cpu, tid });
        }
    }
}
