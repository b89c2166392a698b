//! Texts that are written once and named by numbers from there on.

use std::collections::HashMap;

/// Texts of a kind, each with its number, from 1.
#[derive(Default)]
pub(crate) struct Interned {
    numbers: HashMap<String, u64>,
    /// Those that are not written yet.
    new: Vec<(u64, String)>,
}

impl Interned {
    /// The number of a text.
    pub(crate) fn number(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.numbers.get(text) {
            return known;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(text.to_owned(), number);
        self.new.push((number, text.to_owned()));
        number
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Those that were given since this was asked last: what has their numbers is written with them.
    pub(crate) fn take_new(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.new)
    }
}
