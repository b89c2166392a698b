//! Pairing the two sides of carriers.
//!
//! A flow goes onto a carrier in one domain (`xin`) and comes off it in another (`xout`); both
//! records have the same key. Keys come again: ring indexes wrap, queues are reset, a full ring is
//! tried again with the same index. So times decide between equal keys, as follows.
//!
//! A slot that is put on again has been taken off before: an `xout` belongs to the latest `xin`
//! before it, unless the ring has come round between them (`positions`). Where the clocks' error leaves that open, the nearest of the neighbours is taken. Only
//! where more find a partner so, or much nearer ones, is one taken against causality (a *negative
//! gap*).

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use xweave_trace::{Clock, ClockBreak, Row, Trace};
use xweave_wire::record::Kind;

use crate::{
    local::Locals,
    positions::{self, Place, Positions},
};

/// How much nearer an `xin` after an `xout` must be than one before it, to be taken for its pair.
const AGAINST_CAUSALITY: u64 = 4;

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
    /// Counts up each time when the ring's index is another one than before.
    run: u32,
    /// How far the ring has come, where the index is a place on one.
    place: Option<Place>,
}

impl Event {
    fn key(&self) -> (Channel, u64, u64) {
        (self.channel, self.index, self.check)
    }
}

/// One direction of one ring of one guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Channel {
    guest: Guest,
    /// Place in [`Crossings::carriers`].
    carrier: usize,
    ring: u64,
    to_host: bool,
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
pub struct Crossing {
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CarrierCounts {
    /// The carrier's name.
    pub carrier: String,
    /// Pairs found.
    pub crossings: u64,
    /// Put on, and not seen to come off.
    pub unmatched_xin: u64,
    /// Come off, and not seen to be put on: the sender was not traced, or its record is missing.
    pub unmatched_xout: u64,
    /// Records that a later one for the same slot replaced: the operation had been tried again.
    pub superseded: u64,
    /// Records of equal keys that were not joined, as the ring's index had come round between them: their partners'
    /// records are missing. Both sides are among those unmatched.
    pub refused: u64,
    /// Pairs that contradict causality: an error of the clocks.
    pub negative_gaps: u64,
    /// How many records each side made: (xin, xout).
    #[serde(skip)]
    pub sides: (u64, u64),
}

/// A guest whose process was found by its rings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundPeer {
    /// The guest's domain.
    pub domain: String,
    /// The process that runs it.
    pub pid: u64,
    /// How many crossings' keys say so.
    pub keys: u64,
    /// How many keys speak for the next best process.
    pub next_best: u64,
}

/// All crossings of a trace.
pub struct Crossings {
    /// The pairs.
    pub pairs: Vec<Crossing>,
    /// Counts per carrier's name.
    pub carriers: Vec<CarrierCounts>,
    /// Guests that no clock had identified.
    pub found: Vec<FoundPeer>,
    /// Places of rows put on a carrier that the other side, though recorded, did not take off.
    pub unmatched_rows: Vec<usize>,
}

impl Crossings {
    /// Finds the crossings among a trace's local flows.
    pub fn of(trace: &Trace, locals: &Locals) -> Self {
        let mut carriers = Vec::new();
        let mut events = events(trace, locals, &mut carriers);
        let errors = Errors::of(trace);
        let found = adopt(trace, &mut events, &errors);
        let rings = Rings { positions: number_runs(&mut events), lossy: lossy_sites(trace) };
        events.sort_unstable_by_key(|e| (e.key(), e.time, e.row));

        let mut crossings = Self { pairs: Vec::new(), carriers, found, unmatched_rows: Vec::new() };
        for group in events.chunk_by(|a, b| a.key() == b.key()) {
            crossings.pair(group, locals, &errors, &rings);
        }
        // A side that nobody recorded leaves its partners without a pair: that is no failure of theirs.
        let taken = crossings.carriers.iter().filter(|counts| counts.sides.1 > 0);
        let taken: HashSet<&str> = taken.map(|counts| counts.carrier.as_str()).collect();
        let recorded = |row: usize| {
            let name = trace.site(locals.rows[row].site).and_then(|site| site.carrier.as_deref());
            taken.contains(name.unwrap_or_default())
        };
        let unmatched = crossings.unmatched_rows.iter().copied().filter(|&row| recorded(row)).collect();
        crossings.unmatched_rows = unmatched;
        crossings
    }

    /// Pairs the events of one key, in the order of their times.
    fn pair(&mut self, group: &[Event], locals: &Locals, errors: &Errors, rings: &Rings) {
        let mut ins: Vec<&Event> = Vec::new();
        for event in group.iter().filter(|e| e.put) {
            match ins.last_mut() {
                // The same flow tried the same slot again: only the last time it may have succeeded.
                Some(last) if (last.local, last.run) == (event.local, event.run) => {
                    *last = event;
                    let counts = &mut self.carriers[event.channel.carrier];
                    (counts.superseded, counts.sides.0) = (counts.superseded + 1, counts.sides.0 + 1);
                }
                _ => ins.push(event),
            }
        }
        let outs: Vec<&Event> = group.iter().filter(|e| !e.put).collect();
        let mut all = candidates(&ins, &outs, errors);
        let may_be_one = |put: &Event, off: &Event| rings.may_be_one(put, off, locals, errors);
        let mut refused = Vec::new();
        all.retain(|candidate| {
            let may = may_be_one(ins[candidate.put], outs[candidate.off]);
            if !may {
                refused.push((candidate.put, candidate.off));
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
                && before.run == after.run
                && !dead.quit
                && locals.end(dead) <= after.time
                && may_be_one(ins[i], after)
            {
                (partner_of_out[o - 1], partner_of_out[o]) = (None, Some(i));
                partner_of_in[i] = Some(o);
                replaced[o - 1] = true;
            }
        }

        refused.retain(|(i, o)| partner_of_in[*i].is_none() && partner_of_out[*o].is_none());
        refused.sort_unstable_by_key(|(_, o)| *o);
        refused.dedup_by_key(|(_, o)| *o);
        if let Some(event) = group.first() {
            self.carriers[event.channel.carrier].refused += refused.len() as u64;
        }
        for (i, event) in ins.iter().enumerate() {
            let counts = &mut self.carriers[event.channel.carrier];
            counts.sides.0 += 1;
            if let Some(o) = partner_of_in[i] {
                let out: &Event = outs[o];
                let crossing = Crossing {
                    from: (event.local, event.row),
                    to: (out.local, out.row),
                    gap_ns: out.time.saturating_sub(event.time),
                    error_ns: errors.between(event, out),
                };
                counts.crossings += 1;
                counts.negative_gaps += u64::from(crossing.is_negative());
                self.pairs.push(crossing);
                continue;
            }
            // Another flow took the slot, none having been in between: the first did not get it.
            let taken =
                ins.get(i + 1).is_some_and(|next| next.run == event.run) && partner_of_in[i + 1].is_some();
            if taken {
                counts.superseded += 1;
            } else {
                counts.unmatched_xin += 1;
                self.unmatched_rows.push(event.row);
            }
        }
        for (o, event) in outs.iter().enumerate() {
            let counts = &mut self.carriers[event.channel.carrier];
            counts.sides.1 += 1;
            counts.superseded += u64::from(replaced[o]);
            counts.unmatched_xout += u64::from(partner_of_out[o].is_none() && !replaced[o]);
        }
    }
}

/// A pair that may be. The order is that of likelihood.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    cost: u64,
    /// Places among those put on and those taken off.
    put: usize,
    off: usize,
    /// Whether it contradicts causality.
    against: bool,
}

/// Which of two sides belong together.
struct Matching {
    partner_of_in: Vec<Option<usize>>,
    partner_of_out: Vec<Option<usize>>,
    pairs: usize,
    /// Of all pairs.
    cost: u64,
}

/// The likeliest pairs first, each side once.
fn matched<'c>(ins: usize, outs: usize, candidates: impl Iterator<Item = &'c Candidate>) -> Matching {
    let (partner_of_in, partner_of_out) = (vec![None; ins], vec![None; outs]);
    let mut found = Matching { partner_of_in, partner_of_out, pairs: 0, cost: 0 };
    for candidate in candidates {
        let (put, off) = (&mut found.partner_of_in[candidate.put], &mut found.partner_of_out[candidate.off]);
        if put.is_none() && off.is_none() {
            (*put, *off) = (Some(candidate.off), Some(candidate.put));
            found.pairs += 1;
            found.cost = found.cost.saturating_add(candidate.cost);
        }
    }
    found
}

/// Pairs that may be, the likeliest first.
fn candidates(ins: &[&Event], outs: &[&Event], errors: &Errors) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (o, out) in outs.iter().enumerate() {
        let Some(first) = ins.first() else { break };
        let error = errors.stated(first, out);
        let latest = out.time.saturating_add_unsigned(error);
        let after = ins.partition_point(|event| event.time <= latest);
        let mut consider = |i: usize| {
            let gap = out.time.saturating_sub(ins[i].time);
            let against = gap < 0 && gap.unsigned_abs() > errors.between(ins[i], out);
            let weight = if against { AGAINST_CAUSALITY } else { 1 };
            let cost = gap.unsigned_abs().saturating_mul(weight);
            all.push(Candidate { cost, put: i, off: o, against });
        };
        if let Some(before) = after.checked_sub(1) {
            consider(before);
            // Within the error it may as well have been put on later.
            if ins[before].time.saturating_add_unsigned(error) >= out.time && before > 0 {
                consider(before - 1);
            }
        }
        if after < ins.len() {
            consider(after);
        }
    }
    all.sort_unstable();
    all
}

/// How far from the truth each domain's times may be.
struct Errors(BTreeMap<u8, DomainError>);

/// How far from the truth a domain's times may be.
struct DomainError {
    /// Outside of its clock's breaks, in nanoseconds.
    stated: u64,
    /// The first and the last time of each break, in order; none overlaps another. A guest can make its clock jump as
    /// often as it is read: they are not looked through for each event.
    breaks: Vec<(i64, i64)>,
}

impl DomainError {
    fn of(clock: &Clock) -> Self {
        let range =
            |jump: &ClockBreak| (jump.after_ns.unwrap_or(i64::MIN), jump.before_ns.unwrap_or(i64::MAX));
        let mut breaks: Vec<(i64, i64)> = clock.breaks.iter().map(range).filter(|(a, b)| a <= b).collect();
        breaks.sort_unstable();
        breaks.dedup_by(|next, last| {
            let joined = next.0 <= last.1;
            if joined {
                last.1 = last.1.max(next.1);
            }
            joined
        });
        Self { stated: clock.error_ns, breaks }
    }

    /// How far from the truth what is recorded at a time of the time line may be, in nanoseconds; `u64::MAX` if that
    /// is not known.
    fn at(&self, time: i64) -> u64 {
        let next = self.breaks.partition_point(|(from, _)| *from <= time);
        let within = next.checked_sub(1).is_some_and(|at| time <= self.breaks[at].1);
        if within { u64::MAX } else { self.stated }
    }
}

impl Errors {
    fn of(trace: &Trace) -> Self {
        let clocks = &trace.manifest().clocks;
        let clock = |name: &str| clocks.iter().find(|clock| clock.domain == name);
        let domains = trace.manifest().domains.iter();
        let error = |name: &str| clock(name).map(DomainError::of);
        Self(domains.filter_map(|domain| Some((domain.number, error(&domain.name)?))).collect())
    }

    /// What both domains' clocks state, whether or not one of them had jumped.
    fn stated(&self, a: &Event, b: &Event) -> u64 {
        let error = |event: &Event| self.0.get(&event.domain).map_or(0, |error| error.stated);
        error(a).saturating_add(error(b))
    }

    /// How far from the truth the time between two events may be.
    fn between(&self, a: &Event, b: &Event) -> u64 {
        let error = |event: &Event| self.0.get(&event.domain).map_or(0, |error| error.at(event.time));
        error(a).saturating_add(error(b))
    }
}

/// Everything that was put on carriers or taken off. `carriers` collects their names.
fn events(trace: &Trace, locals: &Locals, carriers: &mut Vec<CarrierCounts>) -> Vec<Event> {
    let mut process = HashMap::new();
    for domain in &trace.manifest().domains {
        let Some(vm) = &domain.vm else { continue };
        if let Some(host) = trace.manifest().domains.iter().find(|d| d.name == vm.host) {
            process.insert((host.number, u64::from(vm.pid)), domain.number);
        }
    }
    let mut places: HashMap<u32, usize> = HashMap::new();
    let mut named: HashMap<&str, usize> = HashMap::new();
    let mut place = |row: &Row| {
        *places.entry(row.site).or_insert_with(|| {
            let name = trace.site(row.site).and_then(|site| site.carrier.as_deref()).unwrap_or_default();
            *named.entry(name).or_insert_with(|| {
                carriers.push(CarrierCounts { carrier: name.to_owned(), ..CarrierCounts::default() });
                carriers.len() - 1
            })
        })
    };
    let mut events = Vec::new();
    for (local, flow) in locals.flows.iter().enumerate() {
        for at in flow.rows.clone() {
            let row = &locals.rows[at];
            let Some(key) = row.carrier_key() else { continue };
            let guest = match (key.peer, process.get(&(row.domain, key.peer))) {
                (0, _) => Guest::Domain(row.domain),
                (_, Some(&domain)) => Guest::Domain(domain),
                (peer, None) => Guest::Process(row.domain, peer),
            };
            let put = row.kind == Kind::Xin;
            let channel =
                Channel { guest, carrier: place(row), ring: key.ring, to_host: put == (key.peer == 0) };
            events.push(Event {
                channel,
                index: key.index,
                check: key.check,
                time: row.time_ns,
                put,
                row: at,
                local,
                domain: row.domain,
                run: 0,
                place: None,
            });
        }
    }
    events
}

/// What speaks for a process running a guest.
#[derive(Clone, Copy)]
struct Score {
    /// Keys that agree, in an order that causality allows.
    keys: u64,
    /// The median of the times between them, in nanoseconds.
    median: u64,
    process: (u8, u64),
    guest: u8,
}

/// So many partners that came off before they were put on are looked at for one that the clocks' error allows: it is the
/// same for all but those within a break.
const EARLIER: usize = 64;

/// What a guest has put on and taken off under one key.
#[derive(Default)]
struct Sides<'e> {
    put: Vec<&'e Event>,
    off: Vec<&'e Event>,
}

impl<'e> Sides<'e> {
    fn push(&mut self, event: &'e Event) {
        if event.put { self.put.push(event) } else { self.off.push(event) }
    }

    /// Into the order of their times, in which they are looked for.
    fn sort(&mut self) {
        self.put.sort_unstable_by_key(|event| event.time);
        self.off.sort_unstable_by_key(|event| event.time);
    }

    /// The time to the nearest partner of another's event that causality allows.
    fn nearest(&self, event: &Event, errors: &Errors) -> Option<u64> {
        let partners = if event.put { &self.off } else { &self.put };
        let gap = |other: &Event| other.time.abs_diff(event.time);
        let allowed = |other: &&&Event| gap(other) <= errors.between(event, other);
        // What is put on comes first. Of the others, the nearest that may as well.
        let (causal, earlier) = if event.put {
            let (before, after) = partners.split_at(partners.partition_point(|off| off.time < event.time));
            (after.first(), before.iter().rev().take(EARLIER).find(allowed))
        } else {
            let (before, after) = partners.split_at(partners.partition_point(|put| put.time <= event.time));
            (before.last(), after.iter().take(EARLIER).find(allowed))
        };
        [causal, earlier].into_iter().flatten().map(|other| gap(other)).min()
    }
}

/// Finds the domains that processes run, where no clock told, by their rings' keys; makes their events one channel's.
fn adopt(trace: &Trace, events: &mut [Event], errors: &Errors) -> Vec<FoundPeer> {
    type Key = (usize, u64, bool, u64, u64);
    let key = |e: &Event| (e.channel.carrier, e.channel.ring, e.channel.to_host, e.index, e.check);
    let unknown: Vec<u8> =
        trace.manifest().domains.iter().filter(|d| d.vm.is_none()).map(|d| d.number).collect();
    let mut strangers: BTreeMap<(u8, u64), Vec<&Event>> = BTreeMap::new();
    let mut guests: BTreeMap<u8, HashMap<Key, Sides<'_>>> = BTreeMap::new();
    for event in &*events {
        match event.channel.guest {
            Guest::Process(host, pid) => strangers.entry((host, pid)).or_default().push(event),
            Guest::Domain(number) if unknown.contains(&number) && event.domain == number => {
                guests.entry(number).or_default().entry(key(event)).or_default().push(event);
            }
            Guest::Domain(_) => {}
        }
    }
    for sides in guests.values_mut().flat_map(HashMap::values_mut) {
        sides.sort();
    }
    // Equal guests have equal rings, whose keys agree by chance; what tells is that the right
    // process takes off what was just put on.
    let mut scores: Vec<Score> = Vec::new();
    for (&process, theirs) in &strangers {
        for (&guest, ours) in guests.iter().filter(|(guest, _)| **guest != process.0) {
            let nearest = |event: &&Event| ours.get(&key(event))?.nearest(event, errors);
            let mut gaps: Vec<u64> = theirs.iter().filter_map(nearest).collect();
            gaps.sort_unstable();
            if let Some(&median) = gaps.get(gaps.len() / 2) {
                scores.push(Score { keys: gaps.len() as u64, median, process, guest });
            }
        }
    }
    let mut most: BTreeMap<u8, u64> = BTreeMap::new();
    for score in &scores {
        let most = most.entry(score.guest).or_default();
        *most = score.keys.max(*most);
    }
    let weak: Vec<bool> = scores.iter().map(|score| score.keys * 2 < most[&score.guest]).collect();
    let mut ordered: Vec<(bool, Score)> = weak.into_iter().zip(scores.iter().copied()).collect();
    ordered.sort_unstable_by_key(|(weak, s)| (*weak, s.median, s.process, s.guest));
    let mut chosen: BTreeMap<(u8, u64), u8> = BTreeMap::new();
    let mut found = Vec::new();
    for (_, Score { keys, process, guest, .. }) in ordered {
        if chosen.contains_key(&process) || chosen.values().any(|&taken| taken == guest) {
            continue;
        }
        chosen.insert(process, guest);
        let others = scores.iter().filter(|score| score.guest == guest && score.process != process);
        found.push(FoundPeer {
            domain: trace.domain(guest).map_or_else(String::new, |domain| domain.name.clone()),
            pid: process.1,
            keys,
            next_best: others.map(|score| score.keys).max().unwrap_or(0),
        });
    }
    for event in events {
        if let Guest::Process(host, pid) = event.channel.guest
            && let Some(&guest) = chosen.get(&(host, pid))
        {
            event.channel.guest = Guest::Domain(guest);
        }
    }
    found
}

/// How far rings have come, and where so many records are missing that they may have come round unseen.
struct Rings {
    positions: Positions,
    lossy: HashSet<u32>,
}

impl Rings {
    fn may_be_one(&self, put: &Event, off: &Event, locals: &Locals, errors: &Errors) -> bool {
        let (Some(put_at), Some(off_at)) = (put.place, off.place) else { return true };
        let lossy = self.lossy.contains(&locals.rows[off.row].site);
        self.positions.may_be_one(put_at, off_at, errors.between(put, off), lossy)
    }
}

/// Sites that lost so many records that a ring may have come round without one.
fn lossy_sites(trace: &Trace) -> HashSet<u32> {
    let losses = trace.manifest().loss.sites.iter();
    let lossy =
        losses.filter(|loss| loss.dropped.saturating_add(loss.missed) >= positions::LARGEST.unsigned_abs());
    lossy.map(|loss| loss.site).collect()
}

/// Numbers the runs of equal indexes on each side of each ring, and finds out how far it had come at each.
fn number_runs(events: &mut [Event]) -> Positions {
    events.sort_unstable_by_key(|e| (e.channel, e.put, e.time, e.row));
    let mut positions = Positions::default();
    let mut run = 0;
    for at in 0..events.len() {
        let before = at.checked_sub(1).map(|before| events[before]);
        let event = &mut events[at];
        let same_side = before.is_some_and(|e| (e.channel, e.put) == (event.channel, event.put));
        if !same_side {
            positions.next_side();
        }
        run += u32::from(!same_side || before.is_some_and(|before| before.index != event.index));
        event.run = run;
        // A carrier without a ring has numbers that say nothing of each other.
        event.place = (event.channel.ring != 0).then(|| positions.add(event.time, event.index));
    }
    positions
}
