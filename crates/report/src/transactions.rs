//! Transactions: where the time of all went, which are the slowest, and one step by step.

use comfy_table::Cell;
use xweave_model::{
    Explained, Objects,
    parts::{Totals, parts},
};

use crate::{
    View, number,
    table::{self, Heading},
};

/// Parts that take less than this share of the time are summed up in one line.
const TELLING: f64 = 0.001;

/// Lines of what kept transactions, and names in each.
const CAUSES: usize = 6;
const OFFENDERS: usize = 4;

/// What kept them, in a few lines: what is less than a hundredth is left out.
pub fn causes(totals: &Totals) -> String {
    let percent = |ns: u64| 100.0 * ns as f64 / totals.ns().max(1) as f64;
    let mut text = String::new();
    for kept in totals.causes().iter().take(CAUSES).filter(|kept| percent(kept.ns) >= 1.0) {
        let by = kept.by.iter().take(OFFENDERS).filter(|by| percent(by.ns) >= 1.0);
        let by: Vec<String> = by.map(|by| format!("{} {:.0} %", by.who, percent(by.ns))).collect();
        let by = if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) };
        text.push_str(&format!("{:>4.0} %  {}{by}\n", percent(kept.ns), kept.what));
    }
    text
}

/// How long they took, and what that time was spent on: the largest parts, at most so many.
pub fn totals(totals: &Totals, what: &str, most: usize, view: View) -> String {
    let quantile = |share| totals.quantile(share).map_or_else(String::new, number::span);
    let mut text = format!(
        "{} ({what}): p50 {}, p99 {}, max {}\n\n",
        number::counted(totals.transactions() as u64, "transaction", "transactions"),
        quantile(0.5),
        quantile(0.99),
        quantile(1.0),
    );
    text.push_str(&causes(totals));
    text.push('\n');
    let headings = [
        Heading("Domain", false),
        Heading("Object", false),
        Heading("State", false),
        Heading("Time", true),
        Heading("Share", true),
        Heading("Count", true),
        Heading("Why", false),
    ];
    let mut table = table::new(&headings, view);
    let share = |ns: u64| ns as f64 / totals.ns().max(1) as f64;
    let (mut rest, mut left, mut telling) = (0, 0, 0);
    for (at, total) in totals.all().into_iter().enumerate() {
        if share(total.ns) < TELLING || at >= most {
            telling += usize::from(share(total.ns) >= TELLING);
            rest += total.ns;
            left += 1;
            continue;
        }
        table.add_row([
            total.domain.clone(),
            total.object.clone(),
            total.state.to_owned(),
            number::span(total.ns),
            format!("{:.1} %", 100.0 * share(total.ns)),
            number::count(total.transactions),
            total.why.unwrap_or_default(),
        ]);
    }
    text.push_str(&table::text(&table));
    if left > 0 {
        let others = number::counted(left, "other part", "other parts");
        let how = if telling > 0 { "; --all lists them" } else { "" };
        text.push_str(&format!("{others}: {} ({:.1} %){how}\n", number::span(rest), 100.0 * share(rest)));
    }
    text
}

/// Some transactions, each with its largest part.
pub fn table(transactions: &[Explained], objects: &Objects, view: View) -> String {
    let headings = [
        Heading("ID", true),
        Heading("Transaction", false),
        Heading("Domain", false),
        Heading("Time", true),
        Heading("Largest part", false),
    ];
    let mut table = table::new(&headings, view);
    for transaction in transactions {
        let largest = parts(transaction, objects).into_iter().next().map_or_else(String::new, |part| {
            let why = part.why.map_or_else(String::new, |why| format!(": {why}"));
            format!("{} of {}, {}, {}{why}", number::span(part.ns), part.object, part.domain, part.state)
        });
        table.add_row([
            id(transaction.id),
            transaction.name.clone(),
            objects.domain(transaction.domain).to_owned(),
            number::span(length(transaction)),
            largest,
        ]);
    }
    table::text(&table)
}

/// One transaction, step by step.
pub fn steps(transaction: &Explained, objects: &Objects, view: View) -> String {
    let headings = [
        Heading("Time (µs)", true),
        Heading("Duration (µs)", true),
        Heading("Domain", false),
        Heading("Object", false),
        Heading("State", false),
        Heading("Why", false),
    ];
    let mut table = table::new(&headings, view);
    for step in &transaction.steps {
        let named = objects.named(step.object);
        // Who works for others is moved in.
        let name = format!("{}{}", "  ".repeat(usize::from(step.depth)), named.name);
        table.add_row([
            Cell::new(number::micros(step.from - transaction.start_ns)),
            Cell::new(number::micros(step.to - step.from)),
            Cell::new(&named.domain),
            Cell::new(name),
            Cell::new(step.spent.name()),
            Cell::new(step.cause.map(|cause| objects.why(cause)).unwrap_or_default()),
        ]);
    }
    let total = number::span(length(transaction));
    format!("{} {}: {total}\n{}", id(transaction.id), transaction.name, table::text(&table))
}

/// Flows have large ones, which are written as `xweave flows` does.
fn id(id: u64) -> String {
    if id >> 48 == 0 { id.to_string() } else { format!("{id:#x}") }
}

fn length(transaction: &Explained) -> u64 {
    u64::try_from(transaction.total_ns).unwrap_or(0)
}
