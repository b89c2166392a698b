//! The table of targets, and the seeds of each.

use std::path::{Path, PathBuf};

use crate::{access, aspect, aspect_xml, btf, cost, dwarf, image, import, trace, wire};

/// A parser, with a check of its promises.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name, also of the program in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Runs the parser. Panics if the input breaks a promise.
    pub run: fn(&[u8]),
    /// Makes the seeds that are not files.
    pub make_seeds: fn() -> Vec<Vec<u8>>,
    /// Number of mutated inputs in a test: a second or two in release.
    pub mutations: u64,
}

/// A valid input, or one that a parser failed on in the past.
pub struct Seed {
    /// File name, or `made-N`.
    pub name: String,
    /// The input.
    pub content: Vec<u8>,
}

/// All targets, by name.
pub const TARGETS: [Target; 10] = [
    Target { name: "access", run: access::run, make_seeds: access::make_seeds, mutations: 25_000 },
    Target { name: "aspect", run: aspect::run, make_seeds: Vec::new, mutations: 1_200 },
    Target { name: "aspect_xml", run: aspect_xml::run, make_seeds: Vec::new, mutations: 20_000 },
    Target { name: "btf", run: btf::run, make_seeds: btf::make_seeds, mutations: 12_000 },
    Target { name: "cost", run: cost::run, make_seeds: cost::make_seeds, mutations: 200_000 },
    Target { name: "dwarf", run: dwarf::run, make_seeds: dwarf::make_seeds, mutations: 20_000 },
    Target { name: "image", run: image::run, make_seeds: image::make_seeds, mutations: 2_000 },
    Target { name: "import", run: import::run, make_seeds: import::make_seeds, mutations: 3_000 },
    Target { name: "trace", run: trace::run, make_seeds: trace::make_seeds, mutations: 12_000 },
    Target { name: "wire", run: wire::run, make_seeds: wire::make_seeds, mutations: 120_000 },
];

impl Target {
    /// Finds a target by name.
    pub fn find(name: &str) -> Option<&'static Self> {
        const { &TARGETS }.iter().find(|target| target.name == name)
    }

    /// Makes and reads all seeds: the same ones in the same order each time.
    pub fn load_seeds(&self) -> Vec<Seed> {
        let made = (self.make_seeds)().into_iter().enumerate();
        let mut seeds: Vec<_> =
            made.map(|(nth, content)| Seed { name: format!("made-{nth}"), content }).collect();
        let mut files = list_files(&fuzz_folder().join("seeds").join(self.name));
        if self.name == "aspect" {
            let library = list_files(&fuzz_folder().join("../aspects"));
            files.extend(
                library.into_iter().filter(|file| file.extension().is_some_and(|end| end == "aspect")),
            );
        }
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            seeds.push(Seed { name, content: read_file(&file) });
        }
        seeds
    }

    /// Reads the target's dictionary (`fuzz/NAME.dict`). Empty if there is none.
    pub fn load_words(&self) -> Vec<Vec<u8>> {
        let file = fuzz_folder().join(format!("{}.dict", self.name));
        if !file.exists() {
            return Vec::new();
        }
        let text = String::from_utf8(read_file(&file)).expect("a dictionary in UTF-8");
        text.lines().filter_map(parse_word).collect()
    }
}

/// Writes a target's seeds to the folder `XWEAVE_SEEDS`, if that variable is set: `scripts/fuzz` sets it. Must be called
/// before libFuzzer reads the folder.
pub fn write_seeds(target: &str) {
    let Some(folder) = std::env::var_os("XWEAVE_SEEDS").map(PathBuf::from) else { return };
    let target = Target::find(target).expect("a target of the table");
    for seed in target.load_seeds() {
        std::fs::write(folder.join(seed.name), seed.content).expect("a writable folder of seeds");
    }
}

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Lists the files of a folder by name. Empty if there is no such folder.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn read_file(file: &Path) -> Vec<u8> {
    std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Parses a line of a dictionary of libFuzzer: `"word"` with the escapes `\\`, `\"` and `\xAB`. `None` without a word.
fn parse_word(line: &str) -> Option<Vec<u8>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (_, quoted) = line.split_once('"')?;
    let mut bytes = quoted.strip_suffix('"')?.bytes();
    let mut word = Vec::new();
    while let Some(byte) = bytes.next() {
        word.push(match byte {
            b'\\' => match bytes.next()? {
                b'x' => {
                    let digits = [bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                escaped => escaped,
            },
            _ => byte,
        });
    }
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_words_of_dictionaries() {
        assert_eq!(parse_word(r#""xflow ""#), Some(b"xflow ".to_vec()));
        assert_eq!(parse_word(r#"name="a\"\\\x0a""#), Some(b"a\"\\\n".to_vec()));
        assert_eq!(parse_word("# \"a comment\""), None);
        assert_eq!(parse_word(""), None);
    }

    #[test]
    fn reads_all_words_of_the_dictionaries() {
        for name in ["aspect", "aspect_xml"] {
            let target = Target::find(name).expect("a target");
            let text = std::fs::read_to_string(fuzz_folder().join(format!("{name}.dict"))).unwrap();
            let lines = text.lines().filter(|line| line.contains('"') && !line.starts_with('#'));
            assert_eq!(target.load_words().len(), lines.count());
        }
    }

    #[test]
    fn seeds_are_the_same_each_time() {
        for target in TARGETS {
            let (first, second) = (target.load_seeds(), target.load_seeds());
            assert!(!first.is_empty(), "{}", target.name);
            assert_eq!(first.len(), second.len());
            for (one, other) in first.iter().zip(&second) {
                assert_eq!(one.name, other.name, "{}", target.name);
                assert!(one.content == other.content, "{}: {} differs", target.name, one.name);
            }
        }
    }
}
