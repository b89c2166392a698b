//! Who takes processors, and before whom.

use std::{thread, time::Duration};

use super::{done, load_error, work};
use crate::error::Result;

/// Takes a processor's time for ever: for so long each time, with a pause after it.
pub fn spin(busy: Duration, pause: Duration) -> ! {
    loop {
        work(busy);
        thread::sleep(pause);
    }
}

/// Has this process come before all others of a lower priority, and those without one (`SCHED_FIFO`).
pub fn use_fifo(priority: i32) -> Result<()> {
    // SAFETY: a structure of integers.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the parameters live in this frame.
    done(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) })
        .map_err(load_error("set the priority"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_that_there_is_not_is_refused() {
        let error = use_fifo(1000).unwrap_err().to_string();
        assert!(error.contains("set the priority"), "{error}");
    }
}
