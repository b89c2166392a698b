//! Pages of a file that are cached, and what they hold.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use sha2::{Digest, Sha256};
use xweave_bytes::read_le;
use xweave_wire::pages::{PAGE, Run};

/// Bytes of a page, as [`PAGE`].
const BYTES: usize = 4096;

/// Bytes that are looked at at once: a byte tells of a page.
const WINDOW: u64 = 1 << 30;

/// Which pages are cached. No page is read for that: `mincore` looks at the page cache where nothing is mapped yet
/// (`mm/mincore.c`, `mincore_page`; of files that root may write).
pub(super) fn resident(file: &File, size: u64) -> io::Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut from = 0;
    while from < size {
        let bytes = WINDOW.min(size - from);
        let first = from / PAGE;
        for (page, there) in (first..).zip(in_window(file, from, bytes)?) {
            if !there {
                continue;
            }
            match runs.last_mut().filter(|run| run.end() == page && run.pages < u32::MAX) {
                Some(run) => run.pages += 1,
                None => runs.push(Run { first: page, pages: 1 }),
            }
        }
        from += bytes;
    }
    Ok(runs)
}

fn in_window(file: &File, from: u64, bytes: u64) -> io::Result<impl Iterator<Item = bool>> {
    let offset = offset(from)?;
    let length = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    // SAFETY: a new mapping, where the kernel has room for it.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_NONE,
            libc::MAP_SHARED,
            file.as_fd().as_raw_fd(),
            offset,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mut there = vec![0_u8; length.div_ceil(BYTES)];
    // SAFETY: of the mapping, into a byte for each of its pages.
    let told = unsafe { libc::mincore(at, length, there.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping, which nothing refers to.
    unsafe { libc::munmap(at, length) };
    if told != 0 {
        return Err(error);
    }
    Ok(there.into_iter().map(|byte| byte & 1 != 0))
}

/// A place in a file, as system calls take it.
pub(super) fn offset(at: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
}

/// Reads what pages hold.
pub(super) struct Contents<'f> {
    file: &'f File,
    /// Whether its file system can be told to read nothing from its disk.
    only_cached: bool,
    page: Vec<u8>,
}

impl<'f> Contents<'f> {
    pub(super) fn of(file: &'f File) -> Self {
        Self { file, only_cached: true, page: vec![0; BYTES] }
    }

    /// A hash of each page; 0 of those that have gone since.
    pub(super) fn hashes(&mut self, runs: &[Run]) -> Vec<u64> {
        runs.iter().flat_map(|run| run.first..run.end()).map(|page| self.hash(page)).collect()
    }

    fn hash(&mut self, page: u64) -> u64 {
        let read = self.read(page * PAGE);
        let Ok(bytes @ 1..) = read else { return 0 };
        // What is behind a file's end is zeros in its last page.
        self.page[bytes..].fill(0);
        let hash = Sha256::digest(&self.page);
        read_le(&hash, 0).unwrap_or(0).max(1)
    }

    fn read(&mut self, at: u64) -> io::Result<usize> {
        let flags = if self.only_cached { libc::RWF_NOWAIT } else { 0 };
        let part = libc::iovec { iov_base: self.page.as_mut_ptr().cast(), iov_len: self.page.len() };
        let offset = offset(at)?;
        // SAFETY: into a buffer of that length.
        let bytes = unsafe { libc::preadv2(self.file.as_raw_fd(), &raw const part, 1, offset, flags) };
        if let Ok(bytes) = usize::try_from(bytes) {
            return Ok(bytes);
        }
        let error = io::Error::last_os_error();
        // Not every file system knows the flag (tmpfs of Linux 6.1 has no disk to read from).
        if self.only_cached && error.raw_os_error() == Some(libc::EOPNOTSUPP) {
            self.only_cached = false;
            return self.read(at);
        }
        Err(error)
    }
}
