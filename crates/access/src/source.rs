//! Where a program is from, and its index: from the cache, or made anew.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use xweave_code::image::{self, Image};
use xweave_code::types::KernelTypes;
use xweave_code::{Kernel, dwarf};

use crate::{Error, Index, VERSION};

/// Indices that are kept, in a folder: those that were made of files of this machine.
///
/// Their names say what they are of: build IDs in hexadecimal digits, a module's after that of its kernel.
/// So an index that was made of a file is found for the kernel that runs, wherever the file was. An index of what
/// another machine sent must not be kept so: it may call its kernel by any ID.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a>(pub &'a Path);

impl Kept<'_> {
    /// The index of what has these build IDs; with what debug information tells, if there is such.
    pub fn find(self, ids: &[&str]) -> Option<Index> {
        self.open(ids, true).or_else(|| self.open(ids, false))
    }

    /// The index of what has these build IDs, made with debug information or without.
    pub fn open(self, ids: &[&str], debug: bool) -> Option<Index> {
        Index::open(&self.path(ids, debug)?).ok()
    }

    /// Keeps an index. Where that fails nothing is lost but time, the next time.
    pub fn keep(self, ids: &[&str], debug: bool, index: &Index) {
        if let Some(path) = self.path(ids, debug) {
            let _ = index.write(&path);
        }
    }

    fn path(self, ids: &[&str], debug: bool) -> Option<PathBuf> {
        Some(self.0.join(Self::name(ids, debug)?))
    }

    /// The file's name. None if one has no build ID, or it is none: they may be anybody's words.
    pub fn name(ids: &[&str], debug: bool) -> Option<String> {
        let well = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let how = if debug { "dwarf" } else { "types" };
        let version = format!("{}-{VERSION}", env!("CARGO_PKG_VERSION"));
        ids.iter().all(well).then(|| format!("{}-{how}-{version}.index", ids.join("-")))
    }
}

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

/// An index, and what it is of.
struct Made {
    index: Index,
    /// What it is known by. Build IDs, if all have one; for a module, the kernel's and a hash of its types too:
    /// what some distributions load has no build ID.
    ids: Vec<Vec<String>>,
    debug: bool,
}

impl Source {
    /// The index: from `cache`, a folder, if it is there, else made and put there. `making` is called before
    /// it is made, which takes seconds.
    ///
    /// # Errors
    ///
    /// When the program cannot be read. An index that cannot be kept is used all the same.
    pub fn index(&self, cache: Option<&Path>, making: impl FnOnce()) -> Result<Index, Error> {
        if let Some(index) = cache.and_then(|cache| self.kept(cache)) {
            return Ok(index);
        }
        making();
        let made = self.made()?;
        let Some(cache) = cache else { return Ok(made.index) };
        for ids in &made.ids {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            Kept(cache).keep(&ids, made.debug, &made.index);
        }
        // A compressed file must be read to know its build ID.
        if self.quick_ids().is_none()
            && let Some(name) = self.identity()
        {
            let _ = made.index.write(&cache.join(name));
        }
        Ok(made.index)
    }

    fn kept(&self, cache: &Path) -> Option<Index> {
        let Some(ids) = self.quick_ids() else { return Index::open(&cache.join(self.identity()?)).ok() };
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        if !self.btf_only
            && let Some(index) = Kept(cache).open(&ids, true)
        {
            return Some(index);
        }
        let plain = self.btf_only || self.file.as_deref().is_some_and(|file| !image::has_debug_info(file));
        plain.then(|| Kept(cache).open(&ids, false)).flatten()
    }

    /// Makes the index.
    ///
    /// # Errors
    ///
    /// When the program cannot be read, or nothing is known of its types.
    pub fn make(&self) -> Result<Index, Error> {
        self.made().map(|made| made.index)
    }

    fn made(&self) -> Result<Made, Error> {
        let Some(file) = &self.file else {
            let image = Image::live()?;
            let kernel = KernelTypes::new(&Kernel::live()?);
            return Ok(Made { index: Index::new(&image, &kernel, None), ids: Vec::new(), debug: false });
        };
        let image = Image::open(file)?;
        let base = self.base.as_deref().map(Image::open).transpose()?;
        let mut types = match (image.btf(), &base) {
            (Some(module), Some(base)) => {
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
        let id = |image: &Image| image.build_id().map(hex);
        let all: Option<Vec<_>> = base.iter().chain([&image]).map(id).collect();
        let by_types = base.as_ref().zip(image.btf()).and_then(|(base, btf)| {
            let types = hex(&Sha256::digest(btf));
            Some(vec![id(base)?, types])
        });
        let ids = all.into_iter().chain(by_types).collect();
        Ok(Made { index: Index::new(&image, &types, debug.as_ref()), ids, debug: debug.is_some() })
    }

    /// The build IDs, if they can be told at once.
    fn quick_ids(&self) -> Option<Vec<String>> {
        let files = self.base.iter().chain(Some(self.file.as_ref()?));
        files.map(|file| image::build_id(file).map(|id| hex(&id))).collect()
    }

    /// A name that tells what has no build ID from others.
    fn identity(&self) -> Option<String> {
        let mut hash = Sha256::new();
        hash.update(format!("{} {} ", env!("CARGO_PKG_VERSION"), VERSION));
        hash.update(if self.btf_only { "btf" } else { "all" });
        for file in self.file.iter().chain(&self.base) {
            // Its own content would take longer to read than to look at.
            let about = fs::metadata(file).ok()?;
            hash.update(fs::canonicalize(file).ok()?.as_os_str().as_encoded_bytes());
            hash.update(format!(" {} {:?}", about.len(), about.modified().ok()?));
        }
        if self.file.is_none() {
            // Addresses differ after each boot, and modules come and go.
            hash.update(fs::read("/proc/sys/kernel/random/boot_id").ok()?);
            hash.update(fs::read("/proc/modules").unwrap_or_default());
        }
        let name = match &self.file {
            Some(file) => file.file_name()?.to_string_lossy().into_owned(),
            None => "live".to_owned(),
        };
        Some(format!("{name}-{}.index", hex(&hash.finalize()[..12])))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_build_ids_name_files() {
        let kept = Kept("cache".as_ref());
        let path = kept.path(&["ab12", "34"], true).unwrap();
        assert!(path.to_str().unwrap().starts_with("cache/ab12-34-dwarf-"), "{path:?}");
        assert_ne!(kept.path(&["ab"], true), kept.path(&["ab"], false));
        for wrong in [&["ab", ""][..], &["../ab"], &[""]] {
            assert_eq!(kept.path(wrong, true), None);
        }
    }
}
