//! The modules that the library weaves into, and their files.

use std::path::{Path, PathBuf};
use std::{fs, io};

use xweave_code::image::Image;

/// The modules that the library weaves into, besides the kernel's image. A kernel may have them built in, or not at all.
const MODULES: [&str; 25] = [
    "bridge",
    "ext4",
    "ipv6",
    "irqbypass",
    "kvm",
    "kvm-amd",
    "kvm-intel",
    "macvtap",
    "scsi_mod",
    "sd_mod",
    "tap",
    "tun",
    "udp_tunnel",
    "vhost",
    "vhost_iotlb",
    "vhost_net",
    "virtio",
    "virtio_blk",
    "virtio_net",
    "virtio_ring",
    "virtio_scsi",
    "xen-blkback",
    "xen-blkfront",
    "xen-netback",
    "xen-netfront",
];

/// The names of those modules, as the kernel has them.
pub fn names() -> impl Iterator<Item = String> {
    MODULES.iter().map(|name| name.replace('-', "_"))
}

/// Reads the raw BTF of an image or a module.
///
/// # Errors
///
/// It cannot be read, or has none.
pub fn read_types(path: &Path) -> io::Result<Vec<u8>> {
    let image = Image::open(path).map_err(io::Error::other)?;
    let missing = || io::Error::other(format!("{} has no type information (BTF)", path.display()));
    image.btf().map(<[u8]>::to_vec).ok_or_else(missing)
}

/// Finds the files of those modules in a folder `/lib/modules/RELEASE`, with the modules' names, in the names' order.
///
/// # Errors
///
/// A folder cannot be read.
pub fn find(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut left = vec![folder.join("kernel")];
    while let Some(folder) = left.pop() {
        for path in fs::read_dir(&folder)?.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let name = file.split_once(".ko").map_or("", |(name, _)| name);
            if MODULES.contains(&name) {
                found.push((name.replace('-', "_"), path));
            }
        }
    }
    found.sort();
    Ok(found)
}
