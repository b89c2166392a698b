//! What KSM has merged: which of a process's pages it has put together, and with which others.
//!
//! KSM's own counters go stale when it stops. `pagemap` tells which page of memory an address has, and whether it is only there;
//! `kpageflags` tells whether it is one of KSM's (Documentation/admin-guide/mm/pagemap.rst). Both are needed: Linux 6.12 calls
//! all anonymous pages KSM's (fs/proc/page.c, `stable_page_flags`, looks for any of the two bits that only both tell of KSM),
//! and what is mapped twice may be of a process that has forked.

use std::{collections::HashSet, fs::File, io, os::unix::fs::FileExt};

use xweave_system::pagemap::Pagemap;
use xweave_wire::pages::PAGE;

use crate::{host::has_ended, plan::Plan};

const KPF_KSM: u64 = 1 << 21;

/// Bytes of an entry of `kpageflags`.
const ENTRY: usize = 8;

/// Pages of which is asked at once, where they follow each other.
const AT_ONCE: usize = 4096;

/// What is merged of a plan's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Pages that are merged with others, which may be of none of these guests.
    pub merged: u64,
    /// Pages that were given back: merged ones, less those that stay for them.
    pub saved: u64,
    /// Of each guest, merged pages.
    pub by_guest: Vec<u64>,
    /// Of each file: pages that were given back of it, as if it were the only one.
    pub by_file: Vec<u64>,
}

/// Why it cannot be looked what is merged.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// A guest's process is not there any more.
    #[error(
        "the process that ran {name} (PID {pid}) has ended: with it, all is gone that was merged of {name}, also if that was \
         migrated and goes on in another"
    )]
    Ended {
        /// The guest.
        name: String,
        /// Its process.
        pid: u32,
    },
    /// Only root may look.
    #[error("what KSM has merged cannot be read: {0}")]
    Look(#[from] io::Error),
}

impl Merged {
    /// As it is now.
    ///
    /// # Errors
    /// [`LookError`].
    pub fn look(plan: &Plan) -> Result<Self, LookError> {
        let kernel = Pages::open()?;
        let mut all = Self { by_file: vec![0; plan.files.len()], ..Self::default() };
        let mut stays: HashSet<u64> = HashSet::new();
        let mut of_files: HashSet<(u32, u64)> = HashSet::new();
        for guest in &plan.guests {
            let addresses: Vec<u64> = guest.spots.iter().map(|spot| spot.address).collect();
            let frames = kernel.merged(guest.pid, &addresses).map_err(|error| match has_ended(&error) {
                true => LookError::Ended { name: guest.name.clone(), pid: guest.pid },
                false => LookError::Look(error),
            })?;
            let mut of_guest = 0;
            for (spot, frame) in guest.spots.iter().zip(frames).filter(|(_, frame)| *frame > 0) {
                of_guest += 1;
                all.saved += u64::from(!stays.insert(frame));
                if !of_files.insert((spot.file, frame))
                    && let Some(saved) = all.by_file.get_mut(spot.file as usize)
                {
                    *saved += 1;
                }
            }
            all.merged += of_guest;
            all.by_guest.push(of_guest);
        }
        Ok(all)
    }
}

/// What the kernel says of pages.
pub(crate) struct Pages {
    flags: File,
}

impl Pages {
    /// Only root may.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { flags: File::open("/proc/kpageflags")? })
    }

    /// Of each of these addresses of a process, in order and each a page's: the frame, if KSM has merged it; 0 otherwise.
    pub(crate) fn merged(&self, pid: u32, addresses: &[u64]) -> io::Result<Vec<u64>> {
        let pagemap = Pagemap::open(pid)?;
        let mut frames = Vec::with_capacity(addresses.len());
        for run in addresses.chunk_by(|one, next| *next == one + PAGE).flat_map(|run| run.chunks(AT_ONCE)) {
            for entry in pagemap.read_entries(run[0], run.len())? {
                let frame = if entry.is_exclusive() { 0 } else { entry.frame() };
                frames.push(if frame > 0 && self.is_ksms(frame)? { frame } else { 0 });
            }
        }
        Ok(frames)
    }

    fn is_ksms(&self, frame: u64) -> io::Result<bool> {
        let mut flags = [0; ENTRY];
        self.flags.read_exact_at(&mut flags, frame * ENTRY as u64)?;
        Ok(u64::from_ne_bytes(flags) & KPF_KSM != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_this_process_has_is_not_merged() {
        let mut memory = memmap2::MmapMut::map_anon(3 * 4096).unwrap();
        memory.fill(7);
        let at = memory.as_ptr().addr() as u64;
        let addresses = [at, at + PAGE, at + 2 * PAGE];
        let Ok(pages) = Pages::open() else {
            println!("SKIPPED: only root may read /proc/kpageflags");
            return;
        };
        assert_eq!(pages.merged(std::process::id(), &addresses).unwrap(), [0, 0, 0]);
        assert!(pages.merged(u32::MAX, &addresses).is_err());
    }
}
