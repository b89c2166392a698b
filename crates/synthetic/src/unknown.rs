//! Kernels that nobody prepared for.

/// Renames a member, a function or a type in a kernel's type information (BTF): its first letter becomes a `Z`.
///
/// # Panics
///
/// If the name is not there exactly once.
pub fn rename(types: &mut [u8], name: &str) {
    let text = [b"\0", name.as_bytes(), b"\0"].concat();
    let places: Vec<usize> =
        types.windows(text.len()).enumerate().filter(|(_, found)| *found == text).map(|(at, _)| at).collect();
    assert_eq!(places.len(), 1, "how often {name} is there");
    types[places[0] + 1] = b'Z';
}
