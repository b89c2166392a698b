//! What lies where in a type.

use super::{Member, RecordId, Type, TypeId, Types};

/// A structure or union around some bytes, with where these lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The structure or union; it is named.
    pub record: RecordId,
    /// The first byte.
    pub start: u32,
    /// Behind the last byte.
    pub end: u32,
}

/// One member of the way from a structure to some bytes in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The structure or union.
    pub record: RecordId,
    /// The number of its member.
    pub member: u32,
}

/// What a walk into a type comes to.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    /// The innermost type: no structure or union, unless all of it or several of its members are meant.
    pub type_: TypeId,
    /// Where it begins, in bytes from the beginning of the outermost type.
    pub start: u32,
}

/// Structures nest no deeper in any program; circles, which only damaged type information has, do.
const DEPTH: usize = 24;

/// So many members are looked at in one walk. Unions of unions that are made to do harm have more ways through
/// them than could ever be gone; the largest honest structures, with all that is in them, a few thousand members.
const LOOKS: usize = 1 << 16;

impl Types {
    /// Walks from a type to the bytes `start..start + size` in it: through each structure, union and array
    /// around them, from the outside in. `enter` is called for each structure and union, `leave` when all
    /// members of it have been walked, and `leaf` for what is at the end of a way; a union has several.
    ///
    /// Bytes behind the end of the type are in it if it ends with a flexible array.
    pub fn walk(&self, of: TypeId, start: u32, size: u32, visit: &mut impl Visit) {
        self.step(of, 0, start, size, &mut Limits::new(), visit);
    }

    /// `start` is from the beginning of `of`, which lies at `at`.
    fn step(&self, of: TypeId, at: u32, start: u32, size: u32, limits: &mut Limits, visit: &mut impl Visit) {
        let leaf = Leaf { type_: of, start: at };
        if limits.depth == 0 || limits.looks == 0 {
            return visit.leaf(leaf);
        }
        match self.get(of) {
            Type::Array(element, _) => match self.size(element) {
                0 => visit.leaf(leaf),
                each => {
                    let first = start / each * each;
                    // More than one element: the array itself is meant.
                    if start - first + size > each {
                        return visit.leaf(leaf);
                    }
                    limits.depth -= 1;
                    self.step(element, at.saturating_add(first), start - first, size, limits, visit);
                    limits.depth += 1;
                }
            },
            Type::Record(id) => {
                let record = self.record(id);
                visit.enter(id, start, start.saturating_add(size));
                let mut inside = false;
                for (number, member) in (0..).zip(&record.members) {
                    if !limits.look() {
                        break;
                    }
                    let width = self.width(member);
                    let last = record.size <= member.offset.saturating_add(width);
                    let flexible = last && self.flexible(member.type_, limits);
                    let end = if flexible { u32::MAX } else { member.offset.saturating_add(width) };
                    if member.offset <= start && start.saturating_add(size) <= end {
                        inside = true;
                        visit.member(Step { record: id, member: number });
                        let at = at.saturating_add(member.offset);
                        limits.depth -= 1;
                        self.step(member.type_, at, start - member.offset, size, limits, visit);
                        limits.depth += 1;
                    }
                }
                if !inside {
                    visit.leaf(leaf);
                }
                visit.leave(id);
            }
            _ => visit.leaf(leaf),
        }
    }

    /// How many bytes of its structure a member takes.
    fn width(&self, member: &Member) -> u32 {
        if member.bit_field > 0 { member.bit_field } else { self.size(member.type_) }
    }

    /// Whether a member of this type at the end of a structure may go on behind it.
    fn flexible(&self, of: TypeId, limits: &mut Limits) -> bool {
        match self.get(of) {
            Type::Array(element, 0) => self.size(element) > 0,
            Type::Record(id) if limits.depth > 0 => {
                let record = self.record(id);
                let ends = |member: &&Member| {
                    record.union || member.offset.saturating_add(self.width(member)) >= record.size
                };
                record.members.iter().rev().filter(ends).any(|member| {
                    limits.depth -= 1;
                    let flexible = limits.look() && self.flexible(member.type_, limits);
                    limits.depth += 1;
                    flexible
                })
            }
            _ => false,
        }
    }

    /// Whether something at this offset belongs to an object of this type.
    pub fn contains(&self, of: TypeId, offset: u32) -> bool {
        offset < self.size(of) || self.flexible(of, &mut Limits::new())
    }

    /// Every named structure and union around these bytes, outermost first; one may be there several
    /// times, where members of a union overlap.
    pub fn levels(&self, of: TypeId, start: u32, size: u32) -> Vec<Level> {
        struct Levels<'t>(&'t Types, Vec<Level>);
        impl Visit for Levels<'_> {
            fn enter(&mut self, record: RecordId, start: u32, end: u32) {
                let level = Level { record, start, end };
                if self.0.record(record).tag.named() && !self.1.contains(&level) {
                    self.1.push(level);
                }
            }
        }
        let mut levels = Levels(self, Vec::new());
        self.walk(of, start, size, &mut levels);
        levels.1
    }

    /// The different types of what lies exactly in these bytes.
    pub fn leaves(&self, of: TypeId, start: u32, size: u32) -> Vec<TypeId> {
        struct Leaves<'t> {
            types: &'t Types,
            start: u32,
            size: u32,
            found: Vec<TypeId>,
        }
        impl Visit for Leaves<'_> {
            fn leaf(&mut self, leaf: Leaf) {
                let fits = leaf.start == self.start && self.types.size(leaf.type_) == self.size;
                if fits && !self.found.contains(&leaf.type_) {
                    self.found.push(leaf.type_);
                }
            }
        }
        let mut leaves = Leaves { types: self, start, size, found: Vec::new() };
        self.walk(of, start, size, &mut leaves);
        leaves.found
    }
}

/// How far a walk may still go.
struct Limits {
    depth: usize,
    looks: usize,
}

impl Limits {
    fn new() -> Self {
        Self { depth: DEPTH, looks: LOOKS }
    }

    /// Whether one more member may be looked at.
    fn look(&mut self) -> bool {
        self.looks = self.looks.saturating_sub(1);
        self.looks > 0
    }
}

/// Who walks a type.
pub trait Visit {
    /// The bytes lie there in this structure or union.
    fn enter(&mut self, _record: RecordId, _start: u32, _end: u32) {}
    /// They lie in this member.
    fn member(&mut self, _step: Step) {}
    /// The way ends here.
    fn leaf(&mut self, _leaf: Leaf) {}
    /// All ways through this structure or union have been gone.
    fn leave(&mut self, _record: RecordId) {}
}
