//! Where flows of a kind spend their time, at first sight.

use xweave_flow::{FlowKind, Place};

use crate::{
    View, number,
    segments::with_bars,
    table::Heading,
    words::places::{place, place_in_domain},
};

/// Rows that there are at most: of more places, those with the least time are one row.
const ROWS: usize = 9;

/// The answer in two lines: how many flows of the kind there are, how long they take, and where most of that goes.
pub fn headline(kind: &FlowKind, places: &[Place]) -> String {
    let mut text = format!("{}: {}", kind.name, number::counted(kind.flows, "flow", "flows"));
    let time = |ns: i64| number::span(ns.max(0).unsigned_abs());
    match kind.flows {
        1 => text.push_str(&format!(", {}\n", time(kind.p50_ns))),
        _ => text.push_str(&format!(", typically {}, p99 {}\n", time(kind.p50_ns), time(kind.p99_ns))),
    }
    let most = places.iter().max_by(|a, b| a.stay.share.total_cmp(&b.stay.share));
    if let Some(most) = most.filter(|most| most.stay.share > 0.0 && places.len() > 1) {
        text.push_str(&format!(
            "{} of their time: {}\n",
            number::percent(most.stay.share),
            place_in_domain(most)
        ));
    }
    text
}

/// The places of a kind in the order in which its flows come there, with a bar for each one's share of all time.
pub fn table(places: &[Place], view: View) -> String {
    let (shown, others) = largest(places);
    let headings = [
        Heading("Domain", false),
        Heading("Where", false),
        Heading("Flows", true),
        Heading("typical (µs)", true),
        Heading("p99 (µs)", true),
        Heading("Share", false),
    ];
    let rows = shown.iter().map(|of| {
        let stay = &of.stay;
        let [typical, p99] = [stay.p50_ns, stay.p99_ns].map(number::micros);
        (
            vec![
                stay.place.domain().to_owned(),
                place(of).to_string(),
                number::count(stay.flows),
                typical,
                p99,
            ],
            stay.share,
        )
    });
    let mut text = with_bars(&headings, rows, view);
    if !others.is_empty() {
        let share: f64 = others.iter().map(|of| of.stay.share).sum();
        let n = number::counted(others.len() as u64, "other place", "other places");
        text.push_str(&format!("… and {n}, {} of all time\n", number::percent(share)));
    }
    text
}

/// The places with the largest shares, in the order in which they are, and the others.
fn largest(places: &[Place]) -> (Vec<&Place>, Vec<&Place>) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*b].stay.share.total_cmp(&places[*a].stay.share));
    let kept: Vec<usize> = order.into_iter().take(ROWS).collect();
    let is_kept = |(at, _): &(usize, &Place)| kept.contains(at);
    let (shown, others): (Vec<_>, Vec<_>) = places.iter().enumerate().partition(is_kept);
    let only = |all: Vec<(usize, _)>| all.into_iter().map(|(_, place)| place).collect();
    (only(shown), only(others))
}
