//! Where variables are at a function's accesses.

use xweave_code::dwarf::NameId;
use xweave_code::types::ProtoId;

/// Where the value of a variable is at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// It is the register's and a constant.
    Register { register: u8, add: i32 },
    /// It lies in memory, where the register and a constant say.
    Memory { register: u8, add: i32 },
    /// It is this.
    Constant(u64),
}

/// Which variable it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Which {
    /// One with this name and spelling of its type.
    Told { name: NameId, spelling: NameId },
    /// The nth parameter of a function that is declared so.
    Parameter { proto: ProtoId, nth: u8 },
}

/// A variable is in one place at some of a function's accesses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) which: Which,
    /// The first access, by its number among the function's.
    pub(crate) first: u32,
    /// Behind the last.
    pub(crate) end: u32,
    pub(crate) place: Place,
}
