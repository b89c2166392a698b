//! Sorts what has a name into functions, data and the rest.

use std::ops::Range;

use super::{Function, Section, Symbol};

/// What a symbol is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Function,
    Object,
    /// A number, which in a kernel's own table is also what a per-CPU variable has.
    Absolute,
    Other,
}

/// Who knows it: of an address's names, the first in this order is its function's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binding {
    Global,
    Weak,
    Local,
}

/// A symbol as a table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: String,
    pub address: u64,
    pub size: u64,
    pub kind: Kind,
    pub binding: Binding,
    pub module: Option<String>,
}

impl Entry {
    /// With a type as `nm` and a kernel's tables have it.
    pub fn typed(type_: u8, name: String, address: u64, module: Option<String>) -> Self {
        let kind = match type_ {
            b't' | b'T' | b'w' | b'W' => Kind::Function,
            b'd' | b'D' | b'b' | b'B' | b'r' | b'R' | b'v' | b'V' | b'g' | b'G' | b's' | b'S' => Kind::Object,
            b'a' | b'A' => Kind::Absolute,
            _ => Kind::Other,
        };
        let binding = match type_ {
            b'w' | b'W' | b'v' | b'V' => Binding::Weak,
            _ if type_.is_ascii_uppercase() => Binding::Global,
            _ => Binding::Local,
        };
        Self { name, address, size: 0, kind, binding, module }
    }

    fn symbol(self) -> Symbol {
        let global = self.binding != Binding::Local;
        Symbol { name: self.name, address: self.address, size: self.size, global }
    }
}

/// The section of these, which are sorted and not empty, that has the address.
pub(super) fn section_at(sections: &[Section], address: u64) -> Option<&Section> {
    let after = sections.partition_point(|section| section.address <= address);
    let section = sections.get(after.checked_sub(1)?)?;
    (address < section.end()).then_some(section)
}

/// All of these by address.
pub(super) struct Sorted {
    pub functions: Vec<Function>,
    pub objects: Vec<Symbol>,
    pub others: Vec<Symbol>,
}

pub(super) fn sort(entries: Vec<Entry>, sections: &[Section], percpu: Option<&Range<u64>>) -> Sorted {
    let (mut code, mut objects, mut others) = (Vec::with_capacity(entries.len()), Vec::new(), Vec::new());
    for entry in entries {
        match entry.kind {
            Kind::Function => match section_at(sections, entry.address) {
                Some(section) if section.executable => code.push(entry),
                // What is weak may also be data.
                Some(_) if entry.binding == Binding::Weak => objects.push(entry.symbol()),
                _ => others.push(entry.symbol()),
            },
            Kind::Object => objects.push(entry.symbol()),
            Kind::Absolute if percpu.is_some_and(|range| range.contains(&entry.address)) => {
                objects.push(entry.symbol());
            }
            Kind::Absolute | Kind::Other => others.push(entry.symbol()),
        }
    }
    code.sort_by_key(|entry| (entry.address, entry.binding));
    objects.sort_by_key(|symbol| symbol.address);
    others.sort_by_key(|symbol| symbol.address);
    let mut functions: Vec<Function> = Vec::with_capacity(code.len());
    for entry in code {
        match functions.last_mut() {
            Some(last) if last.address == entry.address => {
                last.size = last.size.max(entry.size);
                if last.name != entry.name {
                    last.aliases.push(entry.name);
                }
            }
            _ => functions.push(Function {
                name: entry.name,
                aliases: Vec::new(),
                address: entry.address,
                size: entry.size,
                module: entry.module,
                global: entry.binding != Binding::Local,
            }),
        }
    }
    limit_sizes(&mut functions, sections);
    Sorted { functions, objects, others }
}

/// Functions whose size is not known end where the next one begins, and none is larger than the rest
/// of its section.
fn limit_sizes(functions: &mut [Function], sections: &[Section]) {
    let mut next = u64::MAX;
    for function in functions.iter_mut().rev() {
        let end = section_at(sections, function.address).map_or(function.address, Section::end);
        let left = end - function.address;
        function.size = match function.size {
            0 => left.min(next - function.address),
            size => size.min(left),
        };
        next = function.address;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::bytes::Bytes;

    fn section(name: &str, address: u64, size: u64, executable: bool) -> Section {
        let name = name.to_owned();
        Section { name, address, executable, writable: false, size, bytes: Bytes::from(Vec::new()) }
    }

    fn sorted(entries: &[(u8, &str, u64, u64)]) -> Sorted {
        let sections = [
            section(".percpu", 0, 0x100, false),
            section(".text", 0x1000, 0x100, true),
            section(".data", 0x1100, 0x100, false),
        ];
        let entry = |&(type_, name, address, size): &(u8, &str, u64, u64)| Entry {
            size,
            ..Entry::typed(type_, name.to_owned(), address, None)
        };
        sort(entries.iter().map(entry).collect(), &sections, Some(&(0..0x80)))
    }

    #[test]
    fn names_at_one_address_are_one_function() {
        let functions =
            sorted(&[(b't', "b", 0x1010, 4), (b'w', "c", 0x1010, 9), (b'T', "a", 0x1010, 0)]).functions;
        let [function] = functions.as_slice() else { panic!("{functions:?}") };
        assert_eq!((function.name.as_str(), function.size, function.global), ("a", 9, true));
        assert_eq!(function.aliases, ["c", "b"]);
    }

    #[test]
    fn unknown_sizes_reach_to_what_comes_next() {
        let functions = sorted(&[
            (b't', "last", 0x10f0, 0),
            (b't', "first", 0x1000, 0),
            (b't', "inner", 0x1010, 4),
            (b't', "outer", 0x1008, 0x20),
            (b't', "large", 0x1080, u64::MAX),
        ])
        .functions;
        let sizes: Vec<_> =
            functions.iter().map(|function| (function.name.as_str(), function.size)).collect();
        let expected = [("first", 8), ("outer", 0x20), ("inner", 4), ("large", 0x80), ("last", 0x10)];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn what_is_no_code_is_no_function() {
        let sorted = sorted(&[
            (b'T', "_edata", 0x1200, 0),
            (b'W', "weak", 0x1100, 0),
            (b'T', "text_in_data", 0x1104, 0),
            (b'A', "percpu", 0x40, 0),
            (b'A', "number", 0x90, 0),
            (b'D', "data", 0x1110, 0),
        ]);
        assert!(sorted.functions.is_empty());
        let names = |symbols: Vec<Symbol>| symbols.into_iter().map(|symbol| symbol.name).collect::<Vec<_>>();
        assert_eq!(names(sorted.objects), ["percpu", "weak", "data"]);
        assert_eq!(names(sorted.others), ["number", "text_in_data", "_edata"]);
    }
}
