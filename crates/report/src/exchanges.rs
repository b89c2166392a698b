//! Requests and their answers: how long they took, and where that time went.

use comfy_table::Table;
use xweave_flow::{Exchange, Service, exchange::Connection};

use crate::{
    View,
    alike::{self, Alike},
    number,
    segments::with_bars,
    table::{self, Heading},
};

/// Columns from which on the longest times have one.
const WIDE: u16 = 100;

/// The services, the most used first; at most so many, and in a line how many more there are.
pub fn services(services: &[Service], most: usize, view: View) -> String {
    let row = |service: &Service| Alike {
        name: title(service),
        counts: [service.exchanges, service.complete],
        times: [service.p50_ns, service.p99_ns, service.max_ns],
    };
    alike::table("Requests", services.iter().map(row), most, ("other server", "other servers"), view)
}

/// Where the time of a service's requests went, in its order; the longest time of each where there is room.
pub fn parts(service: &Service, view: View) -> String {
    let is_wide = view.width >= WIDE;
    let mut headings = vec![
        Heading("Part", false),
        Heading("Count", true),
        Heading("p50 (µs)", true),
        Heading("p99 (µs)", true),
    ];
    if is_wide {
        headings.push(Heading("max (µs)", true));
    }
    headings.push(Heading("Share", false));
    let rows = service.parts.iter().map(|part| {
        let mut row = vec![part.name.clone(), number::count(part.count)];
        row.extend([part.p50_ns, part.p99_ns].map(number::micros));
        if is_wide {
            row.push(number::micros(part.max_ns));
        }
        (row, part.share)
    });
    format!("{}:\n{}", title(service), with_bars(&headings, rows, view))
}

/// The exchange of a service that took the median time, and those that were made inside it.
pub fn typical(service: &Service, exchanges: &[Exchange], view: View) -> Option<String> {
    let of = |at: &usize| service.has(&exchanges[*at]);
    let mut all: Vec<usize> = (0..exchanges.len()).filter(of).collect();
    all.sort_by_key(|&at| exchanges[at].total_ns());
    let which = *all.get(all.len().saturating_sub(1) / 2)?;
    let mut table = table::new(
        &[
            Heading("Time (µs)", true),
            Heading("Share", true),
            Heading("One request, and what was asked meanwhile", false),
        ],
        view,
    );
    rows(&mut table, exchanges, which, 0, exchanges[which].total_ns());
    Some(table::text(&table))
}

/// How deep exchanges inside exchanges are shown, how many of one, and how many lines in all.
const DEPTH: usize = 8;
const INSIDE: usize = 16;
const LINES: usize = 200;

fn rows(table: &mut Table, exchanges: &[Exchange], at: usize, depth: usize, whole: i64) {
    let of = &exchanges[at];
    let share = |ns: i64| format!("{:.1} %", ns as f64 / whole.max(1) as f64 * 100.0);
    let cells = |ns: i64, depth: usize, text: &str| {
        // Blanks at the beginning would be taken off.
        [number::micros(ns), share(ns), format!("{}{text}", "· ".repeat(depth))]
    };
    let (asked, answered) = (number::count(of.request.bytes), number::count(of.answer.bytes));
    let Connection { protocol, client, server } = &of.connection;
    let title = format!("{protocol} {client} → {server}, {asked} bytes asked, {answered} answered");
    table.add_row(cells(of.total_ns(), depth, &table::unbroken(&title)));
    let served = format!("server in {}", of.server_domain);
    for part in &of.parts {
        table.add_row(cells(part.ns, depth + 1, &part.name));
        if part.name == served && depth < DEPTH && table.row_count() < LINES {
            let inside = |other: &usize| exchanges[*other].inside == Some(at);
            for other in (at + 1..exchanges.len()).filter(inside).take(INSIDE) {
                rows(table, exchanges, other, depth + 2, whole);
            }
        }
    }
}

/// One line for each exchange.
pub fn list<'a>(exchanges: impl Iterator<Item = &'a Exchange>, view: View) -> String {
    let headings = [
        Heading("Start (µs)", true),
        Heading("Time (µs)", true),
        Heading("Connection", false),
        Heading("Asked (B)", true),
        Heading("Answered (B)", true),
        Heading("Longest part", false),
        Heading("First flow", true),
    ];
    let mut table = table::new(&headings, view);
    let mut first = None;
    for exchange in exchanges {
        let start = *first.get_or_insert(exchange.start_ns);
        let of = &exchange.connection;
        let longest = exchange.parts.iter().max_by_key(|part| part.ns);
        table.add_row([
            number::micros(exchange.start_ns.saturating_sub(start)),
            number::micros(exchange.total_ns()),
            format!("{} {} → {}", of.protocol, of.client, of.server),
            number::count(exchange.request.bytes),
            number::count(exchange.answer.bytes),
            longest.map_or_else(String::new, |part| format!("{}: {}", part.name, number::micros(part.ns))),
            exchange.request.flows.first().map_or_else(String::new, |flow| format!("{flow:#x}")),
        ]);
    }
    table::text(&table)
}

/// `TCP, host → 10.77.0.1:80 (vm1)`
fn title(service: &Service) -> String {
    let server = match service.server.port() {
        0 => service.server.ip().to_string(),
        _ => service.server.to_string(),
    };
    format!("{}, {} → {server} ({})", service.protocol, service.client_domain, service.server_domain)
}
