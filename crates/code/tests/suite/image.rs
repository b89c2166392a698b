//! What a compiler makes is loaded as it is, and whatever else is made of it does no harm.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use proptest::prelude::*;
use tempfile::TempDir;
use xweave_code::image::{Function, Image};

const SOURCE: &str = "
extern int outside(int);
extern int counter;
static const int table[4] = {1, 2, 3, 4};
int shared = 7;
int tentative;
int (*pointer)(int) = outside;
struct visible { int first; char second; } known = {1, 2};
__attribute__((noinline)) static int inner(int x) { return outside(x) + table[x & 3]; }
int outer(int x) { counter++; tentative = x; return inner(x) + shared; }
int again(int x) __attribute__((alias(\"outer\")));
";

/// What is not in the source above, so that it can be linked.
const REST: &str = "
int counter;
extern int puts(const char *);
int outside(int x) { puts(\"outside\"); return x; }
int outer(int);
int main(void) { return outer(0); }
";

/// Compiled files, until the test ends.
struct Compiled(TempDir);

impl Compiled {
    /// By gcc with these arguments, from the two sources, into a file that is called so.
    fn with(self, name: &str, arguments: &str) -> Self {
        self.gcc(name, arguments);
        self
    }

    fn gcc(&self, name: &str, arguments: &str) {
        std::fs::write(self.path("source.c"), SOURCE).unwrap();
        std::fs::write(self.path("rest.c"), REST).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.current_dir(&self.0).args(["-O1", "-o", name]).args(arguments.split_whitespace());
        assert!(gcc.status().unwrap().success(), "{arguments}");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn image(&self, name: &str) -> Image {
        Image::open(&self.path(name)).unwrap()
    }
}

fn compiled(name: &str, arguments: &str) -> Compiled {
    Compiled(tempfile::tempdir().unwrap()).with(name, arguments)
}

fn function<'a>(image: &'a Image, name: &str) -> &'a Function {
    let named =
        |function: &&Function| function.name == name || function.aliases.iter().any(|alias| alias == name);
    image.functions().iter().find(named).unwrap()
}

/// Where the calls in a function lead to: whatever follows the byte of a call instruction.
fn calls(image: &Image, name: &str) -> Vec<u64> {
    let function = function(image, name);
    let code = image.bytes(function.address, usize::try_from(function.size).unwrap()).unwrap();
    let places = (0..code.len().saturating_sub(4)).filter(|at| code[*at] == 0xe8);
    let target = |at: usize| {
        let distance = i32::from_le_bytes(code[at + 1..at + 5].try_into().unwrap());
        let next = function.address + u64::try_from(at).unwrap() + 5;
        next.wrapping_add_signed(distance.into())
    };
    places.map(target).collect()
}

fn word(image: &Image, address: u64) -> u64 {
    u64::from_le_bytes(image.bytes(address, 8).unwrap().try_into().unwrap())
}

#[test]
fn object_files_are_laid_out_and_linked() {
    let compiled = compiled("a.o", "-c source.c -fno-pic -fcommon -mcmodel=small");
    let image = compiled.image("a.o");
    let outer = function(&image, "outer");
    assert!(outer.global && !function(&image, "inner").global);
    assert_eq!(outer.aliases, ["again"]);
    assert_eq!(image.symbol("again"), Some(outer.address));
    assert!(image.section_at(outer.address).unwrap().executable);
    assert!(image.sections().iter().all(|section| section.address >= 0x1_0000));
    assert!(image.sections().windows(2).all(|pair| pair[0].end() <= pair[1].address));

    let inner = function(&image, "inner").address;
    assert!(calls(&image, "outer").contains(&inner));
    let outside = calls(&image, "inner").into_iter().find_map(|target| image.imports().get(&target));
    assert_eq!(outside.map(String::as_str), Some("outside"));
    assert!(image.imports().values().any(|name| name == "counter"));
    let pointee = word(&image, image.symbol("pointer").unwrap());
    assert_eq!(image.imports()[&pointee], "outside");

    let known = image.objects().iter().find(|object| object.name == "known").unwrap();
    assert_eq!((known.size, image.bytes(known.address, 5)), (8, Some(&[1, 0, 0, 0, 2][..])));
    let tentative = image.section_at(image.symbol("tentative").unwrap()).unwrap();
    assert_eq!((tentative.data().len(), tentative.size(), tentative.writable), (0, 4, true));
    assert_eq!(image.skipped_relocations(), 0);
}

#[test]
fn position_independent_object_files_have_pointers_to_what_is_elsewhere() {
    let image = compiled("a.o", "-c source.c -fPIC -fno-plt").image("a.o");
    assert_eq!(image.skipped_relocations(), 0);
    let got = image.sections().iter().find(|section| section.name == ".got").unwrap();
    let slots: Vec<u64> = (got.address..got.end()).step_by(8).collect();
    let named =
        |name: &str| slots.iter().copied().find(|slot| image.imports().get(slot).is_some_and(|n| n == name));
    let counter = named("counter").unwrap();
    assert_eq!(image.imports()[&word(&image, counter)], "counter");
    // Of the file's own variables, too, others might be used instead.
    assert!(slots.iter().any(|slot| word(&image, *slot) == image.symbol("shared").unwrap()));
}

#[test]
fn calls_into_libraries_lead_to_names() {
    for flags in ["", "-fcf-protection=none", "-static-pie -fcf-protection", "-no-pie -Wl,-z,lazy"] {
        let image = compiled("program", &format!("source.c rest.c {flags}")).image("program");
        assert!(image.build_id().is_none_or(|id| id.len() == 20));
        assert_eq!(calls(&image, "main"), [function(&image, "outer").address]);
        let called = calls(&image, "outside")[0];
        let name = image.imports().get(&called).or(image
            .functions()
            .iter()
            .find(|f| f.address == called)
            .map(|f| &f.name));
        assert!(name.is_some_and(|name| name.contains("puts")), "{flags}: {called:#x} {name:?}");
    }
    let image = compiled("library.so", "-shared -fPIC source.c").image("library.so");
    let stub = calls(&image, "inner")[0];
    assert_eq!(image.imports()[&stub], "outside");
    assert_eq!(image.section_at(stub).map(|section| &section.name[..4]), Some(".plt"));
}

#[test]
fn stripped_libraries_have_the_functions_that_they_export() {
    let image = compiled("library.so", "-shared -fPIC -s source.c").image("library.so");
    assert!(!function(&image, "outer").aliases.is_empty());
    assert!(image.symbol("inner").is_none() && image.symbol("shared").is_some());
}

#[test]
fn debug_sections_are_the_same_however_they_are_kept() {
    for how in ["-c", "-shared -fPIC"] {
        // One folder, since its name is in there too.
        let compiled = Compiled(tempfile::tempdir().unwrap());
        let debug = |packing: &str| {
            compiled.gcc("a", &format!("{how} -g -gno-record-gcc-switches source.c {packing}"));
            let image = compiled.image("a");
            let section = |name: &str| image.debug_section(name).unwrap().into_owned();
            assert!(image.debug_section(".debug_nothing").is_none());
            (section(".debug_info"), section(".debug_abbrev"), section(".debug_line"))
        };
        let plain = debug("-gz=none");
        assert!(!plain.0.is_empty());
        for packing in ["-gz=zlib", "-gz=zlib-gnu"] {
            assert!(debug(packing) == plain, "{how} {packing}");
        }
    }
}

#[test]
fn debug_sections_are_linked() {
    let compiled = compiled("a.o", "-c -g -fno-pic source.c");
    let image = compiled.image("a.o");
    let info = image.debug_section(".debug_info").unwrap();
    let address = function(&image, "outer").address.to_le_bytes();
    assert!(info.windows(8).any(|there| there == address));
}

#[test]
fn modules_may_be_compressed() {
    use std::io::Write;
    let compiled = compiled("a.o", "-c source.c");
    let bytes = std::fs::read(compiled.path("a.o")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
    xz.write_all(&bytes).unwrap();
    for packed in [gzip.finish().unwrap(), xz.finish().unwrap()] {
        let image = Image::from_bytes("a.ko", packed).unwrap();
        assert_eq!(image.functions(), compiled.image("a.o").functions());
    }
}

/// Everything that an image can be asked, so that what is damaged in it is noticed.
fn ask(bytes: Vec<u8>) {
    let size = bytes.len();
    let Ok(image) = Image::from_bytes("damaged", bytes) else { return };
    for function in image.functions() {
        let code = image.bytes(function.address, usize::try_from(function.size).unwrap());
        assert!(code.is_none_or(|code| code.len() <= 2 * size));
    }
    for section in image.sections() {
        assert!(section.data().len() <= 2 * size + 4096);
        let _any = image.bytes(section.address, section.data().len());
        let _any = image.bytes(section.end(), 1);
    }
    for name in [".debug_info", ".debug_line", ".debug_str", ".text"] {
        let _any = image.debug_section(name);
    }
    let _any = (image.symbol("outer"), image.btf(), image.percpu(), image.build_id(), image.imports().len());
}

/// An object file, a library and a program, with debug information that is compressed in one.
static FILES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let compiled = compiled("a.o", "-c -g source.c").with("a.so", "-shared -fPIC -g -gz source.c");
    let compiled = compiled.with("a", "source.c rest.c");
    ["a.o", "a.so", "a"].map(|name| std::fs::read(compiled.path(name)).unwrap())
});

#[test]
fn files_that_end_early_do_no_harm() {
    for bytes in FILES.iter() {
        for length in (0..bytes.len()).step_by(97) {
            ask(bytes[..length].to_vec());
        }
    }
}

/// The headers of sections, where damage does most.
fn section_table(bytes: &[u8]) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap())).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_files_do_no_harm(
        file in 0usize..3,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        in_headers in any::<bool>(),
    ) {
        let mut bytes = FILES[file].clone();
        let (table, length) = (section_table(&bytes), bytes.len());
        for (at, with) in flips {
            let at = if in_headers { table + at.index(length - table) } else { at.index(length) };
            bytes[at] ^= with;
        }
        ask(bytes);
    }

    #[test]
    fn any_bytes_do_no_harm(start in prop::sample::select(vec![&b"\x7fELF\x02\x01\x01"[..], b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x5d\0\0", b"BZh9", b"\x02\x21\x4c\x18", b"\x28\xb5\x2f\xfd", b""]), rest in prop::collection::vec(any::<u8>(), 0..400)) {
        ask([start, &rest].concat());
    }
}
