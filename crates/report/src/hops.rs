//! One flow, step by step: elapsed time, domain, place, function (as table 2 of XenLASY, Yanagisawa, Kourai, Chiba).

use comfy_table::{Attribute, Cell, Color};
use xweave_flow::{Flow, Flows, Hop, Incomplete};
use xweave_text::location;

use crate::{
    View, number,
    table::{self, Heading},
};

/// One thing that a column shows of a hop.
type Show = fn(&Hop<'_>) -> String;

/// The hops of a flow. Columns that there is no room for are left out, the least telling first.
pub fn table(flows: &Flows, flow: &Flow, view: View) -> String {
    let hops: Vec<Hop<'_>> = flows.hops(flow).collect();
    let with_lines = hops.iter().any(|hop| hop.file.is_some());
    let mut columns: Vec<(Heading, Show)> = vec![(Heading("Domain", false), |hop| hop.domain.to_owned())];
    if with_lines {
        columns.push((Heading("Place", false), place));
        columns.push((Heading("Function", false), |hop| hop.function.to_string()));
    } else {
        columns.push((Heading("Function", false), |hop| location(&hop.function, hop.offset)));
    }
    columns.push((Heading("Kind", false), |hop| hop.kind.to_owned()));
    columns.push((Heading("CPU", true), |hop| hop.cpu.to_string()));
    columns.push((Heading("Process", false), |hop| format!("{}/{}", hop.comm, hop.tid)));
    let elapsed = |hop: &Hop<'_>| number::micros(hop.t_ns.saturating_sub(flow.start_ns));
    let room = |columns: &[(Heading, Show)]| {
        let widest = |(heading, show): &(Heading, Show)| {
            let cells = hops.iter().map(|hop| show(hop).chars().count());
            cells.max().unwrap_or(0).max(heading.0.len()) + 2
        };
        12 + columns.iter().map(widest).sum::<usize>()
    };
    let least = if with_lines { 3 } else { 2 };
    while columns.len() > least && room(&columns) > usize::from(view.width) {
        columns.pop();
    }

    let mut headings = vec![Heading("Time (µs)", true)];
    let mut shows: Vec<Show> = Vec::new();
    for (heading, show) in columns {
        headings.push(heading);
        shows.push(show);
    }
    let mut table = table::new(&headings, view);
    for hop in &hops {
        let style = |text: String| {
            let cell = Cell::new(text);
            match (view.color, hop.on_path, hop.kind) {
                (false, ..) => cell,
                (true, false, _) => cell.add_attribute(Attribute::Dim),
                (true, true, "xin" | "xout") => cell.fg(Color::Cyan),
                (true, true, _) => cell,
            }
        };
        // What went on beside the path is marked where colour cannot tell it.
        let time = if hop.on_path { elapsed(hop) } else { format!("({})", elapsed(hop)) };
        table.add_row(std::iter::once(style(time)).chain(shows.iter().map(|show| style(show(hop)))));
    }
    format!("{}\n{}", title(flow), table::text(&table))
}

/// What the flow is, in a line.
pub fn title(flow: &Flow) -> String {
    let name = if flow.name.is_empty() { "flow" } else { &flow.name };
    let crossings = number::counted(u64::from(flow.crossings), "crossing", "crossings");
    let total = number::micros(flow.total_ns());
    let mut title = match &flow.frame {
        Some(frame) => format!("{frame}: {total} µs, {crossings} ({name} {:#x})", flow.id),
        None => format!("{name} {:#x}: {total} µs, {crossings}", flow.id),
    };
    if flow.copies > 1 {
        title.push_str(&format!("; 1 of {} copies", number::count(flow.copies.into())));
    }
    match flow.incomplete {
        None => {}
        Some(Incomplete::Lost) => {
            let records = number::counted(flow.lost, "record", "records");
            title.push_str(&format!("; INCOMPLETE: {records} of it lost"));
        }
        Some(Incomplete::NoStart) => title.push_str("; INCOMPLETE: its sender was not traced"),
        Some(Incomplete::Unmatched) => title.push_str("; INCOMPLETE: it was not seen to arrive"),
        Some(Incomplete::NoEnd) => title.push_str("; INCOMPLETE: its end was not seen"),
        // Said below, whatever else is wrong.
        Some(Incomplete::Dropped) => {}
    }
    if let Some(dropped) = &flow.dropped {
        title.push_str(&format!("; DROPPED: {} at {}", dropped.reason, dropped.place()));
    }
    let others = u64::from(flow.drops).saturating_sub(u64::from(flow.dropped.is_some()));
    if others > 0 {
        title.push_str(&format!("; {} dropped", number::counted(others, "other copy", "other copies")));
    }
    title
}

/// File and line; where there is no debug information, function and offset.
pub fn place(hop: &Hop<'_>) -> String {
    match (hop.file, hop.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (Some(file), None) => file.to_owned(),
        (None, _) => location(&hop.function, hop.offset),
    }
}
