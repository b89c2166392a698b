//! Making a trace, so that whatever happens, what was closed stays readable.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use xweave_wire::record::Record;

use crate::{
    error::{Error, ErrorKind},
    manifest::Manifest,
    reader, records,
    row::Row,
    site::{self, Site},
    table::TableWriter,
};

/// Rows of one row group: what is buffered per domain, and the least that a reader must hold.
const GROUP_ROWS: usize = 64 << 10;

/// Rows after which a segment is closed unasked.
const SEGMENT_ROWS: u64 = 1 << 20;

/// Writes a trace directory.
///
/// Nothing is synchronized to the disk: that would disturb what is being recorded. A killed
/// program leaves all closed segments; a crashed machine may not.
///
/// A writer that is dropped without [`Writer::finish`] leaves what a killed program leaves.
pub struct Writer {
    dir: PathBuf,
    manifest: Manifest,
    open: Vec<Open>,
    /// Number of the last segment begun: file names are unique whatever the domains are called.
    segments: u32,
    appended: u64,
}

/// What is under way for one domain.
struct Open {
    domain: u8,
    name: String,
    rows: Vec<Row>,
    segment: Option<Segment>,
}

/// A file that has not got its name yet.
struct Segment {
    table: TableWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
    rows: u64,
}

impl Writer {
    /// Begins a trace in a directory that holds none; makes the directory where it is missing.
    pub fn create(dir: &Path, manifest: Manifest) -> Result<Self, Error> {
        let path = dir.join("trace.json");
        if path.exists() {
            let message = format!(
                "{} holds a trace already: replace it with --force, or name another directory with -o",
                dir.display()
            );
            return Err(Error::new(ErrorKind::Exists, message));
        }
        let records = dir.join("records");
        fs::create_dir_all(&records).map_err(|e| Error::io("make", &records, &e))?;
        // A manifest without records would call them lost; records without a manifest would be mixed up.
        if !segments(&records)?.is_empty() {
            let message = format!("{} has records but no trace.json: remove it", dir.display());
            return Err(Error::new(ErrorKind::Exists, message));
        }
        let mut numbers: Vec<u8> = manifest.domains.iter().map(|domain| domain.number).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::new(ErrorKind::Misuse, "two domains of a trace have the same number"));
        }
        let mut writer = Self { dir: dir.to_owned(), manifest, open: Vec::new(), segments: 0, appended: 0 };
        writer.manifest.complete = false;
        writer.save()?;
        Ok(writer)
    }

    /// As [`Writer::create`], after removing the files of a trace that is there. Only files that a
    /// trace consists of are touched, and only where there is a `trace.json`.
    pub fn replace(dir: &Path, manifest: Manifest) -> Result<Self, Error> {
        let old = dir.join("trace.json");
        if old.exists() {
            for folder in ["records", "events"] {
                let folder = dir.join(folder);
                for path in segments(&folder)? {
                    remove(&path)?;
                }
            }
            remove(&dir.join("sites.parquet"))?;
            remove(&old)?;
        }
        Self::create(dir, manifest)
    }

    /// Where the trace is being made.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manifest as it will be written next.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The manifest, to be changed; [`Writer::save`], [`Writer::flush`] and [`Writer::finish`] write it.
    /// `records` and `lost` are kept by the writer.
    pub fn manifest_mut(&mut self) -> &mut Manifest {
        &mut self.manifest
    }

    /// Records that were appended, closed or not.
    pub fn records(&self) -> u64 {
        self.appended
    }

    /// Writes `trace.json`, at once or not at all.
    pub fn save(&mut self) -> Result<(), Error> {
        self.manifest.lost = self.manifest.loss.total();
        let path = self.dir.join("trace.json");
        let mut text = serde_json::to_vec_pretty(&self.manifest)
            .map_err(|e| Error::new(ErrorKind::Misuse, format!("cannot write {}: {e}", path.display())))?;
        text.push(b'\n');
        let temporary = self.dir.join(".trace.json.tmp");
        let written = File::create(&temporary).and_then(|mut file| file.write_all(&text));
        written.and_then(|()| fs::rename(&temporary, &path)).map_err(|e| {
            // Best effort: the failure to report is the first one.
            let _ = fs::remove_file(&temporary);
            Error::io("write", &path, &e)
        })
    }

    /// Writes `sites.parquet`, at once or not at all; replaces what was there.
    pub fn sites(&mut self, sites: &[Site]) -> Result<(), Error> {
        let path = self.dir.join("sites.parquet");
        let temporary = self.dir.join(".sites.parquet.tmp");
        let file = File::create(&temporary).map_err(|e| Error::io("make", &temporary, &e))?;
        let written = TableWriter::new(file, site::SCHEMA, &[]).and_then(|mut table| {
            table.write(&site::to_columns(sites))?;
            table.finish()
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&temporary);
            return Err(Error::write(&path, &error));
        }
        fs::rename(&temporary, &path).map_err(|e| Error::io("name", &path, &e))
    }

    /// Appends one record of the domain with that number, its time brought onto the common line.
    ///
    /// An error means that the domain's open segment, with its rows, is gone: they are counted in
    /// the manifest's `loss.unwritten`. Everything closed before is untouched, and appending may go on.
    pub fn append(&mut self, domain: u8, time_ns: i64, record: &Record) -> Result<(), Error> {
        let at = match self.open.iter().position(|open| open.domain == domain) {
            Some(at) => at,
            None => self.admit(domain)?,
        };
        self.appended += 1;
        self.open[at].rows.push(Row::new(domain, time_ns, record));
        if self.open[at].rows.len() < GROUP_ROWS {
            return Ok(());
        }
        self.write_group(at)?;
        let rows = self.open[at].segment.as_ref().map_or(0, |segment| segment.rows);
        if rows >= SEGMENT_ROWS { self.close(at) } else { Ok(()) }
    }

    /// Closes all segments that have rows, and writes the manifest: from now on nothing of what
    /// was appended can be lost with this process. Each call makes a file per domain: some seconds
    /// between calls keep their number low.
    ///
    /// All domains are tried; the first failure is returned.
    pub fn flush(&mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        for at in 0..self.open.len() {
            outcome = outcome.and(self.close(at));
        }
        outcome.and(self.save())
    }

    /// Ends the recording: closes everything and marks the trace complete.
    ///
    /// After a failure, what was closed is readable and the trace stays incomplete.
    pub fn finish(mut self) -> Result<Manifest, Error> {
        self.flush()?;
        self.manifest.complete = true;
        self.save()?;
        Ok(self.manifest)
    }

    fn admit(&mut self, domain: u8) -> Result<usize, Error> {
        let Some(found) = self.manifest.domains.iter().find(|d| d.number == domain) else {
            let message = format!("a record of domain number {domain}, which the manifest lacks");
            return Err(Error::new(ErrorKind::Misuse, message));
        };
        let open = Open { domain, name: found.name.clone(), rows: Vec::new(), segment: None };
        self.open.push(open);
        Ok(self.open.len() - 1)
    }

    /// Moves the buffered rows of a domain into its segment.
    fn write_group(&mut self, at: usize) -> Result<(), Error> {
        if self.open[at].rows.is_empty() {
            return Ok(());
        }
        let written = self.try_write_group(at);
        if written.is_err() {
            self.abandon(at);
        }
        self.open[at].rows.clear();
        written
    }

    fn try_write_group(&mut self, at: usize) -> Result<(), Error> {
        let open = &mut self.open[at];
        let segment = match &mut open.segment {
            Some(segment) => segment,
            none => {
                self.segments += 1;
                none.insert(Segment::begin(&self.dir, &open.name, self.segments)?)
            }
        };
        let columns = records::to_columns(&open.name, &open.rows);
        segment.table.write(&columns).map_err(|e| Error::write(&segment.path, &e))?;
        segment.rows += open.rows.len() as u64;
        Ok(())
    }

    fn close(&mut self, at: usize) -> Result<(), Error> {
        self.write_group(at)?;
        let Some(segment) = self.open[at].segment.take() else { return Ok(()) };
        let rows = segment.rows;
        match segment.close() {
            Ok(()) => {
                self.manifest.records += rows;
                Ok(())
            }
            Err(error) => {
                self.manifest.loss.unwritten += rows;
                Err(error)
            }
        }
    }

    /// Gives up a domain's open segment and buffered rows, and counts them.
    fn abandon(&mut self, at: usize) {
        let open = &mut self.open[at];
        self.manifest.loss.unwritten += open.rows.len() as u64;
        if let Some(segment) = open.segment.take() {
            self.manifest.loss.unwritten += segment.rows;
            // Its room may be what the manifest needs.
            let _ = fs::remove_file(&segment.temporary);
        }
    }
}

impl Segment {
    fn begin(dir: &Path, domain: &str, number: u32) -> Result<Self, Error> {
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
        let name: String = domain.chars().map(safe).collect();
        let path = dir.join("records").join(format!("{name}-{number:06}.parquet"));
        let temporary = dir.join("records").join(format!(".{name}-{number:06}.parquet.tmp"));
        let file = File::create(&temporary).map_err(|e| Error::io("make", &temporary, &e))?;
        let table = TableWriter::new(file, records::SCHEMA, &records::SEQUENTIAL).map_err(|e| {
            let _ = fs::remove_file(&temporary);
            Error::write(&path, &e)
        })?;
        Ok(Self { table, temporary, path, rows: 0 })
    }

    fn close(self) -> Result<(), Error> {
        if let Err(error) = self.table.finish() {
            let _ = fs::remove_file(&self.temporary);
            return Err(Error::write(&self.path, &error));
        }
        fs::rename(&self.temporary, &self.path).map_err(|e| Error::io("name", &self.path, &e))
    }
}

/// Parquet files of a folder, temporary ones included; none if there is no such folder.
fn segments(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    reader::files(folder, |name| name.ends_with(".parquet") || name.ends_with(".parquet.tmp"))
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, &e)),
        _ => Ok(()),
    }
}
