//! Transactions by how much data they carried.

use xweave_model::{Sizes, sizes::Class};

use crate::{
    View,
    folded::{self, Column},
    intervals::largest,
    number, table,
};

/// Where sizes are not known, which are.
const UNKNOWN: &str = "How much data these transactions carried is not known. It is known of requests \
                       (request:PORT), of flows of network frames, and of what is sent or asked of a disk \
                       (between:send..receive, between:disk_queue..disk_complete).";

/// A row for each class of sizes, the smallest first; and how many have no size that is known.
pub fn table(sizes: &Sizes, transactions: u64, view: View) -> String {
    let rows: Vec<(u64, u64, &Class)> = sizes.all().collect();
    if rows.is_empty() {
        return table::paragraph(UNKNOWN, view);
    }
    let column = |of: &dyn Fn(&Class) -> String| rows.iter().map(|(.., class)| of(class)).collect();
    let quantile = |class: &Class, share| number::span_if(class.totals.quantile(share));
    let size = |bytes: u64| xweave_text::size(bytes as f64);
    let of = |(least, most, _): &(u64, u64, &Class)| match most {
        0 => "nothing".to_owned(),
        1 => size(1),
        _ => format!("{} – {}", size(*least), size(most.saturating_add(1))),
    };
    let about = [Column::numbers("Size", rows.iter().map(of).collect())];
    let columns = [
        Column::numbers("Count", column(&|class| number::count(class.totals.transactions() as u64))),
        Column::numbers("p50", column(&|class| quantile(class, 0.5))),
        Column::numbers("p99", column(&|class| quantile(class, 0.99))),
        Column::numbers("max", column(&|class| quantile(class, 1.0))),
        Column::numbers("Sent", column(&|class| size(class.bytes.sent))),
        Column::numbers("Received", column(&|class| size(class.bytes.received))),
        Column::prose("Largest cause", column(&|class| largest(&class.totals))),
    ];
    let known: usize = rows.iter().map(|(.., class)| class.totals.transactions()).sum();
    let unknown = transactions.saturating_sub(known as u64);
    let mut text = folded::text(&about, &columns, view);
    if unknown > 0 {
        let without = number::counted(unknown, "transaction", "transactions");
        text.push_str(&format!("{without} of unknown size\n"));
    }
    text
}
