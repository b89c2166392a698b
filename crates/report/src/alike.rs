//! What is alike, told together: how many, and how long they took.

use crate::{
    View,
    folded::{self, Column},
    number,
};

/// Some that are alike.
pub struct Alike {
    /// What they are.
    pub name: String,
    /// How many, and how many of these are known from their beginnings to their ends.
    pub counts: [u64; 2],
    /// Median, 99th percentile and longest, in nanoseconds.
    pub times: [i64; 3],
}

/// A row for each of these, at most so many; and in a line how many more (`one`, `many`) there are. Where there is no room for
/// all columns, the longest time and how many are complete are left out.
pub fn table(
    heading: &str,
    all: impl ExactSizeIterator<Item = Alike>,
    most: usize,
    (one, many): (&str, &str),
    view: View,
) -> String {
    let left = all.len().saturating_sub(most);
    let rows: Vec<Alike> = all.take(most).collect();
    let cells = |of: &dyn Fn(&Alike) -> String| rows.iter().map(of).collect::<Vec<_>>();
    let mut columns = vec![
        Column::names(heading, cells(&|row| row.name.clone())),
        Column::numbers("Count", cells(&|row| number::count(row.counts[0]))),
        Column::numbers("Complete", cells(&|row| number::count(row.counts[1]))),
        Column::numbers("p50 (µs)", cells(&|row| number::micros(row.times[0]))),
        Column::numbers("p99 (µs)", cells(&|row| number::micros(row.times[1]))),
        Column::numbers("max (µs)", cells(&|row| number::micros(row.times[2]))),
    ];
    folded::leave_out(&mut columns, [5, 2], &[], view);
    let mut text = folded::text(&[], &columns, view);
    if left > 0 {
        let left = number::counted(left as u64, one, many);
        text.push_str(&format!("… and {left}: --all shows them\n"));
    }
    text
}
