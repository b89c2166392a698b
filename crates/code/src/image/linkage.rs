//! What a linked program or library leaves to the dynamic linker: pointers that it fills in (the
//! global offset table), and the stubs that jump to where these point (the procedure linkage table).

use std::collections::BTreeMap;

use object::SymbolIndex;
use object::elf;
use object::read::elf::{Rela, Sym};
use xweave_bytes::split_le;

use super::Image;
use super::elf::{Elf, Symbols};
use super::names::Names;
use super::relocation::{self, ENDIAN};
use crate::Error;

/// Stubs begin at multiples of this.
const STUB: usize = 8;

/// The names of what pointers and stubs stand for, by their addresses.
pub(super) fn imports(elf: &Elf, dynamic: &Symbols, image: &Image) -> Result<BTreeMap<u64, String>, Error> {
    let mut imports = slots(elf, dynamic, image)?;
    if imports.is_empty() {
        return Ok(imports);
    }
    for section in image.sections().iter().filter(|section| section.name.starts_with(".plt")) {
        for (code, address) in section.data().chunks(STUB).zip((section.address..).step_by(STUB)) {
            // A stub may have up to 16 bytes, and none is shorter than its jump.
            let code = image.bytes(address, 2 * STUB).unwrap_or(code);
            let name = jump_through(address, code).and_then(|slot| imports.get(&slot)).cloned();
            if let Some(name) = name {
                imports.insert(address, name);
            }
        }
    }
    Ok(imports)
}

fn slots(elf: &Elf, dynamic: &Symbols, image: &Image) -> Result<BTreeMap<u64, String>, Error> {
    let mut imports = BTreeMap::new();
    let mut names = Names::of(elf.file_size());
    let tables = elf.parts.iter().filter(|part| part.kind == elf::SHT_RELA && part.has(elf::SHF_ALLOC));
    for part in tables {
        let wrong = |reason| elf.wrong(&format!("section {}", part.name), reason);
        let table = relocation::table(&part.bytes).ok_or_else(|| wrong("has no whole number of entries"))?;
        for relocation in table {
            let kind = relocation.r_type(ENDIAN, false);
            let addend = relocation.r_addend(ENDIAN).cast_unsigned();
            let name = match kind {
                // A function of its own, which chooses among several that do the same.
                elf::R_X86_64_IRELATIVE => match image.functions.binary_search_by_key(&addend, |f| f.address)
                {
                    Ok(at) => image.functions.get(at).and_then(|chooser| names.read(chooser.name.as_bytes())),
                    Err(_) => continue,
                },
                elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_64 => {
                    let index = usize::try_from(relocation.r_sym(ENDIAN, false)).unwrap_or(usize::MAX);
                    let symbol = dynamic.symbol(SymbolIndex(index));
                    let symbol = symbol.map_err(|_| wrong("refers to a symbol that is not there"))?;
                    // A number of 64 bits may as well be a variable that refers to one of its own.
                    if kind == elf::R_X86_64_64 && symbol.st_shndx(ENDIAN) != elf::SHN_UNDEF {
                        continue;
                    }
                    dynamic.symbol_name(ENDIAN, symbol).ok().and_then(|name| names.read(name))
                }
                _ => continue,
            };
            let name = name.ok_or_else(|| wrong("refers to a name that cannot be read"))?;
            if !name.is_empty() {
                imports.insert(relocation.r_offset(ENDIAN), name);
            }
        }
    }
    Ok(imports)
}

/// Where the pointer is that a stub with this code jumps through, if it is one:
/// `[endbr64] [bnd] jmp *pointer(%rip)`.
fn jump_through(address: u64, code: &[u8]) -> Option<u64> {
    let mut rest = code.strip_prefix(b"\xf3\x0f\x1e\xfa").unwrap_or(code);
    rest = rest.strip_prefix(b"\xf2").unwrap_or(rest);
    let (distance, after) = split_le::<i32>(rest.strip_prefix(b"\xff\x25")?)?;
    let next = address.checked_add(u64::try_from(code.len() - after.len()).ok()?)?;
    next.checked_add_signed(distance.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs() {
        assert_eq!(jump_through(0x1000, b"\xff\x25\x02\0\0\0\x68\0"), Some(0x1008));
        assert_eq!(jump_through(0x1000, b"\xf3\x0f\x1e\xfa\xff\x25\xf6\xff\xff\xff"), Some(0x1000));
        assert_eq!(jump_through(0x1000, b"\xf3\x0f\x1e\xfa\xf2\xff\x25\0\0\0\0"), Some(0x100b));
        assert_eq!(jump_through(0x1000, b"\xff\x35\0\0\0\0"), None);
        assert_eq!(jump_through(0x1000, b"\xff\x25\0\0\0"), None);
        assert_eq!(jump_through(0, b"\xff\x25\0\0\0\x80"), None);
    }
}
