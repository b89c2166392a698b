//! Where a program is from, and its index: from the cache, or made anew.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use xweave_code::image::{self, Image};
use xweave_code::types::KernelTypes;
use xweave_code::{Kernel, dwarf};
use xweave_guard::cache;
use xweave_guard::private::{Dir, Trust};
use xweave_text::hex;

use crate::analysis::Tell;
use crate::{Error, Index, VERSION};

/// What a folder of indices keeps, in bytes.
const ALL: u64 = 4 << 30;
/// How many.
const FILES: usize = 1024;

/// A folder of indices. What another user of the machine may have written is passed over, and made anew.
///
/// An index of build IDs is named by them, a module's after that of its kernel: so it is found for the kernel that
/// runs, wherever the file was that it was made of. Whoever keeps one so trusts the file ([`Keep::OfBuild`]).
#[derive(Clone, Copy, Debug)]
pub struct IndexCache<'a>(&'a Path);

impl IndexCache<'_> {
    /// The folder, within the cache's, of what runs on this machine. Kernels are woven by it, so that nothing that reads
    /// files may write there: such a file may have taken it over.
    pub const LIVE: &'static str = "live";

    fn open(self, ids: &[&str], debug: bool) -> Option<Index> {
        self.read(&Self::name(ids, debug)?)
    }

    /// Keeps an index. Where that fails nothing is lost but time, the next time.
    fn keep(self, ids: &[&str], debug: bool, index: &Index) {
        if let Some(name) = Self::name(ids, debug) {
            self.write(&name, index);
        }
    }

    /// The file's name: of what has these build IDs, with what debug information tells or without. None if one has no
    /// build ID, or it is none: they may be anybody's words.
    pub fn name(ids: &[&str], debug: bool) -> Option<String> {
        let well = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let how = if debug { "dwarf" } else { "types" };
        let version = format!("{}-{VERSION}", env!("CARGO_PKG_VERSION"));
        ids.iter().all(well).then(|| format!("{}-{how}-{version}.index", ids.join("-")))
    }

    /// The file of what runs on this machine, kernel and modules, which [`Source::index`] kept in a folder since it
    /// booted and since a module was loaded or unloaded last.
    pub fn of_this_machine(folder: &Path) -> Option<(File, PathBuf)> {
        let name = Source { file: None, base: None, btf_only: false }.identity()?;
        let dir = Dir::open(folder, Trust::Owner).ok()?;
        Some((dir.open_file(&name).ok()?, dir.path_of(&name)))
    }

    fn read(self, name: &str) -> Option<Index> {
        Index::open(&Dir::open(self.0, Trust::Owner).ok()?, name).ok()
    }

    fn write(self, name: &str, index: &Index) {
        let Ok(folder) = Dir::create(self.0) else { return };
        if folder.claim().is_ok() && index.write(&folder, name).is_ok() {
            Self::prune(self.0);
        }
    }

    /// Removes from a folder of indices what was made longest ago, those of older versions of xweave among it, if there is
    /// too much.
    pub fn prune(folder: &Path) {
        cache::prune(folder, FILES, ALL);
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

impl Made {
    /// Of an image; `base` is that of the kernel which its types build on, `btf_only` leaves debug information aside.
    fn of(image: &Image, base: Option<&Image>, btf_only: bool, tell: Tell<'_>) -> Result<Self, Error> {
        let mut types = match (image.btf(), base) {
            (Some(module), Some(base)) => {
                let mut kernel = Kernel::new(base.what(), base.btf().unwrap_or_default())?;
                let name = image.functions().iter().find_map(|function| function.module.as_deref());
                kernel.add_module(name.unwrap_or_default(), module)?;
                KernelTypes::new(&kernel)
            }
            (Some(btf), None) => KernelTypes::new(&Kernel::new(image.what(), btf)?),
            (None, _) => KernelTypes::default(),
        };
        let wanted = !btf_only && image.debug_section(".debug_info").is_some();
        let debug = match wanted {
            true => Some(dwarf::read(image.what(), |name| image.debug_section(name), &mut types.types)?),
            false => None,
        };
        if image.btf().is_none() && debug.is_none() {
            return Err(Error::Untyped { what: image.what().to_owned() });
        }
        let id = |image: &Image| image.build_id().map(hex);
        let all: Option<Vec<_>> = base.into_iter().chain([image]).map(id).collect();
        let by_types = base.zip(image.btf()).and_then(|(base, btf)| {
            let types = hex(&Sha256::digest(btf));
            Some(vec![id(base)?, types])
        });
        let ids = all.into_iter().chain(by_types).collect();
        Ok(Self { index: Index::telling(image, &types, debug.as_ref(), tell), ids, debug: debug.is_some() })
    }
}

/// The index of a kernel's file that is open, which messages call `what`; `tell` is told how far that has come.
///
/// # Errors
///
/// When it cannot be read, or nothing is known of its types.
pub fn index_kernel_file(what: &str, file: &File, tell: Tell<'_>) -> Result<Index, Error> {
    Made::of(&Image::from_file(what, file)?, None, false, tell).map(|made| made.index)
}

/// Where an index is kept, and who may use it.
#[derive(Clone, Copy, Debug)]
pub enum Keep<'a> {
    /// In this folder, for whoever asks of the very same file: a file may lie about which kernel it is.
    OfFile(&'a Path),
    /// In this folder, under the build ID that the file says it has, where it serves any kernel with that build ID: of a
    /// file that is trusted.
    OfBuild(&'a Path),
}

impl Source {
    /// The index: kept, if it is there, else made and kept. `making` is called before it is made, which takes seconds; `tell`
    /// then says how far that is.
    ///
    /// # Errors
    ///
    /// When the program cannot be read. An index that cannot be kept is used all the same.
    pub fn index(
        &self,
        keep: Option<Keep<'_>>,
        making: impl FnOnce(),
        tell: Tell<'_>,
    ) -> Result<Index, Error> {
        if let Some(index) = keep.and_then(|keep| self.kept(keep)) {
            return Ok(index);
        }
        let before = self.identity();
        making();
        let made = self.made(tell)?;
        match keep {
            None => {}
            Some(Keep::OfFile(folder)) => {
                // What changed meanwhile, as when a module was loaded, may have been read as it was before or is now.
                if let Some(name) = self.identity().filter(|after| before.as_ref() == Some(after)) {
                    IndexCache(folder).write(&name, &made.index);
                }
            }
            Some(Keep::OfBuild(folder)) => {
                for ids in &made.ids {
                    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                    IndexCache(folder).keep(&ids, made.debug, &made.index);
                }
            }
        }
        Ok(made.index)
    }

    fn kept(&self, keep: Keep<'_>) -> Option<Index> {
        let folder = match keep {
            Keep::OfFile(folder) => return IndexCache(folder).read(&self.identity()?),
            Keep::OfBuild(folder) => folder,
        };
        // A compressed file must be read to know its build ID.
        let ids = self.quick_ids()?;
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        if !self.btf_only
            && let Some(index) = IndexCache(folder).open(&ids, true)
        {
            return Some(index);
        }
        let plain = self.btf_only || self.file.as_deref().is_some_and(|file| !image::has_debug_info(file));
        plain.then(|| IndexCache(folder).open(&ids, false)).flatten()
    }

    /// Makes the index.
    ///
    /// # Errors
    ///
    /// When the program cannot be read, or nothing is known of its types.
    pub fn make(&self) -> Result<Index, Error> {
        self.made(&|_, _| {}).map(|made| made.index)
    }

    fn made(&self, tell: Tell<'_>) -> Result<Made, Error> {
        let Some(file) = &self.file else {
            let image = Image::live()?;
            let kernel = KernelTypes::new(&Kernel::live()?);
            return Ok(Made {
                index: Index::telling(&image, &kernel, None, tell),
                ids: Vec::new(),
                debug: false,
            });
        };
        let image = Image::open(file)?;
        let base = self.base.as_deref().map(Image::open).transpose()?;
        Made::of(&image, base.as_ref(), self.btf_only, tell)
    }

    /// The build IDs, if they can be told at once.
    fn quick_ids(&self) -> Option<Vec<String>> {
        let files = self.base.iter().chain(Some(self.file.as_ref()?));
        files.map(|file| image::build_id(file).map(|id| hex(&id))).collect()
    }

    /// A name that tells a file from others, and from what it was before, under which its index is kept: where it lies, its size, when it was changed.
    pub fn identity(&self) -> Option<String> {
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
            hash.update(modules(&fs::read_to_string("/proc/modules").unwrap_or_default()));
        }
        let name = match &self.file {
            Some(file) => file.file_name()?.to_string_lossy().into_owned(),
            None => "live".to_owned(),
        };
        Some(format!("{name}-{}.index", hex(&hash.finalize()[..12])))
    }
}

/// What of /proc/modules tells which are loaded, and where: how many use them changes all the time.
fn modules(text: &str) -> String {
    let identity = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let field = |nth: usize| fields.get(nth).copied().unwrap_or_default();
        format!("{} {} {}\n", field(0), field(1), field(5))
    };
    text.lines().map(identity).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn modules_are_the_same_whoever_uses_them() {
        let text = |users: &str, address: &str| {
            format!("kvm 1146880 {users} Live 0x{address}\ntun 61440 0 - Live 0xffffffffc0100000\n")
        };
        let idle = modules(&text("0 -", "ffffffffc0200000"));
        assert_eq!(idle, "kvm 1146880 0xffffffffc0200000\ntun 61440 0xffffffffc0100000\n");
        assert_eq!(idle, modules(&text("8 kvm_amd,", "ffffffffc0200000")));
        assert_ne!(idle, modules(&text("0 -", "ffffffffc0300000")));
    }

    #[test]
    fn only_build_ids_name_files() {
        assert!(IndexCache::name(&["ab12", "34"], true).unwrap().starts_with("ab12-34-dwarf-"));
        assert_ne!(IndexCache::name(&["ab"], true), IndexCache::name(&["ab"], false));
        for wrong in [&["ab", ""][..], &["../ab"], &[""]] {
            assert_eq!(IndexCache::name(wrong, true), None);
        }
    }

    #[test]
    fn what_others_may_have_written_is_no_index() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access");
        let kept = IndexCache(&path);
        let words = [u32::from_le_bytes(*b"xwai"), VERSION].into_iter().chain([0; 64]);
        let empty: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let index = Index::from_bytes("empty", empty).unwrap();
        kept.keep(&["ab"], false, &index);
        let file = path.join(IndexCache::name(&["ab"], false).unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&file)), (0o700, 0o600));
        assert!(kept.open(&["ab"], false).is_some());
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(&file, 0o620);
        assert!(kept.open(&["ab"], false).is_none());
        // It is made anew, and the link is not followed.
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "precious").unwrap();
        fs::remove_file(&file).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert!(kept.open(&["ab"], false).is_none());
        kept.keep(&["ab"], false, &index);
        assert!(kept.open(&["ab"], false).is_some());
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
        set(&path, 0o777);
        assert!(kept.open(&["ab"], false).is_none());
        if chown(&path, Some(65534), None).is_ok() {
            set(&path, 0o700);
            assert!(kept.open(&["ab"], false).is_none());
        } else {
            eprintln!("SKIPPED: only root can give a folder away");
        }
    }
}
