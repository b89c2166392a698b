//! Object files and modules: their sections get addresses, one after the other, and relocations are
//! applied as a linker would. What other files define gets an address of its own in a region where
//! nothing else is.

use std::collections::BTreeMap;

use object::elf;
use object::read::elf::Sym;

use super::bytes::Bytes;
use super::elf::{Elf, Symbols};
use super::names::Names;
use super::relocation::{ENDIAN, apply, table};
use super::{Image, Section};
use crate::Error;

/// Where the first section begins. Nothing is at 0, so that a null pointer stays one.
const FIRST: u64 = 0x1_0000;

const PAGE: u64 = 0x1000;

/// Where the region of what other files define begins, unless sections reach there; instructions can
/// name addresses below 2 GiB only.
const IMPORTS: u64 = 0x4000_0000;

/// How far apart the addresses in it are.
const IMPORT_SIZE: u64 = 16;

/// More than any object file needs, and far from any overflow.
const MAX_END: u64 = 1 << 40;

/// Where everything is.
struct Layout {
    /// By symbol.
    values: Vec<u64>,
    /// What other files define.
    imports: BTreeMap<u64, String>,
    /// What C calls tentative definitions: variables that have no section.
    common: Option<Section>,
    /// Where pointers to symbols are, for instructions that want these.
    slots: u64,
}

/// Pointers to symbols (the global offset table), in the order in which they were asked for.
struct Slots {
    first: u64,
    by_symbol: BTreeMap<usize, u64>,
}

impl Slots {
    fn of(&mut self, symbol: usize) -> Option<u64> {
        let next = self.first + 8 * u64::try_from(self.by_symbol.len()).ok()?;
        Some(*self.by_symbol.entry(symbol).or_insert(next))
    }
}

/// The image in an object file or module.
pub(super) fn load(mut elf: Elf) -> Result<Image, Error> {
    let symbols = elf.symbols(elf::SHT_SYMTAB)?;
    let Layout { values, mut imports, common, slots } = lay_out(&mut elf, &symbols)?;
    let mut slots = Slots { first: slots, by_symbol: BTreeMap::new() };
    let skipped = link(&mut elf, &symbols, &values, &mut slots)?;
    let mut sections: Vec<_> =
        elf.parts.iter().filter(|part| part.is_loaded()).map(|part| part.section()).collect();
    sections.extend(common);
    sections.extend(slot_section(&slots, &values, &mut imports));
    let mut entries = elf.entries(&symbols, |index, _| values.get(index.0).copied().unwrap_or(0))?;
    if let Some(module) = module_name(&elf) {
        entries.iter_mut().for_each(|entry| entry.module = Some(module.clone()));
    }
    let mut image = Image::new(elf.what, sections, entries);
    elf.describe(&mut image);
    for part in elf.parts.iter().filter(|part| part.kind == elf::SHT_RELA) {
        let section = elf.parts.get(part.target).and_then(|target| image.unlinked.get_mut(&target.name));
        if let Some(section) = section.filter(|section| section.number == part.target) {
            section.relocate_by(part.bytes.clone());
        }
    }
    image.imports = imports;
    image.values = values;
    image.skipped_relocations = skipped;
    Ok(image)
}

fn lay_out(elf: &mut Elf, symbols: &Symbols) -> Result<Layout, Error> {
    let mut next = FIRST;
    let mut too_large = None;
    for part in elf.parts.iter_mut().filter(|part| part.is_loaded()) {
        part.address = next;
        match next.checked_add(part.size).filter(|end| *end < MAX_END) {
            Some(end) => next = end.next_multiple_of(PAGE),
            None => too_large = Some(format!("section {}", part.name)),
        }
    }
    if let Some(part) = too_large {
        return Err(elf.wrong(&part, "is larger than memory"));
    }
    let (mut commons, mut undefined) = (Vec::new(), Vec::new());
    let mut values = Vec::with_capacity(symbols.len());
    let mut common_end = next;
    for (index, symbol) in symbols.enumerate() {
        let value = symbol.st_value(ENDIAN);
        values.push(match symbol.st_shndx(ENDIAN) {
            elf::SHN_UNDEF => {
                if index.0 != 0 {
                    undefined.push(index);
                }
                0
            }
            elf::SHN_COMMON => {
                // Its value is how it is to be aligned.
                let start = common_end.checked_next_multiple_of(value.clamp(1, PAGE)).unwrap_or(MAX_END);
                let end = start.checked_add(symbol.st_size(ENDIAN)).filter(|end| *end < MAX_END);
                common_end = end.ok_or_else(|| elf.wrong("its symbol table", "is larger than memory"))?;
                commons.push(index);
                start
            }
            _ => {
                let home = elf.home(symbols, index, symbol).and_then(|home| elf.parts.get(home));
                let base = home.filter(|home| home.is_loaded()).map_or(0, |home| home.address);
                base.wrapping_add(value)
            }
        });
    }
    let common = (common_end > next).then(|| Section {
        name: "COMMON".to_owned(),
        address: next,
        executable: false,
        writable: true,
        size: common_end - next,
        bytes: Bytes::from(Vec::new()),
    });
    let slots = common_end.next_multiple_of(PAGE);
    let slots_end = slots + 8 * u64::try_from(symbols.len()).unwrap_or(0);
    let mut import = slots_end.next_multiple_of(PAGE).max(IMPORTS);
    let mut imports = BTreeMap::new();
    let mut names = Names::of(elf.file_size());
    for index in undefined {
        let name = symbols.symbol(index).and_then(|symbol| symbols.symbol_name(ENDIAN, symbol));
        let name = name.ok().and_then(|name| names.read(name));
        let name = name.ok_or_else(|| elf.wrong("its symbol table", "has no names that can be read"))?;
        if let Some(value) = values.get_mut(index.0) {
            *value = import;
        }
        imports.insert(import, name);
        import += IMPORT_SIZE;
    }
    Ok(Layout { values, imports, common, slots })
}

/// Applies all relocations of what is loaded, and counts those that it cannot apply.
fn link(elf: &mut Elf, symbols: &Symbols, values: &[u64], slots: &mut Slots) -> Result<usize, Error> {
    let mut skipped = 0;
    let mut linked: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for part in elf.parts.iter().filter(|part| part.kind == elf::SHT_RELA) {
        let wrong = |reason: &str| elf.wrong(&format!("section {}", part.name), reason);
        let target = elf.parts.get(part.target);
        let target = target.ok_or_else(|| wrong("applies to a section that is not there"))?;
        if !target.is_loaded() {
            continue;
        }
        if part.symbols != symbols.section().0 {
            return Err(wrong("refers to another symbol table than the file's"));
        }
        let data = linked.entry(part.target).or_insert_with(|| target.bytes.to_vec());
        let value = |symbol: usize| values.get(symbol).copied();
        let applied = table(&part.bytes)
            .and_then(|table| apply(data, target.address, table, value, |symbol| slots.of(symbol)));
        skipped += applied.ok_or_else(|| wrong("does not fit the section that it applies to"))?;
    }
    for (target, data) in linked {
        if let Some(part) = elf.parts.get_mut(target) {
            part.bytes = Bytes::from(data);
        }
    }
    Ok(skipped)
}

/// The pointers to symbols; those to what other files define are added to the imports.
fn slot_section(slots: &Slots, values: &[u64], imports: &mut BTreeMap<u64, String>) -> Option<Section> {
    let mut data = vec![0; slots.by_symbol.len() * 8];
    for (symbol, address) in &slots.by_symbol {
        let value = *values.get(*symbol)?;
        let start = usize::try_from(address - slots.first).ok()?;
        data.get_mut(start..start + 8)?.copy_from_slice(&value.to_le_bytes());
        if let Some(name) = imports.get(&value).cloned() {
            imports.insert(*address, name);
        }
    }
    (!data.is_empty()).then(|| Section {
        name: ".got".to_owned(),
        address: slots.first,
        executable: false,
        writable: false,
        size: u64::try_from(data.len()).unwrap_or(0),
        bytes: Bytes::from(data),
    })
}

/// What a module says that it is called.
fn module_name(elf: &Elf) -> Option<String> {
    let info = elf.parts.iter().find(|part| part.name == ".modinfo")?;
    let name = info.bytes.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"name="))?;
    Some(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relocation(kind: elf::RelocationType, offset: u64, symbol: u64, addend: i64) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&(symbol << 32 | u64::from(kind.0)).to_le_bytes());
        bytes[16..].copy_from_slice(&addend.to_le_bytes());
        bytes
    }

    /// What eight bytes at 0x1000 become, and how many relocations were skipped.
    fn applied(bytes: &[u8]) -> Option<(u64, usize)> {
        let mut data = [0; 8];
        let value = |symbol: usize| [0, 0x5000].get(symbol).copied();
        let mut slots = Slots { first: 0x8000, by_symbol: BTreeMap::new() };
        let skipped = apply(&mut data, 0x1000, table(bytes)?, value, |symbol| slots.of(symbol))?;
        Some((u64::from_le_bytes(data), skipped))
    }

    #[test]
    fn each_kind() {
        for (kind, offset, addend, expected) in [
            (elf::R_X86_64_NONE, 0, 0, 0),
            (elf::R_X86_64_64, 0, -1, 0x4fff),
            (elf::R_X86_64_PC64, 0, 0, 0x4000),
            (elf::R_X86_64_32S, 4, 1, 0x5001 << 32),
            (elf::R_X86_64_PC32, 4, -4, 0x3ff8 << 32),
            (elf::R_X86_64_PLT32, 0, -0x5000, 0xffff_f000),
            (elf::R_X86_64_REX_GOTPCRELX, 0, -4, 0x6ffc),
        ] {
            assert_eq!(applied(&relocation(kind, offset, 1, addend)), Some((expected, 0)), "{kind:?}");
        }
        assert_eq!(applied(&relocation(elf::R_X86_64_TPOFF32, 0, 1, 0)), Some((0, 1)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(applied(&relocation(elf::R_X86_64_64, 1, 1, 0)), None);
        assert_eq!(applied(&relocation(elf::R_X86_64_32, u64::MAX, 1, 0)), None);
        assert_eq!(applied(&relocation(elf::R_X86_64_32, 0, 2, 0)), None);
        assert_eq!(applied(&[0; 23]), None);
    }
}
