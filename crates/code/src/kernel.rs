//! A kernel: the type information of its image and of its modules, and the functions in them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::btf::{Btf, RecordKind, Type};
use crate::image::Image;
use crate::regular::open_regular;

/// The running kernel's type information.
const LIVE: &str = "/sys/kernel/btf";

/// An enumeration, and the enumerator in it that kernels have from 6.6 on.
pub(crate) const ATTACH_TYPES: &str = "bpf_attach_type";
pub(crate) const SINCE_6_6: &str = "BPF_TRACE_UPROBE_MULTI";

/// Types that are made of types nest no deeper in any kernel; circles do.
pub(crate) const MAX_DEPTH: usize = 32;

/// A reference to a type of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeRef {
    /// 0 for the image, else the module's number from 1.
    pub(crate) part: u32,
    pub(crate) id: u32,
}

/// A function of a kernel, from its BTF.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The function's module; none for the kernel's image.
    pub module: Option<String>,
    /// Its number in that module's, or the image's, BTF.
    pub btf_id: u32,
    /// In order.
    pub params: Vec<Param>,
    /// The type of its result.
    pub returns: TypeRef,
    /// A variable number of arguments (`...`), which no hook can read.
    pub variadic: bool,
}

/// A parameter of a function.
#[derive(Clone, Debug)]
pub struct Param {
    /// The parameter's name; empty if it has none.
    pub name: String,
    /// Its type.
    pub type_: TypeRef,
}

/// The image or a module.
struct Part {
    /// Empty for the image.
    name: String,
    btf: Arc<Btf>,
}

/// A kernel with its modules.
pub struct Kernel {
    release: String,
    /// The image, then the modules.
    parts: Vec<Part>,
    /// By name: the first of each part, the image's before those of modules.
    functions: HashMap<String, Vec<TypeRef>>,
    /// The same of typedefs.
    typedefs: HashMap<String, Vec<TypeRef>>,
    /// By kind and tag: the first definition.
    records: HashMap<(RecordKind, String), TypeRef>,
    /// By tag: the first definition.
    enums: HashMap<String, TypeRef>,
    /// The image has [`SINCE_6_6`]: see [`Kernel::max_arguments`].
    since_6_6: bool,
}

impl Kernel {
    /// From the image's raw BTF. The release is what messages call it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]
    pub fn new(release: impl Into<String>, btf: &[u8]) -> Result<Self, Error> {
        let release = release.into();
        let btf = Btf::new(&format!("kernel {release}"), btf, None)?;
        Ok(Self::of(release, btf))
    }

    fn of(release: String, image: Btf) -> Self {
        let mut kernel = Self {
            release,
            parts: Vec::new(),
            functions: HashMap::new(),
            typedefs: HashMap::new(),
            records: HashMap::new(),
            enums: HashMap::new(),
            since_6_6: false,
        };
        kernel.add(String::new(), image);
        kernel
    }

    /// Adds a module's raw BTF, as in `/sys/kernel/btf/NAME`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]
    pub fn add_module(&mut self, name: &str, btf: &[u8]) -> Result<(), Error> {
        let what = format!("module {name} of kernel {}", self.release);
        let module = Btf::new(&what, btf, Some(Arc::clone(&self.parts[0].btf)))?;
        self.add(name.to_owned(), module);
        Ok(())
    }

    /// From a file: an image with a `.BTF` section (`vmlinux`), a compressed one (`vmlinuz`), or raw BTF. The
    /// release is the file's path, since BTF does not tell it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], and those of [`Image::open`]
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let mut magic = [0; 4];
        let begins = open_regular(path).and_then(|mut file| file.read_exact(&mut magic));
        // ELF, BTF of this machine's order; what is neither may be compressed.
        if begins.is_err() || magic == *b"\x7fELF" || magic[..2] == 0xeb9f_u16.to_le_bytes() {
            return Ok(Self::of(path.display().to_string(), Btf::open(path, None)?));
        }
        let image = Image::open(path)?;
        Self::new(path.display().to_string(), image.btf().unwrap_or_default())
    }

    /// Adds a module from a file, `NAME.ko` or raw BTF. Its name is the file's, up to the first dot.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]
    pub fn add_module_file(&mut self, path: &Path) -> Result<(), Error> {
        let module = Btf::open(path, Some(Arc::clone(&self.parts[0].btf)))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.add(name.split('.').next().unwrap_or_default().replace('-', "_"), module);
        Ok(())
    }

    /// The running kernel with the modules that are loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if there is no `/sys/kernel/btf`, [`Error::Invalid`]
    pub fn live() -> Result<Self, Error> {
        let read =
            |path: &str| std::fs::read(path).map_err(|reason| Error::Read { path: path.to_owned(), reason });
        let release = read("/proc/sys/kernel/osrelease")?;
        let release = String::from_utf8_lossy(&release).trim().to_owned();
        let mut kernel = Self::new(release, &read(&format!("{LIVE}/vmlinux"))?)?;
        let folder = std::fs::read_dir(LIVE).map_err(|reason| Error::Read { path: LIVE.into(), reason })?;
        let mut modules: Vec<String> =
            folder.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        modules.retain(|name| name != "vmlinux");
        modules.sort();
        for name in modules {
            // A module that was unloaded in the meantime is none.
            if let Ok(bytes) = std::fs::read(format!("{LIVE}/{name}")) {
                kernel.add_module(&name, &bytes)?;
            }
        }
        Ok(kernel)
    }

    fn add(&mut self, name: String, btf: Btf) {
        let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        for id in btf.ids() {
            let here = TypeRef { part, id };
            match btf.get(id) {
                Type::Function(name, _) if !name.is_empty() => add_first(&mut self.functions, name, here),
                Type::Typedef(name, _) => add_first(&mut self.typedefs, name, here),
                Type::Record(record) if !record.name.is_empty() => {
                    self.records.entry((record.kind, record.name.to_owned())).or_insert(here);
                }
                Type::Enum(found) if !found.name.is_empty() => {
                    if part == 0 && found.name == ATTACH_TYPES {
                        self.since_6_6 |= found.enumerators().any(|(name, _)| name == SINCE_6_6);
                    }
                    self.enums.entry(found.name.to_owned()).or_insert(here);
                }
                _ => {}
            }
        }
        self.parts.push(Part { name, btf: Arc::new(btf) });
    }

    /// `uname -r`, or the file that the kernel was read from.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Reports a module of that name.
    pub fn has_module(&self, name: &str) -> bool {
        self.parts.iter().any(|part| part.name == name)
    }

    /// The most argument slots (64 bits each) of a function that can be hooked: six, those in registers, before Linux 6.6,
    /// and 12 since. The version is known by an enumerator that 6.6 added, so that it is known of a file too.
    pub fn max_arguments(&self) -> usize {
        if self.since_6_6 { 12 } else { 6 }
    }

    /// All type information: the image's, then each module's.
    pub(crate) fn all_ids(&self) -> impl Iterator<Item = TypeRef> {
        (0..).zip(&self.parts).flat_map(|(part, of)| of.btf.ids().map(move |id| TypeRef { part, id }))
    }

    /// The module that a type is of; empty for the image.
    pub(crate) fn module_of(&self, of: TypeRef) -> &str {
        let part = usize::try_from(of.part).ok().and_then(|part| self.parts.get(part));
        part.map_or("", |part| &part.name)
    }

    /// The type itself, and the same reference in its simplest form.
    pub(crate) fn get(&self, of: TypeRef) -> Type<'_> {
        match self.parts.get(usize::try_from(of.part).unwrap_or(usize::MAX)) {
            Some(part) => part.btf.get(of.id),
            None => Type::Void,
        }
    }

    /// Another type, by its number as `of`'s type information has it. One of the image's gets the
    /// same reference from wherever it is referred to.
    pub(crate) fn related(&self, of: TypeRef, id: u32) -> TypeRef {
        let image = self.parts[0].btf.ids().end;
        TypeRef { part: if id < image { 0 } else { of.part }, id }
    }

    /// A structure or union with this tag: the first that defines it.
    pub fn record(&self, kind: RecordKind, name: &str) -> Option<TypeRef> {
        self.records.get(&(kind, name.to_owned())).copied()
    }

    /// Types that `struct name`, `union name` or `enum name` can refer to.
    pub fn tagged(&self, name: &str) -> Vec<TypeRef> {
        let records = [RecordKind::Struct, RecordKind::Union].map(|kind| self.record(kind, name));
        records.into_iter().chain([self.enums.get(name).copied()]).flatten().collect()
    }

    /// The enumerators of `enum name`, and their values.
    pub fn enumerators(&self, name: &str) -> impl Iterator<Item = (&str, u64)> {
        let found = self.enums.get(name).map(|of| self.get(*of));
        let of = found.and_then(|found| if let Type::Enum(of) = found { Some(of) } else { None });
        of.into_iter().flat_map(|of| of.enumerators())
    }

    /// The value of an enumerator of any enumeration, also of one without a name: the first that has it.
    pub fn enumerator(&self, name: &str) -> Option<u64> {
        self.enumerators_among(&HashSet::from([name])).into_iter().next().map(|(_, value)| value)
    }

    /// The enumerators of all enumerations that have one of these names, with their values, by name.
    pub fn enumerators_among(&self, names: &HashSet<&str>) -> Vec<(String, u64)> {
        let mut found = BTreeMap::new();
        for at in self.all_ids() {
            let Type::Enum(of) = self.get(at) else { continue };
            for (name, value) in of.enumerators().filter(|(name, _)| names.contains(name)) {
                found.entry(name.to_owned()).or_insert(value);
            }
        }
        found.into_iter().collect()
    }

    /// The typedef with this name: the first.
    pub(crate) fn typedef(&self, name: &str) -> Option<TypeRef> {
        self.typedefs.get(name)?.first().copied()
    }

    /// The definition of a structure or union that is meant by its tag.
    ///
    /// A module may have a copy of one of the image's, or a declaration only.
    pub(crate) fn definition(&self, at: TypeRef) -> Option<TypeRef> {
        let (kind, name, size) = match self.get(at) {
            Type::Record(record) => (record.kind, record.name, Some(record.size)),
            Type::Forward(name, kind) => (kind, name, None),
            _ => return None,
        };
        let first = self.record(kind, name)?;
        let same = matches!(self.get(first), Type::Record(of) if size.is_none_or(|size| size == of.size));
        Some(if same { first } else { at })
    }

    /// The type behind typedefs and qualifiers.
    pub fn resolve(&self, mut of: TypeRef) -> TypeRef {
        for _ in 0..MAX_DEPTH {
            match self.get(of) {
                Type::Typedef(_, id) | Type::Qualified(id) => of = self.related(of, id),
                _ => break,
            }
        }
        of
    }

    /// Reports `void`, also behind typedefs.
    pub fn is_void(&self, of: TypeRef) -> bool {
        matches!(self.get(self.resolve(of)), Type::Void)
    }

    /// Reports a structure or union by value, also behind typedefs.
    pub fn is_record(&self, of: TypeRef) -> bool {
        matches!(self.get(self.resolve(of)), Type::Record(_))
    }

    /// The structure or union that a pointer points to.
    pub fn pointee(&self, of: TypeRef) -> Option<TypeRef> {
        let pointer = self.resolve(of);
        let Type::Pointer(to) = self.get(pointer) else { return None };
        let to = self.resolve(self.related(pointer, to));
        matches!(self.get(to), Type::Record(_)).then_some(to)
    }

    /// The C name of a structure, if the kernel lets programs make pointers to it of any number
    /// (`bpf_rdonly_cast`, since 6.2): only types of its image, not those of modules.
    pub fn castable(&self, of: TypeRef) -> Option<String> {
        let Type::Record(record) = self.get(of) else { return None };
        let castable =
            of.part == 0 && !record.name.is_empty() && self.functions.contains_key("bpf_rdonly_cast");
        castable.then(|| format!("{} {}", record.kind.word(), record.name))
    }

    /// Slots of 64 bits that a parameter of this type takes; none if no hook can read it.
    pub fn slots(&self, of: TypeRef) -> Option<usize> {
        match self.get(self.resolve(of)) {
            Type::Pointer(_) | Type::Enum(_) => Some(1),
            Type::Int(int) => Some(if int.size > 8 { 2 } else { 1 }),
            Type::Record(record) if record.size <= 16 => usize::try_from(record.size.div_ceil(8)).ok(),
            _ => None,
        }
    }

    /// Slots of 64 bits that all parameters of a function take together.
    pub fn argument_slots(&self, function: &Function) -> Option<usize> {
        function.params.iter().map(|param| self.slots(param.type_)).sum()
    }

    fn function_at(&self, at: TypeRef) -> Option<Function> {
        let part = self.parts.get(usize::try_from(at.part).ok()?)?;
        let Type::Function(name, prototype) = self.get(at) else { return None };
        let prototype_at = self.related(at, prototype);
        let Type::Prototype(prototype) = self.get(prototype_at) else { return None };
        let mut params: Vec<_> = prototype
            .params()
            .map(|(name, id)| Param { name: name.to_owned(), type_: self.related(prototype_at, id) })
            .collect();
        let variadic = params.last().is_some_and(|last| last.type_.id == 0);
        if variadic {
            params.pop();
        }
        Some(Function {
            name: name.to_owned(),
            module: Some(part.name.clone()).filter(|name| !name.is_empty()),
            btf_id: at.id,
            params,
            returns: self.related(prototype_at, prototype.returns),
            variadic,
        })
    }

    /// The function with this name: the image's, or else the first module's that has one.
    pub fn function(&self, name: &str) -> Option<Function> {
        self.function_at(*self.functions.get(name)?.first()?)
    }

    /// All functions whose names match, by name and then in the order of modules. `%` stands for any
    /// characters. Modules may have functions with the same name: these are all given.
    pub fn functions(&self, pattern: &str) -> Vec<Function> {
        let places: Vec<&Vec<TypeRef>> = if pattern.contains('%') {
            let mut matching: Vec<_> =
                self.functions.iter().filter(|(name, _)| xweave_text::matches(pattern, name)).collect();
            matching.sort();
            matching.into_iter().map(|(_, places)| places).collect()
        } else {
            self.functions.get(pattern).into_iter().collect()
        };
        places.into_iter().flatten().filter_map(|at| self.function_at(*at)).collect()
    }

    /// A static tracepoint, as a function: its number is that of the type `btf_trace_NAME`, its parameters
    /// are those that its callbacks get.
    ///
    /// From `__traceiter_NAME`, which every tracepoint has (include/linux/tracepoint.h) and which, unlike the
    /// type, tells the parameters' names.
    pub fn tracepoint(&self, name: &str) -> Option<Function> {
        let mut found = self.function(&format!("__traceiter_{name}"))?;
        let module = found.module.as_deref().unwrap_or_default();
        let types = self.typedefs.get(&format!("btf_trace_{name}"))?;
        found.btf_id = types.iter().find(|at| self.module_of(**at) == module)?.id;
        found.name = name.to_owned();
        // The first is the callback's own data.
        found.params = found.params.split_off(found.params.len().min(1));
        Some(found)
    }

    /// Names of the `n` tracepoints most like this one.
    pub fn nearest_tracepoints(&self, name: &str, n: usize) -> Vec<String> {
        let all = self.functions.keys().filter_map(|function| function.strip_prefix("__traceiter_"));
        xweave_text::nearest(name, all, n)
    }

    /// Names of the `n` functions most like this one, the most like first.
    pub fn nearest(&self, name: &str, n: usize) -> Vec<String> {
        xweave_text::nearest(name, self.functions.keys().map(String::as_str), n)
    }

    /// Names of the `n` members most like this one, of a structure or union and of those without names in it.
    pub fn nearest_members(&self, record: TypeRef, name: &str, n: usize) -> Vec<String> {
        let (mut names, mut left, mut seen) = (Vec::new(), vec![record], HashSet::new());
        while let Some(at) = left.pop().map(|at| self.resolve(at)) {
            let Type::Record(record) = self.get(at) else { continue };
            if seen.insert(at) {
                names.extend(record.members().map(|member| member.name).filter(|name| !name.is_empty()));
                let nameless = record.members().filter(|member| member.name.is_empty());
                left.extend(nameless.map(|member| self.related(at, member.type_)));
            }
        }
        xweave_text::nearest(name, names.into_iter(), n)
    }
}

/// Adds a place to those of a name, unless its part has one: two of a name in one part cannot be told apart.
fn add_first(places: &mut HashMap<String, Vec<TypeRef>>, name: &str, here: TypeRef) {
    let places = places.entry(name.to_owned()).or_default();
    if places.last().is_none_or(|last| last.part != here.part) {
        places.push(here);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_has_functions() {
        let kernel = Kernel::live().unwrap();
        let function = kernel.function("vfs_read").unwrap();
        let names: Vec<_> = function.params.iter().map(|param| param.name.as_str()).collect();
        assert_eq!(names, ["file", "buf", "count", "pos"]);
        assert_eq!((function.module, function.variadic), (None, false));
        assert!(!kernel.is_void(function.returns));
        assert!(kernel.function("_printk").is_none_or(|function| function.variadic));
        assert!(kernel.functions("vfs_%").len() > 20);
        assert_eq!(kernel.nearest("vfs_raed", 1), ["vfs_read"]);
        let skb = kernel.record(RecordKind::Struct, "sk_buff").unwrap();
        assert_eq!(kernel.nearest_members(skb, "truesiez", 1), ["truesize"]);
        assert_eq!(kernel.nearest_members(skb, "dve", 1), ["dev"]);
        assert!(kernel.nearest("no_kernel_calls_a_function_so", 3).is_empty());
    }
}
