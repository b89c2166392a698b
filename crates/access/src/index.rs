//! The index of a whole program, and questions to it.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use rayon::prelude::*;
use xweave_code::dwarf::Debug;
use xweave_code::image::Image;
use xweave_code::types::KernelTypes;
use xweave_guard::private::Dir;

use crate::Error;
use crate::answer::{Answer, Answers, Reason};
use crate::asked::Asked;
use crate::earlier::earlier;
use crate::file::{self, Tables};
use crate::follow::{follow, register_of};
use crate::graph::{Graph, to_u32};
use crate::idioms::Overlays;
use crate::lessons::{Lessons, Subject};
use crate::pointcut::Pointcut;
use crate::survey::Sources;
use crate::value::{Ref, Values};
use crate::variables::{Lookup, Run};
use crate::views::{View, Views};
use crate::way::{Key, Way, Ways};
use crate::world::{Function, World};

/// Which instruction of a program touches what.
pub struct Index {
    pub(crate) tables: Tables,
}

/// How much of a program's code is understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Instructions in all.
    pub instructions: u64,
    /// Those with an operand in memory.
    pub memory_instructions: u64,
    /// Those of them of which the type is known of what they touch.
    pub typed: u64,
    /// The others, by reason: in the order of [`Reason::ALL`].
    pub unresolved: [u64; Reason::ALL.len()],
}

impl Coverage {
    /// All that are not typed.
    pub fn unresolved(&self) -> u64 {
        self.unresolved.iter().sum()
    }
}

/// An instruction that touches a member of a structure.
#[derive(Clone, Debug)]
pub struct Site<'i> {
    /// Its number in the index.
    pub number: u32,
    /// The function's name; that of its part, where that is what the instruction is in (`.cold`).
    pub function: &'i str,
    pub(crate) function_number: u32,
    /// The module it is in.
    pub module: Option<&'i str>,
    /// From the function's beginning, in bytes.
    pub offset: u32,
    /// The instruction's address, as linked.
    pub address: u64,
    /// What it touches.
    pub way: &'i Way,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Whether the types prove it; else they only allow it.
    pub certain: bool,
    /// A register, and what is to be added to it to get the address of the outermost structure; none where
    /// an index is part of the address.
    pub base: Option<(&'static str, i32)>,
    /// The number of the function's argument, from 0, that the outermost structure's address came in.
    pub parameter: Option<u8>,
    /// The instruction's length in bytes, where what lies behind it is executed after it and after nothing
    /// else, and the base is still there.
    pub length: Option<u8>,
    /// The source file and line, where there is debug information.
    pub line: Option<(&'i str, u32)>,
    /// What the pointcut gives names to here.
    pub bindings: Vec<Binding<'i>>,
}

/// Something that a pointcut gives a name to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding<'i> {
    /// The name.
    pub name: &'i str,
    /// Its type as C spells it, without qualifiers.
    pub type_: Cow<'i, str>,
    /// Where its value is before the instruction.
    pub place: Place,
}

/// Where a value is at an instruction. If it is smaller than a register, that one's low bytes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is the register's and a constant.
    Register {
        /// The register of 64 bits.
        register: &'static str,
        /// The constant.
        add: i32,
    },
    /// It lies in memory, where the register and a constant say.
    Memory {
        /// The register of 64 bits.
        register: &'static str,
        /// The constant.
        add: i32,
    },
    /// It is this, which no register holds.
    Constant(u64),
}

/// An instruction of which it is not known what it touches.
#[derive(Clone, Debug)]
pub struct Unresolved<'i> {
    /// As in [`Site::function`].
    pub function: &'i str,
    /// As in [`Site::offset`].
    pub offset: u32,
    /// As in [`Site::address`].
    pub address: u64,
    /// Why.
    pub reason: Reason,
}

/// What was found out about a function.
pub(crate) struct Answered {
    /// How many it has.
    pub(crate) instructions: u64,
    /// Of those that touch memory, in the order of addresses.
    pub(crate) found: Vec<Found>,
    /// Where variables are at these.
    pub(crate) runs: Vec<Run>,
}

/// What was found out about one instruction.
pub(crate) struct Found {
    pub(crate) address: u64,
    /// Its number in its function.
    pub(crate) instruction: u32,
    pub(crate) what: Result<Option<Key>, Reason>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) certain: bool,
    pub(crate) base: Option<(u8, i32)>,
    /// The number among what was found in the function of what always comes before it with the same target.
    pub(crate) earlier: Option<u32>,
    pub(crate) parameter: Option<u8>,
    pub(crate) length: Option<u8>,
}

impl Index {
    /// Analyses a program. What is known of its types is what `kernel` and `debug` tell.
    pub fn new(image: &Image, kernel: &KernelTypes, debug: Option<&Debug>) -> Self {
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
        let tables = file::assemble(kernel, debug, &functions, answers, &mut ways);
        Self { tables }
    }

    /// Reads an index that [`Index::write`] wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Kept`], and [`Error::Damaged`] if it is not one, or of another version.
    pub fn open(folder: &Dir, name: &str) -> Result<Self, Error> {
        Ok(Self { tables: Tables::open(folder, name)? })
    }

    /// The same, from a file that is open, which messages call `path`.
    ///
    /// # Errors
    ///
    /// As of [`Index::open`].
    pub fn of_file(path: &Path, file: &File) -> Result<Self, Error> {
        Ok(Self { tables: Tables::map(path, file)? })
    }

    /// What [`Index::write`] writes.
    pub fn bytes(&self) -> &[u8] {
        self.tables.bytes()
    }

    /// The same, from bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`]
    pub fn from_bytes(what: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        Ok(Self { tables: Tables::new(what, bytes)? })
    }

    /// Writes the index to a file, which is whole when it has its name.
    ///
    /// # Errors
    ///
    /// [`Error::Kept`]
    pub fn write(&self, folder: &Dir, name: &str) -> Result<(), Error> {
        self.tables.write(folder, name)
    }

    /// How much is understood.
    pub fn coverage(&self) -> Coverage {
        self.tables.coverage()
    }

    /// Whether the index knows source files and lines.
    pub fn has_lines(&self) -> bool {
        self.tables.has_lines()
    }

    /// The join points of a pointcut, in the order of addresses within the image.
    pub fn sites<'i>(&'i self, pointcut: &'i Pointcut) -> Vec<Site<'i>> {
        let asked = Asked::new(pointcut, &self.tables);
        let mut sites = Vec::new();
        for function in 0..self.tables.functions() {
            let Some(inside) = asked.of(function) else { continue };
            for row in self.tables.sites_of(function) {
                if let Some(way) = row.way
                    && inside.matches(&row, way)
                    && let Some(mut site) = self.tables.site(function, &row)
                {
                    site.bindings = inside.bindings(&row, &site);
                    sites.push(site);
                }
            }
        }
        sites
    }

    /// Instructions of which it is not known what they touch, in functions that the pointcut allows.
    pub fn unresolved(&self, pointcut: &Pointcut) -> Vec<Unresolved<'_>> {
        let asked = Asked::new(pointcut, &self.tables);
        let mut unresolved = Vec::new();
        for function in 0..self.tables.functions() {
            let name = self.tables.name(function);
            if asked.in_function(function) == Some(false) {
                continue;
            }
            for site in self.tables.sites_of(function) {
                let Some(reason) = site.reason else { continue };
                let address = self.tables.address(function).wrapping_add(site.offset.into());
                unresolved.push(Unresolved { function: name, offset: site.offset, address, reason });
            }
        }
        unresolved
    }

    /// The names of variables and parameters that can be asked for, each once.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.tables.names()
    }

    /// All ways that some instruction goes, each once.
    pub fn ways(&self) -> &[Way] {
        self.tables.ways()
    }
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
