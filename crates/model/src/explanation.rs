//! All transactions of a trace, broken down one after the other while its events go by.
//!
//! Memory is for what is under way: what was over before the earliest transaction that is not is forgotten.

use std::{cmp::Reverse, collections::VecDeque};

use xweave_replay::{LossOfDomain, Losses, Replay};
use xweave_trace::{Damaged, Late, Parts, Trace, event::Names};

use crate::{
    breakdown::Piece,
    bytes::Bytes,
    clock_errors::ClockErrors,
    machine::Machine,
    objects::{Cause, ObjectNumber, Objects},
    passed::Passed,
    paths::{Path, Paths},
    place::{Mark, Sites},
    power::Highest,
    recorded::{Groups, Seen},
    recorder_use::{RecorderTime, RecorderUse},
    spec::Spec,
    transaction::{Finder, Transaction},
    unused::Unused,
    vcpu::{Check, Vcpus},
    vcpu_numbers::VcpuNumbers,
};

/// Events after which what is over is forgotten; more, where more is remembered.
const ROUND: u64 = 1 << 16;

/// A part of a transaction's time: of one object, spent on one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its beginning, in nanoseconds.
    pub from: i64,
    /// Its end, the next one's beginning.
    pub to: i64,
    /// Whose it was.
    pub object: ObjectNumber,
    /// What it was spent on.
    pub spent: crate::TimeState,
    /// What more is known of why.
    pub cause: Option<Cause>,
    /// For how many others, each waiting for the next, the object worked.
    pub depth: u8,
}

/// A transaction, broken down.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    /// Its number in the trace, from 1; a flow's ID.
    pub id: u64,
    /// What tells it from others.
    pub name: String,
    /// The number of the domain that it ended in.
    pub domain: u8,
    /// When it began, in nanoseconds.
    pub start_ns: i64,
    /// How long it took.
    pub total_ns: i64,
    /// Its time, in order and without gaps.
    pub steps: Vec<Step>,
    /// When it passed each of its places, if it lies between some.
    pub points: Vec<i64>,
    /// Where it was until when, in turn, if that is known: from its beginning to its end.
    pub segments: Vec<Passed>,
    /// How much data it carried, if that is known.
    pub bytes: Option<Bytes>,
    /// Of a life: how long its thread ran in system calls, in nanoseconds; if these were recorded.
    pub in_calls_ns: Option<u64>,
}

impl Explained {
    /// How long it took; 0, if the trace says that it took less.
    pub fn length(&self) -> u64 {
        u64::try_from(self.total_ns).unwrap_or(0)
    }
}

/// What an explanation went through.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Events.
    pub events: u64,
    /// Transactions.
    pub transactions: u64,
    /// Accesses to disks.
    pub accesses: u64,
    /// Those of them whose end is not in the trace: who waited for one is not known to have waited for the disk.
    pub incomplete_ios: u64,
    /// What was lost of events: where that is known, nothing is said of what it affects.
    pub lost: Vec<LossOfDomain>,
    /// Records and events that arrived and could not be stored.
    pub unwritten: u64,
    /// Events whose times are later than their own.
    pub late: Vec<Late>,
    /// Guests of which events say that their processors are not the vCPUs that they are taken for, by their names.
    pub outside: Vec<(String, Check)>,
    /// Of transactions between places: how often each of these was passed.
    pub passed: Option<Vec<u64>>,
    /// Of these: how often each was passed by what had passed those before.
    pub reached: Option<Vec<u64>>,
    /// Of these: how many are not told, as events were lost between the two, which may have told of either place.
    pub uncertain: u64,
    /// Of requests by datagrams: how many have no answer in the trace.
    pub unanswered: u64,
    /// Requests that are no transactions: those that records tell of, and those on streams.
    pub unused: Unused,
    /// Whether the transactions are what was seen of incomplete flows, there being no complete one.
    pub incomplete_flows: bool,
    /// The groups of events that were recorded, by domain.
    pub recorded: Groups,
    /// What the recorder had of the CPUs.
    pub recorder: RecorderUse,
    /// Files that could not be read, or not to their ends.
    pub damaged: Vec<Damaged>,
    /// What the objects are called.
    pub objects: Objects,
}

/// Which processors of guests their vCPUs are, and how far the clocks may be off.
fn know(vcpus: &mut Vcpus, trace: &Trace) {
    let manifest = trace.manifest();
    let error = |name: &str| {
        let clock = manifest.clocks.iter().find(|clock| clock.domain == name);
        clock.map_or(i64::MAX, |clock| i64::try_from(clock.error_ns).unwrap_or(i64::MAX))
    };
    vcpus.number(VcpuNumbers::of(trace));
    for guest in &manifest.domains {
        let Some(vm) = &guest.vm else { continue };
        vcpus.clocks_err(guest.number, error(&guest.name).saturating_add(error(&vm.host)));
    }
}

/// Breaks down the transactions of a trace, in the order of their ends. Each is given to `each`, with the names of
/// the objects so far.
pub fn explain(trace: &Trace, spec: &Spec, each: &mut dyn FnMut(Explained, &Objects)) -> Outcome {
    let mut losses = Losses::of(trace);
    let Paths { all: flows, incomplete: incomplete_flows, unused } = Paths::of(trace, spec);
    let mut all = Explanation {
        machine: Machine::of(trace, Replay::of(&mut losses)).with_highest(Highest::of(trace)),
        objects: Objects::of(trace),
        marks: Marks::of(trace, spec),
        clocks: ClockErrors::from_manifest(trace.manifest()),
        flows,
        outcome: Outcome::default(),
        each,
    };
    know(&mut all.machine.vcpus, trace);
    let mut finder = Finder::new(spec, &|name| trace.domain_number(name));
    let mut events = trace.events();
    let (mut round, mut seen, mut recorder) = (ROUND, Seen::default(), RecorderTime::of(trace));
    while let Some(event) = events.next() {
        seen.add(event.domain, event.kind);
        all.machine.until(event.time_ns);
        all.before(event.time_ns, finder.as_mut(), events.names());
        all.machine.apply(&event);
        recorder.add(&all.machine);
        if let Some(found) =
            finder.as_mut().and_then(|finder| finder.feed(&event, &all.machine, events.names()))
        {
            all.tell(found, None, events.names());
        }
        all.outcome.events += 1;
        if all.outcome.events == round {
            if let Some(finder) = &mut finder {
                for found in finder.settle(Some(event.time_ns)) {
                    all.tell(found, None, events.names());
                }
            }
            let open = finder.as_ref().and_then(Finder::earliest).into_iter();
            let flows = all.flows.front().map(|flow| flow.earliest_ns);
            all.machine.forget_before(open.chain(flows).fold(event.time_ns, i64::min));
            // All that is remembered was looked at: not again before as many events.
            let remembered = all.machine.remembered() + finder.as_ref().map_or(0, Finder::open);
            round = all.outcome.events + ROUND.max(remembered as u64);
        }
    }
    all.machine.until(i64::MAX);
    all.before(i64::MAX, finder.as_mut(), events.names());
    for found in finder.as_mut().map(|finder| finder.settle(None)).unwrap_or_default() {
        all.tell(found, None, events.names());
    }
    let (accesses, incomplete_ios) = all.machine.disks.endless();
    let mut damaged = events.damaged().to_vec();
    damaged.extend(all.marks.take().into_iter().flat_map(|marks| marks.damaged));
    let passed = |which: usize| Some(finder.as_ref()?.passed()?[which].to_vec());
    let (passed, reached) = (passed(0), passed(1));
    let uncertain = finder.as_ref().map_or(0, Finder::uncertain);
    let unanswered = finder.as_ref().map_or(0, Finder::unanswered);
    let unused = finder.as_ref().and_then(Finder::unused).unwrap_or(unused);
    let lost = losses.of_domains(trace.manifest());
    let unwritten = trace.manifest().loss.unwritten;
    // Bounds of clocks' errors are estimates: one event in ten thousand tells nothing of the others.
    let wrong = all.machine.vcpus.checks().filter(|(_, check)| check.outside > check.events / 1_000);
    let mut outside: Vec<_> =
        wrong.map(|(guest, check)| (all.objects.domain(guest).to_owned(), check)).collect();
    outside.sort_by(|one, other| one.0.cmp(&other.0));
    Outcome {
        accesses,
        incomplete_ios,
        lost,
        unwritten,
        late: trace.manifest().loss.late.clone(),
        outside,
        damaged,
        passed,
        reached,
        uncertain,
        unanswered,
        unused,
        incomplete_flows,
        recorded: seen.groups(trace),
        recorder: recorder.into_use(trace),
        objects: all.objects,
        ..all.outcome
    }
}

struct Explanation<'a> {
    machine: Machine,
    objects: Objects,
    marks: Option<Marks<'a>>,
    clocks: ClockErrors,
    flows: VecDeque<Path>,
    outcome: Outcome,
    each: &'a mut dyn FnMut(Explained, &Objects),
}

impl Explanation<'_> {
    /// Does what records ask for before that time.
    fn before(&mut self, time: i64, finder: Option<&mut Finder>, names: &Names) {
        while self.flows.front().is_some_and(|flow| flow.end_ns < time) {
            let Some(flow) = self.flows.pop_front() else { break };
            let id = flow.id;
            let found = flow.break_down(&self.machine, &self.clocks);
            self.tell(found, Some(id), names);
        }
        let Some(finder) = finder else { return };
        while let Some(mark) = self.marks.as_mut().and_then(|marks| marks.before(time)) {
            if let Some(found) = finder.mark(&mark, &self.machine) {
                self.tell(found, None, names);
            }
        }
    }

    fn tell(&mut self, found: Transaction, id: Option<u64>, names: &Names) {
        let (Some(first), Some(last)) = (found.pieces.first(), found.pieces.last()) else { return };
        let (start_ns, total_ns) = (first.from, last.to.saturating_sub(first.from));
        self.outcome.transactions += 1;
        let mut step = |piece: &Piece| Step {
            from: piece.from,
            to: piece.to,
            object: self.objects.number(piece.object, &self.machine, names),
            spent: piece.spent,
            cause: piece.cause.map(|cause| self.objects.cause(cause, &self.machine, names)),
            depth: piece.depth,
        };
        let steps = found.pieces.iter().map(|piece| step(&self.clocks.doubt(*piece))).collect();
        let id = id.unwrap_or(self.outcome.transactions);
        let Transaction { name, thread, points, segments, bytes, in_calls_ns, .. } = found;
        let domain = thread.domain;
        let told =
            Explained { id, name, domain, start_ns, total_ns, steps, points, segments, bytes, in_calls_ns };
        (self.each)(told, &self.objects);
    }
}

/// The records at the places that transactions pass, in the order of their times.
struct Marks<'a> {
    sites: Sites,
    parts: Parts<'a>,
    /// Those that are read, the last one first.
    read: Vec<Mark>,
    /// All before that time are.
    until: i64,
    damaged: Vec<Damaged>,
}

impl<'a> Marks<'a> {
    /// None, if no records are meant.
    fn of(trace: &'a Trace, spec: &Spec) -> Option<Self> {
        let Spec::Between(between) = spec else { return None };
        let sites = Sites::of(trace, between.places(), between.by());
        if sites.is_empty() {
            return None;
        }
        Some(Self { sites, parts: trace.parts(), read: Vec::new(), until: i64::MIN, damaged: Vec::new() })
    }

    /// The next one, if it is before that time.
    fn before(&mut self, time: i64) -> Option<Mark> {
        while self.until < time {
            self.until = match self.parts.next() {
                None => i64::MAX,
                Some(Err(damaged)) => {
                    self.damaged.push(damaged);
                    continue;
                }
                Some(Ok(part)) => {
                    self.read.extend(part.rows.iter().filter_map(|row| self.sites.mark(row)));
                    part.before_ns
                }
            };
            if self.until >= time {
                // What was recorded first at one time stays first.
                self.read.sort_by_key(|mark| Reverse(mark.time));
            }
        }
        self.read.pop_if(|next| next.time < time)
    }
}
