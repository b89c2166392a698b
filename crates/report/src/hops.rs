//! One flow, step by step: elapsed time, domain, place, function (as table 2 of XenLASY, Yanagisawa, Kourai, Chiba).

use std::collections::HashSet;

use comfy_table::{Attribute, Cell, Color};
use xweave_flow::{Flow, Flows, Hop, Incomplete};
use xweave_text::location;

use crate::{
    View, number,
    table::{self, Heading},
};

/// Which records of a flow are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Where the data itself passed: a step for each function.
    OfPath,
    /// All records, with what each says of the flow; also those of copies that went other ways.
    All,
}

/// The kernel's tracepoint where a thread is woken, what advice of the library stores there, and where it gets a CPU.
const WAKES: &str = "sched_waking";
const WOKEN: &str = "pid";
const SWITCHES: &str = "sched_switch";

/// A record, and how long after the one before it on the path it was made; none beside the path.
struct Step<'a> {
    hop: Hop<'a>,
    after_ns: Option<i64>,
    thread: String,
}

/// One thing that a column shows of a step.
type Show = fn(&Step<'_>) -> String;

/// The hops of a flow. Columns that there is no room for are left out, the least telling first.
pub fn table(flows: &Flows, flow: &Flow, which: Steps, view: View) -> String {
    let all: Vec<Hop<'_>> = flows.hops(flow).collect();
    let threads = threads(flows, &all);
    let steps = timed(match which {
        Steps::OfPath => of_path(all.into_iter().zip(threads)),
        Steps::All => all.into_iter().zip(threads).collect(),
    });
    let with_lines = steps.iter().any(|step| step.hop.file.is_some());
    let mut columns: Vec<(Heading, Show)> =
        vec![(Heading("Domain", false), |step| step.hop.domain.to_owned())];
    if with_lines {
        columns.push((Heading("Source", false), |step| place(&step.hop)));
        columns.push((Heading("Function", false), |step| step.hop.function.to_string()));
    } else {
        columns.push((Heading("Function", false), |step| location(&step.hop.function, step.hop.offset)));
    }
    if which == Steps::All {
        columns.push((Heading("Kind", false), |step| step.hop.kind.to_owned()));
    }
    columns.push((Heading("Process", false), |step| step.thread.clone()));
    columns.push((Heading("CPU", true), |step| step.hop.cpu.to_string()));
    let elapsed = |hop: &Hop<'_>| number::micros(hop.t_ns.saturating_sub(flow.start_ns));
    let room = |columns: &[(Heading, Show)]| {
        let widest = |(heading, show): &(Heading, Show)| {
            let cells = steps.iter().map(|step| show(step).chars().count());
            cells.max().unwrap_or(0).max(heading.0.len()) + 2
        };
        let times = 2 * steps.iter().map(|step| elapsed(&step.hop).len()).max().unwrap_or(0).max(9) + 4;
        times + columns.iter().map(widest).sum::<usize>()
    };
    let least = if with_lines { 3 } else { 2 };
    while columns.len() > least && room(&columns) > usize::from(view.width) {
        columns.pop();
    }

    let mut headings = vec![Heading("Time (µs)", true), Heading("+µs", true)];
    let mut shows: Vec<Show> = Vec::new();
    for (heading, show) in columns {
        headings.push(heading);
        shows.push(show);
    }
    let mut table = table::new(&headings, view);
    let longest = steps.iter().filter_map(|step| step.after_ns).max();
    for step in &steps {
        let Step { hop, after_ns, .. } = step;
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
        let mut after = style(after_ns.map_or_else(String::new, number::micros));
        if view.color && after_ns.is_some() && *after_ns == longest {
            after = after.add_attribute(Attribute::Bold);
        }
        table.add_row([style(time), after].into_iter().chain(shows.iter().map(|show| style(show(step)))));
    }
    format!("{}{}", table::paragraph(&title(flow), view), table::text(&table))
}

/// The steps of the path, one for each function, the first and the last among them; where advice marks the steps of the
/// way, without those that only say that another object carries the flow from now on.
fn of_path<'a>(hops: impl Iterator<Item = (Hop<'a>, String)>) -> Vec<(Hop<'a>, String)> {
    let path: Vec<_> = hops.filter(|(hop, _)| hop.on_path).collect();
    let is_marked = path.iter().any(|(hop, _)| ["hop", "frame"].contains(&hop.kind));
    let ends = [0, path.len().saturating_sub(1)];
    let mut steps: Vec<(Hop<'_>, String)> = Vec::with_capacity(path.len());
    for (at, (hop, thread)) in path.into_iter().enumerate() {
        let only_carries = is_marked && ["move", "copy", "split", "merge"].contains(&hop.kind);
        let again = steps.last().is_some_and(|(last, _)| {
            let place = |hop: &Hop<'_>| (hop.domain.to_owned(), hop.function.to_string(), hop.tid);
            place(last) == place(&hop) && last.kind != "xin" && hop.kind != "xout"
        });
        if ends.contains(&at) || !(only_carries || again) {
            steps.push((hop, thread));
        }
    }
    steps
}

/// The thread of each record. One that tells of a switch to the thread that the flow woke is made while the other is still
/// there: `→` and the thread that has the CPU from then on, where the trace tells which that is.
fn threads(flows: &Flows, hops: &[Hop<'_>]) -> Vec<String> {
    let mut called = None;
    let mut woken: HashSet<(&str, u32)> = HashSet::new();
    let mut threads = Vec::with_capacity(hops.len());
    for hop in hops {
        if &*hop.function == WAKES && hop.kind == "hop" {
            let stored = hop.stores.iter().zip(hop.values).filter(|(what, _)| *what == WOKEN);
            woken.extend(stored.filter_map(|(_, thread)| Some((hop.domain, u32::try_from(*thread).ok()?))));
        }
        let mut here = woken.iter().filter(|(domain, _)| *domain == hop.domain).copied();
        threads.push(match (&*hop.function == SWITCHES, here.next(), here.next()) {
            // Of several it does not say to which.
            (true, Some(thread), None) => {
                woken.remove(&thread);
                let name = called.get_or_insert_with(|| flows.threads()).get(&thread);
                name.map_or_else(|| format!("→ thread {}", thread.1), |name| format!("→ {name}/{}", thread.1))
            }
            _ => format!("{}/{}", hop.comm, hop.tid),
        });
    }
    threads
}

/// With the time since the step before.
fn timed(hops: Vec<(Hop<'_>, String)>) -> Vec<Step<'_>> {
    let mut before = None;
    let mut steps = Vec::with_capacity(hops.len());
    for (hop, thread) in hops {
        let after_ns = hop.on_path.then(|| {
            let last = before.replace(hop.t_ns).unwrap_or(hop.t_ns);
            hop.t_ns.saturating_sub(last)
        });
        steps.push(Step { hop, after_ns, thread });
    }
    steps
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
