//! The table in which a guest tells its host what its buffers carry: `bpf/carriers/shared.h` says why and how.

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use libbpf_rs::{Map, MapCore, MapFlags};
use xweave_system::pagemap::{Entry, Pagemap};
use xweave_wire::message::{SHARED_PAGES, SHARING_GUESTS, SharingGuest};

/// The prelude's table of a guest.
pub(crate) const TABLE: &str = "xw_shared_flows";

/// The prelude's table of the guests that a host listens to.
pub(crate) const GUESTS: &str = "xw_guests";

/// The prelude's table of the processes that emulate network devices.
pub(crate) const EMULATORS: &str = "xw_emulators";

/// The prelude's table of the guests of Xen that are recorded.
pub(crate) const XEN_GUESTS: &str = "xw_xen_guests";

const PAGE: usize = 4096;

/// Why the host cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the table cannot be written: {0}")]
    Write(#[from] libbpf_rs::Error),
    #[error("the table cannot be mapped: {0}")]
    Map(#[source] io::Error),
    #[error("/proc/self/pagemap cannot be read: {0}")]
    Pages(#[source] io::Error),
    #[error("/proc/self/pagemap does not tell where memory is (it takes CAP_SYS_ADMIN)")]
    Hidden,
}

/// Puts the secret into the table. Gives where its pages begin in this machine's physical memory.
pub(crate) fn prepare(table: &Map<'_>, secret: [u64; 2]) -> Result<Vec<u64>, Error> {
    let words: Vec<u8> = secret.into_iter().flat_map(u64::to_le_bytes).collect();
    table.update(&0u32.to_le_bytes(), &words, MapFlags::ANY)?;
    let mapped = Mapped::of(table).map_err(Error::Map)?;
    let entries = Pagemap::open_own().and_then(|own| own.read_entries(mapped.0 as u64, SHARED_PAGES));
    let physical = |entry: Entry| match entry.frame() {
        0 => Err(Error::Hidden),
        frame => Ok(frame * PAGE as u64),
    };
    entries.map_err(Error::Pages)?.into_iter().map(physical).collect()
}

/// Whether this machine has a network device of virtio.
pub(crate) fn has_virtio_net() -> bool {
    let devices = fs::read_dir("/sys/bus/virtio/drivers/virtio_net").into_iter().flatten().flatten();
    // Beside devices there are the driver's own files.
    devices.into_iter().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"virtio"))
}

/// Writes the numbers of those that are recorded: of processes that emulate guests' network devices, or of Xen's domains.
pub(crate) fn follow(table: &Map<'_>, numbers: &[u32]) -> Result<(), libbpf_rs::Error> {
    for (at, number) in (0u32..).zip(numbers.iter().take(SHARING_GUESTS)) {
        table.update(&at.to_le_bytes(), &number.to_le_bytes(), MapFlags::ANY)?;
    }
    Ok(())
}

/// The table in this process's memory, all of it present.
struct Mapped(*mut libc::c_void);

impl Mapped {
    fn of(table: &Map<'_>) -> io::Result<Self> {
        // SAFETY: new memory, that nothing in this process refers to; it is only looked up where it is.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SHARED_PAGES * PAGE,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                table.as_fd().as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(at)) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing refers to it.
        unsafe { libc::munmap(self.0, SHARED_PAGES * PAGE) };
    }
}

/// Writes the guests that are listened to: `struct xw_guest` of the prelude each.
pub(crate) fn listen_to(table: &Map<'_>, guests: &[SharingGuest]) -> Result<(), libbpf_rs::Error> {
    let whole = guests.iter().filter(|guest| guest.pages.len() == SHARED_PAGES).take(SHARING_GUESTS);
    for (at, guest) in (0u32..).zip(whole) {
        let words = [u64::from(guest.domain), guest.secret[0], guest.secret[1]].into_iter();
        let words = words.chain(guest.pages.iter().copied()).chain([0; SHARED_PAGES]);
        let value: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        table.update(&at.to_le_bytes(), &value, MapFlags::ANY)?;
    }
    Ok(())
}
