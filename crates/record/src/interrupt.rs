//! Ctrl-C and SIGTERM: the first ends a recording as its duration would, orderly; the second at once.

use std::sync::atomic::{AtomicU32, Ordering};

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(_signal: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// From now on the two signals are counted, not deadly.
pub(crate) fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler does nothing but add to an atomic, which is safe in a signal handler.
        unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
    }
}

/// Whether one of them came: what is under way is to end.
pub(crate) fn interrupted() -> bool {
    SIGNALS.load(Ordering::Relaxed) > 0
}

/// Whether a second came: nothing is waited for any more.
pub(crate) fn at_once() -> bool {
    SIGNALS.load(Ordering::Relaxed) > 1
}
