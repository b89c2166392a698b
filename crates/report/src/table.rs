//! The look that all tables share: columns apart by two blanks, a line under the head.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use crate::View;

/// The most bytes of what is told of: names may be anything.
const LABEL: usize = 32;

/// What looks like a blank, and ends no line.
const NO_BREAK: char = '\u{a0}';

/// A column's heading, and whether it holds numbers.
pub struct Heading<'a>(pub &'a str, pub bool);

/// Moved in, what is told of and what is told: in two columns without headings.
pub fn lines(rows: &[(String, String)], view: View) -> String {
    let mut table = bare(2, view);
    for (what, told) in rows {
        let mut what = what.clone();
        xweave_text::cut(&mut what, LABEL);
        table.add_row([format!("  {what}"), unbroken(told)]);
    }
    text(&table)
}

/// A text in lines that fit.
pub fn paragraph(text: &str, view: View) -> String {
    let mut table = bare(1, view);
    table.add_row([unbroken(text)]);
    self::text(&table)
}

/// Without headings; all columns but the last are as wide as what is in them.
fn bare(columns: usize, view: View) -> Table {
    let mut table = empty(view);
    // Columns are there from the first row on.
    table.set_header(vec![""; columns]);
    table.set_constraints(vec![ColumnConstraint::ContentWidth; columns - 1]);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    table
}

/// Does not end a line between a number and its unit, or its thousands: `1 512 exits`, `42 %`. A thread's number
/// (`dd/267 had the CPU`) has none.
pub(crate) fn unbroken(text: &str) -> String {
    let (mut before, mut of_number) = (' ', true);
    let keep = |c: char| {
        let kept = if c == ' ' && of_number && before.is_ascii_digit() { NO_BREAK } else { c };
        of_number = c == ' ' || of_number && c != '/';
        before = c;
        kept
    };
    text.chars().map(keep).collect()
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

/// The table's text, its lines without blanks at their ends; an empty heading is no line.
pub fn text(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines().skip_while(|line| line.trim().is_empty()) {
        text.push_str(&line.trim_end().replace(NO_BREAK, " "));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_unit_and_a_thread_s_number_with_nothing() {
        assert_eq!(unbroken("1 512 exits"), format!("1{NO_BREAK}512{NO_BREAK}exits"));
        assert_eq!(unbroken("by web1 42 %"), format!("by web1{NO_BREAK}42{NO_BREAK}%"));
        assert_eq!(unbroken("dd/267 had the CPU"), "dd/267 had the CPU");
    }
}
