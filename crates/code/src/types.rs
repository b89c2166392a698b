//! Types as flat tables: made to be asked millions of times what lies at an offset.
//!
//! Typedefs and qualifiers are gone, and equal types are one: two pointers to the same structure have
//! the same [`TypeId`]. A structure without a tag that a typedef names goes by the typedef's name.

mod from_btf;
mod layout;

use std::collections::HashMap;

pub use from_btf::KernelTypes;
pub use layout::{Leaf, Level, Step, Visit};

/// A type of a [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u32);

/// A structure or union of a [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(u32);

/// A function's prototype, of a [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProtoId(u32);

/// What a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `void`, and whatever is not known.
    Void,
    /// A number of so many bytes: integers, enumerations, floating point.
    Scalar(u32),
    /// A pointer to.
    Pointer(TypeId),
    /// An array of so many; of 0 if the number is not known.
    Array(TypeId, u32),
    /// A structure or union.
    Record(RecordId),
    /// A function.
    Function(ProtoId),
}

/// What a structure's or union's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tag {
    /// `struct name`
    Struct,
    /// `union name`
    Union,
    /// The name of a typedef for a structure or union without a tag.
    Typedef,
    /// A structure without any name.
    NamelessStruct,
    /// A union without any name.
    NamelessUnion,
}

impl Tag {
    /// Whether it is named at all.
    pub fn named(self) -> bool {
        matches!(self, Self::Struct | Self::Union | Self::Typedef)
    }
}

/// A structure or union.
#[derive(Clone, Debug)]
pub struct Record {
    /// What its name is.
    pub tag: Tag,
    /// Its name; empty if it has none.
    pub name: Box<str>,
    /// In bytes; 0 for one that is declared only.
    pub size: u32,
    /// Members overlap: it is a union.
    pub union: bool,
    /// In the order of declaration.
    pub members: Box<[Member]>,
}

/// A member of a structure or union.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name; empty if it has none.
    pub name: Box<str>,
    /// Its type.
    pub type_: TypeId,
    /// Where it begins, in bytes. For a bit-field: where the first byte that it touches begins.
    pub offset: u32,
    /// How many bytes it touches, if it is a bit-field; else 0.
    pub bit_field: u32,
}

/// A function's parameters and result.
#[derive(Clone, Debug)]
pub struct Proto {
    /// In order.
    pub params: Box<[Param]>,
    /// What it returns.
    pub returns: TypeId,
    /// Whether any number of arguments may follow.
    pub variadic: bool,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name; empty if it has none.
    pub name: Box<str>,
    /// Its type.
    pub type_: TypeId,
}

/// All types of a kernel or program.
pub struct Types {
    types: Vec<Type>,
    interned: HashMap<Type, TypeId>,
    records: Vec<Record>,
    named: HashMap<(Tag, Box<str>), RecordId>,
    protos: Vec<Proto>,
}

impl Default for Types {
    fn default() -> Self {
        let mut types = Self {
            types: Vec::new(),
            interned: HashMap::new(),
            records: Vec::new(),
            named: HashMap::new(),
            protos: Vec::new(),
        };
        types.intern(Type::Void);
        types
    }
}

impl Types {
    /// `void`
    pub const VOID: TypeId = TypeId(0);

    /// The type, which is made if it is new.
    pub fn intern(&mut self, type_: Type) -> TypeId {
        if let Some(known) = self.interned.get(&type_) {
            return *known;
        }
        let id = TypeId(number(self.types.len()));
        self.types.push(type_);
        self.interned.insert(type_, id);
        id
    }

    /// The type, if it is there already.
    pub fn interned(&self, type_: Type) -> Option<TypeId> {
        self.interned.get(&type_).copied()
    }

    /// A structure or union that is new, still without members. If it is named and the name is not yet
    /// taken, it can be found by it.
    pub fn declare(&mut self, tag: Tag, name: &str, size: u32, union: bool) -> RecordId {
        let id = RecordId(number(self.records.len()));
        self.records.push(Record { tag, name: name.into(), size, union, members: Box::default() });
        if tag.named() {
            self.named.entry((tag, name.into())).or_insert(id);
        }
        id
    }

    /// Gives a structure or union its size and members.
    pub fn define(&mut self, record: RecordId, size: u32, members: Vec<Member>) {
        if let Some(record) = self.records.get_mut(index(record.0)) {
            record.size = size;
            record.members = members.into();
        }
    }

    /// Names a structure or union that has no name after a typedef.
    pub fn name(&mut self, record: RecordId, typedef: &str) {
        let Some(named) = self.records.get_mut(index(record.0)).filter(|record| !record.tag.named()) else {
            return;
        };
        named.tag = Tag::Typedef;
        named.name = typedef.into();
        self.named.entry((Tag::Typedef, typedef.into())).or_insert(record);
    }

    /// A prototype.
    pub fn prototype(&mut self, proto: Proto) -> ProtoId {
        let id = ProtoId(number(self.protos.len()));
        self.protos.push(proto);
        id
    }

    /// What a type is.
    pub fn get(&self, id: TypeId) -> Type {
        self.types.get(index(id.0)).copied().unwrap_or(Type::Void)
    }

    /// A structure or union. Only numbers that came from this table may be asked for.
    pub fn record(&self, id: RecordId) -> &Record {
        &self.records[index(id.0)]
    }

    /// A prototype. Only numbers that came from this table may be asked for.
    pub fn proto(&self, id: ProtoId) -> &Proto {
        &self.protos[index(id.0)]
    }

    /// All structures and unions.
    pub fn records(&self) -> impl Iterator<Item = (RecordId, &Record)> {
        (0..).map(RecordId).zip(&self.records)
    }

    /// All prototypes.
    pub fn protos(&self) -> impl Iterator<Item = (ProtoId, &Proto)> {
        (0..).map(ProtoId).zip(&self.protos)
    }

    /// The structure or union of this name.
    pub fn find(&self, tag: Tag, name: &str) -> Option<RecordId> {
        self.named.get(&(tag, name.into())).copied()
    }

    /// What the pointer points to, if it is one.
    pub fn pointee(&self, id: TypeId) -> Option<TypeId> {
        match self.get(id) {
            Type::Pointer(to) => Some(to),
            _ => None,
        }
    }

    /// Whether it is a structure or union.
    pub fn is_record(&self, id: TypeId) -> bool {
        matches!(self.get(id), Type::Record(_))
    }

    /// In bytes; 0 for what has none.
    pub fn size(&self, id: TypeId) -> u32 {
        let (mut id, mut times) = (id, 1_u32);
        // Arrays of arrays: of any depth, if they come from a file that means harm.
        while let Type::Array(of, count) = self.get(id) {
            (id, times) = (of, times.saturating_mul(count));
        }
        times.saturating_mul(match self.get(id) {
            Type::Void | Type::Function(_) | Type::Array(..) => 0,
            Type::Scalar(size) => size,
            Type::Pointer(_) => 8,
            Type::Record(record) => self.record(record).size,
        })
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Tables are made of what was read from a file: there is no room for 2³² of anything in one.
fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
