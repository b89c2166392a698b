//! Where an image's bytes lie: in its file, mapped, or in memory of our own. Either is shared by all
//! who hold a part of it.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::Error;
use crate::regular::open_regular;

enum Storage {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

/// A part of a file, or of memory.
#[derive(Clone)]
pub(super) struct Bytes {
    of: Arc<Storage>,
    range: Range<usize>,
}

impl Bytes {
    /// A whole file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let what = path.display().to_string();
        match open_regular(path) {
            Ok(file) => Self::of_file(&what, &file),
            Err(reason) => Err(Error::Read { path: what, reason }),
        }
    }

    /// A whole file that is open, which messages call `what`.
    pub fn of_file(what: &str, file: &File) -> Result<Self, Error> {
        let fail = |reason| Error::Read { path: what.to_owned(), reason };
        if file.metadata().map_err(fail)?.len() == 0 {
            return Ok(Self::from(Vec::new()));
        }
        // SAFETY: the map is only read, and as bytes, which may have any value. What replaces kernels
        // and programs does so under a new inode; a file that is cut short in place nevertheless ends
        // this process with a signal, but never makes it read what is not the file's.
        let map = unsafe { Mmap::map(file) }.map_err(fail)?;
        let range = 0..map.len();
        Ok(Self { of: Arc::new(Storage::Mapped(map)), range })
    }

    /// A part of these; none if they end before.
    pub fn part(&self, offset: u64, size: u64) -> Option<Self> {
        let start = self.range.start.checked_add(usize::try_from(offset).ok()?)?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        (end <= self.range.end).then(|| Self { of: Arc::clone(&self.of), range: start..end })
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { of: Arc::new(Storage::Owned(bytes)), range }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match self.of.as_ref() {
            Storage::Mapped(map) => map,
            Storage::Owned(bytes) => bytes,
        };
        all.get(self.range.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_reach_beyond_the_whole() {
        let whole = Bytes::from(vec![0, 1, 2, 3, 4]);
        let part = whole.part(1, 3).unwrap();
        assert_eq!(*part, [1, 2, 3]);
        assert_eq!(*part.part(3, 0).unwrap(), []);
        assert!(part.part(1, 3).is_none());
        assert!(part.part(u64::MAX, 1).is_none() && part.part(1, u64::MAX).is_none());
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        assert!(Bytes::open(Path::new("/nonexistent")).is_err());
        assert!(Bytes::open(Path::new("/")).is_err());
        assert!(Bytes::open(Path::new("/dev/zero")).is_err());
        assert!(Bytes::open(tempfile::NamedTempFile::new().unwrap().path()).unwrap().is_empty());
    }
}
