//! Tables in which nothing is broken: columns that there is no room for stand in a further table below.

use comfy_table::{Attribute, Cell};

use crate::{
    View,
    table::{self, Heading},
};

/// The blanks between columns.
const GAP: usize = 2;

/// Words in lines of fewer columns are hard to read.
const PROSE: usize = 30;

/// A column.
pub struct Column {
    heading: String,
    is: Is,
    cells: Vec<String>,
    strong: Vec<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Names,
    Numbers,
    Prose,
}

impl Column {
    /// Of names, which are as long as they are.
    pub fn names(heading: impl Into<String>, cells: Vec<String>) -> Self {
        Self { heading: heading.into(), is: Is::Names, strong: vec![false; cells.len()], cells }
    }

    /// Of numbers, below each other.
    pub fn numbers(heading: impl Into<String>, cells: Vec<String>) -> Self {
        Self { is: Is::Numbers, ..Self::names(heading, cells) }
    }

    /// Of sentences, in as many lines as they need.
    pub fn prose(heading: impl Into<String>, cells: Vec<String>) -> Self {
        Self { is: Is::Prose, ..Self::names(heading, cells) }
    }

    /// With these cells in bold, on a terminal.
    pub fn strong(self, strong: Vec<bool>) -> Self {
        Self { strong, ..self }
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        let width = cells.max().unwrap_or(0).max(self.heading.chars().count());
        GAP + if self.is == Is::Prose { width.min(PROSE) } else { width }
    }

    fn cell(&self, row: usize, view: View) -> Cell {
        let cell = Cell::new(self.cells.get(row).map_or("", |cell| cell));
        let strong = view.color && self.strong.get(row).copied().unwrap_or(false);
        if strong { cell.add_attribute(Attribute::Bold) } else { cell }
    }
}

/// Pairs of figures, first → second, padded so that the arrows stand below each other.
pub fn arrows(pairs: &[[String; 2]]) -> Vec<String> {
    let widest = |at: usize| pairs.iter().map(|pair| pair[at].chars().count()).max().unwrap_or(0);
    let (a, b) = (widest(0), widest(1));
    pairs.iter().map(|[first, second]| format!("{first:>a$} → {second:>b$}")).collect()
}

/// Whether there is room for all these columns in one table.
pub fn fit(about: &[Column], columns: &[Column], view: View) -> bool {
    let width: usize = about.iter().chain(columns).map(Column::width).sum();
    // Behind the last column there need be no gap.
    width <= usize::from(view.width) + GAP
}

/// Leaves out columns that there is no room for beside others: these, by their places, the first of them first. Each is before
/// those that were named before it.
pub fn leave_out(
    columns: &mut Vec<Column>,
    least_wanted: impl IntoIterator<Item = usize>,
    others: &[Column],
    view: View,
) {
    for unwanted in least_wanted {
        if fit(columns, others, view) {
            return;
        }
        columns.remove(unwanted);
    }
}

/// What is left of the terminal beside these columns.
pub fn room(about: &[Column], view: View) -> View {
    let used = about.iter().map(Column::width).sum::<usize>();
    let used = u16::try_from(used).unwrap_or(u16::MAX);
    View { width: view.width.saturating_sub(used), ..view }
}

/// The columns beside those that say what each row is about. These stand again in each table.
pub fn text(about: &[Column], columns: &[Column], view: View) -> String {
    let room = usize::from(view.width).saturating_sub(about.iter().map(Column::width).sum());
    let mut tables = Vec::new();
    let mut left = columns;
    while !left.is_empty() {
        let (some, others) = left.split_at(fitting(left, room));
        left = others;
        tables.push(one(about, some, view));
    }
    tables.join("\n")
}

/// How many of these columns there is room for; at least one, whatever the room.
fn fitting(columns: &[Column], room: usize) -> usize {
    let mut used = 0;
    let fit = columns.iter().take_while(|column| {
        used += column.width();
        // Behind the last column there need be no gap.
        used <= room + GAP
    });
    fit.count().max(1)
}

fn one(about: &[Column], columns: &[Column], view: View) -> String {
    let all: Vec<_> = about.iter().chain(columns).collect();
    let headings: Vec<_> =
        all.iter().map(|column| Heading(&column.heading, column.is == Is::Numbers)).collect();
    // The last column's padding would take the room of its text.
    let mut table = table::new(&headings, View { width: view.width.saturating_add(2), ..view });
    for (at, column) in all.iter().enumerate() {
        if column.is != Is::Prose {
            table::keep_whole(&mut table, at);
        }
    }
    let rows = all.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    for row in 0..rows {
        table.add_row(all.iter().map(|column| column.cell(row, view)));
    }
    table::text(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: u16) -> String {
        let cells = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
        let about = [Column::names("Object", cells(["nginx", "a-name-of-twenty-chars"]))];
        let columns = [
            Column::numbers("time", cells(["1.500 s", "2.0 ms"])),
            Column::numbers("count", cells(["1 000", "7"])),
            Column::prose("Why", cells(["for it had much more to do than the time before", ""])),
        ];
        text(&about, &columns, View { width, color: false })
    }

    #[test]
    fn what_there_is_no_room_for_stands_below() {
        assert_eq!(shown(120).lines().count(), 3);
        let expected = "\
Object                     time  count
nginx                   1.500 s  1 000
a-name-of-twenty-chars   2.0 ms      7

Object                  Why
nginx                   for it had much more
                        to do than the time
                        before
a-name-of-twenty-chars
";
        assert_eq!(shown(46), expected);
    }

    #[test]
    fn no_word_is_broken_where_even_one_column_has_no_room() {
        let text = shown(20);
        assert!(text.contains("a-name-of-twenty-chars   2.0 ms\n"), "{text}");
    }
}
