//! That memory gets short: as the kernel says, and by what is available.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::host;

/// Pressure stall information (Documentation/accounting/psi.rst).
const PRESSURE: &str = "/proc/pressure/memory";

/// 50 ms of a second in which any task waited for memory: reclaim, or pages that were dropped too early. It is more than a
/// host has that only drops its oldest page cache, and less than anybody notices: Android's lmkd takes 70 ms for a first
/// sign, systemd's services 200 ms of 2 s. A whole window need not pass: it is told as soon as there were so many.
const TRIGGER: &[u8] = b"some 50000 1000000\0";

/// How often it is looked what is available: a process that takes all that is free waits for nothing until it is gone.
const LOOKED: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What tells of it.
pub(super) struct Shortage {
    pressure: io::Result<File>,
    /// It is short where fewer bytes are available.
    least: u64,
}

impl Shortage {
    pub(super) fn new(least: u64) -> Self {
        let open = || {
            let mut file =
                OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(PRESSURE)?;
            file.write_all(TRIGGER)?;
            Ok(file)
        };
        Self { pressure: open(), least }
    }

    /// Why the kernel does not tell; none if it does.
    pub(super) fn untold(&self) -> Option<String> {
        self.pressure.as_ref().err().map(|error| format!("{PRESSURE}: {error}"))
    }

    /// Waits for a second at most. Whether it is short.
    pub(super) fn wait(&mut self) -> bool {
        let is_told = match &self.pressure {
            Ok(file) => {
                let mut polled = [PollFd::new(file, PollFlags::PRI)];
                // What interrupts it lets it be looked earlier.
                let _ = poll(&mut polled, Some(&LOOKED));
                polled[0].revents()
            }
            Err(_) => {
                let _ = poll(&mut [], Some(&LOOKED));
                PollFlags::empty()
            }
        };
        if is_told.contains(PollFlags::ERR) {
            self.pressure = Err(io::Error::other("the trigger is gone"));
        }
        is_told.contains(PollFlags::PRI) || host::available() < self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_short_where_less_is_available_than_is_to_be() {
        assert!(Shortage::new(u64::MAX).wait());
        let mut without = Shortage { pressure: Err(io::Error::other("none")), least: u64::MAX };
        assert!(without.wait() && without.untold().is_some_and(|why| why.contains("pressure/memory: none")));
    }
}
