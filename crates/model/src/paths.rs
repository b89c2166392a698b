//! Transactions whose ways records tell: flows, requests with their answers, and calls of several of these.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    net::{IpAddr, SocketAddr},
};

use xweave_flow::{
    Depths, Exchange, Flow, FlowPlace, Flows, Join, Key, Leg, Wanted, Way, Ways,
    exchange::{self, Connection},
    flow_place::{KnownStation, Station},
    legs::{ExchangeSide, WayPoint},
};
use xweave_replay::{CpuId, ThreadId};
use xweave_trace::{Trace, event};

use crate::{
    breakdown::{
        Cause, Object, Piece, TimeState, breakdown_at, breakdown_of_carrier_at, breakdown_until_read_at,
    },
    bytes::Bytes,
    clock_errors::{ClockErrors, unknown},
    held::{Hold, Holder},
    machine::Machine,
    passed::{Passed, Stretch},
    spec::{Rate, Spec},
    transaction::Transaction,
    unused::Unused,
};

/// The ways of all transactions of a trace that records tell of.
#[derive(Default)]
pub(crate) struct Paths {
    /// In the order of their ends.
    pub all: VecDeque<Path>,
    /// Whether there are no complete ones.
    pub incomplete: bool,
    /// Requests of which there is none.
    pub unused: Unused,
}

/// What a way says of whose time it took.
pub(crate) struct Path {
    pub id: u64,
    name: String,
    pub end_ns: i64,
    /// When the first begins of it and those that end later.
    pub earliest_ns: i64,
    /// How much data it is.
    bytes: Option<Bytes>,
    way: Way,
    /// The port of who answers; 0 if nobody does.
    service: u16,
    /// The connection that it is of, as both ends call it, if it is known.
    connection: Option<[event::Connection; 2]>,
    /// Of each leg that comes to another place, how many others were there then.
    others: Vec<Option<u32>>,
}

impl Path {
    fn new(id: u64, name: String, bytes: Option<Bytes>, way: Way) -> Self {
        let end_ns = way.legs.last().map_or(way.start_ns, |leg| leg.until_ns);
        Self {
            id,
            name,
            end_ns,
            earliest_ns: way.start_ns,
            bytes,
            way,
            service: 0,
            connection: None,
            others: Vec::new(),
        }
    }

    /// Knows who answers.
    fn to(self, service: u16) -> Self {
        Self { service, ..self }
    }

    /// Knows whose data it is.
    fn of(self, source: SocketAddr, target: SocketAddr) -> Self {
        Self { connection: Some(event::Connection::between(source, target).ends()), ..self }
    }

    /// Knows how many others were where it came.
    fn among(mut self, depths: &Depths) -> Self {
        let (mut came, mut before) = (self.way.start_ns, None);
        for leg in &self.way.legs {
            let comes = before.replace(&leg.place) != Some(&leg.place);
            let others = |place| u32::try_from(depths.before(place, came)).unwrap_or(u32::MAX);
            self.others.push(comes.then(|| leg.place.flow_place().map_or(0, others)));
            came = leg.until_ns;
        }
        self
    }

    /// From step to step it is the time of who made the later one: a thread, or the interrupts of a processor.
    /// What crosses from one to another in less time than their clocks can tell is nobody's.
    pub fn break_down(self, machine: &Machine, clocks: &ClockErrors) -> Transaction {
        let (mut pieces, mut at) = (Vec::new(), self.way.start_ns);
        let mut before = self.way.legs.first().map_or(0, |leg| leg.domain);
        let sent_again = |leg: &Leg, from, to, times: Option<usize>| {
            let other = self.way.legs.iter().map(|leg| leg.domain).find(|other| *other != leg.domain);
            let object =
                Object::Link { from: leg.domain, to: other.unwrap_or(leg.domain), service: self.service };
            let cause = times.map(Cause::Repeated);
            Piece { from, to, object, spent: TimeState::Retransmit, cause, depth: 0 }
        };
        for leg in &self.way.legs {
            let cpu = CpuId { domain: leg.domain, cpu: leg.cpu };
            if matches!(leg.place.point, WayPoint::SentAgain | WayPoint::AnsweredAgain) {
                // Whatever its client did meanwhile.
                pieces.push(sent_again(leg, at, leg.until_ns, None));
            } else {
                // TCP keeps what it sends, as the same flow, until it is acknowledged.
                let again = self.repeated(machine, leg, at);
                if let Some((last, times)) = again.filter(|(last, _)| *last > at) {
                    pieces.push(sent_again(leg, at, last, Some(times)));
                    at = last;
                }
                let told = match &leg.place.point {
                    _ if leg.place.is_servers_socket() => breakdown_until_read_at,
                    WayPoint::Flow { side: Some(_), place } if is_passed_on(place) => breakdown_of_carrier_at,
                    _ => breakdown_at,
                };
                let of_leg = told(machine, cpu, leg.tid, at, leg.until_ns);
                let mut holds = self.connection.map_or_else(Vec::new, |connection| {
                    machine.holds.within(&connection, Some(leg.domain), at, leg.until_ns)
                });
                // A frame that is elsewhere is one that TCP has sent: it holds back others.
                holds.retain(|hold| {
                    !matches!(hold.holder, Holder::SendQueue { .. }) || is_in_send_queue(&leg.place.point)
                });
                let known = leg.until_ns.saturating_sub(at) >= clocks.between(before, leg.domain);
                let of_leg = within_holds(of_leg, &holds).into_iter();
                pieces.extend(of_leg.map(|piece| if known { piece } else { unknown(piece) }));
            }
            (at, before) = (leg.until_ns, leg.domain);
        }
        let last = self.way.legs.last().map_or((0, 0), |leg| (leg.domain, leg.tid));
        let thread = ThreadId { domain: last.0, tid: last.1 };
        let others = self.others.into_iter().chain(std::iter::repeat(None));
        let passed =
            |(Leg { place, until_ns, .. }, others)| Passed { stretch: Stretch::Way(place), until_ns, others };
        let segments = self.way.legs.into_iter().zip(others).map(passed).collect();
        Transaction { bytes: self.bytes, segments, ..Transaction::new(self.name, thread, pieces) }
    }

    /// When the sender of a flow last sent it again while it was in one place since a time, and how often it did.
    fn repeated(&self, machine: &Machine, leg: &Leg, since: i64) -> Option<(i64, usize)> {
        let [client, server] = self.connection?;
        let sender = match &leg.place.point {
            WayPoint::Flow { side: Some(ExchangeSide::Answer), .. } => server,
            WayPoint::Flow { .. } => client,
            _ => return None,
        };
        machine.connections.repeated_by(sender, leg.domain, since, leg.until_ns)
    }
}

/// Whether a frame that is there is passed on by who takes it from a queue.
fn is_passed_on(place: &FlowPlace) -> bool {
    match place {
        FlowPlace::Carrier { .. } => true,
        FlowPlace::In { station, .. } => matches!(
            station,
            Station::Stack
                | Station::StackAndDriver
                | Station::DeviceQueue { .. }
                | Station::Known(KnownStation::Bridge | KnownStation::VhostAndTap)
        ),
    }
}

/// Reports whether a flow has been given to TCP there, and not yet sent.
fn is_in_send_queue(point: &WayPoint) -> bool {
    let WayPoint::Flow { place: FlowPlace::In { station, .. }, .. } = point else { return false };
    *station == Station::Known(KnownStation::TcpSendQueue)
}

/// Replaces what lies within holds by pieces of what held it back. The holds come as
/// [`Holds::within`](crate::held::Holds::within) returns them: the last first, and no two at once.
fn within_holds(pieces: Vec<Piece>, holds: &[Hold]) -> Vec<Piece> {
    let mut all = Vec::with_capacity(pieces.len() + 2 * holds.len());
    let mut holds = holds.iter().rev().peekable();
    // Until when the last one lasted: it may have been over in a later piece.
    let mut until = i64::MIN;
    for piece in pieces {
        while let Some(hold) = holds.next_if(|hold| hold.from < piece.to) {
            all.push(Piece { from: piece.from.max(until), to: hold.from, ..piece });
            all.push(Piece {
                from: hold.from,
                to: hold.to,
                object: Object::Holder(hold.holder),
                spent: hold.holder.into(),
                cause: None,
                depth: 0,
            });
            until = hold.to;
        }
        all.push(Piece { from: piece.from.max(until), ..piece });
    }
    all.retain(|piece| piece.from < piece.to);
    all
}

impl Paths {
    /// Those that are meant; none, if records do not tell of such.
    pub fn of(trace: &Trace, spec: &Spec) -> Self {
        let mut unused = Unused::default();
        let (mut all, incomplete) = match spec {
            Spec::Flow(name) => flows(trace, name.as_deref()),
            Spec::Exchange(port, rate) => exchanges(trace, *port, *rate, false, &mut unused),
            Spec::Call(port, rate) => exchanges(trace, *port, *rate, true, &mut unused),
            _ => return Self::default(),
        };
        all.sort_by_key(|path| path.end_ns);
        all.iter_mut().rev().fold(i64::MAX, |earliest, path| {
            path.earliest_ns = earliest.min(path.way.start_ns);
            path.earliest_ns
        });
        Self { all: all.into(), incomplete, unused }
    }
}

/// Which flows are transactions: the first of these that there are. A frame without data (an acknowledgement, a question
/// for an address) is not what anybody waits for.
const TRANSACTIONS: [fn(&Flow) -> bool; 3] = [
    |flow| flow.complete() && flow.frame.is_none_or(|frame| frame.has_data()),
    Flow::complete,
    |flow| flow.lost == 0 && flow.total_ns() > 0,
];

/// The flows that are transactions; and whether they are incomplete.
fn flows(trace: &Trace, name: Option<&str>) -> (Vec<Path>, bool) {
    let named = |flow: &Flow| name.is_none_or(|name| *name == flow.name);
    let found = TRANSACTIONS.iter().find_map(|is| {
        let wanted = Wanted { of: &|flow| is(flow) && named(flow), kept: None };
        let flows = Flows::read(trace, Join::of(trace), wanted);
        (!flows.flows().is_empty()).then_some(flows)
    });
    let Some(flows) = found else { return (Vec::new(), false) };
    let mut ways = Ways::of(&flows, &[]);
    let path = |flow: &Flow| {
        let bytes = flow.frame.map(|frame| Bytes { sent: frame.bytes.into(), received: 0 });
        let path = Path::new(flow.id, flow.name.clone(), bytes, ways.flow(flow));
        match flow.frame.filter(|frame| frame.source_port != 0) {
            Some(frame) => path.of(
                SocketAddr::new(frame.source, frame.source_port),
                SocketAddr::new(frame.target, frame.target_port),
            ),
            None => path,
        }
    };
    (flows.flows().iter().map(path).collect(), flows.summary().complete == 0)
}

/// The exchanges that are transactions, or the calls that they make up; and whether they are incomplete. Counts those that are
/// none.
fn exchanges(
    trace: &Trace,
    port: Option<u16>,
    rate: Option<Rate>,
    calls: bool,
    unused: &mut Unused,
) -> (Vec<Path>, bool) {
    let flows = Flows::of(trace);
    let exchange::Found { exchanges: all, unanswered } = exchange::find(&flows);
    let asked =
        |request: &&exchange::Unanswered| port.is_none_or(|port| request.connection.server.port() == port);
    unanswered.iter().filter(asked).for_each(|request| unused.add(request.lacks));
    let meant = |exchange: &&Exchange| port.is_none_or(|port| exchange.connection.server.port() == port);
    // What a server asks for one that is meant is a part of that.
    let parts: HashSet<usize> = all.iter().filter(meant).flat_map(|of| of.made.iter().copied()).collect();
    let found = all.iter().enumerate().filter(|(at, _)| !parts.contains(at)).map(|(_, of)| of).filter(meant);
    let mut groups = if calls { by_call(found) } else { found.map(|one| vec![one]).collect() };
    groups.sort_by_key(|of| of[0].start_ns);
    let began: Vec<i64> = groups.iter().map(|of| of[0].start_ns).collect();
    let due = rate.map_or(began.clone(), |rate| rate.due(&began));
    let complete = |of: &Vec<&Exchange>| of.iter().all(|exchange| exchange.complete);
    let incomplete = !groups.iter().any(complete);
    if !incomplete {
        let lacking =
            groups.iter().filter(|of| !complete(of)).flatten().filter(|exchange| !exchange.complete);
        lacking.for_each(|exchange| unused.add(exchange.lacks));
    }
    let groups = groups.into_iter().zip(due).filter(|(of, _)| incomplete || complete(of));
    let mut ways = Ways::of(&flows, &all);
    let depths = Depths::of(&flows, &mut ways);
    // An ID says which one is meant: of those that began with one flow, the first has it.
    let mut begun = HashSet::new();
    let path = |(nth, (of, due)): (usize, (Vec<&Exchange>, i64))| {
        let first = of[0].request.flows.first().copied().unwrap_or_default();
        let id = if begun.insert(first) { first } else { nth as u64 };
        let connection = &of[0].connection;
        let name = match of[0].key.filter(|_| calls) {
            Some(key) => format!("{key} → {}", connection.server),
            None => format!("{} {} → {}", connection.protocol, connection.client, connection.server),
        };
        let sum = |side: fn(&Exchange) -> u64| of.iter().map(|of| side(of)).fold(0, u64::saturating_add);
        let bytes = Bytes { sent: sum(|of| of.request.bytes), received: sum(|of| of.answer.bytes) };
        let way = if calls { ways.call(&of, due) } else { ways.exchange(of[0], due) };
        Path::new(id, name, Some(bytes), way)
            .to(connection.server.port())
            .of(connection.client, connection.server)
            .among(&depths)
    };
    (groups.enumerate().map(path).collect(), incomplete)
}

/// Exchanges of one key between one client and one server, each group in the order of its beginnings; those without a key are
/// of no call.
fn by_call<'e>(found: impl Iterator<Item = &'e Exchange>) -> Vec<Vec<&'e Exchange>> {
    let mut calls: BTreeMap<(Key, IpAddr, SocketAddr), Vec<&Exchange>> = BTreeMap::new();
    for exchange in found {
        if let Some(key) = exchange.key {
            let Connection { client, server, .. } = exchange.connection;
            calls.entry((key, client.ip(), server)).or_default().push(exchange);
        }
    }
    calls.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::QdiscId;
    use xweave_flow::WayPlace;

    #[test]
    fn all_that_lies_within_a_hold_is_its_holder_s_and_no_more() {
        let cpu = |cpu| Object::Interrupts(CpuId { domain: 1, cpu });
        let piece =
            |from, to, object| Piece { from, to, object, spent: TimeState::Waiting, cause: None, depth: 0 };
        let holder = Holder::Qdisc(QdiscId {
            domain: 1,
            kind: event::Name::default(),
            device: event::Name::default(),
        });
        let held = |times: &[(i64, i64)]| -> Vec<(i64, i64, Object)> {
            let frames = times.iter().map(|&(from, to)| Hold::new(from, to, holder));
            let pieces = vec![piece(0, 10, cpu(0)), piece(10, 20, cpu(1)), piece(20, 30, cpu(2))];
            let all = within_holds(pieces, &frames.collect::<Vec<_>>());
            all.into_iter().map(|piece| (piece.from, piece.to, piece.object)).collect()
        };
        let queue = Object::Holder(holder);
        assert_eq!(held(&[]), [(0, 10, cpu(0)), (10, 20, cpu(1)), (20, 30, cpu(2))]);
        assert_eq!(held(&[(0, 30)]), [(0, 30, queue)]);
        assert_eq!(held(&[(5, 25)]), [(0, 5, cpu(0)), (5, 25, queue), (25, 30, cpu(2))]);
        let two = [(0, 2, cpu(0)), (2, 4, queue), (4, 6, cpu(0)), (6, 12, queue), (12, 14, cpu(1))];
        let rest = [(14, 20, queue), (20, 30, cpu(2))];
        assert_eq!(held(&[(14, 20), (6, 12), (2, 4)]), [&two[..], &rest].concat());
    }

    #[test]
    fn what_tcp_sent_again_while_it_was_in_one_place_is_not_that_places_time() {
        let [client, server] = [40_000, 80].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let connection = event::Connection::between(client, server);
        // The second is the server's: of the answer before.
        let repeat = |time, connection: event::Connection| event::Event {
            position: connection.0,
            ..event::Event::new(event::Kind::Retransmit, 1, time, 0, 0)
        };
        let mut machine = Machine::default();
        [repeat(300, connection), repeat(400, connection.peer())]
            .iter()
            .for_each(|event| machine.feed(event));
        let leg = |side, until_ns| {
            let place = FlowPlace::In { domain: "host".into(), station: Station::Stack };
            let point = WayPoint::Flow { side, place };
            Leg { place: WayPlace { made: None, point }.into(), until_ns, domain: 1, cpu: 0, tid: 7 }
        };
        for (side, again) in [(ExchangeSide::Request, (300, 200)), (ExchangeSide::Answer, (400, 100))] {
            let way = Way { start_ns: 0, legs: vec![leg(Some(side), 100), leg(Some(side), 500)] };
            let path = Path::new(1, String::new(), None, way).of(client, server);
            let parts = path.break_down(&machine, &ClockErrors::default()).pieces;
            let lost: Vec<_> = parts.iter().filter(|piece| piece.spent == TimeState::Retransmit).collect();
            assert_eq!(
                lost.iter().map(|piece| (piece.to, piece.cause)).collect::<Vec<_>>(),
                [(again.0, Some(Cause::Repeated(1)))]
            );
            assert_eq!(
                (lost[0].from, parts.iter().map(|piece| piece.to - piece.from).sum::<i64>()),
                (100, 500)
            );
            assert_eq!(parts.last().map(|piece| piece.to - piece.from), Some(again.1));
        }
    }

    #[test]
    fn tcp_holds_back_what_is_in_its_send_queue_and_nothing_that_has_left_it() {
        let [client, server] = [40_000, 80].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let connection = event::Connection::between(client, server).ends()[0];
        let event =
            |kind, time| event::Event { position: connection.0, ..event::Event::new(kind, 1, time, 0, 0) };
        let mut machine = Machine::default();
        let hold = event::Event { code: event::HoldReason::Nagle.code(), ..event(event::Kind::TcpHold, 100) };
        [hold, event(event::Kind::TcpRelease, 400)].iter().for_each(|event| machine.feed(event));
        for (station, held) in [(Station::Known(KnownStation::TcpSendQueue), 300), (Station::Stack, 0)] {
            let place = FlowPlace::In { domain: "host".into(), station };
            let point = WayPoint::Flow { side: Some(ExchangeSide::Request), place };
            let leg = Leg {
                place: WayPlace { made: None, point }.into(),
                until_ns: 500,
                domain: 1,
                cpu: 0,
                tid: 7,
            };
            let path =
                Path::new(1, String::new(), None, Way { start_ns: 0, legs: vec![leg] }).of(client, server);
            let parts = path.break_down(&machine, &ClockErrors::default()).pieces;
            let times = parts.iter().map(|piece| (piece.spent, piece.to - piece.from));
            let in_queue: i64 = times.filter(|of| of.0 == TimeState::SendQueue).map(|of| of.1).sum();
            assert_eq!(in_queue, held);
        }
    }
}
