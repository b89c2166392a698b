//! Join points that are instructions: what the access index of a domain's code knows of them.

use std::collections::HashSet;

use xweave_access::{Level, Place, Site, in_file};
use xweave_aspect::code::Code;
use xweave_aspect::syntax::{Access, How, Ident, Pointcut};
use xweave_code::Kernel;
use xweave_wire::plan::VariablePlace;

use crate::value::{Location, Value, pointer, structure};
use crate::{CodeIndex, unhookable};

/// An instruction that touches memory, as a join point.
#[derive(Clone)]
pub(crate) struct Touch<'i> {
    pub(crate) code: &'i CodeIndex,
    pub(crate) site: Site<'i>,
    /// What the pointcut calls the structure: the first `access` of it that selects the instruction.
    structure: &'i Access,
    /// Whether the join point is behind the instruction.
    pub(crate) after: bool,
    /// Where the kernel is told that it is, if its function's name is that of several: another function's name,
    /// and how far it is from that one's beginning.
    pub(crate) told: Option<(&'i str, u32)>,
}

impl<'i> Touch<'i> {
    pub(crate) fn function(&self) -> &str {
        self.site.function
    }

    /// Without the name of its part.
    pub(crate) fn whole_function(&self) -> &str {
        self.site.whole_function()
    }

    pub(crate) fn module(&self) -> Option<&str> {
        self.site.module.or(self.code.module.as_deref())
    }

    /// Of the join point, from the function's beginning in bytes.
    pub(crate) fn offset(&self) -> u32 {
        let length = self.site.length.filter(|_| self.after).unwrap_or(0);
        self.site.offset.saturating_add(length.into())
    }

    /// How the kernel is told where it is: a function's name, and the bytes from its beginning.
    pub(crate) fn told(&self) -> (&str, u32) {
        self.told.unwrap_or((self.function(), self.offset()))
    }

    /// As linked.
    pub(crate) fn address(&self) -> u64 {
        self.site.address
    }

    /// Why there is no join point behind the instruction, where one is wanted.
    pub(crate) fn unhookable(&self) -> Option<&'static str> {
        let behind =
            "what lies behind the instruction is executed after others too, or the pointer is gone there";
        let reason = unhookable::why(self.whole_function());
        reason.or((self.after && self.site.length.is_none()).then_some(behind))
    }

    pub(crate) fn line(&self) -> Option<(&str, u32)> {
        self.site.line
    }

    /// Whether an atom that join points decide selects this one.
    pub(crate) fn selects(&self, atom: &Pointcut, means: &impl Fn(Option<&Ident>) -> bool) -> bool {
        match atom {
            Pointcut::Access(access) => means(access.domain.as_ref()) && self.touches(access),
            Pointcut::WithinFunction(names) => names.iter().any(|name| {
                means(name.domain.as_ref()) && xweave_text::matches(&name.pattern, self.site.whole_function())
            }),
            Pointcut::WithinFile(names) => {
                let file = self.code.index.file_of(&self.site);
                file.is_some_and(|file| {
                    names.iter().any(|name| means(name.domain.as_ref()) && in_file(&name.path(), file))
                })
            }
            Pointcut::Target(_) => self.site.base.is_some(),
            Pointcut::LocalVar(of) => self.code.index.variable(&self.site, &of.of.text).is_some(),
            _ => false,
        }
    }

    fn touches(&self, access: &Access) -> bool {
        let wanted = match access.how {
            None => true,
            Some(How::Read) => self.site.reads,
            Some(How::Write) => self.site.writes,
        };
        wanted && self.site.path.level(&access.structure, &access.member).is_some()
    }

    /// The structure's address, to be called `name`.
    ///
    /// # Errors
    ///
    /// Why it is not to be had.
    pub(crate) fn target(&self, kernel: &Kernel, name: &str) -> Result<Value, String> {
        let here = || format!("`{}+{:#x}`", self.site.function, self.site.offset);
        let (Some((register, add)), Some(level)) = (self.site.base, self.level()) else {
            return Err(format!("the address of what is touched at {} is not in a register", here()));
        };
        // The base is that of the outermost structure.
        let outer = self.site.path.levels.first().map_or(0, |outer| outer.start);
        let add = i64::from(add) + i64::from(outer) - i64::from(level.start);
        let place = VariablePlace { register: Some(word(register).ok_or_else(here)?), add, load: false };
        Ok(pointer(kernel, &level.type_, name, Location::Place(place)))
    }

    /// The structure that the pointcut names.
    fn level(&self) -> Option<&'i Level> {
        let named = self.site.path.level(&self.structure.structure, &self.structure.member);
        named.or(self.site.path.levels.first())
    }

    /// The argument, by its place among those in registers, that is the address of the structure, and what
    /// that is called.
    pub(crate) fn argument(&self) -> Option<(usize, &'i str)> {
        let level = self.level()?;
        let outermost = self.site.path.levels.first()?;
        let same = outermost.start == level.start;
        self.site.parameter.filter(|_| same).map(|nth| (nth.into(), &*level.type_))
    }

    /// A local variable, to be called `name`.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub(crate) fn local(&self, kernel: &Kernel, of: &str, name: &str) -> Option<Result<Value, String>> {
        if self.after && self.code.index.has_variable(&self.site, of) {
            return Some(Err("is known before the instruction only: leave out `after`".into()));
        }
        let Some(found) = self.code.index.variable(&self.site, of) else {
            // What no variable of the function is called may be a macro, a constant, a function.
            return self
                .code
                .index
                .has_variable(&self.site, of)
                .then(|| Err(format!("has no place at {:#x} where it can be read", self.site.offset)));
        };
        let place = match found.place {
            Place::Register { register, add } => {
                VariablePlace { register: word(register), add: add.into(), load: false }
            }
            Place::Memory { register, add } => {
                VariablePlace { register: word(register), add: add.into(), load: true }
            }
            Place::Constant(value) => VariablePlace { register: None, add: value.cast_signed(), load: false },
        };
        let type_ = found.type_.trim();
        let pointee = type_.strip_suffix('*').map(str::trim_end);
        let of = pointee.and_then(|pointee| structure(kernel, pointee));
        let tags = Code::lex(type_);
        let types = tags.tags().flat_map(|tag| kernel.tagged(tag)).collect();
        let declaration = match type_ {
            // Functions and arrays are declared around their names, and nothing is lost by the address alone.
            _ if type_.contains(['(', '[']) => format!("void *{name}"),
            _ if type_.ends_with('*') => format!("{type_}{name}"),
            _ => format!("{type_} {name}"),
        };
        Some(Ok(Value { declaration, types, location: Location::Place(place), unverified_type: of }))
    }
}

/// The word of `struct pt_regs` (arch/x86/include/asm/ptrace.h) that holds a register.
fn word(register: &str) -> Option<u8> {
    let words = [
        "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
    ];
    let found = words.iter().position(|other| *other == register);
    found.and_then(|at| u8::try_from(at).ok()).or((register == "rsp").then_some(19))
}

/// The source file of a function.
pub(crate) fn file_of<'i>(code: &'i [CodeIndex], function: &str, module: Option<&str>) -> Option<&'i str> {
    let of_module = |code: &&CodeIndex| code.module.as_deref() == module || code.module.is_none();
    code.iter().filter(of_module).find_map(|code| code.index.file_of_function(function))
}

/// The instructions that some `access` of the pointcut selects.
pub(crate) fn touches<'i>(
    pointcut: &'i Pointcut,
    code: &'i [CodeIndex],
    after: bool,
    means: &impl Fn(Option<&Ident>) -> bool,
) -> Vec<Touch<'i>> {
    let mut accesses: Vec<&'i Access> = Vec::new();
    pointcut.atoms(&mut |atom| {
        if let Pointcut::Access(access) = atom
            && means(access.domain.as_ref())
        {
            accesses.push(access);
        }
    });
    let mut touches = Vec::new();
    for code in code {
        let mut seen: HashSet<u64> = HashSet::new();
        for access in &accesses {
            for site in code.index.touching(&access.structure, &access.member, access.how) {
                // What the types merely allow is not woven.
                if site.certain && seen.insert(site.address) {
                    touches.push(Touch { code, site, structure: access, after, told: None });
                }
            }
        }
    }
    touches
}

/// The names that several functions of a domain have.
pub(crate) fn ambiguous(code: &[CodeIndex]) -> HashSet<&str> {
    let mut seen = HashSet::new();
    code.iter().flat_map(|code| code.index.function_names()).filter(|name| !seen.insert(*name)).collect()
}

/// Why an `access` can select nothing, and what there is that is like what it names.
pub(crate) fn unknown(access: &Access, code: &[CodeIndex]) -> Option<(String, Vec<String>)> {
    let levels = || code.iter().flat_map(|code| code.index.paths()).flat_map(|path| &path.levels);
    if access.structure.contains('%') {
        return None;
    }
    let mut of_structure = levels().filter(|level| level.name() == access.structure).peekable();
    if of_structure.peek().is_none() {
        let names: HashSet<&str> = levels().map(|level| level.name()).collect();
        let near = xweave_text::nearest(&access.structure, names.into_iter(), 3);
        return Some((format!("no instruction is known to touch a `{}`", access.structure), near));
    }
    let members: HashSet<&str> = of_structure
        .flat_map(|level| &level.members)
        .flat_map(|path| path.match_indices('.').map(|(at, _)| &path[..at]).chain([&**path]))
        .collect();
    if access.member.contains('%') || members.contains(access.member.as_str()) {
        return None;
    }
    let near = xweave_text::nearest(&access.member, members.into_iter(), 3);
    Some((format!("no instruction is known to touch `{}` of `{}`", access.member, access.structure), near))
}
