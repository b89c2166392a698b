//! The part of a kernel's type information that programs ask for, as type information of its own.
//!
//! A kernel's has 6 MB; some functions, and the members that a piece of code names, have some ten KB. What is left is as
//! it was: members at their offsets in structures of their sizes, functions with their parameters, enumerators with
//! their values. So whatever is decided by it is decided as by the whole, unless it asks for what nobody named.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::io;

use crate::btf::{Enum, Record, Type};
use crate::btf_builder::BtfBuilder;
use crate::kernel::{ATTACH_TYPES, Kernel, MAX_DEPTH, SINCE_6_6, TypeRef};

/// What is kept of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Kept<'n> {
    /// Functions, by name. Of several with one name the first is kept.
    pub functions: HashSet<&'n str>,
    /// Static tracepoints, by name.
    pub tracepoints: HashSet<&'n str>,
    /// Structures, unions and enumerations, by tag.
    pub tags: HashSet<&'n str>,
    /// Members, enumerators and typedefs, by name.
    pub identifiers: HashSet<&'n str>,
}

impl Kernel {
    /// The type information of what is `kept` and of what that leads to, as raw BTF of one image.
    ///
    /// # Errors
    ///
    /// That libbpf cannot hold it.
    pub fn prune(&self, kept: &Kept<'_>) -> io::Result<Vec<u8>> {
        let mut collector = Collector {
            kernel: self,
            kept,
            found: Vec::new(),
            numbers: HashMap::new(),
            hits: HashMap::new(),
        };
        collector.collect();
        let Collector { found, numbers, hits, .. } = collector;
        let mut writer = Writer { kernel: self, kept, numbers, hits, to: BtfBuilder::new()? };
        for at in found {
            writer.add(at)?;
        }
        writer.to.finish()
    }
}

/// Types in the order in which they get their numbers.
struct Collector<'k, 'n> {
    kernel: &'k Kernel,
    kept: &'n Kept<'n>,
    found: Vec<TypeRef>,
    numbers: HashMap<TypeRef, c_int>,
    /// Whether a member of a record is kept.
    hits: HashMap<TypeRef, bool>,
}

impl Collector<'_, '_> {
    fn collect(&mut self) {
        let mut seen = HashSet::new();
        for at in self.kernel.all_ids() {
            let kept = self.kept;
            let wanted = match self.kernel.get(at) {
                Type::Function(name, _) => {
                    let traced = name.strip_prefix("__traceiter_");
                    let is_kept = kept.functions.contains(name)
                        || traced.is_some_and(|traced| kept.tracepoints.contains(traced));
                    is_kept && seen.insert(name)
                }
                Type::Typedef(name, _) => {
                    let traced = name.strip_prefix("btf_trace_");
                    kept.identifiers.contains(name)
                        || traced.is_some_and(|traced| kept.tracepoints.contains(traced))
                }
                Type::Record(record) => kept.tags.contains(record.name) && self.is_first(at, record),
                Type::Enum(found) => {
                    let named = |(name, _): (&str, u64)| is_kept_enumerator(kept, found.name, name);
                    kept.tags.contains(found.name) || found.enumerators().any(named)
                }
                _ => false,
            };
            if wanted {
                self.keep(at, 0);
            }
        }
    }

    fn is_first(&self, at: TypeRef, record: Record<'_>) -> bool {
        self.kernel.record(record.kind, record.name) == Some(at)
    }

    /// Gives a type a number, and what it is made of.
    fn keep(&mut self, at: TypeRef, depth: usize) {
        let at = canonical(self.kernel, at);
        let kind = self.kernel.get(at);
        if matches!(kind, Type::Void) || self.numbers.contains_key(&at) {
            return;
        }
        self.found.push(at);
        self.numbers.insert(at, c_int::try_from(self.found.len()).unwrap_or(c_int::MAX));
        let mut related = Vec::new();
        match kind {
            Type::Pointer(id) | Type::Typedef(_, id) | Type::Qualified(id) | Type::Function(_, id) => {
                related.push(id);
            }
            Type::Array(element, _) => related.push(element),
            Type::Record(record) => {
                for member in record.members() {
                    let inner = self.kernel.resolve(self.kernel.related(at, member.type_));
                    let is_kept = match member.name {
                        "" => self.hits(inner, depth),
                        name => self.kept.identifiers.contains(name),
                    };
                    if is_kept {
                        related.push(member.type_);
                    }
                }
            }
            Type::Prototype(prototype) => {
                related.push(prototype.returns);
                related.extend(prototype.params().map(|(_, id)| id));
            }
            _ => {}
        }
        for id in related {
            self.keep(self.kernel.related(at, id), depth + 1);
        }
    }

    /// Whether a record without a name has a member that is kept.
    fn hits(&mut self, at: TypeRef, depth: usize) -> bool {
        if let Some(known) = self.hits.get(&at) {
            return *known;
        }
        // One that is in itself, which no kernel has, does not count for itself.
        self.hits.insert(at, false);
        let Type::Record(record) = self.kernel.get(at) else { return false };
        let hit = depth < MAX_DEPTH
            && record.members().any(|member| match member.name {
                "" => self.hits(self.kernel.resolve(self.kernel.related(at, member.type_)), depth + 1),
                name => self.kept.identifiers.contains(name),
            });
        self.hits.insert(at, hit);
        hit
    }
}

/// The type that stands for all its copies and declarations.
fn canonical(kernel: &Kernel, at: TypeRef) -> TypeRef {
    match kernel.get(at) {
        Type::Record(record) if !record.name.is_empty() => kernel.definition(at).unwrap_or(at),
        Type::Forward(..) => kernel.definition(at).unwrap_or(at),
        _ => at,
    }
}

fn is_kept_enumerator(kept: &Kept<'_>, of: &str, name: &str) -> bool {
    kept.identifiers.contains(name) || (of, name) == (ATTACH_TYPES, SINCE_6_6)
}

/// Writes what was collected.
struct Writer<'k, 'n> {
    kernel: &'k Kernel,
    kept: &'n Kept<'n>,
    numbers: HashMap<TypeRef, c_int>,
    hits: HashMap<TypeRef, bool>,
    to: BtfBuilder,
}

impl Writer<'_, '_> {
    fn number(&self, at: TypeRef, id: u32) -> c_int {
        let at = canonical(self.kernel, self.kernel.related(at, id));
        self.numbers.get(&at).copied().unwrap_or(0)
    }

    fn add(&mut self, at: TypeRef) -> io::Result<()> {
        match self.kernel.get(at) {
            Type::Int(int) => self.to.add_int(int),
            Type::Float(size) => self.to.add_float(size),
            Type::Pointer(id) => self.to.add_pointer(self.number(at, id)),
            Type::Array(element, count) => self.to.add_array(self.number(at, element), count),
            Type::Record(record) => self.add_record(at, record),
            Type::Enum(found) => self.add_enum(found),
            Type::Forward(name, kind) => self.to.add_forward(name, kind),
            Type::Typedef(name, id) => self.to.add_typedef(name, self.number(at, id)),
            Type::Qualified(id) => self.to.add_const(self.number(at, id)),
            Type::Function(name, id) => self.to.add_function(name, self.number(at, id)),
            Type::Prototype(prototype) => {
                self.to.add_prototype(self.number(at, prototype.returns))?;
                prototype.params().try_for_each(|(name, id)| {
                    let number = self.number(at, id);
                    self.to.add_parameter(name, number)
                })
            }
            Type::Void | Type::Variable(..) => Ok(()),
        }
    }

    fn add_record(&mut self, at: TypeRef, record: Record<'_>) -> io::Result<()> {
        self.to.add_record(record.kind, record.name, record.size)?;
        for member in record.members() {
            let inner = self.kernel.resolve(self.kernel.related(at, member.type_));
            let is_kept = match member.name {
                "" => self.hits.get(&inner).copied().unwrap_or(false),
                name => self.kept.identifiers.contains(name),
            };
            if is_kept {
                let number = self.number(at, member.type_);
                self.to.add_member(member, number)?;
            }
        }
        Ok(())
    }

    fn add_enum(&mut self, found: Enum<'_>) -> io::Result<()> {
        self.to.add_enum(found)?;
        let mut kept =
            found.enumerators().filter(|(name, _)| is_kept_enumerator(self.kept, found.name, name));
        kept.try_for_each(|(name, value)| self.to.add_enumerator(found, name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_as_it_was() {
        let whole = Kernel::live().unwrap();
        let kept = Kept {
            functions: HashSet::from(["vfs_read", "no_such_function"]),
            tracepoints: HashSet::from(["sched_switch"]),
            tags: HashSet::from(["iovec"]),
            identifiers: HashSet::from([
                "f_mode",
                "f_path",
                "dentry",
                "d_inode",
                "i_ino",
                "PIDTYPE_TGID",
                "pid_t",
            ]),
        };
        let raw = whole.prune(&kept).unwrap();
        assert!(raw.len() < 8192, "{}", raw.len());
        let part = Kernel::new("part", &raw).unwrap();
        assert_eq!(part.max_arguments(), whole.max_arguments());
        let prototype = |kernel: &Kernel, of: Option<crate::Function>| {
            let of = of.unwrap();
            let params = of.params.iter().map(|of| kernel.variable(of.type_, &of.name)).collect::<Vec<_>>();
            (of.name, params, kernel.variable(of.returns, ""))
        };
        let (read, switch) = ("vfs_read", "sched_switch");
        assert_eq!(prototype(&part, part.function(read)), prototype(&whole, whole.function(read)));
        assert_eq!(prototype(&part, part.tracepoint(switch)), prototype(&whole, whole.tracepoint(switch)));
        assert!(part.function("vfs_write").is_none() && part.tracepoint("sched_waking").is_none());
        assert_eq!(part.enumerators_among(&kept.identifiers), whole.enumerators_among(&kept.identifiers));
        // C that is declared of the part is that of the whole.
        let roots = |kernel: &Kernel| {
            let of = kernel.function("vfs_read").unwrap();
            of.params.iter().map(|of| of.type_).chain(kernel.tagged("iovec")).collect::<Vec<_>>()
        };
        let declare = |kernel: &Kernel| kernel.declare(&roots(kernel), &kept.identifiers);
        assert_eq!(declare(&part), declare(&whole));
        assert!(declare(&part).contains("i_ino;"));
    }
}
