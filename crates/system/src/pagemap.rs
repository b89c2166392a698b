//! Page maps: where a process's pages are in memory (Documentation/admin-guide/mm/pagemap.rst).

use std::{fs::File, io, os::unix::fs::FileExt};

/// Bytes of an entry.
const ENTRY: usize = 8;

/// Page map of a process.
pub struct Pagemap(File);

/// Entry of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Pagemap {
    /// Opens the page map of this process.
    ///
    /// # Errors
    /// The kernel has none (CONFIG_PROC_PAGE_MONITOR).
    pub fn open_own() -> io::Result<Self> {
        File::open("/proc/self/pagemap").map(Self)
    }

    /// Opens the page map of another process.
    ///
    /// # Errors
    /// The process has ended, or belongs to another user.
    pub fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/pagemap")).map(Self)
    }

    /// Reads the entries of `pages` consecutive pages, the first of which has that address.
    ///
    /// # Errors
    /// The page map cannot be read there.
    pub fn read_entries(&self, address: u64, pages: usize) -> io::Result<Vec<Entry>> {
        let mut bytes = vec![0; pages * ENTRY];
        self.0.read_exact_at(&mut bytes, address / xweave_wire::pages::PAGE * ENTRY as u64)?;
        let (entries, _) = bytes.as_chunks::<ENTRY>();
        Ok(entries.iter().map(|entry| Entry(u64::from_ne_bytes(*entry))).collect())
    }
}

impl Entry {
    /// Page frame number; 0 if the page is not present, or the number is hidden (reading it takes CAP_SYS_ADMIN).
    pub fn frame(self) -> u64 {
        const PRESENT: u64 = 1 << 63;
        const FRAME: u64 = (1 << 55) - 1;
        if self.0 & PRESENT == 0 { 0 } else { self.0 & FRAME }
    }

    /// Checks whether the page frame is mapped only once.
    pub fn is_exclusive(self) -> bool {
        self.0 & (1 << 56) != 0
    }
}
