//! The files of all guests, by what makes them the same.

use std::collections::BTreeMap;

use xweave_wire::pages::CachedFile;

/// A guest, and what it says of its page cache.
#[derive(Clone, Debug, Default)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// The files of which it holds pages.
    pub files: Vec<CachedFile>,
}

/// What makes two guests' files the same. Their sizes and times of change have to be equal, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameBy {
    /// Their paths.
    #[default]
    Path,
    /// Their inode numbers: of guests whose disks began as one image.
    Inode,
}

/// A file, whichever guest has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'g> {
    path: &'g str,
    inode: u64,
    size: u64,
    modified_ns: i64,
}

/// The files of all guests. Each has the guests that hold pages of it, by their places, in order.
#[derive(Debug, Default)]
pub struct Tree<'g> {
    files: BTreeMap<Key<'g>, Vec<(usize, &'g CachedFile)>>,
}

impl<'g> Tree<'g> {
    /// Of these guests.
    pub fn new(guests: &'g [Guest], same_by: SameBy) -> Self {
        let mut files: BTreeMap<_, Vec<(usize, &CachedFile)>> = BTreeMap::new();
        for (at, file) in
            guests.iter().enumerate().flat_map(|(at, guest)| guest.files.iter().map(move |file| (at, file)))
        {
            let (path, inode) = match same_by {
                SameBy::Path => (&*file.path, 0),
                SameBy::Inode => ("", file.inode),
            };
            let key = Key { path, inode, size: file.size, modified_ns: file.modified_ns };
            let of = files.entry(key).or_default();
            // A guest has a file once: in another file system, another may have its number.
            if of.last().is_none_or(|(last, _)| *last != at) {
                of.push((at, file));
            }
        }
        Self { files }
    }

    /// How many there are.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Each file, with the guests that hold pages of it.
    pub fn iter(&self) -> impl Iterator<Item = &[(usize, &'g CachedFile)]> {
        self.files.values().map(Vec::as_slice)
    }
}
