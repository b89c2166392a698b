//! Which process runs which guest, where no clock told: by the keys of their rings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use xweave_trace::Trace;
use xweave_wire::record::XEN_DOMAIN;

use super::{Event, Guest, errors::Errors};

/// A guest whose process was found by its rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPeer {
    /// The guest's domain.
    pub domain: String,
    /// The process that runs it; of a domain of Xen, its number plus 2³².
    pub pid: u64,
    /// How many crossings' keys say so.
    pub keys: u64,
    /// How many keys speak for the next best process.
    pub next_best: u64,
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

/// What is known of which process runs which guest.
pub(super) struct Peers {
    /// The domains of which no clock told.
    unknown: Vec<u8>,
    /// Those whose numbers Xen told. What says only that it is some guest's may be theirs as well.
    numbered: Vec<u8>,
    /// Guests by host and process.
    chosen: BTreeMap<(u8, u64), u8>,
    pub(super) found: Vec<FoundPeer>,
    /// Of the unknown domains those that have rings, and the processes that have some and are not known to run one.
    seen: BTreeSet<u8>,
    strangers: BTreeSet<(u8, u64)>,
}

impl Peers {
    pub(super) fn of(trace: &Trace) -> Self {
        let domains = &trace.manifest().domains;
        let unknown = domains.iter().filter(|domain| domain.peers().next().is_none());
        let numbered = domains.iter().filter(|domain| domain.xen.is_some());
        Self {
            unknown: unknown.map(|domain| domain.number).collect(),
            numbered: numbered.map(|domain| domain.number).collect(),
            chosen: BTreeMap::new(),
            found: Vec::new(),
            seen: BTreeSet::new(),
            strangers: BTreeSet::new(),
        }
    }

    /// Whether a domain may be the one that a process, or what has its place in keys, runs.
    fn may_be(&self, guest: u8, (_, process): (u8, u64)) -> bool {
        self.unknown.contains(&guest) || self.numbered.contains(&guest) && process < XEN_DOMAIN
    }

    /// Finds the domains that processes run, where no clock told, by their rings' keys, `least` of them; makes their
    /// events one channel's.
    pub(super) fn adopt(&mut self, trace: &Trace, events: &mut [Event], errors: &Errors, least: u64) {
        self.name(events);
        if events.iter().any(|event| matches!(event.channel.guest, Guest::Process(..))) {
            self.find(trace, events, errors, least);
            self.name(events);
        }
    }

    /// Whether it may still be found out whose ring an event is on.
    pub(super) fn may_find(&self, event: &Event) -> bool {
        let is_open =
            |guest: u8, process| self.may_be(guest, process) && !self.chosen.values().any(|of| *of == guest);
        match event.channel.guest {
            Guest::Process(host, pid) => self.seen.iter().any(|guest| is_open(*guest, (host, pid))),
            Guest::Domain(guest) => self.strangers.iter().any(|process| is_open(guest, *process)),
        }
    }

    /// Makes events of processes that are known to run a guest those of the guest.
    fn name(&self, events: &mut [Event]) {
        for event in events {
            if let Guest::Process(host, pid) = event.channel.guest
                && let Some(&guest) = self.chosen.get(&(host, pid))
            {
                event.channel.guest = Guest::Domain(guest);
            }
        }
    }

    fn find(&mut self, trace: &Trace, events: &[Event], errors: &Errors, least: u64) {
        type Key = (usize, u64, bool, (u64, u64));
        let key = |e: &Event| (e.channel.carrier, e.channel.ring, e.channel.to_host, e.slot());
        let mut strangers: BTreeMap<(u8, u64), Vec<&Event>> = BTreeMap::new();
        let mut guests: BTreeMap<u8, HashMap<Key, Sides<'_>>> = BTreeMap::new();
        for event in events {
            match event.channel.guest {
                Guest::Process(host, pid) => strangers.entry((host, pid)).or_default().push(event),
                Guest::Domain(number)
                    if event.domain == number
                        && (self.unknown.contains(&number) || self.numbered.contains(&number)) =>
                {
                    guests.entry(number).or_default().entry(key(event)).or_default().push(event);
                }
                Guest::Domain(_) => {}
            }
        }
        for sides in guests.values_mut().flat_map(HashMap::values_mut) {
            sides.sort();
        }
        guests.retain(|guest, _| strangers.keys().any(|process| self.may_be(*guest, *process)));
        self.seen.extend(guests.keys());
        self.strangers.extend(strangers.keys());
        // Equal guests have equal rings, whose keys agree by chance; what tells is that the right
        // process takes off what was just put on.
        let mut scores: Vec<Score> = Vec::new();
        for (&process, theirs) in &strangers {
            let may_be = |guest: u8| guest != process.0 && self.may_be(guest, process);
            for (&guest, ours) in guests.iter().filter(|(guest, _)| may_be(**guest)) {
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
        for (_, Score { keys, process, guest, .. }) in ordered.into_iter().filter(|(_, of)| of.keys >= least)
        {
            if self.chosen.contains_key(&process) || self.chosen.values().any(|&taken| taken == guest) {
                continue;
            }
            self.chosen.insert(process, guest);
            let others = scores.iter().filter(|score| score.guest == guest && score.process != process);
            self.found.push(FoundPeer {
                domain: trace.domain(guest).map_or_else(String::new, |domain| domain.name.clone()),
                pid: process.1,
                keys,
                next_best: others.map(|score| score.keys).max().unwrap_or(0),
            });
        }
    }
}
