//! Files, by their names.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use xweave_wire::pages::{FOLDERS, Files};

/// Folders in folders.
const DEEP: usize = 128;

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Inode {
    pub(super) device: u64,
    pub(super) number: u64,
}

/// A file that was found.
pub(super) struct Found {
    pub(super) at: PathBuf,
    /// Its path as it is told.
    pub(super) path: String,
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) modified_ns: i64,
    pub(super) inode: Inode,
    /// How many names it has.
    pub(super) names: u64,
}

/// Goes through folders, each in the order of its names: so does another domain with the same files.
pub(super) struct Walk {
    /// Folders that are still to be gone through, the next one last, with how deep they are and their file system.
    folders: Vec<(PathBuf, usize, u64)>,
    /// What was found in the one that is gone through, the next one last.
    entries: Vec<(PathBuf, usize, u64)>,
    exclude: Vec<PathBuf>,
    /// Files and folders that were there, by file system and inode.
    seen: HashSet<(u64, u64)>,
}

impl Walk {
    pub(super) fn new(files: &Files) -> Result<Self, String> {
        if files.include.len() + files.exclude.len() > FOLDERS {
            return Err(format!("more than {FOLDERS} folders are named"));
        }
        if let Some(path) = files.include.iter().chain(&files.exclude).find(|path| !path.starts_with('/')) {
            return Err(format!("{path} is no absolute path"));
        }
        let mut folders: Vec<_> = files.include.iter().filter_map(real).collect();
        folders.sort();
        folders.dedup();
        folders.reverse();
        let on = |path: PathBuf| Some((fs::metadata(&path).ok()?.dev(), path));
        let folders = folders.into_iter().filter_map(on).map(|(device, path)| (path, 0, device)).collect();
        let exclude = files.exclude.iter().filter_map(real).collect();
        Ok(Self { entries: folders, folders: Vec::new(), exclude, seen: HashSet::new() })
    }

    /// The file, if it is one, on that file system, and was not there yet; of a folder, its entries come next.
    fn look(&mut self, path: PathBuf, depth: usize, device: u64) -> Option<Found> {
        if self.exclude.contains(&path) {
            return None;
        }
        let is = path.symlink_metadata().ok()?;
        if is.dev() != device || !self.seen.insert((device, is.ino())) {
            return None;
        }
        if is.is_dir() {
            if depth < DEEP {
                self.folders.push((path, depth, device));
            }
            return None;
        }
        (is.is_file() && is.size() > 0).then(|| open(&path)).flatten()
    }

    fn go_into(&mut self, folder: &Path, depth: usize, device: u64) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort_unstable_by(|one, other| other.file_name().cmp(&one.file_name()));
        self.entries.extend(paths.into_iter().map(|path| (path, depth + 1, device)));
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some((folder, depth, device)) = self.folders.pop() {
                self.go_into(&folder, depth, device);
            }
            let (path, depth, device) = self.entries.pop()?;
            if let Some(found) = self.look(path, depth, device) {
                return Some(found);
            }
        }
    }
}

/// A path by what it is a link to: /lib is one to /usr/lib, and files are called by one name. What is not there has none.
pub(super) fn real(path: &String) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// What was a file a moment ago; what it is now is asked of what was opened.
pub(super) fn open(path: &Path) -> Option<Found> {
    let how = libc::O_NOATIME | libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(how).open(path).ok()?;
    let is = file.metadata().ok().filter(fs::Metadata::is_file)?;
    Some(Found {
        at: path.to_owned(),
        path: xweave_text::printable(&OsStr::to_string_lossy(path.as_os_str())).into_owned(),
        size: is.size(),
        modified_ns: is.mtime().saturating_mul(1_000_000_000).saturating_add(is.mtime_nsec()),
        names: is.nlink(),
        inode: Inode { device: is.dev(), number: is.ino() },
        file,
    })
}
