//! What is kept for the next time, and who may have written it: compiled programs are loaded into kernels.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use xweave_bytes::split_le;
use xweave_guard::private::{self, Dir};

use crate::error::Error;

/// Bytes of an object and of what clang said of it.
const ENTRY: u64 = 256 << 20;

/// A cache that is not used.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}; programs in this directory are loaded into kernels, so it has to be safe: repair it, or set XWEAVE_CACHE to another"
)]
pub struct CacheError(private::Error);

/// The [cache's folder](xweave_guard::cache::folder), which is made if it is not there, and is nobody else's to read
/// or write.
///
/// # Errors
/// It cannot be made, is a link, belongs to another user or can be written to by others.
pub fn cache_directory() -> Result<PathBuf, CacheError> {
    let path = xweave_guard::cache::folder();
    open(&path).map_err(CacheError)?;
    Ok(path)
}

/// Opens a folder of the cache, or makes it.
pub(crate) fn open(path: &Path) -> Result<Dir, private::Error> {
    let dir = Dir::create(path)?;
    dir.claim()?;
    Ok(dir)
}

/// What came of a compilation that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub object: Vec<u8>,
    /// What clang said.
    pub log: String,
}

impl Entry {
    /// What is kept under a name; none if nothing is.
    ///
    /// # Errors
    /// Why what is there is not used: somebody else may have written it, or it is not what was kept.
    pub(crate) fn read(dir: &Dir, name: &str) -> Result<Option<Self>, Error> {
        match dir.read(name, ENTRY) {
            Ok(bytes) => match Self::decode(&bytes) {
                Some(entry) => Ok(Some(entry)),
                None => Err(Error::Damaged { path: dir.path_of(name) }),
            },
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps it under a name.
    pub(crate) fn keep(&self, dir: &Dir, name: &str) -> Result<(), private::Error> {
        dir.replace(name, &self.encode())
    }

    /// The hash of all that follows; how long the log is, in eight bytes; the log, the object.
    fn encode(&self) -> Vec<u8> {
        let length = (self.log.len() as u64).to_le_bytes();
        let content = [&length[..], self.log.as_bytes(), &self.object].concat();
        [&Sha256::digest(&content)[..], &content].concat()
    }

    /// A crash may have left half of a file, and a disk anything.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (hash, content) = bytes.split_at_checked(32)?;
        if Sha256::digest(content)[..] != *hash {
            return None;
        }
        let (length, rest) = split_le::<u64>(content)?;
        let (log, object) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        Some(Self { object: object.to_vec(), log: std::str::from_utf8(log).ok()?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, chown, symlink},
    };

    use super::*;

    fn entry() -> Entry {
        Entry { object: vec![0x7f, b'E', b'L', b'F'], log: "warning: ü".to_owned() }
    }

    fn refused(dir: &Dir) -> String {
        Entry::read(dir, "x.advice").unwrap_err().to_string()
    }

    #[test]
    fn what_is_kept_comes_back_or_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let dir = open(&folder.path().join("cache")).unwrap();
        assert_eq!(Entry::read(&dir, "x.advice").unwrap(), None);
        entry().keep(&dir, "x.advice").unwrap();
        assert_eq!(Entry::read(&dir, "x.advice").unwrap(), Some(entry()));
        let path = dir.path_of("x.advice");
        let whole = fs::read(&path).unwrap();
        for nth in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[nth] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert!(refused(&dir).contains("damaged"));
            fs::write(&path, &whole[..nth]).unwrap();
            assert!(Entry::read(&dir, "x.advice").is_err());
        }
        // Somebody else's, in whatever way.
        fs::write(&path, &whole).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o602)).unwrap();
        assert!(refused(&dir).contains("written to by other users"));
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(refused(&dir).contains("is a symbolic link"));
        entry().keep(&dir, "x.advice").unwrap();
        assert_eq!(
            Entry::read(&dir, "x.advice").unwrap(),
            Some(entry()),
            "it is made anew, beside the link's target"
        );
        if chown(&path, Some(65534), None).is_ok() {
            assert!(refused(&dir).contains("belongs to user 65534"));
        } else {
            eprintln!("SKIPPED: only root can give a file away");
        }
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_no_cache() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = CacheError(open(&path).unwrap_err()).to_string();
        assert!(error.contains("written to by other users") && error.contains("XWEAVE_CACHE"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        symlink(&path, folder.path().join("link")).unwrap();
        assert!(open(&folder.path().join("link")).is_err());
        if chown(&path, Some(65534), None).is_ok() {
            assert!(open(&path).unwrap_err().to_string().contains("belongs to user 65534"));
        } else {
            eprintln!("SKIPPED: only root can give a folder away");
        }
    }
}
