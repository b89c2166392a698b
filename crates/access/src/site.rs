//! What questions to an index are answered with.

use std::borrow::Cow;

use xweave_code::Register;

use crate::access_path::{AccessPath, Level};
use crate::classify::Reason;

/// How much of a program's code is understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Instructions in all.
    pub instructions: u64,
    /// Those with an operand in memory.
    pub memory_instructions: u64,
    /// Those of them of which the type is known of what they touch.
    pub typed: u64,
    /// The others, by reason: in the order of [`Reason::ALL`].
    pub unresolved: [u64; Reason::ALL.len()],
}

impl Coverage {
    /// All that are not typed.
    pub fn unresolved(&self) -> u64 {
        self.unresolved.iter().sum()
    }
}

/// Calls of a function that its entry does not see: they are inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlinedCalls<'i> {
    /// How many.
    pub calls: u32,
    /// Into how many functions.
    pub functions: u32,
    /// The names of some of these, those with most calls first.
    pub into: Vec<&'i str>,
}

/// An instruction that touches a member of a structure.
#[derive(Clone, Debug)]
pub struct Site<'i> {
    /// Its number in the index.
    pub number: u32,
    /// The function's name; that of its part, where that is what the instruction is in (`.cold`).
    pub function: &'i str,
    pub(crate) function_number: u32,
    /// The module it is in.
    pub module: Option<&'i str>,
    /// From the function's beginning, in bytes.
    pub offset: u32,
    /// The instruction's address, as linked.
    pub address: u64,
    /// What it touches.
    pub path: &'i AccessPath,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Whether the types prove it; else they only allow it.
    pub certain: bool,
    /// A register, and what is to be added to it to get the address of the outermost structure; none where
    /// an index is part of the address.
    pub base: Option<(Register, i32)>,
    /// The number of the function's argument, from 0, that the outermost structure's address came in.
    pub parameter: Option<u8>,
    /// The instruction's length in bytes, where what lies behind it is executed after it and after nothing
    /// else, and the base is still there.
    pub length: Option<u8>,
    /// The source file and line, where there is debug information.
    pub line: Option<(&'i str, u32)>,
    /// The structure that the first access() of the pointcut is about which selects the instruction.
    pub touched: Option<&'i Level>,
    /// What the pointcut gives names to here, and the variables that [`Query::with_variables`] asks for.
    ///
    /// [`Query::with_variables`]: crate::Query::with_variables
    pub bindings: Vec<Binding<'i>>,
    /// The names of those variables that the function has, but of which it is not known where they are here.
    pub unreadable: Vec<&'i str>,
}

impl Site<'_> {
    /// The address of one of the structures that are touched: a register, and what is to be added to it.
    pub fn address_of(&self, level: &Level) -> Option<(Register, i32)> {
        let (register, add) = self.base?;
        // The base is that of the outermost structure.
        let outermost = self.path.levels.first().map_or(0, |level| level.start);
        let add = i64::from(add) + i64::from(outermost) - i64::from(level.start);
        Some((register, i32::try_from(add).ok()?))
    }

    /// The function's name, without that of its part.
    pub fn whole_function(&self) -> &str {
        whole(self.function)
    }
}

/// The function that a part of it belongs to.
pub(crate) fn whole(name: &str) -> &str {
    name.split(".cold").next().unwrap_or(name)
}

/// Something that has a name at an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding<'i> {
    /// The name.
    pub name: &'i str,
    /// Whether it is the address of the structure that access() selects; else it is a variable.
    pub target: bool,
    /// Its type as C spells it, without qualifiers.
    pub type_: Cow<'i, str>,
    /// Where its value is before the instruction.
    pub place: Place,
}

/// Where a value is at an instruction. If it is smaller than a register, that one's low bytes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is the register's and a constant.
    Register {
        /// The register of 64 bits.
        register: Register,
        /// The constant.
        add: i32,
    },
    /// It lies in memory, where the register and a constant say.
    Memory {
        /// The register of 64 bits.
        register: Register,
        /// The constant.
        add: i32,
    },
    /// It is this, which no register holds.
    Constant(u64),
}

/// An instruction of which it is not known what it touches.
#[derive(Clone, Debug)]
pub struct Unresolved<'i> {
    /// As in [`Site::function`].
    pub function: &'i str,
    /// As in [`Site::offset`].
    pub offset: u32,
    /// As in [`Site::address`].
    pub address: u64,
    /// Why.
    pub reason: Reason,
}
