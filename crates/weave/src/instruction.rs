//! Join points that are instructions: what the access index of a domain's code knows of them.

use std::collections::HashSet;

use xweave_access::{Binding, Level, Place, Site};
use xweave_aspect::code::Code;
use xweave_aspect::syntax::{Ident, Pointcut};
use xweave_code::{Kernel, Register};
use xweave_wire::plan::VariablePlace;

use crate::condition::Condition;
use crate::value::{Location, Value, pointer, structure};
use crate::{CodeIndex, unhookable};

/// An instruction that touches memory, as a join point.
#[derive(Clone)]
pub(crate) struct Touch<'i> {
    pub(crate) code: &'i CodeIndex,
    pub(crate) site: Site<'i>,
    /// What is left of the pointcut.
    pub(crate) condition: Condition<'i>,
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

    /// The structure's address, to be called `name`.
    ///
    /// # Errors
    ///
    /// Why it is not to be had.
    pub(crate) fn target(&self, kernel: &Kernel, name: &str) -> Result<Value, String> {
        let given = self.given(name).and_then(|binding| match binding.place {
            Place::Register { register, add } => Some((binding.type_.strip_suffix(" *")?, (register, add))),
            _ => None,
        });
        // Which access() is meant is said by the name; without one the first is.
        let touched =
            || self.site.touched.and_then(|level| Some((&*level.type_, self.site.address_of(level)?)));
        let Some((type_, (register, add))) = given.or_else(touched) else {
            let here = format!("`{}+{:#x}`", self.site.function, self.site.offset);
            return Err(format!("the address of what is touched at {here} is not in a register"));
        };
        let place = VariablePlace { register: Some(word(register)), add: add.into(), load: false };
        Ok(pointer(kernel, type_, name, Location::Place(place)))
    }

    /// What the pointcut gives that name to here, by the alternative that selects the instruction.
    fn given(&self, name: &str) -> Option<&Binding<'i>> {
        self.site.bindings.iter().find(|binding| binding.name == name)
    }

    /// Whether the name that a `local_var` gives is that variable's here: another alternative may give it to something
    /// else.
    pub(crate) fn gives_to_local(&self, name: &str, of: &str) -> bool {
        let local = || self.code.index.variable(&self.site, of);
        self.given(name).is_none_or(|given| {
            local().is_some_and(|local| (local.place, &local.type_) == (given.place, &given.type_))
        })
    }

    /// The names of structures that lie where the one does that is touched, and what they are.
    pub(crate) fn names_of_touched(&self) -> Vec<(String, String)> {
        let touched = self.site.touched.and_then(|level| self.site.address_of(level));
        let there = |binding: &&Binding<'_>| match binding.place {
            Place::Register { register, add } => Some((register, add)) == touched,
            _ => false,
        };
        let names = self.site.bindings.iter().filter(there);
        names.filter_map(|of| Some((of.name.to_owned(), of.type_.strip_suffix(" *")?.to_owned()))).collect()
    }

    /// The argument, by its place among those in registers, that is the address of the structure, and what
    /// that is called.
    pub(crate) fn argument(&self) -> Option<(usize, &'i str)> {
        let level: &Level = self.site.touched?;
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
                VariablePlace { register: Some(word(register)), add: add.into(), load: false }
            }
            Place::Memory { register, add } => {
                VariablePlace { register: Some(word(register)), add: add.into(), load: true }
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

/// What a parameter of the function that a site is in is called, by its number from 0 or its name.
pub(crate) fn parameter(kernel: &Kernel, code: &CodeIndex, site: &Site<'_>, of: &str) -> Option<String> {
    let number = of.parse::<usize>().ok();
    let module = site.module.or(code.module.as_deref());
    let functions = kernel.functions(site.whole_function());
    let mut all = functions.into_iter().filter(|function| function.module.as_deref() == module);
    all.find_map(|function| match number {
        Some(nth) => function.params.into_iter().nth(nth),
        None => function.params.into_iter().find(|param| param.name == of),
    })
    .map(|param| param.name)
}

/// The word of `struct pt_regs` (arch/x86/include/asm/ptrace.h) that holds a register.
fn word(register: Register) -> u8 {
    match register {
        Register::R15 => 0,
        Register::R14 => 1,
        Register::R13 => 2,
        Register::R12 => 3,
        Register::Rbp => 4,
        Register::Rbx => 5,
        Register::R11 => 6,
        Register::R10 => 7,
        Register::R9 => 8,
        Register::R8 => 9,
        Register::Rax => 10,
        Register::Rcx => 11,
        Register::Rdx => 12,
        Register::Rsi => 13,
        Register::Rdi => 14,
        Register::Rsp => 19,
    }
}

/// The source file of a function.
pub(crate) fn file_of<'i>(code: &'i [CodeIndex], function: &str, module: Option<&str>) -> Option<&'i str> {
    code.iter().find_map(|code| code.index.file_of_function(function, |of| is_module(code, of, module)))
}

/// The source file and line at which a function begins.
pub(crate) fn line_of<'i>(
    code: &'i [CodeIndex],
    function: &str,
    module: Option<&str>,
) -> Option<(&'i str, u32)> {
    code.iter().find_map(|code| code.index.line_of_function(function, |of| is_module(code, of, module)))
}

/// Whether what an index says of a function's module, or what it is an index of, is this module.
fn is_module(code: &CodeIndex, of: Option<&str>, module: Option<&str>) -> bool {
    code.module.as_deref().or(of) == module
}

/// The instructions that the pointcut may select by some `access` of it.
pub(crate) fn touches<'i>(
    pointcut: &'i Pointcut,
    kernel: &Kernel,
    code: &'i [CodeIndex],
    after: bool,
    means: &impl Fn(Option<&Ident>) -> bool,
) -> Vec<Touch<'i>> {
    let mut touches = Vec::new();
    for code in code {
        code.index.query(pointcut, means).each(|site, decides| {
            // What the types merely allow is not woven.
            if !site.certain || site.touched.is_none() {
                return;
            }
            let condition = Condition::of(pointcut, &|atom| match atom {
                Pointcut::Arg(of) => {
                    let called = parameter(kernel, code, &site, &of.of.text);
                    Some(called.is_some_and(|name| code.index.has_variable(&site, &name)))
                }
                atom => decides(atom),
            });
            if !matches!(condition, Condition::Known(false)) {
                touches.push(Touch { code, site, condition, after, told: None });
            }
        });
    }
    touches
}

/// The names that several functions of a domain have.
pub(crate) fn ambiguous(code: &[CodeIndex]) -> HashSet<&str> {
    let mut seen = HashSet::new();
    code.iter().flat_map(|code| code.index.function_names()).filter(|name| !seen.insert(*name)).collect()
}
