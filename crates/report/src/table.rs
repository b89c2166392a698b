//! The look that all tables share: columns apart by two blanks, a line under the head.

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::View;

/// A column's heading, and whether it holds numbers.
pub struct Heading<'a>(pub &'a str, pub bool);

/// An empty table.
pub fn new(headings: &[Heading<'_>], view: View) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(view.width);
    if view.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
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

/// The table's text, its lines without blanks at their ends.
pub fn text(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
