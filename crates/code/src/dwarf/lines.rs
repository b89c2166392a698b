//! Which source lines code is from. Line programs are long and seldom needed, so each is run when first asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use gimli::{AttributeValue, DebugLine, DebugLineOffset, LittleEndian};
use rayon::prelude::*;

use super::units::Bytes;

/// The line programs of a file.
#[derive(Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    line_str: Vec<u8>,
    strings: Vec<u8>,
    /// By their offsets.
    programs: BTreeMap<usize, Program>,
    /// Code by its first address: behind its last, and the offset of its program.
    code: Vec<(u64, u64, usize)>,
}

#[derive(Default)]
struct Program {
    /// That the compiler ran in.
    folder: Box<str>,
    rows: OnceLock<Rows>,
}

/// What a line program says.
#[derive(Default)]
struct Rows {
    /// By address.
    rows: Vec<Row>,
    files: Vec<Box<str>>,
}

/// Code from here to the next row.
#[derive(Clone, Copy)]
struct Row {
    from: u64,
    /// The number of its file, or [`NONE`].
    file: u32,
    line: u32,
}

/// The file of what is no code.
const NONE: u32 = u32::MAX;
/// No source has more rows; one that means harm could have one for each byte.
const ROWS: usize = 1 << 22;

impl Lines {
    /// The code of a unit, whose program is there.
    pub(super) fn add(&mut self, program: Option<usize>, folder: &str, code: &[(u64, u64)]) {
        if let Some(program) = program {
            self.programs
                .entry(program)
                .or_insert_with(|| Program { folder: folder.into(), rows: OnceLock::new() });
            self.code.extend(code.iter().map(|(from, to)| (*from, *to, program)));
        }
    }

    pub(super) fn sort(&mut self) {
        self.code.sort_unstable();
    }

    pub(super) fn sections(&mut self, line: Vec<u8>, line_str: Vec<u8>, strings: Vec<u8>) {
        (self.line, self.line_str, self.strings) = (line, line_str, strings);
    }

    /// The line of the instruction there: of several rows for one address the last, as debuggers take it.
    pub(super) fn line(&self, address: u64) -> Option<(&str, u32)> {
        self.row(address, |rows| rows.partition_point(|row| row.from <= address).checked_sub(1))
    }

    /// The line of a function that begins there: the first row for the address, where the compiler put the function
    /// itself, and not what its first instruction may be of besides.
    pub(super) fn function_line(&self, address: u64) -> Option<(&str, u32)> {
        let first = |rows: &[Row]| {
            let first = rows.partition_point(|row| row.from < address);
            rows.get(first).is_some_and(|row| row.from == address).then_some(first)
        };
        self.row(address, first).or_else(|| self.line(address))
    }

    /// File and line of one of the rows of the program that an address is of.
    fn row(&self, address: u64, nth: impl Fn(&[Row]) -> Option<usize>) -> Option<(&str, u32)> {
        let unit = self.code.partition_point(|(from, ..)| *from <= address).checked_sub(1)?;
        let (_, _, at) = self.code.get(unit).filter(|(_, to, _)| address < *to)?;
        let program = self.programs.get(at)?;
        let rows = program.rows.get_or_init(|| self.run(*at, &program.folder));
        let row = rows.rows.get(nth(&rows.rows)?).filter(|row| row.line > 0)?;
        Some((rows.files.get(usize::try_from(row.file).ok()?)?, row.line))
    }

    pub(super) fn within(&self, wanted: &(impl Fn(&str) -> bool + Sync)) -> Vec<(u64, u64)> {
        let programs: Vec<_> = self.programs.iter().collect();
        let ranges = programs.par_iter().flat_map_iter(|(at, program)| {
            // Kept only if they were asked for before: those of all units take much memory.
            let own = program.rows.get().is_none().then(|| self.run(**at, &program.folder));
            let rows = own.as_ref().or_else(|| program.rows.get());
            let ranges = rows.map(|rows| rows.within(wanted));
            ranges.unwrap_or_default()
        });
        let mut ranges: Vec<_> = ranges.collect();
        ranges.par_sort_unstable();
        ranges.dedup_by(|next, before| {
            let joins = next.0 <= before.1;
            if joins {
                before.1 = before.1.max(next.1);
            }
            joins
        });
        ranges
    }

    /// Runs the program there, as far as it can be read.
    fn run(&self, at: usize, folder: &str) -> Rows {
        let mut rows = Rows::default();
        // It ends where the next begins, so that programs that mean harm cannot overlap.
        let next = self.programs.range(at.saturating_add(1)..).next();
        let end = next.map_or(self.line.len(), |(next, _)| *next).min(self.line.len());
        let section = DebugLine::new(&self.line[..end], LittleEndian);
        let Ok(program) = section.program(DebugLineOffset(at), 8, None, None) else { return rows };
        let header = program.header().clone();
        let mut program = program.rows();
        // Numbers of files in the program, and in the result.
        let mut files: HashMap<u64, u32> = HashMap::new();
        while let Ok(Some((_, row))) = program.next_row() {
            if rows.rows.len() == ROWS {
                break;
            }
            let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0));
            let file = match row.end_sequence() {
                true => NONE,
                false => *files.entry(row.file_index()).or_insert_with(|| {
                    rows.files.push(self.path(&header, folder, row.file_index()).into());
                    u32::try_from(rows.files.len() - 1).unwrap_or(NONE)
                }),
            };
            rows.rows.push(Row { from: row.address(), file, line: if file == NONE { 0 } else { line } });
        }
        // Where one sequence ends, another may begin.
        rows.rows.sort_by_key(|row| (row.from, row.file != NONE));
        rows.rows.dedup_by_key(|row| (row.file, row.line));
        rows.rows.shrink_to_fit();
        rows
    }

    fn text(&self, value: AttributeValue<Bytes<'_>>) -> String {
        let bytes = match value {
            AttributeValue::String(text) => text.slice(),
            AttributeValue::DebugLineStrRef(offset) => self.line_str.get(offset.0..).unwrap_or_default(),
            AttributeValue::DebugStrRef(offset) => self.strings.get(offset.0..).unwrap_or_default(),
            _ => &[],
        };
        // Longer than any path.
        let bytes = bytes.get(..4096).unwrap_or(bytes);
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// A file's path, from the folder that the compiler ran in if inside it.
    fn path(&self, header: &gimli::LineProgramHeader<Bytes<'_>>, ran_in: &str, file: u64) -> String {
        let Some(file) = header.file(file) else { return String::new() };
        let name = self.text(file.path_name());
        let own = match file.directory_index() {
            0 => None,
            number => header.directory(number).map(|folder| self.text(folder)),
        };
        let path = match own {
            Some(own) if !name.starts_with('/') => format!("{own}/{name}"),
            _ => name,
        };
        let inside = path.strip_prefix(ran_in).filter(|_| !ran_in.is_empty());
        let inside = inside.and_then(|path| path.strip_prefix('/'));
        simplify(inside.unwrap_or(&path))
    }
}

/// The path without `.`, and without `..` after a folder.
fn simplify(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("." | "", Some(_)) | (".", None) => {}
            ("..", Some(last)) if !matches!(*last, ".." | "") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

impl Rows {
    fn within(&self, wanted: &impl Fn(&str) -> bool) -> Vec<(u64, u64)> {
        let wanted: Vec<_> = self.files.iter().map(|file| wanted(file)).collect();
        let is_wanted = |file| usize::try_from(file).ok().and_then(|file| wanted.get(file)) == Some(&true);
        let pairs = self.rows.windows(2).filter(|pair| is_wanted(pair[0].file));
        pairs.map(|pair| (pair[0].from, pair[1].from)).filter(|(from, to)| from < to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (path, simple) in [
            ("net/core/dev.c", "net/core/dev.c"),
            ("./include/linux/skbuff.h", "include/linux/skbuff.h"),
            ("a/./b//c", "a/b/c"),
            ("a/../b", "b"),
            ("../../a/../b", "../../b"),
            ("/usr/../lib/x", "/lib/x"),
            ("/../x", "/../x"),
            ("", ""),
        ] {
            assert_eq!(simplify(path), simple, "{path}");
        }
    }
}
