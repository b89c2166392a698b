//! What one domain may use of the machine that records it.
//!
//! A guest chooses what it sends, how fast, and what it says of its clocks. So that one cannot exhaust the host's memory
//! or disk, nor keep the others from being heard, each has a budget of its own.

use std::{
    path::Path,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The most that a domain may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes that it has sent and the controller has not looked at. More is not read from its connection, so that its
    /// own buffers fill, and its agent counts what it loses.
    pub queued: usize,
    /// Bytes of memory for records and events whose place on the time line is not known yet: its clocks, which it
    /// reads itself, have not come as far. A domain that needs more is cut off.
    pub waiting: usize,
    /// Bytes a second. More is not read, as with `queued`. None for this machine itself.
    pub rate: Option<u64>,
    /// Bytes of the trace: its share of `--max-size`. A domain that fills it is cut off.
    pub disk: u64,
}

impl Default for Budget {
    /// For a guest: times are known four seconds after they were taken at the latest, so that what comes at the full rate
    /// in that time can wait.
    fn default() -> Self {
        Self { queued: 8 << 20, waiting: 256 << 20, rate: Some(32 << 20), disk: u64::MAX }
    }
}

/// Bytes that are free where a trace is to be made; all there can be, where that is not known.
pub fn free_space(output: &Path) -> u64 {
    let there = output.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let space = rustix::fs::statvfs(there);
    space.map_or(u64::MAX, |space| space.f_bavail.saturating_mul(space.f_frsize))
}

/// What a domain has used of [`Budget::queued`] and [`Budget::rate`]: shared by the thread that reads from it, which
/// takes, and the controller, which gives back.
pub(crate) struct Credit {
    queued: usize,
    rate: Option<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    outstanding: usize,
    /// When all that was taken would have come at the full rate.
    paid_until: Instant,
    closed: bool,
}

/// Nobody will look at what is read any more.
#[derive(Debug)]
pub(crate) struct Closed;

impl Credit {
    pub(crate) fn new(budget: &Budget) -> Self {
        let state = State { outstanding: 0, paid_until: Instant::now(), closed: false };
        Self { queued: budget.queued, rate: budget.rate, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for so many bytes, and takes it. A message that is larger than the budget has it for
    /// itself.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Closed> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(Closed);
            }
            let room = state.outstanding == 0 || state.outstanding + bytes <= self.queued;
            let now = Instant::now();
            let early = self.rate.map_or(Duration::ZERO, |_| state.paid_until.saturating_duration_since(now));
            if room && early.is_zero() {
                break;
            }
            state = if room {
                self.changed.wait_timeout(state, early).unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
        state.outstanding += bytes;
        if let Some(rate) = self.rate {
            let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            // A domain that was silent for a while may send a second's worth at once.
            let earliest = Instant::now().checked_sub(Duration::from_secs(1)).unwrap_or(state.paid_until);
            state.paid_until = state.paid_until.max(earliest) + takes;
        }
        Ok(())
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, bytes: usize) {
        let mut state = self.lock();
        state.outstanding = state.outstanding.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Whoever waits gives up, and nobody takes any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    fn credit(queued: usize, rate: Option<u64>) -> Arc<Credit> {
        Arc::new(Credit::new(&Budget { queued, rate, ..Budget::default() }))
    }

    #[test]
    fn a_guest_has_the_budget_that_security_md_gives() {
        let Budget { queued, waiting, rate, disk } = Budget::default();
        assert_eq!((queued, waiting, rate), (8 << 20, 256 << 20, Some(32 << 20)));
        // How large the trace may become is for whoever begins it to say.
        assert_eq!(disk, u64::MAX);
    }

    #[test]
    fn who_has_no_room_waits_until_there_is_some() {
        let credit = credit(10, None);
        credit.take(100).unwrap();
        let waiting = Arc::clone(&credit);
        let taker = thread::spawn(move || waiting.take(1));
        thread::sleep(Duration::from_millis(20));
        assert!(!taker.is_finished(), "the budget is used up");
        credit.give(100);
        taker.join().unwrap().unwrap();
    }

    #[test]
    fn who_waits_for_room_learns_that_there_will_be_none() {
        let credit = credit(10, None);
        credit.take(10).unwrap();
        let waiting = Arc::clone(&credit);
        let taker = thread::spawn(move || waiting.take(1));
        credit.close();
        assert!(taker.join().unwrap().is_err());
    }

    #[test]
    fn no_more_than_the_rate_is_taken_but_for_a_burst_of_a_second() {
        let credit = credit(usize::MAX, Some(10_000_000));
        let begun = Instant::now();
        // Two seconds' worth beyond the burst would take two seconds; a fifth of one suffices to see it.
        for _ in 0..12 {
            credit.take(1_000_000).unwrap();
        }
        assert!(begun.elapsed() >= Duration::from_millis(90), "{:?}", begun.elapsed());
    }
}
