//! Ctrl-C and SIGTERM while a world is coming up or a command runs in one: a request to stop, so that
//! what was started is ended.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

static PENDING: AtomicI32 = AtomicI32::new(0);
static EXITS: AtomicBool = AtomicBool::new(false);

/// What a signal does that comes before the one before it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Nothing: there is something to clean up first.
    Waits,
    /// Ends the process at once.
    Exits,
}

extern "C" fn note(signal: libc::c_int) {
    if PENDING.swap(signal, Ordering::SeqCst) != 0 && EXITS.load(Ordering::SeqCst) {
        // SAFETY: _exit may be called from a signal handler.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending the process. For programs; a
/// library user who handles signals otherwise need not call it.
pub fn install(again: Again) {
    EXITS.store(again == Again::Exits, Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only uses atomics and _exit, and the structure is fully initialised.
        // Without SA_RESTART, so that a blocking call returns and looks.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Whether a signal has come that nobody took.
pub fn pending() -> bool {
    PENDING.load(Ordering::SeqCst) != 0
}

/// Takes the signal that has come, if any.
pub fn take() -> Option<i32> {
    match PENDING.swap(0, Ordering::SeqCst) {
        0 => None,
        signal => Some(signal),
    }
}
