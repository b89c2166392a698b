//! Type information that was received before, by the hash of its bytes.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use xweave_guard::{
    cache,
    private::{Dir, Trust},
};

/// The largest that is kept: no larger one is received.
const MOST: u64 = 64 << 20;

/// What is kept in all: some hundred kernels with their modules.
const ALL: u64 = 1 << 30;
const FILES: usize = 8192;

/// A folder of files that are named by the hashes of what is in them. It is a convenience: what cannot be kept is asked
/// for again.
pub(crate) struct Types(PathBuf);

impl Types {
    pub(crate) fn new(cache: &Path) -> Self {
        Self(cache.join("btf"))
    }

    /// What has this hash, and has it still. An agent says which hash: whoever sent it first, it is what it is called.
    pub(crate) fn get(&self, hash: &str) -> Option<Vec<u8>> {
        let well = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let bytes = Dir::open(&self.0, Trust::Owner).ok().filter(|_| well)?.read(hash, MOST).ok()?;
        (name(&bytes) == hash).then_some(bytes)
    }

    /// Keeps what a confined process could read.
    pub(crate) fn keep(&self, bytes: &[u8]) {
        if let Ok(dir) = Dir::create(&self.0) {
            // A full disk here must not stop a recording that goes elsewhere.
            let _ = dir.replace(&name(bytes), bytes);
            cache::prune(&self.0, FILES, ALL);
        }
    }
}

fn name(bytes: &[u8]) -> String {
    xweave_text::hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_found_under_the_hash_of_something_else() {
        let cache = tempfile::tempdir().unwrap();
        let types = Types::new(cache.path());
        let (good, bad) = (b"types".as_slice(), b"others".as_slice());
        types.keep(good);
        assert_eq!(types.get(&name(good)).as_deref(), Some(good));
        // Whoever could write there could not have it believed.
        std::fs::write(cache.path().join("btf").join(name(good)), bad).unwrap();
        assert_eq!(types.get(&name(good)), None);
        for wrong in ["", "../btf", &name(good)[1..], &name(good).to_uppercase()] {
            assert_eq!(types.get(wrong), None, "{wrong}");
        }
    }
}
