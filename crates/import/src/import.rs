//! Several files, one trace.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use rustc_hash::FxHashMap;
use xweave_trace::{EventLoss, Late, Manifest, TimeSpan, TscLine, VmName, Writer, event::Kind};

use crate::{
    clocks::{self, Part},
    ctf::Ctf,
    dat::{self, Dat},
    error::{Error, ErrorKind, UNDERSTOOD},
    input::Input,
    kernel::Kernel,
    merge::{Early, Item, Stream, merge},
    perf::{self, Perf},
    sink::Sink,
    xen::{self, Xentrace},
};

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Replace a trace that is in the directory.
    pub force: bool,
    /// The command line, for the manifest.
    pub command: Vec<String>,
    /// How fast the TSC counts that times of xentrace's files are of, in Hz; none to let these tell.
    pub cpu_hz: Option<u64>,
    /// Files that were recorded in one of Xen's domains, of whose host a file of xentrace is among them; and its number. Of a
    /// trace that a file is added to, names of domains instead.
    pub domids: Vec<(PathBuf, u16)>,
}

/// What came of an import.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Events that were written.
    pub events: u64,
    /// Records that the recorder lost, as far as it counted.
    pub lost: u64,
    /// The domains, in the order of the files.
    pub domains: Vec<Imported>,
    /// How many events of each kind, by its name; those that there are.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Names of the records that have no kind of their own (`other`), and how many of each.
    pub unknown: BTreeMap<String, u64>,
    /// What else there is to know, in words.
    pub warnings: Vec<String>,
    /// What could not be read.
    pub damage: Vec<String>,
    /// Of a file that was added to a trace, records that are not of its time.
    pub outside: u64,
}

/// What came of a file.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The domain's name.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// How many events.
    pub events: u64,
    /// Records that are missing.
    pub lost: u64,
    /// How often some are missing of which it is known when.
    pub gaps: u64,
    /// Events that have a later time than their own: how many, and by how many nanoseconds at most.
    pub late: (u64, u64),
    /// Processors that had events, counted up to the last one.
    pub cpus: u32,
    /// The groups of events (`xweave record --events`) that there are some of.
    pub groups: BTreeSet<&'static str>,
    /// Virtual machines that it runs and tells of.
    pub guests: Vec<VmName>,
}

/// The most files that one trace is made of: domains have numbers of eight bits.
const FILES: usize = 250;

/// A file that was opened.
pub(crate) struct File {
    path: PathBuf,
    input: Input,
    content: Content,
}

/// What describes a file's records.
pub(crate) enum Content {
    Dat(Dat),
    Perf(Perf),
    Ctf(Ctf),
    Xen(Xentrace),
}

/// What came of a file's records, besides events.
#[derive(Default)]
struct DecodeStats {
    lost: u64,
    /// Records that had to get a later time than theirs.
    early: Early,
    /// How often records were lost that nobody counted.
    gaps: u64,
    damage: Vec<String>,
    /// What whoever decoded it says besides.
    warnings: Vec<String>,
    /// Virtual machines that it tells of.
    guests: Vec<VmName>,
    /// Records of before or after the recording that it is added to.
    outside: u64,
}

impl Outcome {
    /// Has a manifest tell what came of its domains' files.
    pub(crate) fn tell(&self, manifest: &mut Manifest) {
        let lossy = self.domains.iter().filter(|domain| domain.lost > 0 || domain.gaps > 0);
        let loss = |domain: &Imported| EventLoss {
            domain: domain.name.clone(),
            dropped: domain.lost,
            ..EventLoss::default()
        };
        manifest.loss.events.extend(lossy.map(loss));
        let late = self.domains.iter().filter(|domain| domain.late.0 > 0);
        let late = late.map(|domain| Late {
            domain: domain.name.clone(),
            events: domain.late.0,
            most_ns: domain.late.1,
        });
        manifest.loss.late.extend(late);
        for imported in &self.domains {
            let of = manifest.domains.iter_mut().filter(|domain| domain.name == imported.name);
            for domain in of {
                domain.events = imported.groups.iter().map(|group| (*group).to_owned()).collect();
                domain.vms.clone_from(&imported.guests);
                // Of those that no file counts.
                if domain.cpus == 0 {
                    domain.cpus = imported.cpus;
                }
            }
        }
        manifest.warnings.extend(self.warnings.iter().chain(&self.damage).cloned());
    }
}

/// Makes a trace in the directory `dir` of what `files` hold.
///
/// Damage to a file is no failure if its records can be read: [`Outcome::damage`].
pub fn import(files: &[PathBuf], dir: &Path, options: &Options) -> Result<Outcome, Error> {
    count(files.len())?;
    let mut opened: Vec<File> =
        files.iter().map(|path| File::named(path, options)).collect::<Result<_, _>>()?;
    if options.cpu_hz.is_some() && !opened.iter().any(|file| matches!(file.content, Content::Xen(_))) {
        let what = "--cpu-hz is for files of xentrace, and none of these is one: leave it out";
        return Err(Error::new(ErrorKind::Foreign, what));
    }
    for (path, domid) in &options.domids {
        in_domain(&mut opened, path, *domid)?;
    }
    let (parts, warnings) = parts(&opened);
    let reference = parts.iter().find(|part| part.clock.error_ns == 0).map(|part| part.domain.name.clone());
    let manifest = Manifest {
        command: options.command.clone(),
        reference: reference.unwrap_or_default(),
        domains: parts.iter().map(|part| part.domain.clone()).collect(),
        clocks: parts.iter().map(|part| part.clock.clone()).collect(),
        ..Manifest::default()
    };
    let begin = if options.force { Writer::replace } else { Writer::create };
    let mut writer = begin(dir, manifest)?;
    let (mut outcome, span) = events(&opened, &parts, &mut writer)?;
    outcome.warnings.splice(0..0, warnings);
    let manifest = writer.manifest_mut();
    outcome.tell(manifest);
    TimeSpan { from: manifest.start_ns, to: manifest.end_ns } = span.unwrap_or_default();
    outcome.events = writer.finish()?.events;
    Ok(outcome)
}

/// Gives `out` the events of `files`, file by file; domains have the numbers of files, from 1 on. The paths are for
/// messages only.
pub fn decode(
    files: Vec<(PathBuf, Input)>,
    options: &Options,
    out: &mut impl Sink,
) -> Result<Outcome, Error> {
    let opened = open(files, options)?;
    let (parts, warnings) = parts(&opened);
    let (mut outcome, _) = events(&opened, &parts, out)?;
    outcome.warnings.splice(0..0, warnings);
    Ok(outcome)
}

/// A file was recorded in one of Xen's domains.
fn in_domain(opened: &mut [File], path: &Path, domid: u16) -> Result<(), Error> {
    let wrong = |what: &str| Error::new(ErrorKind::Foreign, format!("{}={domid}: {what}", path.display()));
    if !opened.iter().any(|file| matches!(file.content, Content::Xen(_))) {
        return Err(wrong("none of the files is one of xentrace: give that of its host, too"));
    }
    let Some(file) = opened.iter_mut().find(|file| file.path == path) else {
        return Err(wrong("there is no file of that name among those to import"));
    };
    match &mut file.content {
        Content::Dat(dat) if dat.options.clock() == "x86-tsc" => {
            dat.options.domid = Some(domid);
            Ok(())
        }
        _ => Err(wrong(
            "its times are not of the TSC that Xen's records have: record with `trace-cmd record -C x86-tsc`",
        )),
    }
}

/// Whether a trace can be made of so many files.
fn count(files: usize) -> Result<(), Error> {
    if files == 0 || files > FILES {
        return Err(Error::new(ErrorKind::Foreign, format!("a trace is made of 1 to {FILES} files")));
    }
    Ok(())
}

fn open(files: Vec<(PathBuf, Input)>, options: &Options) -> Result<Vec<File>, Error> {
    count(files.len())?;
    files.into_iter().map(|(path, input)| File::open(path, input, options)).collect()
}

fn parts(opened: &[File]) -> (Vec<Part>, Vec<String>) {
    let described: Vec<_> = opened.iter().map(|file| (file.path.as_path(), file.options())).collect();
    clocks::parts(&described)
}

/// The events of all files; and the first and the last time.
pub(crate) fn events(
    opened: &[File],
    parts: &[Part],
    out: &mut impl Sink,
) -> Result<(Outcome, Option<TimeSpan>), Error> {
    let (mut outcome, mut span) = (Outcome::default(), None::<TimeSpan>);
    for (file, part) in opened.iter().zip(parts) {
        let kernel = file.records(part, parts, out, &mut outcome)?;
        span = span.into_iter().chain(kernel.span).reduce(TimeSpan::joined);
    }
    outcome.events = outcome.domains.iter().map(|domain| domain.events).sum();
    Ok((outcome, span))
}

impl File {
    /// The file of that name, or the directory.
    fn named(path: &Path, options: &Options) -> Result<Self, Error> {
        if !path.is_dir() {
            return Self::open(path.to_owned(), Input::open(path)?, options);
        }
        let ctf = Ctf::open("babeltrace2", path).map_err(|e| e.of(path))?;
        Ok(Self { path: path.to_owned(), input: Input::of(Vec::new()), content: Content::Ctf(ctf) })
    }

    fn open(path: PathBuf, input: Input, options: &Options) -> Result<Self, Error> {
        let begin = input.piece(0, input.len().min(dat::MAGIC.len() as u64)).map_err(|e| e.of(&path))?;
        let content = if begin.starts_with(dat::MAGIC) {
            Dat::open(&input).map(Content::Dat)
        } else if begin.starts_with(perf::MAGIC) {
            Perf::open(&input).map(Content::Perf)
        } else if begin.starts_with(xen::MAGIC) {
            Xentrace::open(&input, options.cpu_hz).map(Content::Xen)
        } else {
            let what = if input.is_empty() { "is empty" } else { "has an unknown format" };
            Err(Error::new(ErrorKind::Foreign, format!("{what}; {UNDERSTOOD}")))
        };
        let content = content.map_err(|e| e.of(&path))?;
        Ok(Self { path, input, content })
    }

    /// A file that was recorded beside what is in a trace, which tells what the TSC was.
    pub(crate) fn beside(path: &Path, line: &TscLine) -> Result<Self, Error> {
        let input = Input::open(path)?;
        let begin = input.piece(0, input.len().min(xen::MAGIC.len() as u64)).map_err(|e| e.of(path))?;
        if !begin.starts_with(xen::MAGIC) {
            let what = "is none of xentrace, and what others recorded has no place on a recording's time line: import it \
                        with -o";
            return Err(Error::new(ErrorKind::Foreign, what).of(path));
        }
        let content = Content::Xen(Xentrace::beside(&input, line).map_err(|e| e.of(path))?);
        Ok(Self { path: path.to_owned(), input, content })
    }

    pub(crate) fn options(&self) -> &dat::Options {
        match &self.content {
            Content::Dat(dat) => &dat.options,
            Content::Perf(perf) => &perf.options,
            Content::Ctf(ctf) => &ctf.options,
            Content::Xen(xen) => &xen.options,
        }
    }

    /// Writes the file's records as events.
    fn records(
        &self,
        part: &Part,
        parts: &[Part],
        out: &mut impl Sink,
        outcome: &mut Outcome,
    ) -> Result<Kernel, Error> {
        let formats = match &self.content {
            Content::Dat(dat) => dat.formats.as_slice(),
            Content::Perf(perf) => &perf.formats,
            // Its lines tell, and Xen's records are known.
            Content::Ctf(_) | Content::Xen(_) => &[],
        };
        let mut kernel = Kernel::new(part.domain.number, formats, self.options().uname(3) == "x86_64");
        let came = match &self.content {
            Content::Dat(dat) => self.dat(dat, part, parts, &mut kernel, out)?,
            Content::Perf(perf) => self.perf(perf, &mut kernel, out)?,
            Content::Ctf(ctf) => self.ctf(ctf, &mut kernel, out)?,
            Content::Xen(xen) => self.xen(xen, &mut kernel, out)?,
        };
        kernel.finish(out)?;

        let file = self.path.display();
        if came.gaps > 0 {
            let times = if came.gaps == 1 { "once".to_owned() } else { format!("{} times", came.gaps) };
            outcome.warnings.push(format!("{file}: {times}, records were lost without a count"));
        }
        if came.early.count > 0 {
            outcome.warnings.push(format!(
                "{file}: {} records had an earlier time than the one before them, and got that one's: later by {} ns \
                 at most",
                came.early.count, came.early.most_ns
            ));
        }
        outcome.warnings.extend(came.warnings);
        let (name, lost) = (part.domain.name.clone(), came.lost);
        let events = kernel.counts().iter().sum();
        outcome.lost = outcome.lost.saturating_add(lost);
        outcome.outside = outcome.outside.saturating_add(came.outside);
        let gaps = kernel.counts()[Kind::Lost as usize];
        let (file, cpus) = (self.path.clone(), kernel.cpus);
        let late = (came.early.count, came.early.most_ns);
        let kinds = || Kind::ALL.iter().zip(kernel.counts()).filter(|(_, count)| **count > 0);
        let groups = kinds().filter_map(|(kind, _)| kind.group_name()).collect();
        let guests = if came.guests.is_empty() { kernel.vms() } else { came.guests };
        outcome.domains.push(Imported { name, file, events, lost, gaps, late, cpus, groups, guests });
        for (kind, &count) in kinds() {
            *outcome.kinds.entry(kind.name()).or_default() += count;
        }
        for (name, count) in kernel.unknown() {
            *outcome.unknown.entry(name).or_default() += count;
        }
        outcome.damage.extend(came.damage);
        Ok(kernel)
    }

    /// What is wrong with the file, in words.
    fn wrong(&self, error: &Error) -> String {
        error.clone().of(&self.path).to_string()
    }

    fn dat(
        &self,
        dat: &Dat,
        part: &Part,
        parts: &[Part],
        kernel: &mut Kernel,
        out: &mut impl Sink,
    ) -> Result<DecodeStats, Error> {
        let mut damage: Vec<String> = dat.damage.iter().map(|error| self.wrong(error)).collect();
        let line = |cpu| part.line(&dat.options, cpu);
        let mut cpus = dat.cpus(&self.input, line).map_err(|e| e.of(&self.path))?;
        if let Some(first) = cpus.iter().filter_map(Stream::time).min() {
            for (tid, name) in &dat.names {
                kernel.thread(first, *tid, 0, name, out)?;
            }
            // The guests' processors belong together; which process it is that has these threads, nothing says.
            let host = part.domain.name.as_str();
            let mut names: FxHashMap<u32, &[u8]> = FxHashMap::default();
            for (tid, name) in &dat.names {
                names.entry(*tid).or_insert(name);
            }
            let guests = parts.iter().filter_map(|guest| guest.threads.as_ref()).filter(|(of, _)| of == host);
            for threads in guests.map(|(_, threads)| threads) {
                for &tid in threads {
                    let name = names.get(&tid).copied().unwrap_or_default();
                    kernel.thread(first, tid, threads[0], name, out)?;
                }
            }
        }
        let early = merge(&mut cpus, |time, cpu, item| match item {
            Item::Record(record) => kernel.record(time, cpu, record, out),
            Item::Missing(count, since) => kernel.lost(time, cpu, since, count, out),
        })?;
        for (error, pages) in cpus.iter().filter_map(|cpu| cpu.damage.as_ref()) {
            let what = self.wrong(error);
            damage.push(if *pages > 1 {
                format!("{what} (and {} more such places)", pages - 1)
            } else {
                what
            });
        }
        let counted = cpus.iter().map(|cpu| cpu.lost).fold(0, u64::saturating_add);
        // Both count the same, the one where it happened, the other in the end.
        let lost = counted.max(dat.options.overrun);
        let gaps = cpus.iter().map(|cpu| cpu.gaps).sum();
        Ok(DecodeStats { lost, early, gaps, damage, ..DecodeStats::default() })
    }

    fn perf(&self, perf: &Perf, kernel: &mut Kernel, out: &mut impl Sink) -> Result<DecodeStats, Error> {
        let replay = perf::replay(perf, &self.input, kernel, out)?;
        let damage = perf.damage.iter().chain(&replay.damage).map(|error| self.wrong(error)).collect();
        Ok(DecodeStats { lost: replay.lost, early: replay.early, damage, ..DecodeStats::default() })
    }

    fn ctf(&self, ctf: &Ctf, kernel: &mut Kernel, out: &mut impl Sink) -> Result<DecodeStats, Error> {
        let replay = ctf.replay(kernel, out)?;
        let damage = replay.damage.iter().map(|error| self.wrong(error)).collect();
        let said = |warning| format!("{}: babeltrace2 says: {warning}", self.path.display());
        let warnings = replay.warnings.into_iter().map(said).collect();
        let (lost, early, gaps) = (replay.lost, replay.early, replay.gaps);
        Ok(DecodeStats { lost, early, gaps, damage, warnings, ..DecodeStats::default() })
    }

    fn xen(
        &self,
        xentrace: &Xentrace,
        kernel: &mut Kernel,
        out: &mut impl Sink,
    ) -> Result<DecodeStats, Error> {
        let replay = xentrace.replay(&self.input, kernel, out)?;
        let mut damage: Vec<String> = replay.damage.iter().map(|error| self.wrong(error)).collect();
        if replay.untold > 0 {
            damage.push(format!("{}: and {} more such places", self.path.display(), replay.untold));
        }
        let file = self.path.display();
        let mut warnings: Vec<_> =
            xentrace.warnings.iter().map(|warning| format!("{file}: {warning}")).collect();
        if replay.outside > 0 {
            warnings.push(format!(
                "{file}: {} records are of before or after the recording, and left out",
                replay.outside
            ));
        }
        let (lost, early, guests, outside) = (replay.lost, replay.early, replay.guests, replay.outside);
        Ok(DecodeStats { lost, early, damage, warnings, guests, outside, ..DecodeStats::default() })
    }
}
