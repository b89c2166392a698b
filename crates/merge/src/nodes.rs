//! On which NUMA nodes pages are: where KSM merges within nodes only, equal pages of two nodes stay two.

use std::{fs, io, ptr};

/// Pages of which is asked at once: `move_pages` holds the process's mappings meanwhile, and it wants to change them, too.
const AT_ONCE: usize = 4096;

/// The nodes that have memory, as the kernel lists them: `0-1,3`.
const WITH_MEMORY: &str = "/sys/devices/system/node/has_memory";

/// How many nodes of this host have memory.
pub fn count() -> u64 {
    // A kernel without NUMA has no such file, and one node.
    fs::read_to_string(WITH_MEMORY).map_or(1, |list| listed(&list))
}

/// There is one at least.
fn listed(list: &str) -> u64 {
    xweave_text::listed(list).len().max(1) as u64
}

/// Of each of these addresses of a process: the node of its page; none if no page is there now.
///
/// # Errors
/// The process has ended, or is somebody else's.
pub fn of(pid: u32, addresses: &[u64]) -> io::Result<Vec<Option<u32>>> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut nodes = Vec::with_capacity(addresses.len());
    let mut told = [0; AT_ONCE];
    for addresses in addresses.chunks(AT_ONCE) {
        // SAFETY: it reads as many addresses as there are, which are the other process's and are only looked up there, and
        // writes as many numbers, for which there is room. Without nodes to move them to, it moves none.
        let done = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                pid,
                addresses.len(),
                addresses.as_ptr(),
                ptr::null::<libc::c_int>(),
                told.as_mut_ptr(),
                0,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        // Where there is none, it says why, as a negative number.
        nodes.extend(told[..addresses.len()].iter().map(|node: &libc::c_int| u32::try_from(*node).ok()));
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_there_have_a_node_and_others_have_none() {
        let pages = AT_ONCE + 3;
        let mut memory = memmap2::MmapMut::map_anon(pages * 4096).unwrap();
        let at = memory.as_ptr().addr() as u64;
        let addresses: Vec<u64> = (0..pages as u64).map(|page| at + page * 4096).collect();
        // Where huge pages are used, all are there with the first.
        memory.advise(memmap2::Advice::NoHugePage).unwrap();
        memory[0] = 1;
        memory[(pages - 1) * 4096] = 1;
        let nodes = match of(std::process::id(), &addresses) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                println!("SKIPPED: this kernel has no NUMA: {error}");
                return;
            }
            nodes => nodes.unwrap(),
        };
        let there: Vec<usize> = (0..pages).filter(|page| nodes[*page].is_some()).collect();
        assert_eq!(there, [0, pages - 1]);
        assert!(u64::from(nodes[0].unwrap()) < 1024 && of(u32::MAX, &addresses).is_err());
    }

    #[test]
    fn nodes_are_counted_as_the_kernel_lists_them() {
        assert_eq!(["0\n", "0-1\n", "0-1,3,8-11\n", "", "x"].map(listed), [1, 2, 7, 1, 1]);
        assert!(count() >= 1);
    }
}
