//! The page cache of a domain: which pages of which files it holds.

use serde::{Deserialize, Serialize};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// What a domain tells of its files at most, all in all: files, bytes of their paths, runs of pages, and pages of which it
/// tells what they hold or where they lie (of 32 GiB).
pub const MOST: Amount =
    Amount { files: 1 << 17, paths: 16 << 20, runs: 1 << 20, contents: 8 << 20, frames: 8 << 20 };

/// How much is told of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Files.
    pub files: usize,
    /// Bytes of their paths.
    pub paths: usize,
    /// Runs of pages.
    pub runs: usize,
    /// Pages of which it is told what they hold.
    pub contents: usize,
    /// Pages of which it is told where they lie.
    pub frames: usize,
}

impl Amount {
    /// What is told of a file.
    pub fn of(file: &CachedFile) -> Self {
        Self {
            files: 1,
            paths: file.path.len(),
            runs: file.runs.len(),
            contents: file.contents.len(),
            frames: file.frames.len(),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, usize::saturating_add)
    }

    /// Without what was a part of it.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.with(other, usize::saturating_sub)
    }

    fn with(self, other: Self, each: impl Fn(usize, usize) -> usize) -> Self {
        Self {
            files: each(self.files, other.files),
            paths: each(self.paths, other.paths),
            runs: each(self.runs, other.runs),
            contents: each(self.contents, other.contents),
            frames: each(self.frames, other.frames),
        }
    }

    /// Whether none of it is more than there.
    pub fn is_within(self, most: Self) -> bool {
        self.files <= most.files
            && self.paths <= most.paths
            && self.runs <= most.runs
            && self.contents <= most.contents
            && self.frames <= most.frames
    }

    /// About how many bytes that takes in a message.
    pub fn bytes(self) -> usize {
        // As much as a number of 64 bits can take: three of each file.
        40 * self.files + self.paths + 16 * self.runs + 10 * (self.contents + self.frames)
    }
}

/// Folders that are named to look into, or not to.
pub const FOLDERS: usize = 256;

/// Bytes of a path (`PATH_MAX`).
pub const PATH: usize = 4096;

/// The most pages of a file: of 16 TiB, ext4's largest.
pub const FILE: u64 = 1 << 32;

/// Which files are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Folders, by their absolute paths: all that is below them in the same file system. [`FOLDERS`] at most.
    pub include: Vec<String>,
    /// Folders or files that are left out of that.
    pub exclude: Vec<String>,
    /// Whether to tell what the pages hold: they are read for that.
    pub contents: bool,
    /// Whether to tell where in its memory they lie: they are mapped for that.
    pub frames: bool,
}

/// That all was told of such files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookedAt {
    /// Files that were looked at, whether any page of them is cached or not.
    pub files: u64,
    /// Whether that is all there is. Otherwise only files were told of which something has changed since the time before; a
    /// file of which no page is there any more has no runs.
    pub whole: bool,
    /// Why some were not, if so: there are too many, or it took too long.
    pub cut: Option<String>,
}

/// A file of which pages are cached. Each comes once, whichever of its names is found first; a large one in pieces, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedFile {
    /// Its path in the domain.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its inode number.
    pub inode: u64,
    /// Which of its pages are there: in order, apart from each other.
    pub runs: Vec<Run>,
    /// Of each of these, in order, a hash of what it holds. Empty if that was not asked for; 0 where the page was gone when
    /// it was to be read.
    pub contents: Vec<u64>,
    /// Of each of these, in order, the number of the page of memory that it lies in (PFN). Empty if that was not asked for; 0
    /// where the page was gone.
    pub frames: Vec<u64>,
}

/// Pages of a file that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The first one's place in the file, in pages.
    pub first: u64,
    /// How many.
    pub pages: u32,
}

impl Run {
    /// The place behind its last page.
    pub fn end(self) -> u64 {
        self.first.saturating_add(u64::from(self.pages))
    }
}

impl CachedFile {
    /// How many of its pages are there.
    pub fn pages(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.pages)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of SECURITY.md.
    #[test]
    fn a_guest_names_no_more_than_security_md_says() {
        assert_eq!((MOST.files, MOST.paths, MOST.runs), (131_072, 16 << 20, 1_048_576));
        assert_eq!((MOST.contents, MOST.frames), (8_388_608, 8_388_608));
    }

    #[test]
    fn no_part_of_an_amount_may_be_more_than_there() {
        let most = Amount { files: 1, paths: 2, runs: 3, contents: 4, frames: 5 };
        assert!(most.is_within(most) && Amount::default().is_within(most));
        let one_more: [fn(&mut Amount); 5] = [
            |of| of.files += 1,
            |of| of.paths += 1,
            |of| of.runs += 1,
            |of| of.contents += 1,
            |of| of.frames += 1,
        ];
        for more in one_more {
            let mut of = most;
            more(&mut of);
            assert!(!of.is_within(most), "{of:?}");
        }
    }
}
