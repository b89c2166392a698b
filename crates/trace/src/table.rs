//! Parquet files as tables of few column types: the only place that knows the library.

use std::{
    cell::Cell,
    fs::File,
    io::Write,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once},
};

use parquet::{
    basic::{Compression, Encoding, LogicalType},
    column::reader::{ColumnReader, ColumnReaderImpl},
    data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr},
        statistics::Statistics,
        writer::SerializedFileWriter,
    },
    schema::{
        parser::parse_message_type,
        types::{ColumnDescPtr, ColumnPath, TypePtr},
    },
};

use xweave_text as text;

use crate::{
    checked::Checked,
    damage::{Damage, Wrong},
    pages,
    words::Words,
};

/// What a column holds, without its nulls.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    I32(Vec<i32>),
    I64(Vec<i64>),
    /// Only to be written: what is read is [`Values::Picked`].
    Text(Vec<ByteArray>),
    /// Texts by their places in a list.
    Picked {
        words: Arc<Vec<ByteArray>>,
        places: Vec<u32>,
    },
}

impl Values {
    fn is_empty(&self) -> bool {
        match self {
            Self::I32(values) => values.is_empty(),
            Self::I64(values) => values.is_empty(),
            Self::Text(values) => values.is_empty(),
            Self::Picked { places, .. } => places.is_empty(),
        }
    }

    /// Texts; equal neighbours share their bytes.
    pub(crate) fn texts<'a>(texts: impl Iterator<Item = &'a String>) -> Self {
        let mut all: Vec<ByteArray> = Vec::new();
        for text in texts {
            match all.last() {
                Some(last) if last.data() == text.as_bytes() => all.push(last.clone()),
                _ => all.push(ByteArray::from(text.as_str())),
            }
        }
        Self::Text(all)
    }
}

/// One column of some rows.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Per row whether it has a value (1) or is null (0); none if all have.
    levels: Option<Vec<i16>>,
    values: Values,
}

impl Column {
    /// A column without nulls.
    pub(crate) fn all(values: Values) -> Self {
        Self { levels: None, values }
    }

    /// A column with nulls; `collect` gathers what is there.
    pub(crate) fn some<T>(
        rows: impl Iterator<Item = Option<T>> + Clone,
        collect: impl FnOnce(&mut dyn Iterator<Item = T>) -> Values,
    ) -> Self {
        let levels = rows.clone().map(|row| i16::from(row.is_some())).collect();
        Self { levels: Some(levels), values: collect(&mut rows.flatten()) }
    }

    /// A column in which rows of level 0 are null; none, if there are no levels.
    pub(crate) fn of(levels: Option<Vec<i16>>, values: Values) -> Self {
        Self { levels, values }
    }

    /// The column's numbers as their bits, one per row. 32-bit ones are not sign-extended.
    pub(crate) fn numbers(&self, rows: usize) -> Result<Vec<Option<u64>>, Wrong> {
        match &self.values {
            Values::I32(values) => self.spread(rows, values.iter().map(|v| u64::from(v.cast_unsigned()))),
            Values::I64(values) => self.spread(rows, values.iter().map(|v| v.cast_unsigned())),
            Values::Text(_) | Values::Picked { .. } => Err(Wrong::Text),
        }
    }

    /// Whether a row has no value.
    pub(crate) fn has_nulls(&self) -> bool {
        self.levels.as_ref().is_some_and(|levels| levels.contains(&0))
    }

    /// The column's numbers, to be given to rows in their order.
    pub(crate) fn in_turn(&self, rows: usize) -> Result<InTurn<'_>, Wrong> {
        let levels = self.levels.as_deref();
        let (values, count) = match &self.values {
            Values::I32(values) => (Bits::Narrow(values), values.len()),
            Values::I64(values) => (Bits::Wide(values), values.len()),
            Values::Text(_) | Values::Picked { .. } => return Err(Wrong::Text),
        };
        let count = levels.map_or(count, <[i16]>::len);
        if count == rows {
            Ok(InTurn { levels, values })
        } else {
            Err(Wrong::Rows { rows: count, others: rows })
        }
    }

    /// The column's texts as words and places among them, one per row; of a column without nulls.
    pub(crate) fn places(&self, rows: usize) -> Result<(&[ByteArray], &[u32]), Wrong> {
        match &self.values {
            _ if self.has_nulls() => Err(Wrong::Null),
            Values::Picked { words, places } if places.len() == rows => Ok((words, places)),
            Values::Picked { places, .. } => Err(Wrong::Rows { rows: places.len(), others: rows }),
            _ => Err(Wrong::Numbers),
        }
    }

    /// The column's texts as bytes, one per row.
    pub(crate) fn bytes(&self, rows: usize) -> Result<Vec<Option<&[u8]>>, Wrong> {
        match &self.values {
            Values::Text(values) => self.spread(rows, values.iter().map(ByteArray::data)),
            Values::Picked { words, places } => {
                let word = |place: &u32| words.get(*place as usize).map_or(&[][..], ByteArray::data);
                self.spread(rows, places.iter().map(word))
            }
            // Also what stands for a column that the file lacks.
            _ if self.levels.as_ref().is_some_and(|levels| levels.iter().all(|&level| level == 0)) => {
                Ok(vec![None; rows])
            }
            _ => Err(Wrong::Numbers),
        }
    }

    /// The column's texts, one per row, fit to be shown and cut to `most` bytes.
    pub(crate) fn texts(&self, rows: usize, most: usize) -> Result<Vec<Option<String>>, Wrong> {
        let text = |bytes: &[u8]| text::printable_bytes(bytes, most);
        Ok(self.bytes(rows)?.into_iter().map(|bytes| bytes.map(text)).collect())
    }

    fn spread<T>(&self, rows: usize, mut values: impl Iterator<Item = T>) -> Result<Vec<Option<T>>, Wrong> {
        let spread: Vec<_> = match &self.levels {
            None => values.map(Some).collect(),
            Some(levels) => {
                levels.iter().map(|&level| if level > 0 { values.next() } else { None }).collect()
            }
        };
        if spread.len() == rows { Ok(spread) } else { Err(Wrong::Rows { rows: spread.len(), others: rows }) }
    }
}

/// Columns as a reader gave them, by their places among the names of those that are needed and those that may lack.
pub(crate) struct Wanted<'c> {
    pub columns: &'c [Column],
    pub names: (&'static [&'static str], &'static [&'static str]),
    pub rows: usize,
}

impl<'c> Wanted<'c> {
    /// What is wrong with a column.
    pub(crate) fn wrong(&self, at: usize, wrong: Wrong) -> Damage {
        Damage::Column { name: self.name(at), wrong }
    }

    fn name(&self, at: usize) -> &'static str {
        self.names.0.iter().chain(self.names.1).nth(at).copied().unwrap_or("?")
    }

    fn column(&self, at: usize) -> Result<&'c Column, Damage> {
        self.columns.get(at).ok_or_else(|| Damage::NoColumn(self.name(at)))
    }

    /// Numbers; what is null is 0, where it may be null.
    pub(crate) fn numbers(&self, at: usize) -> Result<InTurn<'c>, Damage> {
        let column = self.column(at)?;
        if at < self.names.0.len() && column.has_nulls() {
            return Err(self.wrong(at, Wrong::Null));
        }
        column.in_turn(self.rows).map_err(|wrong| self.wrong(at, wrong))
    }

    /// Texts as words and places among them.
    pub(crate) fn places(&self, at: usize) -> Result<(&'c [ByteArray], &'c [u32]), Damage> {
        self.column(at)?.places(self.rows).map_err(|wrong| self.wrong(at, wrong))
    }

    /// Texts as bytes.
    pub(crate) fn bytes(&self, at: usize) -> Result<Vec<Option<&'c [u8]>>, Damage> {
        self.column(at)?.bytes(self.rows).map_err(|wrong| self.wrong(at, wrong))
    }
}

/// Numbers of a column that have not been given to rows yet.
pub(crate) struct InTurn<'c> {
    levels: Option<&'c [i16]>,
    values: Bits<'c>,
}

#[derive(Clone, Copy)]
enum Bits<'c> {
    Narrow(&'c [i32]),
    Wide(&'c [i64]),
}

impl InTurn<'_> {
    /// Gives each of the next rows its number, as its bits. 32-bit ones are not sign-extended; what is null is 0.
    pub(crate) fn give<R>(&mut self, rows: &mut [R], set: impl FnMut(&mut R, u64)) {
        let levels = &mut self.levels;
        match &mut self.values {
            Bits::Narrow(values) => give(levels, values, rows, |value| value.cast_unsigned().into(), set),
            Bits::Wide(values) => give(levels, values, rows, i64::cast_unsigned, set),
        }
    }

    /// As [`InTurn::give`], numbers of 32 bits; an error if one of these is wider.
    pub(crate) fn give_narrow<R>(&mut self, rows: &mut [R], set: fn(&mut R, u32)) -> Result<(), Wrong> {
        // The largest tells whether all fit: none is cut off unseen.
        let mut largest = 0;
        self.give(rows, |row, number| {
            largest = largest.max(number);
            set(row, u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0));
        });
        if u32::try_from(largest).is_ok() { Ok(()) } else { Err(Wrong::Wide(largest)) }
    }

    /// As [`InTurn::give`], but to those rows only that have a number.
    pub(crate) fn give_some<R>(&mut self, rows: &mut [R], mut set: impl FnMut(&mut R, u64)) {
        let Some(levels) = self.levels else {
            return self.give(rows, set);
        };
        let (now, later) = levels.split_at(rows.len().min(levels.len()));
        let mut values = self.values;
        let mut next = || match &mut values {
            Bits::Narrow(values) => values.split_off_first().map(|value| value.cast_unsigned().into()),
            Bits::Wide(values) => values.split_off_first().map(|value| value.cast_unsigned()),
        };
        for (row, _) in rows.iter_mut().zip(now).filter(|(_, level)| **level > 0) {
            if let Some(value) = next() {
                set(row, value);
            }
        }
        (self.levels, self.values) = (Some(later), values);
    }
}

fn give<R, T: Copy>(
    levels: &mut Option<&[i16]>,
    values: &mut &[T],
    rows: &mut [R],
    bits: impl Fn(T) -> u64,
    mut set: impl FnMut(&mut R, u64),
) {
    let Some(levels) = levels else {
        let (now, later) = values.split_at(rows.len().min(values.len()));
        rows.iter_mut().zip(now).for_each(|(row, value)| set(row, bits(*value)));
        *values = later;
        return;
    };
    let (now, later) = levels.split_at(rows.len().min(levels.len()));
    *levels = later;
    let mut at = 0;
    // Without a branch: which rows have a value cannot be foretold.
    for (row, level) in rows.iter_mut().zip(now) {
        let value = values.get(at).map_or(0, |value| bits(*value));
        let is_there = *level > 0;
        set(row, if is_there { value } else { 0 });
        at += usize::from(is_there);
    }
    *values = values.get(at..).unwrap_or_default();
}

/// Writes one table, row group by row group.
pub(crate) struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<ColumnDescPtr>,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file. `sequential` names the columns whose neighbours differ little: times and counters.
    pub(crate) fn new(out: W, schema: &str, sequential: &[&str]) -> Result<Self, ParquetError> {
        let file = SerializedFileWriter::new(out, parse(schema)?, properties(sequential))?;
        let columns = file.schema_descr().columns().to_vec();
        Ok(Self { file, columns })
    }

    /// Writes columns of equal length, in the schema's order, as one row group.
    pub(crate) fn write(&mut self, columns: &[Column]) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for (column, described) in columns.iter().zip(&self.columns) {
            let levels = column.levels.as_deref();
            let chunk = match &column.values {
                Values::Picked { words, places } => {
                    Some(pages::picked(described.clone(), words, places, levels)?)
                }
                values if values.is_empty() && levels.is_some_and(|levels| !levels.is_empty()) => {
                    Some(pages::nulls(described.clone(), levels.map_or(0, <[i16]>::len))?)
                }
                Values::I32(values) => pages::few(described.clone(), values, levels, is_signed(described))?,
                Values::I64(values) => pages::few(described.clone(), values, levels, is_signed(described))?,
                Values::Text(_) => None,
            };
            if let Some(chunk) = chunk {
                group.append_column(&chunk.bytes, chunk.close)?;
                continue;
            }
            let Some(mut writer) = group.next_column()? else { break };
            match &column.values {
                Values::I32(values) => writer.typed::<Int32Type>().write_batch(values, levels, None)?,
                Values::I64(values) => writer.typed::<Int64Type>().write_batch(values, levels, None)?,
                Values::Text(values) => writer.typed::<ByteArrayType>().write_batch(values, levels, None)?,
                Values::Picked { .. } => 0,
            };
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Bytes that have been written.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes_written() as u64
    }

    /// Writes the footer, without which the file is nothing.
    pub(crate) fn finish(mut self) -> Result<(), ParquetError> {
        self.file.finish()?;
        Ok(())
    }
}

/// Whether a column's numbers are ordered as signed ones.
fn is_signed(column: &ColumnDescPtr) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Integer(integer)) if integer.is_signed)
}

fn parse(schema: &str) -> Result<TypePtr, ParquetError> {
    Ok(Arc::new(parse_message_type(schema)?))
}

fn properties(sequential: &[&str]) -> WriterPropertiesPtr {
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("xweave ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        // Of each column of a group; not of each page, which nobody asks for in groups as small.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for &name in sequential {
        let path = ColumnPath::from(name);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Arc::new(builder.build())
}

/// How many more rows are taken of files. A few bytes can stand for millions of equal rows, which a recording never
/// has: of its rows, each has a time of its own, and a byte at least.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    left: u64,
}

impl Allowance {
    /// For the files of a table together: so many rows besides one for each byte.
    pub(crate) fn new(rows: u64) -> Self {
        Self { left: rows }
    }

    fn take(&mut self, rows: u64, bytes: u64) -> Result<(), Damage> {
        self.left = self.left.saturating_add(bytes);
        self.left = self.left.checked_sub(rows).ok_or(Damage::Rows { rows, bytes, left: self.left })?;
        Ok(())
    }
}

/// Reads one table in pieces of bounded size.
pub(crate) struct TableReader {
    file: Checked,
    /// Where the wanted columns are in the file; none for an optional one that it lacks.
    columns: Vec<Option<usize>>,
    /// The next row group, and the one before which to end.
    group: usize,
    end: usize,
    /// The current row group's columns, and how many of its rows are left.
    open: Vec<Option<(ColumnReader, Option<Words>)>>,
    left: usize,
}

impl TableReader {
    /// Opens a file that must have the `required` columns; `optional` ones it may lack. Its rows are taken from the
    /// allowance.
    pub(crate) fn open(
        file: File,
        required: &[&'static str],
        optional: &[&'static str],
        allowance: &mut Allowance,
    ) -> Result<Self, Damage> {
        contained(|| {
            let file = Checked::open(file)?;
            allowance.take(file.rows, file.size)?;
            Self::try_open(file, required, optional)
        })
    }

    fn try_open(file: Checked, required: &[&'static str], optional: &[&'static str]) -> Result<Self, Damage> {
        let schema = file.metadata.file_metadata().schema_descr_ptr();
        let find = |&name: &&str| {
            let at = schema.columns().iter().position(|column| column.path().parts() == [name])?;
            let flat = schema.column(at).max_rep_level() == 0 && schema.column(at).max_def_level() <= 1;
            flat.then_some(at)
        };
        let mut columns = Vec::new();
        for &name in required {
            columns.push(Some(find(&name).ok_or(Damage::NoColumn(name))?));
        }
        columns.extend(optional.iter().map(find));
        Ok(Self { file, columns, group: 0, end: usize::MAX, open: Vec::new(), left: 0 })
    }

    /// The groups of rows that the file has: of each how many rows, and the least number of a column, as the file's
    /// statistics tell it; the least of all where they do not.
    pub(crate) fn groups(&self, name: &str) -> Vec<(u64, i64)> {
        let groups = self.file.metadata.row_groups().iter();
        let told = self.statistics(name).unwrap_or_default().into_iter().chain(std::iter::repeat(None));
        groups
            .zip(told)
            .map(|(group, told)| {
                let least = match told {
                    Some(Statistics::Int64(told)) => told.min_opt().copied(),
                    _ => None,
                };
                (u64::try_from(group.num_rows()).unwrap_or(0), least.unwrap_or(i64::MIN))
            })
            .collect()
    }

    /// The greatest number of a column, as the file's statistics tell it; none where they do not.
    pub(crate) fn greatest(&self, name: &str) -> Option<i64> {
        let of_group = |told: Option<&Statistics>| match told {
            Some(Statistics::Int64(told)) => told.max_opt().copied(),
            _ => None,
        };
        self.statistics(name)?.into_iter().map(of_group).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// What the file tells of a column, by groups of rows; none if it has no such column.
    fn statistics(&self, name: &str) -> Option<Vec<Option<&Statistics>>> {
        let schema = self.file.metadata.file_metadata().schema_descr();
        let column = schema.columns().iter().position(|column| column.path().parts() == [name])?;
        let groups = self.file.metadata.row_groups().iter();
        Some(groups.map(|group| group.columns().get(column)?.statistics()).collect())
    }

    /// Whether rows of the group that was begun are left.
    pub(crate) fn is_within(&self) -> bool {
        self.left > 0
    }

    /// Goes on with that group, and ends with it.
    pub(crate) fn only(&mut self, group: usize) {
        (self.group, self.end, self.left) = (group, group + 1, 0);
    }

    /// The next rows, at most `max`, as their number and the wanted columns.
    /// After an error the reader is of no use.
    pub(crate) fn next(&mut self, max: usize) -> Result<Option<(usize, Vec<Column>)>, Damage> {
        contained(|| self.try_next(max))
    }

    fn try_next(&mut self, max: usize) -> Result<Option<(usize, Vec<Column>)>, Damage> {
        while self.left == 0 {
            let group = self.file.metadata.row_groups().get(self.group);
            let Some(group) = group.filter(|_| self.group < self.end) else { return Ok(None) };
            self.left = usize::try_from(group.num_rows()).map_err(|_| Damage::RowCount)?;
            let open = |at: &Option<usize>| at.map(|at| self.file.column(self.group, at)).transpose();
            self.open = self.columns.iter().map(open).collect::<Result<_, Damage>>()?;
            self.group += 1;
        }
        let rows = self.left.min(max);
        let mut columns = Vec::with_capacity(self.open.len());
        for reader in &mut self.open {
            columns.push(match reader {
                None => Column { levels: Some(vec![0; rows]), values: Values::I64(Vec::new()) },
                Some((ColumnReader::Int32ColumnReader(reader), None)) => read(reader, rows, Values::I32)?,
                Some((ColumnReader::Int64ColumnReader(reader), None)) => read(reader, rows, Values::I64)?,
                Some((ColumnReader::Int32ColumnReader(reader), Some(words))) => {
                    read(reader, rows, |places| {
                        let places = places.into_iter().map(i32::cast_unsigned).collect();
                        Values::Picked { words: words.so_far(), places }
                    })?
                }
                Some(_) => return Err(Damage::Type),
            });
        }
        self.left -= rows;
        Ok(Some((rows, columns)))
    }
}

/// The library has assertions that a damaged file can fail (a negative column length, for one):
/// that must cost this file, not the program.
fn contained<T>(read: impl FnOnce() -> Result<T, Damage>) -> Result<T, Damage> {
    silence_contained();
    let before = CONTAINED.replace(true);
    let read = catch_unwind(AssertUnwindSafe(read));
    CONTAINED.set(before);
    read.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Damage::Panic(text))
    })
}

thread_local! {
    /// Whether a panic of this thread is told as damage.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Has panics that are told as damage say nothing themselves; others are told as before.
fn silence_contained() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !CONTAINED.get() {
                told(panic);
            }
        }));
    });
}

fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    wrap: impl FnOnce(Vec<T::T>) -> Values,
) -> Result<Column, Damage> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < rows {
        let (read, _, _) = reader.read_records(rows - done, Some(&mut levels), None, &mut values)?;
        if read == 0 {
            return Err(Damage::Ends { done, rows });
        }
        done += read;
    }
    // A required column leaves no levels.
    let levels = if levels.is_empty() { None } else { Some(levels) };
    Ok(Column { levels, values: wrap(values) })
}
