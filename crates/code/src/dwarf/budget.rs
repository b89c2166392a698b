//! How much a file may have read, by its size: lists that several entries refer to are read again for each,
//! which a file that means harm could have done without end.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What is left of one thing.
pub(super) struct Allowance(AtomicUsize);

impl Allowance {
    fn new(count: usize) -> Self {
        // Small files may have little of what another part of them is full of.
        Self(AtomicUsize::new(count.saturating_add(1 << 16)))
    }

    pub(super) fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes so many, or all that are left. Threads that looked at the same time may overdraw by as much.
    pub(super) fn spend(&self, count: usize) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(count)).filter(|_| count > 0)
        });
    }
}

/// What is left of everything.
pub(super) struct Budget {
    pub(super) locations: Allowance,
    pub(super) lives: Allowance,
    pub(super) ranges: Allowance,
}

impl Budget {
    /// By the sizes of `.debug_info`, of lists of locations, and of lists of ranges.
    pub(super) fn new(info: usize, locations: usize, ranges: usize) -> Self {
        Self {
            // Its smallest entry takes four bytes, so each list may be read a few times.
            locations: Allowance::new(locations),
            lives: Allowance::new((info + locations) / 8),
            // Two bytes an entry; and what lies in one piece has none.
            ranges: Allowance::new(ranges.saturating_mul(2).saturating_add(info / 4)),
        }
    }
}
