//! Columns of texts as lists of words and, for each row, the place of its word: what is said often is looked at once.
//!
//! The library makes a text of its own for each row, and counts how often each is held. So it is given pages that have
//! numbers instead of texts: those of the words' places.
//!
//! Formats: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>, "plain" and "dictionary encoding".

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf as _, Bytes};
use parquet::{
    basic::{Encoding, Repetition, Type as Physical},
    column::page::{Page, PageMetadata, PageReader},
    data_type::ByteArray,
    errors::ParquetError,
    schema::types::{ColumnDescPtr, ColumnDescriptor, Type},
};
use xweave_bytes::read_le;

/// The words of a column as far as it has been read.
#[derive(Clone, Default)]
pub(crate) struct Words(Arc<Mutex<Arc<Vec<ByteArray>>>>);

impl Words {
    /// Those to which places that were read so far lead.
    pub(crate) fn so_far(&self) -> Arc<Vec<ByteArray>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds words; gives their places, as a page of numbers has them.
    fn add(&self, new: Vec<ByteArray>) -> Vec<u8> {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words = Arc::make_mut(&mut words);
        let first = words.len();
        words.extend(new);
        let places = (first..words.len()).map(|place| u32::try_from(place).unwrap_or(u32::MAX));
        places.flat_map(u32::to_le_bytes).collect()
    }
}

/// A column of texts as one of places.
pub(crate) fn described(column: &ColumnDescPtr) -> Result<ColumnDescPtr, ParquetError> {
    let repetition = if column.max_def_level() > 0 { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let place = Type::primitive_type_builder(column.name(), Physical::INT32).with_repetition(repetition);
    let (definition, path) = (column.max_def_level(), column.path().clone());
    Ok(Arc::new(ColumnDescriptor::new(Arc::new(place.build()?), definition, 0, path)))
}

/// The pages of a column of texts as those of their places.
pub(crate) struct Places<P> {
    pub pages: P,
    pub words: Words,
    /// Whether rows may have none.
    pub is_optional: bool,
}

impl<P: PageReader> Places<P> {
    fn place(&self, mut page: Page) -> Result<Page, ParquetError> {
        let numbered = |page: &Bytes, levels: usize, most| {
            let (before, _) = page.split_at_checked(levels).ok_or_else(short)?;
            let places = self.words.add(words(page.slice(levels..), most)?);
            Ok::<_, ParquetError>(Bytes::from([before, &places].concat()))
        };
        match &mut page {
            Page::DictionaryPage { buf, num_values, .. } => *buf = numbered(buf, 0, *num_values)?,
            Page::DataPage { buf, num_values, encoding: Encoding::PLAIN, def_level_encoding, .. } => {
                let levels = if self.is_optional { levels(buf, *def_level_encoding)? } else { 0 };
                *buf = numbered(buf, levels, *num_values)?;
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding: Encoding::PLAIN,
                def_levels_byte_len: definition,
                rep_levels_byte_len: repetition,
                ..
            } => {
                let levels = (*definition as usize).saturating_add(*repetition as usize);
                *buf = numbered(buf, levels, *num_values)?;
            }
            // Places already.
            other if matches!(other.encoding(), Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY) => {}
            other => {
                let way = other.encoding();
                return Err(ParquetError::General(format!(
                    "texts are encoded by way {way}, which is for numbers"
                )));
            }
        }
        Ok(page)
    }
}

/// Bytes of a page's levels, which follow their length.
fn levels(page: &Bytes, encoding: Encoding) -> Result<usize, ParquetError> {
    if encoding != Encoding::RLE {
        return Err(ParquetError::General(format!(
            "levels of texts are encoded by way {encoding}: RLE is read"
        )));
    }
    let length = read_le::<u32>(page, 0).map(|length| length as usize).ok_or_else(short)?;
    length.checked_add(4).filter(|levels| *levels <= page.len()).ok_or_else(short)
}

/// Texts that lie one after the other, each behind its length: at most so many.
fn words(mut texts: Bytes, most: u32) -> Result<Vec<ByteArray>, ParquetError> {
    let mut words = Vec::new();
    while texts.has_remaining() && words.len() < most as usize {
        let length = texts.try_get_u32_le().map_err(|_| short())? as usize;
        if length > texts.len() {
            return Err(short());
        }
        words.push(ByteArray::from(texts.split_to(length)));
    }
    Ok(words)
}

fn short() -> ParquetError {
    ParquetError::General("a page of texts is cut off".to_owned())
}

impl<P: PageReader> Iterator for Places<P> {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<P: PageReader> PageReader for Places<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.place(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.pages.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Allowance, Column, TableReader, TableWriter, Values};

    /// The library writes texts down where a dictionary of them would be too large.
    #[test]
    fn texts_come_back_from_dictionaries_and_from_pages_without_one() {
        const SCHEMA: &str = "message m { required binary all (STRING); optional binary some (STRING); }";
        const ROWS: usize = 60_000;
        for distinct in [1, 1000, ROWS] {
            let text = |row: usize| format!("{:>40}", row % distinct);
            let there = |row: usize| !row.is_multiple_of(3);
            let rows: Vec<String> = (0..ROWS).map(text).collect();
            let some = rows.iter().enumerate().map(|(row, text)| there(row).then_some(text));
            let columns =
                [Column::all(Values::texts(rows.iter())), Column::some(some, |texts| Values::texts(texts))];
            let file = tempfile::tempfile().unwrap();
            let mut table = TableWriter::new(file.try_clone().unwrap(), SCHEMA, &[]).unwrap();
            table.write(&columns).unwrap();
            table.finish().unwrap();
            let (wanted, mut allowance) = (["all", "some"], Allowance::new(ROWS as u64));
            let mut table = TableReader::open(file, &wanted, &[], &mut allowance).unwrap();
            let mut row = 0;
            while let Some((count, columns)) = table.next(7001).unwrap() {
                let [all, some] = [0, 1].map(|at| columns[at].texts(count, 100).unwrap());
                for (all, some) in all.into_iter().zip(some) {
                    assert_eq!(all, Some(text(row)));
                    assert_eq!(some, there(row).then(|| text(row)));
                    row += 1;
                }
            }
            assert_eq!(row, ROWS);
        }
    }

    #[test]
    fn pages_that_are_cut_off_are_an_error() {
        let page = Bytes::from_static(&[2, 0, 0, 0, b'a', b'b', 9, 0, 0, 0, b'c']);
        assert_eq!(words(page.slice(..6), 9).unwrap(), [ByteArray::from("ab")]);
        assert_eq!(words(page.clone(), 1).unwrap().len(), 1);
        assert!(words(page.clone(), 2).is_err() && words(page.slice(..8), 2).is_err());
        assert!(levels(&page.slice(..3), Encoding::RLE).is_err());
        assert!(levels(&Bytes::from_static(&[200, 0, 0, 0, 1]), Encoding::RLE).is_err());
        assert_eq!(levels(&page, Encoding::RLE).unwrap(), 6);
    }
}
