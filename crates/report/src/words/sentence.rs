//! Text that is only shown.

use std::fmt;

/// Words for people. What they are about has a type; there is no way to look into them, so that a document, a finding or a
/// remedy cannot depend on how something is said.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentence(String);

impl Sentence {
    /// These words.
    pub(super) fn new(words: impl Into<String>) -> Self {
        let words = words.into();
        #[cfg(test)]
        let words = super::tests::reworded(words);
        Self(words)
    }
}

impl From<Sentence> for String {
    /// Turns it into a field of a document, which nothing reads back.
    fn from(sentence: Sentence) -> Self {
        sentence.0
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
