//! Where images are kept: content-keyed entries, each built once, safe against others and against being killed.

use crate::error::{At, Error, Result};
use crate::process::random_hex;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of the images: that of [all caches](xweave_guard::cache::folder).
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A file lock; dropping it releases it, and so does the end of the process.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock; `waiting` is called if another process holds it.
    pub fn acquire(path: &Path, waiting: impl FnOnce()) -> Result<Self> {
        if let Some(lock) = Self::try_acquire(path)? {
            return Ok(lock);
        }
        waiting();
        let file = open_lock(path)?;
        loop {
            // SAFETY: flock takes a descriptor that `file` keeps open.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
                return Ok(Self { _file: file });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error).at("lock", path);
            }
            if xweave_interrupt::pending() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn try_acquire(path: &Path) -> Result<Option<Self>> {
        let file = open_lock(path)?;
        // SAFETY: flock takes a descriptor that `file` keeps open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(Some(Self { _file: file }));
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error).at("lock", path) }
    }
}

fn open_lock(path: &Path) -> Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path).at("open", path)
}

/// The content hash of a recipe: everything that an entry is made from.
#[derive(Clone, Default)]
pub struct Recipe(Sha256);

impl Recipe {
    /// Adds a named ingredient.
    #[must_use]
    pub fn with(mut self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let content = content.as_ref();
        // Lengths keep ("ab", "c") and ("a", "bc") apart.
        for part in [name.as_bytes(), content] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// The key: 16 hexadecimal digits.
    pub fn key(self) -> String {
        xweave_text::hex(&self.0.finalize()[..8])
    }
}

impl Cache {
    /// Opens the cache, creating its folder.
    pub fn open() -> Result<Self> {
        Self::at(xweave_guard::cache::folder())
    }

    /// Opens a cache in a given folder, creating it.
    pub fn at(root: PathBuf) -> Result<Self> {
        fs::create_dir_all(&root).at("create", &root)?;
        // Images are attached and cited by absolute path.
        let root = root.canonicalize().at("open", &root)?;
        let locks = root.join("locks");
        fs::create_dir_all(&locks).at("create", &locks)?;
        Ok(Self { root })
    }

    /// The cache's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the entry `kind-key`, built by `build` into an empty folder if it is not there yet.
    ///
    /// Many processes may ask at once: one builds, the others wait. An entry appears whole (by a
    /// rename) or not at all; what a killed builder left is removed by the next one.
    pub fn entry(
        &self,
        kind: &str,
        key: &str,
        waiting: impl FnOnce(),
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let name = format!("{kind}-{key}");
        let entry = self.root.join(&name);
        if entry.is_dir() {
            return Ok(entry);
        }
        let _lock = Lock::acquire(&self.root.join("locks").join(&name), waiting)?;
        if entry.is_dir() {
            return Ok(entry);
        }
        // Only the lock's holder builds this entry: any such folder is a dead builder's.
        let prefix = format!(".building-{name}-");
        for other in fs::read_dir(&self.root).at("read", &self.root)?.flatten() {
            if other.file_name().to_string_lossy().starts_with(&prefix) {
                remove_leftover(&other.path());
            }
        }
        let work = self.root.join(format!("{prefix}{}", random_hex(4)?));
        fs::create_dir(&work).at("create", &work)?;
        match build(&work) {
            Ok(()) => {
                fs::rename(&work, &entry).at("rename", &work)?;
                Ok(entry)
            }
            Err(error) => {
                // The build's error matters more than one of cleaning up; the next builder cleans anyway.
                let _ = fs::remove_dir_all(&work);
                Err(error)
            }
        }
    }
}

/// Removes what a dead builder left. What cannot be removed is in nobody's way: names are never used twice.
fn remove_leftover(path: &Path) {
    if fs::remove_dir_all(path).is_err() {
        // Files that a build in a user namespace made belong to other numbers; in such a namespace they can go.
        let mut command = Command::new("mmdebstrap");
        let _ =
            command.args(["--unshare-helper", "rm", "-rf", "--"]).arg(path).stderr(Stdio::null()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn keys_depend_on_every_part() {
        let key = |a: &str, b: &str| Recipe::default().with(a, b).key();
        assert_eq!(key("a", "b"), key("a", "b"));
        assert_ne!(key("ab", "c"), key("a", "bc"));
        assert_ne!(key("a", "b"), key("a", "c"));
        assert_eq!(key("a", "b").len(), 16);
    }

    #[test]
    fn an_entry_is_built_once_by_many() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        let built = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let path = cache
                        .entry(
                            "x",
                            "1",
                            || (),
                            |work| {
                                built.fetch_add(1, Ordering::SeqCst);
                                fs::write(work.join("f"), "content").at("write", work)
                            },
                        )
                        .unwrap();
                    assert_eq!(fs::read_to_string(path.join("f")).unwrap(), "content");
                });
            }
        });
        assert_eq!(built.into_inner(), 1);
    }

    #[test]
    fn what_a_dead_builder_left_is_removed_and_a_failed_build_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().to_owned()).unwrap();
        let dead = cache.root().join(".building-x-1-dead");
        let other = cache.root().join(".building-x-12-alive");
        fs::create_dir(&dead).unwrap();
        fs::create_dir(&other).unwrap();
        let failed = cache.entry("x", "1", || (), |_| Err(Error::Interrupted));
        assert!(matches!(failed, Err(Error::Interrupted)));
        assert!(!dead.exists());
        assert!(other.exists(), "another entry's builder may be at work");
        let left: Vec<_> = fs::read_dir(cache.root()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}
