//! Requests as vectors: how much of each one's time was spent in which segment, on what.
//!
//! Memory is bounded: of very many requests each second one is let go, again and again, so that those that stay are spread
//! evenly over the recording.

use rustc_hash::FxHashMap;
use xweave_model::{
    Explained, ObjectGroup, ObjectKind, Objects, Step, Stretch, objects::Reason, parts::Such,
};

/// Entries of vectors that are kept: some 128 MB.
const ENTRIES: usize = 8 << 20;

/// Different things that time is spent on; what else comes is one with others.
const DIMENSIONS: usize = 4096;

/// What a request's time is divided into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// Where the request was.
    pub segment: Stretch,
    /// Whose time it was, and what it was spent on.
    pub such: Such,
}

impl Dimension {
    /// Whether a thread had not taken the request up yet, and may have run for others.
    pub(crate) fn before_its_turn(&self) -> bool {
        self.such.reason == Some(Reason::Earlier)
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// As `xweave explain` numbers it.
    pub id: u64,
    /// When it began, in nanoseconds.
    pub start_ns: i64,
    /// How long it took.
    pub total_ns: u64,
    first: usize,
    entries: usize,
    found: (usize, usize),
}

/// Where a segment is among others.
#[derive(Debug)]
struct Order {
    number: u32,
    /// The sum of its places in requests, in thousandths of these.
    places: u64,
    /// How many requests passed it.
    passed: u64,
    /// The last that did, as they were seen.
    last: u64,
}

/// All of them, or as many as there is room for.
#[derive(Debug)]
pub struct Requests {
    dimensions: Vec<Dimension>,
    numbers: FxHashMap<Dimension, u32>,
    /// By segment.
    order: FxHashMap<Stretch, Order>,
    all: Vec<Request>,
    entries: Vec<(u32, u64)>,
    /// The segments that requests came to, by their places in `order`, and how many others were there.
    others: Vec<(u32, u32)>,
    seen: u64,
    every: u64,
    most: usize,
}

impl Default for Requests {
    fn default() -> Self {
        Self::of_at_most(ENTRIES)
    }
}

impl Requests {
    fn of_at_most(most: usize) -> Self {
        Self {
            dimensions: Vec::new(),
            numbers: FxHashMap::default(),
            order: FxHashMap::default(),
            all: Vec::new(),
            entries: Vec::new(),
            others: Vec::new(),
            seen: 0,
            every: 1,
            most,
        }
    }

    /// Adds a transaction.
    pub fn add(&mut self, transaction: &Explained, objects: &Objects) {
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(self.every) {
            return;
        }
        let mut sums: Vec<(u32, u64)> = Vec::new();
        let segments = Segments::of(transaction);
        for (place, (segment, steps)) in segments.enumerate() {
            // What was when in a queue says what of it was while others were served.
            let in_turn = segment.is_some_and(Stretch::is_servers_socket);
            let order = place as u64 * 1000 / segments_of(transaction);
            if let Some(segment) = segment {
                self.comes(segment, order);
            }
            for steps in steps.chunks(if in_turn { 1 } else { steps.len().max(1) }) {
                self.take(segment, order, steps, in_turn, objects, &mut sums);
            }
        }
        let (first, entries) = (self.entries.len(), sums.len());
        self.entries.extend(sums);
        let came = self.others.len();
        for passed in &transaction.segments {
            if let (Some(others), Some(order)) = (passed.others, self.order.get(&passed.stretch)) {
                self.others.push((order.number, others));
            }
        }
        let (id, start_ns, total_ns) = (transaction.id, transaction.start_ns, transaction.length());
        let found = (came, self.others.len() - came);
        self.all.push(Request { id, start_ns, total_ns, first, entries, found });
        if self.entries.len() > self.most {
            self.thin();
        }
    }

    /// Adds what steps were spent on, in one segment if it is known.
    fn take(
        &mut self,
        segment: Option<&Stretch>,
        place: u64,
        steps: &[Step],
        in_turn: bool,
        objects: &Objects,
        sums: &mut Vec<(u32, u64)>,
    ) {
        for (such, ns) in Such::sums(steps, objects) {
            let segment = segment.cloned().unwrap_or_else(|| {
                let segment = stretch(&such);
                self.comes(&segment, place);
                segment
            });
            let number = self.number(Dimension { segment, such });
            let known =
                if in_turn { sums.last_mut() } else { sums.iter_mut().find(|(known, _)| *known == number) };
            match known {
                Some((known, sum)) if *known == number => *sum = sum.saturating_add(ns),
                _ => sums.push((number, ns)),
            }
        }
    }

    /// A request comes to a segment there: of a thousand places that it has. Where it comes again is not where that is.
    fn comes(&mut self, segment: &Stretch, place: u64) {
        let number = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        let new = Order { number, places: 0, passed: 0, last: 0 };
        let order = self.order.entry(segment.clone()).or_insert(new);
        if order.last != self.seen {
            order.last = self.seen;
            (order.places, order.passed) = (order.places + place, order.passed + 1);
        }
    }

    /// Lets each second one go.
    fn thin(&mut self) {
        self.every *= 2;
        let (old, others, mut nth) =
            (std::mem::take(&mut self.entries), std::mem::take(&mut self.others), 0_usize);
        self.all.retain_mut(|request| {
            nth += 1;
            let stays = nth % 2 == 1;
            if stays {
                let first = self.entries.len();
                self.entries.extend_from_slice(&old[request.first..request.first + request.entries]);
                request.first = first;
                let came = self.others.len();
                self.others.extend_from_slice(&others[request.found.0..request.found.0 + request.found.1]);
                request.found.0 = came;
            }
            stays
        });
    }

    fn number(&mut self, mut dimension: Dimension) -> u32 {
        if let Some(known) = self.numbers.get(&dimension) {
            return *known;
        }
        if self.dimensions.len() >= DIMENSIONS {
            // A trace can have any number of names: what comes late is told without them.
            (dimension.such.group, dimension.such.reason) = (ObjectGroup::Others, None);
            dimension.segment = Stretch::Elsewhere;
            if let Some(known) = self.numbers.get(&dimension) {
                return *known;
            }
        }
        let number = u32::try_from(self.dimensions.len()).unwrap_or(u32::MAX);
        self.dimensions.push(dimension.clone());
        self.numbers.insert(dimension, number);
        number
    }

    /// Puts them into the order in which they began.
    pub(crate) fn sort(&mut self) {
        self.all.sort_by_key(|request| (request.start_ns, request.id));
    }

    /// How many there were, kept or not.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Those that are kept.
    pub fn all(&self) -> &[Request] {
        &self.all
    }

    /// What their time is divided into.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The segments, in the order in which requests come there.
    pub fn segments(&self) -> Vec<Stretch> {
        let mut all: Vec<_> = self.order.iter().collect();
        let mean = |order: &Order| order.places as f64 / order.passed as f64;
        all.sort_by(|(one, order), (other, after)| {
            mean(order).total_cmp(&mean(after)).then_with(|| one.cmp(other))
        });
        all.into_iter().map(|(segment, _)| segment.clone()).collect()
    }

    /// What a request's time was spent on: sums to all of it. In the queue of a socket in turn, so that one thing may be
    /// there more than once.
    pub fn parts(&self, request: &Request) -> &[(u32, u64)] {
        &self.entries[request.first..request.first + request.entries]
    }

    /// How many others each of these requests found in a segment, if that is known; of several times the most.
    pub(crate) fn others(&self, requests: &[Request], segment: &Stretch) -> Option<Vec<f64>> {
        let number = self.order.get(segment)?.number;
        let found = |request: &Request| {
            let of = &self.others[request.found.0..request.found.0 + request.found.1];
            of.iter().filter(|(of, _)| *of == number).map(|(_, others)| *others).max()
        };
        let all: Vec<_> = requests.iter().map(found).collect();
        all.iter()
            .any(Option::is_some)
            .then(|| all.into_iter().map(|of| f64::from(of.unwrap_or(0))).collect())
    }

    /// Of each of these requests the time, in nanoseconds, that it spent on each of `columns` groups of dimensions;
    /// `group` gives that of a dimension's number.
    pub(crate) fn columns(
        &self,
        requests: &[Request],
        columns: usize,
        group: impl Fn(u32) -> Option<usize>,
    ) -> Vec<Vec<f64>> {
        let groups: Vec<_> = (0..).take(self.dimensions.len()).map(group).collect();
        let mut all = vec![vec![0.0; requests.len()]; columns];
        for (at, request) in requests.iter().enumerate() {
            for (number, ns) in self.parts(request) {
                if let Some(column) = groups[*number as usize] {
                    all[column][at] += *ns as f64;
                }
            }
        }
        all
    }
}

/// Where a request was, if nothing divides its way: in whose time.
fn stretch(such: &Such) -> Stretch {
    match such.kind {
        ObjectKind::Link => Stretch::Network(such.domain.clone()),
        ObjectKind::Vcpu => Stretch::OutOfGuest(such.group.clone()),
        _ => Stretch::In(such.domain.clone()),
    }
}

fn segments_of(transaction: &Explained) -> u64 {
    transaction.segments.len().max(transaction.steps.len()).max(1) as u64
}

/// The steps of a transaction by where it was; each for itself, if that is not known.
struct Segments<'t> {
    transaction: &'t Explained,
    steps: usize,
    segments: usize,
}

impl<'t> Segments<'t> {
    fn of(transaction: &'t Explained) -> Self {
        Self { transaction, steps: 0, segments: 0 }
    }
}

impl<'t> Iterator for Segments<'t> {
    type Item = (Option<&'t Stretch>, &'t [Step]);

    fn next(&mut self) -> Option<Self::Item> {
        let Explained { steps, segments, .. } = self.transaction;
        let rest = steps.get(self.steps..).filter(|rest| !rest.is_empty())?;
        let Some(passed) = segments.get(self.segments) else {
            self.steps += 1;
            return Some((None, &rest[..1]));
        };
        self.segments += 1;
        // What an event tells of the end may come after it: the last one has the rest.
        let is_last = self.segments == segments.len();
        let within = rest.iter().take_while(|step| is_last || step.from < passed.until_ns).count();
        self.steps += within;
        Some((Some(&passed.stretch), &rest[..within]))
    }
}
