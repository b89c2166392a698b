//! Why a soak cannot go on. What harms a kernel is no error: that is what it looks for.

use std::{io, path::PathBuf};

/// The soak failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lab did.
    #[error(transparent)]
    Lab(#[from] xweave_lab::Error),
    /// A file could not be used.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// The verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A state file is not one.
    #[error("{path} holds no state of a soak: {source}; begin anew with FRESH=1", path = path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A state is another kernel's.
    #[error("{path} is of kernel {of}, and this is {now}: begin anew with FRESH=1", path = path.display())]
    OtherKernel {
        /// The state file.
        path: PathBuf,
        /// The release that it is of.
        of: String,
        /// The release now.
        now: String,
    },
    /// A command that has to work did not.
    #[error("{doing} failed: {said}")]
    Failed {
        /// What was to be done.
        doing: String,
        /// What was said.
        said: String,
    },
    /// The same, by an error that is known here.
    #[error("{doing} failed: {source}")]
    FailedBy {
        /// What was to be done.
        doing: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A failure of `doing`.
    pub fn by(doing: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::FailedBy { doing: doing.to_owned(), source: source.into() }
    }
}

/// Puts what was done to which file into an error.
pub trait At<T> {
    /// `what` is the verb.
    fn at(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::Io { what, path: path.into(), source })
    }
}
