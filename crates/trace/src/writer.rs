//! Making a trace, so that whatever happens, what was closed stays readable.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use xweave_wire::record::Record;

use crate::{
    error::{Error, ErrorKind},
    event::{Event, Name, Names},
    manifest::Manifest,
    reader,
    row::Row,
    segments::Segments,
    site::{self, Site},
    table::TableWriter,
};

/// Writes a trace directory.
///
/// Nothing is synchronized to the disk: that would disturb what is being recorded. A killed
/// program leaves all closed segments; a crashed machine may not.
///
/// A writer that is dropped without [`Writer::finish`] leaves what a killed program leaves.
pub struct Writer {
    dir: PathBuf,
    manifest: Manifest,
    rows: Segments<Row>,
    events: Segments<Event>,
    names: Names,
    appended: u64,
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
        let (rows, events, names) = (Segments::new(dir), Segments::new(dir), Names::default());
        let mut writer = Self { dir: dir.to_owned(), manifest, rows, events, names, appended: 0 };
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

    /// Bytes of the trace that the domain with that number takes: its records and events, as far as they have been
    /// written. What is still collected for the next row group is not among them.
    pub fn bytes(&self, domain: u8) -> u64 {
        self.rows.bytes(domain) + self.events.bytes(domain)
    }

    /// Writes `trace.json`, at once or not at all.
    pub fn save(&mut self) -> Result<(), Error> {
        let (rows, events) = (self.rows.take_counts(), self.events.take_counts());
        self.manifest.records += rows.closed;
        self.manifest.events += events.closed;
        self.manifest.loss.unwritten += rows.unwritten + events.unwritten;
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
        self.appended += 1;
        let manifest = &self.manifest;
        self.rows.append(domain, || name_of(manifest, domain), Row::new(domain, time_ns, record), &())
    }

    /// The name for a text of events.
    pub fn name(&mut self, text: &str) -> Name {
        self.names.give(text)
    }

    /// Appends an event, its time on the common line and its name one of [`Writer::name`]. Failures are as those of
    /// [`Writer::append`].
    pub fn event(&mut self, event: Event) -> Result<(), Error> {
        let (manifest, domain) = (&self.manifest, event.domain);
        self.events.append(domain, || name_of(manifest, domain), event, &self.names)
    }

    /// Closes all segments that have rows, and writes the manifest: from now on nothing of what
    /// was appended can be lost with this process. Each call makes a file per domain: some seconds
    /// between calls keep their number low.
    ///
    /// All domains are tried; the first failure is returned.
    pub fn flush(&mut self) -> Result<(), Error> {
        let outcome = self.rows.flush(&()).and(self.events.flush(&self.names));
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
}

fn name_of(manifest: &Manifest, domain: u8) -> Result<String, Error> {
    let found = manifest.domains.iter().find(|d| d.number == domain);
    found.map(|found| found.name.clone()).ok_or_else(|| {
        let message = format!("a record of domain number {domain}, which the manifest lacks");
        Error::new(ErrorKind::Misuse, message)
    })
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
