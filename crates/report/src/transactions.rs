//! Transactions: what kept them all, where their time went, and which are the slowest.

use xweave_model::{
    Explained, Objects,
    delay::Offender,
    parts::{Totals, parts},
};

use crate::{
    View,
    folded::{self, Column},
    number,
    table::{self, Heading},
    words::{causes as words, objects},
};

/// Lines of what kept transactions, and names in each.
const CAUSES: usize = 8;
const OFFENDERS: usize = 5;

/// Blanks that are not lost where a line is wrapped.
const INDENT: &str = "\u{a0}\u{a0}";

/// A cause, or who is behind it, that took a smaller share of the time is not told one by one.
const TELLING: f64 = 0.01;

/// How long they took, and what kept them and by whom.
pub fn totals(totals: &Totals, what: &str, view: View) -> String {
    let quantile = |share| number::span_if(totals.quantile(share));
    let headline = format!(
        "{} ({what}), {} in all: p50 {}, p99 {}, max {}",
        number::counted(totals.transactions() as u64, "transaction", "transactions"),
        number::span(totals.ns()),
        quantile(0.5),
        quantile(0.99),
        quantile(1.0),
    );
    format!("{}\n{}", table::paragraph(&headline, view), causes(totals, view))
}

/// What kept them: by kind, and where several did in one way, each below it.
fn causes(totals: &Totals, view: View) -> String {
    let share = |ns: u64| ns as f64 / totals.ns().max(1) as f64;
    let all = number::count(totals.transactions() as u64);
    let largest = totals.causes();
    let largest: Vec<_> = largest
        .iter()
        .take(CAUSES)
        .filter(|kept| share(kept.ns) >= TELLING)
        .map(|kept| &kept.delay)
        .collect();
    let (mut left, mut rest) = (0, 0);
    let (mut told, mut strong, mut figures) = (Vec::new(), Vec::new(), [vec![], vec![], vec![]]);
    let mut tell = |ns: u64, transactions: u64, line: Line, is_strong: bool| {
        let row = [
            number::percent(share(ns)),
            number::span(ns),
            format!("{} of {all}", number::count(transactions)),
        ];
        figures.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        told.push(line);
        strong.push(is_strong);
    };
    for kind in totals.causes_by_kind() {
        let (shown, hidden): (Vec<_>, Vec<_>) =
            kind.causes.iter().partition(|kept| largest.contains(&&kept.delay));
        (left, rest) = (left + hidden.len() as u64, rest + hidden.iter().map(|kept| kept.ns).sum::<u64>());
        let several = shown.len() > 1;
        if several {
            let (what, by) = (words::delay_kind(kind.kind).to_string(), by_whom(&kind.by, share));
            let line = Line { what, by, depth: 0 };
            tell(kind.ns, kind.transactions, line, true);
        }
        for kept in shown {
            let (what, by) = (words::delay(&kept.delay).to_string(), by_whom(&kept.by, share));
            let line = Line { what, by, depth: several.into() };
            tell(kept.ns, kept.transactions, line, false);
        }
    }
    let [shares, times, of] = figures;
    let about = [Column::numbers("Share", shares), Column::numbers("Time", times), Column::numbers("In", of)];
    let room = folded::room(&about, view);
    let lines = told.into_iter().map(|line| line.text(room)).collect();
    let mut text = folded::text(&about, &[Column::prose("Cause", lines).strong(strong)], view);
    if left > 0 {
        let causes = number::counted(left, "other cause", "other causes");
        text.push_str(&format!("{causes}: {} ({})\n", number::span(rest), number::percent(share(rest))));
    }
    text
}

/// Who is behind it, each with a share: `gzip 22 %, xweave itself 3 %`; empty if nobody is worth telling.
pub(crate) fn by_whom(by: &[(Offender, u64)], share: impl Fn(u64) -> f64) -> String {
    let telling = by.iter().take(OFFENDERS).filter(|(_, ns)| share(*ns) >= TELLING);
    let one =
        |(who, ns): &(Offender, u64)| format!("{} {}", objects::offender(who), number::percent(share(*ns)));
    telling.map(one).collect::<Vec<_>>().join(", ")
}

/// A line of the table of causes.
struct Line {
    what: String,
    /// By whom; empty if that is not known.
    by: String,
    /// 1 if it is a part of the line above.
    depth: u16,
}

impl Line {
    /// What it says, and below it, moved in, by whom, in lines of at most so many columns.
    fn text(&self, room: View) -> String {
        let indent = INDENT.repeat(self.depth.into());
        let mut text = format!("{indent}{}", table::unbroken(&self.what));
        if !self.by.is_empty() {
            let narrower = View { width: room.width.saturating_sub(2 * (self.depth + 1)), ..room };
            for line in table::paragraph(&format!("by {}", self.by), narrower).lines() {
                text.push_str(&format!("\n{indent}{INDENT}{}", table::unbroken(line)));
            }
        }
        text
    }
}

/// What their time was spent on, all of it: each object and state.
pub fn breakdown(totals: &Totals, view: View) -> String {
    let headings = [
        Heading("Domain", false),
        Heading("Object", false),
        Heading("State", false),
        Heading("Time", true),
        Heading("Share", true),
        Heading("In", true),
        Heading("Why", false),
    ];
    let mut table = table::new(&headings, view);
    for total in totals.all() {
        table.add_row([
            objects::domain(&total.such.domain).to_string(),
            objects::group(&total.such.group).to_string(),
            total.such.spent.name().to_owned(),
            number::span(total.ns),
            format!("{:.1} %", 100.0 * total.ns as f64 / totals.ns().max(1) as f64),
            number::count(total.transactions),
            total.such.reason.as_ref().map_or_else(String::new, |reason| words::reason(reason).to_string()),
        ]);
    }
    table::text(&table)
}

/// Some transactions, each with its largest part; and with how much data they carried, where that is known.
pub fn table(transactions: &[Explained], all: &Objects, view: View) -> String {
    let sizes = transactions.iter().any(|transaction| transaction.bytes.is_some());
    let mut headings = vec![
        Heading("ID", true),
        Heading("Transaction", false),
        Heading("Domain", false),
        Heading("Time", true),
    ];
    headings.extend([Heading("Sent", true), Heading("Received", true)].into_iter().filter(|_| sizes));
    headings.push(Heading("Largest part", false));
    let mut table = table::new(&headings, view);
    for transaction in transactions {
        let largest = parts(transaction).into_iter().next().map_or_else(String::new, |part| {
            let object = all.get(part.object);
            let why = part.cause.map_or_else(String::new, |cause| format!("; {}", words::cause(cause, all)));
            let (name, domain) = (objects::object(object), objects::domain(&object.domain));
            format!("{} {}: {name}, {domain}{why}", number::span(part.ns), part.spent)
        });
        let mut row = vec![
            id(transaction.id),
            transaction.name.clone(),
            all.domain(transaction.domain).to_owned(),
            number::span(transaction.length()),
        ];
        let bytes = transaction.bytes.map(|bytes| [bytes.sent, bytes.received]);
        let shown = bytes.map_or_else(Default::default, |bytes| bytes.map(size));
        row.extend(shown.into_iter().filter(|_| sizes));
        row.push(largest);
        table.add_row(row);
    }
    table::text(&table)
}

/// How much data, not broken at its unit.
fn size(bytes: u64) -> String {
    table::unbroken(&xweave_text::size(bytes as f64))
}

/// Flows have large ones, which are written as `xweave flows` does.
pub fn id(id: u64) -> String {
    if id >> 48 == 0 { id.to_string() } else { format!("{id:#x}") }
}
