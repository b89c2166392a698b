//! Breaking off what takes long: when the controller says so or has gone, or a signal tells us to end.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Reasons to break off that have not been dealt with.
#[derive(Default)]
pub(crate) struct Cancel(AtomicUsize);

impl Cancel {
    /// Whoever is at work is to end it.
    pub(crate) fn ask(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// One of the reasons is over.
    pub(crate) fn done(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether to end.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0 || NOTED.load(Ordering::Relaxed) != 0
    }
}

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

static NOTED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: libc::c_int) {
    NOTED.store(signal, Ordering::Relaxed);
}

/// As long as it lives, signals that would end the process are only noted. When it goes they do their work.
pub(crate) struct Deferred([libc::sighandler_t; SIGNALS.len()]);

impl Deferred {
    pub(crate) fn begin() -> Self {
        // SAFETY: the handler does nothing but store to an atomic, which is safe in a signal handler.
        Self(SIGNALS.map(|signal| unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) }))
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        for (signal, before) in SIGNALS.into_iter().zip(self.0) {
            // SAFETY: what was there before.
            unsafe { libc::signal(signal, before) };
        }
        let noted = NOTED.swap(0, Ordering::Relaxed);
        if noted != 0 {
            // SAFETY: takes an integer.
            unsafe { libc::raise(noted) };
        }
    }
}
