//! Has the kernel swap out the memory of another process, as a host does that is short of memory.

use super::load_error;
use crate::error::Result;
use serde::Serialize;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Smaller mappings are left alone, in bytes: a virtual machine's memory is one large one.
const LEAST: usize = 1 << 20;

/// What was swapped out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PagedOut {
    /// Bytes that the kernel was advised to.
    pub bytes: u64,
}

/// Advises the kernel to swap out the large anonymous mappings of a process (`MADV_PAGEOUT` of process_madvise(2)).
///
/// # Errors
/// There is no such process, or it belongs to somebody else.
pub fn page_out(pid: i32) -> Result<PagedOut> {
    // SAFETY: takes integers only.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let process = i32::try_from(process).ok().filter(|process| *process >= 0);
    let process = process.ok_or_else(|| load_error("find the process")(io::Error::last_os_error()))?;
    // SAFETY: a descriptor that was just opened and belongs to nobody else.
    let process = unsafe { OwnedFd::from_raw_fd(process) };
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(load_error("read its mappings"))?;
    let mut bytes = 0;
    for (start, length) in maps.lines().filter_map(anonymous).filter(|(_, length)| *length >= LEAST) {
        let part = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: length };
        // SAFETY: the range is the other process's, and the vector lives in this frame.
        let advised = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process.as_raw_fd(),
                &raw const part,
                1,
                libc::MADV_PAGEOUT,
                0,
            )
        };
        // A mapping may be gone, or locked.
        bytes += u64::try_from(advised).unwrap_or(0);
    }
    Ok(PagedOut { bytes })
}

/// The start and length of a mapping that is private, can be written to, and has no file.
fn anonymous(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_whitespace();
    let (range, mode, inode) = (words.next()?, words.next()?, words.nth(2)?);
    let (from, to) = range.split_once('-')?;
    let [from, to] = [from, to].map(|address| usize::from_str_radix(address, 16).ok());
    (mode.starts_with("rw") && mode.ends_with('p') && inode == "0")
        .then_some((from?, to?.checked_sub(from?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_memory_without_a_file_is_meant() {
        let heap = "7f0010000000-7f0012000000 rw-p 00000000 00:00 0 ";
        assert_eq!(anonymous(heap), Some((0x7f00_1000_0000, 0x200_0000)));
        for other in [
            "7f0010000000-7f0012000000 r--p 00000000 00:00 0",
            "7f0010000000-7f0012000000 rw-s 00000000 00:05 12 /dev/kvm",
            "7f0010000000-7f0012000000 rw-p 00000000 08:01 99 /usr/lib/libc.so",
            "not a mapping",
        ] {
            assert_eq!(anonymous(other), None, "{other}");
        }
    }
}
