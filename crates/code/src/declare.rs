//! A kernel's types as C, pruned to what a piece of code names.
//!
//! A full header of a kernel's types has 150,000 lines, and takes longer to compile than all else.
//! Here a structure has only those members whose names the code mentions, at exactly their offsets
//! and with exactly the structure's size; what lies between is padding:
//!
//! ```c
//! struct sk_buff {
//!         unsigned char xw_pad1_0[112];
//!         unsigned int len;
//!         unsigned char xw_pad1_116[116];
//! } __attribute__((packed, aligned(8), preserve_access_index));
//! ```
//!
//! `packed` lets the padding decide where members lie; `aligned` tells the compiler again that they
//! lie where they can be read whole, which the verifier wants of pointers. `preserve_access_index`
//! makes accesses relocatable (CO-RE). A structure of which the code names a bit-field goes without:
//! libbpf relocates the address of a bit-field's load, but cannot adapt the shifts after it, and the
//! layout is the kernel's own anyway.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;

use crate::btf::{Enum, Int, Record, RecordKind, Type};
use crate::kernel::{Kernel, MAX_DEPTH, TypeRef};

/// Types that `bpf/types.h` defines.
const KNOWN: [&str; 27] = [
    "__u8", "__s8", "__u16", "__s16", "__u32", "__s32", "__u64", "__s64", "u8", "s8", "u16", "s16", "u32",
    "s32", "u64", "s64", "__be16", "__le16", "__be32", "__le32", "__be64", "__le64", "__sum16", "__wsum",
    "size_t", "ssize_t", "bool",
];

/// How many bodies of structures are written at most: far beyond what any code needs, and an end to
/// type information that is made to have none.
const MAX_BODIES: usize = 20_000;

/// What a definition is of: C has one name space for tags, and one for other names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Tag(String),
    Typedef(String),
}

/// C declarations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declarations {
    /// The C.
    pub text: String,
    /// Structures in it whose accesses are not relocatable, since the code names a bit-field of them: they are as in the
    /// kernel that they are declared of, and wrong on others.
    pub fixed: Vec<String>,
}

/// C declarations of the types of several kernels, as [`Kernel::declare`] makes them of one: each name is declared as in
/// the first kernel that has it. Of each kernel there are the roots that are its own.
pub fn declare(kernels: &[(&Kernel, &[TypeRef])], identifiers: &HashSet<&str>) -> Declarations {
    let mut output = Output::default();
    for (kernel, roots) in kernels {
        let mut writer = Writer::new(kernel, identifiers, output);
        writer.declare_named();
        for root in *roots {
            let resolved = kernel.resolve(*root);
            if matches!(kernel.get(resolved), Type::Record(_)) {
                writer.define_record(resolved, 0);
            } else {
                // What has no declaration cannot be declared by the caller either.
                writer.declarator(*root, String::new(), 0);
            }
        }
        output = writer.finish();
    }
    let mut text = String::new();
    for (kind, name) in &output.forwards {
        let _ = writeln!(text, "{} {name};", kind.word());
    }
    Declarations { text: text + &output.text, fixed: output.fixed }
}

impl Kernel {
    /// C declarations of the types that `roots` are or point to, of the typedefs and enumerators
    /// among `identifiers`, and of what these lead to over members among `identifiers`.
    ///
    /// A structure without members among `identifiers` still has its size. Where two structures have
    /// the same tag, the image's first one is meant.
    pub fn declare(&self, roots: &[TypeRef], identifiers: &HashSet<&str>) -> String {
        declare(&[(self, roots)], identifiers).text
    }

    /// The C declaration of a variable of this type, that [`Kernel::declare`] with this type among
    /// the roots makes valid; none for a type that C cannot say, or that is not worth saying.
    pub fn variable(&self, of: TypeRef, name: &str) -> Option<String> {
        Writer::new(self, &HashSet::new(), Output::default()).declarator(of, name.to_owned(), 0)
    }

    /// In bytes; none for types without a size.
    pub fn size_of(&self, of: TypeRef) -> Option<u64> {
        self.size_at(of, 0)
    }

    fn size_at(&self, of: TypeRef, depth: usize) -> Option<u64> {
        let resolved = self.resolve(of);
        match self.get(resolved) {
            Type::Int(Int { size, .. }) | Type::Float(size) => Some(size.into()),
            Type::Record(record) => Some(record.size.into()),
            Type::Enum(of) => Some(of.size.into()),
            Type::Pointer(_) => Some(8),
            Type::Array(element, count) if depth < MAX_DEPTH => {
                let element = self.size_at(self.related(resolved, element), depth + 1)?;
                element.checked_mul(count.into())
            }
            _ => None,
        }
    }
}

/// What was written, of one kernel after the other.
#[derive(Default)]
struct Output {
    text: String,
    /// Declared before everything else.
    forwards: BTreeSet<(RecordKind, String)>,
    /// What has a definition, or (false) is being defined.
    named: HashMap<Name, bool>,
    /// Typedefs and enumerators among the identifiers that were declared.
    identifiers: HashSet<String>,
    /// How many bodies have been written: for names that nothing refers to, and as a limit.
    bodies: usize,
    /// See [`Declarations::fixed`].
    fixed: Vec<String>,
}

struct Writer<'k, 'i> {
    kernel: &'k Kernel,
    identifiers: &'i HashSet<&'i str>,
    /// Of each enumeration, the enumerators to declare with it.
    enumerators: HashMap<TypeRef, Vec<(String, u64)>>,
    /// Pointed to: to be defined too, at the end.
    pointed: Vec<TypeRef>,
    /// Whether the code names a member of a record, once that is known.
    hit: HashMap<TypeRef, bool>,
    output: Output,
}

impl<'k, 'i> Writer<'k, 'i> {
    fn new(kernel: &'k Kernel, identifiers: &'i HashSet<&'i str>, output: Output) -> Self {
        Self {
            kernel,
            identifiers,
            enumerators: HashMap::new(),
            pointed: Vec::new(),
            hit: HashMap::new(),
            output,
        }
    }

    /// Declares typedefs and enumerators that the code names.
    fn declare_named(&mut self) {
        let (mut typedefs, mut enums) = (Vec::new(), Vec::new());
        let seen = &mut self.output.identifiers;
        for at in self.kernel.all_ids() {
            match self.kernel.get(at) {
                Type::Typedef(name, _) => {
                    let wanted = self.identifiers.contains(name) && !KNOWN.contains(&name);
                    if wanted && seen.insert(name.to_owned()) {
                        typedefs.push(at);
                    }
                }
                Type::Enum(found) => {
                    let named = found.enumerators().filter(|(name, _)| self.identifiers.contains(name));
                    let new: Vec<_> = named
                        .filter(|(name, _)| seen.insert((*name).to_owned()))
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect();
                    if !new.is_empty() {
                        self.enumerators.insert(at, new);
                        enums.push(at);
                    }
                }
                _ => {}
            }
        }
        for at in enums {
            let Type::Enum(found) = self.kernel.get(at) else { continue };
            if found.name.is_empty() {
                // With a typedef it may come up again as a type; that one goes without the enumerators.
                let body = self.enum_body(at, found);
                let _ = writeln!(self.output.text, "enum {body};");
                self.enumerators.remove(&at);
            } else {
                self.define_enum(at, found);
            }
        }
        for at in typedefs {
            self.define_typedef(at, 0);
        }
    }

    fn finish(mut self) -> Output {
        let mut looked_at = HashSet::new();
        while let Some(at) = self.pointed.pop() {
            if looked_at.insert(at) {
                self.define_record(at, 0);
            }
        }
        self.output
    }

    /// Whether the code names a member of this record. Those without names that it consists of nest no deeper
    /// than anything else, or thousands of them would exhaust the stack.
    fn hits(&mut self, at: TypeRef, depth: usize) -> bool {
        if depth == MAX_DEPTH {
            return false;
        }
        if let Some(known) = self.hit.get(&at) {
            return *known;
        }
        // A record that is in itself, which no kernel has, does not count for itself.
        self.hit.insert(at, false);
        let Type::Record(record) = self.kernel.get(at) else { return false };
        let hit = record.members().any(|member| match member.name {
            "" => self.hits(self.kernel.resolve(self.kernel.related(at, member.type_)), depth + 1),
            name => self.identifiers.contains(name),
        });
        self.hit.insert(at, hit);
        hit
    }

    /// C for a variable, member or parameter `inner` of type `of`, having defined what that needs.
    fn declarator(&mut self, of: TypeRef, inner: String, depth: usize) -> Option<String> {
        if depth == MAX_DEPTH {
            return None;
        }
        match self.kernel.get(of) {
            Type::Int(int) => Some(join(int_text(int), &inner)),
            Type::Float(4) => Some(join("float", &inner)),
            Type::Float(8) => Some(join("double", &inner)),
            Type::Qualified(id) => self.declarator(self.kernel.related(of, id), inner, depth + 1),
            Type::Typedef(..) => match self.anonymous(of) {
                Some(typedef) => {
                    let Type::Typedef(name, _) = self.kernel.get(typedef) else { return None };
                    self.define_typedef(typedef, depth + 1).then(|| join(name, &inner))
                }
                None => self.declarator(self.kernel.resolve(of), inner, depth + 1),
            },
            Type::Array(element, count) => {
                let element = self.kernel.related(of, element);
                self.declarator(element, format!("{inner}[{count}]"), depth + 1)
            }
            Type::Pointer(target) => self.pointer(self.kernel.related(of, target), &inner, depth + 1),
            Type::Enum(found) if found.name.is_empty() => {
                Some(join(&format!("enum {}", self.enum_body(of, found)), &inner))
            }
            Type::Enum(found) => {
                self.define_enum(of, found);
                Some(join(&format!("enum {}", found.name), &inner))
            }
            Type::Record(record) if record.name.is_empty() => self.inline(of, record, inner, depth + 1),
            Type::Record(record) => self
                .define_record(of, depth + 1)
                .then(|| join(&format!("{} {}", record.kind.word(), record.name), &inner)),
            Type::Void
            | Type::Float(_)
            | Type::Forward(..)
            | Type::Function(..)
            | Type::Variable(..)
            | Type::Prototype(_) => None,
        }
    }

    /// A structure or union defined where it is used.
    fn inline(&mut self, at: TypeRef, record: Record<'_>, inner: String, depth: usize) -> Option<String> {
        if depth >= MAX_DEPTH || self.output.bodies >= MAX_BODIES {
            return None;
        }
        let (body, attributes, _) = self.body(at, record, depth);
        let text = format!("{} {{\n{body}}} __attribute__(({attributes}))", record.kind.word());
        Some(join(&text, &inner))
    }

    fn pointer(&mut self, target: TypeRef, inner: &str, depth: usize) -> Option<String> {
        let resolved = self.kernel.resolve(target);
        let (kind, name) = match self.kernel.get(resolved) {
            Type::Record(record) => (record.kind, record.name),
            Type::Forward(name, kind) => (kind, name),
            Type::Int(_) | Type::Enum(_) | Type::Pointer(_) | Type::Float(4 | 8) => {
                return self.declarator(target, format!("*{inner}"), depth);
            }
            _ => return Some(format!("void *{inner}")),
        };
        if name.is_empty() {
            return match self.anonymous(target) {
                Some(_) => self.declarator(target, format!("*{inner}"), depth),
                None => Some(format!("void *{inner}")),
            };
        }
        self.output.forwards.insert((kind, name.to_owned()));
        self.pointed.push(self.kernel.definition(resolved).unwrap_or(resolved));
        Some(format!("{} {name} *{inner}", kind.word()))
    }

    /// The last typedef before a structure, union or enumeration without a tag.
    fn anonymous(&self, mut of: TypeRef) -> Option<TypeRef> {
        let mut last = None;
        for _ in 0..MAX_DEPTH {
            match self.kernel.get(of) {
                Type::Typedef(name, id) => {
                    last = Some(of).filter(|_| !name.is_empty());
                    of = self.kernel.related(of, id);
                }
                Type::Qualified(id) => of = self.kernel.related(of, id),
                Type::Record(Record { name: "", .. }) | Type::Enum(Enum { name: "", .. }) => return last,
                _ => return None,
            }
        }
        None
    }

    /// Begins the definition of `name`. True if it is this one's to write; otherwise, whether
    /// it is already there.
    fn begin(&mut self, name: Name) -> Result<(), bool> {
        match self.output.named.get(&name) {
            Some(written) => Err(*written),
            None => {
                self.output.named.insert(name, false);
                Ok(())
            }
        }
    }

    fn written(&mut self, name: &Name) {
        if let Some(written) = self.output.named.get_mut(name) {
            *written = true;
        }
    }

    /// False if it cannot be defined here: it contains itself, so it is no kernel's.
    fn define_record(&mut self, at: TypeRef, depth: usize) -> bool {
        let Some(at) = self.kernel.definition(at) else { return false };
        let Type::Record(record) = self.kernel.get(at) else { return false };
        let name = Name::Tag(record.name.to_owned());
        if let Err(written) = self.begin(name.clone()) {
            return written;
        }
        let (body, attributes, relocatable) = self.body(at, record, depth);
        let (kind, tag) = (record.kind.word(), record.name);
        if !relocatable {
            self.output.fixed.push(format!("{kind} {tag}"));
        }
        let relocatable = if relocatable { ", preserve_access_index" } else { "" };
        let _ = writeln!(
            self.output.text,
            "{kind} {tag} {{\n{body}}} __attribute__(({attributes}{relocatable}));"
        );
        self.written(&name);
        true
    }

    fn define_enum(&mut self, at: TypeRef, found: Enum<'_>) {
        let name = Name::Tag(found.name.to_owned());
        if self.begin(name.clone()).is_ok() {
            let body = self.enum_body(at, found);
            let _ = writeln!(self.output.text, "enum {} {body};", found.name);
            self.written(&name);
        }
    }

    fn define_typedef(&mut self, at: TypeRef, depth: usize) -> bool {
        let Type::Typedef(text, target) = self.kernel.get(at) else { return false };
        let name = Name::Typedef(text.to_owned());
        if let Err(written) = self.begin(name.clone()) {
            return written;
        }
        let target = self.kernel.related(at, target);
        let declaration = match self.kernel.get(self.kernel.resolve(target)) {
            Type::Record(record) if record.name.is_empty() && self.anonymous(at) == Some(at) => {
                let (body, attributes, relocatable) = self.body(self.kernel.resolve(target), record, depth);
                if !relocatable {
                    self.output.fixed.push(text.to_owned());
                }
                let relocatable = if relocatable { ", preserve_access_index" } else { "" };
                let kind = record.kind.word();
                Some(format!("{kind} {{\n{body}}} __attribute__(({attributes}{relocatable})) {text}"))
            }
            Type::Enum(found) if found.name.is_empty() => {
                let body = self.enum_body(self.kernel.resolve(target), found);
                Some(format!("enum {body} {text}"))
            }
            Type::Void => Some(format!("void {text}")),
            _ => self.declarator(target, text.to_owned(), depth + 1),
        };
        let Some(declaration) = declaration else { return false };
        let _ = writeln!(self.output.text, "typedef {declaration};");
        self.written(&name);
        true
    }

    /// `{ … }` with an enumerator that makes it as wide, and signed or not, as it is in the kernel.
    fn enum_body(&mut self, at: TypeRef, found: Enum<'_>) -> String {
        self.output.bodies += 1;
        let wide = match (found.size, found.signed) {
            (1, false) => "0xff",
            (1, true) => "-0x80",
            (2, false) => "0xffff",
            (2, true) => "-0x8000",
            (8, false) => "0xffffffffffffffffULL",
            (8, true) => "(-0x7fffffffffffffffLL - 1)",
            (_, false) => "0",
            (_, true) => "-1",
        };
        let mut body = format!("{{ xw_enum{} = {wide}", self.output.bodies);
        for (name, value) in self.enumerators.get(&at).into_iter().flatten() {
            if found.signed {
                let _ = write!(body, ", {name} = {}", value.cast_signed());
            } else {
                let _ = write!(body, ", {name} = {value:#x}");
            }
        }
        let packed = if found.size < 4 { " __attribute__((packed))" } else { "" };
        format!("{body} }}{packed}")
    }

    /// The members, the attributes, and whether accesses may be relocated.
    fn body(&mut self, at: TypeRef, record: Record<'_>, depth: usize) -> (String, String, bool) {
        self.output.bodies += 1;
        let mut layout = Layout::new(record, self.output.bodies);
        let mut relocatable = true;
        for member in record.members() {
            let type_ = self.kernel.related(at, member.type_);
            let resolved = self.kernel.resolve(type_);
            let wanted = match member.name {
                "" => self.hits(resolved, 0),
                name => self.identifiers.contains(name),
            };
            let Some(bits) = (match member.bits {
                0 => self.kernel.size_of(type_).and_then(|size| size.checked_mul(8)),
                bits => Some(bits.into()),
            }) else {
                continue;
            };
            if !wanted || !layout.fits(member.bit_offset.into(), bits) {
                continue;
            }
            let inner = match member.bits {
                0 => member.name.to_owned(),
                bits => format!("{} : {bits}", member.name),
            };
            if member.name.is_empty() {
                // The record around it decides for it.
                relocatable &= !self.has_bit_fields(resolved, &mut HashSet::new(), depth);
            }
            relocatable &= member.bits == 0;
            let text = match self.kernel.get(resolved) {
                // Also one with a tag: an extension of C that newer kernels use.
                Type::Record(nested) if inner.is_empty() => self.inline(resolved, nested, inner, depth + 1),
                _ => self.declarator(type_, inner, depth + 1),
            };
            if let Some(text) = text {
                layout.add(member.bit_offset.into(), bits, &text);
            }
        }
        let alignment = match record.size.trailing_zeros() {
            0 | 32 => String::new(),
            zeros => format!(", aligned({})", 1 << zeros.min(3)),
        };
        (layout.finish(), format!("packed{alignment}"), relocatable)
    }

    /// Whether the code names a bit-field of this record without a tag.
    ///
    /// What was looked at once is not again: it would have ended the search.
    fn has_bit_fields(&self, at: TypeRef, seen: &mut HashSet<TypeRef>, depth: usize) -> bool {
        let Type::Record(record) = self.kernel.get(at) else { return false };
        depth < MAX_DEPTH
            && seen.insert(at)
            && record.members().any(|member| match member.name {
                "" => {
                    let inner = self.kernel.resolve(self.kernel.related(at, member.type_));
                    self.has_bit_fields(inner, seen, depth + 1)
                }
                name => member.bits != 0 && self.identifiers.contains(name),
            })
    }
}

/// The text of a record's members as it grows, and how far it has come.
struct Layout {
    /// Makes the names of its padding unique, since those of nested records get into one scope.
    id: usize,
    kind: RecordKind,
    /// In bits.
    size: u64,
    at: u64,
    text: String,
}

impl Layout {
    fn new(record: Record<'_>, id: usize) -> Self {
        Self { id, kind: record.kind, size: u64::from(record.size) * 8, at: 0, text: String::new() }
    }

    /// Whether a member may come there: in order, and inside. A flexible array lies at the end.
    fn fits(&self, offset: u64, bits: u64) -> bool {
        let begin = if self.kind == RecordKind::Union { 0 } else { self.at };
        offset >= begin
            && offset.checked_add(bits).is_some_and(|end| end <= self.size)
            && (self.kind == RecordKind::Struct || offset == 0)
    }

    fn add(&mut self, offset: u64, bits: u64, text: &str) {
        if self.kind == RecordKind::Struct {
            self.pad(offset);
            self.at = offset + bits;
        }
        let _ = writeln!(self.text, "\t{text};");
    }

    fn pad(&mut self, to: u64) {
        let bits = (to - self.at).min((8 - self.at % 8) % 8);
        if bits > 0 {
            let _ = writeln!(self.text, "\tunsigned char : {bits};");
            self.at += bits;
        }
        let (bytes, begin) = ((to - self.at) / 8, self.at / 8);
        if bytes > 0 {
            let _ = writeln!(self.text, "\tunsigned char xw_pad{}_{begin}[{bytes}];", self.id);
        }
        let bits = (to - self.at) % 8;
        if bits > 0 {
            let _ = writeln!(self.text, "\tunsigned char : {bits};");
        }
        self.at = to;
    }

    fn finish(mut self) -> String {
        match self.kind {
            RecordKind::Struct => self.pad(self.size),
            RecordKind::Union if self.size > 0 => {
                let _ = writeln!(self.text, "\tunsigned char xw_pad{}[{}];", self.id, self.size / 8);
            }
            RecordKind::Union => {}
        }
        self.text
    }
}

/// A type and what is declared with it.
fn join(type_: &str, inner: &str) -> String {
    if inner.is_empty() { type_.to_owned() } else { format!("{type_} {inner}") }
}

pub(crate) fn int_text(int: Int) -> &'static str {
    match (int.size, int.signed) {
        _ if int.boolean => "_Bool",
        _ if int.char => "char",
        (1, false) => "unsigned char",
        (1, true) => "signed char",
        (2, false) => "unsigned short",
        (2, true) => "short",
        (4, false) => "unsigned int",
        (4, true) => "int",
        (16, false) => "unsigned __int128",
        (16, true) => "__int128",
        (_, false) if int.long_long => "unsigned long long",
        (_, true) if int.long_long => "long long",
        (_, false) => "unsigned long",
        (_, true) => "long",
    }
}
