//! On which CPUs threads may run.

use std::{io, mem::size_of};

use xweave_wire::{
    knob::{Pinning, ranges},
    limits::CPUS,
};

/// A set of CPUs as the kernel takes it: a bit for each, as many as there can be.
const WORDS: usize = CPUS / 64;

/// Reads a thread's: `0-3+6`.
///
/// # Errors
/// There is no such thread.
pub(crate) fn get(tid: u32) -> io::Result<String> {
    let mut set = [0u64; WORDS];
    // SAFETY: the kernel fills as many bytes of the set as are said to be there, at most.
    let filled =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, id(tid)?, size_of_val(&set), set.as_mut_ptr()) };
    if filled < 0 {
        return Err(io::Error::last_os_error());
    }
    let most = u32::try_from(CPUS).unwrap_or(0);
    let cpus: Vec<u32> = (0..most).filter(|cpu| set[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect();
    Ok(ranges(&cpus))
}

/// Sets a thread's.
///
/// # Errors
/// There is no such thread, or none of the CPUs; the text is no list of CPUs.
pub(crate) fn set(tid: u32, text: &str) -> io::Result<()> {
    let cpus = parse(text).ok_or(io::ErrorKind::InvalidInput)?;
    let mut set = [0u64; WORDS];
    cpus.iter().for_each(|cpu| set[*cpu as usize / 64] |= 1 << (cpu % 64));
    // SAFETY: the kernel reads as many bytes of the set as are said to be there.
    let done = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, id(tid)?, WORDS * size_of::<u64>(), set.as_ptr())
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The CPUs of a list; none if it is none.
pub(crate) fn parse(text: &str) -> Option<Vec<u32>> {
    Pinning::parse(text).filter(|pinning| !pinning.each).map(|pinning| pinning.cpus)
}

/// 0 would be the caller.
fn id(tid: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(tid).ok().filter(|tid| *tid > 0).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_and_no_other_thread_is_meant() {
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
