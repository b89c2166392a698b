//! Lives of processes and threads, by program.

use xweave_model::lives::{Lives, Spent};

use crate::{
    View,
    folded::{self, Column},
    number,
};

/// A column, and what it has of what lives were spent on.
type Way = (&'static str, fn(&Spent) -> u64);

/// What is divided into user and system time, where system calls were recorded.
const ON_CPU: &str = "on CPU";

/// All that lives are spent on.
const SPENT: [Way; 9] = [
    (ON_CPU, |of| of.on_cpu_ns),
    ("ready", |of| of.ready_ns),
    ("disk", |of| of.disk_ns),
    ("network", |of| of.network_ns),
    ("locks", |of| of.lock_ns),
    ("other threads", |of| of.others_ns),
    ("host", |of| of.host_ns),
    ("waiting", |of| of.waiting_ns),
    ("unknown", |of| of.unknown_ns),
];

/// A row for each program, at most so many: how long its processes took, and what for, which sums to that.
pub fn table(all: &[Lives], most: usize, view: View) -> String {
    let shown = &all[..all.len().min(most)];
    if shown.is_empty() {
        return String::new();
    }
    let column = |of: &dyn Fn(&Lives) -> String| shown.iter().map(of).collect::<Vec<_>>();
    let about = [
        Column::names("Domain", column(&|of| of.domain.clone())),
        Column::names("Program", column(&|of| of.program.clone())),
    ];
    let mut columns = vec![
        Column::numbers("Count", column(&|of| number::count(of.lives))),
        Column::numbers("first to last", column(&|of| number::span(of.span_ns))),
        Column::numbers("shortest", column(&|of| number::span(of.min_ns))),
        Column::numbers("longest", column(&|of| number::span(of.max_ns))),
        Column::numbers("in all", column(&|of| number::span(of.elapsed_ns))),
    ];
    // What none of them was spent on has no column.
    for (heading, ns) in SPENT.into_iter().filter(|(_, ns)| shown.iter().any(|of| ns(&of.spent) > 0)) {
        columns.push(Column::numbers(heading, column(&|of| number::span(ns(&of.spent)))));
        if heading == ON_CPU && shown.iter().any(|of| of.user_ns.is_some()) {
            let time = |ns: Option<u64>| ns.map_or_else(|| "–".to_owned(), number::span);
            columns.push(Column::numbers("(user)", column(&|of| time(of.user_ns))));
            columns.push(Column::numbers("(system)", column(&|of| time(of.system_ns))));
        }
    }
    let mut text = folded::text(&about, &columns, view);
    if let Some(more) = all.len().checked_sub(most).filter(|more| *more > 0) {
        text.push_str(&format!(
            "… and {}: --all shows them\n",
            number::counted(more as u64, "program", "programs")
        ));
    }
    text
}
