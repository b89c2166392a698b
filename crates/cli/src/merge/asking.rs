//! What guests are asked, whatever is done with it: which of them, and of which files.

use std::{
    cell::RefCell,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use xweave_merge::{SameBy, tree::Guest};
use xweave_record::{Caches, DomainCache, DomainSpec, Phase, Remaining, Required};
use xweave_weave::Role;
use xweave_wire::pages::{Files, LookedAt};

use crate::{failure::Failure, progress::Progress};

/// How soon Ctrl-C is noticed between two times.
const NOTICED: Duration = Duration::from_millis(100);

/// So many guests hold something twice.
pub const FEWEST: usize = 2;

/// Makes what is told how far that is, each time that it is begun anew.
type Show<'a> = &'a dyn Fn() -> Box<dyn FnMut(Phase<'_>)>;

/// Where files lie that guests are likely to have in common.
const USUAL: [&str; 3] = ["/usr", "/lib", "/boot"];

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// A guest, as for xweave record: NAME=vsock:CID, or NAME=COMMAND
    #[arg(long, value_name = "NAME=TRANSPORT", required = true)]
    domain: Vec<String>,
    /// Ask all guests or none: one that does not answer is an error, and is not left out
    #[arg(long)]
    pub require: bool,
    /// Look at files below this folder, in its own file system [default: /usr, /lib and /boot]
    #[arg(long, value_name = "FOLDER")]
    include: Vec<String>,
    /// But not at this file or folder
    #[arg(long, value_name = "PATH")]
    exclude: Vec<String>,
    /// What makes files of two guests the same, besides size and time of change
    #[arg(long, value_name = "WHAT", value_enum, default_value = "path")]
    by: By,
    /// Files to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
}

/// What makes files the same.
#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    /// Their paths
    Path,
    /// Their inode numbers: of disks that began as one image
    Inode,
}

/// What guests have said.
pub struct Told {
    /// Of which files they hold which pages.
    pub guests: Vec<Guest>,
    /// Of each: which process of this machine runs it, where that is known.
    pub pids: Vec<Option<u32>>,
    /// Of each: what was looked at.
    pub looked_at: Vec<LookedAt>,
    /// Why others have said nothing, or some look at more than they would have to.
    pub missing: Vec<String>,
}

impl Args {
    /// What makes files the same.
    pub fn same_by(&self) -> SameBy {
        match self.by {
            By::Path => SameBy::Path,
            By::Inode => SameBy::Inode,
        }
    }

    /// What they are called.
    pub fn names(&self) -> Vec<&str> {
        self.domain.iter().map(|text| text.split_once('=').map_or(&**text, |(name, _)| name)).collect()
    }

    /// Asks them all, once: also what pages hold, or where they lie.
    pub fn ask(&self, contents: bool, frames: bool) -> Result<Told, Failure> {
        Guests::of(self, contents, frames)?.ask_all(false)
    }
}

/// Guests that are asked again and again.
pub struct Guests {
    domains: Vec<DomainSpec>,
    /// Whether all of them have to answer.
    require: bool,
    files: Files,
    /// As long as all of them are there.
    caches: Option<Caches<'static>>,
    /// Why some look at all files each time.
    unwatched: Vec<String>,
}

impl Guests {
    /// Asks none of them yet.
    pub fn of(args: &Args, contents: bool, frames: bool) -> Result<Self, Failure> {
        let (mut include, exclude) = (args.include.clone(), args.exclude.clone());
        if include.is_empty() {
            include = USUAL.map(str::to_owned).to_vec();
        }
        if let Some(path) = include.iter().chain(&exclude).find(|path| !path.starts_with('/')) {
            return Err(Failure::Usage(format!(
                "`{path}` is no absolute path: name it from / on, as the guests do"
            )));
        }
        let domains: Result<Vec<_>, _> = args.domain.iter().map(|text| DomainSpec::parse(text)).collect();
        let domains = domains.map_err(Failure::usage)?;
        if domains.iter().filter(|domain| domain.role() == Role::Guest).count() < FEWEST {
            return Err(Failure::Usage(
                "it takes two guests to hold something twice: name another with --domain".to_owned(),
            ));
        }
        let files = Files { include, exclude, contents, frames };
        Ok(Self { domains, require: args.require, files, caches: None, unwatched: Vec::new() })
    }

    /// Asks all of them, and tells how far that is. They may watch what changes from now on.
    pub fn ask_all(&mut self, watch: bool) -> Result<Told, Failure> {
        let progress = Rc::new(RefCell::new(Some(Progress::new(None))));
        let told = Rc::clone(&progress);
        let show = move || -> Box<dyn FnMut(Phase<'_>)> {
            let told = Rc::clone(&told);
            Box::new(move |phase: Phase<'_>| {
                if let Some(progress) = &mut *told.borrow_mut() {
                    progress.show(&phase);
                }
            })
        };
        let told = self.reach_those_there(watch, &show);
        if let Some(progress) = progress.take() {
            progress.end();
        }
        told
    }

    /// Asks those that answer, where there are two at least.
    pub fn ask_again(&mut self) -> Result<Told, Failure> {
        if let Some(caches) = &mut self.caches {
            match caches.ask() {
                Ok(caches) => return Ok(self.told(caches, Vec::new())),
                Err(error) if xweave_interrupt::pending() => return Err(error.into()),
                // Who has gone may be back.
                Err(_) => self.caches = None,
            }
        }
        self.reach_those_there(true, &|| Box::new(|_| {}))
    }

    /// Connects to those that answer, where there are two at least.
    fn reach_those_there(&mut self, watch: bool, show: Show<'_>) -> Result<Told, Failure> {
        let mut remaining = Remaining::of(self.domains.clone(), Required::all_if(self.require), FEWEST);
        let mut missing = Vec::new();
        let caches = loop {
            let error = match self.reach(remaining.domains(), watch, show()) {
                Ok(caches) => break caches,
                Err(error) => error,
            };
            missing.extend(remaining.leave_out(error)?);
        };
        // The others are tried the next time.
        if !missing.is_empty() {
            self.caches = None;
        }
        Ok(self.told(caches, missing))
    }

    /// Waits for so long; until Ctrl-C.
    pub fn rest(&mut self, how_long: Duration) {
        let until = Instant::now() + how_long;
        if self.caches.as_mut().is_some_and(|caches| caches.rest(how_long).is_err()) {
            self.caches = None;
        }
        while Instant::now() < until && !xweave_interrupt::pending() {
            thread::sleep(NOTICED.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Connects to them, and asks for the first time.
    fn reach(
        &mut self,
        domains: &[DomainSpec],
        watch: bool,
        progress: Box<dyn FnMut(Phase<'_>)>,
    ) -> Result<Vec<DomainCache>, xweave_record::Error> {
        let mut caches = Caches::of(domains, &self.files, progress)?;
        self.unwatched = if watch { caches.watch()? } else { Vec::new() };
        let told = caches.ask()?;
        self.caches = watch.then_some(caches);
        Ok(told)
    }

    fn told(&self, caches: Vec<DomainCache>, mut missing: Vec<String>) -> Told {
        missing.extend(self.unwatched.iter().cloned());
        let mut told = Told { guests: Vec::new(), pids: Vec::new(), looked_at: Vec::new(), missing };
        for DomainCache { domain, pid, files, looked_at } in caches {
            told.guests.push(Guest { name: domain, files });
            told.pids.push(pid);
            told.looked_at.push(looked_at);
        }
        told
    }
}
