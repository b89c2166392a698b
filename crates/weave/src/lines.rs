//! Lines of aspects in compiled objects: which one an instruction is of.
//!
//! The compiler tells of each instruction its line (`.BTF.ext`), but not reliably its file: code of aspects stands
//! within functions that are generated. So the numbers of their lines say which aspect they are of.

use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, read::elf::ElfFile64};
use xweave_aspect::Span;

/// More lines than an aspect has. BTF has 22 bits for a line's number.
const LINES: u32 = 1 << 18;

/// As many aspects have lines of their own.
const FILES: u32 = 15;

/// A place in an aspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The source's index.
    pub file: usize,
    pub line: u32,
    pub column: u32,
}

/// The number that the compiler is told for a line of an aspect.
pub(crate) fn number(span: Span) -> u32 {
    match u32::try_from(span.file) {
        Ok(file) if file + 1 < FILES && span.line < LINES => (file + 1) * LINES + span.line,
        _ => span.line,
    }
}

/// The line in its file, of a number that the compiler gives.
pub(crate) fn line(number: u32) -> u32 {
    if number < LINES * FILES { number % LINES } else { number }
}

/// Which line of an aspect an instruction of a program is of; or else the last one before it.
pub(crate) fn of(object: &[u8], program: &str, instruction: usize) -> Option<Place> {
    let elf = ElfFile64::<Endianness>::parse(object).ok()?;
    let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(program))?;
    let section = elf.section_by_index(symbol.section_index()?).ok()?;
    let begin = symbol.address();
    let at = begin.checked_add(u64::try_from(instruction).ok()?.checked_mul(8)?)?;
    if at >= begin.checked_add(symbol.size())? {
        return None;
    }
    let (types, lines) =
        (elf.section_by_name(".BTF")?.data().ok()?, elf.section_by_name(".BTF.ext")?.data().ok()?);
    let mut found = None;
    each(types, lines, section.name().ok()?, &mut |offset, number, column| {
        let offset = u64::from(offset);
        let of_aspect = (LINES..LINES * FILES).contains(&number);
        if of_aspect && (begin..=at).contains(&offset) && found.is_none_or(|(before, _)| before <= offset) {
            let file = usize::try_from(number / LINES - 1).unwrap_or(0);
            found = Some((offset, Place { file, line: number % LINES, column: column.max(1) }));
        }
    })?;
    found.map(|(_, place)| place)
}

/// Goes through the lines of a section: the offset of the instruction, the line's number, and the column.
fn each(types: &[u8], lines: &[u8], section: &str, take: &mut dyn FnMut(u32, u32, u32)) -> Option<()> {
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let offset = |bytes: &[u8], at: usize| word(bytes, at).and_then(|value| usize::try_from(value).ok());
    // struct btf_header: where the strings are; struct btf_ext_header: where the lines are.
    let strings = types.get(offset(types, 4)?.checked_add(offset(types, 16)?)?..)?;
    let (begin, length) = (offset(lines, 4)?.checked_add(offset(lines, 16)?)?, offset(lines, 20)?);
    let lines = lines.get(begin..begin.checked_add(length)?)?;
    let record = offset(lines, 0)?;
    let mut at = 4;
    while let (Some(name), Some(count)) = (offset(lines, at), offset(lines, at.checked_add(4)?)) {
        let records = lines.get(at + 8..(at + 8).checked_add(count.checked_mul(record)?)?)?;
        let called = strings.get(name..)?.split(|byte| *byte == 0).next()?;
        if called == section.as_bytes() && record >= 16 {
            for one in records.chunks_exact(record) {
                let place = word(one, 12)?;
                take(word(one, 0)?, place >> 10, place & 0x3ff);
            }
        }
        at += 8 + records.len();
    }
    Some(())
}
