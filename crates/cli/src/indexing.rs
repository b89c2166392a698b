//! What is told while functions are analysed for `sites`: on a terminal one line that changes, elsewhere one at the
//! beginning, and now and then how far it is.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use xweave_report::number::{count, counted};

/// Time between two lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

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
            eprintln!("indexing {} …", self.what);
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
            None if is_due(elapsed, next) => eprintln!("{line}"),
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
    format!("indexing {what}: {} of {functions} ({:.0} s)", count(done.into()), elapsed.as_secs_f64())
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
            "indexing the running kernel: 34 120 of 60 210 functions (20 s)"
        );
    }
}
