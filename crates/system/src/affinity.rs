//! CPU affinity of threads.

use std::{io, mem::size_of};

use xweave_wire::{
    knob::{Pinning, ranges},
    limits::CPUS,
};

/// Words of a CPU set, one bit for each CPU there can be.
const WORDS: usize = CPUS / 64;

/// Reads the CPUs on which a thread may run, such as `0-3+6`.
///
/// # Errors
/// The thread does not exist.
pub(crate) fn get(tid: u32) -> io::Result<String> {
    let mut set = [0u64; WORDS];
    // SAFETY: the kernel writes at most the given number of bytes to the set.
    let filled = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, checked_id(tid)?, size_of_val(&set), set.as_mut_ptr())
    };
    if filled < 0 {
        return Err(io::Error::last_os_error());
    }
    let most = u32::try_from(CPUS).unwrap_or(0);
    let cpus: Vec<u32> = (0..most).filter(|cpu| set[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect();
    Ok(ranges(&cpus))
}

/// Restricts a thread to the CPUs of a list, such as `0-3+6`.
///
/// # Errors
/// The thread does not exist, none of the CPUs is present, or the text is no list of CPUs.
pub(crate) fn set(tid: u32, text: &str) -> io::Result<()> {
    let cpus = parse(text).ok_or(io::ErrorKind::InvalidInput)?;
    let mut set = [0u64; WORDS];
    cpus.iter().for_each(|cpu| set[*cpu as usize / 64] |= 1 << (cpu % 64));
    // SAFETY: the kernel reads the given number of bytes of the set.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, checked_id(tid)?, WORDS * size_of::<u64>(), set.as_ptr())
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Parses a list of CPUs; `None` if the text is no list.
pub(crate) fn parse(text: &str) -> Option<Vec<u32>> {
    Pinning::parse(text).filter(|pinning| !pinning.each).map(|pinning| pinning.cpus)
}

/// A thread ID for the kernel; 0 is refused, as it would mean the caller.
fn checked_id(tid: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(tid).ok().filter(|tid| *tid > 0).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_that_was_set_is_read_back() {
        std::thread::spawn(|| {
            // SAFETY: returns an integer.
            let tid = u32::try_from(unsafe { libc::gettid() }).unwrap();
            let before = get(tid).unwrap();
            let first = parse(&before).unwrap()[0].to_string();
            set(tid, &first).unwrap();
            assert_eq!(get(tid).unwrap(), first);
            set(tid, &before).unwrap();
            assert_eq!(get(tid).unwrap(), before);
            assert!(set(0, &first).is_err() && set(tid, "each:0").is_err() && set(tid, "8191").is_err());
            assert_eq!(get(tid).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
