//! Where a process's pages are in memory (Documentation/admin-guide/mm/pagemap.rst).

use std::{fs::File, io, os::unix::fs::FileExt};

/// Bytes of what is told of a page.
const ENTRY: usize = 8;

/// A process's pages.
pub struct Pagemap(File);

/// What is told of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Pagemap {
    /// This process's.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn own() -> io::Result<Self> {
        File::open("/proc/self/pagemap").map(Self)
    }

    /// Another process's.
    ///
    /// # Errors
    /// It has ended, or is somebody else's.
    pub fn of(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/pagemap")).map(Self)
    }

    /// Of so many pages that follow each other, from that address on.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn entries(&self, address: u64, pages: usize) -> io::Result<Vec<Entry>> {
        let mut bytes = vec![0; pages * ENTRY];
        self.0.read_exact_at(&mut bytes, address / xweave_wire::pages::PAGE * ENTRY as u64)?;
        let (entries, _) = bytes.as_chunks::<ENTRY>();
        Ok(entries.iter().map(|entry| Entry(u64::from_ne_bytes(*entry))).collect())
    }
}

impl Entry {
    /// The number of the page of memory (PFN); 0 if there is none, or it is not told (it takes CAP_SYS_ADMIN).
    pub fn frame(self) -> u64 {
        const PRESENT: u64 = 1 << 63;
        const FRAME: u64 = (1 << 55) - 1;
        if self.0 & PRESENT == 0 { 0 } else { self.0 & FRAME }
    }

    /// Whether that page is mapped nowhere else.
    pub fn is_exclusive(self) -> bool {
        self.0 & (1 << 56) != 0
    }
}
