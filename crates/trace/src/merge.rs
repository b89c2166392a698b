//! The events of all domains in the order of their times.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use crate::{
    damage::{Damage, Damaged},
    event::{Event, Names},
    events, given,
    reader::Trace,
    segments::domain_numbers,
    table::{Allowance, TableReader},
};

/// The most events that one batch holds.
const BATCH: usize = 16 << 10;

/// The most domains whose files are read side by side: as many as have numbers.
const SOURCES: usize = 255;

/// The events of a trace, as [`Trace::events`] gives them: in the order of their times, if those of each file are,
/// and its files are in the order of their names. Holds one batch of each domain in memory.
pub struct Events<'a> {
    trace: &'a Trace,
    names: Names,
    /// How many more names all domains together may have beyond their own.
    names_left: usize,
    sources: Vec<Source<'a>>,
    /// The next of each source but the current one: time and place.
    next: BinaryHeap<Reverse<(i64, usize)>>,
    /// The source whose turn it is, and the first of the others' next.
    current: Option<(usize, (i64, usize))>,
    damaged: Vec<Damaged>,
    allowance: Allowance,
}

/// The files of a domain, one after the other.
struct Source<'a> {
    files: VecDeque<&'a str>,
    open: Option<(&'a str, TableReader)>,
    batch: std::vec::IntoIter<Event>,
    /// How many more names are its own: another domain's, however many they are, leave it these.
    names_left: usize,
}

impl Trace {
    /// The events of all domains in the order of their times.
    pub fn events(&self) -> Events<'_> {
        Events::of(self)
    }

    /// When the last event of each domain was, in nanoseconds, by the domains' numbers: as the files' statistics tell it. None, if
    /// those of one do not, or it cannot be read.
    pub fn last_events(&self) -> Option<BTreeMap<u8, i64>> {
        let (mut all, mut allowance) = (BTreeMap::new(), self.allowance());
        let number = |name: &str| self.domain_number(name);
        for file in self.event_segments() {
            let mut table = self.table(1, file, (&["domain"], &[]), &mut allowance).ok()?;
            // A file has one domain's events only.
            let Some((rows, columns)) = table.next(1).ok()? else { continue };
            let (words, places) = columns.first()?.places(rows).ok()?;
            let name = words.get(usize::try_from(*places.first()?).ok()?)?.data();
            let greatest = table.greatest("time_ns")?;
            let last = all.entry(domain_numbers("events", number)(name).ok()?).or_insert(greatest);
            *last = greatest.max(*last);
        }
        Some(all)
    }
}

impl<'a> Events<'a> {
    pub(crate) fn of(trace: &'a Trace) -> Self {
        let mut sources: Vec<(&str, Source<'a>)> = Vec::new();
        let mut damaged = Vec::new();
        for file in trace.event_segments() {
            // NAME-000001.parquet: what was written for one domain goes on in the next of its files.
            let name = file.rsplit_once('-').map_or(file.as_str(), |(name, _)| name);
            match sources.iter().position(|(known, _)| *known == name) {
                Some(at) => sources[at].1.files.push_back(file),
                None if sources.len() == SOURCES => {
                    damaged.push(trace.damaged(1, file, Damage::Domains));
                }
                None => {
                    let batch = Vec::new().into_iter();
                    let (files, names_left) = ([file.as_str()].into(), given::OF_DOMAIN);
                    sources.push((name, Source { files, open: None, batch, names_left }));
                }
            }
        }
        let sources: Vec<_> = sources.into_iter().map(|(_, source)| source).collect();
        let (names, next, allowance) = (Names::default(), BinaryHeap::new(), trace.allowance());
        let (names_left, current) = (given::OF_ALL, None);
        let mut events = Self { trace, names, names_left, sources, next, current, damaged, allowance };
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

    /// Goes on with the source that has the next event, and returns that.
    #[cold]
    fn change_source(&mut self) -> Option<Event> {
        loop {
            if let Some((at, _)) = self.current.take() {
                self.line_up(at);
            }
            let Reverse((_, at)) = self.next.pop()?;
            let others = self.next.peek().map_or((i64::MAX, usize::MAX), |Reverse(next)| *next);
            self.current = Some((at, others));
            let event = self.next_of_current();
            if event.is_some() {
                return event;
            }
        }
    }

    /// Returns the next event of the current source, unless another source's comes first.
    #[inline]
    fn next_of_current(&mut self) -> Option<Event> {
        let (at, others) = self.current?;
        let batch = &mut self.sources.get_mut(at)?.batch;
        let is_first = batch.as_slice().first().is_some_and(|first| (first.time_ns, at) <= others);
        if is_first { batch.next() } else { None }
    }

    /// Puts the next event of a source into the line, if there is one.
    fn line_up(&mut self, at: usize) {
        let Some(source) = self.sources.get_mut(at) else { return };
        while source.batch.as_slice().is_empty() {
            let (file, open) = match source.open.take() {
                Some((file, table)) => (file, Some(table)),
                None => {
                    let Some(file) = source.files.pop_front() else { return };
                    (file, None)
                }
            };
            let room = source.names_left + self.names_left;
            let mut left = room;
            let read = read(self.trace, (&mut self.names, &mut left), &mut self.allowance, file, open);
            let own = source.names_left.min(room - left);
            source.names_left -= own;
            self.names_left -= room - left - own;
            match read {
                Ok(Some((table, batch))) => {
                    source.open = Some((file, table));
                    source.batch = batch.into_iter();
                }
                Ok(None) => {}
                Err(damage) => self.damaged.push(self.trace.damaged(1, file, damage)),
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
    (names, room): (&mut Names, &mut usize),
    allowance: &mut Allowance,
    file: &str,
    open: Option<TableReader>,
) -> Result<Option<(TableReader, Vec<Event>)>, Damage> {
    let mut table = match open {
        Some(table) => table,
        None => trace.table(1, file, (&events::REQUIRED, &events::OPTIONAL), allowance)?,
    };
    let number = |name: &str| trace.domain_number(name);
    let Some((count, columns)) = table.next(BATCH)? else { return Ok(None) };
    let batch = events::from_columns(&columns, count, number, names, room)?;
    Ok(Some((table, batch)))
}

impl Iterator for Events<'_> {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        // Most follow one of the same source.
        self.next_of_current().or_else(|| self.change_source())
    }
}
