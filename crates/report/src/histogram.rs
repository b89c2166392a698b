//! How times are distributed, between powers of two.

use xweave_flow::Histogram;

use crate::{View, number, segments::with_bars, table::Heading};

/// How many took how long; `what` they are, as a heading.
pub fn times(of: &Histogram, what: &str, view: View) -> String {
    let mut powers = [0_u64; 65];
    for bin in of.bins() {
        powers[(u64::BITS - bin.from_ns.leading_zeros()) as usize] += bin.count;
    }
    let all: u64 = powers.iter().sum();
    let first = powers.iter().position(|count| *count > 0).unwrap_or(0);
    let last = powers.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    let between = |power: usize| match power {
        0 => "0 ns".to_owned(),
        64 => format!("from {}", number::span(1 << 63)),
        _ => format!("{} to {}", number::span(1 << (power - 1)), number::span(1 << power)),
    };
    let headings = [Heading("Time", true), Heading(what, true), Heading("Share", false)];
    let rows = powers.iter().enumerate().take(last).skip(first).map(|(power, count)| {
        (vec![between(power), number::count(*count)], *count as f64 / all.max(1) as f64)
    });
    with_bars(&headings, rows, view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_between_powers_of_two() {
        let mut of = Histogram::default();
        [0, 900, 1_023, 1_024, 5_000].into_iter().for_each(|ns| of.add(ns));
        let text = times(&of, "Calls", View { width: 80, color: false });
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().take(7).collect()).collect();
        assert_eq!(rows[0], ["Time", "Calls", "Share"]);
        assert_eq!(rows[1][..3], ["0", "ns", "1"]);
        let line =
            |from: &str| text.lines().find(|line| line.trim_start().starts_with(from)).map(str::to_owned);
        assert!(
            line("512 ns to").is_some_and(|line| line.contains(" 2 ") && line.contains("40 %")),
            "{text}"
        );
        assert!(line("1 024 ns to").or_else(|| line("1.0 µs to")).is_some(), "{text}");
        assert_eq!(text.lines().count(), 1 + 14, "from 0 to 8 µs: {text}");
    }
}
