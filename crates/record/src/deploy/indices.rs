//! Indices of instructions that were made before.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use sha2::{Digest, Sha256};
use xweave_access::IndexCache;
use xweave_guard::private::{self, Dir, Trust};

/// The folder of indices that kernels are woven by. `xweave sites` keeps those of files elsewhere, where whoever made
/// such a file may have written, but where `--for-record` says so.
pub(crate) struct Indices {
    folder: PathBuf,
    /// Where `xweave sites --live` keeps that of the running kernel, and nothing that reads files may write.
    live: PathBuf,
}

/// A file that an index is being written to: gone unless it is kept.
pub(crate) struct Unfinished {
    dir: Option<Dir>,
    name: String,
    /// To be handed on.
    pub(crate) file: File,
}

impl Indices {
    pub(crate) fn new(cache: &Path) -> Self {
        Self { folder: cache.join("access"), live: cache.join(IndexCache::LIVE) }
    }

    /// That of a file of this machine with this build ID; of a module's, after that of its kernel.
    pub(crate) fn of_file(&self, ids: &[&str], debug: bool) -> Option<(File, PathBuf)> {
        self.open(&IndexCache::name(ids, debug)?)
    }

    /// That of all that runs on this machine, which `xweave sites --live` made.
    pub(crate) fn of_this_machine(&self) -> Option<(File, PathBuf)> {
        IndexCache::of_this_machine(&self.live)
    }

    pub(crate) fn open(&self, name: &str) -> Option<(File, PathBuf)> {
        let dir = Dir::open(&self.folder, Trust::Owner).ok()?;
        Some((dir.open_file(name).ok()?, dir.path_of(name)))
    }

    /// A name that nobody asks for but who says all of this again.
    pub(crate) fn name(says: &[&str]) -> String {
        let mut hash = Sha256::new();
        for part in says {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let version = format!("{}-{}", env!("CARGO_PKG_VERSION"), xweave_access::VERSION);
        format!("sent-{}-{version}.index", xweave_text::hex(&hash.finalize()))
    }

    /// A new file for an index.
    pub(crate) fn begin(&self) -> Result<Unfinished, private::Error> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let dir = Dir::create(&self.folder)?;
        let name = format!(".index-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        // One of a process that was killed, and had the same number.
        dir.remove(&name)?;
        let file = dir.create_new(&name)?;
        Ok(Unfinished { dir: Some(dir), name, file })
    }

    /// Removes what was not used for longest, if there is too much.
    pub(crate) fn prune(&self) {
        IndexCache::prune(&self.folder);
    }
}

impl Unfinished {
    /// Keeps it under this name. Gives it, to be read.
    pub(crate) fn keep(mut self, name: &str) -> Result<(File, PathBuf), private::Error> {
        let Some(dir) = self.dir.take() else { unreachable!("it is kept once") };
        let kept = dir.rename(&self.name, name).and_then(|()| Ok((dir.open_file(name)?, dir.path_of(name))));
        self.dir = Some(dir);
        kept
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(dir) = &self.dir {
            // It may have another name by now.
            let _ = dir.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    #[test]
    fn an_index_is_kept_whole_or_not_at_all() {
        let cache = tempfile::tempdir().unwrap();
        let indices = Indices::new(cache.path());
        let mut unfinished = indices.begin().unwrap();
        unfinished.file.write_all(b"part").unwrap();
        drop(unfinished);
        assert_eq!(fs::read_dir(cache.path().join("access")).unwrap().count(), 0);
        let name = Indices::name(&["a", "b"]);
        indices.begin().unwrap().keep(&name).unwrap();
        assert!(indices.open(&name).is_some());
        assert_eq!(fs::read_dir(cache.path().join("access")).unwrap().count(), 1);
        // What is said in other pieces is something else.
        assert_ne!(name, Indices::name(&["ab", ""]));
    }
}
