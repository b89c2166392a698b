//! What the fuzz targets share: an input of several parts, and the seeds that runs begin from.

pub mod aspects;
pub mod seeds;

use std::path::PathBuf;

/// Between the parts of an input. It is found, not counted, so that most mutations leave the parts as they are.
const SEPARATOR: &[u8] = b"\xffPART\xff";

/// The parts of an input, of which there are always so many: what is missing is empty.
pub fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut rest = data;
    std::array::from_fn(|nth| {
        let found = rest.windows(SEPARATOR.len()).position(|there| there == SEPARATOR);
        let (part, after) = match found.filter(|_| nth + 1 < N) {
            Some(at) => (&rest[..at], &rest[at + SEPARATOR.len()..]),
            None => (rest, &[][..]),
        };
        rest = after;
        part
    })
}

/// The reverse of [`parts`].
pub fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.join(SEPARATOR)
}

/// A folder of this process: `scripts/fuzz` has `TMPDIR` in memory, and deletes it afterwards.
pub fn scratch() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("xweave-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}
