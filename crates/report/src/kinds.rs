//! The kinds of flow: how many there are of each, and how long they take.

use comfy_table::Cell;
use xweave_flow::FlowKind;

use crate::{
    View, number,
    table::{self, Heading},
};

/// The kinds, the commonest first; at most so many, and in a line how many more there are.
pub fn table(kinds: &[FlowKind], most: usize, view: View) -> String {
    let headings = [
        Heading("Flows of this kind", false),
        Heading("Count", true),
        Heading("Complete", true),
        Heading("p50 (µs)", true),
        Heading("p99 (µs)", true),
        Heading("max (µs)", true),
    ];
    let mut table = table::new(&headings, view);
    for kind in kinds.iter().take(most) {
        let times = [kind.p50_ns, kind.p99_ns, kind.max_ns].map(number::micros);
        let counts = [kind.flows, kind.complete].map(number::count);
        let cells = std::iter::once(kind.name.clone()).chain(counts).chain(times);
        table.add_row(cells.map(Cell::new));
    }
    let mut text = table::text(&table);
    if kinds.len() > most {
        let left = number::counted((kinds.len() - most) as u64, "other kind", "other kinds");
        text.push_str(&format!("… and {left}: --all shows them\n"));
    }
    text
}
