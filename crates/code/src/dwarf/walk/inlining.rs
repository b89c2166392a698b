//! Calls that are inlined: of which function, and into which.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::Walk;
use crate::dwarf::units::{Cursor, Fault};
use crate::dwarf::{Definition, Inlined};

/// What code is of.
#[derive(Clone, Copy, Default)]
pub(super) struct Within {
    /// The function that it was written in: the innermost of those that are inlined there.
    pub(super) definition: Option<Definition>,
    /// Where the function is entered that it was compiled into.
    pub(super) entered: Option<u64>,
}

impl Walk<'_, '_, '_> {
    /// Notes an inlined call, of which `origin` is the function; `around` is the code that calls. Some have no code: what
    /// is left of a short function is often said to be its caller's.
    pub(super) fn inlined(&mut self, origin: Option<usize>, around: Within) -> Result<Within, Fault> {
        let Some(origin) = origin else { return Ok(around) };
        let Some(definition) = self.definition(origin)? else { return Ok(around) };
        // A function in itself is nearly always its own `.part`, put back where it was taken from.
        if let Some(into) = around.entered.filter(|_| around.definition != Some(definition)) {
            self.found.inlined.push(Inlined { definition, into, calls: 1 });
        }
        Ok(Within { definition: Some(definition), ..around })
    }

    /// What the function at an offset was compiled from; none if it has no name.
    pub(super) fn definition(&mut self, at: usize) -> Result<Option<Definition>, Fault> {
        if let Some(known) = self.definitions.get(&at) {
            return Ok(*known);
        }
        let (mut name, mut line, mut column) = (None, None, None);
        let mut next = Some(at);
        // An abstract instance may refer to its declaration.
        for _ in 0..4 {
            let Some(at) = next.take().filter(|_| name.is_none()) else { break };
            self.typing.spend(1)?;
            let unit = self.typing.unit_of(at)?;
            let mut cursor = Cursor::new(&unit, at)?;
            let abbreviation = cursor.next()?.ok_or_else(Fault::dangling)?;
            for spec in abbreviation.attributes() {
                let value = cursor.entries.read_attribute(*spec)?.value();
                match spec.name() {
                    gimli::DW_AT_name => name = Some(self.units.text(&unit, value)),
                    gimli::DW_AT_decl_line => line = line.or(value.udata_value()),
                    gimli::DW_AT_decl_column => column = column.or(value.udata_value()),
                    gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => next = unit.reference(value),
                    _ => {}
                }
            }
        }
        let definition = name.map(|name| {
            let mut hasher = DefaultHasher::new();
            (name, line, column).hash(&mut hasher);
            Definition(hasher.finish())
        });
        self.definitions.insert(at, definition);
        Ok(definition)
    }

    /// Makes one of all calls of a function that are inlined into the same.
    pub(super) fn count_inlined(&mut self) {
        let inlined = &mut self.found.inlined;
        inlined.sort_unstable_by_key(|of| (of.definition, of.into));
        inlined.dedup_by(|next, first| {
            let same = (next.definition, next.into) == (first.definition, first.into);
            if same {
                first.calls = first.calls.saturating_add(next.calls);
            }
            same
        });
        inlined.shrink_to_fit();
    }
}
