//! C to a BPF object, by clang.
//!
//! Objects are kept under the hash of all that went into them. The folder of a compilation is
//! temporary; only the object is moved into the cache, at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use xweave_aspect::{Aspects, Diagnostic, Severity, Span};
use xweave_guard::confine::job;

use crate::Domain;
use crate::cache::{self, Entry};
use crate::draft::Files;
use crate::emit::{self, Emitted, Program};
use crate::error::Error;
use crate::lines;
use crate::prelude;

const OBJECT: &str = "advice.o";

const ARGUMENTS: [&str; 19] = [
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
    "-Werror=return-type",
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

/// What came of a compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiled {
    /// None if it failed.
    pub object: Option<Vec<u8>>,
    /// What clang said.
    pub log: String,
}

/// The C compiler, and which it is.
#[derive(Clone, Debug)]
pub struct Compiler {
    clang: PathBuf,
    /// What it says of itself.
    version: Vec<u8>,
}

impl Compiler {
    /// That of [`find_clang`].
    ///
    /// # Errors
    ///
    /// [`Error::NoCompiler`] and [`Error::Run`].
    pub fn find() -> Result<Self, Error> {
        let clang = find_clang().ok_or(Error::NoCompiler)?;
        let version = run(Command::new(&clang).arg("--version"))?.stdout;
        Ok(Self { clang, version })
    }

    /// The program.
    pub fn path(&self) -> &Path {
        &self.clang
    }

    /// What objects of these files are kept under: the hash of all that the compiler sees.
    pub fn key(&self, files: &Files<'_>) -> String {
        key(files, &self.version, &ARGUMENTS)
    }

    /// Compiles these files, or takes what came of them before.
    ///
    /// # Errors
    ///
    /// That the compiler cannot be run, or its object not be written.
    pub fn compile(
        &self,
        files: &Files<'_>,
        cache: &Path,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<Compiled, Error> {
        let key = self.key(files);
        match Compiled::kept(&key, cache) {
            Ok(Some(kept)) => return Ok(kept),
            Ok(None) => {}
            Err(reason) => warnings.push(unused(&reason)),
        }
        let folder = WorkFolder::new(cache)?;
        let compiled = compile_in(&self.clang, files, &folder.0)?;
        compiled.keep(&key, cache)?;
        Ok(compiled)
    }
}

impl Compiled {
    /// What came of it before; none if nothing is kept.
    ///
    /// # Errors
    ///
    /// Why what is kept is not used: somebody else may have written it, or it is not what was kept.
    pub fn kept(key: &str, cache: &Path) -> Result<Option<Self>, Error> {
        let dir = cache::open(cache)?;
        let entry = Entry::read(&dir, &entry_name(key))?;
        Ok(entry.map(|Entry { object, log }| Self { object: Some(object), log }))
    }

    /// Keeps an object, whole or not at all. What failed is not kept.
    ///
    /// # Errors
    ///
    /// That it cannot be written.
    pub fn keep(&self, key: &str, cache: &Path) -> Result<(), Error> {
        let Some(object) = &self.object else { return Ok(()) };
        let entry = Entry { object: object.clone(), log: self.log.clone() };
        entry.keep(&cache::open(cache)?, &entry_name(key))?;
        Ok(())
    }
}

/// That what is kept is not used, but made anew: for people.
pub fn unused(reason: &Error) -> Diagnostic {
    Diagnostic::general(format!("what was kept of an earlier compilation is not used: {reason}")).as_warning()
}

fn entry_name(key: &str) -> String {
    format!("{key}.advice")
}

/// Compiles files in a folder that is empty.
///
/// # Errors
///
/// That the compiler cannot be run, or the files not be written.
pub fn compile_in(clang: &Path, files: &Files<'_>, folder: &Path) -> Result<Compiled, Error> {
    let (made, log) = make(clang, files, folder)?;
    if !made {
        return Ok(Compiled { object: None, log });
    }
    let path = folder.join(OBJECT);
    match fs::read(&path) {
        Ok(bytes) => Ok(Compiled { object: Some(bytes), log }),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// The object of a C file with programs of its own, which may include the prelude and is compiled as advice is; or what came of
/// it before.
///
/// # Errors
///
/// There is no compiler, it cannot be run, or its object not be written; what is wrong with the text.
pub fn compile_c(text: &str, cache: &Path) -> Result<Vec<u8>, Error> {
    let mut files: Files<'_> = prelude::files();
    files.extend(prelude::all_headers().map(|(name, text)| (name.to_owned(), text)));
    files.push((emit::ADVICE.to_owned(), text));
    // Why what was kept is not used matters to nobody here: it is made anew.
    let compiled = Compiler::find()?.compile(&files, cache, &mut Vec::new())?;
    compiled.object.ok_or(Error::C(compiled.log))
}

/// Has clang make an object of these files. Gives whether it could, and what it said.
fn make(clang: &Path, files: &Files<'_>, folder: &Path) -> Result<(bool, String), Error> {
    for (name, text) in files {
        let path = folder.join(name);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text))
            .map_err(|source| Error::Write { path, source })?;
    }
    let mut command = Command::new(clang);
    // Whatever the user's language is, its messages are to be understood here.
    command.args(ARGUMENTS).arg(OBJECT).current_dir(folder).env("LC_ALL", "C");
    job::end_with_this_process(&mut command);
    let output = run(&mut command)?;
    if let Some(strip) = strip(clang).filter(|_| output.status.success()) {
        // Removes DWARF, which nobody reads, and keeps BTF. If it cannot, the object is only larger.
        let _ = Command::new(strip).arg("-g").arg(OBJECT).current_dir(folder).output();
    }
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn key(files: &Files<'_>, version: &[u8], arguments: &[&str]) -> String {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    };
    add(version);
    arguments.iter().for_each(|argument| add(argument.as_bytes()));
    for (name, text) in files {
        add(name.as_bytes());
        add(text.as_bytes());
    }
    xweave_text::hex(&hash.finalize())
}

fn run(command: &mut Command) -> Result<Output, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|source| Error::Run { program, source })
}

/// The tool beside a compiler: `llvm-strip-14` beside `clang-14`.
fn strip(clang: &Path) -> Option<PathBuf> {
    let name = clang.file_name()?.to_str()?.strip_prefix("clang").unwrap_or_default();
    let name = format!("llvm-strip{name}");
    let beside = clang.with_file_name(&name);
    if beside.is_file() { Some(beside) } else { in_path(&name) }
}

/// A folder for one compilation, removed when it is dropped.
pub struct WorkFolder(PathBuf);

impl WorkFolder {
    /// A new one in the cache.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn new(cache: &Path) -> Result<Self, Error> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let dir = cache::open(cache)?;
        let nth = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tmp-{}-{nth}", std::process::id());
        let folder = dir.path_of(&name);
        // One of a process that was killed, and had the same number.
        let _ = fs::remove_dir_all(&folder);
        dir.create_dir(&name)?;
        Ok(Self(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // What is left behind does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What to do where a function of the kernel is called.
const CALLS: &str = "kernel functions cannot be called from advice, which is a BPF program: read what is needed with \
                     READ(…), or call a BPF helper (bpf_…)";

/// The function that is called and not declared: clang 14 says that it is declared implicitly, and later ones that it is
/// undeclared.
fn function_called(message: &str) -> Option<&str> {
    match message.split('\'').collect::<Vec<_>>()[..] {
        ["implicit declaration of function " | "call to undeclared function ", name, ..] => Some(name),
        _ => None,
    }
}

/// Turns what clang says into what the user is told.
pub(crate) struct Messages<'a> {
    pub aspects: &'a Aspects,
    pub domain: &'a Domain<'a>,
    pub programs: &'a [Program<'a>],
    pub emitted: &'a Emitted,
}

impl Messages<'_> {
    pub(crate) fn warnings(&self, log: &str) -> Vec<Diagnostic> {
        self.users(log, "warning").into_iter().map(Diagnostic::as_warning).collect()
    }

    pub(crate) fn errors(&self, log: &str) -> Vec<Diagnostic> {
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
            let called = function_called(message);
            let is_call = called.is_some();
            let message = called.map_or_else(
                || message.to_owned(),
                |name| format!("advice cannot call `{name}`: it is no function of BPF or of the prelude"),
            );
            let mut diagnostic = self.aspects.error(span, &*message);
            let help = match message.split('\'').collect::<Vec<_>>()[..] {
                ["use of undeclared identifier ", ..] => self.parameters(span),
                _ if is_call => Some(CALLS.to_owned()),
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
        let span =
            Span { file, line: lines::line(number.parse().ok()?), column: column.parse().ok()?, length: 1 };
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
            program.applied().iter().any(|applied| {
                let codes = applied.condition.codes().into_iter().chain(applied.item.codes());
                codes.into_iter().any(|code| {
                    let last = code.tokens.last().map_or(code.span.line, |last| last.span.line);
                    code.span.file == span.file && (code.span.line..=last).contains(&span.line)
                })
            })
        })?;
        Some(program.points[0].at.parameters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)], version: &str, arguments: &[&str]) -> String {
        let files: Files<'_> = files.iter().map(|(name, text)| ((*name).to_owned(), *text)).collect();
        key(&files, version.as_bytes(), arguments)
    }

    #[test]
    fn an_object_is_found_for_all_that_the_compiler_saw_alone() {
        let (files, version, arguments) = ([("a.c", "int x;"), ("b.h", "")], "clang 19", ["-O2", "-g"]);
        let own = of(&files, version, &arguments);
        assert_eq!(own, of(&files, version, &arguments));
        for (what, other) in [
            ("another text", of(&[("a.c", "int y;"), ("b.h", "")], version, &arguments)),
            ("another name", of(&[("c.c", "int x;"), ("b.h", "")], version, &arguments)),
            ("another order", of(&[("b.h", ""), ("a.c", "int x;")], version, &arguments)),
            ("another file's text", of(&[("a.c", ""), ("b.h", "int x;")], version, &arguments)),
            ("a name that ends earlier", of(&[("a.", "cint x;"), ("b.h", "")], version, &arguments)),
            ("a text that ends later", of(&[("a.c", "int x;b.h")], version, &arguments)),
            ("another compiler", of(&files, "clang 18", &arguments)),
            ("other arguments", of(&files, version, &["-O1", "-g"])),
            ("fewer arguments", of(&files, version, &["-O2"])),
            ("arguments in one", of(&files, version, &["-O2-g"])),
        ] {
            assert_ne!(other, own, "{what}");
        }
    }

    #[test]
    fn a_compiler_keeps_objects_under_its_version_and_its_arguments() {
        let files = vec![("a.c".to_owned(), "int x;")];
        let compiler = |version: &str| Compiler { clang: "clang".into(), version: version.into() };
        assert_eq!(compiler("clang 19").key(&files), key(&files, b"clang 19", &ARGUMENTS));
        assert_ne!(compiler("clang 19").key(&files), compiler("clang 18").key(&files));
        assert_ne!(compiler("clang 19").key(&files), key(&files, b"clang 19", &ARGUMENTS[1..]));
    }
}
