//! Going through a trace's records, with a progress bar where that takes a while.

use std::io::{self, IsTerminal as _};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use xweave_flow::Join;
use xweave_trace::Trace;

/// Fewer records are joined before a bar could be read.
const MANY: u64 = 2_000_000;

/// The flows of a trace, window by window. Tells on a terminal how far it has come.
pub fn join(trace: &Trace) -> Join<'_> {
    let parts = trace.parts();
    if !io::stderr().is_terminal() || parts.rows() < MANY {
        return Join::of_parts(trace, parts);
    }
    let style = ProgressStyle::with_template("{bar:40} {percent} % of {msg} records, {eta} left");
    let bar = ProgressBar::new(parts.rows())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(HumanCount(parts.rows()).to_string());
    // It goes with the last part, before anything is printed.
    let shown = Shown(bar);
    Join::of_parts(
        trace,
        parts.inspect(move |part| shown.0.inc(part.as_ref().map_or(0, |part| part.rows.len() as u64))),
    )
}

/// A bar that leaves nothing behind.
struct Shown(ProgressBar);

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
