//! The index as tables, in a file that is mapped: so that a question is answered without reading it all.
//!
//! All numbers are 32 bits, little end first. A header of [`HEADER`] words (magic, version, the lengths of
//! the parts in bytes, the coverage), then the parts:
//!
//! - functions, [`FUNCTION`] words each: name, module (both: offset and length in the texts), address
//!   (two words), the number of the first site, the number of the file; sorted by nothing, parts of a
//!   function are functions of their own; the number of the first variable; file and line of its beginning;
//! - sites, [`SITE`] words each: offset in the function; the access path, or [`NONE`]; what else is known (bits);
//!   the base register's constant; file and line; the number of the site that always comes before it with the
//!   same target, or [`NONE`];
//! - access paths, each a number of levels, and for each of these its name (offset and length in the texts), start,
//!   end, whether it is an overlay, the number of its members' paths, and their places in the texts;
//! - files: offset and length in the texts;
//! - variables, [`VARIABLE`] words each: the numbers of name and type, the number of the first run; those of a
//!   function sorted by name and type;
//! - runs, [`RUN`] words each: the first site and the one behind the last at which a variable is in one place,
//!   and the number of that; those of one variable in order;
//! - places, [`PLACE`] words each: kind (a byte) and register (a byte); a constant (two words);
//! - names and types of variables: offset and length in the texts;
//! - where access paths are, [`PATH`] words each: the first of its words, the first of its sites; those sites, by path;
//! - inlined calls, [`INLINING`] words each: the function that is called, how many calls, into how many functions, and
//!   [`NAMED`] of these or [`NONE`]; sorted by the first;
//! - texts.
//!
//! Everything is looked at where it lies. Nothing in the file is believed: it may be damaged.

mod assemble;
mod inlined;
mod paths;
mod texts;

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use memmap2::Mmap;
use rustc_hash::FxHashMap;
use xweave_bytes::read_le;
use xweave_code::Register;
use xweave_guard::private::{self, Dir};

use crate::Error;
use crate::access_path::AccessPath;
use crate::cfg::{to_u32, to_usize};
use crate::classify::Reason;
use crate::inlining::NAMED;
use crate::site::{Coverage, Place, Site};

pub(crate) use assemble::assemble;
pub(crate) use paths::LevelRow;

const MAGIC: u32 = u32::from_le_bytes(*b"xwai");
/// To be raised with every change of the layout or of what the analysis finds.
pub(crate) const VERSION: u32 = 6;
/// Words of the header.
const HEADER: usize = 32;
const FUNCTION: usize = 11;
const SITE: usize = 7;
const VARIABLE: usize = 3;
const RUN: usize = 3;
const PLACE: usize = 3;
const PATH: usize = 2;
const INLINING: usize = 3 + NAMED;
/// The numbers of the parts.
const FUNCTIONS: usize = 0;
const SITES: usize = 1;
const PATHS: usize = 2;
const FILES: usize = 3;
const VARIABLES: usize = 4;
const RUNS: usize = 5;
const PLACES: usize = 6;
const NAMES: usize = 7;
const TYPES: usize = 8;
const PATH_SITES: usize = 9;
const SITES_BY_PATH: usize = 10;
const INLINED: usize = 11;
const TEXTS: usize = 12;
const PARTS: usize = 13;
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
    /// Where the parts begin and end.
    parts: [(usize, usize); PARTS],
    /// The access paths that were asked for.
    read_paths: Vec<OnceLock<AccessPath>>,
    /// The numbers of variables' names, once they were asked for.
    names: OnceLock<FxHashMap<Box<str>, u32>>,
    /// The functions in the order of their names, once one was asked for by its name.
    by_name: OnceLock<Vec<u32>>,
}

/// A site as it is in the table.
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) offset: u32,
    pub(crate) path: Option<u32>,
    pub(crate) reason: Option<Reason>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    certain: bool,
    pub(crate) base: Option<(u8, i32)>,
    file: u32,
    line: u32,
    parameter: Option<u8>,
    length: Option<u8>,
}

/// A variable in one place.
pub(crate) struct Located<'t> {
    /// The number of the first site.
    pub(crate) first: u32,
    /// Behind the last.
    pub(crate) end: u32,
    pub(crate) type_: &'t str,
    pub(crate) place: Place,
}

impl Tables {
    pub(crate) fn open(folder: &Dir, name: &str) -> Result<Self, Error> {
        Self::map(&folder.path_of(name), &folder.open_file(name)?)
    }

    pub(crate) fn map(path: &Path, file: &File) -> Result<Self, Error> {
        // SAFETY: nobody but the user and root can write to the file, which is replaced as a whole and never
        // written to in place; were it cut short all the same, the process would end by a signal and harm nothing.
        let map = unsafe { Mmap::map(file) };
        let map = map.map_err(|error| private::Error::Io { what: "read", path: path.to_owned(), error })?;
        Self::new(&path.display().to_string(), Bytes::Mapped(map))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
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
        let mut parts = [(0, 0); PARTS];
        let mut at = HEADER * 4;
        for (nth, part) in parts.iter_mut().enumerate() {
            let length =
                word(&bytes, 2 + nth).map(to_usize).ok_or_else(|| damaged("its header is cut off"))?;
            let end = at.checked_add(length).filter(|end| *end <= bytes.len());
            *part = (at, end.ok_or_else(|| damaged("it is cut off"))?);
            at = part.1;
        }
        let texts = bytes.get(parts[TEXTS].0..parts[TEXTS].1).unwrap_or_default();
        if std::str::from_utf8(texts).is_err() {
            return Err(damaged("its names are no text"));
        }
        let tables = Self::of(bytes, parts);
        if !tables.paths_in_order() {
            return Err(damaged("its structures cannot be read"));
        }
        Ok(tables)
    }

    fn of(bytes: Bytes, parts: [(usize, usize); PARTS]) -> Self {
        let read_paths = Vec::new();
        let mut tables = Self { bytes, parts, read_paths, names: OnceLock::new(), by_name: OnceLock::new() };
        tables.read_paths.resize_with(to_usize(tables.paths()), OnceLock::new);
        tables
    }

    pub(crate) fn write(&self, folder: &Dir, name: &str) -> Result<(), Error> {
        Ok(folder.replace(name, &self.bytes)?)
    }

    fn part(&self, nth: usize) -> &[u8] {
        let (start, end) = self.parts[nth];
        self.bytes.get(start..end).unwrap_or_default()
    }

    fn text(&self, offset: Option<u32>, length: Option<u32>) -> &str {
        let (Some(offset), Some(length)) = (offset, length) else { return "" };
        let offset = to_usize(offset);
        let text = self.part(TEXTS).get(offset..offset.saturating_add(to_usize(length)));
        text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("")
    }

    pub(crate) fn functions(&self) -> u32 {
        to_u32(self.part(FUNCTIONS).len() / (FUNCTION * 4))
    }

    fn function(&self, number: u32, field: usize) -> Option<u32> {
        word(self.part(FUNCTIONS), to_usize(number).checked_mul(FUNCTION)? + field)
    }

    pub(crate) fn name(&self, function: u32) -> &str {
        self.text(self.function(function, 0), self.function(function, 1))
    }

    pub(crate) fn module(&self, function: u32) -> Option<&str> {
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

    /// The source file and line that the function begins at.
    pub(crate) fn line(&self, function: u32) -> Option<(&str, u32)> {
        let file = self.file_name(self.function(function, 9)?)?;
        Some((file, self.function(function, 10)?))
    }

    /// The functions with this name.
    pub(crate) fn functions_named(&self, name: &str) -> impl Iterator<Item = u32> {
        let by_name = self.by_name.get_or_init(|| {
            let mut functions: Vec<u32> = (0..self.functions()).collect();
            functions.sort_by_key(|function| self.name(*function));
            functions
        });
        let first = by_name.partition_point(|function| self.name(*function) < name);
        by_name[first..].iter().copied().take_while(move |function| self.name(*function) == name)
    }

    fn file_name(&self, file: u32) -> Option<&str> {
        self.text_of(FILES, file)
    }

    /// The text that a part's row of two words says.
    fn text_of(&self, part: usize, row: u32) -> Option<&str> {
        let at = to_usize(row).checked_mul(2)?;
        let (offset, length) = (word(self.part(part), at)?, word(self.part(part), at + 1)?);
        Some(self.text(Some(offset), Some(length)))
    }

    /// The names that variables have.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let count = to_u32(self.part(NAMES).len() / 8);
        (0..count).filter_map(|number| self.text_of(NAMES, number))
    }

    pub(crate) fn name_of(&self, number: u32) -> Option<&str> {
        self.text_of(NAMES, number)
    }

    /// The number of a name of variables.
    pub(crate) fn name_number(&self, name: &str) -> Option<u32> {
        let names = self.names.get_or_init(|| self.names().map(Box::from).zip(0..).collect());
        names.get(name).copied()
    }

    fn variable(&self, number: u32, field: usize) -> Option<u32> {
        word(self.part(VARIABLES), to_usize(number).checked_mul(VARIABLE)? + field)
    }

    /// The function's variables with a name of this number.
    fn named(&self, function: u32, name: u32) -> Range<u32> {
        let all = to_u32(self.part(VARIABLES).len() / (VARIABLE * 4));
        let of_function = of_row(function, all, |function| self.function(function, 8));
        let is_before = |variable, name| self.variable(variable, 0).is_some_and(|number| number < name);
        let first = |name| first_row(of_function.clone(), |variable| is_before(variable, name));
        first(name)..name.checked_add(1).map_or(of_function.end, first)
    }

    /// Whether a function has a variable with a name of this number.
    pub(crate) fn has_variable(&self, function: u32, name: u32) -> bool {
        !self.named(function, name).is_empty()
    }

    /// Where the function's variables with a name of this number are, in the order of sites.
    pub(crate) fn located(&self, function: u32, name: u32) -> Vec<Located<'_>> {
        let runs = self.part(RUNS);
        let all = to_u32(runs.len() / (RUN * 4));
        let mut located = Vec::new();
        for variable in self.named(function, name) {
            let type_ = self.variable(variable, 1).and_then(|type_| self.text_of(TYPES, type_)).unwrap_or("");
            let runs_of_variable = of_row(variable, all, |variable| self.variable(variable, 2));
            located.extend(runs_of_variable.filter_map(|run| {
                let at = to_usize(run).checked_mul(RUN)?;
                let (first, end) = (word(runs, at)?, word(runs, at + 1)?);
                Some(Located { first, end, type_, place: self.place(word(runs, at + 2)?)? })
            }));
        }
        located.sort_by_key(|located| located.first);
        located
    }

    fn place(&self, number: u32) -> Option<Place> {
        let at = to_usize(number).checked_mul(PLACE)?;
        let field = |nth| word(self.part(PLACES), at + nth);
        let ([kind, register, ..], low) = (field(0)?.to_le_bytes(), field(1)?);
        let register = || Register::numbered(register);
        let add = low.cast_signed();
        match kind {
            0 => Some(Place::Register { register: register()?, add }),
            1 => Some(Place::Memory { register: register()?, add }),
            2 => Some(Place::Constant(u64::from(low) | u64::from(field(2)?) << 32)),
            _ => None,
        }
    }

    /// The numbers of a function's sites.
    pub(crate) fn sites_of(&self, function: u32) -> Range<u32> {
        let all = to_u32(self.part(SITES).len() / (SITE * 4));
        of_row(function, all, |function| self.function(function, 6))
    }

    /// The function that a site is of.
    pub(crate) fn function_of(&self, site: u32) -> Option<u32> {
        let begins = |function| self.function(function, 6).is_some_and(|first| first <= site);
        let next = first_row(0..self.functions(), begins);
        next.checked_sub(1).filter(|function| self.sites_of(*function).contains(&site))
    }

    pub(crate) fn row(&self, number: u32) -> Option<Row> {
        let at = to_usize(number).checked_mul(SITE)?;
        let field = |nth| word(self.part(SITES), at + nth);
        let (path, bits) = (field(1)?, field(2)?);
        let register = u8::try_from(bits >> 16 & 0xff).ok()?;
        Some(Row {
            number,
            offset: field(0)?,
            path: (path < self.paths()).then_some(path),
            reason: Reason::ALL.get(to_usize(bits >> 8 & 0xff).wrapping_sub(1)).copied(),
            reads: bits & 1 != 0,
            writes: bits & 2 != 0,
            certain: bits & 4 != 0,
            base: (bits & 8 != 0).then_some((register, field(3)?.cast_signed())),
            file: field(4)?,
            line: field(5)?,
            parameter: u8::try_from(bits >> 24 & 0xf).ok()?.checked_sub(1),
            length: u8::try_from(bits >> 4 & 0xf).ok().filter(|length| *length != 0),
        })
    }

    /// A row, in words.
    pub(crate) fn site<'t>(&'t self, function: u32, row: &Row) -> Option<Site<'t>> {
        let base = row.base.and_then(|(register, add)| Some((Register::numbered(register)?, add)));
        Some(Site {
            function: self.name(function),
            function_number: function,
            number: row.number,
            module: self.module(function),
            offset: row.offset,
            address: self.address(function).wrapping_add(row.offset.into()),
            path: self.path(row.path?)?,
            reads: row.reads,
            writes: row.writes,
            certain: row.certain,
            base,
            parameter: row.parameter,
            length: row.length,
            line: self.file_name(row.file).map(|file| (file, row.line)),
            touched: None,
            bindings: Vec::new(),
            unreadable: Vec::new(),
        })
    }

    /// The site that always comes before another with the same target.
    pub(crate) fn earlier(&self, site: u32) -> Option<u32> {
        let earlier = word(self.part(SITES), to_usize(site).checked_mul(SITE)? + 6)?;
        Some(earlier).filter(|earlier| *earlier != NONE)
    }

    pub(crate) fn has_lines(&self) -> bool {
        !self.part(FILES).is_empty()
    }

    pub(crate) fn coverage(&self) -> Coverage {
        let number = |nth| u64::from(word(&self.bytes, 2 + PARTS + nth).unwrap_or(0));
        let mut unresolved = [0; Reason::ALL.len()];
        for (nth, count) in unresolved.iter_mut().enumerate() {
            *count = number(3 + nth);
        }
        Coverage { instructions: number(0), memory_instructions: number(1), typed: number(2), unresolved }
    }
}

/// The first of these rows that is not before what is looked for; those that are before it come first.
fn first_row(rows: Range<u32>, is_before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Those of all rows of another table that belong to a row which says only where the first of them is: until the next row's.
fn of_row(row: u32, all: u32, first: impl Fn(u32) -> Option<u32>) -> Range<u32> {
    let begin = first(row).unwrap_or(all);
    begin..first(row.saturating_add(1)).unwrap_or(all).min(all)
}

fn word(bytes: &[u8], nth: usize) -> Option<u32> {
    read_le(bytes, nth.checked_mul(4)?)
}

const _: () = assert!(HEADER >= 2 + PARTS + 3 + Reason::ALL.len());
