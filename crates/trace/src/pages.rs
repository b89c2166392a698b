//! Columns whose pages need no library: texts that are known by their places in a list, numbers of which there are few,
//! and nothing but nulls. The library looks everything up by its bytes, which is most of what writing events costs.
//!
//! Formats: <https://parquet.apache.org/docs/file-format/data-pages/encodings/>, "dictionary encoding" and "run length
//! encoding / bit-packing hybrid".

use std::hash::Hash;

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding},
    column::{
        page::{CompressedPage, Page, PageWriter},
        writer::ColumnCloseResult,
    },
    data_type::ByteArray,
    errors::ParquetError,
    file::{
        metadata::ColumnChunkMetaData,
        statistics::Statistics,
        writer::{SerializedPageWriter, TrackedWrite},
    },
    schema::types::ColumnDescPtr,
};
use rustc_hash::FxHashMap;

/// A column of one row group, as it lies in the file.
pub(crate) struct Chunk {
    pub bytes: Bytes,
    pub close: ColumnCloseResult,
}

/// A text for each row that has one: its place in `words`. `levels` say which have one (1); all, if there are none.
pub(crate) fn picked(
    column: ColumnDescPtr,
    words: &[ByteArray],
    places: &[u32],
    levels: Option<&[i16]>,
) -> Result<Chunk, ParquetError> {
    // Only what occurs is written down.
    let mut numbers = vec![u32::MAX; words.len()];
    let (mut dictionary, mut used) = (Vec::new(), 0u32);
    let mut indexes = Vec::with_capacity(places.len());
    for &place in places {
        let (Some(number), Some(word)) = (numbers.get_mut(place as usize), words.get(place as usize)) else {
            return Err(ParquetError::General("a text that is not in its list".to_owned()));
        };
        if *number == u32::MAX {
            *number = used;
            used += 1;
            dictionary.extend(u32::try_from(word.len()).unwrap_or(0).to_le_bytes());
            dictionary.extend(word.data());
        }
        indexes.push(*number);
    }
    let dictionary = Page::DictionaryPage {
        buf: dictionary.into(),
        num_values: used,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    indexed(column, dictionary, &indexes, levels, None)
}

/// A number of a column.
pub(crate) trait Number: Copy + Ord + Hash {
    /// As the file has it.
    fn bytes(self, out: &mut Vec<u8>);

    /// The least and the greatest of a column.
    fn bounds(least: Self, greatest: Self, nulls: u64) -> Statistics;
}

impl Number for i32 {
    fn bytes(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn bounds(least: Self, greatest: Self, nulls: u64) -> Statistics {
        Statistics::int32(Some(least), Some(greatest), None, Some(nulls), false)
    }
}

impl Number for i64 {
    fn bytes(self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn bounds(least: Self, greatest: Self, nulls: u64) -> Statistics {
        Statistics::int64(Some(least), Some(greatest), None, Some(nulls), false)
    }
}

/// A number for each row that has one, if few of them differ. Their bounds are told only if they are those of `signed`
/// numbers.
pub(crate) fn few<T: Number>(
    column: ColumnDescPtr,
    values: &[T],
    levels: Option<&[i16]>,
    signed: bool,
) -> Result<Option<Chunk>, ParquetError> {
    /// More than these, or more than half of the first ones, are many.
    const MANY: usize = 4096;
    const FIRST: usize = 512;
    let (Some(&least), Some(&greatest)) = (values.iter().min(), values.iter().max()) else {
        return Ok(None);
    };
    let mut numbers: FxHashMap<T, u32> = FxHashMap::default();
    let mut dictionary = Vec::new();
    let mut indexes = Vec::with_capacity(values.len());
    let mut last = None;
    for &value in values {
        let index = match last {
            Some((known, index)) if known == value => index,
            _ => {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                *numbers.entry(value).or_insert_with(|| {
                    value.bytes(&mut dictionary);
                    next
                })
            }
        };
        last = Some((value, index));
        indexes.push(index);
        if numbers.len() > MANY || indexes.len() == FIRST && numbers.len() > FIRST / 2 {
            return Ok(None);
        }
    }
    let dictionary = Page::DictionaryPage {
        buf: dictionary.into(),
        num_values: u32::try_from(numbers.len()).unwrap_or(0),
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    let nulls = levels.map_or(0, |levels| levels.len() - values.len());
    let bounds = signed.then(|| T::bounds(least, greatest, nulls as u64));
    indexed(column, dictionary, &indexes, levels, bounds).map(Some)
}

/// A place in a dictionary for each row that has one.
fn indexed(
    column: ColumnDescPtr,
    dictionary: Page,
    indexes: &[u32],
    levels: Option<&[i16]>,
    bounds: Option<Statistics>,
) -> Result<Chunk, ParquetError> {
    let used = dictionary.num_values();
    let mut content = leveled(levels, indexes.len());
    let width = (32 - used.saturating_sub(1).leading_zeros()).max(1);
    content.push(u8::try_from(width).unwrap_or(32));
    hybrid(indexes, width, &mut content);
    let rows = levels.map_or(indexes.len(), <[i16]>::len);
    chunk(column, Some(dictionary), content, (Encoding::RLE_DICTIONARY, rows), bounds)
}

/// Nothing but nulls.
pub(crate) fn nulls(column: ColumnDescPtr, rows: usize) -> Result<Chunk, ParquetError> {
    let content = leveled(Some(&vec![0; rows]), rows);
    chunk(column, None, content, (Encoding::PLAIN, rows), None)
}

fn chunk(
    column: ColumnDescPtr,
    dictionary: Option<Page>,
    content: Vec<u8>,
    (encoding, rows): (Encoding, usize),
    bounds: Option<Statistics>,
) -> Result<Chunk, ParquetError> {
    let count = u32::try_from(rows).map_err(|_| ParquetError::General(format!("a page of {rows} rows")))?;
    let data = Page::DataPage {
        buf: content.into(),
        num_values: count,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    let mut file = TrackedWrite::new(Vec::new());
    let mut writer = SerializedPageWriter::new(&mut file);
    let (mut size, mut data_at) = (0, 0);
    let first = dictionary.is_some().then_some(0);
    for page in dictionary.into_iter().chain([data]) {
        let unpacked = page.buffer().len();
        let written = writer.write_page(CompressedPage::new(page, unpacked))?;
        (size, data_at) = (size + written.bytes_written, written.offset);
    }
    writer.close()?;
    let bytes = Bytes::from(file.into_inner()?);
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut metadata = ColumnChunkMetaData::builder(column)
        .set_compression(Compression::UNCOMPRESSED)
        .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, encoding])
        .set_total_compressed_size(signed(size))
        .set_total_uncompressed_size(signed(size))
        .set_num_values(i64::from(count))
        .set_dictionary_page_offset(first)
        .set_data_page_offset(signed(data_at));
    if let Some(bounds) = bounds {
        metadata = metadata.set_statistics(bounds);
    }
    let metadata = metadata.build()?;
    let close = ColumnCloseResult {
        bytes_written: size,
        rows_written: u64::from(count),
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok(Chunk { bytes, close })
}

/// What a page of an optional column begins with: which rows have a value. Nothing, if the column has no nulls.
fn leveled(levels: Option<&[i16]>, values: usize) -> Vec<u8> {
    let mut content = Vec::with_capacity(values);
    if let Some(levels) = levels {
        content.extend([0; 4]);
        match (levels.contains(&0), levels.iter().any(|&level| level > 0)) {
            (true, true) => {
                varint(levels.len().div_ceil(8) as u64 * 2 + 1, &mut content);
                let byte = |levels: &[i16]| {
                    levels.iter().rev().fold(0u8, |byte, &level| byte << 1 | u8::from(level > 0))
                };
                content.extend(levels.chunks(8).map(byte));
            }
            (_, there) => {
                varint(levels.len() as u64 * 2, &mut content);
                content.push(u8::from(there));
            }
        }
        let len = u32::try_from(content.len() - 4).unwrap_or(0);
        content[..4].copy_from_slice(&len.to_le_bytes());
    }
    content
}

/// Numbers of `width` bits: one run, if they are all the same; else one after the other.
fn hybrid(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    if let Some(&first) = numbers.first()
        && numbers.iter().all(|&number| number == first)
    {
        varint(numbers.len() as u64 * 2, out);
        out.extend(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
        return;
    }
    varint(numbers.len().div_ceil(8) as u64 * 2 + 1, out);
    let end = out.len() + numbers.len().div_ceil(8) * width as usize;
    let (mut word, mut bits) = (0u64, 0);
    for &number in numbers {
        word |= u64::from(number) << bits;
        bits += width;
        if bits >= 32 {
            out.extend(&word.to_le_bytes()[..4]);
            (word, bits) = (word >> 32, bits - 32);
        }
    }
    out.extend(&word.to_le_bytes()[..bits.div_ceil(8) as usize]);
    // Always eight at a time.
    out.resize(end, 0);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_packed_as_the_format_says() {
        // The format's own example: 0 to 7 with three bits each.
        let mut out = Vec::new();
        hybrid(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut out);
        assert_eq!(out, [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        out.clear();
        hybrid(&[300; 100], 9, &mut out);
        assert_eq!(out, [0b1100_1000, 1, 44, 1]);
        out.clear();
        hybrid(&[1, 0, 1], 1, &mut out);
        assert_eq!(out, [0b11, 0b101]);
    }
}
