//! What no guest can guess.

use std::{fs::File, io, io::Read};

/// A number that was never used before.
pub(crate) fn secret() -> io::Result<[u64; 2]> {
    let mut halves = [[0; 8]; 2];
    File::open("/dev/urandom")?.read_exact(halves.as_flattened_mut())?;
    Ok(halves.map(u64::from_le_bytes))
}
