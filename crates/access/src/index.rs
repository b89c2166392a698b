//! An index, and questions to it.

use std::fs::File;
use std::path::Path;

use xweave_aspect::syntax::{Ident, Pointcut};
use xweave_code::dwarf::Debug;
use xweave_code::image::Image;
use xweave_code::types::KernelTypes;
use xweave_guard::private::Dir;

use crate::Error;
use crate::analysis::{Tell, analyse};
use crate::file::{LevelRow, Tables};
use crate::query::Query;
use crate::site::Coverage;

/// Which instruction of a program touches what.
pub struct Index {
    pub(crate) tables: Tables,
}

impl Index {
    /// Analyses a program. What is known of its types is what `kernel` and `debug` tell.
    pub fn new(image: &Image, kernel: &KernelTypes, debug: Option<&Debug>) -> Self {
        Self::telling(image, kernel, debug, &|_, _| {})
    }

    /// The same, which takes minutes of a whole kernel under emulation: `tell` is told how far it has come.
    pub fn telling(image: &Image, kernel: &KernelTypes, debug: Option<&Debug>, tell: Tell<'_>) -> Self {
        Self { tables: analyse(image, kernel, debug, tell) }
    }

    /// Reads an index that [`Index::write`] wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Cache`], and [`Error::Damaged`] if it is not one, or of another version.
    pub fn open(folder: &Dir, name: &str) -> Result<Self, Error> {
        Ok(Self { tables: Tables::open(folder, name)? })
    }

    /// The same, from a file that is open, which messages call `path`.
    ///
    /// # Errors
    ///
    /// As of [`Index::open`].
    pub fn of_file(path: &Path, file: &File) -> Result<Self, Error> {
        Ok(Self { tables: Tables::map(path, file)? })
    }

    /// What [`Index::write`] writes.
    pub fn bytes(&self) -> &[u8] {
        self.tables.bytes()
    }

    /// The same, from bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`]
    pub fn from_bytes(what: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        Ok(Self { tables: Tables::new(what, bytes)? })
    }

    /// Writes the index to a file, which is whole when it has its name.
    ///
    /// # Errors
    ///
    /// [`Error::Cache`]
    pub fn write(&self, folder: &Dir, name: &str) -> Result<(), Error> {
        self.tables.write(folder, name)
    }

    /// How much is understood.
    pub fn coverage(&self) -> Coverage {
        self.tables.coverage()
    }

    /// Whether the index knows source files and lines.
    pub fn has_lines(&self) -> bool {
        self.tables.has_lines()
    }

    /// A pointcut, to be asked of this index. `meant` tells whether what is written after `@` (or nothing) means the
    /// domain whose code this is.
    pub fn query<'q, M: Fn(Option<&Ident>) -> bool>(
        &'q self,
        pointcut: &'q Pointcut,
        meant: M,
    ) -> Query<'q, M> {
        Query::new(pointcut, &self.tables, meant)
    }

    /// The names of variables and parameters that can be asked for, each once.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.tables.names()
    }

    /// The levels of all access paths, those of a path together.
    pub(crate) fn levels(&self) -> impl Iterator<Item = LevelRow<'_>> {
        (0..self.tables.paths()).flat_map(|path| self.tables.levels(path))
    }
}
