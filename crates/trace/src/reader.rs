//! Opening a trace and streaming its records.

use std::{
    collections::{HashMap, VecDeque},
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    SCHEMA,
    error::{Error, ErrorKind},
    manifest::{Domain, Manifest},
    merge::Events,
    records,
    row::Row,
    site::{self, Site},
    table::TableReader,
};

/// The most rows that one batch holds.
const BATCH_ROWS: usize = 64 << 10;

/// A trace directory that has been opened.
pub struct Trace {
    dir: PathBuf,
    manifest: Manifest,
    sites: Vec<Site>,
    sites_damaged: Option<Damaged>,
    /// Site number → place in `sites`.
    by_number: HashMap<u32, usize>,
    segments: Vec<PathBuf>,
    event_segments: Vec<PathBuf>,
}

/// A file that could not be read, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Which.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cannot be read: {}", self.file.display(), self.reason)
    }
}

/// As much of a manifest as every schema has.
#[derive(Deserialize)]
struct Version {
    schema: Option<u32>,
    #[serde(default)]
    xweave: String,
}

impl Trace {
    /// Opens a trace: reads the manifest and the sites, and finds the segments.
    ///
    /// A damaged or missing `sites.parquet` is no failure: see [`Trace::sites_damaged`].
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let manifest = read_manifest(dir)?;
        let path = dir.join("sites.parquet");
        let (sites, sites_damaged) = match read_sites(&path) {
            Ok(sites) => (sites, None),
            Err(reason) => (Vec::new(), Some(Damaged { file: path, reason })),
        };
        let by_number = sites.iter().enumerate().map(|(at, site)| (site.site, at)).collect();
        let segments = list(&dir.join("records"))?;
        let event_segments = list(&dir.join("events"))?;
        let dir = dir.to_owned();
        Ok(Self { dir, manifest, sites, sites_damaged, by_number, segments, event_segments })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// All sites, in the file's order.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// What is wrong with `sites.parquet`, if it could not be read.
    pub fn sites_damaged(&self) -> Option<&Damaged> {
        self.sites_damaged.as_ref()
    }

    /// The site with that number.
    pub fn site(&self, number: u32) -> Option<&Site> {
        self.by_number.get(&number).map(|&at| &self.sites[at])
    }

    /// The domain with that number.
    pub fn domain(&self, number: u8) -> Option<&Domain> {
        self.manifest.domains.iter().find(|domain| domain.number == number)
    }

    /// The records, segment by segment in the order of their names, in batches of bounded size.
    /// A file that cannot be read, or not to its end, is one `Err`; the next ones follow.
    pub fn batches(&self) -> Batches<'_> {
        Batches { trace: self, segments: self.segments.iter().collect(), open: None }
    }

    /// The events of all domains in the order of their times.
    pub fn events(&self) -> Events<'_> {
        Events::of(self)
    }

    /// The files of events.
    pub(crate) fn event_segments(&self) -> &[PathBuf] {
        &self.event_segments
    }

    /// All records at once, and the files that could not be read.
    pub fn rows(&self) -> (Vec<Row>, Vec<Damaged>) {
        let (mut rows, mut damaged) = (Vec::new(), Vec::new());
        for batch in self.batches() {
            match batch {
                Ok(batch) => rows.extend(batch),
                Err(file) => damaged.push(file),
            }
        }
        (rows, damaged)
    }
}

/// The records of a trace, as [`Trace::batches`] gives them. Holds one batch in memory.
pub struct Batches<'a> {
    trace: &'a Trace,
    segments: VecDeque<&'a PathBuf>,
    open: Option<(&'a PathBuf, TableReader)>,
}

impl Iterator for Batches<'_> {
    type Item = Result<Vec<Row>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (path, mut table) = match self.open.take() {
                Some(open) => open,
                None => {
                    let path = self.segments.pop_front()?;
                    match TableReader::open(path, &records::REQUIRED, &records::OPTIONAL) {
                        Ok(table) => (path, table),
                        Err(reason) => return Some(Err(Damaged { file: path.clone(), reason })),
                    }
                }
            };
            let domains = &self.trace.manifest.domains;
            let number = |name: &str| domains.iter().find(|d| d.name == name).map(|d| d.number);
            let batch = table.next(BATCH_ROWS).and_then(|batch| {
                batch.map(|(count, columns)| records::from_columns(&columns, count, number)).transpose()
            });
            match batch {
                Ok(Some(rows)) => {
                    self.open = Some((path, table));
                    return Some(Ok(rows));
                }
                Ok(None) => {}
                Err(reason) => return Some(Err(Damaged { file: path.clone(), reason })),
            }
        }
    }
}

fn read_manifest(dir: &Path) -> Result<Manifest, Error> {
    let path = dir.join("trace.json");
    let text = fs::read(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let what = if dir.is_dir() { "has no trace.json" } else { "is no directory" };
            let hint = "name the directory that `xweave record -o DIR` wrote";
            Error::new(ErrorKind::NotATrace, format!("{} is not a trace: it {what}; {hint}", dir.display()))
        }
        _ => Error::io("read", &path, &e),
    })?;
    let damaged =
        |e: serde_json::Error| Error::new(ErrorKind::Damaged, format!("{} is damaged: {e}", path.display()));
    let version: Version = serde_json::from_slice(&text).map_err(damaged)?;
    match version.schema {
        None => {
            let message = format!("{} is not a trace: its trace.json has no schema version", dir.display());
            Err(Error::new(ErrorKind::NotATrace, message))
        }
        Some(schema) if schema > SCHEMA => {
            let message = format!(
                "{} has schema {schema}, written by xweave {}; this xweave reads up to schema {SCHEMA}: use that version or a later one",
                dir.display(),
                version.xweave,
            );
            Err(Error::new(ErrorKind::NewerSchema, message))
        }
        Some(_) => serde_json::from_slice(&text).map_err(damaged),
    }
}

fn read_sites(path: &Path) -> Result<Vec<Site>, String> {
    let mut table = TableReader::open(path, &site::REQUIRED, &site::OPTIONAL)?;
    let mut sites = Vec::new();
    while let Some((rows, columns)) = table.next(BATCH_ROWS)? {
        sites.extend(site::from_columns(&columns, rows)?);
    }
    Ok(sites)
}

/// Closed segments, in the order of their names. Hidden files are not closed yet.
fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    files(folder, |name| name.ends_with(".parquet") && !name.starts_with('.'))
}

/// The files of a folder that have such names, in the order of these; none if there is no such folder.
pub(crate) fn files(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read", folder, &e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io("read", folder, &e))?.path();
        if wanted(&path.file_name().unwrap_or_default().to_string_lossy()) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
