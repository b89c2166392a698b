//! Rows grouped by local flow ID.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use xweave_trace::{Damage, Damaged, Row, Trace};
use xweave_wire::record::Kind;

use crate::dropped;

/// The most records of flows that are taken into memory unasked: with what is made of them, some 8 GB.
const MOST: usize = 32 << 20;

/// The records of a trace that belong to flows, in order.
pub struct Locals {
    /// Sorted by local flow ID, then time; rows of equal time stay in the order they were recorded in.
    pub rows: Vec<Row>,
    /// One per local flow ID, in ascending order.
    pub flows: Vec<Local>,
    /// Records in the trace, those of no flow included.
    pub records: u64,
    /// How many of them each site made.
    pub by_site: HashMap<u32, u64>,
    /// Files that could not be read.
    pub damaged: Vec<Damaged>,
}

/// What was recorded under one local flow ID.
#[derive(Clone, Debug)]
pub struct Local {
    /// The ID.
    pub id: u64,
    /// Which of [`Locals::rows`]. Never empty.
    pub rows: Range<usize>,
    /// Records that are known to be missing.
    pub lost: u64,
    /// Whether a record says that it began here.
    pub started: bool,
    /// Whether a record says that a key stopped carrying it, or that it became part of another.
    pub quit: bool,
    /// Place of the record that says that it was dropped, if it was.
    pub dropped: Option<usize>,
    /// The local flows that it is a part of, or that are parts of it.
    pub parents: Vec<u64>,
}

impl Locals {
    /// Reads and groups all records, or the first ones of more than memory should hold: [`Locals::damaged`] says so.
    pub fn of(trace: &Trace) -> Self {
        Self::at_most(trace, if trace.is_forced() { usize::MAX } else { MOST })
    }

    fn at_most(trace: &Trace, most: usize) -> Self {
        let (mut rows, mut damaged, mut by_site) = (Vec::new(), Vec::new(), HashMap::new());
        damaged.extend(trace.sites_damaged().cloned());
        for batch in trace.batches() {
            match batch {
                Ok(batch) => {
                    for row in &batch {
                        *by_site.entry(row.site).or_default() += 1;
                    }
                    rows.extend(batch.into_iter().filter(|row| row.flow != 0));
                    if rows.len() > most {
                        damaged.push(Damaged::new(trace.dir().join("records"), Damage::Memory { most }));
                        rows.truncate(most);
                        break;
                    }
                }
                Err(file) => damaged.push(file),
            }
        }
        rows.sort_by_key(|row| (row.flow, row.time_ns));
        let mut lost: HashMap<u64, u64> = HashMap::new();
        for loss in &trace.manifest().loss.flows {
            *lost.entry(loss.flow).or_default() += loss.records;
        }
        let parent = |row: &Row| match row.kind {
            Kind::Split | Kind::Merge => row.values().first().copied(),
            _ => None,
        };
        let merged: HashSet<u64> =
            rows.iter().filter(|row| row.kind == Kind::Merge).filter_map(parent).collect();
        let mut flows = Vec::new();
        let mut start = 0;
        for group in rows.chunk_by(|a, b| a.flow == b.flow) {
            let id = group[0].flow;
            flows.push(Local {
                id,
                rows: start..start + group.len(),
                lost: lost.get(&id).copied().unwrap_or(0),
                started: group.iter().any(|row| row.kind == Kind::Start || parent(row).is_some()),
                quit: merged.contains(&id) || group.iter().any(|row| row.kind == Kind::Quit),
                dropped: dropped::decisive(group).map(|row| start + row),
                parents: group.iter().filter_map(parent).collect(),
            });
            start += group.len();
        }
        Self { rows, flows, records: by_site.values().sum(), by_site, damaged }
    }

    /// The rows of a local flow.
    pub fn rows_of(&self, local: &Local) -> &[Row] {
        &self.rows[local.rows.clone()]
    }

    /// When a local flow's last record was made, in nanoseconds.
    pub fn end(&self, local: &Local) -> i64 {
        self.rows_of(local).last().map_or(i64::MIN, |row| row.time_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xweave_trace::{Domain, Manifest, Writer};
    use xweave_wire::record::Record;

    #[test]
    fn what_memory_should_not_hold_is_left_out_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
        let mut writer = Writer::create(dir.path(), Manifest { domains, ..Manifest::default() }).unwrap();
        for time_ns in 0..100 {
            let (kind, comm, values) = (Kind::Hop, [0; 16], Vec::new());
            let record = Record { time_ns, flow: 7, site: 1, pid: 1, tid: 1, cpu: 0, kind, comm, values };
            writer.append(1, i64::try_from(time_ns).unwrap(), &record).unwrap();
        }
        writer.finish().unwrap();
        let trace = Trace::open(dir.path()).unwrap();
        let locals = Locals::at_most(&trace, 60);
        assert_eq!((locals.rows.len(), locals.flows[0].rows.len()), (60, 60));
        let told = locals.damaged.last().unwrap().to_string();
        assert!(
            told.contains("records cannot be read") && told.contains("60") && told.contains("--force"),
            "{told}"
        );
        assert!(
            !Locals::at_most(&trace, 100).damaged.iter().any(|damaged| damaged.reason().contains("memory"))
        );
    }
}
