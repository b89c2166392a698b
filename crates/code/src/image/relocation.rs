//! Relocations, as a linker applies them.

use object::LittleEndian;
use object::elf::{self, Rela64};
use object::read::elf::Rela;

/// Of all files that are read.
pub(super) const ENDIAN: LittleEndian = LittleEndian;

/// The relocations in a section.
pub(super) fn table(bytes: &[u8]) -> Option<&[Rela64<LittleEndian>]> {
    object::pod::slice_from_all_bytes(bytes).ok()
}

/// Changes what lies at `address` as the relocations say: the number of those of kinds that are
/// ignored, or none if one refers to what is not there. `value` knows symbols by number, and `slot`
/// where a pointer to one is, or nothing if there are no such pointers.
pub(super) fn apply(
    data: &mut [u8],
    address: u64,
    table: &[Rela64<LittleEndian>],
    value: impl Fn(usize) -> Option<u64>,
    mut slot: impl FnMut(usize) -> Option<u64>,
) -> Option<usize> {
    let mut skipped = 0;
    for relocation in table {
        let offset = relocation.r_offset(ENDIAN);
        let symbol = usize::try_from(relocation.r_sym(ENDIAN, false)).ok()?;
        let addend = relocation.r_addend(ENDIAN).cast_unsigned();
        let place = address.wrapping_add(offset);
        let absolute = value(symbol)?.wrapping_add(addend);
        let (result, size) = match relocation.r_type(ENDIAN, false) {
            elf::R_X86_64_NONE => continue,
            elf::R_X86_64_64 => (absolute, 8),
            elf::R_X86_64_PC64 => (absolute.wrapping_sub(place), 8),
            elf::R_X86_64_32 | elf::R_X86_64_32S => (absolute, 4),
            elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => (absolute.wrapping_sub(place), 4),
            elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX => {
                let Some(slot) = slot(symbol) else {
                    skipped += 1;
                    continue;
                };
                (slot.wrapping_add(addend).wrapping_sub(place), 4)
            }
            _ => {
                skipped += 1;
                continue;
            }
        };
        let start = usize::try_from(offset).ok()?;
        let there = data.get_mut(start..start.checked_add(size)?)?;
        // What does not fit into 32 bits would be an error for a linker; here it is cut off.
        there.copy_from_slice(result.to_le_bytes().get(..size)?);
    }
    Some(skipped)
}
