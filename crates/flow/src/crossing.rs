//! Pairing the two sides of carriers.
//!
//! A flow goes onto a carrier in one domain (`xin`) and comes off it in another (`xout`); both
//! records have the same key. Keys come again: ring indexes wrap, queues are reset, a full ring is
//! tried again with the same index. So times decide between equal keys, as follows.
//!
//! A slot that is put on again has been taken off before: an `xout` belongs to the latest `xin` before it, unless the
//! ring has come round between them (`positions`). Where the clocks' error leaves that open, the nearest of the
//! neighbours is taken. Only where more find a partner so, or much nearer ones, is one taken against causality (a
//! *negative gap*; `matching`).
//!
//! Records come window by window ([`crate::join`]): how far rings have come, which process runs which guest, and what
//! happened on each carrier is kept from one to the next.

mod errors;
mod matching;
mod numbered;
mod peers;
mod positions;
mod rings;

use std::collections::{HashMap, HashSet};

use xweave_trace::{Row, Trace};
use xweave_wire::record::{Kind, maker};

use crate::{instances, local::Locals};
use errors::Errors;
use matching::{Matching, candidates, in_order, matched};
use numbered::one_by_one;
pub use peers::FoundPeer;
use peers::Peers;
use positions::Place;
use rings::Rings;

/// So many keys must tell which process runs a guest, unless these are all that there are.
const KEYS: u64 = 256;

/// In place of a ring: what is under a key says what was put on, and not where. `XW_CONTENT` of
/// `bpf/carriers/content.h`.
const CONTENT: u64 = u64::MAX;

/// The first byte in place of a ring: what goes one at a time, which each side numbers on its own. `XW_NUMBERED` of
/// `bpf/carriers/numbered.h`.
const NUMBERED: u64 = 0xfe;

/// The most sides of rings of which it is remembered how far they have come: a guest has a few.
const SIDES: usize = 1 << 16;

/// One side of a crossing.
#[derive(Clone, Copy, Debug)]
struct Event {
    channel: Channel,
    index: u64,
    check: u64,
    time: i64,
    put: bool,
    /// Place of the row, and of its local flow.
    row: usize,
    local: usize,
    domain: u8,
    /// Whether its ID was told: it came off as what it had been put on as.
    told: bool,
    at: OnRing,
}

/// Where on its side of a ring an event is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnRing {
    /// Counts up each time when the ring's index is another one than before.
    run: u32,
    /// How far the ring has come, where the index is a place on one.
    place: Option<Place>,
}

impl Event {
    fn key(&self) -> (Channel, u64, u64) {
        let (index, check) = self.slot();
        (self.channel, index, check)
    }

    /// What both sides call it, on its channel: nothing, where each numbers on its own.
    fn slot(&self) -> (u64, u64) {
        if self.channel.is_numbered() { (0, 0) } else { (self.index, self.check) }
    }
}

/// One direction of one ring of one guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Channel {
    guest: Guest,
    /// Place in [`Carriers::counts`].
    carrier: usize,
    ring: u64,
    to_host: bool,
}

impl Channel {
    fn is_numbered(&self) -> bool {
        self.ring >> 56 == NUMBERED
    }
}

/// The guest whose ring it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Guest {
    /// A domain of the trace.
    Domain(u8),
    /// A process of a host, which no domain of the trace is known to be.
    Process(u8, u64),
}

/// What joins two local flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// Place of the local flow that was put on the carrier, and of the row that says so.
    pub from: (usize, usize),
    /// Place of the local flow that came off, and of the row that says so.
    pub to: (usize, usize),
    /// The time it was on the carrier, in nanoseconds.
    pub gap_ns: i64,
    /// By how much that may be wrong, in nanoseconds.
    pub error_ns: u64,
}

impl Crossing {
    /// Whether it came off before it was put on, by more than the clocks' error.
    pub fn is_negative(&self) -> bool {
        self.gap_ns < 0 && self.gap_ns.unsigned_abs() > self.error_ns
    }
}

/// What happened on the carriers of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarrierCounts {
    /// The carrier's name.
    pub carrier: String,
    /// Pairs found.
    pub crossings: u64,
    /// Those of them whose ID had crossed, too.
    pub told: u64,
    /// Put on, and not seen to come off.
    pub unmatched_xin: u64,
    /// Come off, and not seen to be put on: the sender was not traced, or its record is missing.
    pub unmatched_xout: u64,
    /// Of those, how many are frames of strangers, of which nothing else can be expected.
    pub strangers: u64,
    /// Records that a later one for the same slot replaced: the operation had been tried again.
    pub superseded: u64,
    /// Records of equal keys that were not joined, as the ring's index had come round between them: their partners'
    /// records are missing. Both sides are among those unmatched.
    pub refused: u64,
    /// Records of equal keys that were not joined, as what came off has the ID of another flow: whoever put it on lies, or
    /// its records are missing. They are among those unmatched.
    pub contradicted: u64,
    /// Pairs that contradict causality: an error of the clocks.
    pub negative_gaps: u64,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Its partner was found.
    Paired { negative: bool, told: bool },
    /// It has none.
    Unmatched,
    /// It has none, as the ring had come round between it and those that have its key.
    Refused,
    /// It has none, as what was put on under its key has another ID than it.
    Contradicted,
    /// A later one for the same slot replaced it.
    Superseded,
}

/// The crossings among the local flows of a window.
pub(crate) struct Crossings {
    /// The pairs.
    pub pairs: Vec<Crossing>,
    /// Places of rows put on a carrier that the other side, though recorded, did not take off.
    pub unmatched_rows: Vec<usize>,
    /// Local flows with a record whose partner, of a side that is recorded, may still come.
    pub awaited: HashSet<usize>,
    events: Vec<(Event, Outcome)>,
}

/// What is known of a trace's carriers.
pub(crate) struct Carriers<'t> {
    trace: &'t Trace,
    errors: Errors,
    peers: Peers,
    rings: Rings,
    /// Guests by host and process, or domain of Xen, as clocks or Xen told.
    process: HashMap<(u8, u64), u8>,
    /// Place in `counts` by name, and by site.
    named: HashMap<&'t str, usize>,
    places: HashMap<u32, usize>,
    counts: Vec<CarrierCounts>,
    /// The sides of which records were seen.
    seen: HashSet<(Channel, bool)>,
    /// The carriers that anything was seen to come off.
    taken: HashSet<usize>,
}

impl<'t> Carriers<'t> {
    pub(crate) fn of(trace: &'t Trace) -> Self {
        let mut process = HashMap::new();
        for domain in &trace.manifest().domains {
            for (host, peer) in domain.peers() {
                if let Some(host) = trace.manifest().domains.iter().find(|d| d.name == host) {
                    process.insert((host.number, peer), domain.number);
                }
            }
        }
        Self {
            trace,
            errors: Errors::of(trace),
            peers: Peers::of(trace),
            rings: Rings::of(trace),
            process,
            named: HashMap::new(),
            places: HashMap::new(),
            counts: Vec::new(),
            seen: HashSet::new(),
            taken: HashSet::new(),
        }
    }

    /// The most that a domain's clock may be wrong by, but for its breaks, in nanoseconds.
    pub(crate) fn clock_error(&self) -> u64 {
        self.errors.most_stated()
    }

    /// What happened on each carrier: of the flows that were counted.
    pub(crate) fn into_counts(self) -> (Vec<CarrierCounts>, Vec<FoundPeer>) {
        (self.counts, self.peers.found)
    }

    /// Finds the crossings among a window's local flows. `before` tells where on their rings rows are that were in a
    /// window before; `last`: whether no other follows.
    pub(crate) fn join(
        &mut self,
        locals: &Locals,
        before: impl Fn(usize) -> Option<OnRing>,
        last: bool,
    ) -> Crossings {
        let mut events = self.events(locals);
        self.rings.number(&mut events, before);
        let least = if last { 0 } else { KEYS };
        self.peers.adopt(self.trace, &mut events, &self.errors, least);
        events.sort_unstable_by_key(|e| (e.key(), e.time, e.row));
        for of_one in events.chunk_by(|a, b| a.channel == b.channel) {
            for event in [true, false].into_iter().filter_map(|put| of_one.iter().find(|e| e.put == put)) {
                if self.seen.len() < 2 * SIDES {
                    self.seen.insert((event.channel, event.put));
                }
                self.taken.extend((!event.put).then_some(event.channel.carrier));
            }
        }

        let mut pairs = Vec::new();
        let mut outcomes = Vec::with_capacity(events.len());
        for group in events.chunk_by(|a, b| a.key() == b.key()) {
            self.pair(group, locals, &mut pairs, &mut outcomes);
        }
        let (mut unmatched_rows, mut awaited) = (Vec::new(), HashSet::new());
        for (event, outcome) in &outcomes {
            if matches!(outcome, Outcome::Paired { .. } | Outcome::Superseded) {
                continue;
            }
            if self.seen.contains(&(event.channel, !event.put)) || self.peers.may_find(event) {
                awaited.insert(event.local);
            }
            // A side that nobody recorded leaves its partners without a pair: that is no failure of theirs.
            if event.put && self.taken.contains(&event.channel.carrier) && !self.is_a_strangers(event) {
                unmatched_rows.push(event.row);
            }
        }
        Crossings { pairs, unmatched_rows, awaited, events: outcomes }
    }

    /// Whether it is on a carrier of a process that runs none of the guests that were recorded.
    fn is_a_strangers(&self, event: &Event) -> bool {
        matches!(event.channel.guest, Guest::Process(..)) && !self.peers.may_find(event)
    }

    /// Everything that was put on carriers or taken off.
    fn events(&mut self, locals: &Locals) -> Vec<Event> {
        let mut events = Vec::new();
        for (local, flow) in locals.flows.iter().enumerate() {
            for at in flow.rows.clone() {
                let row = &locals.rows[at];
                let Some(key) = row.carrier_key() else { continue };
                let told = row.kind == Kind::Xout && instances::is_told(row);
                let guest = match (key.peer, self.process.get(&(row.domain, key.peer))) {
                    _ if told => Guest::Domain(maker(row.flow)),
                    (0, _) => Guest::Domain(row.domain),
                    (_, Some(&domain)) => Guest::Domain(domain),
                    (peer, None) => Guest::Process(row.domain, peer),
                };
                let put = row.kind == Kind::Xin;
                let carrier = self.carrier(row);
                let channel = Channel { guest, carrier, ring: key.ring, to_host: put == (key.peer == 0) };
                events.push(Event {
                    channel,
                    index: key.index,
                    check: key.check,
                    time: row.time_ns,
                    put,
                    row: at,
                    local,
                    domain: row.domain,
                    told,
                    at: OnRing::default(),
                });
            }
        }
        events
    }

    fn carrier(&mut self, row: &Row) -> usize {
        if let Some(&place) = self.places.get(&row.site) {
            return place;
        }
        let site = self.trace.site(row.site);
        let name = site.and_then(|site| site.carrier.as_deref()).unwrap_or_default();
        let counts = &mut self.counts;
        let place = *self.named.entry(name).or_insert_with(|| {
            counts.push(CarrierCounts { carrier: name.to_owned(), ..CarrierCounts::default() });
            counts.len() - 1
        });
        // As many as the trace has sites, however many its records name.
        if site.is_some() {
            self.places.insert(row.site, place);
        }
        place
    }

    /// Pairs the events of one key, in the order of their times.
    fn pair(
        &self,
        group: &[Event],
        locals: &Locals,
        pairs: &mut Vec<Crossing>,
        outcomes: &mut Vec<(Event, Outcome)>,
    ) {
        match group.first() {
            Some(event) if event.channel.ring == CONTENT => return self.pair_alike(group, pairs, outcomes),
            Some(event) if event.channel.is_numbered() => {
                return self.pair_one_by_one(group, pairs, outcomes);
            }
            _ => {}
        }
        if let [put, off] = group
            && put.put
            && !off.put
        {
            return self.pair_of_two(put, off, locals, pairs, outcomes);
        }
        if let [alone] = group {
            outcomes.push((*alone, Outcome::Unmatched));
            return;
        }
        let mut ins: Vec<&Event> = Vec::new();
        for event in group.iter().filter(|e| e.put) {
            match ins.last_mut() {
                // The same flow tried the same slot again: only the last time it may have succeeded.
                Some(last) if (last.local, last.at.run) == (event.local, event.at.run) => {
                    outcomes.push((**last, Outcome::Superseded));
                    *last = event;
                }
                _ => ins.push(event),
            }
        }
        let outs: Vec<&Event> = group.iter().filter(|e| !e.put).collect();
        let mut all = candidates(&ins, &outs, &self.errors);
        let may_be_one = |put: &Event, off: &Event| {
            let is_near = self.rings.may_be_one(put, off, locals, &self.errors);
            is_near && !contradicts(put, off, locals)
        };
        let (mut refused, mut contradicted) = (Vec::new(), Vec::new());
        all.retain(|candidate| {
            let (put, off) = (ins[candidate.put], outs[candidate.off]);
            let may = may_be_one(put, off);
            if !may {
                let why = if contradicts(put, off, locals) { &mut contradicted } else { &mut refused };
                why.push((candidate.put, candidate.off));
            }
            may
        });
        let causal = matched(ins.len(), outs.len(), all.iter().filter(|candidate| !candidate.against));
        // Clocks that are wrong by more than they say leave both ends of a row of pairs alone.
        let any = matched(ins.len(), outs.len(), all.iter());
        let better = any.pairs > causal.pairs || any.pairs == causal.pairs && any.cost < causal.cost;
        let Matching { mut partner_of_in, mut partner_of_out, .. } = if better { any } else { causal };
        // Taken off, put back and taken off again: the last time counts. The first one's local flow
        // leads nowhere then.
        let mut replaced = vec![false; outs.len()];
        for o in 1..outs.len() {
            let (before, after) = (outs[o - 1], outs[o]);
            let dead = &locals.flows[before.local];
            if let (Some(i), None) = (partner_of_out[o - 1], partner_of_out[o])
                && before.at.run == after.at.run
                && !dead.quit
                && locals.end(dead) <= after.time
                && may_be_one(ins[i], after)
            {
                (partner_of_out[o - 1], partner_of_out[o]) = (None, Some(i));
                partner_of_in[i] = Some(o);
                replaced[o - 1] = true;
            }
        }

        let alone = |pairs: Vec<(usize, usize)>| -> HashSet<usize> {
            let both = |(i, o): &(usize, usize)| partner_of_in[*i].is_none() && partner_of_out[*o].is_none();
            pairs.into_iter().filter(both).map(|(_, o)| o).collect()
        };
        let (refused, contradicted) = (alone(refused), alone(contradicted));
        for (i, event) in ins.iter().enumerate() {
            let outcome = match partner_of_in[i] {
                Some(o) => {
                    let crossing = self.crossing(event, outs[o]);
                    pairs.push(crossing);
                    Outcome::Paired { negative: crossing.is_negative(), told: outs[o].told }
                }
                // Another flow took the slot, none having been in between: the first did not get it.
                None if ins.get(i + 1).is_some_and(|next| next.at.run == event.at.run)
                    && partner_of_in[i + 1].is_some() =>
                {
                    Outcome::Superseded
                }
                None => Outcome::Unmatched,
            };
            outcomes.push((**event, outcome));
        }
        for (o, event) in outs.iter().enumerate() {
            let outcome = match partner_of_out[o] {
                Some(_) => Outcome::Paired { negative: false, told: false },
                None if replaced[o] => Outcome::Superseded,
                None if refused.contains(&o) => Outcome::Refused,
                None if contradicted.contains(&o) => Outcome::Contradicted,
                None => Outcome::Unmatched,
            };
            outcomes.push((**event, outcome));
        }
    }

    /// Nearly always a key has one of each.
    fn pair_of_two(
        &self,
        put: &Event,
        off: &Event,
        locals: &Locals,
        pairs: &mut Vec<Crossing>,
        outcomes: &mut Vec<(Event, Outcome)>,
    ) {
        if !self.rings.may_be_one(put, off, locals, &self.errors) {
            outcomes.extend([(*put, Outcome::Unmatched), (*off, Outcome::Refused)]);
            return;
        }
        if contradicts(put, off, locals) {
            outcomes.extend([(*put, Outcome::Unmatched), (*off, Outcome::Contradicted)]);
            return;
        }
        let crossing = self.crossing(put, off);
        pairs.push(crossing);
        let outcome = |negative, told| Outcome::Paired { negative, told };
        outcomes.extend([(*put, outcome(crossing.is_negative(), off.told)), (*off, outcome(false, false))]);
    }

    /// Pairs what says the same, in the order of its times: several at once may be on their way.
    fn pair_alike(&self, group: &[Event], pairs: &mut Vec<Crossing>, outcomes: &mut Vec<(Event, Outcome)>) {
        let (mut ins, mut outs): (Vec<&Event>, Vec<&Event>) = (Vec::new(), Vec::new());
        for event in group {
            match ins.last_mut() {
                // The ring was full, and it was tried again.
                Some(last) if event.put && last.local == event.local => {
                    outcomes.push((**last, Outcome::Superseded));
                    *last = event;
                }
                _ if event.put => ins.push(event),
                _ => outs.push(event),
            }
        }
        let found = in_order(&ins, &outs, &self.errors);
        self.take(ins.into_iter().chain(outs), &found, pairs, outcomes);
    }

    /// Pairs what is put on only after the one before has come off.
    fn pair_one_by_one(
        &self,
        group: &[Event],
        pairs: &mut Vec<Crossing>,
        outcomes: &mut Vec<(Event, Outcome)>,
    ) {
        let found = one_by_one(group, &self.rings.positions, &self.errors);
        self.take(group.iter(), &found, pairs, outcomes);
    }

    /// Takes the pairs that were found among events; the others have none.
    fn take<'e>(
        &self,
        events: impl Iterator<Item = &'e Event> + Clone,
        found: &[(&Event, &Event)],
        pairs: &mut Vec<Crossing>,
        outcomes: &mut Vec<(Event, Outcome)>,
    ) {
        let mut alone: HashSet<usize> = events.clone().map(|event| event.row).collect();
        for &(put, off) in found {
            let crossing = self.crossing(put, off);
            let outcome = |negative| Outcome::Paired { negative, told: false };
            outcomes.extend([(*put, outcome(crossing.is_negative())), (*off, outcome(false))]);
            alone.remove(&put.row);
            alone.remove(&off.row);
            pairs.push(crossing);
        }
        let left = events.filter(|event| alone.contains(&event.row));
        outcomes.extend(left.map(|event| (*event, Outcome::Unmatched)));
    }

    fn crossing(&self, put: &Event, off: &Event) -> Crossing {
        Crossing {
            from: (put.local, put.row),
            to: (off.local, off.row),
            gap_ns: off.time.saturating_sub(put.time),
            error_ns: self.errors.between(put, off),
        }
    }

    /// Counts what became of the events of local flows that will not be looked at again.
    pub(crate) fn count(&mut self, crossings: &Crossings, is_done: impl Fn(usize) -> bool) {
        for (event, outcome) in crossings.events.iter().filter(|(event, _)| is_done(event.local)) {
            let counts = &mut self.counts[event.channel.carrier];
            let unmatched = match event.put {
                true => &mut counts.unmatched_xin,
                false => &mut counts.unmatched_xout,
            };
            match outcome {
                Outcome::Paired { negative, told } => {
                    counts.crossings += u64::from(event.put);
                    counts.told += u64::from(*told);
                    counts.negative_gaps += u64::from(*negative);
                }
                Outcome::Unmatched => *unmatched += 1,
                Outcome::Refused => (*unmatched, counts.refused) = (*unmatched + 1, counts.refused + 1),
                Outcome::Contradicted => {
                    (*unmatched, counts.contradicted) = (*unmatched + 1, counts.contradicted + 1);
                }
                Outcome::Superseded => counts.superseded += 1,
            }
        }
    }

    /// Forgets how far rings had come before that time.
    pub(crate) fn forget_before(&mut self, time: i64) {
        self.rings.positions.forget_before(time);
    }
}

impl Crossings {
    /// The rows of events, their local flows, and where on their rings they are.
    pub(crate) fn on_rings(&self) -> impl Iterator<Item = (usize, usize, OnRing)> {
        self.events.iter().map(|(event, _)| (event.row, event.local, event.at))
    }
}

/// Whether what came off says that it is another flow than was put on.
fn contradicts(put: &Event, off: &Event, locals: &Locals) -> bool {
    off.told && locals.flows[put.local].id != locals.flows[off.local].id
}
