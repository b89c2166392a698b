//! Lines of aspects in compiled objects: which one an instruction is of.
//!
//! The compiler tells of each instruction its line (`.BTF.ext`), but not reliably its file: code of aspects stands
//! within functions that are generated. So the numbers of their lines say which aspect they are of.

use object::{
    Endianness, SectionIndex,
    read::elf::{ElfFile64, FileHeader as _, SectionHeader as _, Sym as _},
};
use xweave_aspect::Span;
use xweave_bytes::read_le;

/// More lines than an aspect has. BTF has 22 bits for a line's number.
const LINES: u32 = 1 << 18;

/// As many aspects have lines of their own.
const FILES: u32 = 15;

/// More sections than an object has: each of its programs may have one.
const SECTIONS: usize = 4096;

/// More symbols.
const SYMBOLS: usize = 1 << 16;

/// More lines than a section has: a kernel loads no program of more instructions.
const RECORDS: usize = 1 << 20;

/// More bytes than a section's name has.
const NAME: usize = 256;

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
///
/// The object is from a compiler that may have been taken over by C that was made of what a guest sent: what is looked
/// at is bounded, and each byte is, so many times.
pub(crate) fn of(object: &[u8], program: &str, instruction: usize) -> Option<Place> {
    let elf = ElfFile64::<Endianness>::parse(object).ok()?;
    let (endian, sections) = (elf.endian(), elf.elf_section_table());
    let data = |of: SectionIndex| sections.section(of).ok()?.data(endian, object).ok();
    let names = data(elf.elf_header().section_strings_index(endian, object).ok()?)?;
    let named = |name: &str| {
        let mut first = sections.iter().take(SECTIONS);
        first.find(|of| is_called(names, of.sh_name(endian), name))?.data(endian, object).ok()
    };
    let symbols = elf.elf_symbol_table();
    let strings = data(symbols.string_section())?;
    let mut first = symbols.iter().take(SYMBOLS);
    let symbol = first.find(|symbol| is_called(strings, symbol.st_name(endian), program))?;
    let section = sections.section(SectionIndex(symbol.st_shndx(endian).index()?.into())).ok()?;
    let (begin, size) = (symbol.st_value(endian), symbol.st_size(endian));
    let at = begin.checked_add(u64::try_from(instruction).ok()?.checked_mul(8)?)?;
    if at >= begin.checked_add(size)? {
        return None;
    }
    let section = name_at(names, section.sh_name(endian))?;
    let mut found = None;
    each(named(".BTF")?, named(".BTF.ext")?, section, &mut |offset, number, column| {
        let offset = u64::from(offset);
        let of_aspect = (LINES..LINES * FILES).contains(&number);
        if of_aspect && (begin..=at).contains(&offset) && found.is_none_or(|(before, _)| before <= offset) {
            let file = usize::try_from(number / LINES - 1).unwrap_or(0);
            found = Some((offset, Place { file, line: number % LINES, column: column.max(1) }));
        }
    })?;
    found.map(|(_, place)| place)
}

/// The name that begins there in a table of strings: no longer than names are.
fn name_at(strings: &[u8], at: u32) -> Option<&[u8]> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    rest.iter().take(NAME).position(|byte| *byte == 0).map(|end| &rest[..end])
}

/// Whether that is the name that begins there. Of others, no more is looked at than this one is long.
fn is_called(strings: &[u8], at: u32, name: impl AsRef<[u8]>) -> bool {
    let rest = usize::try_from(at).ok().and_then(|at| strings.get(at..));
    rest.and_then(|rest| rest.strip_prefix(name.as_ref())).is_some_and(|after| after.first() == Some(&0))
}

/// Goes through the lines of a section: the offset of the instruction, the line's number, and the column. Nothing if
/// there are more sections, or lines of this one, than an object of ours has.
fn each(types: &[u8], lines: &[u8], section: &[u8], take: &mut dyn FnMut(u32, u32, u32)) -> Option<()> {
    let word = read_le::<u32>;
    let offset = |bytes: &[u8], at: usize| word(bytes, at).and_then(|value| usize::try_from(value).ok());
    // struct btf_header: where the strings are; struct btf_ext_header: where the lines are.
    let strings = types.get(offset(types, 4)?.checked_add(offset(types, 16)?)?..)?;
    let (begin, length) = (offset(lines, 4)?.checked_add(offset(lines, 16)?)?, offset(lines, 20)?);
    let lines = lines.get(begin..begin.checked_add(length)?)?;
    let record = offset(lines, 0)?;
    let (mut at, mut sections, mut taken) = (4, 0, 0);
    while let (Some(name), Some(count)) = (word(lines, at), offset(lines, at.checked_add(4)?)) {
        let records = lines.get(at + 8..(at + 8).checked_add(count.checked_mul(record)?)?)?;
        sections += 1;
        if sections > SECTIONS {
            return None;
        }
        if record >= 16 && is_called(strings, name, section) {
            taken += count;
            if taken > RECORDS {
                return None;
            }
            for one in records.chunks_exact(record) {
                let place = word(one, 12)?;
                take(word(one, 0)?, place >> 10, place & 0x3ff);
            }
        }
        at += 8 + records.len();
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types with these strings.
    fn types(strings: &[u8]) -> Vec<u8> {
        let header = [0, 20, 0, 0, 0u32];
        header.iter().flat_map(|word| word.to_le_bytes()).chain(strings.iter().copied()).collect()
    }

    /// Lines of sections, each of which has a name and so many records.
    fn lines(sections: &[(u32, u32)]) -> Vec<u8> {
        let mut all = 16u32.to_le_bytes().to_vec();
        for (name, count) in sections {
            all.extend([*name, *count].iter().flat_map(|word| word.to_le_bytes()));
            (0..*count).for_each(|nth| {
                all.extend([nth * 8, 0, 0, 7 << 10].iter().flat_map(|word| word.to_le_bytes()))
            });
        }
        let length = u32::try_from(all.len()).unwrap();
        let header = [0, 24, 0, 0, 0, length];
        header.iter().flat_map(|word| word.to_le_bytes()).chain(all).collect()
    }

    fn offsets(strings: &[u8], sections: &[(u32, u32)]) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        let take = &mut |offset, number, _| {
            assert_eq!(number, 7);
            found.push(offset);
        };
        each(&types(strings), &lines(sections), b"fentry", take).map(|()| found)
    }

    #[test]
    fn lines_are_those_of_the_section_and_more_than_objects_have_are_none() {
        let strings = b"\0fentry\0fentry/x\0fentry";
        assert_eq!(offsets(strings, &[(8, 1), (1, 2), (17, 1), (9999, 1)]), Some(vec![0, 8]));
        let others = |count| [vec![(8, 0); count], vec![(1, 1)]].concat();
        assert_eq!(offsets(strings, &others(SECTIONS - 1)), Some(vec![0]));
        assert_eq!(offsets(strings, &others(SECTIONS)), None);
        let half = u32::try_from(RECORDS / 2).unwrap();
        assert_eq!(offsets(strings, &[(1, half), (1, half)]).map(|found| found.len()), Some(RECORDS));
        assert_eq!(offsets(strings, &[(1, half), (1, half), (1, 1)]), None);
    }

    #[test]
    fn a_name_is_no_longer_than_names_are() {
        let long = [vec![b'a'; NAME - 1], vec![0, b'b']].concat();
        assert_eq!(name_at(&long, 0).map(<[u8]>::len), Some(NAME - 1));
        assert_eq!(name_at(&[vec![b'a'], long.clone()].concat(), 0), None);
        assert_eq!((name_at(&long, 256), name_at(&long, 257), name_at(&long, 9999)), (None, None, None));
    }
}
