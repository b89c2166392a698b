//! Why a file cannot be taken over.

use std::{fmt::Display, io, path::Path, sync::Arc};

/// A failure: its kind is stable, for programs; its text says what happened, where and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// Why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is of no kind that is understood, or is not to be used like this.
    Foreign,
    /// The file's content is not what it should be.
    Damaged,
    /// A file cannot be read.
    Io,
    /// Whoever asked for it wants it no more.
    Interrupted,
    /// The trace directory cannot be made or written.
    Trace(xweave_trace::ErrorKind),
}

/// What is understood, for whoever gave something else.
pub const UNDERSTOOD: &str = "what can be imported: trace.dat of trace-cmd (versions 6 and 7), perf.data of perf record (with tracepoints), files of xentrace, directories of LTTng (CTF)";

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
        Self { source: Some(Arc::new(source)), ..self }
    }

    /// The content at byte `at` of a file is wrong.
    pub(crate) fn damaged(at: u64, what: impl Display) -> Self {
        Self::new(ErrorKind::Damaged, format!("at byte {at}: {what}"))
    }

    pub(crate) fn io(what: &str, path: &Path, error: io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("cannot {what} {}: {error}", path.display())).by(error)
    }

    /// Of the file with that name, where the text does not say so yet.
    pub(crate) fn of(self, path: &Path) -> Self {
        let at = path.display();
        let message = match self.kind {
            ErrorKind::Damaged => format!("{at} is damaged {}", self.message),
            ErrorKind::Foreign => format!("{at} {}", self.message),
            ErrorKind::Io | ErrorKind::Interrupted | ErrorKind::Trace(_) => return self,
        };
        Self { message, ..self }
    }
}

impl From<xweave_trace::Error> for Error {
    fn from(error: xweave_trace::Error) -> Self {
        Self::new(ErrorKind::Trace(error.kind()), error.to_string()).by(error)
    }
}
