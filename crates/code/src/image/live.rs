//! The running kernel: `/proc/kallsyms` tells where everything is, `/proc/kcore` what is there.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{self, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use xweave_bytes::read_le;

use super::bytes::Bytes;
use super::elf::{Header, build_id, malformed};
use super::relocation::ENDIAN;
use super::symbols::{Entry, Kind};
use super::unpack::Packing;
use super::{Image, Section};
use crate::Error;

const WHAT: &str = "the running kernel";

/// Modules are loaded in whole pages.
const PAGE: u64 = 0x1000;

/// Code of a module with less in between is read in one piece: functions are smaller.
const MAX_GAP: u64 = 1 << 20;

/// More than any part of a kernel has.
const MAX_SIZE: u64 = 256 << 20;

/// More than all code of a kernel with its symbols: some 60 MB with many modules.
const MAX_UNPACKED: usize = 512 << 20;

/// Pieces of code that kernels list like modules, but that are none: BPF programs and trampolines.
const NO_MODULES: [&str; 4] = ["bpf", "__builtin__ftrace", "__builtin__kprobes", "__builtin__kvm"];

/// Where the running kernel shows what it is.
pub(super) struct Places {
    pub kallsyms: PathBuf,
    pub kcore: PathBuf,
    pub notes: PathBuf,
    pub btf: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            kallsyms: "/proc/kallsyms".into(),
            kcore: "/proc/kcore".into(),
            notes: "/sys/kernel/notes".into(),
            btf: "/sys/kernel/btf/vmlinux".into(),
        }
    }
}

/// The kernel that shows itself there.
pub(super) fn load(places: &Places) -> Result<Image, Error> {
    let code = capture(places, |_| true)?;
    let mut image = code.image_of(|_| true);
    image.btf = std::fs::read(&places.btf).ok().map(Bytes::from);
    Ok(image)
}

/// The code of a running kernel, or of parts of it, with all its symbols: to be sent to whoever looks into it.
pub struct LiveCode {
    /// As in `/proc/kallsyms`.
    symbols: String,
    build_id: Option<Vec<u8>>,
    pieces: Vec<Piece>,
}

struct Piece {
    module: Option<String>,
    section: Section,
}

impl LiveCode {
    /// That of this machine's kernel (`None`) and its modules, as far as it is wanted.
    ///
    /// # Errors
    ///
    /// As [`Image::live`].
    pub fn capture(wanted: impl Fn(Option<&str>) -> bool) -> Result<Self, Error> {
        capture(&Places::default(), wanted)
    }

    /// The modules of which there is code.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        let mut modules: Vec<_> = self.pieces.iter().filter_map(|piece| piece.module.as_deref()).collect();
        modules.dedup();
        modules.into_iter()
    }

    /// The kernel (`None`) or a module by itself. What it calls in others are its imports.
    pub fn image(&self, module: Option<&str>) -> Image {
        self.image_of(|of| of == module)
    }

    fn image_of(&self, wanted: impl Fn(Option<&str>) -> bool) -> Image {
        let pieces = self.pieces.iter().filter(|piece| wanted(piece.module.as_deref()));
        let sections = pieces.map(|piece| piece.section.shared()).collect();
        let entries = symbols(&self.symbols);
        let mut elsewhere: HashMap<u64, String> = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.kind == Kind::Function && entry.address != 0) {
            elsewhere.entry(entry.address).or_insert_with(|| entry.name.clone());
        }
        let mut image = Image::new(WHAT, sections, entries);
        for function in image.functions() {
            elsewhere.remove(&function.address);
        }
        let called = image.sections.iter().filter(|section| section.executable).flat_map(targets);
        image.imports = called.filter_map(|address| elsewhere.remove_entry(&address)).collect();
        image.build_id.clone_from(&self.build_id);
        image
    }

    /// As bytes: what [`LiveCode::unpack`] reads.
    pub fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.symbols.as_bytes());
        put(&mut bytes, self.build_id.as_deref().unwrap_or_default());
        for Piece { module, section } in &self.pieces {
            put(&mut bytes, module.as_deref().unwrap_or_default().as_bytes());
            put(&mut bytes, section.name.as_bytes());
            bytes.extend(section.address.to_le_bytes());
            bytes.extend(section.size.to_le_bytes());
            bytes.push(u8::from(section.executable) | u8::from(section.writable) << 1);
            put(&mut bytes, section.data());
        }
        super::unpack::pack_lz4(&bytes)
    }

    /// From the bytes of [`LiveCode::pack`], which may be anybody's.
    ///
    /// # Errors
    ///
    /// [`Error::Packed`], [`Error::Malformed`]
    pub fn unpack(packed: &[u8]) -> Result<Self, Error> {
        let bytes = Bytes::from(Packing::Lz4.unpack_at_most(WHAT, packed, MAX_UNPACKED)?);
        let mut rest = Rest { bytes: &bytes, at: 0 };
        let mut read = || {
            let symbols = String::from_utf8_lossy(&rest.field()?).into_owned();
            let build_id = Some(rest.field()?.to_vec()).filter(|id| !id.is_empty());
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                pieces.push(rest.piece()?);
            }
            Some(Self { symbols, build_id, pieces })
        };
        read().ok_or_else(|| malformed(WHAT, "what was sent of it", "is cut off"))
    }
}

fn put(bytes: &mut Vec<u8>, field: &[u8]) {
    bytes.extend((field.len() as u64).to_le_bytes());
    bytes.extend(field);
}

/// What has not been read yet.
struct Rest<'a> {
    bytes: &'a Bytes,
    at: u64,
}

impl Rest<'_> {
    fn is_empty(&self) -> bool {
        usize::try_from(self.at).is_ok_and(|at| at >= self.bytes.len())
    }

    fn take(&mut self, size: u64) -> Option<Bytes> {
        let part = self.bytes.part(self.at, size)?;
        self.at += size;
        Some(part)
    }

    fn number(&mut self) -> Option<u64> {
        read_le(&self.take(8)?, 0)
    }

    fn field(&mut self) -> Option<Bytes> {
        let size = self.number()?;
        self.take(size)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.field()?.to_vec()).ok()
    }

    fn piece(&mut self) -> Option<Piece> {
        let module = Some(self.text()?).filter(|module| !module.is_empty());
        let (name, address, size) = (self.text()?, self.number()?, self.number()?);
        let flags = *self.take(1)?.first()?;
        let bytes = self.field()?;
        // Of variables it is only told where they are.
        address.checked_add(size).filter(|_| bytes.is_empty() || u64::try_from(bytes.len()) == Ok(size))?;
        let (executable, writable) = (flags & 1 != 0, flags & 2 != 0);
        let section = Section { name, address, executable, writable, size, bytes };
        Some(Piece { module, section })
    }
}

/// Where the code may call or jump to. Some are none, but what only looks like a call: that does no harm.
fn targets(section: &Section) -> impl Iterator<Item = u64> {
    let calls = (1u64..).zip(section.data().windows(5)).filter(|(_, bytes)| matches!(bytes[0], 0xe8 | 0xe9));
    calls.map(|(after_first, bytes)| {
        let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        let after = section.address.wrapping_add(after_first + 4);
        after.wrapping_add_signed(distance.into())
    })
}

/// The parts that are wanted of the kernel that shows itself there.
fn capture(places: &Places, wanted: impl Fn(Option<&str>) -> bool) -> Result<LiveCode, Error> {
    let table = std::fs::read(&places.kallsyms)
        .map_err(|reason| Error::Read { path: places.kallsyms.display().to_string(), reason })?;
    let table = String::from_utf8_lossy(&table).into_owned();
    let entries = symbols(&table);
    if entries.iter().all(|entry| entry.address == 0) {
        return Err(Error::Hidden {
            reason: format!("{} shows no addresses", places.kallsyms.display()),
            source: None,
            advice: "run this as root, and if kernel.kptr_restrict is 2, set it to 1 with sysctl",
        });
    }
    let core = Core::open(&places.kcore)?;
    let range = |start: &str, end: &str| {
        let find = |name| entries.iter().find(|entry| entry.module.is_none() && entry.name == name);
        let range = find(start)?.address..find(end)?.address;
        Some(range).filter(|range| !range.is_empty())
    };
    let mut pieces = Vec::new();
    let of_kernel =
        [(".text", "_stext", "_etext", true), (".rodata", "__start_rodata", "__end_rodata", false)];
    for (name, start, end, executable) in of_kernel.into_iter().filter(|_| wanted(None)) {
        match range(start, end) {
            Some(range) => {
                let section = core.section(name, range, executable)?;
                pieces.push(Piece { module: None, section });
            }
            _ if executable => {
                return Err(malformed(
                    WHAT,
                    &places.kallsyms.display().to_string(),
                    "lacks _stext or _etext",
                ));
            }
            _ => {}
        }
    }
    // What is in them now says nothing of the program, but where they are does: what addresses it has.
    for (name, start, end) in [(".data", "_sdata", "_edata"), (".bss", "__bss_start", "__bss_stop")] {
        let section = range(start, end).filter(|_| wanted(None)).map(|range| variables(name, range));
        pieces.extend(section.map(|section| Piece { module: None, section }));
    }
    for (module, range) in module_code(&entries).into_iter().filter(|(module, _)| wanted(Some(module))) {
        // A module that was unloaded in the meantime is none.
        if let Ok(section) = core.section(&format!(".text [{module}]"), range, true) {
            pieces.push(Piece { module: Some(module.to_owned()), section });
        }
    }
    let build_id = std::fs::read(&places.notes).ok().and_then(|notes| build_id(&notes));
    Ok(LiveCode { symbols: table, build_id, pieces })
}

/// The lines of a table: address, type, name, and the module's name in brackets if it is a module's.
fn symbols(table: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let type_ = *words.next()?.as_bytes().first()?;
        let name = words.next()?.to_owned();
        let module = words.next().map(|module| module.trim_matches(['[', ']']).to_owned());
        Some(Entry::typed(type_, name, address, module))
    };
    table.lines().filter_map(entry).collect()
}

/// A section that is not read.
fn variables(name: &str, range: Range<u64>) -> Section {
    let (name, address, size) = (name.to_owned(), range.start, range.end - range.start);
    Section { name, address, executable: false, writable: true, size, bytes: Bytes::from(Vec::new()) }
}

/// Where modules have their code.
fn module_code(entries: &[Entry]) -> Vec<(&str, Range<u64>)> {
    let mut starts: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.kind == Kind::Function) {
        if let Some(module) = entry.module.as_deref().filter(|module| !NO_MODULES.contains(module)) {
            starts.entry(module).or_default().push(entry.address);
        }
    }
    let mut ranges: Vec<(&str, Range<u64>)> = Vec::new();
    for (module, mut starts) in starts {
        starts.sort_unstable();
        let first = ranges.len();
        for start in starts {
            // How long the last function is, nothing tells; its page is the module's in any case.
            let Some(end) = start.checked_add(1).and_then(|end| end.checked_next_multiple_of(PAGE)) else {
                continue;
            };
            match ranges.get_mut(first..).and_then(<[_]>::last_mut) {
                Some((_, range)) if start.saturating_sub(range.end) < MAX_GAP => range.end = end,
                _ => ranges.push((module, start / PAGE * PAGE..end)),
            }
        }
    }
    ranges
}

/// The running kernel's memory.
pub struct LiveMemory(Core);

impl LiveMemory {
    /// Opens `/proc/kcore`.
    ///
    /// # Errors
    ///
    /// [`Error::Hidden`] where the kernel does not show it, or not to us.
    pub fn open() -> Result<Self, Error> {
        Core::open(&Places::default().kcore).map(Self)
    }

    /// What is at an address, `most` bytes of it at most; none if nothing is.
    pub fn read(&self, address: u64, most: u64) -> Option<Vec<u8>> {
        let (segment, _) = self.0.segments.iter().find(|(segment, _)| segment.contains(&address))?;
        let end = segment.end.min(address.saturating_add(most));
        self.0.bytes("code", &(address..end)).ok()
    }
}

/// The kernel's memory, as a core file.
struct Core {
    path: String,
    file: File,
    /// Addresses, and where in the file they begin.
    segments: Vec<(Range<u64>, u64)>,
}

impl Core {
    fn open(path: &Path) -> Result<Self, Error> {
        let path_name = path.display().to_string();
        let hidden = |error: io::Error| Error::Hidden {
            reason: format!("{path_name} cannot be read: {error}"),
            source: Some(error),
            advice: "run this as root, with a kernel that has CONFIG_PROC_KCORE and is not locked down, \
                     or name its vmlinux or vmlinuz instead",
        };
        let file = File::open(path).map_err(hidden)?;
        let mut start = [0; size_of::<Header>()];
        file.read_exact_at(&mut start, 0).map_err(hidden)?;
        let wrong = |reason: &str| malformed(WHAT, &path_name, reason);
        let header = Header::parse(&start[..]).map_err(|_| wrong("is no core file of 64 bits"))?;
        if header.e_machine(ENDIAN) != elf::EM_X86_64 || header.e_type(ENDIAN) != elf::ET_CORE {
            return Err(wrong("is no core file of an x86-64 kernel"));
        }
        let count = usize::from(header.e_phnum(ENDIAN));
        let mut table = vec![0; count * size_of::<ProgramHeader64<LittleEndian>>()];
        file.read_exact_at(&mut table, header.e_phoff(ENDIAN)).map_err(hidden)?;
        let headers = object::pod::slice_from_all_bytes::<ProgramHeader64<LittleEndian>>(&table);
        let headers = headers.map_err(|()| wrong("has program headers of another size"))?;
        let loaded = headers.iter().filter(|header| header.p_type(ENDIAN) == elf::PT_LOAD);
        let segments = loaded.map(|header| {
            let start = header.p_vaddr(ENDIAN);
            (start..start.saturating_add(header.p_filesz(ENDIAN)), header.p_offset(ENDIAN))
        });
        let segments = segments.collect();
        Ok(Self { path: path_name, file, segments })
    }

    /// What is at these addresses, as a section.
    fn section(&self, name: &str, range: Range<u64>, executable: bool) -> Result<Section, Error> {
        let bytes = Bytes::from(self.bytes(name, &range)?);
        let (name, address, size) = (name.to_owned(), range.start, range.end - range.start);
        Ok(Section { name, address, executable, writable: false, size, bytes })
    }

    /// What is at these addresses; `name` is what messages call it.
    fn bytes(&self, name: &str, range: &Range<u64>) -> Result<Vec<u8>, Error> {
        let wrong = |reason: &str| malformed(WHAT, &format!("{name} in {}", self.path), reason);
        let size = range.end - range.start;
        let length = usize::try_from(size).ok().filter(|_| size <= MAX_SIZE);
        let length = length.ok_or_else(|| wrong("is larger than any kernel's"))?;
        let within = |segment: &Range<u64>| segment.start <= range.start && range.end <= segment.end;
        let segment = self.segments.iter().find(|(segment, _)| within(segment));
        let (segment, offset) = segment.ok_or_else(|| wrong("is not there"))?;
        let mut bytes = vec![0; length];
        let at = offset.saturating_add(range.start - segment.start);
        self.file.read_exact_at(&mut bytes, at).map_err(|error| Error::Hidden {
            reason: format!("{name} in {} cannot be read: {error}", self.path),
            source: Some(error),
            advice: "name the kernel's vmlinux or vmlinuz instead",
        })?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: u64 = 0xffff_ffff_8100_0000;
    const MODULE: u64 = 0xffff_ffff_c000_0000;

    /// A core file with the kernel's first two pages and a module's one.
    fn core() -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend([4, 0, 62, 0, 1, 0, 0, 0]);
        bytes.extend([0u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        for (address, offset, size) in [(TEXT, 0x1000, 0x2000), (MODULE, 0x3000, 0x1000u64)] {
            let words = [7 << 32 | 1, offset, address, 0, size, size, 0x1000];
            bytes.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
        }
        bytes.resize(0x1000, 0);
        bytes.extend([0x90; 0x2000]);
        bytes.extend([0xcc; 0x1000]);
        bytes
    }

    const KALLSYMS: &str = "\
0000000000000040 A cpu_number
ffffffff81000000 T _stext
ffffffff81000000 T first
ffffffff81000100 t second
ffffffff81001000 T _etext
ffffffff81001000 D __start_rodata
ffffffff81001800 D __end_rodata
ffffffff82000000 D _sdata
ffffffff82000040 d counters
ffffffff82001000 D _edata
ffffffff83000000 t booting
ffffffffc0000010 t hello\t[greeter]
ffffffffc0000020 d hello_data\t[greeter]
ffffffffc0100000 t bpf_prog_1\t[bpf]
";

    fn at_places<T>(kallsyms: &str, core: &[u8], read: impl Fn(&Places) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("kallsyms"), kallsyms).unwrap();
        std::fs::write(path("kcore"), core).unwrap();
        read(&Places {
            kallsyms: path("kallsyms"),
            kcore: path("kcore"),
            notes: path("notes"),
            btf: path("btf"),
        })
    }

    fn loaded(kallsyms: &str, core: &[u8]) -> Result<Image, Error> {
        at_places(kallsyms, core, load)
    }

    #[test]
    fn memory_is_read_as_far_as_there_is_some() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kcore");
        std::fs::write(&path, core()).unwrap();
        let memory = LiveMemory(Core::open(&path).unwrap());
        assert_eq!(memory.read(TEXT + 0x1ffe, 16).unwrap(), [0x90; 2]);
        assert_eq!(memory.read(MODULE, 4).unwrap(), [0xcc; 4]);
        assert!(memory.read(MODULE + 0x1000, 4).is_none() && memory.read(0, 4).is_none());
    }

    #[test]
    fn a_kernel_and_its_module() {
        let image = loaded(KALLSYMS, &core()).unwrap();
        let functions: Vec<_> = image.functions().iter().map(|function| function.name.as_str()).collect();
        assert_eq!(functions, ["_stext", "second", "hello"]);
        assert_eq!(image.functions()[0].aliases, ["first"]);
        assert_eq!((image.functions()[0].size, image.functions()[1].size), (0x100, 0xf00));
        assert_eq!(image.functions()[2].module.as_deref(), Some("greeter"));
        assert_eq!(image.bytes(TEXT + 0xfff, 1), Some(&[0x90][..]));
        assert_eq!(image.bytes(MODULE + 0x10, 2), Some(&[0xcc, 0xcc][..]));
        assert_eq!(image.bytes(TEXT + 0x1800, 1), None);
        let data = image.section_at(0xffff_ffff_8200_0040).unwrap();
        assert_eq!((data.name.as_str(), data.end(), data.data()), (".data", 0xffff_ffff_8200_1000, &[][..]));
        assert_eq!(image.symbol("cpu_number"), Some(0x40));
        assert_eq!(image.what(), "the running kernel");
    }

    #[test]
    fn what_is_sent_is_what_is_there() {
        // The module calls `second`.
        let mut core = core();
        let distance = i32::try_from(0x100 - 0x4000_0015i64 + 0x100_0000).unwrap();
        core[0x3010] = 0xe8;
        core[0x3011..0x3015].copy_from_slice(&distance.to_le_bytes());
        let captured =
            |wanted: fn(Option<&str>) -> bool| at_places(KALLSYMS, &core, |p| capture(p, wanted)).unwrap();
        let code = LiveCode::unpack(&captured(|_| true).pack()).unwrap();
        assert_eq!(code.modules().collect::<Vec<_>>(), ["greeter"]);
        let kernel = code.image(None);
        assert_eq!(kernel.bytes(TEXT + 0xfff, 1), Some(&[0x90][..]));
        assert_eq!(kernel.functions().len(), 2);
        let only = LiveCode::unpack(&captured(|module| module == Some("greeter")).pack()).unwrap();
        for code in [&code, &only] {
            let module = code.image(Some("greeter"));
            let names: Vec<_> = module.functions().iter().map(|function| function.name.as_str()).collect();
            assert_eq!(names, ["hello"]);
            let imports: Vec<_> = module.imports().iter().collect();
            assert_eq!(imports, [(&(TEXT + 0x100), &"second".to_owned())]);
            assert_eq!(module.symbol("cpu_number"), Some(0x40));
        }
        assert!(only.image(None).sections().is_empty());
        let packed = code.pack();
        for length in 0..packed.len() {
            let _any = LiveCode::unpack(&packed[..length]);
        }
        assert!(LiveCode::unpack(b"").is_err());
    }

    #[test]
    fn what_is_hidden_is_told() {
        let message = |kallsyms: &str, core: &[u8]| loaded(kallsyms, core).err().unwrap().to_string();
        let zeros = message("0000000000000000 T _stext\n0000000000000000 T _etext\n", &core());
        assert!(zeros.contains("shows no addresses; run this as root"), "{zeros}");
        assert!(message(KALLSYMS, b"").contains("CONFIG_PROC_KCORE"));
        assert!(message(KALLSYMS, &core()[..0x2000]).contains(".rodata"));
        assert!(message("ffffffff81000000 T _stext", &core()).contains("lacks _stext or _etext"));
        let far = KALLSYMS.replace("ffffffff81001000 T _etext", "ffffffffffffffff T _etext");
        assert!(message(&far, &core()).contains("larger than any kernel's"));
    }

    #[test]
    fn damage_is_an_error() {
        for at in 0..0xb0 {
            let mut core = core();
            core[at] ^= 0xff;
            let _any = loaded(KALLSYMS, &core);
        }
    }
}
