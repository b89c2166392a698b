//! What texts of a column mean, each found once: columns have few texts, and each of them very often.

use parquet::data_type::ByteArray;

use crate::damage::Damage;

/// So many lines stay in a processor's cache while each of their fields goes to or comes from its column.
pub(crate) const BLOCK: usize = 256;

/// What the words of a column mean, by their places; found when one is first met. Of a column with very many words, which
/// a recording never has, each time.
pub(crate) struct Meanings<'a, T> {
    words: &'a [ByteArray],
    known: Vec<Option<T>>,
}

impl<'a, T: Copy> Meanings<'a, T> {
    /// As many words as are remembered.
    const MOST: usize = 1024;

    pub(crate) fn of(words: &'a [ByteArray]) -> Self {
        Self { words, known: vec![None; words.len().min(Self::MOST)] }
    }

    pub(crate) fn word(&self, place: u32) -> &'a [u8] {
        self.words.get(place as usize).map_or(&[], ByteArray::data)
    }

    #[inline(always)]
    pub(crate) fn get(
        &mut self,
        place: u32,
        find: impl FnMut(&'a [u8]) -> Result<T, Damage>,
    ) -> Result<T, Damage> {
        match self.known.get(place as usize) {
            Some(Some(known)) => Ok(*known),
            _ => self.find(place, find),
        }
    }

    #[cold]
    fn find(&mut self, place: u32, mut find: impl FnMut(&'a [u8]) -> Result<T, Damage>) -> Result<T, Damage> {
        let found = find(self.word(place))?;
        if let Some(known) = self.known.get_mut(place as usize) {
            *known = Some(found);
        }
        Ok(found)
    }
}

/// What texts mean, by where they lie: equal texts of a column mostly lie in one place, that of its dictionary.
pub(crate) struct Seen<'a, T>([Option<(&'a [u8], T)>; 64]);

impl<T> Default for Seen<'_, T> {
    fn default() -> Self {
        Self([const { None }; 64])
    }
}

impl<'a, T: Copy> Seen<'a, T> {
    /// What the text means; `find` tells if it was not there lately.
    pub(crate) fn get(&mut self, text: &'a [u8], find: impl FnOnce() -> T) -> T {
        // Texts lie one after the other, each behind four bytes of its length.
        let place = &mut self.0[(text.as_ptr().addr() >> 2) % 64];
        match place {
            Some((known, meaning)) if std::ptr::eq(*known, text) => *meaning,
            _ => place.insert((text, find())).1,
        }
    }
}
