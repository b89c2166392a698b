//! Transactions divided at the places that they pass: where between these the time went.

use xweave_model::{Intervals, Outcome, parts::Totals};

use crate::{
    View,
    folded::{self, Column},
    number, table, words,
};

/// Which did not pass all places, and which interval took how long; all intervals' times sum to the whole.
pub fn text(intervals: &Intervals, whole: &Totals, outcome: &Outcome, view: View) -> String {
    let mut rows: Vec<(&str, &str, &Totals)> = intervals.all().collect();
    rows.push(("all", "", whole));
    let column = |of: &dyn Fn(&Totals) -> String| rows.iter().map(|(.., totals)| of(totals)).collect();
    let quantile = |totals: &Totals, share| number::span_if(totals.quantile(share));
    let names = |of: fn(&(&str, &str, &Totals)) -> String| rows.iter().map(of).collect();
    let about = [
        Column::names("From", names(|(from, ..)| (*from).to_owned())),
        Column::names("To", names(|(_, to, _)| (*to).to_owned())),
    ];
    let share = |totals: &Totals| number::percent(totals.ns() as f64 / whole.ns().max(1) as f64);
    let columns = [
        Column::numbers("p50", column(&|totals| quantile(totals, 0.5))),
        Column::numbers("p99", column(&|totals| quantile(totals, 0.99))),
        Column::numbers("Time", column(&|totals| number::span(totals.ns()))),
        Column::numbers("Share", column(&share)),
        Column::prose("Largest cause", column(&largest)),
    ];
    let said = table::paragraph(&longest(intervals, whole), view) + &left_out(intervals, outcome, view);
    format!("{said}\n{}", folded::text(&about, &columns, view))
}

/// Where most of the time went.
fn longest(intervals: &Intervals, whole: &Totals) -> String {
    let longest = intervals.all().max_by_key(|(.., totals)| totals.ns());
    longest.map_or_else(String::new, |(from, to, totals)| {
        let share = number::percent(totals.ns() as f64 / whole.ns().max(1) as f64);
        format!("{share} of the time lies between {from} and {to}")
    })
}

/// What most of the time was spent on.
pub(crate) fn largest(totals: &Totals) -> String {
    let Some(largest) = totals.causes().into_iter().next() else { return String::new() };
    let share = number::percent(largest.ns as f64 / totals.ns().max(1) as f64);
    table::unbroken(&format!("{} {share}", words::causes::delay(&largest.delay)))
}

/// How many passed the first place and not all others, and at which they were missed; empty if there are none.
fn left_out(intervals: &Intervals, outcome: &Outcome, view: View) -> String {
    let reached = outcome.reached.as_deref().unwrap_or_default();
    let began = reached.first().copied().unwrap_or(0);
    let left = began.saturating_sub(outcome.transactions);
    let (Some(first), true) = (intervals.places().first(), left > 0) else { return String::new() };
    let places = intervals.places().iter().skip(1).zip(reached.windows(2));
    let missed = places.filter_map(|(place, reached)| {
        let missed = reached[0].saturating_sub(reached[1]);
        (missed > 0).then(|| format!("{} did not come to {place}", number::count(missed)))
    });
    let missed: Vec<_> = missed.collect();
    let why = if missed.is_empty() { String::new() } else { format!(": {}", missed.join(", ")) };
    let (left, began) = (number::count(left), number::count(began));
    table::paragraph(&format!("Left out: {left} of {began} that passed {first}{why}"), view)
}
