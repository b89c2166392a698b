//! What has changed in the page cache since it was asked for the last time: only files that the kernel tells of are looked at
//! again.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use xweave_wire::pages::{Amount, CachedFile, Files, LookedAt};

use super::{
    changes::{Change, Changes},
    places::Place,
    telling::Telling,
    walk::{Found, Inode, Walk, open, real},
};
use crate::cancel::Cancel;

/// All files are gone through by their names at most for one part of so many of the time, where it is only because some
/// changes cannot be told.
const SELDOM: u32 = 20;

/// How long after they were written to pages stay dirty at most: writing back begins after 30 s, and is looked for every 5 s
/// (`vm.dirty_expire_centisecs`, `vm.dirty_writeback_centisecs`). A page that is dirty already is not told of again.
const SETTLED: Duration = Duration::from_secs(60);

/// The folders that are there.
#[derive(Default, PartialEq)]
struct Folders {
    /// Those that are watched.
    places: Vec<Place>,
    /// Those of which changes are not told, and why: they are gone through each time.
    others: Vec<(PathBuf, String)>,
}

fn folders(files: &Files) -> Result<Folders, String> {
    let mounts =
        fs::read("/proc/self/mountinfo").map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    let mut all = Folders::default();
    for folder in files.include.iter().filter_map(real) {
        let Ok(is) = fs::metadata(&folder) else { continue };
        match Place::of(&folder, is.dev(), &mounts) {
            Ok(place) => all.places.push(place),
            Err(reason) => all.others.push((folder, reason)),
        }
    }
    Ok(all)
}

/// A file of which pages have been told.
struct Known {
    path: PathBuf,
    /// As it was told.
    name: String,
    is_watched: bool,
    amount: Amount,
    /// Its size and time then.
    state: (u64, i64),
    /// When none of its pages is dirty any more that was then.
    settles: Instant,
}

fn state(found: &Found) -> (u64, i64) {
    (found.size, found.modified_ns)
}

/// Whether some of its pages may be dirty still.
fn is_recent(found: &Found) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_sub(found.modified_ns);
    u64::try_from(age).is_ok_and(|age| Duration::from_nanos(age) < SETTLED)
}

/// The files that are asked for again and again.
pub(crate) struct Watching {
    files: Files,
    exclude: Vec<PathBuf>,
    folders: Folders,
    changes: Changes,
    known: HashMap<Inode, Known>,
    /// When all files were gone through for the last time, and how long that took; none if what was told since is not whole.
    walked: Option<(Instant, Duration)>,
    /// Whether changes of a file could not be told, or not by the name that the file is found by: it is called otherwise now, or
    /// where it is was not known.
    astray: bool,
}

impl Watching {
    /// From now on; or why it cannot be.
    pub(crate) fn begin(files: Files, object: &[u8]) -> Result<Self, String> {
        let changes = Changes::watch(object)?;
        let mut watching = Self {
            files,
            exclude: Vec::new(),
            folders: Folders::default(),
            changes,
            known: HashMap::new(),
            walked: None,
            astray: false,
        };
        watching.look_where()?;
        Ok(watching)
    }

    /// Why some folders are gone through each time.
    pub(crate) fn not_watched(&self) -> Option<String> {
        let reasons: Vec<&str> = self.folders.others.iter().map(|(_, reason)| &**reason).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// Tells what has changed; the first time, and where that is not known, all.
    pub(crate) fn changed(
        &mut self,
        cancel: &Cancel,
        tell: &mut dyn FnMut(Vec<CachedFile>),
    ) -> Result<LookedAt, String> {
        self.look_where()?;
        let changed =
            self.changes.take().map_err(|error| format!("what has changed is not told: {error}"))?;
        self.astray |= changed.moved;
        let walk_again = self
            .walked
            .is_none_or(|(when, took)| changed.lost || self.astray && when.elapsed() >= took * SELDOM);
        let told = if walk_again { Amount::default() } else { self.told() };
        let mut telling = Telling::new(&self.files, told, cancel, tell)?;
        if walk_again {
            self.all(&mut telling)?;
        } else {
            self.again(changed.files, &mut telling);
            self.others_again(&mut telling)?;
        }
        let looked_at = telling.end(walk_again);
        if looked_at.cut.is_some() {
            self.walked = None;
        }
        Ok(looked_at)
    }

    /// Folders may have come, or something been mounted there.
    fn look_where(&mut self) -> Result<(), String> {
        self.exclude = self.files.exclude.iter().filter_map(real).collect();
        let folders = folders(&self.files)?;
        if folders != self.folders {
            self.changes.of(folders.places.iter().map(|place| place.device))?;
            (self.folders, self.walked) = (folders, None);
        }
        Ok(())
    }

    fn told(&self) -> Amount {
        self.known.values().fold(Amount::default(), |all, known| all.plus(known.amount))
    }

    fn all(&mut self, telling: &mut Telling<'_>) -> Result<(), String> {
        let begun = Instant::now();
        (self.known, self.astray) = (HashMap::new(), false);
        for found in Walk::new(&self.files)? {
            if !telling.may_look() {
                break;
            }
            self.tell(&found, is_recent(&found), telling);
        }
        self.walked = Some((begun, begun.elapsed()));
        Ok(())
    }

    fn again(&mut self, changes: Vec<Change>, telling: &mut Telling<'_>) {
        for change in changes {
            let Some(found) = self.find(&change) else { continue };
            if !telling.may_look() {
                return;
            }
            self.tell_again(change.inode, found, telling);
        }
        for (inode, found) in self.written_again() {
            if !telling.may_look() {
                return;
            }
            self.tell_again(inode, Some(found), telling);
        }
    }

    /// Tells of those that cannot be watched.
    fn others_again(&mut self, telling: &mut Telling<'_>) -> Result<(), String> {
        let path = |(folder, _): &(PathBuf, String)| folder.to_str().map(str::to_owned);
        let include = self.folders.others.iter().filter_map(path).collect();
        let mut seen = HashSet::new();
        for found in Walk::new(&Files { include, ..self.files.clone() })? {
            if !telling.may_look() {
                return Ok(());
            }
            seen.insert(found.inode);
            self.tell_again(found.inode, Some(found), telling);
        }
        let gone = self.known.iter().filter(|(inode, known)| !known.is_watched && !seen.contains(inode));
        let gone: Vec<Inode> = gone.map(|(inode, _)| *inode).collect();
        gone.into_iter().for_each(|inode| self.tell_again(inode, None, telling));
        Ok(())
    }

    /// Files whose pages may have been dirty all the time since they were looked at, so that nothing tells of more that is
    /// written to them, and that have another size or time now.
    fn written_again(&self) -> Vec<(Inode, Found)> {
        let now = Instant::now();
        let found =
            self.known.iter().filter(|(_, known)| known.settles > now).filter_map(|(inode, known)| {
                let found = open(&known.path).filter(|found| found.inode == *inode)?;
                (state(&found) != known.state).then_some((*inode, found))
            });
        found.collect()
    }

    fn tell_again(&mut self, inode: Inode, found: Option<Found>, telling: &mut Telling<'_>) {
        let before = self.known.remove(&inode);
        if let Some(before) = &before {
            telling.forget(before.amount);
        }
        let told = found.and_then(|found| self.tell(&found, true, telling).then_some(found.path));
        if let Some(before) = before.filter(|before| told.as_ref() != Some(&before.name)) {
            telling.gone(before.name);
        }
    }

    /// A file that has changed, if it still is one of those that are asked for; nothing to do for others.
    fn find(&mut self, change: &Change) -> Option<Option<Found>> {
        let is_it = |found: &Found| found.inode == change.inode;
        let known = self.known.get(&change.inode);
        if let Some(found) = known.and_then(|known| open(&known.path)).filter(is_it) {
            return Some(Some(found));
        }
        let Some(path) = &change.path else {
            // One that is gone has no name. Of others it is not known where they are.
            self.astray |= !change.gone;
            return known.is_some().then_some(None);
        };
        let here = |place: &Place| place.path_of(path).filter(|_| place.device == change.inode.device);
        let found = match self.folders.places.iter().find_map(here) {
            Some(path) if !self.is_excluded(&path) => open(&path).filter(is_it),
            _ => return known.is_some().then_some(None),
        };
        // It was deleted, or it is called otherwise since; or this is one of its names, and not the one that is found first.
        self.astray |= found.as_ref().map_or(!change.gone, |found| found.names > 1);
        (found.is_some() || known.is_some()).then_some(found)
    }

    fn is_excluded(&self, path: &Path) -> bool {
        self.exclude.iter().any(|of| path.starts_with(of))
    }

    /// Whether any page of it is told. Some may be dirty.
    fn tell(&mut self, found: &Found, may_be_dirty: bool, telling: &mut Telling<'_>) -> bool {
        let amount = telling.file(found);
        if amount.runs == 0 {
            return false;
        }
        let now = Instant::now();
        let known = Known {
            path: found.at.clone(),
            name: found.path.clone(),
            is_watched: self.folders.places.iter().any(|place| place.has(found)),
            amount,
            state: state(found),
            settles: if may_be_dirty { now + SETTLED } else { now },
        };
        self.known.insert(found.inode, known);
        true
    }
}
