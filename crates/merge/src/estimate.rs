//! What it would give back to hold once what guests hold twice.

use std::cmp::Reverse;

use xweave_wire::pages::{CachedFile, PAGE, Run};

use crate::tree::{Guest, SameBy, Tree};

/// What merging would give back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Files of which any guest holds pages.
    pub files: u64,
    /// Pages that guests hold of these.
    pub hinted: u64,
    /// Of these, pages of which another guest holds the same page of the same file.
    pub shared: u64,
    /// Pages that would be given back if each of these were held once.
    pub saved: u64,
    /// What was found by comparing what pages hold, if guests say it.
    pub compared: Option<Compared>,
    /// Each guest, in the order given.
    pub guests: Vec<OfGuest>,
    /// Each file of which several guests hold the same pages, the most given back first.
    pub by_file: Vec<OfFile>,
}

/// What pages hold, compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Of [`Estimate::saved`], what would be given back indeed: where the pages are equal.
    pub equal: u64,
    /// What would be given back if each page that is equal to any other were held once, whatever they are of.
    pub all: u64,
}

/// A guest's part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfGuest {
    /// Its name.
    pub name: String,
    /// Files of which it holds pages.
    pub files: u64,
    /// Pages that it holds of these.
    pub hinted: u64,
    /// Of these, pages that another guest holds too.
    pub shared: u64,
    /// Its part of what would be given back, in bytes: of n guests that hold a page, each gives back (n − 1)/n of it.
    pub saved_bytes: u64,
}

/// A file's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfFile {
    /// Its path in the first of the guests that have it.
    pub path: String,
    /// How many guests hold pages of it.
    pub guests: u64,
    /// Pages of it that several hold, each counted once.
    pub pages: u64,
    /// Pages that would be given back.
    pub saved: u64,
    /// The same of those that are equal, if guests say what they hold.
    pub equal: Option<u64>,
}

/// Pages of a file that so many guests hold.
#[derive(Clone, Copy, Debug)]
struct Held {
    run: (u64, u64),
    guests: u64,
}

impl Estimate {
    /// Of these guests.
    pub fn of(guests: &[Guest], same_by: SameBy) -> Self {
        let tree = Tree::new(guests, same_by);
        let whole = |guest: &Guest| OfGuest {
            name: guest.name.clone(),
            files: guest.files.len() as u64,
            hinted: guest.files.iter().map(CachedFile::pages).sum(),
            ..OfGuest::default()
        };
        let mut estimate = Self {
            files: tree.files() as u64,
            guests: guests.iter().map(whole).collect(),
            ..Self::default()
        };
        estimate.hinted = estimate.guests.iter().map(|guest| guest.hinted).sum();
        let with_contents =
            guests.iter().flat_map(|guest| &guest.files).any(|file| !file.contents.is_empty());
        for holders in tree.iter().filter(|holders| holders.len() > 1) {
            estimate.add(holders, with_contents);
        }
        estimate
            .by_file
            .sort_by(|one, other| (Reverse(one.saved), &one.path).cmp(&(Reverse(other.saved), &other.path)));
        estimate.compared = with_contents.then(|| Compared {
            equal: estimate.by_file.iter().filter_map(|file| file.equal).sum(),
            all: equal(&mut contents(guests)),
        });
        estimate
    }

    /// Adds a file that several guests have.
    fn add(&mut self, holders: &[(usize, &CachedFile)], with_contents: bool) {
        let held = held(holders);
        let mut file = OfFile {
            path: holders[0].1.path.clone(),
            guests: holders.len() as u64,
            equal: with_contents.then(|| equal_in_place(holders)),
            ..OfFile::default()
        };
        for Held { run: (from, to), guests } in &held {
            file.pages += to - from;
            file.saved += (to - from) * (guests - 1);
        }
        if file.saved == 0 {
            return;
        }
        for (guest, of) in holders {
            let (guest, mut shared, mut bytes) = (&mut self.guests[*guest], 0, 0);
            each_common(&of.runs, &held, |pages, guests| {
                shared += pages;
                bytes += pages * PAGE * (guests - 1) / guests;
            });
            guest.shared += shared;
            guest.saved_bytes += bytes;
            self.shared += shared;
        }
        self.saved += file.saved;
        self.by_file.push(file);
    }
}

/// What all pages of all guests hold.
fn contents(guests: &[Guest]) -> Vec<u64> {
    guests.iter().flat_map(|guest| &guest.files).flat_map(|file| &file.contents).copied().collect()
}

/// Which pages of a file several guests hold, and how many do, in order.
fn held(holders: &[(usize, &CachedFile)]) -> Vec<Held> {
    let runs = || holders.iter().flat_map(|(_, file)| &file.runs);
    let mut bounds: Vec<(u64, i64)> = runs().flat_map(|run| [(run.first, 1), (run.end(), -1)]).collect();
    bounds.sort_unstable();
    let (mut all, mut guests, mut since) = (Vec::new(), 0_i64, 0);
    for (at, change) in bounds {
        if at > since && guests > 1 {
            all.push(Held { run: (since, at), guests: guests.unsigned_abs() });
        }
        (guests, since) = (guests + change, at);
    }
    all
}

/// Tells how many pages of these runs several guests hold, and how many guests, stretch by stretch.
fn each_common(runs: &[Run], held: &[Held], mut tell: impl FnMut(u64, u64)) {
    let mut held = held.iter().peekable();
    for run in runs {
        while let Some(Held { run: (from, to), guests }) = held.peek() {
            let common = run.end().min(*to).saturating_sub(run.first.max(*from));
            if common > 0 {
                tell(common, *guests);
            }
            if *to > run.end() {
                break;
            }
            held.next();
        }
    }
}

/// How many pages would be given back of those at the same place of one file, if what is equal were held once.
fn equal_in_place(holders: &[(usize, &CachedFile)]) -> u64 {
    // Others may claim any number of pages, of which they say nothing.
    let holders: Vec<_> = holders.iter().filter(|(_, file)| !file.contents.is_empty()).copied().collect();
    let held = held(&holders);
    let mut said: Vec<_> = holders.iter().map(|(_, file)| said(file).peekable()).collect();
    let mut here = Vec::new();
    let of_page = |page: u64| {
        here.clear();
        for of in &mut said {
            while of.next_if(|(at, _)| *at < page).is_some() {}
            here.extend(of.next_if(|(at, _)| *at == page).map(|(_, hash)| hash));
        }
        equal(&mut here)
    };
    held.iter().flat_map(|held| held.run.0..held.run.1).map(of_page).sum()
}

/// The pages of a file, with what a guest says that they hold.
fn said(file: &CachedFile) -> impl Iterator<Item = (u64, u64)> {
    file.runs.iter().flat_map(|run| run.first..run.end()).zip(file.contents.iter().copied())
}

/// How many of these are equal to another that stays. A page of which it is not known what it holds (0) is equal to none.
fn equal(hashes: &mut [u64]) -> u64 {
    hashes.sort_unstable();
    hashes.windows(2).filter(|pair| pair[0] != 0 && pair[0] == pair[1]).count() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, inode: u64, pages: &[u64]) -> CachedFile {
        let mut runs: Vec<Run> = Vec::new();
        for page in pages {
            match runs.last_mut().filter(|run| run.end() == *page) {
                Some(run) => run.pages += 1,
                None => runs.push(Run { first: *page, pages: 1 }),
            }
        }
        let (path, size) = (path.into(), 100 * PAGE);
        CachedFile { path, size, modified_ns: 5, inode, runs, ..CachedFile::default() }
    }

    fn guest(name: &str, files: Vec<CachedFile>) -> Guest {
        Guest { name: name.into(), files }
    }

    #[test]
    fn pages_at_the_same_place_of_the_same_file_would_be_held_once() {
        let guests = [
            guest("vm1", vec![file("/a", 1, &[0, 1, 2, 5]), file("/only", 2, &[0])]),
            guest("vm2", vec![file("/a", 9, &[1, 2, 3, 5])]),
            guest("vm3", vec![file("/a", 8, &[2]), file("/b", 1, &[0])]),
        ];
        let of = Estimate::of(&guests, SameBy::Path);
        assert_eq!((of.files, of.hinted, of.shared, of.saved, of.compared), (3, 11, 7, 4, None));
        let a = OfFile { path: "/a".into(), guests: 3, pages: 3, saved: 4, equal: None };
        assert_eq!(of.by_file, [a]);
        let parts: Vec<_> = of.guests.iter().map(|of| (of.hinted, of.shared, of.saved_bytes)).collect();
        // Page 2 is held by three, pages 1 and 5 by two.
        assert_eq!(parts, [(5, 3, 2730 + 4096), (4, 3, 2730 + 4096), (2, 1, 2730)]);
        // By inode numbers, other files are the same.
        let of = Estimate::of(&guests, SameBy::Inode);
        assert_eq!((of.saved, of.by_file[0].path.as_str()), (1, "/a"));
    }

    #[test]
    fn another_size_or_time_makes_another_file() {
        let other = |change: fn(&mut CachedFile)| {
            let mut other = file("/a", 1, &[0]);
            change(&mut other);
            let guests = [guest("vm1", vec![file("/a", 1, &[0])]), guest("vm2", vec![other])];
            Estimate::of(&guests, SameBy::Path).saved
        };
        assert_eq!(other(|_| {}), 1);
        assert_eq!(other(|file| file.size += 1), 0);
        assert_eq!(other(|file| file.modified_ns += 1), 0);
    }

    #[test]
    fn what_pages_hold_says_whether_they_are_equal_and_what_paths_do_not_find() {
        let with = |path: &str, pages: &[u64], contents: &[u64]| CachedFile {
            contents: contents.to_vec(),
            ..file(path, 1, pages)
        };
        let guests = [
            guest("vm1", vec![with("/a", &[0, 1, 2], &[7, 8, 0]), with("/b", &[0], &[9])]),
            guest("vm2", vec![with("/a", &[0, 1, 2], &[7, 1, 0]), with("/c", &[0, 1], &[9, 9])]),
        ];
        let of = Estimate::of(&guests, SameBy::Path);
        // Of three pages at the same place one is equal, one is not, and one was gone; /b and /c have one page thrice.
        assert_eq!((of.saved, of.compared), (3, Some(Compared { equal: 1, all: 3 })));
        assert_eq!(of.by_file[0].equal, Some(1));
    }

    proptest! {
        /// However pages lie: the same as counting them one by one.
        #[test]
        fn stretches_count_what_pages_would(
            pages in prop::collection::vec(prop::collection::vec((0..3_usize, prop::collection::btree_set(0..30_u64, 0..20)), 0..4), 1..5),
            seed in any::<u64>(),
        ) {
            let paths = ["/a", "/b", "/c"];
            let mut guests = Vec::new();
            let mut held: BTreeMap<(usize, u64), Vec<(usize, u64)>> = BTreeMap::new();
            for (at, files) in pages.iter().enumerate() {
                let files: BTreeMap<usize, BTreeSet<u64>> = files.iter().cloned().collect();
                let mut of = Vec::new();
                for (path, pages) in files.into_iter().filter(|(_, pages)| !pages.is_empty()) {
                    let hash = |page: &u64| 1 + (seed >> (page % 60) ^ at as u64) % 2;
                    let pages: Vec<u64> = pages.into_iter().collect();
                    let contents: Vec<u64> = pages.iter().map(hash).collect();
                    for (page, hash) in pages.iter().zip(&contents) {
                        held.entry((path, *page)).or_default().push((at, *hash));
                    }
                    of.push(CachedFile { contents, ..file(paths[path], 0, &pages) });
                }
                guests.push(guest(&at.to_string(), of));
            }
            let estimate = Estimate::of(&guests, SameBy::Path);
            let several = || held.values().filter(|of| of.len() > 1);
            prop_assert_eq!(estimate.hinted, held.values().map(|of| of.len() as u64).sum::<u64>());
            prop_assert_eq!(estimate.shared, several().map(|of| of.len() as u64).sum::<u64>());
            prop_assert_eq!(estimate.saved, several().map(|of| of.len() as u64 - 1).sum::<u64>());
            prop_assert_eq!(estimate.saved, estimate.by_file.iter().map(|of| of.saved).sum::<u64>());
            let hashes = |of: &Vec<(usize, u64)>| of.iter().map(|(_, hash)| *hash).collect::<BTreeSet<u64>>().len();
            let equal = several().map(|of| (of.len() - hashes(of)) as u64).sum::<u64>();
            prop_assert_eq!(estimate.compared.map_or(0, |of| of.equal), equal);
            for (at, guest) in estimate.guests.iter().enumerate() {
                let own = several().filter(|of| of.iter().any(|(holder, _)| *holder == at)).count() as u64;
                prop_assert_eq!(guest.shared, own);
            }
        }
    }
}
