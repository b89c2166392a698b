//! The records of all domains about in the order of their times, so that what is read can be done with and let go.

use std::collections::HashSet;

use crate::{
    damage::{Damage, Damaged},
    reader::Trace,
    records,
    row::Row,
    table::{Allowance, TableReader},
};

/// Rows that are read at once: with their columns, what a processor's cache holds.
const BATCH: usize = 8 << 10;

/// The records of a trace, as [`Trace::parts`] gives them: the groups of rows of all files in the order of the earliest
/// times that they say to have. Holds one batch in memory.
pub struct Parts<'a> {
    trace: &'a Trace,
    /// The last one first.
    groups: Vec<Group>,
    /// The file that is being read, and its place among the segments.
    open: Option<(usize, TableReader)>,
    /// Files of which nothing more is read, and what is to be said of them.
    given_up: HashSet<usize>,
    damaged: Vec<Damaged>,
    rows: u64,
}

/// A group of rows of a file.
#[derive(Clone, Copy)]
struct Group {
    earliest: i64,
    file: usize,
    nth: usize,
}

/// Some records of one file.
pub struct Part {
    /// The records, in the file's order.
    pub rows: Vec<Row>,
    /// Before that time no record is left to be read, if the files are right about themselves.
    pub before_ns: i64,
}

impl Trace {
    /// The records of all files, those of the earliest times first. A file that cannot be read, or not to its end, is
    /// one `Err`.
    pub fn parts(&self) -> Parts<'_> {
        let mut parts = Parts {
            trace: self,
            groups: Vec::new(),
            open: None,
            given_up: HashSet::new(),
            damaged: Vec::new(),
            rows: 0,
        };
        let mut allowance = self.allowance();
        for (file, name) in self.segments().iter().enumerate() {
            match self.records(name, &mut allowance) {
                Ok(table) => {
                    for (nth, (rows, earliest)) in table.groups(records::TIME).into_iter().enumerate() {
                        parts.rows = parts.rows.saturating_add(rows);
                        parts.groups.push(Group { earliest, file, nth });
                    }
                }
                Err(damage) => parts.damaged.push(self.damaged(0, name, damage)),
            }
        }
        parts.damaged.reverse();
        parts.groups.sort_by_key(|group| std::cmp::Reverse((group.earliest, group.file, group.nth)));
        parts
    }

    fn records(&self, name: &str, allowance: &mut Allowance) -> Result<TableReader, Damage> {
        self.table(0, name, (&records::REQUIRED, &records::OPTIONAL), allowance)
    }
}

impl Parts<'_> {
    /// How many records the files say to have.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The next rows of the file that is being read, or of the next group.
    fn read(&mut self) -> Result<Option<Vec<Row>>, (usize, Damage)> {
        loop {
            let (file, mut table) = match self.open.take() {
                Some(open) => open,
                None => {
                    let Some(Group { file, nth, .. }) = self.groups.pop() else { return Ok(None) };
                    if self.given_up.contains(&file) {
                        continue;
                    }
                    let Some(name) = self.trace.segments().get(file) else { continue };
                    // How many rows all files may have has been seen to.
                    let mut allowance = self.trace.allowance();
                    let mut table =
                        self.trace.records(name, &mut allowance).map_err(|damage| (file, damage))?;
                    table.only(nth);
                    (file, table)
                }
            };
            let number = |name: &str| self.trace.domain_number(name);
            let batch = table.next(BATCH).and_then(|batch| {
                batch.map(|(count, columns)| records::from_columns(&columns, count, number)).transpose()
            });
            if let Some(rows) = batch.map_err(|damage| (file, damage))? {
                self.open = Some((file, table));
                return Ok(Some(rows));
            }
        }
    }
}

impl Iterator for Parts<'_> {
    type Item = Result<Part, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(damaged) = self.damaged.pop() {
            return Some(Err(damaged));
        }
        match self.read() {
            Ok(None) => None,
            Ok(Some(rows)) => {
                // What is left of an open group is no earlier than the first of the others, or is of this group.
                let open = self.open.as_ref().is_some_and(|(_, table)| table.is_within());
                let next = self.groups.last().map_or(i64::MAX, |group| group.earliest);
                Some(Ok(Part { rows, before_ns: if open { i64::MIN } else { next } }))
            }
            Err((file, damage)) => {
                self.given_up.insert(file);
                let name = self.trace.segments().get(file).map_or("?", String::as_str);
                Some(Err(self.trace.damaged(0, name, damage)))
            }
        }
    }
}
