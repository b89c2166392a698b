//! Files that a user names.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a regular file, also through a link. A pipe would keep its reader waiting, and a device has no end.
///
/// # Errors
///
/// It is not there, cannot be read, or is no regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a directory, a pipe or a device, and no file",
        ));
    }
    File::open(path)
}
