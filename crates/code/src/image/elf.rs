//! ELF files: their sections and symbols. All of a file's own numbers are checked before use.

use std::collections::HashMap;

use object::elf::{self, FileHeader64, Sym64};
use object::read::elf::{
    FileHeader, NoteIterator, ProgramHeader, SectionHeader, SectionTable, Sym, SymbolTable,
};
use object::{LittleEndian, SymbolIndex};

use super::bytes::Bytes;
use super::debug::Unlinked;
use super::names::Names;
use super::relocation::ENDIAN;
use super::symbols::{Binding, Entry, Kind};
use super::{Image, Section};
use crate::Error;

pub(super) type Header = FileHeader64<LittleEndian>;
pub(super) type Symbols<'a> = SymbolTable<'a, Header>;

/// A section as the file has it.
pub(super) struct Part {
    pub name: String,
    pub kind: elf::SectionType,
    pub flags: elf::SectionFlags,
    pub address: u64,
    pub size: u64,
    pub bytes: Bytes,
    /// The number of the section that it applies to, if it is of relocations.
    pub target: usize,
    /// The number of the section of the symbols that these refer to.
    pub symbols: usize,
}

impl Part {
    pub fn has(&self, flag: elf::SectionFlags) -> bool {
        self.flags.0 & flag.0 != 0
    }

    /// Whether it takes space in memory. The zeros of thread-local variables do in each thread only.
    pub fn is_loaded(&self) -> bool {
        let only_in_threads = self.has(elf::SHF_TLS) && self.kind == elf::SHT_NOBITS;
        self.has(elf::SHF_ALLOC) && !only_in_threads && self.size != 0
    }

    pub fn section(&self) -> Section {
        Section {
            name: self.name.clone(),
            address: self.address,
            executable: self.has(elf::SHF_EXECINSTR),
            writable: self.has(elf::SHF_WRITE),
            size: self.size,
            bytes: self.bytes.clone(),
        }
    }
}

/// A file of which the sections are known to lie inside.
pub(super) struct Elf<'a> {
    pub what: &'a str,
    file: &'a Bytes,
    pub header: &'a Header,
    table: SectionTable<'a, Header>,
    /// By the file's numbers.
    pub parts: Vec<Part>,
}

/// The build ID of a file of which nothing else is wanted.
pub(super) fn build_id_of(file: &Bytes) -> Option<Vec<u8>> {
    Elf::parse("", file).ok()?.build_id()
}

/// Whether a file has a section with one of these names.
pub(super) fn has_section(file: &Bytes, names: &[&str]) -> bool {
    Elf::parse("", file).is_ok_and(|elf| elf.parts.iter().any(|part| names.contains(&part.name.as_str())))
}

/// Whether there are bytes in its `.text`.
pub(super) fn has_code(file: &Bytes) -> bool {
    let code = |part: &Part| part.name == ".text" && part.kind != elf::SHT_NOBITS && part.size > 0;
    Elf::parse("", file).is_ok_and(|elf| elf.parts.iter().any(code))
}

impl<'a> Elf<'a> {
    pub fn parse(what: &'a str, file: &'a Bytes) -> Result<Self, Error> {
        let wrong = |part: &str, reason: &str| malformed(what, part, reason);
        let data: &[u8] = file;
        let header = Header::parse(data)
            .and_then(|header| header.endian().map(|_: LittleEndian| header))
            .map_err(|_| wrong("its ELF header", "is none of 64 bits"))?;
        if header.e_machine(ENDIAN) != elf::EM_X86_64 {
            return Err(wrong("its ELF header", "is for another CPU than x86-64"));
        }
        let table = header.sections(ENDIAN, data);
        let table = table.map_err(|error| wrong_by(what, "its section table", "is damaged: ", error))?;
        let mut names = Names::of(data.len());
        let mut parts = Vec::with_capacity(table.len());
        for (index, section) in table.enumerate() {
            let nth = || format!("section {}", index.0);
            let name = table.section_name(ENDIAN, section).ok().and_then(|name| names.read(name));
            let name = name.ok_or_else(|| wrong(&nth(), "has no name that can be read"))?;
            let (address, size) = (section.sh_addr(ENDIAN), section.sh_size(ENDIAN));
            let bytes = match section.file_range(ENDIAN) {
                Some((offset, size)) => file.part(offset, size),
                None => file.part(0, 0),
            };
            let bytes = bytes.filter(|_| address.checked_add(size).is_some());
            parts.push(Part {
                bytes: bytes
                    .ok_or_else(|| wrong(&format!("section {name}"), "reaches beyond the file's end"))?,
                kind: section.sh_type(ENDIAN),
                flags: section.sh_flags(ENDIAN),
                target: usize::try_from(section.sh_info(ENDIAN)).unwrap_or(usize::MAX),
                symbols: section.link(ENDIAN).0,
                name,
                address,
                size,
            });
        }
        // Some of them are copied, or gone through whole, so none of the file must be in many.
        let total = parts.iter().try_fold(0usize, |sum, part: &Part| sum.checked_add(part.bytes.len()));
        if total.is_none_or(|total| total / 2 > data.len()) {
            return Err(wrong("its section table", "has many sections in the same place of the file"));
        }
        Ok(Self { what, file, header, table, parts })
    }

    pub fn file_size(&self) -> usize {
        self.file.len()
    }

    pub fn wrong(&self, part: &str, reason: &str) -> Error {
        malformed(self.what, part, reason)
    }

    /// What is loaded into memory, of a file without sections.
    pub fn segments(&self) -> Result<Vec<Section>, Error> {
        let data: &[u8] = self.file;
        let headers = self.header.program_headers(ENDIAN, data);
        let headers = headers.map_err(|error| wrong_by(self.what, "its program headers", "", error))?;
        let loaded = headers.iter().enumerate().filter(|(_, header)| header.p_type(ENDIAN) == elf::PT_LOAD);
        let section = |(nth, header): (usize, &elf::ProgramHeader64<LittleEndian>)| {
            let (address, size) = (header.p_vaddr(ENDIAN), header.p_memsz(ENDIAN));
            let bytes = self.file.part(header.p_offset(ENDIAN), header.p_filesz(ENDIAN).min(size));
            let bytes = bytes.filter(|_| address.checked_add(size).is_some());
            let name = format!("segment {nth}");
            let bytes = bytes.ok_or_else(|| self.wrong(&name, "reaches beyond the file's end"))?;
            let flags = header.p_flags(ENDIAN).0;
            let (executable, writable) = (flags & elf::PF_X.0 != 0, flags & elf::PF_W.0 != 0);
            Ok(Section { name, address, executable, writable, size, bytes })
        };
        let sections = loaded.map(section).filter(|section| !matches!(section, Ok(Section { size: 0, .. })));
        sections.collect()
    }

    pub fn symbols(&self, kind: elf::SectionType) -> Result<Symbols<'a>, Error> {
        let data: &'a [u8] = self.file;
        let symbols = self.table.symbols(ENDIAN, data, kind);
        symbols.map_err(|error| wrong_by(self.what, "its symbol table", "is damaged: ", error))
    }

    /// The number of the section that defines a symbol, if one does.
    pub fn home(&self, symbols: &Symbols, index: SymbolIndex, symbol: &Sym64<LittleEndian>) -> Option<usize> {
        let section = symbols.symbol_section(ENDIAN, symbol, index).ok().flatten()?;
        (section.0 < self.parts.len()).then_some(section.0)
    }

    /// The symbols that are defined, except those that only say how the file came about.
    pub fn entries(
        &self,
        symbols: &Symbols,
        value: impl Fn(SymbolIndex, &Sym64<LittleEndian>) -> u64,
    ) -> Result<Vec<Entry>, Error> {
        let mut names = Names::of(self.file.len());
        let mut entries = Vec::with_capacity(symbols.len());
        for (index, symbol) in symbols.enumerate() {
            let place = symbol.st_shndx(ENDIAN);
            let home = self.home(symbols, index, symbol).and_then(|home| self.parts.get(home));
            let defined = match place {
                elf::SHN_UNDEF => false,
                elf::SHN_ABS | elf::SHN_COMMON => true,
                _ => home.is_some_and(|home| home.has(elf::SHF_ALLOC)),
            };
            let kind = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => Kind::Function,
                elf::STT_OBJECT | elf::STT_COMMON => Kind::Object,
                elf::STT_NOTYPE => match home {
                    Some(home) if !home.has(elf::SHF_EXECINSTR) => Kind::Object,
                    _ => Kind::Other,
                },
                _ => continue,
            };
            if !defined {
                continue;
            }
            let name = symbols.symbol_name(ENDIAN, symbol).ok().and_then(|name| names.read(name));
            let name = name.ok_or_else(|| {
                self.wrong(
                    "its symbol table",
                    &format!("has no name that can be read for symbol {}", index.0),
                )
            })?;
            if name.is_empty() {
                continue;
            }
            let binding = match symbol.st_bind() {
                elf::STB_LOCAL => Binding::Local,
                elf::STB_WEAK => Binding::Weak,
                _ => Binding::Global,
            };
            let (address, size) = (value(index, symbol), symbol.st_size(ENDIAN));
            entries.push(Entry { name, address, size, kind, binding, module: None });
        }
        Ok(entries)
    }

    fn build_id(&self) -> Option<Vec<u8>> {
        let notes = self.parts.iter().filter(|part| part.kind == elf::SHT_NOTE);
        notes.filter_map(|part| build_id(&part.bytes)).next()
    }

    /// What a file says about itself besides.
    pub fn describe(&self, image: &mut Image) {
        image.build_id = self.build_id();
        image.btf = self.parts.iter().find(|part| part.name == ".BTF").map(|part| part.bytes.clone());
        let mut unlinked = HashMap::new();
        for (number, part) in self.parts.iter().enumerate() {
            if part.kind == elf::SHT_PROGBITS && !part.has(elf::SHF_ALLOC) {
                let section = Unlinked::new(number, part.bytes.clone(), part.has(elf::SHF_COMPRESSED));
                unlinked.entry(part.name.clone()).or_insert(section);
            }
        }
        image.unlinked = unlinked;
    }
}

pub(super) fn malformed(what: &str, part: &str, reason: &str) -> Error {
    Error::Malformed { what: what.to_owned(), part: part.to_owned(), reason: reason.to_owned(), source: None }
}

/// As [`malformed`], by an error that is told behind what is `said`.
fn wrong_by(what: &str, part: &str, said: &str, source: object::Error) -> Error {
    let reason = format!("{said}{source}");
    Error::Malformed { what: what.to_owned(), part: part.to_owned(), reason, source: Some(source) }
}

/// The build ID among these notes.
pub(super) fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut notes = NoteIterator::<Header>::new(ENDIAN, 4, notes).ok()?;
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(ENDIAN) == elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec());
        }
    }
    None
}
