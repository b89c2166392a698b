//! The index as tables, in a file that is mapped: so that a question is answered without reading it all.
//!
//! All numbers are 32 bits, little end first. A header of [`HEADER`] words (magic, version, the lengths of
//! the parts in bytes, the coverage), then the parts:
//!
//! - functions, [`FUNCTION`] words each: name, module (both: offset and length in the texts), address
//!   (two words), the number of the first site, the number of the file; sorted by nothing, parts of a
//!   function are functions of their own;
//! - sites, [`SITE`] words each: offset in the function; the way, or [`NONE`]; what else is known (bits);
//!   the base register's constant; file and line;
//! - ways: bytes, see [`encode`]; files: offset and length in the texts; texts.
//!
//! Ways are read when the file is opened, since every question goes over them; the rest is looked at where
//! it lies. Nothing in the file is believed: it may be damaged.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use memmap2::Mmap;
use xweave_code::dwarf::Debug;
use xweave_code::types::KernelTypes;

use crate::Error;
use crate::answer::Reason;
use crate::graph::{to_u32, to_usize};
use crate::index::{Coverage, Found, Site};
use crate::value::REGISTERS;
use crate::way::{Level, Way, Ways};
use crate::world::Function;

const MAGIC: u32 = u32::from_le_bytes(*b"xwai");
/// To be raised with every change of the layout or of what the analysis finds.
pub(crate) const VERSION: u32 = 2;
/// Words of the header.
const HEADER: usize = 24;
const FUNCTION: usize = 8;
const SITE: usize = 6;
const NONE: u32 = u32::MAX;

/// Where the tables lie.
pub(crate) enum Bytes {
    Owned(Vec<u8>),
    Mapped(Mmap),
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

/// The tables of an index.
pub(crate) struct Tables {
    bytes: Bytes,
    /// Where the parts begin and end: functions, sites, ways, files, texts.
    parts: [(usize, usize); 5],
    ways: Vec<Way>,
}

/// A site as it is in the table.
pub(crate) struct Row {
    pub(crate) offset: u32,
    pub(crate) way: Option<u32>,
    pub(crate) reason: Option<Reason>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    certain: bool,
    base: Option<(u8, i32)>,
    file: u32,
    line: u32,
}

impl Tables {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |reason| Error::Read { path: path.to_owned(), reason };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: the file is replaced as a whole and never written to in place; were it cut short by
        // somebody else all the same, the process would end by a signal and harm nothing.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Self::new(&path.display().to_string(), Bytes::Mapped(map))
    }

    pub(crate) fn new(what: &str, bytes: impl Into<Bytes>) -> Result<Self, Error> {
        let bytes = bytes.into();
        let damaged = |reason: &str| Error::Damaged { what: what.to_owned(), reason: reason.to_owned() };
        if word(&bytes, 0) != Some(MAGIC) {
            return Err(damaged("it does not begin as one"));
        }
        if word(&bytes, 1) != Some(VERSION) {
            return Err(damaged("it was written by another version of xweave"));
        }
        let mut parts = [(0, 0); 5];
        let mut at = HEADER * 4;
        for (nth, part) in parts.iter_mut().enumerate() {
            let length =
                word(&bytes, 2 + nth).map(to_usize).ok_or_else(|| damaged("its header is cut off"))?;
            let end = at.checked_add(length).filter(|end| *end <= bytes.len());
            *part = (at, end.ok_or_else(|| damaged("it is cut off"))?);
            at = part.1;
        }
        let texts = bytes.get(parts[4].0..parts[4].1).unwrap_or_default();
        if std::str::from_utf8(texts).is_err() {
            return Err(damaged("its names are no text"));
        }
        let ways = decode(bytes.get(parts[2].0..parts[2].1).unwrap_or_default(), texts);
        let ways = ways.ok_or_else(|| damaged("its structures cannot be read"))?;
        Ok(Self { bytes, parts, ways })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let failed = |reason| Error::Write { path: path.to_owned(), reason };
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unfinished = folder.join(format!(".{name}.{}", std::process::id()));
        let written = File::create(&unfinished)
            .and_then(|mut file| file.write_all(&self.bytes))
            .and_then(|()| fs::rename(&unfinished, path));
        written.map_err(|reason| {
            // What cannot be removed either is only a file too many.
            let _ = fs::remove_file(&unfinished);
            failed(reason)
        })
    }

    fn part(&self, nth: usize) -> &[u8] {
        let (start, end) = self.parts[nth];
        self.bytes.get(start..end).unwrap_or_default()
    }

    fn text(&self, offset: Option<u32>, length: Option<u32>) -> &str {
        let (Some(offset), Some(length)) = (offset, length) else { return "" };
        let offset = to_usize(offset);
        let text = self.part(4).get(offset..offset.saturating_add(to_usize(length)));
        text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("")
    }

    pub(crate) fn ways(&self) -> &[Way] {
        &self.ways
    }

    pub(crate) fn functions(&self) -> u32 {
        to_u32(self.part(0).len() / (FUNCTION * 4))
    }

    fn function(&self, number: u32, field: usize) -> Option<u32> {
        word(self.part(0), to_usize(number).checked_mul(FUNCTION)? + field)
    }

    pub(crate) fn name(&self, function: u32) -> &str {
        self.text(self.function(function, 0), self.function(function, 1))
    }

    fn module(&self, function: u32) -> Option<&str> {
        let module = self.text(self.function(function, 2), self.function(function, 3));
        (!module.is_empty()).then_some(module)
    }

    pub(crate) fn address(&self, function: u32) -> u64 {
        let half = |field| u64::from(self.function(function, field).unwrap_or(0));
        half(4) | half(5) << 32
    }

    /// The file that the function is from.
    pub(crate) fn file(&self, function: u32) -> Option<&str> {
        self.function(function, 7).and_then(|file| self.file_name(file))
    }

    fn file_name(&self, file: u32) -> Option<&str> {
        let at = to_usize(file).checked_mul(2)?;
        let (offset, length) = (word(self.part(3), at)?, word(self.part(3), at + 1)?);
        Some(self.text(Some(offset), Some(length)))
    }

    /// The rows of a function.
    pub(crate) fn sites_of(&self, function: u32) -> impl Iterator<Item = Row> {
        let first = self.function(function, 6).unwrap_or(0);
        let all = to_u32(self.part(1).len() / (SITE * 4));
        let end = self.function(function.saturating_add(1), 6).unwrap_or(all).min(all);
        (first..end).filter_map(|number| self.row(number))
    }

    fn row(&self, number: u32) -> Option<Row> {
        let at = to_usize(number).checked_mul(SITE)?;
        let field = |nth| word(self.part(1), at + nth);
        let (way, bits) = (field(1)?, field(2)?);
        let register = u8::try_from(bits >> 16 & 0xff).ok()?;
        Some(Row {
            offset: field(0)?,
            way: (to_usize(way) < self.ways.len()).then_some(way),
            reason: Reason::ALL.get(to_usize(bits >> 8 & 0xff).wrapping_sub(1)).copied(),
            reads: bits & 1 != 0,
            writes: bits & 2 != 0,
            certain: bits & 4 != 0,
            base: (bits & 8 != 0).then_some((register, field(3)?.cast_signed())),
            file: field(4)?,
            line: field(5)?,
        })
    }

    /// A row, in words.
    pub(crate) fn site<'t>(&'t self, function: u32, row: &Row) -> Option<Site<'t>> {
        let base = row.base.and_then(|(register, add)| Some((*REGISTERS.get(usize::from(register))?, add)));
        Some(Site {
            function: self.name(function),
            module: self.module(function),
            offset: row.offset,
            address: self.address(function).wrapping_add(row.offset.into()),
            way: self.ways.get(to_usize(row.way?))?,
            reads: row.reads,
            writes: row.writes,
            certain: row.certain,
            base,
            line: self.file_name(row.file).map(|file| (file, row.line)),
        })
    }

    pub(crate) fn has_lines(&self) -> bool {
        !self.part(3).is_empty()
    }

    pub(crate) fn coverage(&self) -> Coverage {
        let number = |nth| u64::from(word(&self.bytes, 7 + nth).unwrap_or(0));
        let mut unresolved = [0; Reason::ALL.len()];
        for (nth, count) in unresolved.iter_mut().enumerate() {
            *count = number(3 + nth);
        }
        Coverage { instructions: number(0), memory_instructions: number(1), typed: number(2), unresolved }
    }
}

fn word(bytes: &[u8], nth: usize) -> Option<u32> {
    let at = nth.checked_mul(4)?;
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Texts, each once.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    known: HashMap<Box<str>, [u32; 2]>,
}

impl Texts {
    fn add(&mut self, text: &str) -> [u32; 2] {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let place = [to_u32(self.bytes.len()), to_u32(text.len())];
        self.bytes.extend(text.as_bytes());
        self.known.insert(text.into(), place);
        place
    }
}

fn push(bytes: &mut Vec<u8>, words: &[u32]) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Ways: for each the number of its levels, and for each of these its name's place, start, end, whether it
/// is an overlay, the number of its members' paths, and their places.
fn encode(ways: &[Way], texts: &mut Texts) -> Vec<u8> {
    let mut bytes = Vec::new();
    for way in ways {
        push(&mut bytes, &[to_u32(way.levels.len())]);
        for level in &way.levels {
            let [offset, length] = texts.add(&level.type_);
            let overlay = u32::from(level.overlay);
            push(&mut bytes, &[offset, length, level.start, level.end, overlay, to_u32(level.members.len())]);
            for member in &level.members {
                push(&mut bytes, &texts.add(member));
            }
        }
    }
    bytes
}

fn decode(bytes: &[u8], texts: &[u8]) -> Option<Vec<Way>> {
    let mut words = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
    let text = |offset: u32, length: u32| {
        let start = to_usize(offset);
        let text = texts.get(start..start.checked_add(to_usize(length))?)?;
        std::str::from_utf8(text).ok().map(Box::<str>::from)
    };
    let mut ways = Vec::new();
    while let Some(levels) = words.next() {
        // Not reserved: the number may be a lie.
        let mut way = Way { levels: Vec::new() };
        for _ in 0..levels {
            let type_ = text(words.next()?, words.next()?)?;
            let (start, end, overlay) = (words.next()?, words.next()?, words.next()? != 0);
            let mut members = Vec::new();
            for _ in 0..words.next()? {
                members.push(text(words.next()?, words.next()?)?);
            }
            way.levels.push(Level { type_, start, end, overlay, members });
        }
        ways.push(way);
    }
    Some(ways)
}

/// Makes the tables of what was found in all functions.
pub(crate) fn assemble(
    kernel: &KernelTypes,
    debug: Option<&Debug>,
    functions: &[Function],
    found: Vec<(u64, Vec<Found>)>,
    ways: &mut Ways,
) -> Tables {
    let mut texts = Texts::default();
    let mut lines = Lines { debug, files: HashMap::new(), table: Vec::new() };
    let (mut function_table, mut site_table) = (Vec::new(), Vec::new());
    let mut coverage = Coverage::default();
    for (function, (instructions, sites)) in functions.iter().zip(found) {
        coverage.instructions += instructions;
        let mut sites = sites.into_iter().peekable();
        let names = std::iter::once(&function.name).chain(&function.apart);
        // In the order of addresses, in which the sites are, and each piece's are together.
        let mut pieces: Vec<_> = function.pieces.iter().zip(names).collect();
        pieces.sort_by_key(|(piece, _)| piece.start);
        for (piece, name) in pieces {
            let [name, name_length] = texts.add(name);
            let [module, module_length] = texts.add(function.module.as_deref().unwrap_or(""));
            let [low, high] = halves(piece.start);
            let first = to_u32(site_table.len() / (SITE * 4));
            let file = lines.unit(piece.start, function.pieces[0].start, &mut texts);
            push(&mut function_table, &[name, name_length, module, module_length, low, high, first, file]);
            while let Some(site) = sites.next_if(|site| piece.contains(&site.address)) {
                coverage.memory_instructions += 1;
                let (way, reason) = match site.what {
                    Ok(key) => {
                        coverage.typed += 1;
                        (key.and_then(|key| ways.number(&kernel.types, key)), 0)
                    }
                    Err(reason) => {
                        let nth = Reason::ALL.iter().position(|other| *other == reason).unwrap_or(0);
                        coverage.unresolved[nth] += 1;
                        (None, to_u32(nth) + 1)
                    }
                };
                let (register, add) = site.base.unwrap_or_default();
                let bits = u32::from(site.reads)
                    | u32::from(site.writes) << 1
                    | u32::from(site.certain) << 2
                    | u32::from(site.base.is_some()) << 3
                    | reason << 8
                    | u32::from(register) << 16;
                let offset = u32::try_from(site.address - piece.start).unwrap_or(NONE);
                let (file, line) = match way {
                    Some(_) => lines.at(site.address, &mut texts),
                    None => (NONE, 0),
                };
                let way = way.unwrap_or(NONE);
                push(&mut site_table, &[offset, way, bits, add.cast_unsigned(), file, line]);
            }
        }
    }
    let encoded = encode(&ways.ways, &mut texts);
    let parts = [&function_table, &site_table, &encoded, &lines.table, &texts.bytes];
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
    Tables { bytes: bytes.into(), parts: places, ways: std::mem::take(&mut ways.ways) }
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
        match self.debug.and_then(|debug| debug.line(address)) {
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

const _: () = assert!(HEADER >= 7 + 3 + Reason::ALL.len());
