//! Access paths in the tables: what they are, and at which sites.
//!
//! Most questions are about a few of them. So they are compared where they lie, and only those of sites that are
//! found are read.

use super::texts::{Texts, push};
use super::{NONE, PATH, PATH_SITES, PATHS, SITE, SITES_BY_PATH, Tables, of_row, word};
use crate::access_path::{AccessPath, Level, is_touched, without_tag};
use crate::cfg::{to_u32, to_usize};

/// Words of a level before those of its members.
const LEVEL: usize = 6;

/// A level of a path, where it lies.
#[derive(Clone, Copy)]
pub(crate) struct LevelRow<'t> {
    tables: &'t Tables,
    /// Where it begins, in words.
    at: usize,
    members: usize,
}

impl<'t> LevelRow<'t> {
    fn word(self, nth: usize) -> Option<u32> {
        word(self.tables.part(PATHS), self.at.checked_add(nth)?)
    }

    fn type_(self) -> &'t str {
        self.tables.text(self.word(0), self.word(1))
    }

    /// As of [`Level::name`].
    pub(crate) fn name(self) -> &'t str {
        without_tag(self.type_())
    }

    /// As of [`Level::members`].
    pub(crate) fn members(self) -> impl Iterator<Item = &'t str> {
        let places = (0..self.members).map(|nth| LEVEL + 2 * nth);
        places.map(move |at| self.tables.text(self.word(at), self.word(at + 1)))
    }

    fn read(self) -> Option<Level> {
        Some(Level {
            type_: self.type_().into(),
            start: self.word(2)?,
            end: self.word(3)?,
            overlay: self.word(4)? != 0,
            members: self.members().map(Into::into).collect(),
        })
    }
}

/// The tables of paths, of which these sites have some: paths, where they are, and their sites.
pub(super) fn assemble(paths: &[AccessPath], site_table: &[u8], texts: &mut Texts) -> [Vec<u8>; 3] {
    let (mut encoded, mut places, mut sites) = (Vec::new(), Vec::new(), Vec::new());
    let mut by_path: Vec<Vec<u32>> = vec![Vec::new(); paths.len()];
    for site in 0..to_u32(site_table.len() / (SITE * 4)) {
        let path = word(site_table, to_usize(site) * SITE + 1).filter(|path| *path != NONE);
        if let Some(of_path) = path.and_then(|path| by_path.get_mut(to_usize(path))) {
            of_path.push(site);
        }
    }
    for (path, of_path) in paths.iter().zip(by_path) {
        push(&mut places, &[to_u32(encoded.len() / 4), to_u32(sites.len() / 4)]);
        push(&mut sites, &of_path);
        push(&mut encoded, &[to_u32(path.levels.len())]);
        for level in &path.levels {
            let [offset, length] = texts.add(&level.type_);
            let overlay = u32::from(level.overlay);
            let members = to_u32(level.members.len());
            push(&mut encoded, &[offset, length, level.start, level.end, overlay, members]);
            for member in &level.members {
                push(&mut encoded, &texts.add(member));
            }
        }
    }
    [encoded, places, sites]
}

impl Tables {
    /// How many access paths there are.
    pub(crate) fn paths(&self) -> u32 {
        to_u32(self.part(PATH_SITES).len() / (PATH * 4))
    }

    /// Whether each path ends where the next one begins, so that to look at all takes no longer than they are large.
    pub(super) fn paths_in_order(&self) -> bool {
        let at = |path| (self.path_field(path, 0), self.path_field(path, 1));
        let ordered = |path: u32| {
            let (here, next) = (at(path), at(path + 1));
            here.0 <= next.0 && here.1 <= next.1
        };
        (0..self.paths().saturating_sub(1)).all(ordered)
    }

    /// The levels of a path, the outermost first: fewer than it says it has if they are not all there.
    pub(crate) fn levels(&self, path: u32) -> impl Iterator<Item = LevelRow<'_>> {
        let all = to_u32(self.part(PATHS).len() / 4);
        let words = of_row(path, all, |path| self.path_field(path, 0));
        let (begin, end) = (to_usize(words.start), to_usize(words.end));
        let count = word(self.part(PATHS), begin).unwrap_or(0);
        let mut at = begin.saturating_add(1);
        (0..count).map_while(move |_| {
            let members = to_usize(word(self.part(PATHS), at.checked_add(LEVEL - 1)?)?);
            let level = LevelRow { tables: self, at, members };
            at = at.checked_add(LEVEL)?.checked_add(members.checked_mul(2)?)?;
            (at <= end).then_some(level)
        })
    }

    /// A path, as it is read the first time that it is asked for.
    pub(crate) fn path(&self, number: u32) -> Option<&AccessPath> {
        let read = || AccessPath { levels: self.levels(number).filter_map(LevelRow::read).collect() };
        Some(self.read_paths.get(to_usize(number))?.get_or_init(read))
    }

    /// For each path whether it touches this member of this structure, as of [`AccessPath::level`].
    pub(crate) fn touching(&self, structure: &str, member: &str) -> Vec<bool> {
        let touches =
            |path| self.levels(path).any(|of| is_touched(structure, member, of.name(), || of.members()));
        (0..self.paths()).map(touches).collect()
    }

    /// The numbers of the sites that have a path.
    pub(crate) fn sites_with(&self, path: u32) -> impl Iterator<Item = u32> {
        let sites = self.part(SITES_BY_PATH);
        let all = to_u32(sites.len() / 4);
        let of_path = of_row(path, all, |path| self.path_field(path, 1));
        of_path.filter_map(|at| word(sites, to_usize(at)))
    }

    fn path_field(&self, path: u32, field: usize) -> Option<u32> {
        word(self.part(PATH_SITES), to_usize(path).checked_mul(PATH)? + field)
    }
}
