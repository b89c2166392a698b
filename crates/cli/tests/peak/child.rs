//! The end of a child process, with the memory that it took.

use std::{io, mem, os::unix::process::ExitStatusExt, process::ExitStatus};

/// Reaps a child, with `options` of wait4(2). Returns its status, and the peak of resident memory of it or of a process that it
/// waited for, in bytes; none while it runs, if it is not waited for (`WNOHANG`).
pub fn take_end(id: u32, options: i32) -> Option<(ExitStatus, u64)> {
    let id = libc::pid_t::try_from(id).unwrap();
    let mut status = 0;
    // SAFETY: both are written only, and zeros are a value of the structure of integers.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        (libc::wait4(id, &raw mut status, options, &raw mut usage), usage)
    };
    assert!(waited >= 0, "{}", io::Error::last_os_error());
    (waited == id).then(|| (ExitStatus::from_raw(status), u64::try_from(usage.ru_maxrss).unwrap() << 10))
}
