//! Which futexes are locks. A futex may be anything that threads wait for: a lock, a condition variable, a queue, a result.
//!
//! A lock shows by this: who has waited for it, and was woken, wakes others at it when it lets go, before it waits for it again.
//! Locks of glibc and of Rust's standard library do so each time, as who had to wait cannot know whether others wait too. Of a
//! condition variable, who was woken waits again without having woken anybody.

use rustc_hash::FxHashMap;
use xweave_replay::ThreadId;

/// Futexes, and wakes, that are remembered are no more.
const MOST: usize = 1 << 14;

/// A futex that was woken for longer than this, in nanoseconds, before its waiter waits again, was not lost to a third one.
const BARGED: i64 = 100_000;

/// A futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FutexId {
    /// The domain.
    pub(crate) domain: u8,
    /// The process whose address it is; 0 if that is not known.
    pub(crate) process: u64,
    /// The address.
    pub(crate) address: u64,
}

/// What was seen of a futex.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Those that were woken and have woken nobody since, and when.
    has: Vec<(ThreadId, i64)>,
    /// How often who was woken has woken others then, and how often it waited again without.
    released: u32,
    kept: u32,
}

/// All futexes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Futexes {
    all: FxHashMap<FutexId, Seen>,
    /// What each thread woke last, and when.
    wakes: FxHashMap<ThreadId, (u64, i64)>,
    /// Waits that were ended by a thread that was waking the futex: by who waited and when the wait was over.
    given: FxHashMap<(ThreadId, i64), ThreadId>,
}

impl Futexes {
    /// A thread begins to wait.
    pub(crate) fn wait(&mut self, futex: FutexId, thread: ThreadId, time: i64) {
        let Some(seen) = self.all.get_mut(&futex) else { return };
        let Some(at) = seen.has.iter().position(|(has, _)| *has == thread) else { return };
        if time.saturating_sub(seen.has[at].1) > BARGED {
            seen.kept = seen.kept.saturating_add(1);
        }
        seen.has.swap_remove(at);
    }

    /// A wait has ended; `code` is 0 if the thread was woken.
    pub(crate) fn acquired(&mut self, futex: FutexId, thread: ThreadId, time: i64, code: i32) {
        if code != 0 {
            return;
        }
        if self.all.len() >= MOST && !self.all.contains_key(&futex) {
            self.all.clear();
        }
        let has = &mut self.all.entry(futex).or_default().has;
        has.retain(|(has, _)| *has != thread);
        if has.len() < 64 {
            has.push((thread, time));
        }
    }

    /// A thread wakes who waits.
    pub(crate) fn wake(&mut self, futex: FutexId, thread: ThreadId, time: i64) {
        if self.wakes.len() >= MOST {
            self.wakes.clear();
        }
        self.wakes.insert(thread, (futex.address, time));
        let Some(seen) = self.all.get_mut(&futex) else { return };
        if let Some(at) = seen.has.iter().position(|(has, _)| *has == thread) {
            seen.has.swap_remove(at);
            seen.released = seen.released.saturating_add(1);
        }
    }

    /// A thread that waited for the futex at an address was woken by another one.
    pub(crate) fn woken(&mut self, thread: ThreadId, time: i64, by: ThreadId, address: u64) {
        if self
            .wakes
            .get(&by)
            .is_some_and(|(woke, at)| *woke == address && time.saturating_sub(*at) <= BARGED)
        {
            self.given.insert((thread, time), by);
        }
    }

    /// Whether a futex has shown to be a lock.
    pub(crate) fn is_lock(&self, futex: FutexId) -> bool {
        self.all.get(&futex).is_some_and(|seen| seen.released > 0 && seen.kept == 0)
    }

    /// Whether a wait was ended by that thread as it woke the futex.
    pub(crate) fn was_given(&self, thread: ThreadId, woken: i64, by: ThreadId) -> bool {
        self.given.get(&(thread, woken)) == Some(&by)
    }

    pub(crate) fn forget_before(&mut self, time: i64) {
        self.given.retain(|(_, woken), _| *woken >= time);
        self.wakes.retain(|_, (_, woke)| *woke >= time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUTEX: FutexId = FutexId { domain: 1, process: 5, address: 0x7f00 };

    fn thread(tid: u32) -> ThreadId {
        ThreadId { domain: 1, tid }
    }

    #[test]
    fn a_lock_is_a_futex_whose_waiters_wake_others_as_they_let_go() {
        let mut futexes = Futexes::default();
        for at in [0, 1_000_000] {
            futexes.wait(FUTEX, thread(7), at);
            futexes.wake(FUTEX, thread(8), at + 500);
            futexes.woken(thread(7), at + 501, thread(8), FUTEX.address);
            futexes.acquired(FUTEX, thread(7), at + 600, 0);
            assert_eq!(futexes.is_lock(FUTEX), at > 0);
            futexes.wake(FUTEX, thread(7), at + 900);
            assert!(futexes.is_lock(FUTEX));
            assert!(futexes.was_given(thread(7), at + 501, thread(8)));
            assert!(!futexes.was_given(thread(7), at + 501, thread(9)));
        }
    }

    #[test]
    fn who_waits_again_without_having_woken_anybody_had_no_lock() {
        let mut futexes = Futexes::default();
        futexes.acquired(FUTEX, thread(7), 0, 0);
        futexes.wake(FUTEX, thread(7), 10);
        assert!(futexes.is_lock(FUTEX));
        // A third one had the lock first, so it waits again at once.
        futexes.acquired(FUTEX, thread(7), 1_000, 0);
        futexes.wait(FUTEX, thread(7), 2_000);
        assert!(futexes.is_lock(FUTEX));
        futexes.acquired(FUTEX, thread(7), 3_000, 0);
        futexes.wait(FUTEX, thread(7), 900_000);
        assert!(!futexes.is_lock(FUTEX));
        // It gave up; and the same address of another process is another futex.
        futexes.acquired(FUTEX, thread(8), 3_000, -110);
        assert!(!futexes.is_lock(FutexId { process: 6, ..FUTEX }));
    }
}
