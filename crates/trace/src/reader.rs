//! Opening a trace and streaming its records.

use std::{collections::HashMap, path::Path};

use serde::Deserialize;
use xweave_guard::private::{self, Dir, Trust};
use xweave_text as text;

use crate::{
    SCHEMA,
    damage::{Damage, Damaged},
    error::{Error, ErrorKind},
    manifest::{Domain, Manifest},
    row::Row,
    site::{self, Site},
    table::{Allowance, TableReader},
};

/// The files of a trace, and its folders of segments.
pub(crate) const MANIFEST: &str = "trace.json";
pub(crate) const SITES: &str = "sites.parquet";
/// What Xen recorded, as xentrace writes it, until it is part of the trace.
pub const XENTRACE: &str = "xen.xt";
pub(crate) const FOLDERS: [&str; 2] = ["records", "events"];

/// The most files in a folder: one for each second and domain, for days.
pub(crate) const FILES: usize = 1 << 20;

/// Bytes of a manifest.
const MANIFEST_SIZE: u64 = 64 << 20;

/// Rows of a table that need not have a byte each in its files: what one segment has.
const ROWS: u64 = 2 << 20;

/// The same of the sites, and the bytes of their texts: besides so many for each byte of the file.
const SITE_ROWS: u64 = 64 << 10;
const SITE_TEXTS: usize = 16 << 20;
const SITE_TEXTS_PER_BYTE: usize = 64;
const SITE_BATCH: usize = 1 << 10;

/// A trace directory that has been opened.
pub struct Trace {
    dir: Dir,
    folders: [Option<Dir>; 2],
    forced: bool,
    manifest: Manifest,
    sites: Vec<Site>,
    sites_damaged: Option<Damaged>,
    /// Site number → place in `sites`.
    by_number: HashMap<u32, usize>,
    segments: Vec<String>,
    event_segments: Vec<String>,
}

/// As much of a manifest as every schema has.
#[derive(Deserialize)]
struct Version {
    schema: Option<u32>,
    #[serde(default)]
    xweave: String,
}

impl Trace {
    /// Opens a trace: reads the manifest and the sites, and finds the segments. Whatever texts it has are fit to be
    /// shown from then on.
    ///
    /// A damaged or missing `sites.parquet` is no failure: see [`Trace::sites_damaged`].
    ///
    /// # Errors
    /// It is no trace, or belongs to somebody else than the effective user and root, or others can write to it.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::open_as(dir, false)
    }

    /// As [`Trace::open`], whoever it belongs to, and however many rows it claims to have.
    ///
    /// # Errors
    /// It is no trace.
    pub fn open_forced(dir: &Path) -> Result<Self, Error> {
        Self::open_as(dir, true)
    }

    fn open_as(dir: &Path, forced: bool) -> Result<Self, Error> {
        let trust = if forced { Trust::Anyone } else { Trust::Owner };
        let dir = Dir::open(dir, trust).map_err(|e| match e {
            private::Error::Kind { found, .. } => not_a_trace(dir, &format!("is {found}")),
            _ if e.is_missing() => not_a_trace(dir, "is not there"),
            _ => Error::input(e),
        })?;
        let manifest = read_manifest(&dir)?;
        let (sites, sites_damaged) = match read_sites(&dir, forced) {
            Ok(sites) => (sites, None),
            Err(damage) => (Vec::new(), Some(Damaged::new(dir.path_of(SITES), damage))),
        };
        let by_number = sites.iter().enumerate().map(|(at, site)| (site.site, at)).collect();
        let [records, events] = FOLDERS.map(|folder| dir.open_dir(folder).map_err(Error::input));
        let folders = [records?, events?];
        let [segments, event_segments] = folders.each_ref().map(|folder| list(folder.as_ref()));
        let (segments, event_segments) = (segments?, event_segments?);
        // Without records nothing is of a site: imported traces have no such file.
        let has_records = !segments.is_empty() || manifest.records > 0;
        let sites_damaged = sites_damaged.filter(|_| has_records || !matches!(dir.has(SITES), Ok(false)));
        Ok(Self { dir, folders, forced, manifest, sites, sites_damaged, by_number, segments, event_segments })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Whether it was opened by [`Trace::open_forced`]: the user takes it as it is.
    pub fn is_forced(&self) -> bool {
        self.forced
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// All sites, in the file's order.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Whether an aspect that defines flows was woven.
    pub fn has_flows(&self) -> bool {
        self.sites.iter().any(|site| site.xflow.is_some())
    }

    /// Whether there are events, also where a recording that was killed has not counted them.
    pub fn has_events(&self) -> bool {
        self.manifest().events > 0 || self.events().next().is_some()
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

    /// The number of the domain of that name.
    pub fn domain_number(&self, name: &str) -> Option<u8> {
        self.manifest.domains.iter().find(|domain| domain.name == name).map(|domain| domain.number)
    }

    /// The files of records.
    pub(crate) fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The files of events.
    pub(crate) fn event_segments(&self) -> &[String] {
        &self.event_segments
    }

    /// How many rows the files of a table may have.
    pub(crate) fn allowance(&self) -> Allowance {
        Allowance::new(if self.forced { u64::MAX } else { ROWS })
    }

    /// Opens a segment of [`FOLDERS`]`[of]`.
    pub(crate) fn table(
        &self,
        of: usize,
        name: &str,
        (required, optional): (&[&'static str], &[&'static str]),
        allowance: &mut Allowance,
    ) -> Result<TableReader, Damage> {
        let folder = self.folders[of].as_ref().ok_or(Damage::NoFolder)?;
        let file = folder.open_file(name)?;
        TableReader::open(file, required, optional, allowance)
    }

    /// A segment of [`FOLDERS`]`[of]` cannot be read.
    pub(crate) fn damaged(&self, of: usize, name: &str, damage: Damage) -> Damaged {
        Damaged::new(self.folders[of].as_ref().unwrap_or(&self.dir).path_of(name), damage)
    }

    /// All records at once, and the files that could not be read.
    pub fn rows(&self) -> (Vec<Row>, Vec<Damaged>) {
        let (mut rows, mut damaged) = (Vec::new(), Vec::new());
        for part in self.parts() {
            match part {
                Ok(part) => rows.extend(part.rows),
                Err(file) => damaged.push(file),
            }
        }
        (rows, damaged)
    }
}

fn not_a_trace(dir: &Path, what: &str) -> Error {
    let hint = "name the directory that `xweave record -o DIR` wrote";
    Error::new(ErrorKind::NotATrace, format!("{} is not a trace: it {what}; {hint}", dir.display()))
}

pub(crate) fn read_manifest(dir: &Dir) -> Result<Manifest, Error> {
    let text = dir.read(MANIFEST, MANIFEST_SIZE).map_err(|e| match e.is_missing() {
        true => not_a_trace(dir.path(), "has no trace.json"),
        false => Error::input(e),
    })?;
    let damaged = |e: serde_json::Error| {
        let (path, said) = (dir.path_of(MANIFEST), text::printable_bytes(e.to_string().as_bytes(), 1024));
        Error::new(
            ErrorKind::Damaged,
            format!("{} is damaged: {said}; its Parquet files may still be read, by DuckDB", path.display()),
        )
        .by(e)
    };
    let version: Version = serde_json::from_slice(&text).map_err(damaged)?;
    match version.schema {
        None => {
            let message =
                format!("{} is not a trace: its trace.json has no schema version", dir.path().display());
            Err(Error::new(ErrorKind::NotATrace, message))
        }
        Some(schema) if schema > SCHEMA => {
            let message = format!(
                "{} has schema {schema}, written by xweave {}; this xweave reads up to schema {SCHEMA}: use that version or a later one",
                dir.path().display(),
                text::printable_bytes(version.xweave.as_bytes(), 64),
            );
            Err(Error::new(ErrorKind::NewerSchema, message))
        }
        Some(_) => {
            let mut manifest: Manifest = serde_json::from_slice(&text).map_err(damaged)?;
            manifest.make_printable();
            Ok(manifest)
        }
    }
}

fn read_sites(dir: &Dir, forced: bool) -> Result<Vec<Site>, Damage> {
    let file = dir.open_file(SITES)?;
    let size = file.metadata().map_or(0, |there| there.len());
    let most = SITE_TEXTS + usize::try_from(size).unwrap_or(usize::MAX).saturating_mul(SITE_TEXTS_PER_BYTE);
    let mut allowance = Allowance::new(if forced { u64::MAX } else { SITE_ROWS });
    let mut table = TableReader::open(file, &site::REQUIRED, &site::OPTIONAL, &mut allowance)?;
    let (mut sites, mut bytes) = (Vec::new(), 0);
    // Some at a time: the texts of a batch are in memory before they are counted.
    while let Some((rows, columns)) = table.next(SITE_BATCH)? {
        let batch = site::from_columns(&columns, rows)?;
        bytes += batch.iter().map(Site::text_len).sum::<usize>();
        if bytes > most && !forced {
            return Err(Damage::Texts { most });
        }
        sites.extend(batch);
    }
    Ok(sites)
}

/// Closed segments, in the order of their names. Hidden files are not closed yet.
fn list(folder: Option<&Dir>) -> Result<Vec<String>, Error> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let mut names = folder.names(FILES).map_err(Error::input)?;
    names.retain(|name| name.ends_with(".parquet") && !name.starts_with('.'));
    Ok(names)
}
