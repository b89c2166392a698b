//! Putting into an object what was left open when it was compiled.

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};

use super::ObjectError;
use super::elf::{Functions, INSTRUCTION};

/// The distance from the context at which the first argument is loaded as it is compiled, in bytes: `XW_MARK` of
/// `bpf/program.h`. The context of no program is that long.
pub const MARK: i16 = 0x4000;

/// The number of arguments that a program may ask for.
pub const MARKS: usize = 256;

/// `BPF_LDX | BPF_MEM | BPF_DW`
const LOAD: u8 = 0x79;

/// An object that is being made to fit a kernel and a user.
pub struct ObjectEditor {
    bytes: Vec<u8>,
}

impl ObjectEditor {
    /// Begins with an object as it was compiled.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// The object with all that was put into it.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Gives a program its arguments: the context's word of 64 bits in which the kernel passes each.
    ///
    /// # Errors
    ///
    /// There is no such program, or it asks for more arguments.
    pub fn set_arguments(&mut self, program: &str, words: &[u8]) -> Result<(), ObjectError> {
        let elf = ElfFile64::<Endianness>::parse(&*self.bytes)?;
        let missing = || ObjectError::Missing(format!("program {program}"));
        let functions = Functions::read(&elf)?;
        let function = functions.named(program).ok_or_else(missing)?;
        let (section, size) = elf.section_by_index(function.section)?.file_range().ok_or_else(missing)?;
        let outside = || ObjectError::Damaged("symbol table");
        if function.start.checked_add(function.size).is_none_or(|end| end > size) {
            return Err(outside());
        }
        let start = usize::try_from(section + function.start).map_err(|_| outside())?;
        let size = usize::try_from(function.size).map_err(|_| outside())?;
        let code = self.bytes.get_mut(start..start + size).ok_or_else(outside)?;
        for instruction in code.as_chunks_mut::<INSTRUCTION>().0 {
            let offset = i16::from_le_bytes([instruction[2], instruction[3]]);
            let Some(nth) = (instruction[0] == LOAD).then(|| marked(offset)).flatten() else { continue };
            let given = words.len();
            let program = || program.to_owned();
            let word =
                words.get(nth).ok_or_else(|| ObjectError::Argument { program: program(), nth, given })?;
            [instruction[2], instruction[3]] = (i16::from(*word) * 8).to_le_bytes();
        }
        Ok(())
    }

    /// Sets a constant of the object (`const volatile`, in `.rodata`).
    ///
    /// # Errors
    ///
    /// There is no such constant, or it has another size.
    pub fn set_constant(&mut self, name: &str, value: &[u8]) -> Result<(), ObjectError> {
        let elf = ElfFile64::<Endianness>::parse(&*self.bytes)?;
        let missing = || ObjectError::Missing(format!("constant {name}"));
        let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(name)).ok_or_else(missing)?;
        let section = elf.section_by_index(symbol.section_index().ok_or_else(missing)?)?;
        if !section.name()?.starts_with(".rodata") {
            return Err(missing());
        }
        let room = symbol.size();
        if usize::try_from(room) != Ok(value.len()) {
            return Err(ObjectError::Constant { name: name.to_owned(), room, bytes: value.len() });
        }
        let (start, size) = section.file_range().ok_or_else(missing)?;
        let begin = symbol.address();
        if begin.checked_add(room).is_none_or(|end| end > size) {
            return Err(ObjectError::Damaged("symbol table"));
        }
        let begin = usize::try_from(start + begin).map_err(|_| missing())?;
        let place = self.bytes.get_mut(begin..begin + value.len()).ok_or_else(missing)?;
        place.copy_from_slice(value);
        Ok(())
    }
}

/// The number of the argument that a load from this distance asks for.
fn marked(offset: i16) -> Option<usize> {
    let nth = usize::try_from(offset.checked_sub(MARK)?).ok()?;
    (nth.is_multiple_of(8) && nth / 8 < MARKS).then_some(nth / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_distances_are_arguments() {
        assert_eq!(marked(MARK), Some(0));
        assert_eq!(marked(MARK + 24), Some(3));
        for other in [0, 16, MARK - 8, MARK + 4, MARK + 8 * 256, i16::MAX, i16::MIN] {
            assert_eq!(marked(other), None, "{other}");
        }
    }
}
