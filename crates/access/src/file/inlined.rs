//! Inlined calls in the tables.

use super::texts::push;
use super::{INLINED, INLINING, NONE, Tables, first_row, word};
use crate::cfg::{to_u32, to_usize};
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
        let field = |row, nth| word(table, to_usize(row).checked_mul(INLINING)? + nth);
        let rows = 0..to_u32(table.len() / (INLINING * 4));
        let row = first_row(rows, |row| field(row, 0).is_some_and(|number| number < function));
        field(row, 0).filter(|number| *number == function)?;
        let into = (3..INLINING).filter_map(|nth| field(row, nth)).filter(|into| *into < self.functions());
        Some(InlinedCalls {
            calls: field(row, 1)?,
            functions: field(row, 2)?,
            into: into.map(|into| self.name(into)).collect(),
        })
    }
}
