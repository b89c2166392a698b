//! Names in files, which may share their ends.

/// Names may share their ends in a string table, so that all together are longer than it is; these
/// are how many times, and how long they may be in any case.
const MAX_SHARED: usize = 8;

const MIN_NAMES: usize = 16 << 20;

/// Reads names, but only so many that a file can have without every name being the end of another.
pub(super) struct Names {
    left: usize,
}

impl Names {
    /// In a file of this size.
    pub fn of(size: usize) -> Self {
        Self { left: size.saturating_mul(MAX_SHARED).max(MIN_NAMES) }
    }

    pub fn read(&mut self, name: &[u8]) -> Option<String> {
        self.left = self.left.checked_sub(name.len())?;
        Some(match std::str::from_utf8(name) {
            Ok(name) => name.to_owned(),
            Err(_) => String::from_utf8_lossy(name).into_owned(),
        })
    }
}
