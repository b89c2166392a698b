//! From an ELF file to an image.

use object::elf;
use object::read::elf::{FileHeader, Sym};

use super::bytes::Bytes;
use super::elf::{Elf, Part};
use super::relocation::ENDIAN;
use super::{Image, kallsyms, linkage, relocate};
use crate::Error;

/// The image in an ELF file.
pub(super) fn load(what: &str, file: &Bytes) -> Result<Image, Error> {
    let elf = Elf::parse(what, file)?;
    match elf.header.e_type(ENDIAN) {
        elf::ET_REL => relocate::load(elf),
        elf::ET_EXEC | elf::ET_DYN => load_linked(&elf),
        _ => Err(elf.wrong("its ELF header", "says that it is neither a program, nor an object file")),
    }
}

fn load_linked(elf: &Elf) -> Result<Image, Error> {
    let loaded: Vec<_> = elf.parts.iter().filter(|part| part.is_loaded()).map(Part::section).collect();
    let mut sections = if elf.parts.is_empty() { elf.segments()? } else { loaded };
    let symbols = elf.symbols(elf::SHT_SYMTAB)?;
    let dynamic = elf.symbols(elf::SHT_DYNSYM)?;
    let known = if symbols.is_empty() { &dynamic } else { &symbols };
    let mut entries = elf.entries(known, |_, symbol| symbol.st_value(ENDIAN))?;
    if symbols.is_empty() && dynamic.is_empty() {
        // A kernel that a boot loader loads has a table of its own.
        sections.sort_by_key(|section| section.address);
        entries = kallsyms::read(&sections);
    }
    let mut image = Image::new(elf.what, sections, entries);
    elf.describe(&mut image);
    image.imports = linkage::imports(elf, &dynamic, &image)?;
    Ok(image)
}
