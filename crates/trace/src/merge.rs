//! The events of all domains in the order of their times.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    path::{Path, PathBuf},
};

use crate::{
    event::{Event, Names},
    events,
    reader::{Damaged, Trace},
    table::TableReader,
};

/// The most events that one batch holds.
const BATCH: usize = 16 << 10;

/// The events of a trace, as [`Trace::events`] gives them: in the order of their times, if those of each file are,
/// and its files are in the order of their names. Holds one batch of each domain in memory.
pub struct Events<'a> {
    trace: &'a Trace,
    names: Names,
    sources: Vec<Source<'a>>,
    /// The next of each source: time and place.
    next: BinaryHeap<Reverse<(i64, usize)>>,
    damaged: Vec<Damaged>,
}

/// The files of a domain, one after the other.
struct Source<'a> {
    files: VecDeque<&'a PathBuf>,
    open: Option<(&'a PathBuf, TableReader)>,
    batch: std::vec::IntoIter<Event>,
}

impl<'a> Events<'a> {
    pub(crate) fn of(trace: &'a Trace) -> Self {
        let mut sources: Vec<(&str, Source<'a>)> = Vec::new();
        for path in trace.event_segments() {
            // NAME-000001.parquet: what was written for one domain goes on in the next of its files.
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
            match sources.iter_mut().find(|(known, _)| *known == name) {
                Some((_, source)) => source.files.push_back(path),
                None => {
                    let batch = Vec::new().into_iter();
                    sources.push((name, Source { files: [path].into(), open: None, batch }));
                }
            }
        }
        let sources: Vec<_> = sources.into_iter().map(|(_, source)| source).collect();
        let (names, next, damaged) = (Names::default(), BinaryHeap::new(), Vec::new());
        let mut events = Self { trace, names, sources, next, damaged };
        for at in 0..events.sources.len() {
            events.line_up(at);
        }
        events
    }

    /// The texts of the events so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The files so far that could not be read, or not to their ends.
    pub fn damaged(&self) -> &[Damaged] {
        &self.damaged
    }

    /// Puts the next event of a source into the line, if there is one.
    fn line_up(&mut self, at: usize) {
        let Some(source) = self.sources.get_mut(at) else { return };
        while source.batch.as_slice().is_empty() {
            let path = match &source.open {
                Some((path, _)) => *path,
                None => {
                    let Some(path) = source.files.pop_front() else { return };
                    path
                }
            };
            match read(self.trace, &mut self.names, source.open.take(), path) {
                Ok(Some((table, batch))) => {
                    source.open = Some((path, table));
                    source.batch = batch.into_iter();
                }
                Ok(None) => {}
                Err(reason) => self.damaged.push(Damaged { file: path.clone(), reason }),
            }
        }
        if let Some(first) = source.batch.as_slice().first() {
            self.next.push(Reverse((first.time_ns, at)));
        }
    }
}

/// Reads on in a file, which is opened if it is not: the next events, or `None` at its end.
fn read(
    trace: &Trace,
    names: &mut Names,
    open: Option<(&PathBuf, TableReader)>,
    path: &Path,
) -> Result<Option<(TableReader, Vec<Event>)>, String> {
    let mut table = match open {
        Some((_, table)) => table,
        None => TableReader::open(path, &events::REQUIRED, &events::OPTIONAL)?,
    };
    let domains = &trace.manifest().domains;
    let number = |name: &str| domains.iter().find(|domain| domain.name == name).map(|domain| domain.number);
    let Some((count, columns)) = table.next(BATCH)? else { return Ok(None) };
    let batch = events::from_columns(&columns, count, number, names)?;
    Ok(Some((table, batch)))
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Reverse((_, at)) = self.next.pop()?;
        let event = self.sources.get_mut(at)?.batch.next();
        self.line_up(at);
        event
    }
}
