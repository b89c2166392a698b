//! The file that a trace is exported to: written whole or not at all.

use std::{
    io::BufWriter,
    path::{Path, PathBuf},
};

use xweave_flow::Join;
use xweave_guard::private::{self, Found, Growing};
use xweave_model::Spec;
use xweave_trace::Trace;

use crate::{Phase, Written, perfetto};

/// Bytes that are buffered before they are written to the file.
const BUFFER: usize = 1 << 18;

/// Why a file is not written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file with that name exists.
    #[error("{} exists already: replace it with --force, or name another file with -o", .0.display())]
    Exists(PathBuf),
    /// A folder, link or device with that name exists.
    #[error("{} is there, and is no file: name a file with -o", .0.display())]
    NoFile(PathBuf),
    /// The file cannot be created or written.
    #[error("cannot write {}: {reason}; name another file with -o", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason, for people.
        reason: String,
    },
}

/// Checks that a file may be written; an existing one only if `replace`.
///
/// # Errors
/// [`FileError::Exists`] and [`FileError::NoFile`].
pub fn check(path: &Path, replace: bool) -> Result<(), FileError> {
    match (private::look_at(path), replace) {
        (None, _) | (Some(Found::File), true) => Ok(()),
        (Some(Found::File), false) => Err(FileError::Exists(path.to_owned())),
        (Some(Found::Other), _) => Err(FileError::NoFile(path.to_owned())),
    }
}

/// Writes a trace as [`perfetto`] does, whole or not at all: a file of that name is replaced when all is written.
///
/// # Errors
/// [`FileError::Write`].
pub fn write_perfetto<'t>(
    trace: &'t Trace,
    join: impl FnOnce() -> Join<'t>,
    spec: Option<&Spec>,
    path: &Path,
    progress: &mut dyn FnMut(Phase),
) -> Result<Written, FileError> {
    let failed =
        |error: &dyn std::fmt::Display| FileError::Write { path: path.to_owned(), reason: error.to_string() };
    let file = Growing::create(path).map_err(|error| failed(&error))?;
    let mut file = BufWriter::with_capacity(BUFFER, file);
    let written = perfetto(trace, join, spec, &mut file, progress).map_err(|error| failed(&error))?;
    let file = file.into_inner().map_err(|error| failed(&error))?;
    file.finish().map_err(|error| failed(&error))?;
    Ok(written)
}

/// Writes text, whole or not at all.
///
/// # Errors
/// [`FileError::Write`].
pub fn write_text(path: &Path, text: &str) -> Result<(), FileError> {
    private::write_file(path, text.as_bytes())
        .map_err(|error| FileError::Write { path: path.to_owned(), reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn existing_file_is_replaced_only_on_request_and_other_kinds_never() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("trace.pftrace");
        check(&file, false).unwrap();
        fs::write(&file, "old").unwrap();
        let refused = check(&file, false).unwrap_err().to_string();
        assert!(refused.contains("--force"), "{refused}");
        check(&file, true).unwrap();
        assert!(matches!(check(dir.path(), true), Err(FileError::NoFile(_))));
        std::os::unix::fs::symlink(&file, dir.path().join("link")).unwrap();
        assert!(matches!(check(&dir.path().join("link"), true), Err(FileError::NoFile(_))));
    }
}
