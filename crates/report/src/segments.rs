//! Where the time of the flows of a kind goes.

use comfy_table::{Attribute, Cell, Color};
use xweave_flow::Segment;

use crate::{
    View, number,
    table::{self, Heading},
};

/// Columns that the bar beside what needs all room has at least, and at most.
const BAR: (usize, usize) = (11, 30);

/// Columns that the other columns need at least; what is left is the bar's.
const BESIDE_BAR: u16 = 84;

/// The segments of a kind of flow, those of its commonest path first and in its order, with a bar for each one's share of
/// the time that this takes.
pub fn table(segments: &[Segment], view: View) -> String {
    if segments.is_empty() {
        return String::new();
    }
    let bar_width = usize::from(view.width.saturating_sub(BESIDE_BAR).clamp(8, 24));
    let headings = [
        Heading("From", false),
        Heading("To", false),
        Heading("Count", true),
        Heading("p50 (µs)", true),
        Heading("p99 (µs)", true),
        Heading("max (µs)", true),
        Heading("Share", false),
    ];
    let mut table = table::new(&headings, view);
    for (segment, share) in segments.iter().zip(shares(segments)) {
        let style = |text: String| {
            let cell = Cell::new(text);
            if view.color && !segment.main { cell.add_attribute(Attribute::Dim) } else { cell }
        };
        let bar = share.map_or_else(|| Cell::new(""), |share| bar_cell(share, bar_width, view));
        table.add_row([
            style(segment.from.clone()),
            style(segment.to.clone()),
            style(number::count(segment.count)),
            style(number::micros(segment.p50_ns)),
            style(number::micros(segment.p99_ns)),
            style(number::micros(segment.max_ns)),
            bar,
        ]);
    }
    table::text(&table)
}

/// Each segment's share of the sum of the medians on the commonest path; none for other segments.
pub fn shares(segments: &[Segment]) -> Vec<Option<f64>> {
    let of = |segment: &Segment| segment.p50_ns.max(0) as f64;
    let total: f64 = segments.iter().filter(|segment| segment.main).map(of).sum();
    let share = |segment: &Segment| (segment.main && total > 0.0).then(|| of(segment) / total);
    segments.iter().map(share).collect()
}

/// A table of which the last column is a bar for each row's share: as wide as the others leave room for.
pub(crate) fn with_bars(
    headings: &[Heading<'_>],
    rows: impl Iterator<Item = (Vec<String>, f64)>,
    view: View,
) -> String {
    let rows: Vec<(Vec<String>, f64)> = rows.collect();
    let beside = headings.iter().enumerate().take(headings.len().saturating_sub(1)).map(|(at, heading)| {
        let cells = rows.iter().filter_map(|(row, _)| row.get(at)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(heading.0.chars().count()) + 2
    });
    let room = usize::from(view.width).saturating_sub(beside.sum());
    let width = room.clamp(BAR.0, BAR.1);
    let mut table = table::new(headings, view);
    // Nothing comes behind the bars: blanks there would make a full one two lines.
    if let Some(column) = table.column_mut(headings.len().saturating_sub(1)) {
        column.set_padding((0, 0));
    }
    for (row, share) in rows {
        table.add_row(row.into_iter().map(Cell::new).chain([bar_cell(share, width, view)]));
    }
    table::text(&table)
}

/// A cell with such a bar.
fn bar_cell(share: f64, width: usize, view: View) -> Cell {
    let bar = Cell::new(table::unbroken(&bar(share, width)));
    if view.color { bar.fg(Color::Cyan) } else { bar }
}

/// A bar of blocks, to an eighth of a column, and the share in percent.
fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let columns = width.saturating_sub(6) as f64;
    let percent = format!("{:>3.0} %", share * 100.0);
    let mut bar = String::new();
    let mut left = share * columns;
    while left >= 1.0 {
        bar.push('█');
        left -= 1.0;
    }
    let last = EIGHTHS.iter().enumerate().rfind(|(eighths, _)| *eighths as f64 <= left * 8.0);
    bar.push_str(last.map_or("", |(_, block)| block));
    format!("{percent} {bar}")
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_are_to_scale() {
        assert_eq!(bar(1.0, 14), "100 % ████████");
        assert_eq!(bar(0.5, 14), " 50 % ████");
        assert_eq!(bar(0.0625, 14), "  6 % ▌");
        assert_eq!(bar(0.0, 14), "  0 % ");
    }
}
