//! The types that one unit describes.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::rc::Rc;

use super::entry::TypeEntry;
use super::shapes::{Part, Prototype, Recipe, Ref, Shapes};
use super::units::{Fault, Flaw, Unit, Units};
use crate::spelling::{Declarator, usual};
use crate::types::Tag;

/// A map by offsets.
pub(super) type Offsets<V> = HashMap<usize, V, Spread>;

/// A hash for offsets. Without the secret, a file could be made so that all fall together.
#[derive(Clone)]
pub(super) struct Spread(u64);

impl Default for Spread {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Spread {
    type Hasher = Spread;
    fn build_hasher(&self) -> Spread {
        self.clone()
    }
}

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }
    fn write_usize(&mut self, number: usize) {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        // Two factors of 64 bits; every bit of both is in some bit of the folded product.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        let [low, high] = [product, product >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)));
        self.0 = low.unwrap_or(0) ^ high.unwrap_or(0);
    }
}

/// No chain of types that is not a circle is as long.
const DEPTH: usize = 64;
/// Entries in other units are rare (whole-program optimisation), and then often in the same few.
const FOREIGN: usize = 16;
/// So many parameters of a function are spelled, and functions within functions.
const PARAMETERS: usize = 16;
const NESTED: usize = 2;

/// Reads the types of a unit.
pub(super) struct Typing<'s, 'd, 't> {
    pub(super) units: &'s Units<'d>,
    pub(super) unit: Rc<Unit<'d>>,
    index: usize,
    pub(super) shapes: &'s Shapes<'d, 't>,
    foreign: HashMap<usize, Rc<Unit<'d>>>,
    seen: Offsets<Ref>,
    /// What types look like from outside, hashed.
    looks: Offsets<u64>,
    depth: usize,
    /// Structures and unions that this unit has to describe.
    wanted: Vec<(TypeEntry<'d>, Tag, &'d str, u64)>,
    /// How many more entries may be gone over: a file that means harm would have it done without end.
    left: usize,
}

impl<'s, 'd, 't> Typing<'s, 'd, 't> {
    pub(super) fn new(
        units: &'s Units<'d>,
        shapes: &'s Shapes<'d, 't>,
        unit: Unit<'d>,
        index: usize,
    ) -> Self {
        // An entry has two bytes at least, and each is read a few times.
        let left = (unit.end - unit.start).saturating_mul(4).saturating_add(1 << 12);
        Self {
            units,
            unit: Rc::new(unit),
            index,
            shapes,
            foreign: HashMap::new(),
            seen: Offsets::default(),
            looks: Offsets::default(),
            depth: 0,
            wanted: Vec::new(),
            left,
        }
    }

    /// The unit that has this offset: this one, nearly always.
    pub(super) fn unit_of(&mut self, at: usize) -> Result<Rc<Unit<'d>>, Fault> {
        if (self.unit.start..self.unit.end).contains(&at) {
            return Ok(Rc::clone(&self.unit));
        }
        let index = self.units.holding(at).ok_or_else(Fault::dangling)?;
        if let Some(known) = self.foreign.get(&index) {
            return Ok(Rc::clone(known));
        }
        if self.foreign.len() == FOREIGN {
            self.foreign.clear();
        }
        // Opening one costs as much as reading many entries.
        self.spend(64)?;
        let unit = Rc::new(self.units.open(index)?);
        self.foreign.insert(index, Rc::clone(&unit));
        Ok(unit)
    }

    pub(super) fn spend(&mut self, entries: usize) -> Result<(), Fault> {
        let left = self.left.checked_sub(entries);
        self.left = left.ok_or(Flaw::Circles)?;
        Ok(())
    }

    fn entry(&mut self, at: usize) -> Result<TypeEntry<'d>, Fault> {
        self.spend(1)?;
        let unit = self.unit_of(at)?;
        TypeEntry::at(self.units, &unit, at)
    }

    pub(super) fn children(&mut self, at: usize) -> Result<Vec<TypeEntry<'d>>, Fault> {
        let unit = self.unit_of(at)?;
        TypeEntry::children(self.units, &unit, at, &mut self.left)
    }

    /// The type there; none is `void`.
    pub(super) fn resolve(&mut self, at: Option<usize>) -> Result<Ref, Fault> {
        let Some(at) = at else { return Ok(Ref::VOID) };
        if let Some(known) = self.seen.get(&at) {
            return Ok(*known);
        }
        if self.depth == DEPTH {
            return Ok(Ref::VOID);
        }
        // Whoever comes back to it before it is done goes in a circle.
        self.seen.insert(at, Ref::VOID);
        self.depth += 1;
        let typed = self.read(at);
        self.depth -= 1;
        let typed = typed?;
        self.seen.insert(at, typed);
        Ok(typed)
    }

    fn read(&mut self, at: usize) -> Result<Ref, Fault> {
        let entry = self.entry(at)?;
        Ok(match kind(entry.tag) {
            Kind::Scalar => self.scalar(&entry)?,
            Kind::Pointer => {
                let to = self.resolve(entry.type_)?;
                self.shapes.pointer(to, self.index)
            }
            Kind::Qualified => self.resolve(entry.type_)?,
            Kind::Typedef => match self.nameless(entry.type_)? {
                Some(record) => {
                    let typed = self.record(record.clone(), entry.name)?;
                    self.seen.insert(record.at, typed);
                    typed
                }
                None => self.resolve(entry.type_)?,
            },
            Kind::Record => self.record(entry, "")?,
            Kind::Array => {
                let mut type_ = self.resolve(entry.type_)?;
                for dimension in self.dimensions(at)?.into_iter().rev() {
                    type_ = self.shapes.array(type_, dimension, self.index);
                }
                type_
            }
            Kind::Function => {
                let mut params = Vec::new();
                let mut variadic = false;
                for child in self.children(at)? {
                    match child.tag {
                        gimli::DW_TAG_formal_parameter => {
                            params.push((child.name, self.resolve(child.type_)?));
                        }
                        gimli::DW_TAG_unspecified_parameters => variadic = true,
                        _ => {}
                    }
                }
                let returns = self.resolve(entry.type_)?;
                let prototype = Prototype { params: params.into(), returns, variadic };
                self.shapes.function(prototype, self.index)
            }
            Kind::Unknown => Ref::VOID,
        })
    }

    /// A type as C spells it; `nested` is for those of a function's parameters.
    pub(super) fn spell(&mut self, mut at: Option<usize>, nested: usize) -> Result<String, Fault> {
        let mut declarator = Declarator::new();
        for _ in 0..DEPTH {
            let Some(target) = at else { break };
            let entry = self.entry(target)?;
            match kind(entry.tag) {
                Kind::Qualified => {}
                Kind::Pointer => declarator.pointer(),
                Kind::Array => {
                    self.dimensions(target)?.into_iter().for_each(|dimension| declarator.array(dimension))
                }
                Kind::Function => {
                    let mut params = Vec::new();
                    for child in self.children(target)?.iter().take(PARAMETERS) {
                        match child.tag {
                            gimli::DW_TAG_formal_parameter if nested == NESTED => params.push("…".to_owned()),
                            gimli::DW_TAG_formal_parameter => {
                                params.push(self.spell(child.type_, nested + 1)?)
                            }
                            gimli::DW_TAG_unspecified_parameters => params.push("...".to_owned()),
                            _ => {}
                        }
                    }
                    declarator.function(&params);
                }
                Kind::Scalar | Kind::Typedef | Kind::Record | Kind::Unknown => {
                    let tag = match entry.tag {
                        gimli::DW_TAG_structure_type => "struct ",
                        gimli::DW_TAG_union_type => "union ",
                        gimli::DW_TAG_enumeration_type => "enum ",
                        _ => "",
                    };
                    let name = if entry.name.is_empty() { "{…}" } else { usual(entry.name) };
                    return Ok(declarator.of(&format!("{tag}{name}")));
                }
            }
            at = entry.type_;
        }
        Ok(declarator.of("void"))
    }

    pub(super) fn function(&mut self, prototype: Prototype<'d>) -> Ref {
        self.shapes.function(prototype, self.index)
    }

    /// Whether a parameter of this type takes one of the registers for whole numbers.
    pub(super) fn in_register(&mut self, at: Option<usize>) -> Result<bool, Fault> {
        let mut at = at;
        for _ in 0..DEPTH {
            let Some(target) = at else { break };
            let entry = self.entry(target)?;
            match (kind(entry.tag), entry.tag) {
                (Kind::Pointer, _) | (_, gimli::DW_TAG_enumeration_type) => return Ok(true),
                (Kind::Scalar, _) => return Ok(entry.whole && narrow(entry.size) <= 8),
                (Kind::Qualified | Kind::Typedef, _) => at = entry.type_,
                _ => break,
            }
        }
        Ok(false)
    }

    fn scalar(&mut self, entry: &TypeEntry<'d>) -> Result<Ref, Fault> {
        match entry.size {
            None if entry.type_.is_some() => self.resolve(entry.type_),
            size => Ok(self.shapes.scalar(narrow(size))),
        }
    }

    /// An array's numbers of elements, outermost first.
    fn dimensions(&mut self, at: usize) -> Result<Vec<u32>, Fault> {
        let mut dimensions = self.children(at)?;
        dimensions.retain(|child| child.tag == gimli::DW_TAG_subrange_type);
        if dimensions.is_empty() {
            return Ok(vec![0]);
        }
        Ok(dimensions.iter().map(|dimension| narrow(dimension.count)).collect())
    }

    /// What a typedef gives a name to that has none.
    fn nameless(&mut self, mut at: Option<usize>) -> Result<Option<TypeEntry<'d>>, Fault> {
        for _ in 0..8 {
            let Some(target) = at else { break };
            let entry = self.entry(target)?;
            match kind(entry.tag) {
                Kind::Qualified => at = entry.type_,
                Kind::Record if entry.name.is_empty() && !entry.declaration => return Ok(Some(entry)),
                _ => break,
            }
        }
        Ok(None)
    }

    fn record(&mut self, entry: TypeEntry<'d>, typedef: &'d str) -> Result<Ref, Fault> {
        let union = entry.tag == gimli::DW_TAG_union_type;
        let (tag, name) = match (entry.name, typedef, union) {
            ("", "", false) => (Tag::NamelessStruct, ""),
            ("", "", true) => (Tag::NamelessUnion, ""),
            ("", typedef, _) => (Tag::Typedef, typedef),
            (name, _, false) => (Tag::Struct, name),
            (name, _, true) => (Tag::Union, name),
        };
        if entry.declaration {
            return Ok(self.shapes.declared(tag, name, self.index));
        }
        if let Some(known) = self.known(&entry, tag, name)? {
            return Ok(known);
        }
        let looks = self.look(&entry, tag, name)?;
        let (type_, first) = self.shapes.record(looks, self.index);
        if first {
            self.wanted.push((entry, tag, name, looks));
        }
        Ok(type_)
    }

    /// The one of this name and size that was there before; if there are several, that with these members.
    fn known(&mut self, entry: &TypeEntry<'d>, tag: Tag, name: &str) -> Result<Option<Ref>, Fault> {
        let shapes = self.shapes;
        match shapes.records(tag, name, narrow(entry.size)) {
            [] => Ok(None),
            [only] => Ok(shapes.known(*only)),
            several => {
                let members = self.members(entry.at)?;
                let same = several.iter().find(|id| {
                    let known = shapes.types.record(**id).members.iter();
                    known
                        .map(|known| (&*known.name, known.offset))
                        .eq(members.iter().map(|m| (m.name, place(m).0)))
                });
                Ok(same.or(several.first()).and_then(|id| shapes.known(*id)))
            }
        }
    }

    fn members(&mut self, at: usize) -> Result<Vec<TypeEntry<'d>>, Fault> {
        let mut members = self.children(at)?;
        // What is inherited is a member without a name; a static one is none.
        members.retain(|child| {
            matches!(child.tag, gimli::DW_TAG_member | gimli::DW_TAG_inheritance) && !child.declaration
        });
        Ok(members)
    }

    /// A hash of what makes a structure or union the same as another.
    fn look(&mut self, entry: &TypeEntry<'d>, tag: Tag, name: &str) -> Result<u64, Fault> {
        let mut hasher = DefaultHasher::new();
        (tag, name, entry.size).hash(&mut hasher);
        for member in self.members(entry.at)? {
            (member.name, place(&member), self.outside(member.type_)?).hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// A hash of a type in which a structure's name stands for it.
    fn outside(&mut self, at: Option<usize>) -> Result<u64, Fault> {
        let Some(at) = at else { return Ok(0) };
        if let Some(known) = self.looks.get(&at) {
            return Ok(*known);
        }
        if self.depth == DEPTH {
            return Ok(0);
        }
        self.looks.insert(at, 0);
        self.depth += 1;
        let looks = self.hash(at);
        self.depth -= 1;
        let looks = looks?;
        self.looks.insert(at, looks);
        Ok(looks)
    }

    fn hash(&mut self, at: usize) -> Result<u64, Fault> {
        let entry = self.entry(at)?;
        let mut hasher = DefaultHasher::new();
        match kind(entry.tag) {
            Kind::Scalar => (1, entry.size).hash(&mut hasher),
            Kind::Pointer => (2, self.outside(entry.type_)?).hash(&mut hasher),
            Kind::Qualified => return self.outside(entry.type_),
            Kind::Typedef => match self.nameless(entry.type_)? {
                Some(record) => return self.look(&record, Tag::Typedef, entry.name),
                None => return self.outside(entry.type_),
            },
            Kind::Record if entry.name.is_empty() => return self.look(&entry, Tag::NamelessStruct, ""),
            Kind::Record => (3, entry.tag.0, entry.name).hash(&mut hasher),
            Kind::Array => (4, self.outside(entry.type_)?, self.dimensions(at)?).hash(&mut hasher),
            Kind::Function => {
                (5, self.outside(entry.type_)?).hash(&mut hasher);
                for child in self.children(at)? {
                    (child.tag.0, self.outside(child.type_)?).hash(&mut hasher);
                }
            }
            Kind::Unknown => {}
        }
        Ok(hasher.finish())
    }

    /// Describes what no unit before this one has described, and what that leads to. Others may count on it:
    /// one that cannot be read does not keep it from going on.
    pub(super) fn describe(&mut self) -> Result<(), Fault> {
        let mut outcome = Ok(());
        while let Some((entry, tag, name, looks)) = self.wanted.pop() {
            match self.parts(&entry) {
                Ok(members) => {
                    let (size, union) = (narrow(entry.size), entry.tag == gimli::DW_TAG_union_type);
                    self.shapes.describe(looks, self.index, Recipe { tag, name, size, union, members });
                }
                Err(fault) => outcome = Err(fault),
            }
        }
        outcome
    }

    fn parts(&mut self, entry: &TypeEntry<'d>) -> Result<Vec<Part<'d>>, Fault> {
        let mut parts = Vec::new();
        for member in self.members(entry.at)? {
            let type_ = self.resolve(member.type_)?;
            let (offset, bit_field) = place(&member);
            parts.push(Part { name: member.name, type_, offset, bit_field });
        }
        Ok(parts)
    }
}

enum Kind {
    Scalar,
    Pointer,
    Qualified,
    Typedef,
    Record,
    Array,
    Function,
    Unknown,
}

fn kind(tag: gimli::DwTag) -> Kind {
    match tag {
        gimli::DW_TAG_base_type | gimli::DW_TAG_enumeration_type => Kind::Scalar,
        gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
            Kind::Pointer
        }
        gimli::DW_TAG_const_type
        | gimli::DW_TAG_volatile_type
        | gimli::DW_TAG_restrict_type
        | gimli::DW_TAG_atomic_type => Kind::Qualified,
        gimli::DW_TAG_typedef => Kind::Typedef,
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => Kind::Record,
        gimli::DW_TAG_array_type => Kind::Array,
        gimli::DW_TAG_subroutine_type => Kind::Function,
        _ => Kind::Unknown,
    }
}

fn narrow(number: Option<u64>) -> u32 {
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

/// Where a member begins, and how many bytes it touches if it is a bit-field.
fn place(member: &TypeEntry<'_>) -> (u32, u32) {
    if member.bit_size == 0 {
        return (narrow(Some(member.offset)), 0);
    }
    let bytes = member.offset.saturating_mul(8);
    let first = match (member.data_bit_offset, member.bit_offset, member.size) {
        (Some(first), ..) => bytes.saturating_add(first),
        // Counted from the most significant bit of a storage unit of this size.
        (None, Some(above), Some(size)) => {
            bytes.saturating_add(size.saturating_mul(8)).saturating_sub(above).saturating_sub(member.bit_size)
        }
        _ => bytes,
    };
    let last = first.saturating_add(member.bit_size - 1);
    (narrow(Some(first / 8)), narrow(Some(last / 8 - first / 8 + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_fields() {
        let field = |bit_size, data_bit_offset, bit_offset, offset| TypeEntry {
            size: Some(4),
            offset,
            bit_size,
            data_bit_offset,
            bit_offset,
            ..TypeEntry::new(0, gimli::DW_TAG_member)
        };
        assert_eq!(place(&field(0, None, None, 12)), (12, 0));
        assert_eq!(place(&field(3, Some(35), None, 0)), (4, 1));
        assert_eq!(place(&field(3, Some(38), None, 0)), (4, 2));
        // The same, as before DWARF 5: 26 bits are above it in the word at 4; then 23.
        assert_eq!(place(&field(3, None, Some(26), 4)), (4, 1));
        assert_eq!(place(&field(3, None, Some(23), 4)), (4, 2));
        assert_eq!(place(&field(u64::MAX, Some(u64::MAX), Some(u64::MAX), u64::MAX)).1, 1);
    }
}
