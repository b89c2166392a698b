//! Join points that are instructions: what the access index of a domain's code knows of them.

use std::collections::{BTreeSet, HashSet};

use xweave_access::{Binding, InlinedCalls, Level, Place, Site};
use xweave_aspect::code::Code;
use xweave_aspect::syntax::{Ident, When};
use xweave_code::{Kernel, Register, clone_of, is_part};
use xweave_wire::plan::VariablePlace;

use crate::condition::Condition;
use crate::item::Item;
use crate::unseen_calls::NAMED;
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

    /// The address of the structure that is touched, to be called `name`.
    ///
    /// # Errors
    ///
    /// Why it is not to be had.
    pub(crate) fn target(&self, kernel: &Kernel, name: &str) -> Result<Value, String> {
        let touched = self.site.touched.and_then(|level| Some((&*level.type_, self.site.address_of(level)?)));
        let Some((type_, (register, add))) = touched else {
            let here = format!("`{}+{:#x}`", self.site.function, self.site.offset);
            return Err(format!("the address of what is touched at {here} is not in a register"));
        };
        Ok(pointer(kernel, type_, name, location(Place::Register { register, add })))
    }

    /// The names of structures that lie where the one does that is touched, and what they are.
    pub(crate) fn names_of_touched(&self) -> Vec<(String, String)> {
        let touched = self.site.touched.and_then(|level| self.site.address_of(level));
        let there = |binding: &&Binding<'_>| match binding.place {
            Place::Register { register, add } => binding.target && Some((register, add)) == touched,
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

    /// What has this name here, given by the pointcut or as a variable of the function; none if nothing has.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub(crate) fn named(&self, kernel: &Kernel, name: &str) -> Option<Result<Value, String>> {
        let binding = self.site.bindings.iter().find(|binding| binding.name == name);
        if binding.is_none() && !self.site.unreadable.contains(&name) {
            // What no variable of the function is called may be a macro, a constant, a function.
            return None;
        }
        if self.after && binding.is_none_or(|binding| !binding.target) {
            return Some(Err("is known before the instruction only: leave out `after`".into()));
        }
        let Some(binding) = binding else {
            return Some(Err(format!("has no place at {:#x} where it can be read", self.site.offset)));
        };
        if binding.target {
            let of = binding.type_.strip_suffix(" *").unwrap_or(&binding.type_);
            return Some(Ok(pointer(kernel, of, name, location(binding.place))));
        }
        let type_ = binding.type_.trim();
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
        Some(Ok(Value { declaration, types, location: location(binding.place), unverified_type: of }))
    }
}

/// For the kernel.
fn location(place: Place) -> Location {
    let (register, add, load) = match place {
        Place::Register { register, add } => (Some(word(register)), add.into(), false),
        Place::Memory { register, add } => (Some(word(register)), add.into(), true),
        Place::Constant(value) => (None, value.cast_signed(), false),
    };
    Location::Place(VariablePlace { register, add, load })
}

/// What a function's parameter is called, by its number from 0 or its name.
fn parameter(kernel: &Kernel, function: &str, module: Option<&str>, of: &str) -> Option<String> {
    let number = of.parse::<usize>().ok();
    let functions = kernel.functions(function);
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

/// The calls of a function that are inlined.
pub(crate) fn inlined<'i>(
    code: &'i [CodeIndex],
    function: &str,
    module: Option<&str>,
) -> Option<InlinedCalls<'i>> {
    code.iter().find_map(|code| code.index.inlined(function, |of| is_module(code, of, module)))
}

/// Clones that the compiler made of a function, a few of them.
pub(crate) fn clones(code: &[CodeIndex], function: &str) -> Vec<String> {
    let names = code.iter().flat_map(|code| code.index.function_names());
    let clones: BTreeSet<&str> =
        names.filter(|name| clone_of(name) == Some(function) && !is_part(name)).collect();
    clones.into_iter().take(NAMED).map(str::to_owned).collect()
}

/// Whether what an index says of a function's module, or what it is an index of, is this module.
fn is_module(code: &CodeIndex, of: Option<&str>, module: Option<&str>) -> bool {
    code.module.as_deref().or(of) == module
}

/// The instructions that the item's pointcut may select by some `access` of it.
pub(crate) fn touches<'i>(
    item: Item<'i>,
    kernel: &'i Kernel,
    code: &'i [CodeIndex],
    means: &impl Fn(Option<&Ident>) -> bool,
) -> Vec<Touch<'i>> {
    let (pointcut, after, names) = (item.pointcut(), item.when() == When::After, item.names());
    let mut touches = Vec::new();
    for code in code {
        let query = code.index.query(pointcut, means).with_variables(names.iter().copied());
        let query = query.with_parameters(|function, module, of| {
            parameter(kernel, function, module.or(code.module.as_deref()), of)
        });
        query.each(|site, decides| {
            // What the types merely allow is not woven.
            if !site.certain || site.touched.is_none() {
                return;
            }
            let condition = Condition::of(pointcut, &|atom| decides(atom));
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
