//! Making a trace, so that whatever happens, what was closed stays readable.

use std::{fs::File, io::Write, path::Path, sync::Arc};

use xweave_guard::private::{self, Dir, Trust};
use xweave_wire::record::Record;

use crate::{
    SCHEMA,
    error::{Error, ErrorKind},
    event::{Event, Name},
    given::Given,
    manifest::{Clock, Domain, Exit, Manifest},
    processes::Processes,
    reader::{self, FILES, FOLDERS, MANIFEST, SITES, XENTRACE},
    row::Row,
    segments::{self, Segments},
    site::{self, Site},
    table::TableWriter,
};

/// Writes a trace directory, which is nobody's but the effective user's: modes are 0700 and 0600, and whatever is
/// done in it is done to the directory that was opened first.
///
/// Nothing is synchronized to the disk: that would disturb what is being recorded. A killed
/// program leaves all closed segments; a crashed machine may not.
///
/// A writer that is dropped without [`Writer::finish`] leaves what a killed program leaves.
pub struct Writer {
    dir: Arc<Dir>,
    manifest: Manifest,
    rows: Segments<Row>,
    events: Segments<Event>,
    processes: Processes,
    given: Given,
    appended: u64,
    /// What Xen recorded: the domain that sends it, and how many bytes that is.
    xentrace: Option<(File, u8, u64)>,
    /// What the trace was before, if this adds to one.
    before: Option<Manifest>,
}

impl Writer {
    /// Whether a trace can be begun there, where one that is there may be replaced or not. Makes and changes nothing.
    ///
    /// # Errors
    /// As of [`Writer::create`] and [`Writer::replace`], as far as they can be foreseen.
    pub fn check(dir: &Path, replace: bool) -> Result<(), Error> {
        match Dir::open(dir, Trust::Owner) {
            Ok(dir) => vacant(&dir, replace),
            Err(error) if error.is_missing() => private::can_create(dir).map_err(Error::output),
            Err(error) => Err(Error::output(error)),
        }
    }

    /// Begins a trace in a directory that holds none; makes the directory where it is missing.
    ///
    /// # Errors
    /// The directory holds a trace or something else already, is a link, belongs to somebody else or can be written
    /// to by others; or it cannot be made.
    pub fn create(dir: &Path, manifest: Manifest) -> Result<Self, Error> {
        let dir = Dir::create(dir).map_err(Error::output)?;
        vacant(&dir, false)?;
        Self::write(dir, manifest)
    }

    /// As [`Writer::create`], after removing the files of a trace that is there. Only regular files that a
    /// trace consists of are touched, and only where there is a `trace.json`.
    ///
    /// # Errors
    /// As of [`Writer::create`], but for the trace; or one of the trace's names is a link.
    pub fn replace(dir: &Path, manifest: Manifest) -> Result<Self, Error> {
        let dir = Dir::create(dir).map_err(Error::output)?;
        vacant(&dir, true)?;
        if dir.has(MANIFEST).map_err(Error::output)? {
            remove_files(&dir).map_err(Error::output)?;
        }
        Self::write(dir, manifest)
    }

    fn new(
        dir: Arc<Dir>,
        manifest: Manifest,
        (rows, events): (Segments<Row>, Segments<Event>),
        before: Option<Manifest>,
    ) -> Self {
        Self {
            dir,
            manifest,
            rows,
            events,
            processes: Processes::default(),
            given: Given::default(),
            appended: 0,
            xentrace: None,
            before,
        }
    }

    fn write(dir: Dir, manifest: Manifest) -> Result<Self, Error> {
        let mut numbers: Vec<u8> = manifest.domains.iter().map(|domain| domain.number).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::new(ErrorKind::Misuse, "two domains of a trace have the same number"));
        }
        dir.claim().and_then(|()| dir.create_dir(FOLDERS[0]).map(drop)).map_err(Error::output)?;
        let dir = Arc::new(dir);
        let (rows, events) = (Segments::new(dir.clone()), Segments::new(dir.clone()));
        let mut writer = Self::new(dir, manifest, (rows, events), None);
        writer.manifest.complete = false;
        writer.save()?;
        Ok(writer)
    }

    /// Goes on with a trace that was ended: one more domain becomes part of it, which gets a number that none has, and has no
    /// `exit` until [`Writer::finish`]. [`Writer::withdraw`] leaves the trace as it was, and so does a `finish` that fails.
    ///
    /// # Errors
    /// There is no trace, or one of another version's; it is still being written, or whoever did was killed, or it has a domain
    /// of that name: unless it is `forced`, and that domain's own beginning was broken off, which is taken away then.
    pub fn extend(dir: &Path, domain: Domain, clock: Clock, forced: bool) -> Result<Self, Error> {
        let dir = Arc::new(Dir::open(dir, Trust::Owner).map_err(Error::input)?);
        let mut before = reader::read_manifest(&dir)?;
        let at = dir.path().display();
        let wrong = |kind, what: String| Err(Error::new(kind, format!("{at} {what}")));
        if before.schema != SCHEMA {
            let what = format!("was written by xweave {}, and stays as it is", before.xweave);
            return wrong(ErrorKind::Misuse, what);
        }
        if !before.complete && !forced {
            let what = "is not complete: it is still being written, or whoever wrote it was killed; if nobody writes it \
                        any more, --force adds to it";
            return wrong(ErrorKind::Misuse, what.to_owned());
        }
        match before.domains.iter().position(|other| other.name == domain.name) {
            None => {}
            Some(place) if before.domains[place].exit.is_some() => {
                return wrong(ErrorKind::Exists, format!("has a domain {} already", domain.name));
            }
            Some(_) if !forced => {
                let what = format!(
                    "has a domain {} that is being added, or whoever did that was killed; if nobody does any more, \
                     --force begins again",
                    domain.name
                );
                return wrong(ErrorKind::Exists, what);
            }
            Some(place) => {
                before.domains.remove(place);
                before.clocks.retain(|clock| clock.domain != domain.name);
                Segments::<Row>::remove_of(&dir, &domain.name)?;
                Segments::<Event>::remove_of(&dir, &domain.name)?;
            }
        }
        let free = (1..=u8::MAX).find(|number| before.domains.iter().all(|other| other.number != *number));
        let Some(number) = free else {
            return wrong(ErrorKind::Misuse, "has as many domains as it can".to_owned());
        };
        let mut manifest = before.clone();
        manifest.domains.push(Domain { number, exit: None, ..domain });
        manifest.clocks.push(clock);
        let (rows, events) = (Segments::more(dir.clone())?, Segments::more(dir.clone())?);
        let mut writer = Self::new(dir, manifest, (rows, events), Some(before));
        writer.save()?;
        Ok(writer)
    }

    /// Takes away again what was added to a trace ([`Writer::extend`]): it is as it was. Of one that was begun anew it leaves
    /// what a killed program leaves.
    ///
    /// # Errors
    /// A file cannot be removed, or `trace.json` not be written: the trace is whole, and incomplete.
    pub fn withdraw(self) -> Result<(), Error> {
        let Some(before) = &self.before else { return Ok(()) };
        // While a segment is there its domain has to be, too.
        self.rows.withdraw()?;
        self.events.withdraw()?;
        write_manifest(&self.dir, before)
    }

    /// Where the trace is being made.
    pub fn dir(&self) -> &Path {
        self.dir.path()
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
        let xentrace =
            self.xentrace.as_ref().filter(|(_, of, _)| *of == domain).map_or(0, |(_, _, bytes)| *bytes);
        self.rows.bytes(domain) + self.events.bytes(domain) + xentrace
    }

    /// Writes `trace.json`, at once or not at all.
    pub fn save(&mut self) -> Result<(), Error> {
        let (rows, events) = (self.rows.take_counts(), self.events.take_counts());
        self.manifest.records += rows.closed;
        self.manifest.events += events.closed;
        self.manifest.loss.unwritten += rows.unwritten + events.unwritten;
        self.manifest.lost = self.manifest.loss.total();
        self.given.tell(&mut self.manifest);
        write_manifest(&self.dir, &self.manifest)
    }

    /// Writes `sites.parquet`, at once or not at all; replaces what was there.
    pub fn sites(&mut self, sites: &[Site]) -> Result<(), Error> {
        let mut content = Vec::new();
        TableWriter::new(&mut content, site::SCHEMA, &[])
            .and_then(|mut table| {
                table.write(&site::to_columns(sites))?;
                table.finish()
            })
            .map_err(|e| Error::write(&self.dir.path_of(SITES), e))?;
        self.dir.replace(SITES, &content).map_err(Error::output)
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

    /// The name for a text of any domain's events. A trace may have a million of them; what is beyond has no name, and the
    /// manifest's warnings tell how many events that are.
    pub fn name(&mut self, text: &str) -> Name {
        self.given.give(None, text)
    }

    /// The same for events of the domain with that number, which may have 65536 names that are new, whatever others have.
    pub fn name_of(&mut self, domain: u8, text: &str) -> Name {
        self.given.give(Some(domain), text)
    }

    /// Appends an event, its time on the common line and its name one that this writer gave. Failures are as those of
    /// [`Writer::append`].
    pub fn event(&mut self, mut event: Event) -> Result<(), Error> {
        self.processes.see(&mut event);
        let (manifest, domain) = (&self.manifest, event.domain);
        self.events.append(domain, || name_of(manifest, domain), event, &self.given.names)
    }

    /// Keeps the next bytes of what Xen records ([`XENTRACE`]), which the domain with that number sends.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn xentrace(&mut self, domain: u8, bytes: &[u8]) -> Result<(), Error> {
        if self.xentrace.is_none() {
            let file = self.dir.create_new(XENTRACE).map_err(Error::output)?;
            self.xentrace = Some((file, domain, 0));
        }
        if let Some((file, _, len)) = &mut self.xentrace {
            file.write_all(bytes).map_err(|e| Error::write(&self.dir.path_of(XENTRACE), e.into()))?;
            *len += bytes.len() as u64;
        }
        Ok(())
    }

    /// Closes all segments that have rows, and writes the manifest: from now on nothing of what
    /// was appended can be lost with this process. Each call makes a file per domain: some seconds
    /// between calls keep their number low.
    ///
    /// All domains are tried; the first failure is returned.
    pub fn flush(&mut self) -> Result<(), Error> {
        let outcome = self.rows.flush(&()).and(self.events.flush(&self.given.names));
        outcome.and(self.save())
    }

    /// Ends the recording: closes everything and marks the trace complete; one that was added to is as complete as it was, and
    /// the domain that was added has stopped.
    ///
    /// After a failure, what was closed is readable and the trace stays incomplete; one that was added to is as it was.
    pub fn finish(mut self) -> Result<Manifest, Error> {
        match self.end() {
            Ok(()) => Ok(self.manifest),
            Err(error) => {
                // What went wrong first is what there is to know.
                let _ = self.withdraw();
                Err(error)
            }
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        self.flush()?;
        match &self.before {
            None => self.manifest.complete = true,
            Some(_) => {
                if let Some(added) = self.manifest.domains.last_mut() {
                    added.exit = Some(Exit::Stopped);
                }
            }
        }
        self.save()
    }
}

fn write_manifest(dir: &Dir, manifest: &Manifest) -> Result<(), Error> {
    let mut text = serde_json::to_vec_pretty(manifest).map_err(|e| {
        let path = dir.path_of(MANIFEST);
        Error::new(ErrorKind::Misuse, format!("cannot write {}: {e}", path.display())).by(e)
    })?;
    text.push(b'\n');
    dir.replace(MANIFEST, &text).map_err(Error::output)
}

fn name_of(manifest: &Manifest, domain: u8) -> Result<String, Error> {
    let found = manifest.domains.iter().find(|d| d.number == domain);
    found.map(|found| found.name.clone()).ok_or_else(|| {
        let message = format!("a record of domain number {domain}, which the manifest lacks");
        Error::new(ErrorKind::Misuse, message)
    })
}

/// Whether a directory is one that a trace can be begun in.
fn vacant(dir: &Dir, replace: bool) -> Result<(), Error> {
    let at = dir.path().display();
    if dir.has(MANIFEST).map_err(Error::output)? {
        if replace {
            return Ok(());
        }
        let message =
            format!("{at} holds a trace already: replace it with --force, or name another directory with -o");
        return Err(Error::new(ErrorKind::Exists, message));
    }
    // What else is there is nobody's business; and the directory would be closed to whoever reads it today.
    for name in dir.names(FILES).map_err(Error::output)? {
        // A manifest without records would call them lost; records without a manifest would be mixed up.
        let message = match FOLDERS.contains(&name.as_str()) {
            true if segments::names(dir, &name)?.is_empty() => continue,
            true => format!("{at} has {name} but no trace.json: remove it"),
            false => format!(
                "{at} is no trace and has other files in it ({}): name a new or an empty directory with -o",
                xweave_text::printable(&name)
            ),
        };
        return Err(Error::new(ErrorKind::Exists, message));
    }
    Ok(())
}

/// Removes the files of a trace, the manifest last: what is left when it fails is still a trace.
fn remove_files(dir: &Dir) -> Result<(), private::Error> {
    for folder in FOLDERS {
        let Some(folder) = dir.open_dir(folder)? else { continue };
        for name in folder.names(FILES)?.iter().filter(|name| segments::is_segment(name)) {
            folder.remove(name)?;
        }
    }
    dir.remove(SITES)?;
    dir.remove(XENTRACE)?;
    dir.remove(MANIFEST)
}
