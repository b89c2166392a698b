//! Inlined calls in the tables.

use super::texts::push;
use super::{INLINED, INLINING, NONE, Tables, word};
use crate::inlining::{Inlining, NAMED};
use crate::site::InlinedCalls;

/// The table of inlined calls. Functions have the numbers of `entries`.
pub(super) fn assemble(inlinings: &[Inlining], entries: &[u32]) -> Vec<u8> {
    let number = |function: usize| entries.get(function).copied().unwrap_or(NONE);
    let mut rows: Vec<_> = inlinings.iter().map(|of| (number(of.function), of)).collect();
    rows.sort_unstable_by_key(|(function, _)| *function);
    let mut table = Vec::new();
    for (function, of) in rows {
        push(&mut table, &[function, of.calls, of.functions]);
        let into = of.into.iter().map(|function| number(*function));
        let into: Vec<_> = into.chain(std::iter::repeat(NONE)).take(NAMED).collect();
        push(&mut table, &into);
    }
    table
}

impl Tables {
    /// The calls of a function that are inlined, if any are.
    pub(crate) fn inlined(&self, function: u32) -> Option<InlinedCalls<'_>> {
        let table = self.part(INLINED);
        let field = |row: usize, nth| word(table, row.checked_mul(INLINING)? + nth);
        let (mut low, mut high) = (0, table.len() / (INLINING * 4));
        while low < high {
            let middle = low + (high - low) / 2;
            match field(middle, 0) {
                Some(number) if number < function => low = middle + 1,
                _ => high = middle,
            }
        }
        field(low, 0).filter(|number| *number == function)?;
        let into = (3..INLINING).filter_map(|nth| field(low, nth)).filter(|into| *into < self.functions());
        Some(InlinedCalls {
            calls: field(low, 1)?,
            functions: field(low, 2)?,
            into: into.map(|into| self.name(into)).collect(),
        })
    }
}
