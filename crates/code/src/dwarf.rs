//! What DWARF says of code: which variable is where between which addresses, and of what type; what lies at
//! fixed addresses; what functions take; and the source's lines.
//!
//! It may come from a guest's programs, so it may be damaged, or made to do harm: then units are left out
//! ([`Debug::damaged`]), never more.

mod budget;
mod debug;
mod entry;
mod lines;
mod place;
mod shapes;
mod typing;
mod units;
mod walk;

use std::borrow::Cow;
use std::collections::HashMap;

use rayon::prelude::*;

use crate::Error;
use crate::types::{ProtoId, TypeId, Types};
use budget::Budget;
pub use debug::Debug;
use shapes::Shapes;
pub use units::Flaw;
use units::{Fault, Units};

/// The name of a variable, function or type, of a [`struct@Debug`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(u32);

/// Where a variable is between two addresses of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// The first address.
    pub from: u64,
    /// Behind the last address.
    pub to: u64,
    /// Where it is.
    pub place: Place,
    /// Its type.
    pub type_: TypeId,
    /// Its type as C spells it, without qualifiers.
    pub spelling: NameId,
    /// Its name.
    pub name: NameId,
    /// How many functions, inlined functions and blocks are around it: of two variables with one name, the
    /// deeper one is meant. 0 where it is out of scope, though the compiler still says where it is.
    pub depth: u16,
    /// Whether it is a parameter, maybe of an inlined function.
    pub parameter: bool,
}

/// Where a variable is. Registers have the hardware's numbers: `rax` 0, `rcx` 1, `rdx` 2, `rbx` 3, `rsp` 4,
/// `rbp` 5, `rsi` 6, `rdi` 7, and `r8` to `r15`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its value is the register's and a constant.
    Register {
        /// The register.
        register: u8,
        /// The constant.
        add: i32,
    },
    /// It lies in memory, where the register and a constant say.
    Memory {
        /// The register.
        register: u8,
        /// The constant.
        add: i32,
    },
    /// It lies in memory, counted from the canonical frame address: what the stack pointer was before the
    /// call.
    Frame {
        /// The constant.
        add: i32,
    },
    /// It lies in memory at this address.
    Address(u64),
    /// Its value is the canonical frame address and a constant.
    FrameAddress {
        /// The constant.
        add: i32,
    },
    /// Its value is this.
    Value(u64),
    /// It hides another variable with its name, wherever it is in scope, and in places said besides.
    Hiding,
}

/// A variable with an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where it begins. Of a per-CPU variable, from the beginning of those.
    pub address: u64,
    /// Its type, which tells its size.
    pub type_: TypeId,
    /// Its name.
    pub name: NameId,
}

/// A function with code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// As it was declared.
    pub name: NameId,
    /// What it was compiled from; none if that has no name.
    pub definition: Option<Definition>,
    /// As it was declared.
    pub proto: ProtoId,
    /// Whether its parameters are where those of such a function are. A clone (`.isra`, `.constprop`) may lack
    /// some, or have them elsewhere. DWARF does not name clones, so this is told by what it says of the
    /// parameters when the function is entered: a clone that is called as the original is counts as exact.
    pub exact: bool,
    /// Where it is entered.
    pub from: u64,
    /// Behind the part that it is entered in.
    pub to: u64,
    /// The number of the unit that it is in: see [`Debug::unit`].
    pub unit: u32,
}

/// The text that a function was compiled from. What has the same is the same function: clones, copies that several units
/// have of what a header defines, and calls that are inlined.
///
/// Told by the name, and by line and column: two static functions that agree in all of these, in different files, count as
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Definition(u64);

/// Calls of a function that do not enter it, because its code was compiled into a function that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// The function that is called.
    pub definition: Definition,
    /// Where the one is entered that its code is in now.
    pub into: u64,
    /// How many calls.
    pub calls: u32,
}

/// Why it is not told where a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::VariantArray)]
pub enum Reason {
    /// It was in a register when the function was entered, and is not kept.
    EntryValue,
    /// Parts of it are in different places.
    Pieces,
    /// Something must be read first.
    Dereference,
    /// It is computed by more than adding a constant.
    Arithmetic,
    /// It is a pointer to what has no address.
    ImplicitPointer,
    /// It is counted from a frame base that cannot be said.
    FrameBase,
    /// It is in a register that is no general one.
    OtherRegister,
    /// Each thread has its own.
    ThreadLocal,
    /// It was optimised away there.
    Nowhere,
    /// The expression cannot be read.
    Unreadable,
    /// There are more than a file of this size can have without meaning harm.
    TooMany,
}

const REASONS: usize = Reason::ALL.len();

impl Reason {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    fn index(self) -> usize {
        self as usize
    }
}

/// A unit that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins in `.debug_info`.
    pub unit: u64,
    /// The section that cannot be read.
    pub section: &'static str,
    /// Why.
    pub reason: Flaw,
}

/// Reads the DWARF of a file, on all processors. `section` gives its debug sections by name (`.debug_info`),
/// decompressed and relocated. Types that `types` has already are taken from there, by name and size; others
/// that variables and functions have are added to it.
///
/// # Errors
///
/// [`Error::Dwarf`], which calls the file `what`, if there is nothing that can be read at all.
pub fn read<'d>(
    what: &str,
    section: impl Fn(&str) -> Option<Cow<'d, [u8]>>,
    types: &mut Types,
) -> Result<Debug, Error> {
    let load = |name: &'static str| section(name).unwrap_or_default();
    let error = |fault: Fault| Error::Dwarf { what: what.into(), section: fault.section, reason: fault.flaw };
    let mut sections: HashMap<_, _> = SECTIONS.iter().map(|id| (*id, load(id.name()))).collect();
    let bytes = |id| sections.get(&id).map_or(&[][..], |bytes| &**bytes);
    if bytes(gimli::SectionId::DebugInfo).is_empty() {
        return Err(error(Flaw::Missing.into()));
    }
    let units = Units::new(bytes);
    if units.headers.is_empty() {
        return Err(error(units.fault.unwrap_or(Flaw::NoUnits.into())));
    }
    let size = |ids: [gimli::SectionId; 2]| ids.into_iter().map(|id| bytes(id).len()).sum();
    let budget = Budget::new(
        bytes(gimli::SectionId::DebugInfo).len(),
        size([gimli::SectionId::DebugLoc, gimli::SectionId::DebugLocLists]),
        size([gimli::SectionId::DebugRanges, gimli::SectionId::DebugRngLists]),
    );
    let shapes = Shapes::new(types);
    let count = units.headers.len();
    let found: Vec<_> = (0..count)
        .into_par_iter()
        .with_max_len(1)
        .map(|index| walk::walk(&units, &shapes, &budget, index))
        .collect();
    let new = shapes.into_new();
    let roots = found.iter().flat_map(|found| {
        let functions = found.functions.iter().map(|function| function.proto);
        let objects = found.objects.iter().map(|(_, type_, _)| *type_);
        functions.chain(objects).chain(found.lives.iter().map(|live| live.type_))
    });
    let made = new.make(types, roots);
    let mut debug = Debug::new(&units, found, &made, types);
    drop(units);
    let mut owned = |id| sections.remove(&id).unwrap_or_default().into_owned();
    debug.lines.sections(
        owned(gimli::SectionId::DebugLine),
        owned(gimli::SectionId::DebugLineStr),
        owned(gimli::SectionId::DebugStr),
    );
    Ok(debug)
}

/// Those that are read.
const SECTIONS: [gimli::SectionId; 11] = [
    gimli::SectionId::DebugInfo,
    gimli::SectionId::DebugAbbrev,
    gimli::SectionId::DebugStr,
    gimli::SectionId::DebugStrOffsets,
    gimli::SectionId::DebugAddr,
    gimli::SectionId::DebugLoc,
    gimli::SectionId::DebugLocLists,
    gimli::SectionId::DebugRanges,
    gimli::SectionId::DebugRngLists,
    gimli::SectionId::DebugLine,
    gimli::SectionId::DebugLineStr,
];
