//! Inputs of several parts.

/// Separator between the parts of an input. Parts are separated by a marker, not by lengths, so that most mutations
/// leave their boundaries intact.
const SEPARATOR: &[u8] = b"\xffPART\xff";

/// Splits an input into `N` parts. Missing parts are empty.
pub fn split_parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut rest = input;
    std::array::from_fn(|nth| {
        let found = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        let (part, after) = match found.filter(|_| nth + 1 < N) {
            Some(at) => (&rest[..at], &rest[at + SEPARATOR.len()..]),
            None => (rest, &[][..]),
        };
        rest = after;
        part
    })
}

/// Joins parts into an input: the reverse of [`split_parts`].
pub fn join_parts(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.join(SEPARATOR)
}
