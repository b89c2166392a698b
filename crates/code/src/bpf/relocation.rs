//! What programs of an object need of a kernel's types: CO-RE relocations, as clang writes them into `.BTF.ext` and
//! libbpf carries them out (libbpf's `relo_core.c`; include/uapi/linux/bpf.h, `enum bpf_core_relo_kind`).
//!
//! libbpf turns the instruction of a relocation that a kernel cannot fulfil into one that the verifier refuses where it is
//! reached, and says so in numbers. It also adapts a load to a member that is wider there than where it was compiled, but
//! not a copy of so many bytes. So this is asked first, is stricter, and says names.

use std::collections::HashSet;
use std::fmt;

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, SectionIndex};
use xweave_bytes::read_le;

use super::ObjectError;
use super::elf::Functions;
use crate::btf::{Btf, RecordKind, Type};
use crate::kernel::{Kernel, MAX_DEPTH, TypeRef};

/// More relocations than an object has.
const RELOCATIONS: usize = 1 << 18;

/// The longest way to a member (`BPF_CORE_SPEC_MAX_LEN` of libbpf).
const STEPS: usize = 64;

/// What a relocation asks for, as far as it matters whether a kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// Where a member is, or something else about it.
    Member,
    /// How many bytes a member has: then the program reads a number of any width.
    Size,
    /// A type.
    Type,
    /// An enumerator's value.
    Enumerator,
    /// Whether something exists: that can be answered of any kernel.
    Existence,
}

impl Asks {
    fn of_kind(kind: u32) -> Option<Self> {
        Some(match kind {
            0 | 3 | 4 | 5 => Self::Member,
            1 => Self::Size,
            2 | 6 | 8 | 10 | 12 => Self::Existence,
            7 | 9 => Self::Type,
            11 => Self::Enumerator,
            _ => return None,
        })
    }
}

/// A step from a structure to what lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Element,
}

/// A relocation.
struct Relocation {
    section: SectionIndex,
    /// From the section's beginning, in bytes.
    offset: u64,
    asks: Asks,
    /// The type that it begins with, by its number in the object's types.
    root: u32,
    /// Numbers of members and elements with colons between, or the number of an enumerator.
    path: String,
}

/// The relocations of an object.
pub struct Relocations {
    types: Btf,
    functions: Functions,
    all: Vec<Relocation>,
}

/// Something that a program needs and a kernel does not have as it was when the program was compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unmet {
    /// No such structure, union, enumeration or typedef.
    Type(String),
    /// No such member: of which type, and its path.
    Member {
        /// As C calls it: `struct sk_buff`.
        of: String,
        /// Names with dots between.
        path: String,
    },
    /// A member of another kind or size.
    Differs {
        /// As C calls it: `struct sk_buff`.
        of: String,
        /// Names with dots between.
        path: String,
        /// What it is there.
        there: String,
        /// What it is in the program.
        here: String,
    },
    /// No such enumerator.
    Enumerator {
        /// As C calls it: `enum iter_type`.
        of: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(name) => write!(f, "it has no `{name}`"),
            Self::Member { of, path } => write!(f, "its `{of}` has no member `{path}`"),
            Self::Differs { of, path, there, here } => {
                write!(f, "the member `{path}` of its `{of}` is {there}, and {here} in what was compiled")
            }
            Self::Enumerator { of, name } => write!(f, "its `{of}` has no `{name}`"),
        }
    }
}

/// A type as far as programs depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// An integer or enumeration of so many bytes.
    Number(u32),
    Pointer,
    Record(RecordKind),
    Array(Box<Shape>),
    BitField,
    Other,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(1) => f.write_str("a number of 1 byte"),
            Self::Number(bytes) => write!(f, "a number of {bytes} bytes"),
            Self::Pointer => f.write_str("a pointer"),
            Self::Record(kind) => write!(f, "a {}", kind.word()),
            Self::Array(of) => write!(f, "an array, each element {of}"),
            Self::BitField => f.write_str("a bit-field"),
            Self::Other => f.write_str("something else"),
        }
    }
}

impl Relocations {
    /// Those of an object.
    ///
    /// # Errors
    ///
    /// It is no BPF object with type information.
    pub fn read(object: &[u8]) -> Result<Self, ObjectError> {
        let elf = ElfFile64::<Endianness>::parse(object)?;
        let section = |name: &str| {
            let section =
                elf.section_by_name(name).ok_or_else(|| ObjectError::Missing(format!("section {name}")))?;
            Ok::<_, ObjectError>(section.data()?)
        };
        let types = Btf::new("the object", section(".BTF")?, None)?;
        let records = read_records(section(".BTF.ext")?).ok_or(ObjectError::Damaged("section .BTF.ext"))?;
        let mut all = Vec::new();
        for (name, [offset, root, path, kind]) in records {
            let text = |at| String::from_utf8_lossy(types.any_text(at)).into_owned();
            let section =
                elf.section_by_name(&text(name)).ok_or(ObjectError::Damaged("section .BTF.ext"))?.index();
            let asks = Asks::of_kind(kind).ok_or(ObjectError::Damaged("section .BTF.ext"))?;
            all.push(Relocation { section, offset: offset.into(), asks, root, path: text(path) });
        }
        Ok(Self { functions: Functions::read(&elf)?, types, all })
    }

    /// What a program, and what it calls, needs and a kernel does not have, each once.
    ///
    /// What a program names by a flavour of its own (`struct name___flavour`) it may do without, as it asks whether it
    /// exists before it uses it: it is unmet only where it is there and something else.
    pub fn unmet(&self, program: &str, kernel: &Kernel) -> Vec<Unmet> {
        let reached = self.functions.reached(program);
        let is_reached = |relocation: &&Relocation| {
            reached.iter().any(|function| {
                let code = function.start..function.start.saturating_add(function.size);
                function.section == relocation.section && code.contains(&relocation.offset)
            })
        };
        self.unmet_of(&self.all.iter().filter(is_reached).collect::<Vec<_>>(), kernel)
    }

    /// What any program needs and a kernel does not have; see [`Self::unmet`].
    pub fn unmet_of_all(&self, kernel: &Kernel) -> Vec<Unmet> {
        self.unmet_of(&self.all.iter().collect::<Vec<_>>(), kernel)
    }

    fn unmet_of(&self, reached: &[&Relocation], kernel: &Kernel) -> Vec<Unmet> {
        let sized = reached.iter().filter(|relocation| relocation.asks == Asks::Size);
        let sized: HashSet<_> = sized.map(|relocation| (relocation.root, &relocation.path)).collect();
        let needs = reached.iter().filter(|relocation| relocation.asks != Asks::Existence);
        let check = |relocation: &&Relocation| {
            let any_width = sized.contains(&(relocation.root, &relocation.path));
            self.check(relocation, any_width, kernel).err()
        };
        let mut unmet: Vec<_> = needs.filter_map(check).collect();
        unmet.sort();
        unmet.dedup();
        unmet
    }

    /// `any_width` is whether the program asks how wide a number is.
    fn check(&self, relocation: &Relocation, any_width: bool, kernel: &Kernel) -> Result<(), Unmet> {
        let root = self.resolve(relocation.root);
        let (word, name) = match (self.types.get(relocation.root), self.types.get(root)) {
            (Type::Typedef(name, _), Type::Record(record)) if record.name.is_empty() => ("", name),
            (_, Type::Record(record)) => (record.kind.word(), record.name),
            (_, Type::Enum(of)) => ("enum", of.name),
            // What clang relocates besides has no name that a kernel could be asked for.
            _ => return Ok(()),
        };
        let (essential, is_flavour) = without_flavour(name);
        let called = if word.is_empty() { essential.to_owned() } else { format!("{word} {essential}") };
        let optional = |unmet: Unmet| if is_flavour { Ok(()) } else { Err(unmet) };
        let there = kernel.tagged(essential).into_iter().find(|of| match (kernel.get(*of), word) {
            (Type::Record(record), _) => record.kind.word() == word,
            (Type::Enum(_), "enum") => true,
            _ => false,
        });
        let there = there.or_else(|| kernel.typedef(essential).filter(|_| word.is_empty()));
        let Some(there) = there else { return optional(Unmet::Type(called)) };
        match relocation.asks {
            Asks::Type | Asks::Existence => Ok(()),
            Asks::Enumerator => {
                let Type::Enum(here) = self.types.get(root) else { return Ok(()) };
                let nth = relocation.path.split(':').next_back().and_then(|nth| nth.parse::<usize>().ok());
                let Some((name, _)) = nth.and_then(|nth| here.enumerators().nth(nth)) else { return Ok(()) };
                let (name, _) = without_flavour(name);
                match kernel.enumerators(essential).any(|(known, _)| known == name) {
                    true => Ok(()),
                    false => optional(Unmet::Enumerator { of: called, name: name.to_owned() }),
                }
            }
            Asks::Member | Asks::Size => {
                let Some((steps, here)) = self.follow(root, &relocation.path) else { return Ok(()) };
                let path = path_text(&steps);
                match kernel.follow(there, &steps) {
                    None => optional(Unmet::Member { of: called, path }),
                    Some(there) if there == here => Ok(()),
                    Some(Shape::Number(_)) if any_width && matches!(here, Shape::Number(_)) => Ok(()),
                    Some(there) => {
                        let (there, here) = (there.to_string(), here.to_string());
                        Err(Unmet::Differs { of: called, path, there, here })
                    }
                }
            }
        }
    }

    /// The type behind typedefs and qualifiers.
    fn resolve(&self, mut id: u32) -> u32 {
        for _ in 0..MAX_DEPTH {
            match self.types.get(id) {
                Type::Typedef(_, of) | Type::Qualified(of) => id = of,
                _ => break,
            }
        }
        id
    }

    /// The named steps of a path in the object's own types, and what is at its end.
    fn follow(&self, root: u32, path: &str) -> Option<(Vec<Step>, Shape)> {
        let (mut at, mut steps, mut bits) = (root, Vec::new(), 0);
        // The first number is an index of the root, as of an array.
        for number in path.split(':').skip(1).take(STEPS) {
            let number: usize = number.parse().ok()?;
            at = match self.types.get(at) {
                Type::Record(record) => {
                    let member = record.members().nth(number)?;
                    if !member.name.is_empty() {
                        steps.push(Step::Member(member.name.to_owned()));
                    }
                    bits = member.bits;
                    self.resolve(member.type_)
                }
                Type::Array(element, _) => {
                    steps.push(Step::Element);
                    bits = 0;
                    self.resolve(element)
                }
                _ => return None,
            };
        }
        Some((steps, if bits > 0 { Shape::BitField } else { self.shape(at, 0) }))
    }

    fn shape(&self, id: u32, depth: usize) -> Shape {
        shape(self.types.get(self.resolve(id)), &|element| {
            if depth < MAX_DEPTH { self.shape(element, depth + 1) } else { Shape::Other }
        })
    }
}

impl Kernel {
    /// What is at the end of a path that begins at a structure.
    fn follow(&self, root: TypeRef, steps: &[Step]) -> Option<Shape> {
        let (mut at, mut is_bits) = (self.resolve(root), false);
        for step in steps {
            (at, is_bits) = match step {
                Step::Member(name) => self.member(at, name, 0)?,
                Step::Element => match self.get(at) {
                    Type::Array(element, _) => (self.related(at, element), false),
                    _ => return None,
                },
            };
            at = self.resolve(at);
        }
        Some(if is_bits { Shape::BitField } else { self.shape(at, 0) })
    }

    /// The type of a member, also of one in a structure or union without a name, and whether it is a bit-field.
    fn member(&self, record: TypeRef, name: &str, depth: usize) -> Option<(TypeRef, bool)> {
        let Type::Record(of) = self.get(record) else { return None };
        of.members().find_map(|member| {
            let type_ = self.related(record, member.type_);
            match member.name {
                "" if depth < MAX_DEPTH => self.member(self.resolve(type_), name, depth + 1),
                known => (known == name).then_some((type_, member.bits > 0)),
            }
        })
    }

    fn shape(&self, of: TypeRef, depth: usize) -> Shape {
        let resolved = self.resolve(of);
        shape(self.get(resolved), &|element| match depth < MAX_DEPTH {
            true => self.shape(self.related(resolved, element), depth + 1),
            false => Shape::Other,
        })
    }
}

fn shape(of: Type<'_>, element: &dyn Fn(u32) -> Shape) -> Shape {
    match of {
        Type::Int(int) => Shape::Number(int.size),
        Type::Enum(of) => Shape::Number(of.size),
        Type::Pointer(_) => Shape::Pointer,
        Type::Record(record) => Shape::Record(record.kind),
        Type::Array(of, _) => Shape::Array(Box::new(element(of))),
        _ => Shape::Other,
    }
}

/// A name without its flavour, and whether it had one: `name___flavour`, of which libbpf ignores what follows the last
/// three underscores.
fn without_flavour(name: &str) -> (&str, bool) {
    let at = name.rmatch_indices("___").map(|(at, _)| at).find(|at| {
        let around =
            |at: Option<usize>| at.and_then(|at| name.as_bytes().get(at)).is_some_and(|byte| *byte != b'_');
        around(at.checked_sub(1)) && around(Some(at + 3))
    });
    at.map_or((name, false), |at| (&name[..at], true))
}

fn path_text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Member(name) => {
                text += if text.is_empty() { "" } else { "." };
                text += name;
            }
            Step::Element => text += "[]",
        }
    }
    text
}

/// The relocations of `.BTF.ext`: the offset of a section's name, and the offset of the instruction, the type, the offset
/// of the path, and the kind.
fn read_records(ext: &[u8]) -> Option<Vec<(u32, [u32; 4])>> {
    let word = read_le::<u32>;
    let size = |bytes: &[u8], at: usize| word(bytes, at).and_then(|size| usize::try_from(size).ok());
    // struct btf_ext_header: its length is at 4, the relocations' offset behind it at 24, their length at 28.
    let header = size(ext, 4)?;
    if header < 32 {
        return Some(Vec::new());
    }
    let (begin, length) = (header.checked_add(size(ext, 24)?)?, size(ext, 28)?);
    let records = ext.get(begin..begin.checked_add(length)?)?;
    if records.is_empty() {
        return Some(Vec::new());
    }
    let record = size(records, 0).filter(|size| *size >= 16)?;
    let (mut found, mut at) = (Vec::new(), 4);
    while at < records.len() {
        let (name, count) = (word(records, at)?, size(records, at + 4)?);
        let of_section = records.get(at + 8..(at + 8).checked_add(count.checked_mul(record)?)?)?;
        for one in of_section.chunks_exact(record) {
            found.push((name, [word(one, 0)?, word(one, 4)?, word(one, 8)?, word(one, 12)?]));
        }
        if found.len() > RELOCATIONS {
            return None;
        }
        at += 8 + of_section.len();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flavours_are_what_follows_three_underscores() {
        for (name, essential) in [
            ("sk_buff", "sk_buff"),
            ("sk_buff___old", "sk_buff"),
            ("a___b___c", "a___b"),
            ("___x", "___x"),
            ("x___", "x___"),
            ("x____y", "x____y"),
        ] {
            assert_eq!(without_flavour(name), (essential, essential != name), "{name}");
        }
    }

    #[test]
    fn damaged_relocations_are_none() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        // A header of 32 bytes; then the size of a record, a section's name and number of records, and one record.
        let good = words(&[0x0001_eb9f, 32, 0, 0, 0, 0, 0, 28, 16, 7, 1, 8, 3, 9, 0]);
        assert_eq!(read_records(&good), Some(vec![(7, [8, 3, 9, 0])]));
        for length in 32..good.len() {
            assert_eq!(read_records(&good[..length]), None, "{length}");
        }
        let many = words(&[0x0001_eb9f, 32, 0, 0, 0, 0, 0, 28, 16, 7, u32::MAX, 8, 3, 9, 0]);
        assert_eq!(read_records(&many), None);
    }
}
