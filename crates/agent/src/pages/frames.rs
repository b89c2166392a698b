//! Where in the memory of this domain pages of a file lie: what another domain, its host, sees of them.

use std::{fs::File, io, os::fd::AsRawFd, ptr};

use xweave_system::pagemap::{Entry, Pagemap};
use xweave_wire::pages::{PAGE, Run};

use super::resident::offset;

/// What tells where this process's pages lie.
pub(super) struct Frames(Pagemap);

impl Frames {
    pub(super) fn new() -> io::Result<Self> {
        Pagemap::open_own().map(Self)
    }

    pub(super) fn of<'f>(&'f self, file: &'f File) -> OfFile<'f> {
        OfFile { pagemap: &self.0, file }
    }
}

/// Where pages of a file lie.
pub(super) struct OfFile<'f> {
    pagemap: &'f Pagemap,
    file: &'f File,
}

impl OfFile<'_> {
    /// Of each of these pages, its frame; 0 where that is not told: it has gone, or the process may not know (only root may).
    pub(super) fn all(&self, runs: &[Run]) -> Vec<u64> {
        let of = |run: &Run| {
            let none = || vec![0; usize::try_from(run.pages).unwrap_or(0)];
            self.frames(*run).unwrap_or_else(|_| none())
        };
        runs.iter().flat_map(of).collect()
    }

    /// They are mapped for it, which takes them as they are: one that has gone since is read again. MADV_RANDOM: that nothing
    /// is read ahead, and that a page which is unmapped is not taken for used (`vma_has_recency`, include/linux/mm_inline.h,
    /// since Linux 6.3).
    fn frames(&self, run: Run) -> io::Result<Vec<u64>> {
        let bytes = |pages| usize::try_from(pages).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
        let length = bytes(u64::from(run.pages) * PAGE)?;
        let at = offset(run.first.saturating_mul(PAGE))?;
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: a new mapping, where the kernel has room for it.
        let mapped =
            unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, self.file.as_raw_fd(), at) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: of the mapping. Both are wishes: whether the pages are there is told below.
        unsafe {
            libc::madvise(mapped, length, libc::MADV_RANDOM);
            libc::madvise(mapped, length, libc::MADV_POPULATE_READ);
        }
        let told = self.pagemap.read_entries(mapped.addr() as u64, bytes(run.pages.into())?);
        // SAFETY: the mapping, which nothing refers to.
        unsafe { libc::munmap(mapped, length) };
        Ok(told?.into_iter().map(Entry::frame).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn pages_lie_where_their_own_mapping_says() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 5 * 4096]).unwrap();
        let frames = Frames::new().unwrap();
        let of = |runs: &[Run]| frames.of(&file).all(runs);
        let all = of(&[Run { first: 0, pages: 5 }]);
        if all.iter().all(|frame| *frame == 0) {
            println!("SKIPPED: only root is told where pages lie");
            return;
        }
        assert_eq!(all.len(), 5);
        let mut apart = all.clone();
        apart.sort_unstable();
        apart.dedup();
        assert!(apart.len() == 5 && apart[0] > 0, "{all:?}");
        assert_eq!(of(&[Run { first: 1, pages: 2 }, Run { first: 4, pages: 1 }]), [all[1], all[2], all[4]]);
    }

    #[test]
    fn of_what_is_behind_the_end_of_a_file_nothing_is_told() {
        let file = tempfile::tempfile().unwrap();
        let frames = Frames::new().unwrap();
        assert_eq!(frames.of(&file).all(&[Run { first: 3, pages: 2 }]), [0, 0]);
    }
}
