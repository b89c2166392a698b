//! Where a program is from, and its index: from the cache, or made anew.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use xweave_code::image::{self, Image};
use xweave_code::types::KernelTypes;
use xweave_code::{Kernel, dwarf};

use crate::{Error, Index, VERSION};

/// A program whose index is wanted.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file; none for the running kernel.
    pub file: Option<PathBuf>,
    /// The kernel that a module's types build on.
    pub base: Option<PathBuf>,
    /// Whether debug information is left aside.
    pub btf_only: bool,
}

impl Source {
    /// The index: from `cache`, a folder, if it is there, else made and put there. `making` is called before
    /// it is made, which takes seconds.
    ///
    /// # Errors
    ///
    /// When the program cannot be read. An index that cannot be kept is used all the same.
    pub fn index(&self, cache: Option<&Path>, making: impl FnOnce()) -> Result<Index, Error> {
        let kept = cache.and_then(|cache| Some(cache.join(format!("{}.index", self.identity()?))));
        if let Some(index) = kept.as_deref().and_then(|kept| Index::open(kept).ok()) {
            return Ok(index);
        }
        making();
        let index = self.make()?;
        if let Some(kept) = kept {
            // Nothing is lost by it but time, the next time.
            let _ = index.write(&kept);
        }
        Ok(index)
    }

    /// Makes the index.
    ///
    /// # Errors
    ///
    /// When the program cannot be read, or nothing is known of its types.
    pub fn make(&self) -> Result<Index, Error> {
        let Some(file) = &self.file else {
            let image = Image::live()?;
            let kernel = KernelTypes::new(&Kernel::live()?);
            return Ok(Index::new(&image, &kernel, None));
        };
        let image = Image::open(file)?;
        let mut types = match (image.btf(), &self.base) {
            (Some(module), Some(base)) => {
                let base = Image::open(base)?;
                let mut kernel = Kernel::new(base.what(), base.btf().unwrap_or_default())?;
                let name = image.functions().iter().find_map(|function| function.module.as_deref());
                kernel.add_module(name.unwrap_or_default(), module)?;
                KernelTypes::new(&kernel)
            }
            (Some(btf), None) => KernelTypes::new(&Kernel::new(image.what(), btf)?),
            (None, _) => KernelTypes::default(),
        };
        let wanted = !self.btf_only && image.debug_section(".debug_info").is_some();
        let debug = match wanted {
            true => Some(dwarf::read(image.what(), |name| image.debug_section(name), &mut types.types)?),
            false => None,
        };
        if image.btf().is_none() && debug.is_none() {
            return Err(Error::Untyped { what: image.what().to_owned() });
        }
        Ok(Index::new(&image, &types, debug.as_ref()))
    }

    /// What tells this program's index from others': the build ID, where there is one.
    fn identity(&self) -> Option<String> {
        let mut hash = Sha256::new();
        hash.update(format!("{} {} ", env!("CARGO_PKG_VERSION"), VERSION));
        hash.update(if self.btf_only { "btf" } else { "all" });
        for file in self.file.iter().chain(&self.base) {
            match image::build_id(file) {
                Some(id) => hash.update(id),
                None => {
                    // Its own content would take longer to read than to look at.
                    let about = fs::metadata(file).ok()?;
                    hash.update(fs::canonicalize(file).ok()?.as_os_str().as_encoded_bytes());
                    hash.update(format!(" {} {:?}", about.len(), about.modified().ok()?));
                }
            }
        }
        if self.file.is_none() {
            // Addresses differ after each boot, and modules come and go.
            hash.update(fs::read("/proc/sys/kernel/random/boot_id").ok()?);
            hash.update(fs::read("/proc/modules").unwrap_or_default());
        }
        let hash: String = hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        let name = match &self.file {
            Some(file) => file.file_name()?.to_string_lossy().into_owned(),
            None => "live".to_owned(),
        };
        Some(format!("{name}-{hash}"))
    }
}
