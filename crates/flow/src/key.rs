//! The key of a message: what those of one call have in common.

use std::fmt;

use xweave_text as text;
use xweave_trace::Event;

/// What messages of one call have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Of all of it.
    pub hash: u64,
    /// Its first bytes, to be shown: 0 where it ends.
    pub begins: [u8; 8],
}

impl Key {
    /// What an event tells of a message.
    pub fn of(event: &Event) -> Self {
        Self { hash: event.object, begins: event.position.to_le_bytes() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.begins.iter().position(|&byte| byte == 0);
        let shown = text::printable_bytes(&self.begins[..end.unwrap_or(self.begins.len())], usize::MAX);
        // Many begin alike.
        write!(f, "{shown}{} #{:04x}", if end.is_none() { "…" } else { "" }, self.hash & 0xffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_without_what_a_terminal_would_obey() {
        let key = |begins: &[u8; 8]| Key { hash: 0xabcd_1234, begins: *begins }.to_string();
        assert_eq!(key(b"1-77@1\0\0"), "1-77@1 #1234");
        assert_eq!(key(b"1-77@10."), "1-77@10.… #1234");
        assert!(!key(b"\x1b[31m\x07ab").contains(['\x1b', '\x07']));
    }
}
