//! A Parquet file that may lie about itself: its footer and its pages, looked at before room is made for them.
//!
//! The library takes a page's size, the number of a dictionary's values and the depth of a schema from headers, and
//! makes as much room. So this reads the pages, and hands the library those only whose headers can be true. What is
//! taken into memory is in proportion to the file.
//!
//! Formats: <https://parquet.apache.org/docs/file-format/>, and `parquet.thrift` there.

use std::{fs::File, os::unix::fs::FileExt as _, sync::Arc};

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding, Type},
    column::{
        page::{Page, PageMetadata, PageReader},
        reader::{ColumnReader, get_column_reader},
    },
    errors::ParquetError,
    file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader},
};

use crate::{
    damage::Damage,
    thrift::{Kind, Reader},
    words::{self, Places, Words},
};

/// Bytes of a footer: what xweave writes has some 40 KB.
const FOOTER: u64 = 8 << 20;

/// How deep columns lie in each other.
const NESTED: usize = 64;

/// Bytes of a page, unpacked: what xweave writes has 1 MiB at most.
const PAGE: usize = 64 << 20;

/// The most bytes that a byte of Snappy's format becomes: a copy of 64 bytes takes three.
const SNAPPY: usize = 22;

/// Bytes in which nearly every header of a page fits; one with long statistics has more, and no more than these.
const HEADER: usize = 512;
const LONG_HEADER: usize = 64 << 10;

/// An open file and what its footer says.
pub(crate) struct Checked {
    file: Arc<File>,
    /// In bytes.
    pub size: u64,
    pub metadata: ParquetMetaData,
    /// Rows of all groups.
    pub rows: u64,
}

impl Checked {
    /// Reads the footer.
    pub(crate) fn open(file: File) -> Result<Self, Damage> {
        const MAGIC: &[u8] = b"PAR1";
        let size = file.metadata()?.len();
        let tail = size.checked_sub(8).filter(|tail| *tail >= 4).ok_or(Damage::Short)?;
        let mut end = [0; 8];
        file.read_exact_at(&mut end, tail)?;
        let [a, b, c, d, magic @ ..] = end;
        if magic != MAGIC {
            return Err(Damage::End);
        }
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        let most = FOOTER.min(tail - 4);
        let room = usize::try_from(length).ok().filter(|_| length <= most);
        let mut footer = vec![0; room.ok_or(Damage::Footer { length, most })?];
        file.read_exact_at(&mut footer, tail - length)?;
        if !is_shallow(&footer) {
            return Err(Damage::Schema { most: NESTED });
        }
        let metadata = ParquetMetaDataReader::decode_metadata(&footer)?;
        let mut rows = 0u64;
        for group in metadata.row_groups() {
            let count = u64::try_from(group.num_rows()).map_err(|_| Damage::RowCount)?;
            rows = rows.saturating_add(count);
        }
        Ok(Self { file: Arc::new(file), size, metadata, rows })
    }

    /// The values of a column in a row group.
    /// A reader of a column; of one of texts, of their places among the words that come with it.
    pub(crate) fn column(
        &self,
        group: usize,
        column: usize,
    ) -> Result<(ColumnReader, Option<Words>), Damage> {
        let group = self.metadata.row_group(group);
        let chunk = group.column(column);
        let pages = Pages::new(self.file.clone(), self.size, chunk, group.num_rows())?;
        let described = chunk.column_descr_ptr();
        if chunk.column_type() != Type::BYTE_ARRAY {
            return Ok((get_column_reader(described, Box::new(pages)), None));
        }
        let words = Words::default();
        let is_optional = described.max_def_level() > 0;
        let places = Places { pages, words: words.clone(), is_optional };
        Ok((get_column_reader(words::described(&described)?, Box::new(places)), Some(words)))
    }
}

/// Whether a footer's schema is no deeper than [`NESTED`]: the library goes through it by recursion.
fn is_shallow(footer: &[u8]) -> bool {
    // FileMetaData: 2 is the list of SchemaElement, of which 5 is the number of children; parents come first.
    let (mut open, mut shallow, mut seen) = (Vec::new(), true, false);
    let read = Reader::new(footer).fields(|reader, number, kind| {
        if (number, kind) != (2, Kind::List) {
            return Some(false);
        }
        seen = true;
        let (count, Kind::Struct) = reader.list()? else { return None };
        for _ in 0..count {
            let mut children = 0;
            reader.fields(|reader, number, kind| {
                if (number, kind) != (5, Kind::Integer) {
                    return Some(false);
                }
                children = reader.integer()?;
                Some(true)
            })?;
            if let Some(siblings) = open.last_mut() {
                *siblings -= 1;
            }
            if children > 0 {
                open.push(children);
            }
            while open.last().is_some_and(|left| *left <= 0) {
                open.pop();
            }
            shallow &= open.len() <= NESTED;
            if !shallow {
                return None;
            }
        }
        Some(true)
    });
    read.is_some() && shallow && seen
}

/// The pages of a column of a row group.
struct Pages {
    file: Arc<File>,
    at: u64,
    end: u64,
    /// Of the row group: no page has more values.
    rows: u64,
    packed: bool,
    unpacker: snap::raw::Decoder,
}

/// What a page's header says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    /// Bytes of the header itself.
    length: usize,
    kind: i64,
    unpacked: usize,
    packed: usize,
    values: u32,
    encoding: i64,
    definition: i64,
    repetition: i64,
    sorted: bool,
    /// Of a page of version 2.
    nulls: u32,
    rows: u32,
    definition_bytes: u32,
    repetition_bytes: u32,
    is_packed: bool,
}

/// `PageType`
const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const DATA_2: i64 = 3;

impl Header {
    /// Reads a header; none if it does not end in these bytes, or is none.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut header = Self { is_packed: true, kind: -1, ..Self::default() };
        let mut reader = Reader::new(bytes);
        reader.fields(|reader, number, kind| {
            match (number, kind) {
                (1, Kind::Integer) => header.kind = reader.integer()?,
                (2, Kind::Integer) => header.unpacked = usize::try_from(reader.integer()?).ok()?,
                (3, Kind::Integer) => header.packed = usize::try_from(reader.integer()?).ok()?,
                (5 | 7 | 8, Kind::Struct) => header.page(reader, number)?,
                _ => return Some(false),
            }
            Some(true)
        })?;
        header.length = reader.at();
        Some(header)
    }

    /// `DataPageHeader` (5), `DictionaryPageHeader` (7), `DataPageHeaderV2` (8)
    fn page(&mut self, reader: &mut Reader, page: i64) -> Option<()> {
        let count = |reader: &mut Reader| u32::try_from(reader.integer()?).ok();
        reader.fields(|reader, number, kind| {
            match (page, number, kind) {
                (_, 1, Kind::Integer) => self.values = count(reader)?,
                (5 | 7, 2, Kind::Integer) | (8, 4, Kind::Integer) => self.encoding = reader.integer()?,
                (5, 3, Kind::Integer) => self.definition = reader.integer()?,
                (5, 4, Kind::Integer) => self.repetition = reader.integer()?,
                (7, 3, Kind::True | Kind::False) => self.sorted = kind == Kind::True,
                (8, 2, Kind::Integer) => self.nulls = count(reader)?,
                (8, 3, Kind::Integer) => self.rows = count(reader)?,
                (8, 5, Kind::Integer) => self.definition_bytes = count(reader)?,
                (8, 6, Kind::Integer) => self.repetition_bytes = count(reader)?,
                (8, 7, Kind::True | Kind::False) => self.is_packed = kind == Kind::True,
                _ => return Some(false),
            }
            Some(true)
        })
    }
}

impl Pages {
    fn new(file: Arc<File>, size: u64, chunk: &ColumnChunkMetaData, rows: i64) -> Result<Self, Damage> {
        let packed = match chunk.compression() {
            Compression::UNCOMPRESSED => false,
            Compression::SNAPPY => true,
            other => return Err(Damage::Compression(other)),
        };
        let data = chunk.data_page_offset();
        let begin = chunk.dictionary_page_offset().filter(|dictionary| *dictionary < data).unwrap_or(data);
        let range = u64::try_from(begin).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        let range = range.and_then(|(at, length)| Some((at, at.checked_add(length)?)));
        let (at, end) = range.filter(|(_, end)| *end <= size).ok_or(Damage::Beyond)?;
        let rows = u64::try_from(rows).unwrap_or(0);
        Ok(Self { file, at, end, rows, packed, unpacker: snap::raw::Decoder::new() })
    }

    /// The header at the current place; none at the end.
    fn header(&self) -> Result<Option<Header>, ParquetError> {
        let left = self.end - self.at;
        if left == 0 {
            return Ok(None);
        }
        for most in [HEADER, LONG_HEADER] {
            let mut bytes = vec![0; usize::try_from(left).unwrap_or(most).min(most)];
            self.file.read_exact_at(&mut bytes, self.at)?;
            if let Some(header) = Header::parse(&bytes) {
                return Ok(Some(header));
            }
        }
        Err(wrong("a page has no header"))
    }

    /// The page of a header, which is at the current place; none of a page of another kind.
    fn page(&mut self, header: &Header) -> Result<Option<Page>, ParquetError> {
        let at = self.at + header.length as u64;
        let left = self.end.saturating_sub(at);
        if header.packed as u64 > left || header.packed > PAGE || header.unpacked > PAGE {
            let (packed, unpacked) = (header.packed, header.unpacked);
            return Err(wrong(format!(
                "a page has {packed} bytes and becomes {unpacked}: it can have {}, and become {PAGE}",
                left.min(PAGE as u64)
            )));
        }
        self.at = at + header.packed as u64;
        // Of the second version, the levels are in front of what is packed.
        let levels = match header.kind {
            DATA | DICTIONARY => 0,
            DATA_2 => header.definition_bytes as usize + header.repetition_bytes as usize,
            _ => return Ok(None),
        };
        if levels > header.packed || levels > header.unpacked {
            return Err(wrong("a page is shorter than its levels"));
        }
        let mut content = vec![0; header.packed];
        self.file.read_exact_at(&mut content, at)?;
        let content = Bytes::from(self.unpacked(content, levels, header)?);
        if header.kind == DICTIONARY && header.values as usize > content.len() / 4 {
            // A value has four bytes at least: those of a number, or of a text's length.
            return Err(wrong(format!(
                "a dictionary of {} bytes cannot have {} values",
                content.len(),
                header.values
            )));
        }
        if header.kind != DICTIONARY && u64::from(header.values) > self.rows {
            return Err(wrong(format!(
                "a page has {} values, and its group {} rows",
                header.values, self.rows
            )));
        }
        page(header, content).map(Some)
    }

    fn unpacked(
        &mut self,
        content: Vec<u8>,
        levels: usize,
        header: &Header,
    ) -> Result<Vec<u8>, ParquetError> {
        if !self.packed || !header.is_packed {
            return match header.unpacked == content.len() {
                true => Ok(content),
                false => Err(wrong("a page that is not packed has two sizes")),
            };
        }
        let (levels, packed) = content.split_at(levels);
        let size = header.unpacked - levels.len();
        if size == 0 {
            return Ok(levels.to_vec());
        }
        let said = snap::raw::decompress_len(packed).map_err(|e| wrong(e.to_string()))?;
        if said != size || size > packed.len().saturating_mul(SNAPPY) {
            return Err(wrong(format!("{} bytes cannot be packed from {size}", packed.len())));
        }
        let mut out = Vec::with_capacity(header.unpacked);
        out.extend_from_slice(levels);
        out.resize(header.unpacked, 0);
        self.unpacker
            .decompress(packed, &mut out[levels.len()..])
            .map_err(|e| wrong(format!("a page cannot be unpacked: {e}")))?;
        Ok(out)
    }
}

fn wrong(what: impl Into<String>) -> ParquetError {
    ParquetError::General(what.into())
}

fn page(header: &Header, buf: Bytes) -> Result<Page, ParquetError> {
    let num_values = header.values;
    let encoding = encoding(header.encoding)?;
    Ok(match header.kind {
        DICTIONARY => Page::DictionaryPage { buf, num_values, encoding, is_sorted: header.sorted },
        DATA => Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding: level_encoding(header.definition)?,
            rep_level_encoding: level_encoding(header.repetition)?,
            statistics: None,
        },
        _ => Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            num_nulls: header.nulls,
            num_rows: header.rows,
            def_levels_byte_len: header.definition_bytes,
            rep_levels_byte_len: header.repetition_bytes,
            is_compressed: header.is_packed,
            statistics: None,
        },
    })
}

/// `Encoding`, but for those whose decoders make room for what a page only claims to have.
fn encoding(number: i64) -> Result<Encoding, ParquetError> {
    Ok(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        5 => Encoding::DELTA_BINARY_PACKED,
        8 => Encoding::RLE_DICTIONARY,
        _ => {
            return Err(wrong(format!(
                "a column is encoded by way {number}: PLAIN, RLE_DICTIONARY and DELTA_BINARY_PACKED are read"
            )));
        }
    })
}

/// The same of levels.
fn level_encoding(number: i64) -> Result<Encoding, ParquetError> {
    match number {
        3 => Ok(Encoding::RLE),
        // Older writers say so of levels that are not there.
        #[expect(deprecated)]
        4 => Ok(Encoding::BIT_PACKED),
        _ => Err(wrong(format!("levels are encoded by way {number}: RLE is read"))),
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        while let Some(header) = self.header()? {
            if let Some(page) = self.page(&header)? {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        Ok(self.header()?.map(|header| PageMetadata {
            num_rows: (header.kind == DATA_2).then_some(header.rows as usize),
            num_levels: (header.kind != DICTIONARY).then_some(header.values as usize),
            is_dict: header.kind == DICTIONARY,
        }))
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        if let Some(header) = self.header()? {
            let length = header.length as u64 + header.packed as u64;
            self.at = self.at.saturating_add(length).min(self.end);
        }
        Ok(())
    }
}
