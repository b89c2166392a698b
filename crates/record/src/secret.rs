//! What no guest can guess.

use std::{fs::File, io, io::Read};

/// A number that was never used before.
pub(crate) fn secret() -> io::Result<[u64; 2]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap_or_default());
    Ok([word(low), word(high)])
}
