//! Where flows spend their time: the steps between which they are in the same place, put together.
//!
//! Between the last step in one domain and the first in another, a flow is on a carrier: a ring. Within a domain it is in
//! that kernel's stack, but for what `landmarks` tell. What held it on a ring, `takers` know.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use xweave_trace::Row;

use crate::{
    durations::{Durations, Spread},
    flow_place::{Carrier, FlowPlace, Station},
    functions::{Function, Functions, Number},
    graph::Flow,
    landmarks::Landmark,
    sample::Sample,
    takers::{Taker, Wait},
};

/// Times on a carrier by which it is told what its taker did.
const WAITS: usize = 1 << 10;

/// How long flows were in a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Stay {
    /// Where.
    pub place: FlowPlace,
    /// How many flows were there.
    pub flows: u64,
    /// Half of them for at most so long, in nanoseconds.
    pub p50_ns: i64,
    /// All but one in a hundred.
    pub p99_ns: i64,
    /// The longest.
    pub max_ns: i64,
    /// Its share of the time of all that it is told with.
    pub share: f64,
}

impl Stay {
    pub(crate) fn new(place: FlowPlace, times: &mut Durations, total_ns: i64, of_all: f64) -> Self {
        let Spread { p50_ns, p99_ns, max_ns, .. } = times.spread();
        let share = if of_all > 0.0 { total_ns as f64 / of_all } else { 0.0 };
        Self { place, flows: times.count(), p50_ns, p99_ns, max_ns, share }
    }
}

/// A place in which flows of a kind are for some time; its share is that of the time of all flows of the kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The kind of flow: [`FlowKind::name`](crate::FlowKind::name).
    pub kind: String,
    /// Where, and how long.
    pub stay: Stay,
    /// Of a carrier, what the thread that takes flows off did most of that time. None where it ran, or where no event tells.
    pub taker: Option<Taker>,
}

/// Where a flow is between two of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Spot {
    /// On a carrier.
    Crossing { from: u8, to: u8, carrier: Option<Arc<str>> },
    /// In what a landmark tells; on its way to a domain, if it goes to one.
    In { domain: u8, landmark: Landmark, to: Option<u8> },
}

/// Where a flow is between each two of the functions of its path.
pub(crate) fn spots(path: &[Number], functions: &Functions) -> Vec<Spot> {
    let known = path.iter().map(|&number| functions.get(number)).collect::<Vec<_>>();
    let mut spots = Vec::with_capacity(path.len());
    let mut entered = Landmark::Stack;
    for pair in known.windows(2) {
        let domain = |at: usize| pair[at].map_or(0, |function| function.domain);
        let (from, to) = (domain(0), domain(1));
        entered = pair[0].and_then(|function| function.landmark).unwrap_or(entered);
        if from == to {
            spots.push(Spot::In { domain: from, landmark: entered, to: None });
        } else {
            entered = Landmark::Stack;
            let carrier = |function: &Function| function.carrier.clone();
            spots.push(Spot::Crossing { from, to, carrier: pair[1].and_then(carrier) });
        }
    }
    lead_on(&mut spots);
    spots
}

/// Says of each place that depends on it to which domain it leads.
fn lead_on(spots: &mut [Spot]) {
    let mut next = None;
    for spot in spots.iter_mut().rev() {
        match spot {
            Spot::Crossing { to, .. } => next = Some(*to),
            Spot::In { landmark: Landmark::Queue(_), to, .. } => *to = next,
            Spot::In { .. } => {}
        }
    }
    // The driver is what is next to a ring: a stack that the flow enters from one, or leaves to one.
    let crosses = |spots: &[Spot], at: Option<usize>| {
        at.and_then(|at| spots.get(at)).is_some_and(|spot| matches!(spot, Spot::Crossing { .. }))
    };
    let mut start = 0;
    while start < spots.len() {
        let alike = spots[start..].iter().take_while(|spot| **spot == spots[start]).count();
        let end = start + alike;
        let next_to_ring = crosses(spots, start.checked_sub(1)) || crosses(spots, Some(end));
        for spot in &mut spots[start..end] {
            if let Spot::In { domain, landmark: Landmark::Stack, to } = spot {
                *to = next_to_ring.then_some(*domain);
            }
        }
        start = end;
    }
}

impl Spot {
    /// The same device, wherever the flow goes from there.
    pub(crate) fn wherever(&self) -> Self {
        match self {
            Self::In { domain, landmark: landmark @ Landmark::Queue(_), .. } => {
                Self::In { domain: *domain, landmark: *landmark, to: None }
            }
            _ => self.clone(),
        }
    }

    /// The place, with the names of domains, and of the thread that reads from a socket.
    pub(crate) fn place<'a>(&self, domain: impl Fn(u8) -> &'a str, reader: Option<&str>) -> FlowPlace {
        let name = |number| domain(number).to_owned();
        match self {
            Self::Crossing { from, to, carrier } => {
                let carrier = carrier.as_ref().map_or(Carrier::Unknown, carrier_of);
                FlowPlace::Carrier { carrier, from: name(*from), to: name(*to) }
            }
            Self::In { domain: own, landmark, to } => {
                let station = match landmark {
                    Landmark::Stack if to.is_none() => Station::Stack,
                    Landmark::Stack => Station::StackAndDriver,
                    Landmark::Known(known) => Station::Known(*known),
                    Landmark::Queue(device) => Station::DeviceQueue { device, guest: to.map(name) },
                    Landmark::Socket => Station::Socket { reader: reader.map(str::to_owned) },
                };
                FlowPlace::In { domain: name(*own), station }
            }
        }
    }
}

/// What an aspect's carrier is.
fn carrier_of(name: &Arc<str>) -> Carrier {
    let is_ring = ["virtio", "virtqueue", "xen"].iter().any(|of| name.starts_with(of));
    if is_ring { Carrier::Ring } else { Carrier::Named(name.clone()) }
}

/// A step of a flow's path.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub function: Number,
    pub time_ns: i64,
    /// Of the records of the flow's path, which one it is.
    pub record: usize,
}

/// The places of the flows of one kind, added up.
#[derive(Default)]
pub(crate) struct Stays {
    numbers: HashMap<Spot, usize>,
    all: Vec<Sum>,
    /// Of one flow: where it was, in the order in which it came there, and for how long.
    of_flow: Vec<(usize, i64)>,
}

struct Sum {
    spot: Spot,
    times: Durations,
    total_ns: i64,
    /// Sum of how many carriers were before it on their flows' paths, each counted twice, and once more if it is one: which
    /// orders places that not all flows come by, as other domains follow a carrier for all.
    crossed: u64,
    /// Sum of the places on their flows' paths, of which it is the nth.
    positions: u64,
    /// The thread that read from the socket, as long as it was always the same.
    reader: Option<String>,
    /// Of a carrier, some of the times that flows were on it.
    waits: Sample<Wait>,
}

impl Sum {
    fn of(spot: Spot) -> Self {
        let (times, waits) = (Durations::default(), Sample::of_at_most(WAITS));
        Self { spot, times, total_ns: 0, crossed: 0, positions: 0, reader: None, waits }
    }
}

impl Stays {
    /// The places between the functions of a path, numbered.
    pub(crate) fn numbers(&mut self, path: &[Number], functions: &Functions) -> Vec<usize> {
        let Self { numbers, all, .. } = self;
        let number = |spot: Spot| {
            *numbers.entry(spot).or_insert_with_key(|spot| {
                all.push(Sum::of(spot.clone()));
                all.len() - 1
            })
        };
        spots(path, functions).into_iter().map(number).collect()
    }

    /// Adds a flow's path, the places of which are numbered so.
    pub(crate) fn add(&mut self, numbers: &[usize], path: &[Step], flow: &Flow) {
        self.of_flow.clear();
        for (pair, &number) in path.windows(2).zip(numbers) {
            let ns = pair[1].time_ns.saturating_sub(pair[0].time_ns);
            match self.of_flow.iter_mut().find(|(other, _)| *other == number) {
                Some((_, sum)) => *sum = sum.saturating_add(ns),
                None => self.of_flow.push((number, ns)),
            }
            let Some(Sum { spot: Spot::Crossing { .. }, waits, .. }) = self.all.get_mut(number) else {
                continue;
            };
            let wait = || flow.path().nth(pair[1].record).map(|row| Wait::until(row, pair[0].time_ns));
            waits.offer_with(|| wait().unwrap_or_default());
        }
        let reader = || flow.path().next_back().map_or_else(Cow::default, Row::comm);
        let mut crossed = 0;
        for (position, &(number, ns)) in (0..).zip(&self.of_flow) {
            let Some(sum) = self.all.get_mut(number) else { continue };
            if matches!(sum.spot, Spot::In { landmark: Landmark::Socket, .. }) {
                let (reader, first) = (reader(), sum.times.count() == 0);
                let is_same = || sum.reader.as_deref() == Some(&*reader);
                sum.reader = (first || is_same()).then(|| reader.into_owned());
            }
            sum.times.add(ns);
            sum.total_ns = sum.total_ns.saturating_add(ns.max(0));
            let crosses = u64::from(matches!(sum.spot, Spot::Crossing { .. }));
            sum.crossed += crossed + crosses;
            crossed += 2 * crosses;
            sum.positions += position;
        }
    }

    /// The places, in the order in which flows come there, and some of the times that they were on each that is a carrier.
    pub(crate) fn told<'a>(
        self,
        kind: &str,
        domain: impl Fn(u8) -> &'a str,
    ) -> impl Iterator<Item = (Place, Vec<Wait>)> {
        let total = self.all.iter().map(|sum| sum.total_ns as f64).sum::<f64>();
        let mut all = self.all;
        let mean = |sum: &Sum, of: u64| of as f64 / sum.times.count() as f64;
        let order = |sum: &Sum| (mean(sum, sum.crossed), mean(sum, sum.positions));
        all.sort_by(|a, b| {
            let ((crossed_a, at_a), (crossed_b, at_b)) = (order(a), order(b));
            crossed_a.total_cmp(&crossed_b).then(at_a.total_cmp(&at_b)).then_with(|| a.spot.cmp(&b.spot))
        });
        let place = |mut sum: Sum| {
            let named = sum.spot.place(&domain, sum.reader.as_deref());
            let stay = Stay::new(named, &mut sum.times, sum.total_ns, total);
            (Place { kind: kind.to_owned(), stay, taker: None }, sum.waits.into_chosen())
        };
        all.into_iter().map(place).collect::<Vec<_>>().into_iter()
    }
}
