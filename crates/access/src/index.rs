//! The index of a whole program, and questions to it.

use std::collections::HashMap;
use std::path::Path;

use rayon::prelude::*;
use xweave_code::dwarf::Debug;
use xweave_code::image::Image;
use xweave_code::types::KernelTypes;

use crate::Error;
use crate::answer::{Answer, Answers, Reason};
use crate::file::{self, Tables};
use crate::follow::{follow, register_of};
use crate::graph::{Graph, to_u32};
use crate::idioms::Overlays;
use crate::lessons::{Lessons, Subject};
use crate::pointcut::{How, Pointcut};
use crate::survey::Sources;
use crate::value::Values;
use crate::views::{View, Views};
use crate::way::{Key, Way, Ways};
use crate::world::{Function, World};

/// Which instruction of a program touches what.
pub struct Index {
    tables: Tables,
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
    /// The function's name; that of its part, where that is what the instruction is in (`.cold`).
    pub function: &'i str,
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
    /// The source file and line, where there is debug information.
    pub line: Option<(&'i str, u32)>,
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

/// What was found out about one instruction.
pub(crate) struct Found {
    pub(crate) address: u64,
    pub(crate) what: Result<Option<Key>, Reason>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) certain: bool,
    pub(crate) base: Option<(u8, i32)>,
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
        let found: Vec<(u64, Vec<Found>)> = functions
            .par_iter()
            .zip(0u32..to_u32(functions.len()))
            .map(|(function, number)| program.answer(function, number))
            .collect();
        drop(lessons);
        let mut ways = Ways::default();
        let tables = file::assemble(kernel, debug, &functions, found, &mut ways);
        Self { tables }
    }

    /// Reads an index that [`Index::write`] wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Read`], and [`Error::Damaged`] if it is not one, or of another version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { tables: Tables::open(path)? })
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
    /// [`Error::Write`]
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        self.tables.write(path)
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
    pub fn sites(&self, pointcut: &Pointcut) -> Vec<Site<'_>> {
        let asked = Asked::new(pointcut, &self.tables);
        let mut sites = Vec::new();
        for function in 0..self.tables.functions() {
            let inside = asked.in_function(self.tables.name(function), self.tables.file(function));
            if inside == Some(false) {
                continue;
            }
            for site in self.tables.sites_of(function) {
                if let Some(way) = site.way
                    && asked.matches(pointcut, way, site.reads, site.writes, function, &self.tables)
                    && let Some(site) = self.tables.site(function, &site)
                {
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
            if asked.in_function(name, self.tables.file(function)) == Some(false) {
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

    /// The number of instructions, and what is known of those that touch memory.
    fn answer(&self, function: &Function, number: u32) -> (u64, Vec<Found>) {
        let (graph, values) = self.follow(function);
        let views = self.views(function, &values, number);
        let (world, overlays) = (self.world, self.overlays);
        let answers = Answers { world, overlays, function, graph: &graph, values: &values, views: &views };
        let mut views_found = Vec::new();
        let mut found: Vec<Found> = Vec::with_capacity(values.accesses.len());
        for access in &values.accesses {
            let (what, certain, base) = match answers.of(access, &mut views_found) {
                Answer::Not(reason) => (Err(reason), false, None),
                Answer::Typed { key, certain, at } => {
                    let instruction = &graph.instructions[crate::graph::to_usize(access.instruction)];
                    let base = register_of(instruction).filter(|_| access.scale == 0);
                    let base = base.map(|(register, add)| (register, add.saturating_sub(at)));
                    (Ok(key), certain, base)
                }
            };
            let (reads, writes) = (access.reads, access.writes);
            found.push(Found { address: answers.address(access), what, reads, writes, certain, base });
        }
        found.sort_by_key(|found| found.address);
        (u64::try_from(graph.instructions.len()).unwrap_or(0), found)
    }
}

/// A pointcut as it is asked of the tables: which ways it matches is found out once.
struct Asked<'p> {
    pointcut: &'p Pointcut,
    /// By the pointcut's address: for each way whether it matches.
    ways: HashMap<*const Pointcut, Vec<bool>>,
}

impl<'p> Asked<'p> {
    fn new(pointcut: &'p Pointcut, tables: &Tables) -> Self {
        let mut ways = HashMap::new();
        prepare(pointcut, tables, &mut ways);
        Self { pointcut, ways }
    }

    /// Whether sites of a function match by their function alone; none if that depends.
    fn in_function(&self, name: &str, file: Option<&str>) -> Option<bool> {
        fn ask(pointcut: &Pointcut, name: &str, file: Option<&str>) -> Option<bool> {
            match pointcut {
                Pointcut::Access { .. } => None,
                Pointcut::Function(pattern) => Some(xweave_code::kernel::matches(pattern, whole(name))),
                Pointcut::File(pattern) => Some(file.is_some_and(|file| in_file(pattern, file))),
                Pointcut::And(a, b) => match (ask(a, name, file), ask(b, name, file)) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                },
                Pointcut::Or(a, b) => match (ask(a, name, file), ask(b, name, file)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                },
                Pointcut::Not(a) => ask(a, name, file).map(|inside| !inside),
            }
        }
        ask(self.pointcut, name, file)
    }

    /// Whether a site matches a pointcut, or a part of it.
    fn matches(
        &self,
        of: &Pointcut,
        way: u32,
        reads: bool,
        writes: bool,
        function: u32,
        tables: &Tables,
    ) -> bool {
        let ask = |part: &Pointcut| self.matches(part, way, reads, writes, function, tables);
        match of {
            Pointcut::Access { how, .. } => {
                let wanted = match how {
                    None => true,
                    Some(How::Read) => reads,
                    Some(How::Write) => writes,
                };
                let ways = self.ways.get(&std::ptr::from_ref(of));
                wanted
                    && ways.and_then(|ways| ways.get(crate::graph::to_usize(way))).copied().unwrap_or(false)
            }
            Pointcut::Function(pattern) => {
                xweave_code::kernel::matches(pattern, whole(tables.name(function)))
            }
            Pointcut::File(pattern) => tables.file(function).is_some_and(|file| in_file(pattern, file)),
            Pointcut::And(a, b) => ask(a) && ask(b),
            Pointcut::Or(a, b) => ask(a) || ask(b),
            Pointcut::Not(a) => !ask(a),
        }
    }
}

/// The function that a part of it belongs to.
fn whole(name: &str) -> &str {
    name.split(".cold").next().unwrap_or(name)
}

/// Whether a file's path, or an end of it that begins at a folder, is what the pattern says.
fn in_file(pattern: &str, file: &str) -> bool {
    let ends = file.match_indices('/').map(|(at, _)| &file[at + 1..]);
    std::iter::once(file).chain(ends).any(|end| xweave_code::kernel::matches(pattern, end))
}

fn prepare(of: &Pointcut, tables: &Tables, ways: &mut HashMap<*const Pointcut, Vec<bool>>) {
    match of {
        Pointcut::Access { structure, member, .. } => {
            let matching = tables.ways().iter().map(|way| way.touches(structure, member)).collect();
            ways.insert(std::ptr::from_ref(of), matching);
        }
        Pointcut::And(a, b) | Pointcut::Or(a, b) => {
            prepare(a, tables, ways);
            prepare(b, tables, ways);
        }
        Pointcut::Not(a) => prepare(a, tables, ways),
        Pointcut::Function(_) | Pointcut::File(_) => {}
    }
}
