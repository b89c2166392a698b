//! Kprobes and uprobes as perf events: they go when their descriptor is closed, unlike those of tracefs.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{FromRawFd, OwnedFd},
    sync::OnceLock,
};

/// Where a probe is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the kernel: `function` or `module:function`, and the distance from its beginning.
    Kernel { function: String, offset: u64 },
    /// At this address of the kernel: the kernel need not look for a name among all of its symbols.
    Address(u64),
    /// In a program's file, so many bytes from its beginning.
    Program { path: String, offset: u64 },
}

/// `struct perf_event_attr` up to its first published size (include/uapi/linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    /// `kprobe_func`, `uprobe_path`: the address of a name; 0 if the kprobe is given by its address.
    config1: u64,
    /// `probe_offset`, or `kprobe_addr`.
    config2: u64,
}

/// An event there, or at the return from the function there, on all processors.
pub(crate) fn open(place: &Place, returning: bool) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: u64 = 8;
    static KPROBE: OnceLock<u32> = OnceLock::new();
    static UPROBE: OnceLock<u32> = OnceLock::new();
    let (source, known, name, offset) = match place {
        Place::Kernel { function, offset } => ("kprobe", &KPROBE, Some(function), *offset),
        Place::Address(address) => ("kprobe", &KPROBE, None, *address),
        Place::Program { path, offset } => ("uprobe", &UPROBE, Some(path), *offset),
    };
    let kind = match known.get() {
        Some(kind) => *kind,
        None => {
            let kind = fs::read_to_string(format!("/sys/bus/event_source/devices/{source}/type"))?;
            let kind = kind.trim().parse().map_err(io::Error::other)?;
            *known.get_or_init(|| kind)
        }
    };
    let name = name.map(|name| CString::new(name.as_str())).transpose().map_err(io::Error::other)?;
    let attributes = Attributes {
        kind,
        size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
        // format/retprobe of both event sources: bit 0
        config: u64::from(returning),
        config1: name.as_ref().map_or(0, |name| name.as_ptr() as u64),
        config2: offset,
        ..Attributes::default()
    };
    // SAFETY: attributes and the name that they point to outlive the call.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, 0, -1, CLOSE_ON_EXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?) })
}
