//! What can be wrong with a file of a trace.

use std::{io, path::PathBuf, sync::Arc};

use parquet::{basic::Compression, errors::ParquetError};
use xweave_guard::private;
use xweave_text as text;

/// A file that could not be read, or not to its end.
#[derive(Clone, Debug, thiserror::Error)]
// Whoever made the trace chose the names of its files.
#[error("{} cannot be read: {}", text::printable(&.file.to_string_lossy()), self.reason())]
pub struct Damaged {
    /// Which.
    pub file: PathBuf,
    #[source]
    damage: Arc<Damage>,
}

impl Damaged {
    /// That file cannot be read.
    pub fn new(file: PathBuf, damage: Damage) -> Self {
        Self { file, damage: Arc::new(damage) }
    }

    /// The same in words that are fit to be shown: they may quote the file.
    pub fn reason(&self) -> String {
        text::printable_bytes(self.damage.to_string().as_bytes(), 1024)
    }
}

/// What is wrong with a file of a trace. Its text may quote the file as it is: [`Damaged`] makes it fit to be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The folder that it should lie in is not there.
    #[error("its folder is not there")]
    NoFolder,
    /// It cannot be opened, or is not to be trusted.
    #[error("{}", without_path(.0))]
    Closed(#[from] private::Error),
    /// The system does not read it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The Parquet library cannot read it.
    #[error("{0}")]
    Parquet(#[from] ParquetError),
    /// An assertion of the Parquet library failed on it: its words, if it has any.
    #[error("{}", .0.as_deref().unwrap_or("its content makes no sense"))]
    Panic(Option<String>),
    /// It has not even room for what begins and ends a Parquet file.
    #[error("it is too short for a Parquet file")]
    Short,
    /// Its last bytes are not those of a Parquet file.
    #[error("it does not end as a Parquet file does")]
    End,
    /// Its footer is longer than the file has room for, or than any is.
    #[error("its footer has {length} bytes, of which {most} may be")]
    Footer {
        /// Bytes that it should have.
        length: u64,
        /// Bytes that it may have.
        most: u64,
    },
    /// Its schema makes no sense, or its columns lie too deep in each other.
    #[error("its schema cannot be read, or is more than {most} levels deep")]
    Schema {
        /// How deep they may lie.
        most: usize,
    },
    /// The number of a row group's rows is none.
    #[error("a row group has fewer rows than none")]
    RowCount,
    /// It claims more rows than are taken of so many bytes.
    #[error(
        "it claims {rows} rows in {bytes} bytes, more than any recording has ({left} were left for it); --force reads \
         them all the same"
    )]
    Rows {
        /// Rows that it claims.
        rows: u64,
        /// Bytes that it has.
        bytes: u64,
        /// Rows that were left for it.
        left: u64,
    },
    /// Its sites have more text than any recording's.
    #[error("its texts are longer than {most} bytes; --force reads them all the same")]
    Texts {
        /// Bytes that they may have.
        most: usize,
    },
    /// It is more than is held in memory.
    #[error("it has more than the {most} records of flows that are taken into memory; --force takes all")]
    Memory {
        /// Records that are.
        most: usize,
    },
    /// A column is packed in a way that is not read.
    #[error("a column is compressed with {0}: only SNAPPY is read, or none")]
    Compression(Compression),
    /// A column should lie where the file has ended.
    #[error("a column lies beyond the file's end")]
    Beyond,
    /// A column is of a type that no column of a trace has.
    #[error("a column is neither integer nor text")]
    Type,
    /// A column has fewer values than its row group has rows.
    #[error("a column ends after {done} of {rows} rows")]
    Ends {
        /// Rows that it has values for.
        done: usize,
        /// Rows that were to be read.
        rows: usize,
    },
    /// It lacks a column.
    #[error("it has no column {0}")]
    NoColumn(&'static str),
    /// A column has what it should not have.
    #[error("column {name} {wrong}")]
    Column {
        /// Which.
        name: &'static str,
        /// What.
        #[source]
        wrong: Wrong,
    },
    /// A site's number does not fit.
    #[error("the number {0} is beyond 32 bits")]
    Wide(u64),
    /// It tells of a domain that the manifest does not have.
    #[error("it has {what} of {domain:?}, a domain that trace.json lacks")]
    Domain {
        /// Records or events.
        what: &'static str,
        /// The domain, fit to be shown.
        domain: String,
    },
    /// One of its records is of an unknown kind.
    #[error("it has records of a kind that this xweave does not know")]
    Kind,
    /// Its events have more names than are remembered.
    #[error("its domain's events have more names than threads and events ever have")]
    Names,
    /// There are files of more domains than have numbers.
    #[error("it is of one domain more than there can be")]
    Domains,
}

/// What is wrong with a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It has text.
    #[error("holds text where numbers belong")]
    Text,
    /// It has numbers.
    #[error("holds numbers where text belongs")]
    Numbers,
    /// It has another number of rows than the other columns.
    #[error("has {rows} rows where others have {others}")]
    Rows {
        /// Its rows.
        rows: usize,
        /// Theirs.
        others: usize,
    },
    /// A row has no value.
    #[error("has a null")]
    Null,
    /// A number does not fit.
    #[error("has {0}, beyond 32 bits")]
    Wide(u64),
}

/// Why a file is not opened, whose name is told besides.
fn without_path(error: &private::Error) -> String {
    match error {
        private::Error::Io { error, .. } => error.to_string(),
        private::Error::Kind { found, wanted, .. } => format!("it is {found}, not a {wanted}"),
        private::Error::Owner { owner, .. } => {
            format!(
                "it belongs to user {owner}, neither the current user nor root; --force reads it all the same"
            )
        }
        private::Error::Writable { mode, .. } => {
            format!("other users can write to it (mode {mode:04o}); --force reads it all the same")
        }
        other => other.to_string(),
    }
}
