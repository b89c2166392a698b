//! The ring buffers of a set of programs, one for each CPU: `bpf/rings.h` says why.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd},
};

use libbpf_rs::{Map, MapCore, MapFlags, MapHandle, MapType, OpenObject};

/// The prelude's table of them.
pub(crate) const TABLE: &str = "xw_rings";

/// The kernel's smallest ring buffer.
pub(crate) const PAGE: u32 = 4096;

/// Makes room for the ring of each CPU that there may be.
pub(crate) fn size_table(object: &mut OpenObject) -> Result<(), libbpf_rs::Error> {
    let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?).unwrap_or(u32::MAX);
    object.maps_mut().filter(|map| map.name() == TABLE).try_for_each(|mut map| map.set_max_entries(cpus))
}

/// Makes the rings, no larger together than told if that leaves each a page, and puts them into the table. CPUs
/// that are there share the room; those that may come get a page each.
pub(crate) fn fill_table(table: &Map<'_>, buffer: u32) -> Result<Vec<MapHandle>, libbpf_rs::Error> {
    let possible = libbpf_rs::num_possible_cpus()?;
    let online =
        xweave_text::listed(&fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default());
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    let mut rings = Vec::new();
    for (cpu, size) in (0u32..).zip(sizes(buffer, possible, &online)) {
        let ring = MapHandle::create(MapType::RingBuf, Some("xw_ring"), 0, 0, size, &options)?;
        let descriptor = ring.as_fd().as_raw_fd().to_le_bytes();
        table.update(&cpu.to_le_bytes(), &descriptor, MapFlags::ANY)?;
        rings.push(ring);
    }
    Ok(rings)
}

/// The size of each CPU's ring: powers of two.
fn sizes(buffer: u32, possible: usize, online: &[usize]) -> Vec<u32> {
    let is_there = |cpu: &usize| online.is_empty() || online.contains(cpu);
    let there = u32::try_from((0..possible).filter(is_there).count()).unwrap_or(u32::MAX).max(1);
    let absent = u32::try_from(possible).unwrap_or(u32::MAX).saturating_sub(there);
    let share = buffer.saturating_sub(absent.saturating_mul(PAGE)) / there;
    let share = share.checked_ilog2().map_or(PAGE, |power| 1 << power).max(PAGE);
    (0..possible).map(|cpu| if is_there(&cpu) { share } else { PAGE }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_are_there_share_the_buffer() {
        assert_eq!(sizes(1 << 20, 2, &[0, 1]), [1 << 19; 2]);
        assert_eq!(sizes(1 << 20, 3, &[0, 1, 2]), [1 << 18; 3]);
        assert_eq!(sizes(4096, 2, &[0, 1]), [4096; 2], "none has less than a page");
        // One of two may be plugged in later: what it takes is not given to the other.
        assert_eq!(sizes(1 << 20, 2, &[1]), [4096, 1 << 19]);
        assert_eq!(sizes(1 << 20, 2, &[]), [1 << 19; 2], "nothing is known of any");
        let many = sizes(16 << 20, 256, &[0, 1, 2, 3]);
        assert_eq!((many[0], many[255]), (2 << 20, 4096));
        assert!(many.iter().sum::<u32>() <= 16 << 20);
    }
}
