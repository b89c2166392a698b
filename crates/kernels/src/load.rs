//! Kernels of a Debian mirror, and what their type information says.

use std::path::Path;
use std::{fs, io};

use xweave_code::Kernel;
use xweave_lab::{Flavour, KernelFiles, Kernels, Progress};
use xweave_programs::modules;

use crate::error::{At as _, Error};

/// File name of the kernel image's type information.
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
    fs::write(folder.join(IMAGE), modules::read_types(&files.vmlinuz)?)?;
    for (name, path) in modules::find(&files.modules)? {
        fs::write(folder.join(name), modules::read_types(&path)?)?;
    }
    Ok(())
}

/// Reads a folder that `extract` wrote.
fn load(release: &str, folder: &Path) -> Result<Kernel, Error> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).at(&path)
    };
    let mut kernel = Kernel::new(release, &read(IMAGE)?)?;
    for name in modules::names() {
        if folder.join(&name).exists() {
            kernel.add_module(&name, &read(&name)?)?;
        }
    }
    Ok(kernel)
}
