//! Tables as they are made: words, and the texts that they refer to.

use std::collections::HashMap;

use crate::cfg::to_u32;

/// Texts, each once.
#[derive(Default)]
pub(super) struct Texts {
    pub(super) bytes: Vec<u8>,
    known: HashMap<Box<str>, [u32; 2]>,
}

impl Texts {
    /// Where a text lies: its offset and length.
    pub(super) fn add(&mut self, text: &str) -> [u32; 2] {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let place = [to_u32(self.bytes.len()), to_u32(text.len())];
        self.bytes.extend(text.as_bytes());
        self.known.insert(text.into(), place);
        place
    }
}

/// Adds words to a table.
pub(super) fn push(bytes: &mut Vec<u8>, words: &[u32]) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}
