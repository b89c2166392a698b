//! What is said of each access, once a function's values are known.

use xweave_code::types::{Type, TypeId, Types};

use crate::access_path::Key;
use crate::cfg::{Cfg, to_usize};
use crate::idioms::Overlays;
use crate::points_to::PointsTo;
use crate::program_facts::{Function, ProgramFacts};
use crate::value::{Access, Callee, Kind, Ref, Values};
use crate::view::{Rank, View};

/// Why it is not known what an instruction touches.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// It lies on the stack, where no variable is known: a spilled register, mostly.
    Stack,
    /// It lies at a fixed address, of a variable without type.
    Global,
    /// The pointer is a parameter of a function without prototype, or one that the prototype does not tell
    /// the type of.
    Parameter,
    /// The pointer is the result of a call whose type is not told.
    Result,
    /// The pointer is the result of a call through a pointer of which no type is known.
    IndirectCall,
    /// The pointer was loaded from a `void *`, or from something that is not declared to be a pointer.
    Untyped,
    /// The pointer was loaded from somewhere unknown.
    Loaded,
    /// The pointer was calculated.
    Arithmetic,
    /// The pointer's type is known, and this lies outside of it: in a structure around it, mostly.
    Outside,
    /// The ways to this point bring several values, none of which is known.
    Join,
    /// Nothing is known of the register: no way to this point was found, or a call has changed it.
    Unknown,
}

impl Reason {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// For tables and JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What is known of an access.
pub(crate) enum Classified {
    /// It touches this: a member, if there is a key.
    Typed {
        key: Option<Key>,
        certain: bool,
        at: i32,
    },
    Not(Reason),
}

/// Classifier for the accesses of one function.
pub(crate) struct Classifier<'a> {
    pub(crate) facts: &'a ProgramFacts<'a>,
    pub(crate) overlays: &'a Overlays,
    pub(crate) function: &'a Function,
    pub(crate) cfg: &'a Cfg,
    pub(crate) values: &'a Values,
    pub(crate) points_to: &'a PointsTo<'a>,
}

impl Classifier<'_> {
    /// What is known of one.
    pub(crate) fn of(&self, access: &Access, found: &mut Vec<View>) -> Classified {
        self.points_to.at(access.at, found);
        let size = u32::from(access.size).max(1);
        let Some(best) = self.points_to.best(found, size) else {
            return Classified::Not(self.reason(access.at));
        };
        let Ok(at) = u32::try_from(best.at) else { return Classified::Not(Reason::Outside) };
        let types = self.facts.types;
        // The compiler's own, which no program names.
        let own = |of: TypeId| match types.get(of) {
            Type::Record(record) => &*types.record(record).name == "__va_list_tag",
            _ => false,
        };
        let element = innermost_array(types, best.of).filter(|of| !own(*of));
        let key = element.filter(|of| types.is_record(*of)).map(|_| Key {
            of: best.of,
            at,
            size,
            overlay: self.overlays.find(best.of, at, &self.function.name),
        });
        Classified::Typed { key, certain: best.rank >= Rank::Used, at: best.at }
    }

    /// The instruction's address.
    pub(crate) fn address(&self, access: &Access) -> u64 {
        self.cfg.instructions[to_usize(access.instruction)].ip()
    }

    fn reason(&self, address: Ref) -> Reason {
        if !self.points_to.of(address.value).is_empty() {
            return Reason::Outside;
        }
        match self.values.kinds[to_usize(address.value)] {
            Kind::Frame => Reason::Stack,
            Kind::Constant(_) | Kind::PerCpu => Reason::Global,
            Kind::Entry(_) => Reason::Parameter,
            Kind::Result(call) => match self.values.calls[to_usize(call)].callee {
                Callee::At(_) => Reason::Result,
                Callee::Pointer(_) => Reason::IndirectCall,
            },
            Kind::Load(from) => {
                let mut found = Vec::new();
                self.points_to.at(from, &mut found);
                if found.is_empty() { Reason::Loaded } else { Reason::Untyped }
            }
            Kind::Join { .. } => Reason::Join,
            Kind::Sum(..) | Kind::Arithmetic | Kind::Number(_) => Reason::Arithmetic,
            Kind::Unknown => Reason::Unknown,
        }
    }
}

/// What an array is made of, or the type itself.
pub(crate) fn innermost_array(types: &Types, mut of: TypeId) -> Option<TypeId> {
    // Arrays of arrays nest by what C's declarators are.
    for _ in 0..16 {
        match types.get(of) {
            Type::Array(element, _) => of = element,
            _ => return Some(of),
        }
    }
    None
}
