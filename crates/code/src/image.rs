//! Machine code for x86-64 with its symbols: kernels, modules, and ordinary programs.
//!
//! ```no_run
//! use xweave_code::image::Image;
//! let image = Image::open("vmlinux".as_ref())?;
//! for function in image.functions() {
//!     let code = image.bytes(function.address, usize::try_from(function.size).unwrap_or(0));
//!     println!("{:#x} {} {:?}", function.address, function.name, code);
//! }
//! # Ok::<(), xweave_code::Error>(())
//! ```
//!
//! Everything has one address. A linked file has its own; those of an object file or module (`.o`,
//! `.ko`) are made up here, and so are those of what it leaves to others to define: see
//! [`Image::imports`].
//!
//! Files may be damaged, or made to do harm. Nothing in them leads to more than an [`Error`] then, and
//! no size that they declare is believed beyond what they really have.
//!
//! Modules: `bytes` holds the bytes, `unpack` decompresses, `boot` opens what a boot loader loads; `elf` reads sections
//! and symbols, `symbols` sorts them into functions and data; `relocation` is what linkers apply, as `relocate` does for
//! object files, and `debug` for debug information; `linkage` finds what a program calls in libraries; `kallsyms`
//! reads the symbols that a kernel has of itself; `load` makes an image of all that, and `live` one of the running
//! kernel.

mod boot;
mod bytes;
mod debug;
mod elf;
mod kallsyms;
mod linkage;
mod live;
mod load;
mod names;
mod relocate;
mod relocation;
mod symbols;
mod unpack;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use self::bytes::Bytes;
use self::debug::Unlinked;
pub use self::live::{LiveCode, LiveMemory};
use self::symbols::Entry;
use self::unpack::Packing;
use crate::Error;

/// Where the linker puts the per-CPU variables of a kernel or module.
const PERCPU_SECTION: &str = ".data..percpu";

/// Machine code, what it is made of, and what is known about it.
pub struct Image {
    what: String,
    build_id: Option<Vec<u8>>,
    sections: Vec<Section>,
    functions: Vec<Function>,
    objects: Vec<Symbol>,
    /// Labels, absolute numbers, and whatever else has a name.
    others: Vec<Symbol>,
    imports: BTreeMap<u64, String>,
    unlinked: HashMap<String, Unlinked>,
    /// The values of an object file's symbols, by number: what its relocations refer to.
    values: Vec<u64>,
    btf: Option<Bytes>,
    percpu: Option<Range<u64>>,
    skipped_relocations: usize,
    /// For [`Image::symbol`], from its first call on.
    by_name: OnceLock<HashMap<String, u64>>,
}

/// A part of an image that has an address.
pub struct Section {
    /// As in `.text`.
    pub name: String,
    /// Where it begins.
    pub address: u64,
    /// Whether it holds instructions.
    pub executable: bool,
    /// Whether it may be written to.
    pub writable: bool,
    size: u64,
    bytes: Bytes,
}

impl Section {
    fn shared(&self) -> Self {
        Self { name: self.name.clone(), bytes: self.bytes.clone(), ..*self }
    }

    /// What it holds at first; nothing if that is zeros, as in `.bss`, nor of the running kernel's variables.
    pub fn data(&self) -> &[u8] {
        &self.bytes
    }

    /// In bytes, also where [`Section::data`] is none.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The address after the last.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
}

/// A function, or another piece of code that is marked as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Of its names, one that other files know, if there is one.
    pub name: String,
    /// The others.
    pub aliases: Vec<String>,
    /// Of its first instruction.
    pub address: u64,
    /// In bytes; up to the next function or the end of the section if the file does not tell.
    pub size: u64,
    /// The kernel module that it belongs to.
    pub module: Option<String>,
    /// Whether other files know it by its name.
    pub global: bool,
}

/// A variable or constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: u64,
    /// In bytes; 0 if the file does not tell.
    pub size: u64,
    /// Whether other files know it by its name.
    pub global: bool,
}

/// The build ID of an ELF file that is not compressed, without reading more of it than its notes.
pub fn build_id(path: &Path) -> Option<Vec<u8>> {
    elf::build_id_of(&Bytes::open(path).ok()?)
}

/// Whether a file that is not compressed has debug information (DWARF), without reading it.
pub fn has_debug_info(path: &Path) -> bool {
    Bytes::open(path).is_ok_and(|file| elf::has_section(&file, &[".debug_info", ".zdebug_info"]))
}

/// Whether a file that is not compressed has code, and is not only what debug information was put apart to.
pub fn has_code(path: &Path) -> bool {
    Bytes::open(path).is_ok_and(|file| elf::has_code(&file))
}

impl Image {
    /// From a file: a program or library, an object file, a kernel (`vmlinux`, or `vmlinuz` in the
    /// bzImage format), or a module. Modules may be compressed, and so may any of the others.
    ///
    /// # Errors
    ///
    /// [`Error::Read`], [`Error::Malformed`], [`Error::Packed`]
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::load(&path.display().to_string(), &Bytes::open(path)?)
    }

    /// The same from a file that is open, which messages call `what`.
    ///
    /// # Errors
    ///
    /// As of [`Image::open`].
    pub fn from_file(what: &str, file: &File) -> Result<Self, Error> {
        Self::load(what, &Bytes::of_file(what, file)?)
    }

    /// The same from the contents of a file, which messages call `what`.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`], [`Error::Packed`]
    pub fn from_bytes(what: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::load(what, &Bytes::from(bytes))
    }

    /// The running kernel, with its modules: the code as it is in memory, and with the symbols that
    /// it shows. Code that is used only while booting is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Read`], [`Error::Hidden`] if it does not show them to this user, [`Error::Malformed`]
    pub fn live() -> Result<Self, Error> {
        live::load(&live::Places::default())
    }

    fn load(what: &str, file: &Bytes) -> Result<Self, Error> {
        if boot::is_kernel(file) {
            return load::load(what, &boot::unpack(what, file)?);
        }
        match Packing::of(file) {
            Some(packing) => load::load(what, &Bytes::from(packing.unpack(what, file)?)),
            None => load::load(what, file),
        }
    }

    /// With these sections and symbols, in any order.
    fn new(what: &str, mut sections: Vec<Section>, entries: Vec<Entry>) -> Self {
        sections.sort_by_key(|section| section.address);
        let boundary = |name| entries.iter().find(|entry| entry.name == name).map(|entry| entry.address);
        let percpu = boundary("__per_cpu_start").zip(boundary("__per_cpu_end"));
        let section = sections.iter().find(|section| section.name == PERCPU_SECTION);
        let percpu = percpu.map(|(start, end)| start..end).filter(|range| !range.is_empty());
        let percpu = percpu.or_else(|| section.map(|section| section.address..section.end()));
        let sorted = symbols::sort(entries, &sections, percpu.as_ref());
        Self {
            what: what.to_owned(),
            build_id: None,
            sections,
            functions: sorted.functions,
            objects: sorted.objects,
            others: sorted.others,
            imports: BTreeMap::new(),
            unlinked: HashMap::new(),
            values: Vec::new(),
            btf: None,
            percpu,
            skipped_relocations: 0,
            by_name: OnceLock::new(),
        }
    }

    /// The path, or "the running kernel".
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What the linker identifies the result by, and no other: the GNU build ID.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// What has an address and is not empty, by address.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section that has this address.
    pub fn section_at(&self, address: u64) -> Option<&Section> {
        symbols::section_at(&self.sections, address)
    }

    /// By address. Each address is there once; functions may overlap nevertheless.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Variables and constants, by address.
    pub fn objects(&self) -> &[Symbol] {
        &self.objects
    }

    /// What is there, if all of it is in one section.
    pub fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let section = self.section_at(address)?;
        let start = usize::try_from(address.checked_sub(section.address)?).ok()?;
        section.data().get(start..start.checked_add(len)?)
    }

    /// The address of anything that is called so: functions, variables, per-CPU variables, labels. Of
    /// several, one that other files know is meant, or else the first function or variable.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.by_name.get_or_init(|| self.names()).get(name).copied()
    }

    fn names(&self) -> HashMap<String, u64> {
        let symbols = || self.objects.iter().chain(&self.others);
        let mut names = HashMap::with_capacity(self.functions.len() + symbols().count());
        let mut add = |name: &String, address| {
            if !names.contains_key(name) {
                names.insert(name.clone(), address);
            }
        };
        for global in [true, false] {
            for function in self.functions.iter().filter(|function| function.global == global) {
                add(&function.name, function.address);
            }
            for symbol in symbols().filter(|symbol| symbol.global == global) {
                add(&symbol.name, symbol.address);
            }
            for function in self.functions.iter().filter(|function| function.global == global) {
                function.aliases.iter().for_each(|alias| add(alias, function.address));
            }
        }
        names
    }

    /// The addresses that stand for what other files define, and what that is called there.
    ///
    /// In an object file or module, these are made-up addresses, one for each such name. In a program
    /// or library, they are those of the stubs that calls go to (the procedure linkage table), and of
    /// the pointers that the dynamic linker fills in (the global offset table).
    pub fn imports(&self) -> &BTreeMap<u64, String> {
        &self.imports
    }

    /// How many relocations of an object file or module are of kinds that are not applied.
    pub fn skipped_relocations(&self) -> usize {
        self.skipped_relocations
    }

    /// A section without an address, as in `.debug_info`: decompressed, and with an object file's
    /// relocations applied. None if there is none, or if it is damaged.
    pub fn debug_section(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        if let Some(section) = self.sections.iter().find(|section| section.name == name) {
            return Some(Cow::Borrowed(section.data()));
        }
        let zipped = || self.unlinked.get(&name.replacen(".debug", ".zdebug", 1));
        self.unlinked.get(name).or_else(zipped)?.read(&self.values)
    }

    /// Raw type information (BTF).
    pub fn btf(&self) -> Option<&[u8]> {
        self.btf.as_deref()
    }

    /// The addresses that instructions use for per-CPU variables: relative to each processor's own
    /// memory, from 0 on in kernels before 6.15.
    pub fn percpu(&self) -> Option<Range<u64>> {
        self.percpu.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_can_be_shared() {
        fn shared<T: Send + Sync>() {}
        shared::<Image>();
    }

    #[test]
    fn what_is_nothing_of_the_kind_is_named() {
        let error = Image::from_bytes("notes.txt", b"To do".to_vec()).err().unwrap().to_string();
        assert!(error.starts_with("notes.txt is not readable as machine code: its ELF header"), "{error}");
        assert!(Image::from_bytes("nothing", Vec::new()).is_err());
        assert!(Image::open("/nonexistent/vmlinux".as_ref()).is_err());
    }
}
