//! Where the kernel notes that a BPF program is running: a counter for each CPU, `bpf_prog.active`.
//!
//! The prelude's iterator over all programs writes pairs: a program's ID and that counter's address.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use xweave_bytes::read_le;

/// The (per-CPU) addresses of all programs' counters, by the programs' IDs.
pub(crate) fn addresses(iterator: BorrowedFd<'_>) -> io::Result<HashMap<u64, u64>> {
    // SAFETY: no options; the descriptor is open.
    let link = unsafe {
        libbpf_sys::bpf_link_create(iterator.as_raw_fd(), 0, libbpf_sys::BPF_TRACE_ITER, ptr::null())
    };
    let link = owned(link)?;
    // SAFETY: takes and returns integers.
    let list = owned(unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) })?;
    let mut bytes = Vec::new();
    File::from(list).read_to_end(&mut bytes)?;
    Ok(bytes.chunks_exact(16).filter_map(|pair| Some((read_le(pair, 0)?, read_le(pair, 8)?))).collect())
}

/// libbpf gives a descriptor, or an error's number below zero.
fn owned(result: i32) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    // SAFETY: a descriptor that was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}
