//! Waiting until no program is running that saw the recording on.

use std::{
    io,
    mem::size_of_val,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

/// Waits until all programs that are running now have ended. They run inside RCU read sections, and the kernel
/// waits for a grace period whenever a map in an array of maps is replaced (`maybe_wait_bpf_programs` of
/// kernel/bpf/syscall.c, 6.1 to 6.18).
///
/// `MEMBARRIER_CMD_GLOBAL` does the same where several processors are on line, but not with `nohz_full`, which hosts
/// of virtual machines often have (kernel/sched/membarrier.c): so it is for where no map can be made.
///
/// # Errors
/// Neither can be done: what is running may still write into the ring buffers.
pub(crate) fn wait_for_running_programs() -> io::Result<()> {
    replace_inner_map().or_else(|of_maps| membarrier().map_err(|_| of_maps))
}

fn replace_inner_map() -> io::Result<()> {
    let inner = array(libbpf_sys::BPF_MAP_TYPE_ARRAY, None)?;
    let outer = array(libbpf_sys::BPF_MAP_TYPE_ARRAY_OF_MAPS, Some(&inner))?;
    let (key, value) = (0u32, inner.as_raw_fd());
    // SAFETY: key and value are of the sizes that the map was made for, and live in this frame.
    let failed = unsafe {
        libbpf_sys::bpf_map_update_elem(
            outer.as_raw_fd(),
            (&raw const key).cast(),
            (&raw const value).cast(),
            u64::from(libbpf_sys::BPF_ANY),
        )
    };
    if failed < 0 { Err(io::Error::from_raw_os_error(-failed)) } else { Ok(()) }
}

/// An array of one element of four bytes; of one map, if an example of it is given.
fn array(kind: libbpf_sys::bpf_map_type, of: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let mut options = libbpf_sys::bpf_map_create_opts::default();
    options.sz = size_of_val(&options) as u64;
    options.inner_map_fd = of.and_then(|inner| u32::try_from(inner.as_raw_fd()).ok()).unwrap_or(0);
    // SAFETY: no name; the options live in this frame.
    let fd = unsafe { libbpf_sys::bpf_map_create(kind, ptr::null(), 4, 4, 1, &raw const options) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a descriptor that was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn membarrier() -> io::Result<()> {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    // SAFETY: takes integers only.
    match unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// The fastest of several: a grace period takes milliseconds, system calls alone microseconds.
    fn fastest(mut work: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let begun = Instant::now();
            work()?;
            fastest = fastest.min(begun.elapsed());
        }
        Ok(fastest)
    }

    #[test]
    fn replacing_a_map_waits_for_a_grace_period() {
        let only_made = || {
            let inner = array(libbpf_sys::BPF_MAP_TYPE_ARRAY, None)?;
            array(libbpf_sys::BPF_MAP_TYPE_ARRAY_OF_MAPS, Some(&inner)).map(drop)
        };
        let without = match fastest(only_made) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                eprintln!("SKIPPED: making BPF maps needs root; waiting for programs was not tested");
                return;
            }
            without => without.unwrap(),
        };
        let with = fastest(wait_for_running_programs).unwrap();
        assert!(with > 2 * without, "with a grace period {with:?}, without {without:?}");
    }
}
