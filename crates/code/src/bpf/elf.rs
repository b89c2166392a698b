//! The functions of an object, and which of them call which.

use std::collections::{HashMap, HashSet};

use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex,
    SymbolIndex, SymbolKind,
};

use super::ObjectError;

/// An instruction has so many bytes (include/uapi/linux/bpf.h).
pub(super) const INSTRUCTION: usize = 8;

/// `BPF_JMP | BPF_CALL`, and the source register of a call of another function of the object (`BPF_PSEUDO_CALL`).
const CALL: u8 = 0x85;
const PSEUDO_CALL: u8 = 1;

/// More functions than an object has.
const FUNCTIONS: usize = 1 << 14;

/// A function: a program, or one that programs call.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) section: SectionIndex,
    /// From the beginning of the section, in bytes.
    pub(super) start: u64,
    pub(super) size: u64,
}

/// An object's functions.
pub(super) struct Functions {
    all: Vec<Function>,
    /// By number: the functions that it calls.
    calls: Vec<Vec<usize>>,
}

impl Functions {
    pub(super) fn read(elf: &ElfFile64<'_, Endianness>) -> Result<Self, ObjectError> {
        let mut all = Vec::new();
        for symbol in elf.symbols() {
            if let (SymbolKind::Text, Some(section)) = (symbol.kind(), symbol.section_index()) {
                let (name, start, size) = (symbol.name()?.to_owned(), symbol.address(), symbol.size());
                all.push(Function { name, section, start, size });
            }
            if all.len() > FUNCTIONS {
                return Err(ObjectError::Damaged("symbol table"));
            }
        }
        let mut functions = Self { calls: vec![Vec::new(); all.len()], all };
        functions.find_calls(elf)?;
        Ok(functions)
    }

    /// The function with this name.
    pub(super) fn named(&self, name: &str) -> Option<&Function> {
        self.all.iter().find(|function| function.name == name)
    }

    /// The name of the section, and the numbers of all functions that a program may run: itself, those that it calls,
    /// and those that they call.
    pub(super) fn reached(&self, program: &str) -> Vec<&Function> {
        let mut left: Vec<usize> = (0..self.all.len()).filter(|nth| self.all[*nth].name == program).collect();
        let mut seen: HashSet<usize> = left.iter().copied().collect();
        while let Some(nth) = left.pop() {
            left.extend(self.calls[nth].iter().filter(|called| seen.insert(**called)));
        }
        let mut reached: Vec<usize> = seen.into_iter().collect();
        reached.sort_unstable();
        reached.into_iter().map(|nth| &self.all[nth]).collect()
    }

    /// The function whose instructions are at a place.
    fn at(&self, section: SectionIndex, offset: u64) -> Option<usize> {
        let covers = |of: &Function| {
            of.section == section && (of.start..of.start.saturating_add(of.size)).contains(&offset)
        };
        self.all.iter().position(covers)
    }

    fn find_calls(&mut self, elf: &ElfFile64<'_, Endianness>) -> Result<(), ObjectError> {
        let sections: HashSet<SectionIndex> = self.all.iter().map(|function| function.section).collect();
        for index in sections {
            let section = elf.section_by_index(index)?;
            let code = section.data()?;
            let relocated: HashMap<u64, SymbolIndex> = section
                .relocations()
                .filter_map(|(at, relocation)| match relocation.target() {
                    RelocationTarget::Symbol(symbol) => Some((at, symbol)),
                    _ => None,
                })
                .collect();
            for (at, instruction) in (0u64..).step_by(INSTRUCTION).zip(code.as_chunks::<INSTRUCTION>().0) {
                // Callbacks of bpf_loop are referred to by a load of 64 bits, and have a relocation as calls have.
                let is_call = instruction[0] == CALL && instruction[1] >> 4 == PSEUDO_CALL;
                let symbol = relocated.get(&at);
                if !is_call && symbol.is_none() {
                    continue;
                }
                let words =
                    i32::from_le_bytes([instruction[4], instruction[5], instruction[6], instruction[7]]);
                let called = match symbol {
                    Some(symbol) => self.target(elf, *symbol, words, is_call)?,
                    None => {
                        let next = i64::try_from(at).unwrap_or(0) / 8 + 1 + i64::from(words);
                        u64::try_from(next * 8).ok().and_then(|at| self.at(index, at))
                    }
                };
                if let (Some(caller), Some(called)) = (self.at(index, at), called) {
                    self.calls[caller].push(called);
                }
            }
        }
        Ok(())
    }

    /// The function that a relocation refers to: by its symbol, or by a section's and the distance in it, which a call
    /// has in instructions less one and a load in bytes.
    fn target(
        &self,
        elf: &ElfFile64<'_, Endianness>,
        symbol: SymbolIndex,
        immediate: i32,
        is_call: bool,
    ) -> Result<Option<usize>, ObjectError> {
        let symbol = elf.symbol_by_index(symbol)?;
        let Some(section) = symbol.section_index() else { return Ok(None) };
        let within = match (symbol.kind(), is_call) {
            (SymbolKind::Section, true) => (i64::from(immediate) + 1) * 8,
            (SymbolKind::Section, false) => i64::from(immediate),
            _ => 0,
        };
        let at = symbol.address().checked_add_signed(within);
        Ok(at.and_then(|at| self.at(section, at)))
    }
}
