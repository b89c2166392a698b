//! Kprobes as perf events: they go when their descriptor is closed, unlike those of tracefs.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{FromRawFd, OwnedFd},
};

use xweave_wire::plan::PlanSite;

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
    /// `kprobe_func`: the address of a name.
    config1: u64,
    /// `probe_offset`.
    config2: u64,
}

/// An event at a function's entry or return, on all processors.
pub(crate) fn open(site: &PlanSite, returning: bool) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: u64 = 8;
    let kind = fs::read_to_string("/sys/bus/event_source/devices/kprobe/type")?;
    let kind = kind.trim().parse().map_err(io::Error::other)?;
    let name = match &site.module {
        Some(module) => format!("{module}:{}", site.function),
        None => site.function.clone(),
    };
    let name = CString::new(name).map_err(io::Error::other)?;
    let attributes = Attributes {
        kind,
        size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
        // format/retprobe of the event source: bit 0
        config: u64::from(returning),
        config1: name.as_ptr() as u64,
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
