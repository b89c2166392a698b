//! What has changed in the page cache since it was asked for the last time: only files that the kernel tells of are looked at
//! again.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use xweave_wire::pages::{Amount, CachedFile, Files, LookedAt};

use super::{
    changes::{Change, Changes},
    places::Place,
    telling::{Reader, Telling},
    walk::{Found, Inode, Walk, open},
};
use crate::cancel::Cancel;

/// All files are gone through by their names at most for one part of so many of the time, where it is only because some
/// changes cannot be told.
const SELDOM: u32 = 20;

/// A file of which pages have been told.
struct Known {
    path: PathBuf,
    /// As it was told.
    name: String,
    amount: Amount,
}

/// The files that are asked for again and again.
pub(crate) struct Watching {
    files: Files,
    exclude: Vec<PathBuf>,
    places: Vec<Place>,
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
        let mounts =
            fs::read("/proc/self/mountinfo").map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
        let real = |path: &String| fs::canonicalize(path).ok();
        let mut places = Vec::new();
        for folder in files.include.iter().filter_map(real) {
            let Ok(is) = fs::metadata(&folder) else { continue };
            places.push(Place::of(&folder, is.dev(), &mounts)?);
        }
        let exclude = files.exclude.iter().filter_map(real).collect();
        let devices: Vec<u64> = places.iter().map(|place| place.device).collect();
        let changes = Changes::watch(object, &devices)?;
        Ok(Self { files, exclude, places, changes, known: HashMap::new(), walked: None, astray: false })
    }

    /// Tells what has changed; the first time, and where that is not known, all.
    pub(crate) fn changed(
        &mut self,
        cancel: &Cancel,
        tell: &mut dyn FnMut(Vec<CachedFile>),
    ) -> Result<LookedAt, String> {
        let changed =
            self.changes.take().map_err(|error| format!("what has changed is not told: {error}"))?;
        self.astray |= changed.moved;
        let walk_again = self
            .walked
            .is_none_or(|(when, took)| changed.lost || self.astray && when.elapsed() >= took * SELDOM);
        let reader = Reader::new(&self.files)?;
        let whole = if walk_again { Amount::default() } else { self.told() };
        let mut telling = Telling::new(whole, cancel, tell);
        let mut looked_at = LookedAt { whole: walk_again, ..LookedAt::default() };
        if walk_again {
            self.all(&reader, &mut telling, &mut looked_at)?;
        } else {
            self.again(changed.files, &reader, &mut telling, &mut looked_at);
        }
        looked_at.cut = telling.end();
        if looked_at.cut.is_some() {
            self.walked = None;
        }
        Ok(looked_at)
    }

    fn told(&self) -> Amount {
        self.known.values().fold(Amount::default(), |all, known| all.plus(known.amount))
    }

    fn all(
        &mut self,
        reader: &Reader,
        telling: &mut Telling<'_>,
        looked_at: &mut LookedAt,
    ) -> Result<(), String> {
        let begun = Instant::now();
        (self.known, self.astray) = (HashMap::new(), false);
        for found in Walk::new(&self.files)? {
            if telling.is_over() {
                break;
            }
            looked_at.files += 1;
            self.tell(&found, reader, telling);
        }
        self.walked = Some((begun, begun.elapsed()));
        Ok(())
    }

    fn again(
        &mut self,
        changes: Vec<Change>,
        reader: &Reader,
        telling: &mut Telling<'_>,
        looked_at: &mut LookedAt,
    ) {
        for change in changes {
            if telling.is_over() {
                break;
            }
            let Some(found) = self.find(&change) else { continue };
            looked_at.files += 1;
            let before = self.known.remove(&change.inode);
            if let Some(before) = &before {
                telling.forget(before.amount);
            }
            let told = found.and_then(|found| self.tell(&found, reader, telling).then_some(found.path));
            if let Some(before) = before.filter(|before| told.as_ref() != Some(&before.name)) {
                telling.gone(before.name);
            }
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
        let found = match self.places.iter().find_map(here) {
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

    /// Whether any page of it is told.
    fn tell(&mut self, found: &Found, reader: &Reader, telling: &mut Telling<'_>) -> bool {
        let amount = telling.file(found, reader);
        if amount.runs == 0 {
            return false;
        }
        let known = Known { path: found.at.clone(), name: found.path.clone(), amount };
        self.known.insert(found.inode, known);
        true
    }
}
