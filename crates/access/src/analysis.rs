//! The analysis of a whole program: all its functions twice, since the first round teaches the second.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use xweave_code::dwarf::Debug;
use xweave_code::image::Image;
use xweave_code::types::KernelTypes;

use crate::cfg::{Cfg, to_u32};
use crate::classify::{Classified, Classifier};
use crate::dominators::earlier;
use crate::file::{self, Tables};
use crate::found::{Analysed, Found};
use crate::function_summaries::{FunctionSummaries, Subject};
use crate::idioms::Overlays;
use crate::inlining::inlining;
use crate::loader::Sources;
use crate::points_to::PointsTo;
use crate::program_facts::{Function, ProgramFacts};
use crate::ssa::{follow, register_of};
use crate::value::{Ref, Values};
use crate::variables::Lookup;
use crate::view::View;

/// Is told, now and then, how many functions are done, and of how many.
pub type Tell<'a> = &'a (dyn Fn(u32, u32) + Sync);

/// How far the analysis has come.
struct Steps<'a> {
    /// In both rounds.
    done: AtomicUsize,
    functions: usize,
    tell: Tell<'a>,
}

impl Steps<'_> {
    /// Functions between two times that it is told.
    const STRIDE: usize = 256;

    /// One more is done, in one of the rounds.
    fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(Self::STRIDE) || done == 2 * self.functions {
            (self.tell)(to_u32(done / 2), to_u32(self.functions));
        }
    }
}

/// Analyses a program. What is known of its types is what `kernel` and `debug` tell.
pub(crate) fn analyse(image: &Image, kernel: &KernelTypes, debug: Option<&Debug>, tell: Tell<'_>) -> Tables {
    let sources = Sources { image, kernel, debug };
    let functions = sources.functions();
    let steps = Steps { done: AtomicUsize::new(0), functions: functions.len(), tell };
    let facts = sources.facts(&functions);
    let program = Program { image, facts: &facts, overlays: &sources.overlays(), summaries: None };
    let told = functions.par_iter().zip(0u32..to_u32(functions.len()));
    let told = told.map(|(function, number)| {
        let summary = program.summarize(function, number);
        steps.step();
        (number, summary)
    });
    let mut summaries = FunctionSummaries::new(told.collect::<Vec<_>>().into_iter());
    sources.state_idioms(&mut summaries);
    let program = Program { summaries: Some(&summaries), ..program };
    let lookup = Lookup { facts: &facts, debug };
    let answers: Vec<Analysed> = functions
        .par_iter()
        .zip(0u32..to_u32(functions.len()))
        .map(|(function, number)| {
            let answer = program.answer(function, number, lookup);
            steps.step();
            answer
        })
        .collect();
    drop(summaries);
    file::assemble(kernel, debug, &functions, answers, &inlining(image, debug, &functions))
}

/// A program that is being analysed.
#[derive(Clone, Copy)]
struct Program<'a> {
    image: &'a Image,
    facts: &'a ProgramFacts<'a>,
    overlays: &'a Overlays,
    summaries: Option<&'a FunctionSummaries>,
}

impl Program<'_> {
    /// A function's instructions and values. Both rounds make them: kept, those of a whole kernel would take
    /// more memory than all else.
    fn follow(&self, function: &Function) -> (Cfg, Values) {
        let pieces: Vec<_> = function
            .pieces
            .iter()
            .filter_map(|piece| {
                let length = usize::try_from(piece.end - piece.start).ok()?;
                Some((piece.start, self.image.bytes(piece.start, length)?))
            })
            .collect();
        let cfg = Cfg::new(&pieces, &self.facts.hidden);
        let values = follow(self.facts, &cfg);
        (cfg, values)
    }

    fn points_to<'v>(&'v self, function: &Function, values: &'v Values, number: u32) -> PointsTo<'v> {
        let slots = self.facts.slots_of(function);
        PointsTo::new(self.facts, function, values, &slots, self.summaries, number)
    }

    fn summarize(&self, function: &Function, number: u32) -> Vec<(Subject, View)> {
        let (_, values) = self.follow(function);
        self.points_to(function, &values, number).summarize(function)
    }

    fn answer(&self, function: &Function, number: u32, lookup: Lookup<'_>) -> Analysed {
        let (cfg, values) = self.follow(function);
        let points_to = self.points_to(function, &values, number);
        let (facts, overlays) = (self.facts, self.overlays);
        let answers =
            Classifier { facts, overlays, function, cfg: &cfg, values: &values, points_to: &points_to };
        let mut views_found = Vec::new();
        let mut found: Vec<(Found, Option<Ref>)> = Vec::with_capacity(values.accesses.len());
        for access in &values.accesses {
            let instruction = &cfg.instructions[crate::cfg::to_usize(access.instruction)];
            let (what, certain, base, target) = match answers.of(access, &mut views_found) {
                Classified::Not(reason) => (Err(reason), false, None, None),
                Classified::Typed { key, certain, at } => {
                    let base = register_of(instruction).filter(|_| access.scale == 0);
                    let base = base.map(|(register, add)| (register, add.saturating_sub(at)));
                    let target = (access.scale == 0).then(|| access.at.plus(-i64::from(at)));
                    (Ok(key), certain, base, target)
                }
            };
            let (reads, writes) = (access.reads, access.writes);
            let (address, instruction) = (answers.address(access), access.instruction);
            let parameter = target.and_then(|target| values.argument(target));
            let length = cfg.length(access.instruction, base.map(|(register, _)| register));
            let earlier = None;
            found.push((
                Found {
                    address,
                    instruction,
                    what,
                    reads,
                    writes,
                    certain,
                    base,
                    earlier,
                    parameter,
                    length,
                },
                target,
            ));
        }
        found.sort_by_key(|(found, _)| found.address);
        let targets: Vec<_> = found.iter().map(|(found, target)| (found.instruction, *target)).collect();
        let mut found: Vec<Found> = found.into_iter().map(|(found, _)| found).collect();
        for (found, earlier) in found.iter_mut().zip(earlier(&cfg, &targets)) {
            found.earlier = earlier;
        }
        let instructions = u64::try_from(cfg.instructions.len()).unwrap_or(0);
        let runs = lookup.of(function, &cfg, &found);
        Analysed { instructions, found, runs }
    }
}
