//! Which futexes are locks. A futex may be anything that threads wait for: a lock, a condition variable, a queue, a result.
//!
//! A lock shows by this: who has waited for it, and was woken, wakes others at it when it lets go, before it waits for it again.
//! Locks of glibc and of Rust's standard library do so each time, as who had to wait cannot know whether others wait too. Of a
//! condition variable, who was woken waits again without having woken anybody. Where threads tell each other in turn at one futex,
//! who has woken another waits itself before that one goes on, which would find a lock free; or it wakes several at once, of
//! whom only one could have a lock.

use rustc_hash::FxHashMap;
use xweave_replay::ThreadId;

/// Futexes, and wakes, that are remembered are no more.
const MOST: usize = 1 << 14;

/// Of so many threads at most it is remembered that they were woken at a futex.
const WAITERS: usize = 64;

/// Who had to wait lets go of a lock so often, at least, for each time that it seems not to: a processor or a signal may have
/// kept it from trying again for longer than [`BARGED`].
const RELEASES: u32 = 4;

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
    /// Those that were woken and have not gone on yet; by whom, and when.
    woken: Vec<(ThreadId, ThreadId, i64)>,
    /// How often who was woken has woken others then, and how often something was done that nobody does with a lock.
    released: u32,
    kept: u32,
}

/// All futexes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Futexes {
    all: FxHashMap<FutexId, Seen>,
    /// What each thread woke last, when, and how many that were waiting.
    wakes: FxHashMap<ThreadId, (u64, i64, u32)>,
    /// Waits that were ended by a thread that was waking the futex: by who waited and when the wait was over.
    given: FxHashMap<(ThreadId, i64), ThreadId>,
}

impl Futexes {
    /// A thread begins to wait.
    pub(crate) fn wait(&mut self, futex: FutexId, thread: ThreadId, time: i64) {
        let Some(seen) = self.all.get_mut(&futex) else { return };
        // A lock that it has just let go, and nobody has taken yet, would be free.
        if seen.woken.iter().any(|(_, by, at)| *by == thread && time.saturating_sub(*at) <= BARGED) {
            seen.kept = seen.kept.saturating_add(1);
        }
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
        let seen = self.seen(futex);
        seen.woken.retain(|(woken, ..)| *woken != thread);
        seen.has.retain(|(has, _)| *has != thread);
        if seen.has.len() < WAITERS {
            seen.has.push((thread, time));
        }
    }

    fn seen(&mut self, futex: FutexId) -> &mut Seen {
        if self.all.len() >= MOST && !self.all.contains_key(&futex) {
            self.all.clear();
        }
        self.all.entry(futex).or_default()
    }

    /// A thread wakes who waits.
    pub(crate) fn wake(&mut self, futex: FutexId, thread: ThreadId, time: i64) {
        if self.wakes.len() >= MOST {
            self.wakes.clear();
        }
        self.wakes.insert(thread, (futex.address, time, 0));
        let Some(seen) = self.all.get_mut(&futex) else { return };
        if let Some(at) = seen.has.iter().position(|(has, _)| *has == thread) {
            seen.has.swap_remove(at);
            seen.released = seen.released.saturating_add(1);
        }
    }

    /// A thread that waited for a futex was woken by another one.
    pub(crate) fn woken(&mut self, thread: ThreadId, time: i64, by: ThreadId, futex: FutexId) {
        let Some((woke, at, count)) = self.wakes.get_mut(&by) else { return };
        if *woke != futex.address || time.saturating_sub(*at) > BARGED {
            return;
        }
        *count = count.saturating_add(1);
        let several = *count > 1;
        self.given.insert((thread, time), by);
        let seen = self.seen(futex);
        // Of a lock, one is enough.
        seen.kept = seen.kept.saturating_add(several.into());
        seen.woken.retain(|(woken, ..)| *woken != thread);
        if seen.woken.len() < WAITERS {
            seen.woken.push((thread, by, time));
        }
    }

    /// Whether a futex has shown to be a lock.
    pub(crate) fn is_lock(&self, futex: FutexId) -> bool {
        let shown = |seen: &Seen| seen.released > 0 && seen.kept.saturating_mul(RELEASES) <= seen.released;
        self.all.get(&futex).is_some_and(shown)
    }

    /// Whether a wait was ended by that thread as it woke the futex.
    pub(crate) fn was_given(&self, thread: ThreadId, woken: i64, by: ThreadId) -> bool {
        self.given.get(&(thread, woken)) == Some(&by)
    }

    pub(crate) fn forget_before(&mut self, time: i64) {
        self.given.retain(|(_, woken), _| *woken >= time);
        self.wakes.retain(|_, (_, woke, _)| *woke >= time);
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
            futexes.woken(thread(7), at + 501, thread(8), FUTEX);
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
        // That was once in many times.
        for at in 1..=3 {
            assert!(!futexes.is_lock(FUTEX));
            futexes.acquired(FUTEX, thread(7), at * 1_000_000, 0);
            futexes.wake(FUTEX, thread(7), at * 1_000_000 + 10);
        }
        assert!(futexes.is_lock(FUTEX));
        futexes.acquired(FUTEX, thread(7), 8_000_000, 0);
        futexes.wait(FUTEX, thread(7), 9_000_000);
        // It gave up; and the same address of another process is another futex.
        futexes.acquired(FUTEX, thread(8), 3_000, -110);
        assert!(!futexes.is_lock(FutexId { process: 6, ..FUTEX }));
    }

    #[test]
    fn a_futex_at_which_threads_tell_each_other_in_turn_is_none() {
        // The one that was woken goes on before its waker waits, as where a lock was taken by a third one; or after.
        for (waits, locks) in [(600, true), (510, false), (600_000, true)] {
            let mut futexes = Futexes::default();
            futexes.wake(FUTEX, thread(8), 500);
            futexes.woken(thread(7), 501, thread(8), FUTEX);
            let goes_on = |futexes: &mut Futexes| {
                futexes.acquired(FUTEX, thread(7), 550, 0);
                futexes.wake(FUTEX, thread(7), 700);
            };
            if waits > 550 {
                goes_on(&mut futexes);
                futexes.wait(FUTEX, thread(8), waits);
            } else {
                futexes.wait(FUTEX, thread(8), waits);
                goes_on(&mut futexes);
            }
            assert_eq!(futexes.is_lock(FUTEX), locks, "its waker waits at {waits}");
        }
    }

    #[test]
    fn a_futex_at_which_several_are_woken_at_once_is_none() {
        for (again, locks) in [(false, false), (true, true)] {
            let mut futexes = Futexes::default();
            futexes.wake(FUTEX, thread(8), 500);
            futexes.woken(thread(6), 501, thread(8), FUTEX);
            if again {
                futexes.wake(FUTEX, thread(8), 502);
            }
            futexes.woken(thread(7), 503, thread(8), FUTEX);
            futexes.acquired(FUTEX, thread(7), 550, 0);
            futexes.wake(FUTEX, thread(7), 700);
            assert_eq!(futexes.is_lock(FUTEX), locks, "woken one by one: {again}");
        }
    }
}
