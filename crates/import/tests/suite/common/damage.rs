//! What becomes of a recorded file on its way.

use proptest::sample::Index;

/// The content with some bytes wrong, each at its place, and then cut behind those that are kept; in three of four cases not
/// at all.
pub fn damaged(
    mut content: Vec<u8>,
    flips: &[(Index, u8)],
    cut: Index,
    kept: usize,
    place: impl Fn(&Index, bool, usize) -> usize,
) -> Vec<u8> {
    let length = content.len();
    for (at, value) in flips {
        content[place(at, value % 2 == 0, length)] = *value;
    }
    content.truncate(cut.index(length * 4).max(kept));
    content
}
