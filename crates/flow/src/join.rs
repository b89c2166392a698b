//! A trace's records joined into flows in bounded memory: window by window.
//!
//! A window is as many records as memory should hold, all of a stretch of time. Its flows are connected as if there were
//! no others; those that can change no more are given away. Those that are under way are taken along into the next
//! window: a key carries them, or what they were put on has not been taken off.
//!
//! ```text
//! records   ├───────────── window ─────────────┤├────────────── window ─ …
//! flows       ├──────┤  ├─────────┤       ├────┼┼──┤
//!                given away               taken along
//! ```
//!
//! So what a flow is does not depend on where windows end, unless more are under way than memory should hold. Then those
//! are given away of which nothing was recorded for the longest time: [`Totals::set_down`] counts them.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use xweave_guard::confine::Limits;
use xweave_trace::{Damage, Damaged, Part, Row, Trace};
use xweave_wire::record::maker;

use crate::{
    crossing::{CarrierCounts, Carriers, Crossings, FoundPeer, OnRing},
    dropped::Words,
    graph::{self, Connected, Flow},
    local::Locals,
};

/// Records that a window takes up at least, if there are as many.
const WINDOW: usize = 128 << 10;

/// A window has so many times the records that went along into it, at least.
const ALONG: usize = 3;

/// Records of flows under way that are taken along.
const UNDER_WAY: usize = 256 << 10;

/// Records that are held at once at most, unless more are asked for: files that do not tell of which times they are, or that
/// tell of all times, are a window as a whole.
const MOST: usize = 16 << 20;

/// What a record takes, with the step of a flow that it becomes, in bytes: 490 were measured of a flow of millions of steps, and
/// lists are twice as long for a moment while they grow (crates/cli/tests/suite/bombs.rs).
const BYTES: u64 = 1 << 10;

/// Records that are held whatever memory there is: a window, and what is taken along into it.
const LEAST: usize = WINDOW + UNDER_WAY;

/// As many records as there is memory for in this process.
fn most_in_memory() -> usize {
    let most = usize::try_from(Limits::memory_now() / BYTES).unwrap_or(usize::MAX);
    most.clamp(LEAST, MOST)
}

/// What was recorded last may be the cause of something that is recorded a little later, in nanoseconds: what ends a flow
/// at one place and goes on at another is one act of a kernel.
const SETTLES: i64 = 10_000_000;

/// Clocks that may be wrong by more put records of one act into windows far from each other: all is one window then, in
/// nanoseconds.
const CLOCKS_ERR: u64 = 1_000_000_000;

/// Sites that the trace does not tell of, and whose records are counted each.
const UNKNOWN_SITES: usize = 64 << 10;

/// The flows of a trace, a window's at a time: of each window in the order of their beginnings.
pub struct Join<'t> {
    trace: &'t Trace,
    parts: Box<dyn Iterator<Item = Result<Part, Damaged>> + 't>,
    window: usize,
    under_way: usize,
    most: usize,
    lost: HashMap<(u8, u64), u64>,
    words: Words<'t>,
    carriers: Carriers<'t>,
    /// What went along from the window before, what the window has, and what has been read and is later.
    held: Vec<Row>,
    /// Where a window's rows are put in order.
    room: Vec<Row>,
    /// Before that time nothing is left to be read.
    read_ns: i64,
    along: Along,
    totals: Totals,
    ended: bool,
}

/// What goes along from one window to the next.
#[derive(Default)]
struct Along {
    /// How many rows: the first ones that are held.
    rows: usize,
    /// Where on their rings they are, by their places.
    on_rings: HashMap<usize, OnRing>,
    /// Those of their local flows that have become parts of others.
    merged: HashSet<(u8, u64)>,
    /// The flows that their parents are of, by the parents' local IDs.
    parents: HashMap<u64, u64>,
}

/// What was counted on the way.
#[derive(Debug, Default)]
pub struct Totals {
    /// Records in the trace, those of no flow included.
    pub records: u64,
    /// How many of them each site made.
    pub by_site: HashMap<u32, u64>,
    /// Files that could not be read.
    pub damaged: Vec<Damaged>,
    /// Flows that were taken as they were for want of memory, though a key carried them.
    pub set_down: u64,
    /// What happened on each carrier.
    pub carriers: Vec<CarrierCounts>,
    /// Guests whose process was found by their rings' keys.
    pub found: Vec<FoundPeer>,
}

impl<'t> Join<'t> {
    /// Of the records of a trace.
    pub fn of(trace: &'t Trace) -> Self {
        Self::of_parts(trace, trace.parts())
    }

    /// Of a trace's records as they are given, whatever its files have.
    pub fn of_parts(trace: &'t Trace, parts: impl Iterator<Item = Result<Part, Damaged>> + 't) -> Self {
        let names = trace.manifest().domains.iter().map(|domain| (domain.name.as_str(), domain.number));
        let names: HashMap<&str, u8> = names.collect();
        let mut lost: HashMap<(u8, u64), u64> = HashMap::new();
        for loss in &trace.manifest().loss.flows {
            let domain = names.get(loss.domain.as_str()).copied().unwrap_or(maker(loss.flow));
            let records = lost.entry((domain, loss.flow)).or_default();
            *records = records.saturating_add(loss.records);
        }
        let damaged = trace.sites_damaged().cloned().into_iter().collect();
        Self {
            trace,
            parts: Box::new(parts),
            window: WINDOW,
            under_way: UNDER_WAY,
            most: if trace.is_forced() { usize::MAX } else { most_in_memory() },
            lost,
            words: Words::of(trace),
            carriers: Carriers::of(trace),
            held: Vec::new(),
            room: Vec::new(),
            read_ns: i64::MIN,
            along: Along::default(),
            totals: Totals { damaged, ..Totals::default() },
            ended: false,
        }
    }

    /// Windows of at least so many records, and so many taken along into the next one at most.
    #[must_use]
    pub fn windows(mut self, records: usize, under_way: usize) -> Self {
        (self.window, self.under_way) = (records, under_way);
        self
    }

    /// At most so many records held at once; of flows that are kept, twice as many.
    #[must_use]
    pub fn at_most(mut self, records: usize) -> Self {
        self.most = records;
        self
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// How many records have been read.
    pub fn read(&self) -> u64 {
        self.totals.records
    }

    /// What was counted. Of use when no window is left.
    pub fn finish(self) -> Totals {
        let (carriers, found) = self.carriers.into_counts();
        Totals { carriers, found, ..self.totals }
    }

    /// Reads a window's rows; whether it is the last.
    fn take_up(&mut self) -> bool {
        // What goes along is looked at again: that must not be most of what is done.
        let window = match self.carriers.clock_error() {
            0..CLOCKS_ERR => self.window.max(self.along.rows.saturating_mul(ALONG)),
            _ => usize::MAX,
        };
        let mut ready = 0;
        while ready < window {
            let Some(part) = self.parts.next() else { return true };
            match part {
                Ok(part) => {
                    self.totals.count(self.trace, &part.rows);
                    self.held.extend(part.rows.iter().filter(|row| row.flow != 0));
                    let more = part.before_ns > self.read_ns;
                    self.read_ns = self.read_ns.max(part.before_ns);
                    // Counted where more may be ready, and enough.
                    if more && self.held.len() - self.along.rows >= window {
                        let new = &self.held[self.along.rows..];
                        ready = new.iter().filter(|row| row.time_ns < self.read_ns).count();
                    }
                }
                Err(damaged) => self.totals.damaged.push(damaged),
            }
            if self.held.len() > self.most {
                let damage = Damage::Memory { most: self.most };
                self.totals.damaged.push(Damaged::new(self.trace.dir().join("records"), damage));
                self.held.truncate(self.most);
                self.parts = Box::new(std::iter::empty());
            }
        }
        false
    }

    /// Gives away the flows of a window, but those that go along.
    fn flows(&mut self, last: bool) -> Vec<Flow> {
        let along = mem::take(&mut self.along);
        let is_of_window = |at: usize, row: &Row| last || at < along.rows || row.time_ns < self.read_ns;
        let locals =
            Locals::of(&self.held, is_of_window, &self.lost, along.merged, mem::take(&mut self.room));
        // What is later stays; what goes along comes before it again.
        let read_ns = self.read_ns;
        let mut at = 0;
        self.held.retain(|row| {
            at += 1;
            !last && at > along.rows && row.time_ns >= read_ns
        });
        let before = |row: usize| along.on_rings.get(&locals.places[row]).copied();
        let crossings = self.carriers.join(&locals, before, last);
        let mut all = graph::connect(self.trace, &self.words, &locals, &crossings);
        name_parents(&mut all, &locals, &along.parents);

        let error = i64::try_from(self.carriers.clock_error()).unwrap_or(i64::MAX).saturating_mul(2);
        let until = self.read_ns.saturating_sub(SETTLES.saturating_add(error));
        let end =
            |of: &Connected| of.members.iter().map(|&at| locals.end(&locals.flows[at])).max().unwrap_or(0);
        let may_change = |of: &Connected| {
            end(of) >= until
                || of.members.iter().any(|at| !locals.flows[*at].ended || crossings.awaited.contains(at))
        };
        let mut stay: Vec<usize> = match last {
            true => Vec::new(),
            false => (0..all.len()).filter(|&at| may_change(&all[at])).collect(),
        };
        let size = |of: &Connected| of.flow.steps.len();
        let mut taken: usize = stay.iter().map(|&at| size(&all[at])).sum();
        if taken > self.under_way {
            stay.sort_by_key(|&at| std::cmp::Reverse(end(&all[at])));
            while taken > self.under_way
                && let Some(at) = stay.pop()
            {
                taken -= size(&all[at]);
                let ended = all[at].members.iter().all(|&local| locals.flows[local].ended);
                self.totals.set_down += u64::from(!ended);
            }
        }

        let mut stays = vec![false; locals.flows.len()];
        let members = stay.iter().flat_map(|&at| &all[at].members);
        members.for_each(|&local| stays[local] = true);
        self.carriers.count(&crossings, |local| !stays[local]);
        self.take_along(&locals, &crossings, &stays, &all);
        let is_done = |of: &Connected| of.members.first().is_some_and(|&root| !stays[root]);
        let done = all.into_iter().filter(is_done).map(|of| of.flow);
        let mut done: Vec<Flow> = done.collect();
        for flow in &mut done {
            flow.parents.sort_unstable();
            flow.parents.dedup();
            flow.parents.retain(|parent| *parent != flow.id);
        }
        self.room = locals.rows;
        done.sort_by_key(|flow| (flow.start_ns, flow.id));
        done
    }

    fn take_along(&mut self, locals: &Locals, crossings: &Crossings, stays: &[bool], all: &[Connected]) {
        let along = &mut self.along;
        let mut place_of: HashMap<usize, usize> = HashMap::new();
        let mut stay = Vec::new();
        for (local, _) in locals.flows.iter().zip(stays).filter(|(_, stays)| **stays) {
            for at in local.rows.clone() {
                place_of.insert(at, stay.len());
                stay.push(locals.rows[at]);
            }
            let name = locals.name(local);
            if locals.merged.contains(&name) {
                along.merged.insert(name);
            }
        }
        along.rows = stay.len();
        self.held.splice(..0, stay);
        let mut oldest = i64::MAX;
        for (row, local, on_ring) in crossings.on_rings() {
            if stays[local]
                && let Some(&place) = place_of.get(&row)
            {
                along.on_rings.insert(place, on_ring);
                oldest = oldest.min(locals.rows[row].time_ns);
            }
        }
        self.carriers.forget_before(oldest);
        for of in all.iter().filter(|of| of.members.first().is_some_and(|&root| stays[root])) {
            let parents = of.members.iter().flat_map(|&at| &locals.flows[at].parents);
            along.parents.extend(parents.zip(&of.flow.parents).map(|(local, flow)| (*local, *flow)));
        }
    }
}

/// Parents were noted by the IDs that they had in their domain.
fn name_parents(all: &mut [Connected], locals: &Locals, before: &HashMap<u64, u64>) {
    let wanted: HashSet<u64> = all.iter().flat_map(|of| &of.flow.parents).copied().collect();
    let mut known: HashMap<u64, u64> = HashMap::new();
    for of in &*all {
        for &at in &of.members {
            let local = locals.flows[at].id;
            if wanted.contains(&local) {
                known.insert(local, of.flow.id);
            }
        }
    }
    for Connected { flow, .. } in all {
        for parent in &mut flow.parents {
            let of = known.get(parent).or_else(|| before.get(parent));
            *parent = of.copied().unwrap_or(*parent);
        }
    }
}

impl Totals {
    fn count(&mut self, trace: &Trace, rows: &[Row]) {
        self.records += rows.len() as u64;
        let known = trace.sites().len();
        for same in rows.chunk_by(|a, b| a.site == b.site) {
            let site = same[0].site;
            if self.by_site.len() < known + UNKNOWN_SITES || self.by_site.contains_key(&site) {
                *self.by_site.entry(site).or_default() += same.len() as u64;
            }
        }
    }
}

impl Iterator for Join<'_> {
    type Item = Vec<Flow>;

    fn next(&mut self) -> Option<Vec<Flow>> {
        if self.ended {
            return None;
        }
        self.ended = self.take_up();
        Some(self.flows(self.ended))
    }
}
