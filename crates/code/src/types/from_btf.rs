//! A kernel's types, from BTF.

use std::collections::HashMap;

use super::{Member, Param, Proto, ProtoId, RecordId, Tag, Type, TypeId, Types};
use crate::btf;
use crate::declare::int_text;
use crate::kernel::{Kernel, MAX_DEPTH, TypeRef};
use crate::spelling::Declarator;

/// The types of a kernel and its modules, with what is declared by name. Empty for other programs.
#[derive(Default)]
pub struct KernelTypes {
    /// The types.
    pub types: Types,
    /// Prototypes of functions, by module (empty for the image) and name.
    functions: HashMap<(Box<str>, Box<str>), ProtoId>,
    /// Types of variables, by module and name. BTF has the per-CPU ones only (before Linux 6.19).
    variables: HashMap<(Box<str>, Box<str>), TypeId>,
    spellings: Spellings,
}

/// How C spells the types of functions' parameters.
#[derive(Default)]
struct Spellings {
    texts: Vec<Box<str>>,
    /// The number of the text of each parameter.
    of: HashMap<ProtoId, Box<[usize]>>,
}

impl KernelTypes {
    /// Takes them from a kernel's BTF.
    pub fn new(kernel: &Kernel) -> Self {
        let mut reader = Reader {
            kernel,
            types: Types::default(),
            seen: HashMap::new(),
            open: Vec::new(),
            declared: Vec::new(),
        };
        let (mut functions, mut variables) = (HashMap::new(), HashMap::new());
        let (mut spellings, mut spelled) = (Spellings::default(), HashMap::new());
        for at in kernel.all_ids() {
            let module = || kernel.module_of(at).into();
            match kernel.get(at) {
                btf::Type::Function(name, proto) => {
                    let prototype = kernel.related(at, proto);
                    let proto = reader.type_of(prototype);
                    if let Type::Function(proto) = reader.types.get(proto) {
                        functions.entry((module(), name.into())).or_insert(proto);
                        let number = |of| {
                            *spelled.entry(of).or_insert_with(|| {
                                spellings.texts.push(spell(kernel, of, 0).into());
                                spellings.texts.len() - 1
                            })
                        };
                        let btf::Type::Prototype(params) = kernel.get(prototype) else { continue };
                        let params = params.params().filter(|(_, type_)| *type_ != 0);
                        let params = params.map(|(_, of)| kernel.related(prototype, of)).map(number);
                        spellings.of.insert(proto, params.collect());
                    }
                }
                btf::Type::Variable(name, of) => {
                    let of = reader.type_of(kernel.related(at, of));
                    variables.entry((module(), name.into())).or_insert(of);
                }
                btf::Type::Record(_) | btf::Type::Typedef(..) => {
                    reader.type_of(at);
                }
                _ => {}
            }
        }
        reader.define();
        Self { types: reader.types, functions, variables, spellings }
    }

    /// The prototype of a function: the module's own, or else the image's.
    pub fn function(&self, module: Option<&str>, name: &str) -> Option<ProtoId> {
        declared(&self.functions, module, name)
    }

    /// The type of a function's nth parameter as C spells it, without qualifiers.
    pub fn spelling(&self, of: ProtoId, nth: usize) -> Option<&str> {
        let text = self.spellings.of.get(&of)?.get(nth)?;
        self.spellings.texts.get(*text).map(|text| &**text)
    }

    /// The type of a variable: the module's own, or else the image's.
    pub fn variable(&self, module: Option<&str>, name: &str) -> Option<TypeId> {
        declared(&self.variables, module, name)
    }
}

fn declared<T: Copy>(all: &HashMap<(Box<str>, Box<str>), T>, module: Option<&str>, name: &str) -> Option<T> {
    let own = module.and_then(|module| all.get(&(module.into(), name.into())));
    own.or_else(|| all.get(&(Box::default(), name.into()))).copied()
}

/// So many parameters of a function are spelled, and functions within functions.
const PARAMETERS: usize = 16;
const NESTED: usize = 2;

/// A type as C spells it; `nested` is for those of a function's parameters.
fn spell(kernel: &Kernel, mut at: TypeRef, nested: usize) -> String {
    let mut declarator = Declarator::new();
    for _ in 0..MAX_DEPTH {
        let (prefix, name) = match kernel.get(at) {
            btf::Type::Pointer(to) => {
                declarator.pointer();
                at = kernel.related(at, to);
                continue;
            }
            btf::Type::Qualified(of) => {
                at = kernel.related(at, of);
                continue;
            }
            btf::Type::Array(of, count) => {
                declarator.array(count);
                at = kernel.related(at, of);
                continue;
            }
            btf::Type::Prototype(proto) => {
                let params = proto.params().take(PARAMETERS).map(|(_, of)| match of {
                    0 => "...".to_owned(),
                    _ if nested == NESTED => "…".to_owned(),
                    of => spell(kernel, kernel.related(at, of), nested + 1),
                });
                declarator.function(&params.collect::<Vec<_>>());
                at = kernel.related(at, proto.returns);
                continue;
            }
            btf::Type::Int(int) => ("", int_text(int)),
            btf::Type::Float(4) => ("", "float"),
            btf::Type::Float(8) => ("", "double"),
            btf::Type::Float(_) => ("", "long double"),
            btf::Type::Enum(of) => ("enum", of.name),
            btf::Type::Record(record) => (record.kind.word(), record.name),
            btf::Type::Forward(name, kind) => (kind.word(), name),
            btf::Type::Typedef(name, _) => ("", name),
            btf::Type::Void | btf::Type::Function(..) | btf::Type::Variable(..) => break,
        };
        let name = if name.is_empty() { "{…}" } else { name };
        let space = if prefix.is_empty() { "" } else { " " };
        return declarator.of(&format!("{prefix}{space}{name}"));
    }
    declarator.of("void")
}

struct Reader<'k> {
    kernel: &'k Kernel,
    types: Types,
    seen: HashMap<TypeRef, TypeId>,
    /// The types that are being read: pointers may lead back to them, and hostile typedefs may.
    open: Vec<TypeRef>,
    /// The structures and unions that still lack their members. These are read one after the other, not within
    /// each other: they lead on and on, in a file that means harm without end, and would exhaust the stack.
    declared: Vec<(TypeRef, RecordId)>,
}

impl Reader<'_> {
    fn type_of(&mut self, at: TypeRef) -> TypeId {
        if let Some(known) = self.seen.get(&at) {
            return *known;
        }
        // No chain of types that is not a circle is as long; structures stop it in any case.
        if self.open.len() > 256 || self.open.contains(&at) {
            return Types::VOID;
        }
        self.open.push(at);
        let id = self.read(at);
        self.open.pop();
        self.seen.insert(at, id);
        id
    }

    fn read(&mut self, at: TypeRef) -> TypeId {
        let related = |id| self.kernel.related(at, id);
        match self.kernel.get(at) {
            btf::Type::Int(int) => self.types.intern(Type::Scalar(int.size)),
            btf::Type::Float(size) => self.types.intern(Type::Scalar(size)),
            btf::Type::Enum(of) => self.types.intern(Type::Scalar(of.size)),
            btf::Type::Pointer(to) => {
                let to = self.type_of(related(to));
                self.types.intern(Type::Pointer(to))
            }
            btf::Type::Array(of, count) => {
                let of = self.type_of(related(of));
                self.types.intern(Type::Array(of, count))
            }
            btf::Type::Typedef(name, of) => {
                let of = self.type_of(related(of));
                if let Type::Record(record) = self.types.get(of) {
                    self.types.name(record, name);
                }
                of
            }
            btf::Type::Qualified(of) => self.type_of(related(of)),
            btf::Type::Record(record) => self.record(at, record),
            btf::Type::Forward(name, kind) => self.forward(name, kind),
            btf::Type::Prototype(proto) => {
                let params: Vec<_> = proto.params().collect();
                let variadic = params.last().is_some_and(|(name, type_)| name.is_empty() && *type_ == 0);
                let params = params.iter().filter(|(_, type_)| *type_ != 0);
                let params = params
                    .map(|(name, of)| Param { name: (*name).into(), type_: self.type_of(related(*of)) });
                let params = params.collect();
                let returns = self.type_of(related(proto.returns));
                let proto = self.types.prototype(Proto { params, returns, variadic });
                self.types.intern(Type::Function(proto))
            }
            btf::Type::Void | btf::Type::Function(..) | btf::Type::Variable(..) => Types::VOID,
        }
    }

    fn record(&mut self, at: TypeRef, record: btf::Record<'_>) -> TypeId {
        let union = record.kind == btf::RecordKind::Union;
        let tag = match (record.name.is_empty(), union) {
            (true, true) => Tag::NamelessUnion,
            (true, false) => Tag::NamelessStruct,
            (false, true) => Tag::Union,
            (false, false) => Tag::Struct,
        };
        let id = self.types.declare(tag, record.name, record.size, union);
        let type_ = self.types.intern(Type::Record(id));
        self.declared.push((at, id));
        type_
    }

    /// Reads the members of all that was declared, and of what these lead to.
    fn define(&mut self) {
        while let Some((at, id)) = self.declared.pop() {
            let btf::Type::Record(record) = self.kernel.get(at) else { continue };
            let members = record
                .members()
                .map(|member| {
                    let last = member.bit_offset.saturating_add(member.bits.max(1) - 1) / 8;
                    let offset = member.bit_offset / 8;
                    Member {
                        name: member.name.into(),
                        type_: self.type_of(self.kernel.related(at, member.type_)),
                        offset,
                        bit_field: if member.bits > 0 { last - offset + 1 } else { 0 },
                    }
                })
                .collect();
            self.types.define(id, record.size, members);
        }
    }

    /// The definition, if there is one anywhere.
    fn forward(&mut self, name: &str, kind: btf::RecordKind) -> TypeId {
        if let Some(defined) = self.kernel.record(kind, name) {
            return self.type_of(defined);
        }
        let (tag, union) = match kind {
            btf::RecordKind::Struct => (Tag::Struct, false),
            btf::RecordKind::Union => (Tag::Union, true),
        };
        let id = self.types.find(tag, name).unwrap_or_else(|| self.types.declare(tag, name, 0, union));
        self.types.intern(Type::Record(id))
    }
}
