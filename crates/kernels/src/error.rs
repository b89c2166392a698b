//! Why nothing can be said of a kernel.

use std::io;
use std::path::{Path, PathBuf};

use xweave_weave::Coverage;

/// Why nothing can be said of a kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A kernel cannot be had.
    #[error(transparent)]
    Lab(#[from] xweave_lab::Error),
    /// A kernel's file cannot be read.
    #[error(transparent)]
    Code(#[from] xweave_code::Error),
    /// The library has mistakes, or is damaged.
    #[error(transparent)]
    Library(#[from] xweave_weave::LibraryError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A kernel's part tells something else than the whole.
    #[error("of {kernel}, the part that is kept tells {part:?}; the whole {whole:?}")]
    Pruned {
        /// Its release.
        kernel: String,
        /// What the whole tells.
        whole: Box<Coverage>,
        /// What the part tells.
        part: Box<Coverage>,
    },
    /// The library is compiled for kernels that are no longer to be had.
    #[error(
        "the mirror has no kernel {0}, which the library is compiled for (COMPILED_FOR in crates/programs)"
    )]
    NoLongerOffered(&'static str),
    /// A document has no place for the table.
    #[error("{} has no lines `{begin}` and `{end}`", path.display())]
    NoTable {
        /// The document.
        path: PathBuf,
        /// What the table begins with.
        begin: &'static str,
        /// What it ends with.
        end: &'static str,
    },
    /// A document does not say what is true.
    #[error("{} is not current: `make kernels` writes its table anew", .0.display())]
    Outdated(PathBuf),
}

/// What goes wrong with files.
pub trait At<T> {
    /// Says with which.
    fn at(self, path: &Path) -> Result<T, Error>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::File { path: path.to_owned(), source })
    }
}
