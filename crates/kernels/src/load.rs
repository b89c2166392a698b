//! Kernels of a Debian mirror, and what their type information says.

use std::path::{Path, PathBuf};
use std::{fs, io};

use xweave_code::Kernel;
use xweave_code::image::Image;
use xweave_lab::{Flavour, KernelFiles, Kernels, Progress};

use crate::error::{At as _, Error};

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

/// What the image's file is called.
const IMAGE: &str = "vmlinux";

/// Loads the newest kernel of each series that the mirror has, of each flavour, the oldest first, and hands each to `take`.
pub fn load_all(
    kernels: &Kernels<'_>,
    progress: Progress<'_>,
    take: &mut dyn FnMut(Kernel) -> Result<(), Error>,
) -> Result<(), Error> {
    for flavour in Flavour::ALL {
        for kernel in kernels.newest_of_each_series(flavour, progress)? {
            let folder = kernels.extract(&kernel, "btf", progress, extract)?;
            take(load(kernel.release(), &folder)?)?;
        }
    }
    Ok(())
}

/// Writes the type information of a kernel's image and of the modules that matter, as files of a folder that is laid out as
/// `/sys/kernel/btf` is.
fn extract(files: &KernelFiles, folder: &Path) -> io::Result<()> {
    fs::write(folder.join(IMAGE), btf_of(&files.vmlinuz)?)?;
    for (name, path) in find_modules(&files.modules)? {
        fs::write(folder.join(name), btf_of(&path)?)?;
    }
    Ok(())
}

/// Reads such a folder.
fn load(release: &str, folder: &Path) -> Result<Kernel, Error> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).at(&path)
    };
    let mut kernel = Kernel::new(release, &read(IMAGE)?)?;
    for name in MODULES.map(|name| name.replace('-', "_")) {
        if folder.join(&name).exists() {
            kernel.add_module(&name, &read(&name)?)?;
        }
    }
    Ok(kernel)
}

/// The raw BTF of an image or a module.
fn btf_of(path: &Path) -> io::Result<Vec<u8>> {
    let image = Image::open(path).map_err(io::Error::other)?;
    let missing = || io::Error::other(format!("{} has no type information (BTF)", path.display()));
    image.btf().map(<[u8]>::to_vec).ok_or_else(missing)
}

/// The files of those modules, by the modules' names, in their order.
fn find_modules(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
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
