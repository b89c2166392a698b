//! Making the tables of what was found.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use rustc_hash::FxHashMap;
use xweave_code::dwarf::Debug;
use xweave_code::types::KernelTypes;

use super::texts::{Texts, push};
use super::{FUNCTION, HEADER, MAGIC, NONE, PARTS, RUN, SITE, Tables, VARIABLE, VERSION, inlined, paths};
use crate::access_path::{AccessPaths, Key};
use crate::cfg::{to_u32, to_usize};
use crate::classify::Reason;
use crate::found::Analysed;
use crate::inlining::Inlining;
use crate::location::{Place, Run, Which};
use crate::program_facts::Function;
use crate::site::Coverage;

/// Rows of a table, each once.
struct Numbered<K> {
    known: FxHashMap<K, u32>,
    table: Vec<u8>,
}

impl<K: Eq + Hash> Numbered<K> {
    fn new() -> Self {
        Self { known: FxHashMap::default(), table: Vec::new() }
    }

    fn number(&mut self, of: K, row: impl FnOnce() -> Vec<u32>) -> u32 {
        let Self { known, table } = self;
        let next = to_u32(known.len());
        *known.entry(of).or_insert_with(|| {
            push(table, &row());
            next
        })
    }
}

/// The tables of variables.
struct Variables<'a> {
    kernel: &'a KernelTypes,
    debug: Option<&'a Debug>,
    table: Vec<u8>,
    runs: Vec<u8>,
    places: Numbered<Place>,
    names: Numbered<[u32; 2]>,
    types: Numbered<[u32; 2]>,
    /// The numbers of names and types.
    known: FxHashMap<Which, (u32, u32)>,
}

impl<'a> Variables<'a> {
    fn new(kernel: &'a KernelTypes, debug: Option<&'a Debug>) -> Self {
        let (places, names, types) = (Numbered::new(), Numbered::new(), Numbered::new());
        let (table, runs, known) = (Vec::new(), Vec::new(), FxHashMap::default());
        Self { kernel, debug, table, runs, places, names, types, known }
    }

    fn count(&self) -> u32 {
        to_u32(self.table.len() / (VARIABLE * 4))
    }

    /// Adds those of a function's runs that are among `accesses`, of which the first has this number.
    fn add(&mut self, of_function: &[Run], accesses: Range<u32>, number: u32, texts: &mut Texts) {
        let here = of_function.iter().filter(|run| run.first < accesses.end && accesses.start < run.end);
        let mut here: Vec<_> = here.map(|run| (self.numbers(run.which, texts), *run)).collect();
        here.sort_unstable_by_key(|(numbers, run)| (*numbers, run.first));
        let mut last = None;
        for (numbers, run) in here {
            if last.replace(numbers) != Some(numbers) {
                push(&mut self.table, &[numbers.0, numbers.1, to_u32(self.runs.len() / (RUN * 4))]);
            }
            let place = self.places.number(run.place, || {
                let (kind, [low, high]) = match run.place {
                    Place::Register { register, add } => ([0, register], [add.cast_unsigned(), 0]),
                    Place::Memory { register, add } => ([1, register], [add.cast_unsigned(), 0]),
                    Place::Constant(value) => ([2, 0], halves(value)),
                };
                vec![u32::from(u16::from_le_bytes(kind)), low, high]
            });
            let first = run.first.max(accesses.start) - accesses.start;
            let end = run.end.min(accesses.end) - accesses.start;
            push(&mut self.runs, &[number.saturating_add(first), number.saturating_add(end), place]);
        }
    }

    fn numbers(&mut self, which: Which, texts: &mut Texts) -> (u32, u32) {
        if let Some(known) = self.known.get(&which) {
            return *known;
        }
        let (name, spelling) = match which {
            Which::Told { name, spelling } => {
                let text = |id| self.debug.map_or("", |debug| debug.name(id));
                (text(name), text(spelling))
            }
            Which::Parameter { proto, nth } => {
                let param = self.kernel.types.proto(proto).params.get(usize::from(nth));
                let spelling = self.kernel.spelling(proto, nth.into());
                (param.map_or("", |param| &*param.name), spelling.unwrap_or(""))
            }
        };
        let (name, spelling) = (texts.add(name), texts.add(spelling));
        let name = self.names.number(name, || name.to_vec());
        let type_ = self.types.number(spelling, || spelling.to_vec());
        self.known.insert(which, (name, type_));
        (name, type_)
    }
}

/// What is added to a register to get the address of the outermost structure of a path, by what is added to get
/// the address of what the path was found from: an array of such structures, it may be.
fn based(paths: &AccessPaths, path: Option<u32>, what: &Result<Option<Key>, Reason>, add: i32) -> i32 {
    let level = path.and_then(|path| paths.paths.get(to_usize(path))?.levels.first());
    let (Some(level), Ok(Some(key))) = (level, what) else { return add };
    let ahead = i64::from(key.at) - i64::from(level.start);
    i32::try_from(i64::from(add) + ahead).unwrap_or(add)
}

/// Makes the tables of what was found in all functions.
pub(crate) fn assemble(
    kernel: &KernelTypes,
    debug: Option<&Debug>,
    functions: &[Function],
    answers: Vec<Analysed>,
    inlinings: &[Inlining],
) -> Tables {
    let mut found = AccessPaths::default();
    let mut texts = Texts::default();
    let mut lines = Lines { debug, files: HashMap::new(), table: Vec::new() };
    let mut variables = Variables::new(kernel, debug);
    let (mut function_table, mut site_table) = (Vec::new(), Vec::new());
    let mut coverage = Coverage::default();
    // The numbers of the pieces that functions are entered at.
    let mut entries = Vec::with_capacity(functions.len());
    for (function, answered) in functions.iter().zip(answers) {
        coverage.instructions += answered.instructions;
        let mut sites = answered.found.into_iter().peekable();
        let mut taken = 0;
        let rows = to_u32(function_table.len() / (FUNCTION * 4));
        let begin = to_u32(site_table.len() / (SITE * 4));
        let names = std::iter::once(&function.name).chain(&function.apart);
        // In the order of addresses, in which the sites are, and each piece's are together.
        let mut pieces: Vec<_> = function.pieces.iter().zip(names).collect();
        pieces.sort_by_key(|(piece, _)| piece.start);
        let before = function.pieces.iter().filter(|piece| piece.start < function.pieces[0].start).count();
        entries.push(rows.saturating_add(to_u32(before)));
        for (piece, name) in pieces {
            let [name, name_length] = texts.add(name);
            let [module, module_length] = texts.add(function.module.as_deref().unwrap_or(""));
            let [low, high] = halves(piece.start);
            let first = to_u32(site_table.len() / (SITE * 4));
            let file = lines.unit(piece.start, function.pieces[0].start, &mut texts);
            let variable = variables.count();
            let (line_file, line) = lines.function(piece.start, &mut texts);
            push(
                &mut function_table,
                &[
                    name,
                    name_length,
                    module,
                    module_length,
                    low,
                    high,
                    first,
                    file,
                    variable,
                    line_file,
                    line,
                ],
            );
            while let Some(site) = sites.next_if(|site| piece.contains(&site.address)) {
                coverage.memory_instructions += 1;
                let (path, reason) = match site.what {
                    Ok(key) => {
                        coverage.typed += 1;
                        (key.and_then(|key| found.number(&kernel.types, key)), 0)
                    }
                    Err(reason) => {
                        let nth = Reason::ALL.iter().position(|other| *other == reason).unwrap_or(0);
                        coverage.unresolved[nth] += 1;
                        (None, to_u32(nth) + 1)
                    }
                };
                let base = site.base.map(|(register, add)| (register, based(&found, path, &site.what, add)));
                let (register, add) = base.unwrap_or_default();
                // An argument is the address of a whole array, else.
                let parameter = site.parameter.filter(|_| base == site.base);
                let bits = u32::from(site.reads)
                    | u32::from(site.writes) << 1
                    | u32::from(site.certain) << 2
                    | u32::from(site.base.is_some()) << 3
                    | u32::from(site.length.unwrap_or(0) & 0xf) << 4
                    | reason << 8
                    | u32::from(register) << 16
                    | parameter.map_or(0, |nth| u32::from(nth) + 1) << 24;
                let offset = u32::try_from(site.address - piece.start).unwrap_or(NONE);
                let (file, line) = match path {
                    Some(_) => lines.at(site.address, &mut texts),
                    None => (NONE, 0),
                };
                let path = path.unwrap_or(NONE);
                let earlier = site.earlier.map_or(NONE, |nth| begin.saturating_add(nth));
                push(&mut site_table, &[offset, path, bits, add.cast_unsigned(), file, line, earlier]);
            }
            let end = taken + to_u32(site_table.len() / (SITE * 4)) - first;
            variables.add(&answered.runs, taken..end, first, &mut texts);
            taken = end;
        }
    }
    let [encoded, path_sites, sites_by_path] = paths::assemble(&found.paths, &site_table, &mut texts);
    let parts: [&Vec<u8>; PARTS] = [
        &function_table,
        &site_table,
        &encoded,
        &lines.table,
        &variables.table,
        &variables.runs,
        &variables.places.table,
        &variables.names.table,
        &variables.types.table,
        &path_sites,
        &sites_by_path,
        &inlined::assemble(inlinings, &entries),
        &texts.bytes,
    ];
    let mut bytes = Vec::with_capacity(HEADER * 4 + parts.iter().map(|part| part.len()).sum::<usize>());
    push(&mut bytes, &[MAGIC, VERSION]);
    push(&mut bytes, &parts.map(|part| to_u32(part.len())));
    let counts = [coverage.instructions, coverage.memory_instructions, coverage.typed];
    for count in counts.iter().chain(&coverage.unresolved) {
        push(&mut bytes, &[u32::try_from(*count).unwrap_or(u32::MAX)]);
    }
    bytes.resize(HEADER * 4, 0);
    let mut at = bytes.len();
    let places = parts.map(|part| {
        let start = at;
        at += part.len();
        (start, at)
    });
    parts.into_iter().for_each(|part| bytes.extend(part));
    Tables::of(bytes.into(), places)
}

fn halves(address: u64) -> [u32; 2] {
    let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap_or(0);
    [half(address), half(address >> 32)]
}

/// Source files, each once, and the lines of addresses.
struct Lines<'d> {
    debug: Option<&'d Debug>,
    files: HashMap<Box<str>, u32>,
    /// Places in the texts.
    table: Vec<u8>,
}

impl Lines<'_> {
    fn file(&mut self, name: &str, texts: &mut Texts) -> u32 {
        if let Some(known) = self.files.get(name) {
            return *known;
        }
        let number = to_u32(self.files.len());
        self.files.insert(name.into(), number);
        push(&mut self.table, &texts.add(name));
        number
    }

    fn at(&mut self, address: u64, texts: &mut Texts) -> (u32, u32) {
        self.numbered(self.debug.and_then(|debug| debug.line(address)), texts)
    }

    /// Where the function, or part of one, is from that begins there.
    fn function(&mut self, address: u64, texts: &mut Texts) -> (u32, u32) {
        self.numbered(self.debug.and_then(|debug| debug.function_line(address)), texts)
    }

    fn numbered(&mut self, line: Option<(&str, u32)>, texts: &mut Texts) -> (u32, u32) {
        match line {
            Some((file, line)) => (self.file(file, texts), line),
            None => (NONE, 0),
        }
    }

    /// The source file of the unit that a function is in.
    fn unit(&mut self, piece: u64, entry: u64, texts: &mut Texts) -> u32 {
        let Some(debug) = self.debug else { return NONE };
        let function = debug.function(piece).or_else(|| debug.function(entry));
        match function.and_then(|function| debug.unit(function.unit)) {
            Some(unit) => self.file(unit, texts),
            None => NONE,
        }
    }
}
