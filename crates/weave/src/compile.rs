//! C to a BPF object, by clang.
//!
//! Objects are kept under the hash of all that went into them ([`cache`]). The folder of a compilation is
//! temporary.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};
use xweave_aspect::{Aspects, Diagnostic, Severity, Span};
use xweave_guard::private::Dir;

use crate::Domain;
use crate::cache::{self, Entry};
use crate::emit::{self, Emitted, Program};
use crate::prelude;

const OBJECT: &str = "advice.o";

const ARGUMENTS: [&str; 18] = [
    "-target",
    "bpf",
    "-mcpu=v3",
    "-O2",
    "-g",
    "-Wall",
    "-Wno-unused",
    "-Wno-address-of-packed-member",
    "-Wno-embedded-directive",
    "-Wno-parentheses-equality",
    "-Werror=implicit-function-declaration",
    "-fno-color-diagnostics",
    "-fno-caret-diagnostics",
    "-ferror-limit=50",
    "-I.",
    "-c",
    emit::ADVICE,
    "-o",
];

/// The C compiler: what `XWEAVE_CLANG` says, or else `clang` or `clang-21` … `clang-14` of the path.
pub fn find_clang() -> Option<PathBuf> {
    if let Some(wanted) = std::env::var_os("XWEAVE_CLANG").filter(|wanted| !wanted.is_empty()) {
        return Some(wanted.into());
    }
    let versions = (14..=21).rev().map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_owned()).chain(versions).find_map(|name| in_path(&name))
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The object of a domain's programs, and the compiler's warnings about the user's code.
pub(crate) fn compile(
    aspects: &Aspects,
    domain: &Domain<'_>,
    programs: &[Program<'_>],
    emitted: &Emitted,
    cache: &Path,
) -> Result<(Vec<u8>, Vec<Diagnostic>), Vec<Diagnostic>> {
    let general = |message: String| vec![Diagnostic::general(message)];
    let clang = find_clang().ok_or_else(|| {
        let message = "there is no clang in the path, which compiles advice";
        vec![Diagnostic::general(message).with_help("apt install clang")]
    })?;
    let messages = Messages { aspects, domain, programs, emitted };
    let compiled = compile_once(&clang, &files(aspects, emitted), cache).map_err(general)?;
    match compiled.object {
        Some(object) => {
            let mut warnings = messages.warnings(&compiled.log);
            let unused = |reason| format!("what was kept of an earlier compilation is not used: {reason}");
            warnings.extend(compiled.unused.map(|reason| Diagnostic::general(unused(reason)).as_warning()));
            Ok((object, warnings))
        }
        None => Err(messages.errors(&compiled.log)),
    }
}

/// What came of a compilation.
struct Compiled {
    /// None if it failed.
    object: Option<Vec<u8>>,
    /// What clang said.
    log: String,
    /// Why what was kept is not used.
    unused: Option<String>,
}

/// Compiles these files, or takes what came of them before.
fn compile_once(clang: &Path, files: &[(String, &str)], cache: &Path) -> Result<Compiled, String> {
    let version = run(Command::new(clang).arg("--version"))?;
    let name = format!("{}.advice", key(files, &version.stdout));
    let dir = cache::open(cache).map_err(|error| error.to_string())?;
    let unused = match Entry::read(&dir, &name) {
        Ok(Some(Entry { object, log })) => return Ok(Compiled { object: Some(object), log, unused: None }),
        Ok(None) => None,
        Err(reason) => Some(reason),
    };
    let folder = Folder::new(&dir)?;
    let (made, log) = make(clang, files, &folder)?;
    if !made {
        return Ok(Compiled { object: None, log, unused });
    }
    let object = folder.0.join(OBJECT);
    let object = fs::read(&object).map_err(|error| unwritable(&object, &error))?;
    let entry = Entry { object, log };
    entry.keep(&dir, &name).map_err(|error| error.to_string())?;
    Ok(Compiled { object: Some(entry.object), log: entry.log, unused })
}

/// The object of built-in probes; `own` are the files besides those that every program has, and one of them is
/// [`emit::ADVICE`].
pub(crate) fn compile_own(own: Vec<(String, &str)>, cache: &Path) -> Result<Vec<u8>, String> {
    let clang = find_clang().ok_or("there is no clang in the path: apt install clang")?;
    let mut files: Vec<(String, &str)> = prelude::files();
    files.extend(own);
    let compiled = compile_once(&clang, &files, cache)?;
    compiled.object.ok_or(compiled.log)
}

/// The object of a C file with programs of its own, which includes the prelude and is compiled as advice is:
/// so that the prelude can be tested and measured.
pub fn compile_c(text: &str, cache: &Path) -> Result<Vec<u8>, String> {
    let clang = find_clang().ok_or("there is no clang in the path: apt install clang")?;
    let mut files: Vec<(String, &str)> = prelude::files();
    files.push((emit::ADVICE.to_owned(), text));
    let dir = cache::open(cache).map_err(|error| error.to_string())?;
    let folder = Folder::new(&dir)?;
    let (made, log) = make(&clang, &files, &folder)?;
    if !made {
        return Err(log);
    }
    let object = folder.0.join(OBJECT);
    fs::read(&object).map_err(|error| unwritable(&object, &error))
}

/// Has clang make an object of these files. Gives whether it could, and what it said.
fn make(clang: &Path, files: &[(String, &str)], folder: &Folder) -> Result<(bool, String), String> {
    for (name, text) in files {
        let path = folder.0.join(name);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| unwritable(&path, &error))?;
    }
    let mut command = Command::new(clang);
    // Whatever the user's language is, its messages are to be understood here.
    command.args(ARGUMENTS).arg(OBJECT).current_dir(&folder.0).env("LC_ALL", "C");
    let output = run(&mut command)?;
    if let Some(strip) = strip(clang).filter(|_| output.status.success()) {
        // Removes DWARF, which nobody reads, and keeps BTF. If it cannot, the object is only larger.
        let _ = Command::new(strip).arg("-g").arg(folder.0.join(OBJECT)).output();
    }
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn unwritable(what: &Path, error: &io::Error) -> String {
    format!("{} cannot be written: {error}", what.display())
}

/// All that clang reads, by name.
fn files<'a>(aspects: &'a Aspects, emitted: &'a Emitted) -> Vec<(String, &'a str)> {
    let own = [(emit::ADVICE, emitted.advice.as_str()), (emit::KERNEL, emitted.kernel.as_str())];
    let mut files: Vec<(String, &str)> = prelude::files();
    files.extend(own.map(|(name, text)| (name.to_owned(), text)));
    files.extend(emitted.carriers.iter().map(|carrier| (format!("carriers/{}", carrier.name), carrier.text)));
    for (file, source) in aspects.sources.iter().enumerate() {
        files.push((emit::source_file(aspects, file), &source.text));
    }
    files
}

fn key(files: &[(String, &str)], version: &[u8]) -> String {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    };
    add(version);
    ARGUMENTS.iter().for_each(|argument| add(argument.as_bytes()));
    for (name, text) in files {
        add(name.as_bytes());
        add(text.as_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn run(command: &mut Command) -> Result<Output, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|error| format!("{program} cannot be run: {error}; is XWEAVE_CLANG right?"))
}

/// The tool beside a compiler: `llvm-strip-14` beside `clang-14`.
fn strip(clang: &Path) -> Option<PathBuf> {
    let name = clang.file_name()?.to_str()?.strip_prefix("clang").unwrap_or_default();
    let name = format!("llvm-strip{name}");
    let beside = clang.with_file_name(&name);
    if beside.is_file() { Some(beside) } else { in_path(&name) }
}

/// A folder for one compilation, removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(cache: &Dir) -> Result<Self, String> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let nth = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tmp-{}-{nth}", std::process::id());
        let folder = cache.path_of(&name);
        // One of a process that was killed, and had the same number.
        let _ = fs::remove_dir_all(&folder);
        cache.create_dir(&name).map_err(|error| error.to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Turns what clang says into what the user is told.
struct Messages<'a> {
    aspects: &'a Aspects,
    domain: &'a Domain<'a>,
    programs: &'a [Program<'a>],
    emitted: &'a Emitted,
}

impl Messages<'_> {
    fn warnings(&self, log: &str) -> Vec<Diagnostic> {
        self.users(log, "warning").into_iter().map(Diagnostic::as_warning).collect()
    }

    fn errors(&self, log: &str) -> Vec<Diagnostic> {
        let mut errors = self.users(log, "error");
        if errors.is_empty() {
            let shown: Vec<_> = log.lines().filter(|line| !line.contains("warning: ")).take(20).collect();
            let message = format!(
                "what is generated for domain `{}` (kernel {}) does not compile:\n{}",
                self.domain.name,
                self.domain.kernel.release(),
                shown.join("\n")
            );
            errors.push(Diagnostic::general(message));
        }
        if !self.emitted.missing.is_empty() {
            let missing: Vec<_> = self.emitted.missing.iter().map(|tag| format!("`{tag}`")).collect();
            let help = format!(
                "the type information of domain `{}` has no structure {}: is a module not loaded?",
                self.domain.name,
                missing.join(", ")
            );
            errors = errors.into_iter().map(|error| error.with_help(help.clone())).collect();
        }
        errors
    }

    /// Messages of this severity about the user's code, each once.
    fn users(&self, log: &str, severity: &str) -> Vec<Diagnostic> {
        let mut found: Vec<Diagnostic> = Vec::new();
        for line in log.lines() {
            let Some((span, of, message)) = self.parse(line) else { continue };
            let message = message.split(" [-W").next().unwrap_or(message);
            if of.strip_prefix("fatal ").unwrap_or(of) != severity {
                continue;
            }
            let mut diagnostic = self.aspects.error(span, message);
            let help = match message.split('\'').collect::<Vec<_>>()[..] {
                ["use of undeclared identifier ", ..] => self.parameters(span),
                ["no member named ", member, " in ", record, ..] => self.members(record, member),
                _ => None,
            };
            if let Some(help) = help {
                diagnostic = diagnostic.with_help(help);
            }
            if !found.contains(&diagnostic) {
                found.push(diagnostic);
            }
        }
        debug_assert!(found.iter().all(|diagnostic| diagnostic.severity == Severity::Error));
        found
    }

    /// `aspect0/x.aspect:12:5: error: expected ';'`, if it is about a source.
    fn parse<'l>(&self, line: &'l str) -> Option<(Span, &'l str, &'l str)> {
        let (file, rest) = (0..self.aspects.sources.len()).find_map(|file| {
            let name = emit::source_file(self.aspects, file);
            Some((file, line.strip_prefix(name.as_str())?.strip_prefix(':')?))
        })?;
        let (number, rest) = rest.split_once(':')?;
        let (column, rest) = rest.split_once(": ")?;
        let (severity, message) = rest.split_once(": ")?;
        let span = Span { file, line: number.parse().ok()?, column: column.parse().ok()?, length: 1 };
        Some((span, severity, message))
    }

    /// What members there are that are like this one.
    fn members(&self, record: &str, member: &str) -> Option<String> {
        let tag = record.split(' ').nth(1)?;
        let kernel = self.domain.kernel;
        let near =
            kernel.tagged(tag).into_iter().flat_map(|record| kernel.nearest_members(record, member, 3));
        let near: Vec<_> = near.map(|name| format!("`{name}`")).collect();
        (!near.is_empty())
            .then(|| format!("in kernel {}, `{record}` has {}", kernel.release(), near.join(", ")))
    }

    /// What variables there are in the code at a place.
    fn parameters(&self, span: Span) -> Option<String> {
        let program = self.programs.iter().find(|program| {
            program.woven().iter().any(|woven| {
                let codes = woven.condition.codes().into_iter().chain(woven.item.codes());
                codes.into_iter().any(|code| {
                    let last = code.tokens.last().map_or(code.span.line, |last| last.span.line);
                    code.span.file == span.file && (code.span.line..=last).contains(&span.line)
                })
            })
        })?;
        let point = &program.points[0].at;
        let names: Vec<_> = point.names().iter().map(|name| format!("`{name}`")).collect();
        Some(match names.is_empty() {
            true => format!("{} has no parameters", point.described()),
            false => format!("the parameters of {} are {}", point.described(), names.join(", ")),
        })
    }
}
