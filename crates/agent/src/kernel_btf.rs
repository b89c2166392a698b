//! File descriptors of the running kernel's BTF objects: what a program in a module is loaded against.

use std::{
    collections::HashMap,
    ffi::CStr,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::error::Error;

/// Opened on first use and kept: loading needs them only for a moment, but for many programs.
#[derive(Default)]
pub(crate) struct KernelBtf {
    modules: HashMap<String, OwnedFd>,
}

impl KernelBtf {
    /// The descriptor of a module's BTF.
    pub(crate) fn module(&mut self, name: &str) -> Result<i32, Error> {
        if let Some(fd) = self.modules.get(name) {
            return Ok(fd.as_raw_fd());
        }
        let fd = find(name).ok_or_else(|| Error::Module(name.to_owned()))?;
        let raw = fd.as_raw_fd();
        self.modules.insert(name.to_owned(), fd);
        Ok(raw)
    }
}

fn find(module: &str) -> Option<OwnedFd> {
    let mut id = 0;
    // SAFETY: the pointer is to an integer of this frame.
    while unsafe { libbpf_sys::bpf_btf_get_next_id(id, &raw mut id) } == 0 {
        // SAFETY: takes and returns integers.
        let raw = unsafe { libbpf_sys::bpf_btf_get_fd_by_id(id) };
        if raw < 0 {
            continue; // Unloaded between the two calls.
        }
        // SAFETY: a descriptor that was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let mut name = [0u8; 64];
        let mut info =
            libbpf_sys::bpf_btf_info { name: name.as_mut_ptr() as u64, name_len: 64, ..Default::default() };
        let mut size = u32::try_from(size_of_val(&info)).unwrap_or(0);
        // SAFETY: info and the name it points to outlive the call; size is info's.
        let failed =
            unsafe { libbpf_sys::bpf_btf_get_info_by_fd(fd.as_raw_fd(), &raw mut info, &raw mut size) };
        let found = CStr::from_bytes_until_nul(&name).ok().and_then(|name| name.to_str().ok());
        if failed == 0 && info.kernel_btf != 0 && found == Some(module) {
            return Some(fd);
        }
    }
    None
}
