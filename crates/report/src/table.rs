//! The look that all tables share: columns apart by two blanks, a line under the head.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use crate::{View, number};

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

/// What is alike, told together: how many, and how long they took.
pub struct Alike {
    /// What they are.
    pub name: String,
    /// How many, and how many of these are known from their beginnings to their ends.
    pub counts: [u64; 2],
    /// Median, 99th percentile and longest, in nanoseconds.
    pub times: [i64; 3],
}

impl Alike {
    fn cells(self) -> [String; 6] {
        let [count, complete] = self.counts.map(number::count);
        let [p50, p99, max] = self.times.map(number::micros);
        [self.name, count, complete, p50, p99, max]
    }
}

/// A row for each of these, at most so many; and in a line how many more (`one`, `many`) there are.
pub fn alike(
    heading: &str,
    all: impl ExactSizeIterator<Item = Alike>,
    most: usize,
    (one, many): (&str, &str),
    view: View,
) -> String {
    let left = all.len().saturating_sub(most);
    let headings = [heading, "Count", "Complete", "p50 (µs)", "p99 (µs)", "max (µs)"];
    let rows: Vec<[String; 6]> = all.take(most).map(Alike::cells).collect();
    let widest = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let width = |at: &usize| widest(*at).max(headings[*at].chars().count()) + 2;
    // What there is no room for is left out, the least telling first.
    let mut columns: Vec<usize> = (0..headings.len()).collect();
    for least in [5, 2] {
        if columns.iter().map(width).sum::<usize>() > usize::from(view.width) + 2 {
            columns.retain(|column| *column != least);
        }
    }
    let shown: Vec<_> = columns.iter().map(|at| Heading(headings[*at], *at > 0)).collect();
    let mut table = new(&shown, View { width: view.width.saturating_add(2), ..view });
    for row in &rows {
        table.add_row(columns.iter().map(|at| Cell::new(&row[*at])));
    }
    let mut text = text(&table);
    if left > 0 {
        let left = number::counted(left as u64, one, many);
        text.push_str(&format!("… and {left}: --all shows them\n"));
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
