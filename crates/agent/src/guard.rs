//! The guard of `bpf/guard.h`, which all recordings of a kernel share.
//!
//! Each recording could have its own. Then a program of one could run inside one of another's, which was reached
//! from a helper, and inside that one of a third: with every further recording the stack would be deeper, and
//! there would be many times as many runs. So an agent takes over the guard of an earlier one that still runs.

use std::{fs, mem::size_of};

use libbpf_rs::{MapHandle, MapType, query};

/// The prelude's name of the map. Its layout is this version's: one of another layout has another size.
pub(crate) const MAP: &str = "xw_guard";

/// `struct xw_guard` of the prelude: eight contexts, and the places of what runs in them.
const SIZE: u32 = 8 * 8 + 8 * 4;

/// The guard that is used in this kernel, or a new one.
///
/// # Errors
/// When the kernel makes no map.
pub(crate) fn shared() -> Result<MapHandle, libbpf_rs::Error> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
        ..Default::default()
    };
    // Before looking for another: of two agents that begin at once, one sees the other's, or both see both; and
    // both take the one with the lower number, which was made first.
    let own = MapHandle::create(MapType::PercpuArray, Some(MAP), 4, SIZE, 1, &options)?;
    if !only_privileged_make_maps() {
        return Ok(own);
    }
    let is_guard = |map: &query::MapInfo| {
        map.name == MAP
            && (map.ty, map.key_size, map.value_size, map.max_entries) == (MapType::PercpuArray, 4, SIZE, 1)
    };
    let mut guards: Vec<u32> = query::MapInfoIter::default().filter(is_guard).map(|map| map.id).collect();
    guards.sort_unstable();
    // One that has gone meanwhile is none.
    Ok(guards.into_iter().find_map(|id| MapHandle::from_map_id(id).ok()).unwrap_or(own))
}

/// Whether nobody but root can have made a map of that name: another could stop all recording with it.
fn only_privileged_make_maps() -> bool {
    // Documentation/admin-guide/sysctl/kernel.rst; Debian has 2.
    let setting = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
    setting.is_ok_and(|setting| setting.trim() != "0")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn agents_of_a_kernel_share_one_guard() {
        let id = |map: &MapHandle| libbpf_rs::MapInfo::new(map.as_fd()).map(|info| info.info.id);
        let (first, second) = match (shared(), shared()) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(error), _) | (_, Err(error)) => {
                assert_eq!(error.kind(), libbpf_rs::ErrorKind::PermissionDenied, "{error}");
                eprintln!("SKIPPED: making BPF maps needs root; the guard was not tested");
                return;
            }
        };
        if only_privileged_make_maps() {
            assert_eq!(id(&first).unwrap(), id(&second).unwrap());
        } else {
            assert_ne!(id(&first).unwrap(), id(&second).unwrap());
        }
    }
}
