//! Errors of `make kernels`.

use std::io;
use std::path::{Path, PathBuf};

use xweave_weave::Coverage;

/// Errors of `make kernels`.
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
        /// The operating system's reason.
        source: io::Error,
    },
    /// The pruned type information of a kernel gives another result than the full one.
    #[error("{kernel}: the pruned type information gives {part:?}, the full one {whole:?}")]
    Pruned {
        /// Its release.
        kernel: String,
        /// The result for the full type information.
        whole: Box<Coverage>,
        /// The result for the pruned type information.
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
        /// The line before the table.
        begin: &'static str,
        /// The line after it.
        end: &'static str,
    },
}

/// Errors of files, with the file's name.
pub trait At<T> {
    /// Adds the path to an error.
    fn at(self, path: &Path) -> Result<T, Error>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::File { path: path.to_owned(), source })
    }
}
