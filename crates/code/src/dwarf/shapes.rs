//! Types that units of code have, each once, although thousands of units describe them.
//!
//! Units are read at the same time. What a table of [`Types`] already has is looked up there; everything else
//! gets a number here, which all units share, and is made when all have been read. A structure is known by
//! what it looks like: its name, its size, and its members with their types' names.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::types::{Member, Param, Proto, RecordId, Tag, Type, TypeId, Types};

/// A type, while units are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ref {
    /// One that was there before.
    Known(TypeId),
    /// The number of one that is new.
    New(u32),
}

impl Ref {
    pub(super) const VOID: Self = Self::Known(Types::VOID);
}

/// What makes a new type what it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape<'d> {
    Scalar(u32),
    Pointer(Ref),
    Array(Ref, u32),
    /// A structure or union, by the hash of what it looks like.
    Record(u64),
    /// One whose definition is elsewhere, if anywhere.
    Declared(Tag, &'d str),
    Function(Prototype<'d>),
}

/// A function's parameters and result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Prototype<'d> {
    pub(super) params: Box<[(&'d str, Ref)]>,
    pub(super) returns: Ref,
    pub(super) variadic: bool,
}

/// A structure or union that is to be made.
#[derive(Clone, Debug)]
pub(super) struct Recipe<'d> {
    pub(super) tag: Tag,
    pub(super) name: &'d str,
    pub(super) size: u32,
    pub(super) union: bool,
    pub(super) members: Vec<Part<'d>>,
}

/// A member of one.
#[derive(Clone, Debug)]
pub(super) struct Part<'d> {
    pub(super) name: &'d str,
    pub(super) type_: Ref,
    pub(super) offset: u32,
    pub(super) bit_field: u32,
}

struct Slot<'d> {
    number: u32,
    /// The first unit that has it, whose description is taken: so the result is the same however the units
    /// fall to threads.
    owner: usize,
    recipe: Option<Recipe<'d>>,
}

type Shard<'d> = HashMap<Shape<'d>, Slot<'d>>;

/// Threads seldom wait for each other with so many.
const SHARDS: usize = 64;

/// What is known before, and what is new.
pub(super) struct Shapes<'d, 't> {
    pub(super) types: &'t Types,
    records: HashMap<(Tag, &'t str, u32), Vec<RecordId>>,
    prototypes: HashMap<Prototype<'t>, TypeId>,
    hasher: RandomState,
    shards: Vec<Mutex<Shard<'d>>>,
    next: AtomicU32,
}

fn lock<'m, 'd>(shard: &'m Mutex<Shard<'d>>) -> MutexGuard<'m, Shard<'d>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'d, 't> Shapes<'d, 't> {
    pub(super) fn new(types: &'t Types) -> Self {
        let mut records: HashMap<_, Vec<_>> = HashMap::new();
        for (id, record) in types.records().filter(|(_, record)| record.tag.named()) {
            records.entry((record.tag, &*record.name, record.size)).or_default().push(id);
        }
        let mut prototypes = HashMap::new();
        for (id, proto) in types.protos() {
            let Some(type_) = types.interned(Type::Function(id)) else { continue };
            let params = proto.params.iter().map(|param| (&*param.name, Ref::Known(param.type_)));
            let returns = Ref::Known(proto.returns);
            let prototype = Prototype { params: params.collect(), returns, variadic: proto.variadic };
            prototypes.entry(prototype).or_insert(type_);
        }
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { types, records, prototypes, hasher: RandomState::new(), shards, next: AtomicU32::new(0) }
    }

    /// Structures and unions that were there before.
    pub(super) fn records<'a>(&'a self, tag: Tag, name: &'a str, size: u32) -> &'a [RecordId] {
        self.records.get(&(tag, name, size)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn known(&self, record: RecordId) -> Option<Ref> {
        self.types.interned(Type::Record(record)).map(Ref::Known)
    }

    /// The number of what is new, and whether this unit is the first that has it.
    fn number(&self, shape: Shape<'d>, unit: usize) -> (u32, bool) {
        let hash = self.hasher.hash_one(&shape);
        let shard = usize::try_from(hash % 64).unwrap_or(0) % SHARDS;
        let mut shard = lock(&self.shards[shard]);
        let mut first = false;
        let slot = shard.entry(shape).or_insert_with(|| {
            first = true;
            Slot { number: self.next.fetch_add(1, Ordering::Relaxed), owner: unit, recipe: None }
        });
        if unit < slot.owner {
            (slot.owner, first) = (unit, true);
        }
        (slot.number, first)
    }

    pub(super) fn scalar(&self, size: u32) -> Ref {
        match self.types.interned(Type::Scalar(size)) {
            Some(known) => Ref::Known(known),
            None => Ref::New(self.number(Shape::Scalar(size), 0).0),
        }
    }

    pub(super) fn pointer(&self, to: Ref, unit: usize) -> Ref {
        if let Ref::Known(to) = to
            && let Some(known) = self.types.interned(Type::Pointer(to))
        {
            return Ref::Known(known);
        }
        Ref::New(self.number(Shape::Pointer(to), unit).0)
    }

    pub(super) fn array(&self, of: Ref, count: u32, unit: usize) -> Ref {
        if let Ref::Known(of) = of
            && let Some(known) = self.types.interned(Type::Array(of, count))
        {
            return Ref::Known(known);
        }
        Ref::New(self.number(Shape::Array(of, count), unit).0)
    }

    pub(super) fn function(&self, prototype: Prototype<'d>, unit: usize) -> Ref {
        match self.prototypes.get(&prototype) {
            Some(known) => Ref::Known(*known),
            None => Ref::New(self.number(Shape::Function(prototype), unit).0),
        }
    }

    /// A structure or union that this unit does not define.
    pub(super) fn declared(&self, tag: Tag, name: &'d str, unit: usize) -> Ref {
        let known = self.types.find(tag, name).and_then(|record| self.known(record));
        known.unwrap_or_else(|| Ref::New(self.number(Shape::Declared(tag, name), unit).0))
    }

    /// A structure or union that looks so, and whether this unit has to describe it.
    pub(super) fn record(&self, looks: u64, unit: usize) -> (Ref, bool) {
        let (number, first) = self.number(Shape::Record(looks), unit);
        (Ref::New(number), first)
    }

    /// Describes it.
    pub(super) fn describe(&self, looks: u64, unit: usize, recipe: Recipe<'d>) {
        let shape = Shape::Record(looks);
        let shard = usize::try_from(self.hasher.hash_one(&shape) % 64).unwrap_or(0) % SHARDS;
        if let Some(slot) = lock(&self.shards[shard]).get_mut(&shape)
            && slot.owner == unit
        {
            slot.recipe = Some(recipe);
        }
    }

    /// All that is new, by number.
    pub(super) fn into_new(self) -> New<'d> {
        let mut all: Vec<_> = self
            .shards
            .into_iter()
            .flat_map(|shard| shard.into_inner().unwrap_or_else(PoisonError::into_inner))
            .map(|(shape, slot)| (slot.number, shape, slot.recipe))
            .collect();
        all.sort_unstable_by_key(|(number, ..)| *number);
        New { all: all.into_iter().map(|(_, shape, recipe)| (shape, recipe)).collect() }
    }
}

/// What is new, when all units have been read.
pub(super) struct New<'d> {
    all: Vec<(Shape<'d>, Option<Recipe<'d>>)>,
}

/// The types that were made of what was new.
pub(super) struct Made(Vec<Option<TypeId>>);

impl Made {
    pub(super) fn get(&self, of: Ref) -> TypeId {
        self.known(of).unwrap_or(Types::VOID)
    }

    fn known(&self, of: Ref) -> Option<TypeId> {
        match of {
            Ref::Known(known) => Some(known),
            Ref::New(number) => self.0.get(index(number)).copied().flatten(),
        }
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl<'d> New<'d> {
    /// Makes what `roots` lead to, in their order: nothing here depends on which thread was faster.
    pub(super) fn make(&self, types: &mut Types, roots: impl Iterator<Item = Ref>) -> Made {
        let reached = self.reached(roots);
        let mut made = Made(vec![None; self.all.len()]);
        let mut records = Vec::new();
        for number in &reached {
            if let Some((Shape::Record(_), Some(recipe))) = self.all.get(*number) {
                let id = declare(types, recipe);
                made.0[*number] = Some(types.intern(Type::Record(id)));
                records.push((id, recipe));
            }
        }
        for number in &reached {
            if let Some((Shape::Declared(tag, name), _)) = self.all.get(*number) {
                let declare = |types: &mut Types| types.declare(*tag, name, 0, *tag == Tag::Union);
                let id = types.find(*tag, name).unwrap_or_else(|| declare(types));
                made.0[*number] = Some(types.intern(Type::Record(id)));
            }
        }
        for number in reached {
            self.compose(number, types, &mut made);
        }
        for (id, recipe) in records {
            let member = |part: &Part<'d>| Member {
                name: part.name.into(),
                type_: made.get(part.type_),
                offset: part.offset,
                bit_field: part.bit_field,
            };
            types.define(id, recipe.size, recipe.members.iter().map(member).collect());
        }
        made
    }

    /// What a new type is made of.
    fn parts(&self, number: usize) -> Vec<Ref> {
        match self.all.get(number) {
            Some((Shape::Pointer(of) | Shape::Array(of, _), _)) => vec![*of],
            Some((Shape::Function(prototype), _)) => {
                prototype.params.iter().map(|(_, type_)| *type_).chain([prototype.returns]).collect()
            }
            Some((Shape::Record(_), Some(recipe))) => recipe.members.iter().map(|part| part.type_).collect(),
            _ => Vec::new(),
        }
    }

    fn reached(&self, roots: impl Iterator<Item = Ref>) -> Vec<usize> {
        let (mut seen, mut order, mut left) = (vec![false; self.all.len()], Vec::new(), Vec::new());
        for root in roots {
            left.push(root);
            while let Some(of) = left.pop() {
                let Ref::New(number) = of else { continue };
                let number = index(number);
                if seen.get(number) == Some(&false) {
                    seen[number] = true;
                    order.push(number);
                    left.extend(self.parts(number).into_iter().rev());
                }
            }
        }
        order
    }

    /// Makes a pointer, array or function, and first what it is made of. Without recursion, since chains can
    /// be as long as the file. There is no circle: what one is made of had its number before it.
    fn compose(&self, number: usize, types: &mut Types, made: &mut Made) {
        let mut open = vec![number];
        while let Some(number) = open.last().copied() {
            if made.0[number].is_some() {
                open.pop();
                continue;
            }
            let missing = self.parts(number).into_iter().find(|part| made.known(*part).is_none());
            if let Some(Ref::New(missing)) = missing.filter(|_| !self.is_record(number)) {
                open.push(index(missing));
                continue;
            }
            made.0[number] = Some(match &self.all[number].0 {
                Shape::Scalar(size) => types.intern(Type::Scalar(*size)),
                Shape::Pointer(to) => types.intern(Type::Pointer(made.get(*to))),
                Shape::Array(of, count) => types.intern(Type::Array(made.get(*of), *count)),
                Shape::Function(prototype) => {
                    let param =
                        |(name, of): &(&str, Ref)| Param { name: (*name).into(), type_: made.get(*of) };
                    let params = prototype.params.iter().map(param).collect();
                    let (returns, variadic) = (made.get(prototype.returns), prototype.variadic);
                    let proto = types.prototype(Proto { params, returns, variadic });
                    types.intern(Type::Function(proto))
                }
                // One whose unit turned out to be damaged.
                Shape::Record(_) | Shape::Declared(..) => Types::VOID,
            });
            open.pop();
        }
    }

    fn is_record(&self, number: usize) -> bool {
        matches!(self.all[number].0, Shape::Record(_) | Shape::Declared(..))
    }
}

/// A new structure or union, or the one that was only declared so far.
fn declare(types: &mut Types, recipe: &Recipe<'_>) -> RecordId {
    let known = types.find(recipe.tag, recipe.name).filter(|_| recipe.tag.named());
    let open = |id: &RecordId| types.record(*id).size == 0 && types.record(*id).members.is_empty();
    match known.filter(open) {
        Some(id) => {
            types.define(id, recipe.size, Vec::new());
            id
        }
        None => types.declare(recipe.tag, recipe.name, recipe.size, recipe.union),
    }
}
