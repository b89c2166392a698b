//! A domain's kernel that is not asked itself: the running one, or files.

use std::fs;
use std::path::{Path, PathBuf};

use xweave_access::{Index, IndexCache, Keep, Source};
use xweave_code::{
    Kernel,
    image::{self, Image},
};

use crate::CodeIndex;

/// The kernel of this machine, as one says it.
const LIVE: &str = "live";

/// Where a kernel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelFiles {
    /// It runs on this machine.
    Live,
    /// A file with type information, and files of modules.
    Files {
        /// `vmlinux`, or raw BTF.
        image: PathBuf,
        /// The modules.
        modules: Vec<PathBuf>,
    },
    /// A folder laid out like `/sys/kernel/btf`: `vmlinux`, and a file a module.
    Folder(PathBuf),
}

/// Why it is not known what the instructions of a kernel touch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// There are types, and nothing else.
    #[error(
        "{0} has types and no machine code, in which access() and within_file() look: name the kernel's vmlinux \
         instead, with its modules after commas"
    )]
    OnlyTypes(String),
    /// Its code cannot be analysed.
    #[error(transparent)]
    Access(#[from] xweave_access::Error),
}

impl KernelFiles {
    /// Of what a user names: `live`, a folder, or files with commas between.
    pub fn named(what: &str) -> Self {
        if what == LIVE {
            Self::Live
        } else if Path::new(what).is_dir() {
            Self::Folder(what.into())
        } else {
            let mut files = what.split(',').map(PathBuf::from);
            Self::Files { image: files.next().unwrap_or_default(), modules: files.collect() }
        }
    }

    /// What is read; nothing of the running kernel.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let (first, rest) = match self {
            Self::Live => (None, &[][..]),
            Self::Files { image, modules } => (Some(image), &modules[..]),
            Self::Folder(folder) => (Some(folder), &[][..]),
        };
        first.into_iter().chain(rest).map(|path| &**path)
    }

    /// Its types.
    ///
    /// # Errors
    ///
    /// What cannot be read.
    pub fn kernel(&self) -> Result<Kernel, xweave_code::Error> {
        match self {
            Self::Live => Kernel::live(),
            Self::Files { image, modules } => with_modules(image, modules),
            Self::Folder(folder) => {
                let read = |reason| xweave_code::Error::Read { path: folder.display().to_string(), reason };
                let mut modules: Vec<_> =
                    fs::read_dir(folder).map_err(read)?.flatten().map(|entry| entry.path()).collect();
                modules.retain(|module| !module.ends_with("vmlinux"));
                modules.sort();
                with_modules(&folder.join("vmlinux"), &modules)
            }
        }
    }

    /// Whether there is debug information for its code.
    pub fn have_debug_info(&self) -> bool {
        matches!(self, Self::Files { image, .. } if image::has_debug_info(image) && image::has_code(image))
    }

    /// What its functions are called, those included that have no types; none where it is only types that are given.
    pub fn symbols(&self) -> Vec<String> {
        if *self == Self::Live {
            let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
            return symbols
                .lines()
                .filter_map(|line| line.split_whitespace().nth(2))
                .map(str::to_owned)
                .collect();
        }
        let images = self.paths().filter(|path| path.is_file()).filter_map(|path| Image::open(path).ok());
        let names = |image: Image| {
            let functions = image.functions().iter();
            functions.flat_map(|of| of.aliases.iter().chain([&of.name]).cloned()).collect::<Vec<_>>()
        };
        images.flat_map(names).collect()
    }

    /// What its instructions touch. Indices are kept in a folder, by the files' contents; that of the running kernel is
    /// taken from the folder `live`, where it is there already. `making` is told of what one is made.
    ///
    /// # Errors
    ///
    /// [`CodeError`]
    pub fn code(&self, kept: &Path, live: &Path, making: &dyn Fn(&str)) -> Result<Vec<CodeIndex>, CodeError> {
        let index = |file: Option<&PathBuf>, base: Option<&PathBuf>| {
            let what = file.map_or("the running kernel".into(), |file| file.display().to_string());
            let source = Source { file: file.cloned(), base: base.cloned(), btf_only: false };
            source.index(Some(Keep::OfFile(kept)), || making(&what), &|_, _| {})
        };
        let (image, modules) = match self {
            Self::Live => {
                let known = IndexCache::of_this_machine(live);
                let known = known.and_then(|(file, path)| Index::of_file(&path, &file).ok());
                let index = known.map_or_else(|| index(None, None), Ok)?;
                return Ok(vec![CodeIndex { module: None, index }]);
            }
            Self::Files { image, modules } => (image, modules),
            Self::Folder(folder) => return Err(CodeError::OnlyTypes(folder.display().to_string())),
        };
        let mut code = vec![CodeIndex { module: None, index: index(Some(image), None)? }];
        for module in modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = name.split('.').next().unwrap_or_default().replace('-', "_");
            code.push(CodeIndex { module: Some(name), index: index(Some(module), Some(image))? });
        }
        Ok(code)
    }
}

fn with_modules(image: &Path, modules: &[PathBuf]) -> Result<Kernel, xweave_code::Error> {
    let mut kernel = Kernel::from_file(image)?;
    modules.iter().try_for_each(|module| kernel.add_module_file(module))?;
    Ok(kernel)
}
