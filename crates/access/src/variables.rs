//! Where a function's variables and parameters are at its accesses: from debug information, or else from the
//! prototype and the registers that it says they come in.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use xweave_code::dwarf::{self, Debug, Live};
use xweave_code::types::{ProtoId, Type};

use crate::cfg::{Cfg, to_u32, to_usize};
use crate::entry_values::{State, entry_values};
use crate::found::Found;
use crate::location::{Place, Run, Which};
use crate::program_facts::{Function, ProgramFacts};
use crate::registers::ARGUMENTS;

/// Where debug information says that a variable is.
struct Candidate<'d> {
    live: &'d Live,
    accesses: Range<u32>,
}

/// Where the canonical frame address is at some accesses: a register, and how far from that.
type Frame = (Range<u32>, Option<(u8, i32)>);

/// What all functions' variables are looked up in.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub(crate) facts: &'a ProgramFacts<'a>,
    pub(crate) debug: Option<&'a Debug>,
}

impl Lookup<'_> {
    /// Where a function's variables are at what was found in it, which is in the order of addresses.
    pub(crate) fn of(&self, function: &Function, cfg: &Cfg, found: &[Found]) -> Vec<Run> {
        // Others are no join points.
        let typed = |found: &Found| matches!(found.what, Ok(Some(_)));
        if !found.iter().any(typed) {
            return Vec::new();
        }
        match self.debug.filter(|debug| debug.function(function.pieces[0].start).is_some()) {
            Some(debug) => self.told(debug, function, cfg, found),
            None => self.parameters(function, cfg, found),
        }
    }

    /// What `tell` takes of what is held at each access.
    fn at_accesses<T: Copy>(
        &self,
        cfg: &Cfg,
        found: &[Found],
        tell: impl FnMut(&State) -> T,
    ) -> Vec<Option<T>> {
        let mut wanted: Vec<u32> = found.iter().map(|found| found.instruction).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let told = entry_values(self.facts, cfg, &wanted, tell);
        let of = |found: &Found| told.get(wanted.binary_search(&found.instruction).ok()?).copied();
        found.iter().map(of).collect()
    }

    fn parameters(&self, function: &Function, cfg: &Cfg, found: &[Found]) -> Vec<Run> {
        let Some(proto) = function.proto else { return Vec::new() };
        let passed = self.passed(proto);
        if passed.is_empty() {
            return Vec::new();
        }
        let places = self.at_accesses(cfg, found, |state| {
            let mut places = [None; ARGUMENTS.len()];
            for (place, (_, register, bytes)) in places.iter_mut().zip(&passed) {
                *place = state.place(*register, *bytes);
            }
            places
        });
        let mut runs = Vec::new();
        for accesses in pieces(function, found) {
            for (order, (nth, ..)) in passed.iter().enumerate() {
                let places = accesses.clone().map(|access| {
                    let places = places.get(to_usize(access)).and_then(Option::as_ref);
                    (access, places.and_then(|places| *places.get(order)?))
                });
                add(&mut runs, Which::Parameter { proto, nth: *nth }, places);
            }
        }
        runs
    }

    fn told(&self, debug: &Debug, function: &Function, cfg: &Cfg, found: &[Found]) -> Vec<Run> {
        let mut candidates = Vec::new();
        for (piece, accesses) in function.pieces.iter().zip(pieces(function, found)) {
            for live in debug.lives_in(piece.start, piece.end) {
                let at = within(found, live.from, live.to);
                let at = at.start.max(accesses.start)..at.end.min(accesses.end);
                let named = !debug.name(live.name).is_empty();
                if at.start < at.end && named && live.depth > 0 {
                    candidates.push(Candidate { live, accesses: at });
                }
            }
        }
        let counted = |candidate: &Candidate<'_>| {
            matches!(candidate.live.place, dwarf::Place::Frame { .. } | dwarf::Place::FrameAddress { .. })
        };
        let mut frames: Vec<Frame> = Vec::new();
        if candidates.iter().any(counted) {
            for (access, cfa) in (0u32..).zip(self.at_accesses(cfg, found, State::cfa)) {
                let cfa = cfa.flatten();
                match frames.last_mut() {
                    Some((range, last)) if *last == cfa => range.end = access + 1,
                    _ => frames.push((access..access + 1, cfa)),
                }
            }
        }
        let mut runs = Vec::new();
        let most = (found.len() + candidates.len()).saturating_mul(SPLIT);
        candidates.sort_by_key(|candidate| (candidate.live.name, candidate.accesses.start));
        for named in candidates.chunk_by(|a, b| a.live.name == b.live.name) {
            innermost(named, |candidate, accesses| place(candidate.live, accesses, &frames, most, &mut runs));
        }
        runs
    }

    /// The parameters that have a register of their own: their numbers, the registers, their sizes.
    fn passed(&self, proto: ProtoId) -> Vec<(u8, u8, u8)> {
        let types = self.facts.types;
        let (mut passed, mut register) = (Vec::new(), self.facts.first_register(proto));
        for (nth, param) in (0u8..).zip(&types.proto(proto).params) {
            let size = types.size(param.type_);
            if matches!(types.get(param.type_), Type::Record(_)) && size > 16 {
                continue;
            }
            let takes = usize::from(size > 8) + 1;
            // What does not fit in those that are left is on the stack; others may still fit.
            if register + takes > ARGUMENTS.len() {
                continue;
            }
            if let (1, Ok(size @ 1..), false) = (takes, u8::try_from(size), param.name.is_empty()) {
                passed.push((nth, ARGUMENTS[register], size));
            }
            register += takes;
        }
        passed
    }
}

/// The accesses in each of a function's pieces.
fn pieces(function: &Function, found: &[Found]) -> impl Iterator<Item = Range<u32>> {
    function.pieces.iter().map(|piece| within(found, piece.start, piece.end))
}

fn within(found: &[Found], from: u64, to: u64) -> Range<u32> {
    let at = |address| to_u32(found.partition_point(|found| found.address < address));
    at(from)..at(to)
}

/// Adds a variable's places as runs.
fn add(runs: &mut Vec<Run>, which: Which, places: impl Iterator<Item = (u32, Option<Place>)>) {
    for (access, place) in places {
        let Some(place) = place else { continue };
        match runs.last_mut().filter(|last| last.end == access && last.place == place) {
            Some(last) if last.which == which => last.end = access + 1,
            _ => runs.push(Run { which, first: access, end: access + 1, place }),
        }
    }
}

/// Runs are so many times as many as there are accesses and places, at most: in what a compiler makes, far
/// fewer.
const SPLIT: usize = 16;

/// Calls back with the stretches of accesses at which each of several variables with one name is meant.
fn innermost<'c, 'd>(named: &'c [Candidate<'d>], mut meant: impl FnMut(&'c Candidate<'d>, Range<u32>)) {
    let mut events: Vec<(u32, bool, usize)> = Vec::with_capacity(named.len() * 2);
    for (nth, candidate) in named.iter().enumerate() {
        events.push((candidate.accesses.start, true, nth));
        events.push((candidate.accesses.end, false, nth));
    }
    events.sort_unstable();
    let mut open: BTreeSet<(Reverse<u16>, bool, Reverse<u32>, usize)> = BTreeSet::new();
    let mut before = 0;
    for (at, begins, nth) in events {
        if let Some((.., meant_one)) = open.first().filter(|_| before < at) {
            meant(&named[*meant_one], before..at);
        }
        before = at;
        // Of two that are as deep, the one that began later: lists may overlap where the source's view changes.
        let Candidate { live, accesses } = &named[nth];
        let hiding = live.place == dwarf::Place::Hiding;
        let key = (Reverse(live.depth), hiding, Reverse(accesses.start), nth);
        if begins {
            open.insert(key);
        } else {
            open.remove(&key);
        }
    }
}

/// Adds the runs of one variable over some accesses.
fn place(live: &Live, accesses: Range<u32>, frames: &[Frame], most: usize, runs: &mut Vec<Run>) {
    let which = Which::Told { name: live.name, spelling: live.spelling };
    let mut push = |accesses: Range<u32>, place: Place| {
        let (first, end, full) = (accesses.start, accesses.end, runs.len() >= most);
        match runs.last_mut().filter(|last| last.which == which && last.end == first && last.place == place) {
            Some(last) => last.end = end,
            None if full => {}
            None => runs.push(Run { which, first, end, place }),
        }
    };
    let (add, address) = match live.place {
        dwarf::Place::Register { register, add } => {
            return push(accesses, Place::Register { register, add });
        }
        dwarf::Place::Memory { register, add } => return push(accesses, Place::Memory { register, add }),
        dwarf::Place::Value(value) => return push(accesses, Place::Constant(value)),
        dwarf::Place::Address(_) | dwarf::Place::Hiding => return,
        dwarf::Place::Frame { add } => (add, false),
        dwarf::Place::FrameAddress { add } => (add, true),
    };
    let first = frames.partition_point(|(range, _)| range.end <= accesses.start);
    for (range, cfa) in frames[first..].iter().take_while(|(range, _)| range.start < accesses.end) {
        let Some((register, cfa)) = *cfa else { continue };
        let Some(add) = cfa.checked_add(add) else { continue };
        let part = range.start.max(accesses.start)..range.end.min(accesses.end);
        let place = if address { Place::Register { register, add } } else { Place::Memory { register, add } };
        push(part, place);
    }
}
