//! How much memory, time and room a process may take.

use std::{fs, io, os::unix::fs::MetadataExt};

use super::Error;

/// Address space beyond the memory: files that are mapped, and what allocators reserve without using it.
const RESERVED: u64 = 64 << 30;

/// The limits of a process. Each holds for one process; a job that may start others has so many times as much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of its own, in bytes.
    pub memory: u64,
    /// Processor time, in seconds.
    pub seconds: u64,
    /// The longest file that it may write, in bytes.
    pub file: u64,
}

impl Limits {
    /// For a command that a user started, on files that the user named: what the machine can bear.
    pub fn of_command() -> Self {
        let memory = half_of_memory().max(4 << 30);
        Self { memory, seconds: u64::MAX, file: u64::MAX }
    }

    /// Sets them for this process and all that it starts.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set(&self) -> Result<(), Error> {
        self.set_all().map_err(|error| Error::new("limits", error))
    }

    /// The memory that this process may take, in bytes: what was set, or less, where less was allowed before.
    pub fn memory_now() -> u64 {
        let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: points to a structure of its own. If it fails, zeros stay.
        unsafe { libc::getrlimit(libc::RLIMIT_DATA, &raw mut now) };
        now.rlim_cur
    }

    /// As [`Limits::set`]. Allocates nothing: it is called between fork and exec.
    pub(super) fn set_all(&self) -> io::Result<()> {
        // RLIMIT_DATA counts private memory that can be written to, and no mapped files; what it does not count
        // (shared memory, stacks that grow) the filter of system calls does not let be made.
        limit(libc::RLIMIT_DATA, self.memory, self.memory)?;
        let space = self.memory.saturating_add(RESERVED);
        limit(libc::RLIMIT_AS, space, space)?;
        // The first ends it with SIGXCPU, which tells why.
        limit(libc::RLIMIT_CPU, self.seconds, self.seconds.saturating_add(1))?;
        limit(libc::RLIMIT_FSIZE, self.file, self.file)?;
        limit(libc::RLIMIT_CORE, 0, 0)?;
        limit(libc::RLIMIT_MEMLOCK, 0, 0)?;
        limit(libc::RLIMIT_MSGQUEUE, 0, 0)?;
        limit(libc::RLIMIT_NOFILE, 4096, 4096)
    }
}

/// The most processes and threads that there are of this process, and of what it starts. The kernel counts those of a
/// user, so what else the user runs now is added, unless it is a user of its own (`alone`). It never counts root's.
pub(super) fn processes(most: u64, alone: bool) -> Result<(), Error> {
    let most = if alone { most } else { most.saturating_add(of_this_user()) };
    limit(libc::RLIMIT_NPROC, most, most).map_err(|error| Error::new("limits", error))
}

/// Threads of all processes of this process's user.
fn of_this_user() -> u64 {
    // SAFETY: takes nothing.
    let user = unsafe { libc::getuid() };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let own = processes.filter(|process| fs::metadata(process).is_ok_and(|there| there.uid() == user));
    let threads =
        own.map(|process| fs::read_dir(process.join("task")).map_or(0, |tasks| tasks.count() as u64));
    threads.sum()
}

/// Half of what the machine has, in bytes.
pub fn half_of_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    total.and_then(|kilobytes| kilobytes.trim().parse::<u64>().ok()).unwrap_or(0).saturating_mul(512)
}

/// Never more than what holds already: raising is for root.
fn limit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: points to a structure of its own.
    if unsafe { libc::getrlimit(resource, &raw mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let hard = hard.min(now.rlim_max);
    let wanted = libc::rlimit { rlim_cur: soft.min(now.rlim_cur).min(hard), rlim_max: hard };
    // SAFETY: points to a structure of its own.
    match unsafe { libc::setrlimit(resource, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
