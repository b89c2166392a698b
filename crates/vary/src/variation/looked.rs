//! The requests that are looked at: whose time it was, in which segment, for which cause.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range};

use xweave_flow::{WayPlace, legs::WayPoint};
use xweave_model::{DomainRef, Offender, Power, Stretch};
use xweave_trace::{Domain, Manifest, Role};

use super::{By, Evidence, Found, Gain, Others, Segment, Shares, Sides, whole};
use crate::{
    bootstrap::bounds,
    cause::{Cause, Kind, Remedied, Whom, power},
    counterfactual::without,
    queue::{Part, Queue},
    requests::{Request, Requests},
    shares::{Ranks, Spread, shares},
};

/// So many idle states, or frequencies, are told of a cause, and so many who did it.
const POWERS: usize = 3;
const OFFENDERS: usize = 3;

/// The requests that are looked at.
pub(super) struct Looked<'r> {
    requests: &'r Requests,
    all: &'r [Request],
    pub(super) times: &'r [f64],
    pub(super) spread: Spread,
    ranks: Ranks,
    /// All segments, in turn.
    segments: Vec<Stretch>,
    /// Of each dimension, its segment's place in these.
    segment_of: Vec<usize>,
    /// What kept them: each cause once.
    causes: Vec<Cause>,
    /// Of each dimension, its cause's place in these, and who did it.
    cause_of: Vec<(usize, Option<Offender>)>,
    /// The same of what it took longer at a low frequency, and which share of it that is.
    slowed: Vec<Option<(usize, f64)>>,
    waits: Option<Waits>,
    /// What they were recorded in.
    recording: &'r Manifest,
}

/// The socket in whose queue requests wait for each other.
struct Waits {
    queue: Queue,
    /// The segment, among all, and the server's own.
    socket: usize,
    server: usize,
    /// How long each waited for others, from when it came to the queue.
    waits: Vec<f64>,
    /// If requests come in batches: the cause's place among all, and how long each waited for that: the first of its wait.
    batches: Option<(usize, Vec<f64>)>,
}

/// Some of a request's time.
#[derive(Clone, Copy)]
struct Amount<'r> {
    segment: usize,
    cause: usize,
    by: Option<&'r Offender>,
    power: Option<Power>,
    ns: f64,
    /// While the request waited in the queue for others to be served.
    waiting: bool,
}

/// Of a cause: who did it, and in which segments it was, in nanoseconds.
#[derive(Clone, Default)]
struct Told<'r> {
    by: BTreeMap<&'r Offender, f64>,
    segments: BTreeMap<usize, f64>,
    /// Of each request that had any: how long what its CPU saved power with took.
    power: BTreeMap<Power, BTreeMap<usize, f64>>,
}

impl<'r> Looked<'r> {
    pub(super) fn new(
        requests: &'r Requests,
        all: &'r [Request],
        times: &'r [f64],
        recording: &'r Manifest,
    ) -> Self {
        let segments = requests.segments();
        let place = |of: &Stretch| segments.iter().position(|segment| segment == of).unwrap_or(0);
        let segment_of: Vec<_> = requests.dimensions().iter().map(|of| place(&of.segment)).collect();
        let mut causes: Vec<Cause> = Vec::new();
        let mut numbered = |cause: Cause| {
            causes.iter().position(|known| *known == cause).unwrap_or_else(|| {
                causes.push(cause);
                causes.len() - 1
            })
        };
        let (mut cause_of, mut slowed) = (Vec::new(), Vec::new());
        for dimension in requests.dimensions() {
            let (cause, by) = Cause::of(dimension);
            cause_of.push((numbered(cause), by));
            slowed.push(Cause::of_frequency(dimension).map(|(cause, share)| (numbered(cause), share)));
        }
        let (spread, ranks) = (Spread::of(times), Ranks::of(times));
        let mut looked = Self {
            requests,
            all,
            times,
            spread,
            ranks,
            segments,
            segment_of,
            causes,
            cause_of,
            slowed,
            waits: None,
            recording,
        };
        looked.waits = looked.find_waits();
        if let Some(waits) = &mut looked.waits
            && let Some(less) = waits.queue.by_batches(&waits.waits)
        {
            waits.batches = Some((looked.causes.len(), less));
            looked.causes.push(Cause { kind: Kind::BatchArrival, whom: Whom::Requests });
        }
        looked
    }

    /// Whether a cause is only the place where something else was: what a guest's disk did is what its host did for it, of which
    /// nothing more is known.
    fn is_for_host(&self, cause: &Cause) -> bool {
        let Whom::Domain(DomainRef::One(name)) = &cause.whom else { return false };
        let of_guest = |domain: &Domain| domain.name == *name && domain.role == Role::Guest;
        cause.kind == Kind::Disk && self.recording.domains.iter().any(of_guest)
    }

    /// The socket in which they were longest, if there is one and a server behind it.
    fn find_waits(&self) -> Option<Waits> {
        let server = self.segments.iter().position(is_server)?;
        let socket = self.segments[..server].iter().rposition(Stretch::is_servers_socket)?;
        let columns = self.requests.columns(self.all, 3, |number| {
            let segment = self.segment_of[number as usize];
            match segment {
                _ if segment < socket => Some(0),
                _ if segment == socket => Some(1),
                _ if segment == server => Some(2),
                _ => None,
            }
        });
        let [before, queued, served] = <[Vec<f64>; 3]>::try_from(columns).ok()?;
        let start = self.all.iter().map(|request| request.start_ns as f64).collect();
        let queue = Queue { start, before, queued, served };
        Some(Waits { waits: queue.waits(), queue, socket, server, batches: None })
    }

    /// What a request's time was spent on: sums to all of it.
    fn amounts(&self, at: usize) -> impl Iterator<Item = Amount<'_>> {
        // Since when it was in the queue.
        let mut queued = 0.0;
        let split = move |(number, ns): &(u32, u64)| {
            let segment = self.segment_of[*number as usize];
            let (cause, by) = &self.cause_of[*number as usize];
            let power = power(&self.requests.dimensions()[*number as usize].such);
            let (by, ns) = (by.as_ref(), *ns as f64);
            let own = Amount { segment, cause: *cause, by, power, ns, waiting: false };
            let Some(waits) = self.waits.as_ref().filter(|waits| waits.socket == segment) else {
                let Some((cause, share)) = self.slowed[*number as usize] else {
                    return [Some(own), None, None];
                };
                let slowed = Amount { cause, by: None, ns: ns * share, ..own };
                return [Some(Amount { power: None, ns: ns - slowed.ns, ..own }), Some(slowed), None];
            };
            let from = queued;
            queued += ns;
            let until = |end: f64, since: f64| (end.min(queued) - since).max(0.0);
            let (batches, less) = waits.batches.as_ref().map_or((0, 0.0), |(cause, less)| (*cause, less[at]));
            let of_batch = until(less, from);
            let waited = until(waits.waits[at], from + of_batch);
            let rest = ns - of_batch - waited;
            [
                Amount { cause: batches, by: None, ns: of_batch, waiting: true, ..own },
                Amount { ns: waited, waiting: true, ..own },
                Amount { ns: rest, ..own },
            ]
            .map(|amount| Some(amount).filter(|amount| amount.ns > 0.0))
        };
        self.requests.parts(&self.all[at]).iter().flat_map(split).flatten()
    }

    pub(super) fn segments(&self) -> Vec<Segment> {
        let columns =
            self.requests.columns(self.all, self.segments.len(), |at| Some(self.segment_of[at as usize]));
        let shares = shares(self.times, &columns);
        let bounds = bounds(self.times, &columns);
        let shares = shares.into_iter().zip(bounds).map(|(share, bounds)| Shares::new(share, bounds));
        let times = self.segments.iter().zip(&columns);
        let all = times.zip(shares).zip(self.spent()).map(|(((stretch, column), shares), spent_ns)| {
            let Spread { p50, p99, .. } = Spread::of(column);
            Segment {
                stretch: stretch.clone(),
                p50_ns: whole(p50),
                p99_ns: whole(p99),
                shares,
                if_steady: Spread::of(&without(self.times, column, Remedied::Steady)).into(),
                others: self.requests.others(self.all, stretch).map(|others| self.crowd(&others)),
                spent_ns,
            }
        });
        all.collect()
    }

    /// What the time in each segment was spent on.
    fn spent(&self) -> Vec<BTreeMap<&'static str, u64>> {
        let mut spent = vec![BTreeMap::new(); self.segments.len()];
        for (number, ns) in self.all.iter().flat_map(|request| self.requests.parts(request)) {
            let state = self.requests.dimensions()[*number as usize].such.spent.name();
            let of: &mut u64 = spent[self.segment_of[*number as usize]].entry(state).or_default();
            *of = of.saturating_add(*ns);
        }
        spent
    }

    fn crowd(&self, others: &[f64]) -> Others {
        let Spread { p50, p99, .. } = Spread::of(others);
        let [mean_in_tail, mean_typically] = self.ranks.means(others);
        Others {
            p50: whole(p50),
            p99: whole(p99),
            max: whole(others.iter().copied().fold(0.0, f64::max)),
            mean_in_tail,
            mean_typically,
        }
    }

    pub(super) fn causes(&self, spikes: &[Range<usize>], sides: Sides) -> Vec<Found> {
        let mut columns = vec![vec![0.0; self.all.len()]; self.causes.len()];
        let mut told: Vec<Told<'_>> = vec![Told::default(); self.causes.len()];
        for (at, Amount { segment, cause, by, power, ns, .. }) in self.all_amounts() {
            columns[cause][at] += ns;
            power.into_iter().for_each(|power| {
                *told[cause].power.entry(power).or_default().entry(at).or_default() += ns;
            });
            *told[cause].segments.entry(segment).or_default() += ns;
            by.into_iter().for_each(|by| *told[cause].by.entry(by).or_default() += ns);
        }
        let (shares, bounds) = (shares(self.times, &columns), bounds(self.times, &columns));
        let shares = shares.into_iter().zip(bounds).map(|(share, bounds)| Shares::new(share, bounds));
        let mut found: Vec<Found> = columns
            .iter()
            .zip(told)
            .zip(shares)
            .enumerate()
            .map(|(which, ((column, told), shares))| self.found(which, column, told, shares, spikes, sides))
            .filter(|found| found.ns > 0)
            .collect();
        found.sort_by(|one, other| {
            let of = |found: &Found| found.shares.share_of_variance + found.shares.share_of_tail;
            of(other).total_cmp(&of(one)).then_with(|| one.cause.cmp(&other.cause))
        });
        found
    }

    /// What all requests' time was spent on, with their places.
    fn all_amounts(&self) -> impl Iterator<Item = (usize, Amount<'_>)> {
        (0..self.all.len()).flat_map(|at| self.amounts(at).map(move |amount| (at, amount)))
    }

    fn found(
        &self,
        which: usize,
        column: &[f64],
        Told { by, segments, power }: Told<'_>,
        shares: Shares,
        spikes: &[Range<usize>],
        sides: Sides,
    ) -> Found {
        let cause = &self.causes[which];
        let mut offenders: Vec<By> =
            by.into_iter().map(|(who, ns)| By { who: who.clone(), ns: whole(ns) }).collect();
        offenders.sort_by_key(|by| Reverse(by.ns));
        let all_segments: f64 = segments.values().sum();
        let segment = segments.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
        let share_of_segment = segment.map_or(0.0, |(_, ns)| ns / all_segments.max(1.0));
        let gain = self.gain(which, column);
        let example =
            self.ranks.tail.iter().copied().max_by(|one, other| column[*one].total_cmp(&column[*other]));
        let ns = column.iter().copied().fold(0, |sum: u64, ns| sum.saturating_add(whole(ns)));
        Found {
            cause: cause.clone(),
            remedy: cause
                .remedy(offenders.first().map(|by| &by.who), self.recording.background)
                .filter(|_| gain.is_any() && !self.is_for_host(cause)),
            requests: column.iter().filter(|ns| **ns > 0.0).count() as u64,
            ns,
            segment: segment.map(|(at, _)| self.segments[at].clone()),
            share_of_segment,
            // What is longer in the slowest tells nothing, if the slowest are hardly slower than others.
            named: !sides.vary_little()
                && (shares.is_named_of_variance() || sides.slow && shares.is_named_of_tail()),
            shares,
            evidence: evidence(column, &self.ranks, spikes, &offenders)
                .into_iter()
                .chain(saved(&power))
                .collect(),
            offenders,
            gain,
            example: example.map_or(0, |at| self.all[at].id),
        }
    }

    /// What the remedy of a cause gains. Where its median time in each request would gain nothing, as that is the long one of
    /// two, what there would be without it.
    fn gain(&self, which: usize, column: &[f64]) -> Gain {
        let (before, kind) = (self.spread, self.causes[which].kind);
        let less = |one: f64, other: f64| whole(one).cast_signed() - whole(other).cast_signed();
        let gained = |remedied: Remedied| {
            let after = Spread::of(&self.without(which, column, remedied));
            Gain { remedied, p50_ns: less(before.p50, after.p50), p99_ns: less(before.p99, after.p99) }
        };
        let gain = gained(kind.remedied());
        if gain.p99_ns > 0 {
            gain
        } else {
            Some(gained(Remedied::Gone)).filter(|gone| gone.is_any()).unwrap_or(gain)
        }
    }

    /// The requests' times with what is left of that cause after its remedy.
    fn without(&self, which: usize, column: &[f64], remedied: Remedied) -> Vec<f64> {
        let Some(Waits { queue, socket, server, waits, .. }) = &self.waits else {
            return without(self.times, column, remedied);
        };
        // What is a wait for others is gone with them.
        if matches!(self.causes[which].kind, Kind::SocketQueue | Kind::BatchArrival) {
            return without(self.times, column, remedied);
        }
        let zeros = || vec![0.0; self.all.len()];
        let mut part = Part { before: zeros(), serving: zeros(), behind: zeros() };
        let own = |(_, of): &(usize, Amount<'_>)| of.cause == which && !of.waiting;
        for (at, Amount { segment, ns, .. }) in self.all_amounts().filter(own) {
            let of = match segment {
                _ if segment < *socket => &mut part.before,
                _ if segment <= *server => &mut part.serving,
                _ => &mut part.behind,
            };
            of[at] += ns;
        }
        queue.without(self.times, waits, &part, remedied)
    }
}

/// Whether a server has read the request there, and not answered: not one that was asked for it by the server.
fn is_server(segment: &Stretch) -> bool {
    let Stretch::Way(place) = segment else { return false };
    matches!(**place, WayPlace { made: None, point: WayPoint::Server { .. } })
}

/// What speaks for a cause.
fn evidence(column: &[f64], ranks: &Ranks, spikes: &[Range<usize>], offenders: &[By]) -> Vec<Evidence> {
    let [in_tail, usual] = ranks.means(column);
    let requests = column.iter().filter(|ns| **ns > 0.0).count();
    let total: f64 = column.iter().sum();
    let mut all = vec![
        Evidence::Total { ns: whole(total), requests, of: column.len() },
        Evidence::Tail {
            slowest: ranks.tail.len(),
            mean_in_tail_ns: whole(in_tail),
            mean_typically_ns: whole(usual),
        },
    ];
    if !offenders.is_empty() && total > 0.0 {
        let share = |by: &By| (by.who.clone(), by.ns as f64 / total);
        all.push(Evidence::By(offenders.iter().take(OFFENDERS).map(share).collect()));
    }
    let more = |run: &&Range<usize>| column[(*run).clone()].iter().any(|ns| *ns > 2.0 * usual);
    if !spikes.is_empty() {
        all.push(Evidence::Spikes { longer: spikes.iter().filter(more).count(), of: spikes.len() });
    }
    all
}

/// How the CPUs saved power meanwhile: what took longest first.
fn saved(power: &BTreeMap<Power, BTreeMap<usize, f64>>) -> Vec<Evidence> {
    let mut all: Vec<(Power, Vec<f64>)> =
        power.iter().map(|(power, of)| (*power, of.values().copied().collect())).collect();
    all.sort_by(|(_, one), (_, other)| other.iter().sum::<f64>().total_cmp(&one.iter().sum()));
    let saved = |(power, times): &(Power, Vec<f64>)| Evidence::Power {
        power: *power,
        requests: times.len(),
        p50_ns: whole(Spread::of(times).p50),
    };
    all.iter().take(POWERS).map(saved).collect()
}
