//! Ctrl-C, SIGTERM and SIGHUP: requests to stop, which whoever is at work looks for, so that what was started is
//! ended in order. No other crate of the workspace is used here.

use std::{
    mem, ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering},
};

/// The last signal that nobody took; 0 for none.
static PENDING: AtomicI32 = AtomicI32::new(0);
/// How many there were that nobody took.
static COUNT: AtomicU32 = AtomicU32::new(0);
static EXITS: AtomicBool = AtomicBool::new(false);

/// What a signal does that comes before the one before it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Nothing by itself: there is something to clean up first.
    Waits,
    /// Ends the process at once.
    Exits,
}

/// What becomes of a system call that waits when a signal comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// It returns, and whoever made it looks.
    Returns,
    /// It goes on where the kernel can: whoever made it waits with a deadline and looks then.
    GoesOn,
}

extern "C" fn note(signal: libc::c_int) {
    PENDING.store(signal, Ordering::SeqCst);
    if COUNT.fetch_add(1, Ordering::SeqCst) != 0 && EXITS.load(Ordering::SeqCst) {
        // SAFETY: _exit may be called from a signal handler.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// From now on the signals are noted instead of ending the process. For programs; who uses a library and handles
/// signals otherwise need not call it. A SIGHUP that is ignored stays so: `nohup` asks for that.
pub fn install(again: Again, blocked: Blocked) {
    EXITS.store(again == Again::Exits, Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only uses atomics and _exit; the structures are fully initialised, since all zeros are
        // an action without flags and mask.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            if signal == libc::SIGHUP {
                libc::sigaction(signal, ptr::null(), &raw mut action);
                if action.sa_sigaction == libc::SIG_IGN {
                    continue;
                }
                action = mem::zeroed();
            }
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            action.sa_flags = if blocked == Blocked::GoesOn { libc::SA_RESTART } else { 0 };
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

/// Whether a signal has come that nobody took: what is under way is to end in order.
pub fn pending() -> bool {
    COUNT.load(Ordering::SeqCst) > 0
}

/// Whether a second has come since: nothing is waited for any more.
pub fn at_once() -> bool {
    COUNT.load(Ordering::SeqCst) > 1
}

/// Takes the signals that have come: the last of them, if any.
pub fn take() -> Option<i32> {
    COUNT.store(0, Ordering::SeqCst);
    match PENDING.swap(0, Ordering::SeqCst) {
        0 => None,
        signal => Some(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All in one: signals are the process's.
    #[test]
    fn signals_are_counted_until_they_are_taken_and_nohup_is_heeded() {
        // SAFETY: takes integers; nothing else in this process handles the signal.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        install(Again::Waits, Blocked::GoesOn);
        assert!(!pending() && take().is_none());
        // SAFETY: takes an integer; SIGHUP is ignored still, the others are noted.
        let raise = |signal| unsafe { libc::raise(signal) };
        raise(libc::SIGHUP);
        assert!(!pending());
        raise(libc::SIGINT);
        assert!(pending() && !at_once());
        raise(libc::SIGTERM);
        assert!(at_once());
        assert_eq!(take(), Some(libc::SIGTERM));
        assert!(!pending() && take().is_none());
    }
}
