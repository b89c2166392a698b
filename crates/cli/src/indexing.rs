//! What is told while functions are analysed for `sites`: on a terminal one line that changes, elsewhere one at the
//! beginning, and now and then how far it is.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use xweave_report::number::{count, counted};

use crate::told;

/// Time between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// The share of the functions, and the seconds in all, from which on it is estimated how long the others take.
const ESTIMATED: f64 = 0.05;
const ESTIMATED_SECONDS: f64 = 5.0;

/// Tells on standard error, as soon as it begins.
pub struct Indexing {
    what: String,
    /// Since when, and the changing line if there is one.
    under_way: Mutex<Option<UnderWay>>,
}

struct UnderWay {
    begun: Instant,
    bar: Option<ProgressBar>,
    /// When the next line is due.
    next: Duration,
}

impl Indexing {
    /// Of that; nothing is told yet, as it may be known already.
    pub fn new(what: &str) -> Self {
        Self { what: what.to_owned(), under_way: Mutex::new(None) }
    }

    /// It is not known.
    pub fn begin(&self) {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(format!("indexing {}", self.what));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if bar.is_none() {
            told::write_line(format_args!("indexing {} …", self.what));
        }
        *self.lock() = Some(UnderWay { begun: Instant::now(), bar, next: EVERY });
    }

    /// So many functions are done, of so many.
    pub fn go_on(&self, done: u32, of: u32) {
        let mut under_way = self.lock();
        let Some(UnderWay { begun, bar, next }) = &mut *under_way else { return };
        let elapsed = begun.elapsed();
        let line = line(&self.what, (done, of), elapsed);
        match bar {
            Some(bar) => bar.set_message(line),
            None if is_due(elapsed, next) => told::write_line(line),
            None => {}
        }
    }

    /// Takes the changing line away.
    pub fn end(&self) {
        if let Some(UnderWay { bar: Some(bar), .. }) = self.lock().take() {
            bar.finish_and_clear();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<UnderWay>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line(what: &str, (done, of): (u32, u32), elapsed: Duration) -> String {
    let functions = counted(of.into(), "function", "functions");
    let left = match remaining(done, of, elapsed) {
        Some(left) => format!(", about {left:.0} s left"),
        None => String::new(),
    };
    format!("indexing {what}: {} of {functions} ({:.0} s{left})", count(done.into()), elapsed.as_secs_f64())
}

/// How many seconds it takes still, if the other functions take as long as those that are done; none from the first ones,
/// which say little, and of few seconds.
fn remaining(done: u32, of: u32, elapsed: Duration) -> Option<f64> {
    let (share, elapsed) = (f64::from(done) / f64::from(of.max(1)), elapsed.as_secs_f64());
    let left = elapsed * (1.0 - share) / share;
    (share >= ESTIMATED && elapsed + left >= ESTIMATED_SECONDS).then_some(left)
}

/// Whether a line is due; the next is, some time later.
fn is_due(elapsed: Duration, next: &mut Duration) -> bool {
    let due = elapsed >= *next;
    if due {
        *next = elapsed + EVERY;
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_is_is_told_every_ten_seconds_where_no_line_changes() {
        let mut next = EVERY;
        let due = (0..=35).filter(|second| is_due(Duration::from_secs(*second), &mut next));
        assert_eq!(due.collect::<Vec<_>>(), [10, 20, 30]);
        assert_eq!(
            line("the running kernel", (34_120, 60_210), Duration::from_millis(20_400)),
            "indexing the running kernel: 34 120 of 60 210 functions (20 s, about 16 s left)"
        );
        assert_eq!(remaining(100, 60_210, Duration::from_secs(1)), None);
        assert_eq!(remaining(30_000, 60_000, Duration::from_secs(2)), None);
        assert_eq!(remaining(60_000, 60_000, Duration::from_secs(20)), Some(0.0));
    }
}
