//! The look that all tables share: columns apart by two blanks, a line under the head.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use crate::{View, number};

/// A column's heading, and whether it holds numbers.
pub struct Heading<'a>(pub &'a str, pub bool);

/// A table of two columns without headings: what is told of, and what is told.
pub fn bare(view: View) -> Table {
    let mut table = empty(view);
    table.set_constraints([ColumnConstraint::ContentWidth]);
    // Columns are there from the first row on.
    table.set_header(["", ""]);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    table
}

fn empty(view: View) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(view.width);
    if view.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// An empty table.
pub fn new(headings: &[Heading<'_>], view: View) -> Table {
    let mut table = empty(view);
    table.set_header(headings.iter().map(|heading| {
        let cell = Cell::new(heading.0);
        if view.color { cell.add_attribute(Attribute::Bold) } else { cell }
    }));
    for (at, heading) in headings.iter().enumerate() {
        let Some(column) = table.column_mut(at) else { continue };
        column.set_padding((0, 2));
        if heading.1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A column is as wide as what is in it, whatever the terminal's width.
pub fn keep_whole(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// The table's text, its lines without blanks at their ends.
pub fn text(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What is alike, told together: how many, and how long they took.
pub struct Alike {
    /// What they are.
    pub name: String,
    /// How many, and how many of these are known from their beginnings to their ends.
    pub counts: [u64; 2],
    /// Median, 99th percentile and longest, in nanoseconds.
    pub times: [i64; 3],
}

/// A row for each of these, at most so many; and in a line how many more (`one`, `many`) there are.
pub fn alike(
    heading: &str,
    all: impl ExactSizeIterator<Item = Alike>,
    most: usize,
    (one, many): (&str, &str),
    view: View,
) -> String {
    let headings = [
        Heading(heading, false),
        Heading("Count", true),
        Heading("Complete", true),
        Heading("p50 (µs)", true),
        Heading("p99 (µs)", true),
        Heading("max (µs)", true),
    ];
    let left = all.len().saturating_sub(most);
    let mut table = new(&headings, view);
    for of in all.take(most) {
        let (counts, times) = (of.counts.map(number::count), of.times.map(number::micros));
        table.add_row(std::iter::once(of.name).chain(counts).chain(times).map(Cell::new));
    }
    let mut text = text(&table);
    if left > 0 {
        let left = number::counted(left as u64, one, many);
        text.push_str(&format!("… and {left}: --all shows them\n"));
    }
    text
}
