//! What `xweave sites --json` prints, and the lines of `--jsonl`.

use std::collections::BTreeMap;

use serde::Serialize;
use xweave_access::{self as access, Reason};

/// The document of the instructions that a pointcut selects.
#[derive(Clone, Debug, Serialize)]
pub struct Sites<'a> {
    /// How much of the program is understood.
    pub coverage: Coverage,
    /// The instructions.
    pub sites: Vec<Site<'a>>,
}

/// The document of those of which it is not known what they touch.
#[derive(Clone, Debug, Serialize)]
pub struct NotKnown<'a> {
    /// How much of the program is understood.
    pub coverage: Coverage,
    /// The instructions.
    pub unresolved: Vec<Unresolved<'a>>,
}

/// How much of a program's code is understood.
#[derive(Clone, Debug, Serialize)]
pub struct Coverage {
    /// Instructions in all.
    pub instructions: u64,
    /// Those with an operand in memory.
    pub memory_instructions: u64,
    /// Those of them of which the type is known of what they touch.
    pub typed: u64,
    /// The others.
    pub unresolved: u64,
    /// How many of these for which reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

/// An instruction that touches a member of a structure.
#[derive(Clone, Debug, Serialize)]
pub struct Site<'a> {
    /// The function's name; that of its part, where that is what the instruction is in (`.cold`).
    pub function: &'a str,
    /// The module it is in.
    pub module: Option<&'a str>,
    /// From the function's beginning, in bytes.
    pub offset: u32,
    /// The instruction's address, as linked.
    pub address: u64,
    /// The outermost named structure.
    #[serde(rename = "struct")]
    pub structure: &'a str,
    /// The member of it: names with dots between.
    pub member: &'a str,
    /// `read`, `write` or `both`.
    pub access: &'static str,
    /// Whether the types prove it; else they only allow it.
    pub certain: bool,
    /// Every named structure and union around the bytes, the outermost first.
    pub levels: Vec<Level<'a>>,
    /// Where the outermost structure is; null where an index is part of the address.
    pub base: Option<Base>,
    /// The source file, where there is debug information.
    pub file: Option<&'a str>,
    /// The line in it.
    pub line: Option<u32>,
    /// What the pointcut gives names to here.
    pub bindings: Vec<Binding<'a>>,
}

/// A structure or union around the bytes that an instruction touches.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Level<'a> {
    /// `struct sk_buff`, `union x`, or the name of a typedef for an unnamed one.
    #[serde(rename = "type")]
    pub type_: &'a str,
    /// The first byte that is touched.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
    /// Whether it lies over what is declared there, by a convention.
    pub overlay: bool,
}

/// An address: a register, and what is to be added to it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Base {
    /// The register.
    pub register: &'static str,
    /// The constant.
    pub add: i32,
}

/// Something that a pointcut gives a name to.
#[derive(Clone, Debug, Serialize)]
pub struct Binding<'a> {
    /// The name.
    pub name: &'a str,
    /// Its type as C spells it, without qualifiers.
    #[serde(rename = "type")]
    pub type_: &'a str,
    /// Where its value is before the instruction.
    pub place: Place,
}

/// Where a value is.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// The sum of a register and a constant, or what lies in memory there.
    Register {
        /// The register.
        register: &'static str,
        /// The constant.
        add: i32,
        /// Whether it lies in memory.
        dereference: bool,
    },
    /// It is this, which no register holds.
    Constant {
        /// The value.
        constant: u64,
    },
}

/// An instruction of which it is not known what it touches.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Unresolved<'a> {
    /// As in [`Site::function`].
    pub function: &'a str,
    /// As in [`Site::offset`].
    pub offset: u32,
    /// As in [`Site::address`].
    pub address: u64,
    /// Why.
    pub reason: &'static str,
}

impl<'a> Sites<'a> {
    /// Of what was found.
    pub fn new(coverage: access::Coverage, sites: &'a [access::Site<'a>]) -> Self {
        Self { coverage: coverage.into(), sites: sites.iter().map(Site::from).collect() }
    }
}

impl<'a> NotKnown<'a> {
    /// Of what was found.
    pub fn new(coverage: access::Coverage, unresolved: &'a [access::Unresolved<'a>]) -> Self {
        Self { coverage: coverage.into(), unresolved: unresolved.iter().map(Unresolved::from).collect() }
    }
}

impl From<access::Coverage> for Coverage {
    fn from(of: access::Coverage) -> Self {
        Self {
            instructions: of.instructions,
            memory_instructions: of.memory_instructions,
            typed: of.typed,
            unresolved: of.unresolved(),
            reasons: Reason::ALL.iter().map(|reason| reason.name()).zip(of.unresolved).collect(),
        }
    }
}

impl<'a> From<&'a access::Site<'a>> for Site<'a> {
    fn from(of: &'a access::Site<'a>) -> Self {
        let level = |of: &'a access::Level| Level {
            type_: &of.type_,
            start: of.start,
            end: of.end,
            overlay: of.overlay,
        };
        Self {
            function: of.function,
            module: of.module,
            offset: of.offset,
            address: of.address,
            structure: of.path.structure(),
            member: of.path.member(),
            access: access_name(of),
            certain: of.certain,
            levels: of.path.levels.iter().map(level).collect(),
            base: of.base.map(|(register, add)| Base { register: register.name(), add }),
            file: of.line.map(|(file, _)| file),
            line: of.line.map(|(_, line)| line),
            bindings: of.bindings.iter().map(Binding::from).collect(),
        }
    }
}

impl<'a> From<&'a access::Binding<'a>> for Binding<'a> {
    fn from(of: &'a access::Binding<'a>) -> Self {
        let place = match of.place {
            access::Place::Register { register, add } => {
                Place::Register { register: register.name(), add, dereference: false }
            }
            access::Place::Memory { register, add } => {
                Place::Register { register: register.name(), add, dereference: true }
            }
            access::Place::Constant(constant) => Place::Constant { constant },
        };
        Self { name: of.name, type_: &of.type_, place }
    }
}

impl<'a> From<&'a access::Unresolved<'a>> for Unresolved<'a> {
    fn from(of: &'a access::Unresolved<'a>) -> Self {
        Self { function: of.function, offset: of.offset, address: of.address, reason: of.reason.name() }
    }
}

/// Whether an instruction reads or writes.
pub(crate) fn access_name(site: &access::Site<'_>) -> &'static str {
    match (site.reads, site.writes) {
        (true, true) => "both",
        (false, true) => "write",
        _ => "read",
    }
}
