//! What records stored, whatever flows they belong to: how many there are of each site, and how their values lie.

use std::collections::HashMap;

use xweave_trace::{Damaged, Row, Site, Trace};
use xweave_wire::record::Kind;

use crate::{durations::rank, sample::Sample, sites::unknown};

/// Values of a site of which percentiles are exact; of more, those of a choice of as many.
const CHOSEN: usize = 8 << 10;

/// Different values that are counted, of one that records are grouped by.
const GROUPS: usize = 1 << 16;

/// Which records are meant.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Those of this function or advice.
    pub of: Option<String>,
    /// Those of this domain.
    pub domain: Option<String>,
}

/// What records are counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The domain.
    Domain,
    /// The processor, of each domain.
    Cpu,
    /// The process's number and its thread's name.
    Process,
    /// A stored value, by its name.
    Value(String),
}

/// The records that advice made.
#[derive(Debug)]
pub struct Stored {
    /// By site, those with the most records first.
    pub sites: Vec<SiteStored>,
    /// By what was asked for, the most frequent first.
    pub groups: Vec<Group>,
    /// Records whose groups are not listed: their values came when 65,536 others were known.
    pub ungrouped: u64,
    /// Of the value that was asked for: how many values have so many significant bits (0: the value 0), 65 counts; empty, if
    /// none was.
    pub bits: Vec<u64>,
    /// The first of them, as many as were asked for.
    pub records: Vec<StoredRecord>,
    /// All that were counted.
    pub count: u64,
    /// Files that could not be read, or not to their ends.
    pub damaged: Vec<Damaged>,
}

/// What was stored at a site.
#[derive(Debug)]
pub struct SiteStored {
    /// Where, as in `sites.parquet`.
    pub site: u32,
    /// Its domain.
    pub domain: String,
    /// The advice.
    pub advice: String,
    /// The function.
    pub function: String,
    /// Bytes from its beginning.
    pub offset: u64,
    /// How many records.
    pub records: u64,
    /// The values, by their places.
    pub values: Vec<Spread>,
}

/// How the values of one place lie.
#[derive(Debug)]
pub struct Spread {
    /// What it is called: `v1` to `v7`, if the trace does not tell.
    pub name: String,
    /// How many records have it.
    pub count: u64,
    /// The smallest.
    pub min: u64,
    /// The smallest that at least half of them do not exceed.
    pub p50: u64,
    /// The smallest that at least 99 % of them do not exceed.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// Records that have something in common.
#[derive(Debug)]
pub struct Group {
    /// What: a value in decimal, a name.
    pub is: String,
    /// How many.
    pub records: u64,
}

/// A record.
#[derive(Debug)]
pub struct StoredRecord {
    /// When, in nanoseconds of the trace's time line.
    pub t_ns: i64,
    /// The domain.
    pub domain: String,
    /// Logical CPU.
    pub cpu: u32,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread's name.
    pub comm: String,
    /// The advice.
    pub advice: String,
    /// The function.
    pub function: String,
    /// Local ID of the flow that it belongs to, if it belongs to one.
    pub flow: Option<u64>,
    /// What was stored: names and values.
    pub values: Vec<(String, u64)>,
}

struct Values {
    count: u64,
    min: u64,
    max: u64,
    sample: Sample<u64>,
}

struct OfSite<'a> {
    site: std::borrow::Cow<'a, Site>,
    wanted: bool,
    records: u64,
    values: Vec<Values>,
}

impl Stored {
    /// Goes through a trace's records.
    pub fn of(trace: &Trace, filter: &Filter, by: Option<&By>, hist: Option<&str>, most: usize) -> Self {
        let mut sites: HashMap<u32, OfSite<'_>> = HashMap::new();
        let mut groups: HashMap<String, u64> = HashMap::new();
        let mut stored = Self {
            sites: Vec::new(),
            groups: Vec::new(),
            ungrouped: 0,
            bits: hist.map(|_| vec![0; 65]).unwrap_or_default(),
            records: Vec::new(),
            count: 0,
            damaged: Vec::new(),
        };
        for part in trace.parts() {
            let part = match part {
                Ok(part) => part,
                Err(damaged) => {
                    stored.damaged.push(damaged);
                    continue;
                }
            };
            for row in part.rows.iter().filter(|row| row.kind == Kind::Hop && !row.values().is_empty()) {
                let of = sites.entry(row.site).or_insert_with(|| of_site(trace, filter, row.site));
                if !of.wanted {
                    continue;
                }
                of.add(row);
                stored.count += 1;
                if let Some(by) = by
                    && let Some(is) = group(trace, by, row, &of.site)
                {
                    if groups.len() < GROUPS || groups.contains_key(&is) {
                        *groups.entry(is).or_default() += 1;
                    } else {
                        stored.ungrouped += 1;
                    }
                }
                if let Some(value) = hist.and_then(|name| value(row, &of.site, name))
                    && let Some(count) = stored.bits.get_mut((u64::BITS - value.leading_zeros()) as usize)
                {
                    *count += 1;
                }
                stored.keep(trace, row, &of.site, most);
            }
        }
        stored.records.truncate(most);
        stored.groups = groups.into_iter().map(|(is, records)| Group { is, records }).collect();
        stored.groups.sort_by(|a, b| b.records.cmp(&a.records).then_with(|| a.is.cmp(&b.is)));
        stored.sites = sites.into_values().filter(|of| of.records > 0).map(OfSite::spread).collect();
        stored.sites.sort_by(|a, b| b.records.cmp(&a.records).then(a.site.cmp(&b.site)));
        stored
    }

    /// Keeps a record, if it is among the first.
    fn keep(&mut self, trace: &Trace, row: &Row, site: &Site, most: usize) {
        let late =
            self.records.len() >= most && self.records.last().is_none_or(|last| last.t_ns <= row.time_ns);
        if late {
            return;
        }
        let values = row.values().iter().enumerate();
        let record = StoredRecord {
            t_ns: row.time_ns,
            domain: trace.domain(row.domain).map_or_else(String::new, |domain| domain.name.clone()),
            cpu: row.cpu,
            pid: row.pid,
            tid: row.tid,
            comm: row.comm().into_owned(),
            advice: site.advice.clone(),
            function: site.function.clone(),
            flow: (row.flow != 0).then_some(row.flow),
            values: values.map(|(at, value)| (called(site, at), *value)).collect(),
        };
        let at = self.records.partition_point(|other| other.t_ns <= row.time_ns);
        self.records.insert(at, record);
        self.records.truncate(most);
    }
}

fn of_site<'a>(trace: &'a Trace, filter: &Filter, number: u32) -> OfSite<'a> {
    let site = match trace.site(number) {
        Some(site) => std::borrow::Cow::Borrowed(site),
        None => std::borrow::Cow::Owned(unknown(number)),
    };
    let named = |name: &String| *name == site.function || *name == site.advice;
    let here = filter.domain.as_ref().is_none_or(|domain| *domain == site.domain);
    let wanted = here && filter.of.as_ref().is_none_or(named);
    OfSite { site, wanted, records: 0, values: Vec::new() }
}

impl OfSite<'_> {
    fn add(&mut self, row: &Row) {
        self.records += 1;
        for (at, &value) in row.values().iter().enumerate() {
            if self.values.len() == at {
                let sample = Sample::of_at_most(CHOSEN);
                self.values.push(Values { count: 0, min: u64::MAX, max: 0, sample });
            }
            let Some(values) = self.values.get_mut(at) else { continue };
            values.count += 1;
            (values.min, values.max) = (values.min.min(value), values.max.max(value));
            values.sample.offer(value);
        }
    }

    fn spread(self) -> SiteStored {
        let Self { site, records, values, .. } = self;
        let spread = |(at, mut of): (usize, Values)| {
            let chosen = of.sample.chosen_mut();
            chosen.sort_unstable();
            let (p50, p99) = (rank(chosen, 50), rank(chosen, 99));
            Spread { name: called(&site, at), count: of.count, min: of.min, p50, p99, max: of.max }
        };
        let values = values.into_iter().enumerate().map(spread).collect();
        let Site { domain, advice, function, .. } = &*site;
        let (domain, advice, function) = (domain.clone(), advice.clone(), function.clone());
        SiteStored { site: site.site, domain, advice, function, offset: site.offset, records, values }
    }
}

/// What the value at a place is called.
fn called(site: &Site, at: usize) -> String {
    site.values.get(at).cloned().unwrap_or_else(|| format!("v{}", at + 1))
}

/// The value of a record that is called so, or is at the place `v1` to `v7`.
pub(crate) fn value(row: &Row, site: &Site, name: &str) -> Option<u64> {
    let at = site.values.iter().position(|called| called == name).or_else(|| {
        let nth: usize = name.strip_prefix('v')?.parse().ok()?;
        nth.checked_sub(1)
    });
    row.values().get(at?).copied()
}

fn group(trace: &Trace, by: &By, row: &Row, site: &Site) -> Option<String> {
    let domain = || trace.domain(row.domain).map_or("?", |domain| domain.name.as_str());
    Some(match by {
        By::Domain => domain().to_owned(),
        By::Cpu => format!("{} CPU {}", domain(), row.cpu),
        By::Process => format!("{} {}/{}", domain(), row.comm(), row.pid),
        By::Value(name) => value(row, site, name)?.to_string(),
    })
}
