//! Several files, one trace.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use xweave_trace::{EventLoss, Manifest, Writer, event::Kind};

use crate::{
    clocks::{self, Part},
    dat::{self, Dat},
    error::{Error, ErrorKind, UNDERSTOOD},
    input::Input,
    kernel::Kernel,
    merge::{Stream, merge},
    sink::Sink,
};

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Replace a trace that is in the directory.
    pub force: bool,
    /// The command line, for the manifest.
    pub command: Vec<String>,
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
}

/// The most files that one trace is made of: domains have numbers of eight bits.
const FILES: usize = 250;

/// A file that was opened.
struct File<'a> {
    path: &'a Path,
    input: Input,
    dat: Dat,
}

/// Makes a trace in the directory `dir` of what `files` hold.
///
/// Damage to a file is no failure if its records can be read: [`Outcome::damage`].
pub fn import(files: &[PathBuf], dir: &Path, options: &Options) -> Result<Outcome, Error> {
    if files.is_empty() || files.len() > FILES {
        return Err(Error::new(ErrorKind::Foreign, format!("a trace is made of 1 to {FILES} files")));
    }
    let opened = files.iter().map(|path| File::open(path)).collect::<Result<Vec<_>, _>>()?;
    let described: Vec<_> = opened.iter().map(|file| (file.path, &file.dat)).collect();
    let (parts, warnings) = clocks::parts(&described);
    let manifest = Manifest {
        command: options.command.clone(),
        reference: parts
            .iter()
            .find(|part| part.clock.error_ns == 0)
            .map_or_else(String::new, |part| part.domain.name.clone()),
        domains: parts.iter().map(|part| part.domain.clone()).collect(),
        clocks: parts.iter().map(|part| part.clock.clone()).collect(),
        ..Manifest::default()
    };
    let begin = if options.force { Writer::replace } else { Writer::create };
    let mut writer = begin(dir, manifest)?;
    let mut outcome = Outcome { warnings, ..Outcome::default() };
    let mut span: Option<(i64, i64)> = None;
    for (file, part) in opened.iter().zip(&parts) {
        let lost = outcome.lost;
        let kernel = file.records(part, &parts, &mut writer, &mut outcome)?;
        if let Some((first, last)) = kernel.span {
            let (from, to) = span.unwrap_or((first, last));
            span = Some((from.min(first), to.max(last)));
        }
        if outcome.lost > lost {
            let (domain, dropped) = (part.domain.name.clone(), outcome.lost - lost);
            let loss = EventLoss { domain, dropped, ..EventLoss::default() };
            writer.manifest_mut().loss.events.push(loss);
        }
    }
    let manifest = writer.manifest_mut();
    (manifest.start_ns, manifest.end_ns) = span.unwrap_or_default();
    manifest.warnings = outcome.warnings.iter().chain(&outcome.damage).cloned().collect();
    outcome.events = writer.finish()?.events;
    Ok(outcome)
}

impl<'a> File<'a> {
    fn open(path: &'a Path) -> Result<Self, Error> {
        let input = Input::open(path)?;
        let begin = input.piece(0, input.len().min(dat::MAGIC.len() as u64)).map_err(|e| e.of(path))?;
        if begin != dat::MAGIC {
            return Err(Error::new(
                ErrorKind::Foreign,
                format!("is nothing that is understood; {UNDERSTOOD}"),
            )
            .of(path));
        }
        let dat = Dat::open(&input).map_err(|e| e.of(path))?;
        Ok(Self { path, input, dat })
    }

    /// Writes the file's records as events.
    fn records(
        &self,
        part: &Part,
        parts: &[Part],
        out: &mut impl Sink,
        outcome: &mut Outcome,
    ) -> Result<Kernel, Error> {
        let options = &self.dat.options;
        let x86_64 = options.uname(3) == "x86_64";
        let mut kernel = Kernel::new(part.domain.number, &self.dat.formats, x86_64);
        let mut damage: Vec<String> =
            self.dat.damage.iter().map(|error| error.clone().of(self.path).to_string()).collect();
        let mut cpus =
            self.dat.cpus(&self.input, |cpu| part.line(&self.dat, cpu)).map_err(|e| e.of(self.path))?;
        if let Some(first) = cpus.iter().filter_map(Stream::time).min() {
            for (tid, name) in &self.dat.names {
                kernel.thread(first, *tid, 0, name, out)?;
            }
            // The guests' processors belong together; which process it is that has these threads, nothing says.
            let name = part.domain.name.as_str();
            let guests =
                parts.iter().filter_map(|guest| guest.threads.as_ref()).filter(|(host, _)| host == name);
            for threads in guests.map(|(_, threads)| threads) {
                for &tid in threads {
                    let known = self.dat.names.iter().find(|(known, _)| *known == tid);
                    let name = known.map_or(b"".as_slice(), |(_, name)| name);
                    kernel.thread(first, tid, threads[0], name, out)?;
                }
            }
        }
        let early = merge(&mut cpus, |time, cpu, record| kernel.record(time, cpu, record, out))?;
        kernel.finish(out)?;

        let file = self.path.display();
        for (error, pages) in cpus.iter().filter_map(|cpu| cpu.damage.clone()) {
            let error = error.of(self.path);
            damage.push(if pages > 1 {
                format!("{error} (and {} more pages)", pages - 1)
            } else {
                error.to_string()
            });
        }
        let gaps: u64 = cpus.iter().map(|cpu| cpu.gaps).sum();
        if gaps > 0 {
            let times = if gaps == 1 { "once".to_owned() } else { format!("{gaps} times") };
            outcome.warnings.push(format!("{file}: {times} records were lost that nobody counted"));
        }
        if early > 0 {
            outcome.warnings.push(format!(
                "{file}: {early} records had an earlier time than the one before them, and got that one's"
            ));
        }
        let counted = cpus.iter().map(|cpu| cpu.lost).fold(0, u64::saturating_add);
        // Both count the same, the one where it happened, the other in the end.
        let lost = counted.max(options.overrun);
        let events = kernel.counts().iter().sum();
        outcome.lost = outcome.lost.saturating_add(lost);
        outcome.domains.push(Imported {
            name: part.domain.name.clone(),
            file: self.path.to_owned(),
            events,
            lost,
        });
        for (kind, &count) in Kind::ALL.iter().zip(kernel.counts()).filter(|(_, count)| **count > 0) {
            *outcome.kinds.entry(kind.name()).or_default() += count;
        }
        for (name, count) in kernel.unknown() {
            *outcome.unknown.entry(name).or_default() += count;
        }
        outcome.damage.extend(damage);
        Ok(kernel)
    }
}
