//! A table in the making, in segments: files of one domain each that get their names when they are whole.

use std::{fs::File, sync::Arc};

use xweave_guard::private::Dir;
use xweave_text as text;

use crate::{
    damage::Damage,
    error::Error,
    manifest,
    reader::FILES,
    table::{Column, TableWriter},
};

/// Rows of one row group: what is buffered per domain, and the least that a reader must hold.
const GROUP_ROWS: usize = 64 << 10;

/// Rows after which a segment is closed unasked.
const SEGMENT_ROWS: u64 = 1 << 20;

/// A line of a table that is kept in segments.
pub(crate) trait Line {
    /// The folder's name in the trace directory.
    const FOLDER: &'static str;
    /// The table's layout, as Parquet writes it down.
    const SCHEMA: &'static str;
    /// Columns whose neighbours differ little.
    const SEQUENTIAL: &'static [&'static str];
    /// What lines refer to.
    type Texts;

    /// The columns of one domain's lines, in the schema's order.
    fn columns(domain: &str, lines: &[Self], texts: &Self::Texts) -> Vec<Column>
    where
        Self: Sized;
}

/// Gives the number of a domain by its name as lines of `what` have it: nearly always the last one's, so that it is
/// seldom looked up.
pub(crate) fn domain_numbers<'a>(
    what: &'static str,
    number: impl Fn(&str) -> Option<u8>,
) -> impl FnMut(&'a [u8]) -> Result<u8, Damage> {
    let mut last: Option<(&[u8], u8)> = None;
    move |name| match last {
        Some((known, number)) if known == name => Ok(number),
        _ => {
            // As the manifest's names are received.
            let text = text::printable_bytes(name, manifest::NAME);
            let number = number(&text).ok_or(Damage::Domain { what, domain: text })?;
            last = Some((name, number));
            Ok(number)
        }
    }
}

/// What has become of lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// In closed segments.
    pub closed: u64,
    /// Given up.
    pub unwritten: u64,
}

/// The table.
pub(crate) struct Segments<L> {
    trace: Arc<Dir>,
    /// The table's own folder, when it has a file.
    folder: Option<Arc<Dir>>,
    open: Vec<Open<L>>,
    /// Number of the last segment begun: file names are unique whatever the domains are called.
    number: u32,
    /// The last one that there was before.
    there: u32,
    counts: Counts,
}

/// What is under way for one domain.
struct Open<L> {
    domain: u8,
    name: String,
    lines: Vec<L>,
    segment: Option<Segment>,
    /// Bytes of the files that were closed.
    closed: u64,
}

/// Parquet files of one of a trace's folders, temporary ones included; none if there is no such folder.
pub(crate) fn names(trace: &Dir, folder: &str) -> Result<Vec<String>, Error> {
    let names = || match trace.open_dir(folder)? {
        Some(folder) => folder.names(FILES),
        None => Ok(Vec::new()),
    };
    let mut names = names().map_err(Error::output)?;
    names.retain(|name| is_segment(name));
    Ok(names)
}

pub(crate) fn is_segment(name: &str) -> bool {
    name.ends_with(".parquet") || name.ends_with(".parquet.tmp")
}

/// A domain's name in the names of its segments.
fn safe(domain: &str) -> String {
    /// Bytes of a file's name, which may have 255.
    const LONGEST: usize = 100;
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    domain.chars().map(safe).take(LONGEST).collect()
}

/// The number that a segment's name has. Whoever made a file with a larger one than there can be gave it no number.
fn number(name: &str) -> Option<u32> {
    let name = name.strip_suffix(".tmp").unwrap_or(name).strip_suffix(".parquet")?;
    name.rsplit_once('-')?.1.parse().ok().filter(|number| *number <= u32::MAX / 2)
}

/// A file that has not got its name yet.
struct Segment {
    table: TableWriter<File>,
    folder: Arc<Dir>,
    temporary: String,
    name: String,
    rows: u64,
}

impl<L: Line> Segments<L> {
    pub(crate) fn new(trace: Arc<Dir>) -> Self {
        Self { trace, folder: None, open: Vec::new(), number: 0, there: 0, counts: Counts::default() }
    }

    /// Adds to a table that has some.
    pub(crate) fn more(trace: Arc<Dir>) -> Result<Self, Error> {
        let there = names(&trace, L::FOLDER)?.iter().filter_map(|name| number(name)).max().unwrap_or(0);
        Ok(Self { number: there, there, ..Self::new(trace) })
    }

    /// Takes away what a domain of that name has.
    pub(crate) fn remove_of(trace: &Dir, domain: &str) -> Result<(), Error> {
        let prefix = format!("{}-", safe(domain));
        Self::remove(trace, |name| {
            let own =
                name.trim_start_matches('.').strip_prefix(&prefix).and_then(|rest| rest.split('.').next());
            own.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        })
    }

    /// Takes away again what was added.
    pub(crate) fn withdraw(mut self) -> Result<(), Error> {
        (0..self.open.len()).for_each(|at| self.abandon(at));
        Self::remove(&self.trace, |name| number(name).is_some_and(|number| number > self.there))
    }

    /// Removes the files that are meant.
    fn remove(trace: &Dir, is_meant: impl Fn(&str) -> bool) -> Result<(), Error> {
        let Some(folder) = trace.open_dir(L::FOLDER).map_err(Error::output)? else { return Ok(()) };
        let names = names(trace, L::FOLDER)?.into_iter().filter(|name| is_meant(name));
        names.into_iter().try_for_each(|name| folder.remove(&name).map_err(Error::output))
    }

    /// What has become of lines since it was asked last.
    pub(crate) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Bytes that the lines of the domain with that number take: those of them that are in a file.
    pub(crate) fn bytes(&self, domain: u8) -> u64 {
        let of_domain = self.open.iter().filter(|open| open.domain == domain);
        of_domain
            .map(|open| open.closed + open.segment.as_ref().map_or(0, |segment| segment.table.bytes()))
            .sum()
    }

    /// Appends a line of the domain with that number, which `name` calls by its name.
    pub(crate) fn append(
        &mut self,
        domain: u8,
        name: impl FnOnce() -> Result<String, Error>,
        line: L,
        texts: &L::Texts,
    ) -> Result<(), Error> {
        let at = match self.open.iter().position(|open| open.domain == domain) {
            Some(at) => at,
            None => {
                self.open.push(Open { domain, name: name()?, lines: Vec::new(), segment: None, closed: 0 });
                self.open.len() - 1
            }
        };
        self.open[at].lines.push(line);
        if self.open[at].lines.len() < GROUP_ROWS {
            return Ok(());
        }
        self.write_group(at, texts)?;
        let rows = self.open[at].segment.as_ref().map_or(0, |segment| segment.rows);
        if rows >= SEGMENT_ROWS { self.close(at, texts) } else { Ok(()) }
    }

    /// Closes all segments that have lines. All domains are tried; the first failure is returned.
    pub(crate) fn flush(&mut self, texts: &L::Texts) -> Result<(), Error> {
        let mut outcome = Ok(());
        for at in 0..self.open.len() {
            outcome = outcome.and(self.close(at, texts));
        }
        outcome
    }

    /// Moves the buffered lines of a domain into its segment.
    fn write_group(&mut self, at: usize, texts: &L::Texts) -> Result<(), Error> {
        if self.open[at].lines.is_empty() {
            return Ok(());
        }
        let written = self.try_write_group(at, texts);
        if written.is_err() {
            self.abandon(at);
        }
        self.open[at].lines.clear();
        written
    }

    fn try_write_group(&mut self, at: usize, texts: &L::Texts) -> Result<(), Error> {
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => {
                let made = self.trace.create_dir(L::FOLDER).map_err(Error::output)?;
                self.folder.insert(Arc::new(made)).clone()
            }
        };
        let open = &mut self.open[at];
        let segment = match &mut open.segment {
            Some(segment) => segment,
            none => {
                self.number += 1;
                none.insert(Segment::begin::<L>(folder, &open.name, self.number)?)
            }
        };
        let columns = L::columns(&open.name, &open.lines, texts);
        let table = &mut segment.table;
        table.write(&columns).map_err(|e| Error::write(&segment.folder.path_of(&segment.name), e))?;
        segment.rows += open.lines.len() as u64;
        Ok(())
    }

    fn close(&mut self, at: usize, texts: &L::Texts) -> Result<(), Error> {
        self.write_group(at, texts)?;
        let Some(segment) = self.open[at].segment.take() else { return Ok(()) };
        let (rows, bytes) = (segment.rows, segment.table.bytes());
        let closed = segment.close();
        self.open[at].closed += if closed.is_ok() { bytes } else { 0 };
        *(if closed.is_ok() { &mut self.counts.closed } else { &mut self.counts.unwritten }) += rows;
        closed
    }

    /// Gives up a domain's open segment and buffered lines, and counts them.
    fn abandon(&mut self, at: usize) {
        let open = &mut self.open[at];
        self.counts.unwritten += open.lines.len() as u64;
        if let Some(segment) = open.segment.take() {
            self.counts.unwritten += segment.rows;
            // Its room may be what the manifest needs.
            let _ = segment.folder.remove(&segment.temporary);
        }
    }
}

impl Segment {
    fn begin<L: Line>(folder: Arc<Dir>, domain: &str, number: u32) -> Result<Self, Error> {
        let name = format!("{}-{number:06}.parquet", safe(domain));
        let temporary = format!(".{name}.tmp");
        let file = folder.create_new(&temporary).map_err(Error::output)?;
        let table = TableWriter::new(file, L::SCHEMA, L::SEQUENTIAL).map_err(|e| {
            let _ = folder.remove(&temporary);
            Error::write(&folder.path_of(&name), e)
        })?;
        Ok(Self { table, folder, temporary, name, rows: 0 })
    }

    fn close(self) -> Result<(), Error> {
        if let Err(error) = self.table.finish() {
            let _ = self.folder.remove(&self.temporary);
            return Err(Error::write(&self.folder.path_of(&self.name), error));
        }
        self.folder.rename(&self.temporary, &self.name).map_err(Error::output)
    }
}
