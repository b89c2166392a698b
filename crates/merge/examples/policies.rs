//! What KSM gives back, by what it is shown first: policies beside each other, in the host of two guests that work.
//!
//! Each policy marks memory from outside and has KSM visit it, at the pace of a budget while the guests work, and as fast as it
//! goes from then on. After each step a line of JSON says what came of it. `cases/memory-merge` runs it, and draws it.
//!
//! - `address`: KSM as it is: all memory of the guests is marked, and visited in the order of its addresses.
//! - `recent`: whatever guests have cached, as by the I/O that brought it there (Miller, Franz, Rittinghaus, Hillenbrand and
//!   Bellosa, *XLH: More Effective Memory Deduplication Scanners Through Cross-Layer Hints*, USENIX ATC 2013). Their stack of
//!   hints is bounded, and what overflows is lost; here nothing is, and what is not merged stays on show.
//! - `files`: pages of files that several guests have: `xweave merge --every`, without a pause.
//!
//! KSM visits all that is marked in each pass, what is merged already too. A kernel that is made for hints visits each page
//! twice, and then only what was not merged; these visits are told apart (`first`).

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    error::Error,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::{Parser, ValueEnum};
use xweave_merge::{
    Allowed, Host, SameBy, Slots, Status,
    direct::{self, Work},
    mark::{Marker, Range},
    merging::{self, Asked, Pace},
    tree::Guest,
};
use xweave_record::{Caches, DomainCache, DomainSpec};
use xweave_system::ksm::{Counters, Directed, MAX_PAGES_TO_SCAN};
use xweave_wire::pages::{Files, PAGE};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Pages that are visited between two looks where all memory is.
const STEP: u64 = 4000;

/// Pages at a time, as in the paper.
const BATCH: u64 = 100;

const POLL: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    Address,
    Recent,
    Files,
}

/// What KSM gives back, by what it is shown first
#[derive(Parser)]
struct Args {
    policy: Policy,
    /// A guest, as for xweave merge
    #[arg(long, required = true)]
    domain: Vec<String>,
    #[arg(long, required = true)]
    include: Vec<String>,
    /// Visits a second, while the guests work
    #[arg(long, default_value_t = 1000)]
    pace: u64,
    /// Visits, as counted by KSM, after which it ends
    #[arg(long)]
    budget: u64,
    /// The guests work for as long as this file exists
    #[arg(long)]
    working: PathBuf,
}

/// A page of a guest's: its process, and where it is there.
type Page = (u32, u64);

fn main() -> Result<()> {
    // The local agent is the program that asks for it: here, xweave itself.
    if std::env::args().nth(1).is_some_and(|first| first == "agent") {
        return Err(Command::new("xweave").args(std::env::args_os().skip(1)).exec().into());
    }
    let args = Args::parse();
    let slots = Slots::read()?;
    let host = Host::read()?;
    let mut run = Run {
        begun: Instant::now(),
        before: scanned()?,
        cpu: direct::ksmd().unwrap_or_default(),
        first: 0,
        markers: HashMap::new(),
        caches: None,
        args,
    };
    let all: Vec<(u32, Range)> = host.vms.iter().flat_map(|vm| memory(&slots, vm.pid)).collect();
    match run.args.policy {
        Policy::Address => run.everything(&all)?,
        Policy::Recent => run.recent(&slots)?,
        Policy::Files => run.files()?,
    }
    for (pid, range) in all {
        run.marker(pid)?.unmark(&[range], &|| false)?;
    }
    for (_, marker) in run.markers {
        marker.close()?;
    }
    Ok(())
}

/// All memory of a guest.
fn memory(slots: &Slots, pid: u32) -> Vec<(u32, Range)> {
    let range = |address, pages: u64| (pid, Range { start: address, length: pages * PAGE });
    slots.of_process(pid).iter().map(|slot| range(slot.address, slot.pages)).collect()
}

fn scanned() -> Result<u64> {
    Counters::read()?
        .pages_scanned
        .ok_or_else(|| "this kernel does not count KSM's visits (Linux 6.6)".into())
}

struct Run {
    args: Args,
    caches: Option<Caches<'static>>,
    begun: Instant,
    before: u64,
    cpu: Duration,
    /// Visits without those of what had been visited twice before.
    first: u64,
    markers: HashMap<u32, Marker>,
}

impl Run {
    fn visits(&self) -> Result<u64> {
        Ok(scanned()? - self.before)
    }

    fn is_working(&self) -> bool {
        self.args.working.exists()
    }

    /// Visits that may be made by now.
    fn allowed(&self) -> u64 {
        if !self.is_working() {
            return self.args.budget;
        }
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.args.budget.min(self.args.pace.saturating_mul(passed) / 1000)
    }

    fn marker(&mut self, pid: u32) -> Result<&mut Marker> {
        Ok(match self.markers.entry(pid) {
            Entry::Occupied(marker) => marker.into_mut(),
            Entry::Vacant(place) => place.insert(Marker::open(pid)?),
        })
    }

    fn tell(&self, saved: u64) -> Result<()> {
        let cpu = direct::ksmd().unwrap_or_default().saturating_sub(self.cpu);
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "{{\"at\": {:.1}, \"working\": {}, \"visits\": {}, \"first\": {}, \"cpu_s\": {:.3}, \"saved\": {saved}}}",
            SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64(),
            self.is_working(),
            self.visits()?,
            self.first,
            cpu.as_secs_f64(),
        )?;
        Ok(out.flush()?)
    }

    /// KSM by itself, over all memory of the guests.
    fn everything(&mut self, all: &[(u32, Range)]) -> Result<()> {
        for (pid, range) in all {
            self.marker(*pid)?.mark(&[*range], &|| false)?;
        }
        let mut directed = Directed::begin(BATCH)?;
        let mut next = 0;
        while self.visits()? < self.args.budget {
            if self.visits()? < self.allowed() {
                directed.wake()?;
            }
            thread::sleep(POLL);
            self.first = self.visits()?;
            if self.first >= next {
                next = self.first + STEP;
                self.tell(status()?.saved)?;
            }
        }
        Ok(directed.restore()?)
    }

    /// What guests say that they have cached: they are asked over one connection, and tell what has changed.
    fn ask(&mut self) -> Result<Vec<(u32, Guest)>> {
        if self.caches.is_none() {
            let domains = self.args.domain.iter().map(|text| DomainSpec::parse(text));
            let domains = domains.collect::<std::result::Result<Vec<_>, _>>()?;
            let files = Files { include: self.args.include.clone(), frames: true, ..Files::default() };
            let mut caches = Caches::of(&domains, &files, Box::new(|_| {}))?;
            caches.watch()?.iter().for_each(|line| eprintln!("{line}"));
            self.caches = Some(caches);
        }
        let caches = self.caches.as_mut().map(Caches::ask).transpose()?.unwrap_or_default();
        let guest = |cache: DomainCache| Some((cache.pid?, Guest { name: cache.domain, files: cache.files }));
        Ok(caches.into_iter().filter_map(guest).collect())
    }

    /// Of whatever files.
    fn recent(&mut self, slots: &Slots) -> Result<()> {
        let (mut marked, mut pace, mut quiet) = (HashSet::new(), Pace::default(), 0);
        while quiet < 2 && self.visits()? < self.args.budget {
            let is_working = self.is_working();
            let mut new: HashSet<Page> = HashSet::new();
            for (pid, guest) in self.ask()? {
                let frames = guest.files.iter().flat_map(|file| &file.frames);
                let found = frames.filter_map(|frame| Some((pid, slots.address(pid, *frame)?)));
                new.extend(found.filter(|page| !marked.contains(page)));
            }
            let left = |merged: u64, marked: &HashSet<Page>| marked.len() as u64 - merged;
            let before = status()?.merged();
            if !pace.is_time(before, left(before, &marked) + new.len() as u64) {
                quiet = if is_working { 0 } else { quiet + 1 };
                continue;
            }
            for (pid, ranges) in ranges(&new) {
                self.marker(pid)?.mark(&ranges, &|| false)?;
            }
            self.first += 2 * new.len() as u64;
            marked.extend(new);
            let all = marked.len() as u64;
            let work = Work {
                at_a_time: MAX_PAGES_TO_SCAN,
                marked: all,
                wanted: all,
                limit: Duration::from_secs(300),
            };
            direct::until_merged(&work, || false, || Ok(status()?.merged()))?;
            let now = status()?;
            pace.looked(left(now.merged(), &marked));
            quiet = 0;
            self.tell(now.saved)?;
        }
        Ok(())
    }

    /// Of files that several have.
    fn files(&mut self) -> Result<()> {
        let (mut pace, mut quiet, mut pages) = (Pace::default(), 0, 0);
        // That no more comes is known when it is asked once more.
        while quiet < 2 && self.visits()? < self.args.budget {
            let is_working = self.is_working();
            let (pids, guests) = self.ask()?.into_iter().map(|(pid, guest)| (Some(pid), guest)).unzip();
            let asked = Asked {
                guests,
                pids,
                same_by: SameBy::Path,
                allowed: Allowed { inject: true, ..Allowed::default() },
            };
            let host = Host::read()?;
            let made = merging::merge(&asked, &host, Some(&mut pace), || false)?;
            if made.taken.made > 0 {
                self.first += 2 * made.marked.saturating_sub(pages);
                pages = made.marked;
            }
            self.tell(made.saved)?;
            quiet = if is_working || made.taken.made > 0 { 0 } else { quiet + 1 };
        }
        Ok(())
    }
}

/// What is merged now, of all that is marked.
fn status() -> io::Result<Status> {
    let host = Host::read().map_err(io::Error::other)?;
    Status::read(&host).map_err(io::Error::other)
}

/// Of each process, in ranges.
fn ranges(pages: &HashSet<Page>) -> HashMap<u32, Vec<Range>> {
    let mut pages: Vec<Page> = pages.iter().copied().collect();
    pages.sort_unstable();
    let mut all: HashMap<u32, Vec<Range>> = HashMap::new();
    for (pid, address) in pages {
        let ranges = all.entry(pid).or_default();
        match ranges.last_mut().filter(|last| last.start + last.length == address) {
            Some(last) => last.length += PAGE,
            None => ranges.push(Range { start: address, length: PAGE }),
        }
    }
    all
}
