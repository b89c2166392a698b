//! Why nothing could be compiled, or what is kept of it cannot be used.

use std::{io, path::PathBuf};

use xweave_code::bpf::ObjectError;
use xweave_guard::private;

/// Why nothing could be compiled, or what is kept of it cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no compiler.
    #[error(
        "there is no clang in the path, which compiles advice that is not of the library: apt install clang"
    )]
    NoCompiler,
    /// The compiler cannot be started.
    #[error("{program} cannot be run: {source}; is XWEAVE_CLANG right?")]
    Run {
        /// What should be started.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The compiler's object cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The object.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file for the compiler cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The cache, or a file in it, cannot be used: somebody else may have written it.
    #[error("{0}")]
    Cache(#[from] private::Error),
    /// What is kept is not what was.
    #[error("{} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A draft asks for a header that there is not.
    #[error("there is no header {0:?}")]
    NoHeader(String),
    /// C does not compile: what the compiler says.
    #[error("{0}")]
    C(String),
    /// A structure cannot be compiled for several kernels.
    #[error("the probes read a bit-field of `{0}`, which cannot be relocated")]
    BitField(String),
    /// An object is damaged, or does not have what it should.
    #[error("a compiled object cannot be used: {0}")]
    Object(#[from] ObjectError),
}
