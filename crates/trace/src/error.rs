//! What can go wrong with a trace directory.

use std::{error::Error as _, io, path::Path};

use parquet::errors::ParquetError;
use xweave_guard::private;

/// A failure: its kind is stable, for programs; its text says what happened, where and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The directory is no trace.
    NotATrace,
    /// The trace was written by a later xweave, with a schema this one does not know.
    NewerSchema,
    /// A file's content is not what it should be.
    Damaged,
    /// No room for more: the disk, a quota or a file size limit is exhausted.
    DiskFull,
    /// There is a trace already where one is to be made, or something else.
    Exists,
    /// It belongs to another user, or others can write to it.
    Distrusted,
    /// The caller asked for what cannot be.
    Misuse,
    /// Any other failure of the file system.
    Io,
}

impl Error {
    /// Why, for programs.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same, by that: what it says is in the text already.
    pub(crate) fn by(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// A failure on the way to write a trace: what to do is to name another directory.
    pub(crate) fn output(error: private::Error) -> Self {
        if let private::Error::Io { what, path, error: cause } = &error {
            return Self::io(what, path, cause).by(error);
        }
        let kind = if error.is_distrust() { ErrorKind::Distrusted } else { ErrorKind::Exists };
        let hint = match error {
            private::Error::Writable { .. } => {
                "take that from them (chmod go-w), or name another directory with -o"
            }
            _ => "name another directory with -o",
        };
        Self::new(kind, format!("{error}; {hint}")).by(error)
    }

    /// A failure on the way to read a trace.
    pub(crate) fn input(error: private::Error) -> Self {
        let told = match &error {
            private::Error::Io { error: cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
                let hint = "a trace is its owner's alone: read it as that user, or as root";
                Self::new(ErrorKind::Io, format!("{error}; {hint}"))
            }
            private::Error::Io { what, path, error } => Self::io(what, path, error),
            _ if error.is_distrust() => {
                let hint = "what it says may be anything; --force reads it all the same";
                Self::new(ErrorKind::Distrusted, format!("{error}; {hint}"))
            }
            _ => Self::new(ErrorKind::Damaged, error.to_string()),
        };
        told.by(error)
    }

    /// A failure inside the Parquet library while writing `path`: a system call's, most likely.
    pub(crate) fn write(path: &Path, error: ParquetError) -> Self {
        match error.source().and_then(|source| source.downcast_ref()) {
            Some(cause) => Self::io("write", path, cause),
            None => Self::new(ErrorKind::Io, format!("cannot write {}: {error}", path.display())),
        }
        .by(error)
    }

    /// A failed system call on `path`; `what` completes "cannot …".
    fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        let at = path.display();
        if is_full(error) {
            let hint = "data flushed so far is readable: free some space, or record to another disk with -o";
            return Self::new(ErrorKind::DiskFull, format!("cannot {what} {at}: {error}; {hint}"));
        }
        Self::new(ErrorKind::Io, format!("cannot {what} {at}: {error}"))
    }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
