//! One transaction, step by step.

use comfy_table::Cell;
use xweave_model::{Bytes, Explained, Objects, Step, objects::Cause};

use crate::{
    View, number,
    table::{self, Heading},
    transactions,
    words::{causes, objects},
};

/// Steps that follow each other are told as one, if each takes less than this share of the time.
const SHORT: f64 = 0.005;

/// Rows that there are at most, unless all are asked for: of more, the shortest are told together.
const ROWS: usize = 24;

/// The first columns, which are as wide as what is in them.
const WHOLE: usize = 3;

/// So many names stand in a cell.
const NAMED: usize = 2;

/// Its steps: all of them, or those together that go on in the same way or are short.
pub fn table(transaction: &Explained, objects: &Objects, all: bool, view: View) -> String {
    let headings = [
        Heading("Time (µs)", true),
        Heading("Duration (µs)", true),
        Heading("Domain", false),
        Heading("Object", false),
        Heading("State", false),
        Heading("Why", false),
    ];
    let mut rows_of = table::new(&headings, view);
    (0..WHOLE).for_each(|column| table::keep_whole(&mut rows_of, column));
    let rows = if all { transaction.steps.chunks(1).collect() } else { few(transaction) };
    for steps in &rows {
        let [from, to] = [steps[0].from, steps[steps.len() - 1].to];
        let mut cells = vec![number::micros(from - transaction.start_ns), number::micros(to - from)];
        cells.extend(told(steps, objects));
        rows_of.add_row(cells.into_iter().map(|cell| Cell::new(table::unbroken(&cell))));
    }
    let mut text = format!(
        "{} {}: {}{}\n{}",
        transactions::id(transaction.id),
        transaction.name,
        number::span(transaction.length()),
        transaction.bytes.map_or_else(String::new, carried),
        table::text(&rows_of)
    );
    if rows.len() < transaction.steps.len() {
        let steps = number::counted(transaction.steps.len() as u64, "step", "steps");
        text.push_str(&format!("{steps} in {} rows: --all lists each\n", number::count(rows.len() as u64)));
    }
    text
}

/// As many rows as are read at once: the fewer there may be, the longer is what is still short.
fn few(transaction: &Explained) -> Vec<&[Step]> {
    #[expect(clippy::cast_possible_truncation, reason = "a share of a time is one")]
    let mut short = ((transaction.total_ns as f64 * SHORT) as i64).max(1);
    loop {
        let rows = together(&transaction.steps, short);
        if rows.len() <= ROWS || short > transaction.total_ns {
            return rows;
        }
        short = short.saturating_add(short / 4 + 1);
    }
}

/// Steps that go on in the same way, and of others that follow each other those that are short.
fn together(steps: &[Step], short: i64) -> Vec<&[Step]> {
    let alike: Vec<&[Step]> = steps.chunk_by(alike).collect();
    let is_short = |steps: &&[Step]| steps[steps.len() - 1].to - steps[0].from < short;
    let mut rows = Vec::new();
    let mut begin = 0;
    for run in alike.chunk_by(|a, b| is_short(a) && is_short(b)) {
        let end = begin + run.iter().map(|steps| steps.len()).sum::<usize>();
        rows.push(&steps[begin..end]);
        begin = end;
    }
    rows
}

fn alike(a: &Step, b: &Step) -> bool {
    (a.object, a.spent, a.depth) == (b.object, b.spent, b.depth)
}

/// Domain, object, state and why.
fn told(steps: &[Step], all: &Objects) -> [String; 4] {
    let domains = of_most(steps, |step| objects::domain(&all.get(step.object).domain).to_string());
    let name_of = |step: &Step| objects::object(all.get(step.object)).to_string();
    let states = of_most(steps, |step| step.spent.name().to_owned());
    if steps.windows(2).all(|pair| alike(&pair[0], &pair[1])) {
        let step = &steps[0];
        // Who works for others is moved in.
        let name = format!("{}{}", "  ".repeat(usize::from(step.depth)), name_of(step));
        return [listed(&domains), name, listed(&states), why(steps, all)];
    }
    let longest = steps.iter().map(|step| step.to - step.from).max().unwrap_or(0);
    let depth = steps.iter().map(|step| step.depth).min().unwrap_or(0);
    let names = of_most(steps, name_of);
    let name = format!("{}{}", "  ".repeat(usize::from(depth)), listed(&names));
    let count = number::count(steps.len() as u64);
    let why = format!("{count} steps of up to {}", number::span(longest.unsigned_abs()));
    [listed(&domains), name, listed(&states), why]
}

/// Why a step took its time, and those that go on in the same way.
fn why(steps: &[Step], all: &Objects) -> String {
    let had = |step: &Step| match step.cause {
        Some(Cause::Had(other) | Cause::HadByOwn(other)) => {
            Some(objects::group(&all.get(other).group).to_string())
        }
        _ => None,
    };
    if steps.len() > 1 && steps.iter().all(|step| had(step).is_some()) {
        let names = of_most(steps, |step| had(step).unwrap_or_default());
        return causes::had(&listed(&names)).to_string();
    }
    let mut causes: Vec<Cause> = Vec::new();
    for cause in steps.iter().filter_map(|step| step.cause) {
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    let told: Vec<String> = causes.into_iter().map(|cause| causes::cause(cause, all).to_string()).collect();
    listed(&told)
}

/// What is told of some steps, each once, what most of the time is told of first.
fn of_most(steps: &[Step], tell: impl Fn(&Step) -> String) -> Vec<String> {
    let mut all: Vec<(String, i64)> = Vec::new();
    for step in steps {
        let (told, ns) = (tell(step), step.to - step.from);
        match all.iter_mut().find(|(known, _)| *known == told) {
            Some((_, sum)) => *sum += ns,
            None => all.push((told, ns)),
        }
    }
    all.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    all.into_iter().map(|(told, _)| told).collect()
}

/// The first of some names, and how many more there are.
fn listed(names: &[String]) -> String {
    match names.get(..NAMED) {
        // The last one takes no more room than its being left out.
        Some(first) if names.len() > NAMED + 1 => {
            format!("{} and {} more", first.join(", "), names.len() - NAMED)
        }
        _ => names.join(", "),
    }
}

/// How much data it carried.
fn carried(bytes: Bytes) -> String {
    let [sent, received] = [bytes.sent, bytes.received].map(|bytes| xweave_text::size(bytes as f64));
    format!(", sent {sent}, received {received}")
}
