//! Transactions whose ways records tell: flows, and requests with their answers.

use std::collections::{HashSet, VecDeque};

use xweave_flow::{Depths, Exchange, Flow, Flows, Join, Leg, Wanted, Way, Ways, exchange, legs::bare};
use xweave_trace::Trace;

use crate::{
    breakdown::breakdown_at, bytes::Bytes, machine::Machine, passed::Passed, spec::Spec, thread::ThreadId,
    transaction::Transaction, vcpu::CpuId,
};

/// The ways of all transactions of a trace that records tell of.
#[derive(Default)]
pub(crate) struct Paths {
    /// In the order of their ends.
    pub all: VecDeque<Path>,
    /// Whether there are no complete ones.
    pub incomplete: bool,
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
    /// Of each leg that comes to another place, how many others were there then.
    others: Vec<Option<u32>>,
}

impl Path {
    fn new(id: u64, name: String, bytes: Option<Bytes>, way: Way) -> Self {
        let end_ns = way.legs.last().map_or(way.start_ns, |leg| leg.until_ns);
        Self { id, name, end_ns, earliest_ns: way.start_ns, bytes, way, others: Vec::new() }
    }

    /// Knows how many others were where it came.
    fn among(mut self, depths: &Depths) -> Self {
        let (mut came, mut before) = (self.way.start_ns, None);
        for leg in &self.way.legs {
            let comes = before.replace(&leg.place) != Some(&leg.place);
            let others =
                comes.then(|| u32::try_from(depths.before(bare(&leg.place), came)).unwrap_or(u32::MAX));
            self.others.push(others);
            came = leg.until_ns;
        }
        self
    }

    /// From step to step it is the time of who made the later one: a thread, or the interrupts of a processor.
    pub fn break_down(self, machine: &Machine) -> Transaction {
        let (mut pieces, mut at) = (Vec::new(), self.way.start_ns);
        for leg in &self.way.legs {
            let cpu = CpuId { domain: leg.domain, cpu: leg.cpu };
            pieces.extend(breakdown_at(machine, cpu, leg.tid, at, leg.until_ns));
            at = leg.until_ns;
        }
        let last = self.way.legs.last().map_or((0, 0), |leg| (leg.domain, leg.tid));
        let thread = ThreadId { domain: last.0, tid: last.1 };
        let others = self.others.into_iter().chain(std::iter::repeat(None));
        let passed = |(Leg { place, until_ns, .. }, others)| Passed { segment: place, until_ns, others };
        let segments = self.way.legs.into_iter().zip(others).map(passed).collect();
        Transaction { bytes: self.bytes, segments, ..Transaction::new(self.name, thread, pieces) }
    }
}

impl Paths {
    /// Those that are meant; none, if records do not tell of such.
    pub fn of(trace: &Trace, spec: &Spec) -> Self {
        let (mut all, incomplete) = match spec {
            Spec::Flow(name) => flows(trace, name.as_deref()),
            Spec::Exchange(port) => exchanges(trace, *port),
            _ => return Self::default(),
        };
        all.sort_by_key(|path| path.end_ns);
        all.iter_mut().rev().fold(i64::MAX, |earliest, path| {
            path.earliest_ns = earliest.min(path.way.start_ns);
            path.earliest_ns
        });
        Self { all: all.into(), incomplete }
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
    let mut ways = Ways::of(&flows);
    let path = |flow: &Flow| {
        let bytes = flow.frame.map(|frame| Bytes { sent: frame.bytes.into(), received: 0 });
        Path::new(flow.id, flow.name.clone(), bytes, ways.flow(flow))
    };
    (flows.flows().iter().map(path).collect(), flows.summary().complete == 0)
}

/// The exchanges that are transactions; and whether they are incomplete.
fn exchanges(trace: &Trace, port: Option<u16>) -> (Vec<Path>, bool) {
    let flows = Flows::of(trace);
    let meant = |exchange: &Exchange| port.is_none_or(|port| exchange.connection.server.port() == port);
    let mut found: Vec<Exchange> = exchange::of(&flows).into_iter().filter(meant).collect();
    let incomplete = !found.iter().any(|exchange| exchange.complete);
    found.retain(|exchange| exchange.complete || incomplete);
    let mut ways = Ways::of(&flows);
    let depths = Depths::of(&flows, &mut ways);
    // An ID says which one is meant: of exchanges that began with one flow, the first has it.
    let mut begun = HashSet::new();
    let path = |(nth, exchange): (usize, &Exchange)| {
        let first = exchange.request.flows.first().copied().unwrap_or_default();
        let id = if begun.insert(first) { first } else { nth as u64 };
        let connection = &exchange.connection;
        let name = format!("{} {} → {}", connection.protocol, connection.client, connection.server);
        let bytes = Bytes { sent: exchange.request.bytes, received: exchange.answer.bytes };
        Path::new(id, name, Some(bytes), ways.exchange(exchange)).among(&depths)
    };
    (found.iter().enumerate().map(path).collect(), incomplete)
}
