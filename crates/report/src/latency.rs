//! How long calls of functions took.

use xweave_flow::latency::{self, FunctionLatency, Latencies, Latency};
use xweave_trace::Trace;

use crate::{
    View,
    folded::{self, Column},
    histogram, number, table,
};

/// So many functions are named that were not called.
const NAMED: usize = 8;

/// The functions, those first that took longest in all, at most so many; how the times of all their calls are distributed;
/// and which calls are not among them.
pub fn text(found: &Latencies, lost: u64, most: usize, view: View) -> String {
    let mut text = functions(&found.functions, most, view);
    text.push('\n');
    text.push_str(&histogram::times(&found.all.histogram, "Calls", view));
    let remarks = remarks(found, lost);
    if !remarks.is_empty() {
        text.push('\n');
        text.push_str(&table::paragraph(&remarks.join("; "), view));
    }
    text
}

fn functions(all: &[FunctionLatency], most: usize, view: View) -> String {
    let shown = &all[..most.min(all.len())];
    let name = |of: fn(&FunctionLatency) -> &String| shown.iter().map(|one| of(one).clone()).collect();
    let cells = |of: &dyn Fn(&Latency) -> String| shown.iter().map(|one| of(&one.latency)).collect();
    let ns = |ns: i64| number::span(u64::try_from(ns).unwrap_or(0));
    let about =
        [Column::names("Domain", name(|of| &of.domain)), Column::names("Function", name(|of| &of.function))];
    let columns = [
        Column::numbers("Calls", cells(&|of| number::count(of.calls))),
        Column::numbers("min", cells(&|of| ns(of.min_ns))),
        Column::numbers("p50", cells(&|of| ns(of.p50_ns))),
        Column::numbers("p99", cells(&|of| ns(of.p99_ns))),
        Column::numbers("max", cells(&|of| ns(of.max_ns))),
        Column::numbers("In all", cells(&|of| number::span(of.total_ns))),
    ];
    let mut text = folded::text(&about, &columns, view);
    let left = all.len() - shown.len();
    if left > 0 {
        let left = number::counted(left as u64, "other function", "other functions");
        text.push_str(&format!("… and {left}: --all shows them\n"));
    }
    text
}

/// Why there is no call to show, and what to do.
pub fn nothing(trace: &Trace, found: &Latencies) -> String {
    if found.of_recorder + found.partial > 0 {
        return format!(
            "no call is whole: {}; record for longer",
            remarks(found, trace.manifest().lost).join("; ")
        );
    }
    let functions = latency::functions(trace);
    match functions.len() {
        0 => format!("{} was not recorded by xweave latency", trace.dir().display()),
        _ => format!(
            "nothing called {} while this was recorded: record for longer, or while a COMMAND runs that does",
            functions.iter().map(|(_, name)| name.as_str()).take(NAMED).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Which calls are not counted, and what is uncertain.
fn remarks(found: &Latencies, lost: u64) -> Vec<String> {
    let calls = |count| number::counted(count, "call", "calls");
    let mut remarks = Vec::new();
    if found.of_recorder > 0 {
        remarks.push(format!("not counted: {} by xweave itself", calls(found.of_recorder)));
    }
    if found.partial > 0 {
        remarks
            .push(format!("not counted: {} that began or ended outside the recording", calls(found.partial)));
    }
    if lost > 0 {
        let lost = number::counted(lost, "record was lost", "records were lost");
        remarks.push(format!(
            "{lost}: calls next to a loss are missing, or too long; a larger --buffer loses less"
        ));
    }
    remarks
}
