//! The documents of `xweave sites`, and the lines of `--jsonl`.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The document of the instructions that a pointcut selects.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Sites<'a> {
    /// Share of the program that is understood.
    pub coverage: Coverage,
    /// Instructions that access a member.
    pub sites: Vec<AccessSite<'a>>,
}

/// The document of `--unresolved`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct UnresolvedSites<'a> {
    /// Share of the program that is understood.
    pub coverage: Coverage,
    /// Instructions that access memory of unknown type.
    pub unresolved: Vec<UnresolvedSite<'a>>,
}

/// Share of a program's code that is understood: numbers of instructions.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Coverage {
    /// All instructions.
    pub instructions: u64,
    /// Instructions with an operand in memory.
    pub memory_instructions: u64,
    /// Instructions that access memory of a known type.
    pub typed: u64,
    /// Instructions that access memory of unknown type.
    pub unresolved: u64,
    /// The unresolved instructions by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AccessDirection {
    /// The instruction reads.
    Read,
    /// The instruction writes.
    Write,
    /// The instruction reads and writes.
    Both,
}

/// An instruction that accesses a member of a structure.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AccessSite<'a> {
    /// Name of the function; of its part, if the instruction is in one (`.cold`).
    pub function: &'a str,
    /// Module; null for the kernel image.
    pub module: Option<&'a str>,
    /// Offset from the beginning of the function, in bytes.
    pub offset: u32,
    /// Address of the instruction, as linked.
    pub address: u64,
    /// Outermost named structure.
    #[serde(rename = "struct")]
    pub structure: &'a str,
    /// Path of the member in it, with dots.
    pub member: &'a str,
    /// Direction of the access.
    pub access: AccessDirection,
    /// Whether the types prove the access; otherwise they only allow it.
    pub certain: bool,
    /// Named structures and unions around the access, the outermost first.
    pub levels: Vec<AccessLevel<'a>>,
    /// Address of the outermost structure; null if it depends on an index.
    pub base: Option<BaseAddress>,
    /// Source file; null without debug information.
    pub file: Option<&'a str>,
    /// Line; null without debug information.
    pub line: Option<u32>,
    /// Names that the pointcut binds here.
    pub bindings: Vec<Binding<'a>>,
}

/// A structure or union around an access.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct AccessLevel<'a> {
    /// Type: `struct sk_buff`, `union x`, or the typedef's name of an unnamed one.
    #[serde(rename = "type")]
    pub type_: &'a str,
    /// First byte that is accessed.
    pub start: u32,
    /// Byte after the last one that is accessed.
    pub end: u32,
    /// Whether the type lies over the declared one by convention.
    pub overlay: bool,
}

/// An address: the sum of a register and a constant.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BaseAddress {
    /// Register.
    pub register: &'static str,
    /// Constant.
    pub add: i32,
}

/// A name that a pointcut binds.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Binding<'a> {
    /// Name.
    pub name: &'a str,
    /// Type as C spells it, without qualifiers.
    #[serde(rename = "type")]
    pub type_: &'a str,
    /// Location of the value before the instruction.
    pub place: ValueLocation,
}

/// Location of a value.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(untagged)]
pub enum ValueLocation {
    /// The sum of a register and a constant, or the memory at that address.
    Register {
        /// Register.
        register: &'static str,
        /// Constant.
        add: i32,
        /// Whether the value is in the memory at that address.
        dereference: bool,
    },
    /// A constant that no register holds.
    Constant {
        /// Value.
        constant: u64,
    },
}

/// An instruction that accesses memory of unknown type.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct UnresolvedSite<'a> {
    /// Name of the function, as in `sites`.
    pub function: &'a str,
    /// Offset from the beginning of the function, in bytes.
    pub offset: u32,
    /// Address of the instruction, as linked.
    pub address: u64,
    /// Reason why the type is unknown.
    pub reason: &'static str,
}
