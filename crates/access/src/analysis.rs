//! The analysis of a whole program: all its functions twice, since the first round teaches the second.

use rayon::prelude::*;
use xweave_code::dwarf::Debug;
use xweave_code::image::Image;
use xweave_code::types::KernelTypes;

use crate::answer::{Answer, Answers};
use crate::earlier::earlier;
use crate::file::{self, Tables};
use crate::follow::{follow, register_of};
use crate::found::{Answered, Found};
use crate::graph::{Graph, to_u32};
use crate::idioms::Overlays;
use crate::lessons::{Lessons, Subject};
use crate::survey::Sources;
use crate::value::{Ref, Values};
use crate::variables::Lookup;
use crate::view::View;
use crate::views::Views;
use crate::way::Ways;
use crate::world::{Function, World};

/// Analyses a program. What is known of its types is what `kernel` and `debug` tell.
pub(crate) fn analyse(image: &Image, kernel: &KernelTypes, debug: Option<&Debug>) -> Tables {
    let sources = Sources { image, kernel, debug };
    let functions = sources.functions();
    let world = sources.world(&functions);
    let program = Program { image, world: &world, overlays: &sources.overlays(), lessons: None };
    let told = functions.par_iter().zip(0u32..to_u32(functions.len()));
    let told = told.map(|(function, number)| (number, program.teach(function, number)));
    let mut lessons = Lessons::new(told.collect::<Vec<_>>().into_iter());
    sources.state_idioms(&mut lessons);
    let program = Program { lessons: Some(&lessons), ..program };
    let lookup = Lookup { world: &world, debug };
    let answers: Vec<Answered> = functions
        .par_iter()
        .zip(0u32..to_u32(functions.len()))
        .map(|(function, number)| program.answer(function, number, lookup))
        .collect();
    drop(lessons);
    let mut ways = Ways::default();
    file::assemble(kernel, debug, &functions, answers, &mut ways)
}

/// A program that is being analysed.
#[derive(Clone, Copy)]
struct Program<'a> {
    image: &'a Image,
    world: &'a World<'a>,
    overlays: &'a Overlays,
    lessons: Option<&'a Lessons>,
}

impl Program<'_> {
    /// A function's instructions and values. Both rounds make them: kept, those of a whole kernel would take
    /// more memory than all else.
    fn follow(&self, function: &Function) -> (Graph, Values) {
        let pieces: Vec<_> = function
            .pieces
            .iter()
            .filter_map(|piece| {
                let length = usize::try_from(piece.end - piece.start).ok()?;
                Some((piece.start, self.image.bytes(piece.start, length)?))
            })
            .collect();
        let graph = Graph::new(&pieces, &self.world.hidden);
        let values = follow(self.world, &graph);
        (graph, values)
    }

    fn views<'v>(&'v self, function: &Function, values: &'v Values, number: u32) -> Views<'v> {
        let slots = self.world.slots_of(function);
        Views::new(self.world, function, values, &slots, self.lessons, number)
    }

    fn teach(&self, function: &Function, number: u32) -> Vec<(Subject, View)> {
        let (_, values) = self.follow(function);
        self.views(function, &values, number).teach(function)
    }

    fn answer(&self, function: &Function, number: u32, lookup: Lookup<'_>) -> Answered {
        let (graph, values) = self.follow(function);
        let views = self.views(function, &values, number);
        let (world, overlays) = (self.world, self.overlays);
        let answers = Answers { world, overlays, function, graph: &graph, values: &values, views: &views };
        let mut views_found = Vec::new();
        let mut found: Vec<(Found, Option<Ref>)> = Vec::with_capacity(values.accesses.len());
        for access in &values.accesses {
            let instruction = &graph.instructions[crate::graph::to_usize(access.instruction)];
            let (what, certain, base, target) = match answers.of(access, &mut views_found) {
                Answer::Not(reason) => (Err(reason), false, None, None),
                Answer::Typed { key, certain, at } => {
                    let base = register_of(instruction).filter(|_| access.scale == 0);
                    let base = base.map(|(register, add)| (register, add.saturating_sub(at)));
                    let target = (access.scale == 0).then(|| access.at.plus(-i64::from(at)));
                    (Ok(key), certain, base, target)
                }
            };
            let (reads, writes) = (access.reads, access.writes);
            let (address, instruction) = (answers.address(access), access.instruction);
            let parameter = target.and_then(|target| values.argument(target));
            let length = graph.length(access.instruction, base.map(|(register, _)| register));
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
        for (found, earlier) in found.iter_mut().zip(earlier(&graph, &targets)) {
            found.earlier = earlier;
        }
        let instructions = u64::try_from(graph.instructions.len()).unwrap_or(0);
        let runs = lookup.of(function, &graph, &found);
        Answered { instructions, found, runs }
    }
}
