//! Files and folders that belong to one user, and that nobody else can touch.
//!
//! xweave runs as root in folders that others may write to, `/tmp` above all. So nothing here follows a symbolic
//! link in the last part of a name, and whatever is done in a folder is done through the descriptor of the folder
//! that was checked ([`openat(2)`]): a link that is put in its place meanwhile changes nothing. Folders are made with
//! mode 0700 and files with mode 0600, whatever the umask is.
//!
//! Reading takes what the user or root owns and nobody else can write to, as perf takes its `perf.data`: [`Trust`].
//!
//! [`openat(2)`]: https://man7.org/linux/man-pages/man2/openat.2.html

pub(crate) mod handle;

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _, Write},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self as sys, Access, AtFlags, CWD, FileType, Mode, Stat},
    io::Errno,
};

use crate::broker;
use handle::Handle;

/// Why something is not used, or could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {what} {}: {error}", path.display())]
    Io {
        /// Completes "cannot …".
        what: &'static str,
        /// Of which file or folder.
        path: PathBuf,
        /// How.
        #[source]
        error: io::Error,
    },
    /// It is a link, a device, a pipe, or a folder where a file belongs.
    #[error("{} is {found}, not a {wanted}", path.display())]
    Kind {
        /// Which file or folder.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What belongs there.
        wanted: &'static str,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to user {owner}, neither the current user nor root", path.display())]
    Owner {
        /// Which file or folder.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// Others than its owner can write to it.
    #[error("{} can be written to by other users (mode {mode:04o})", path.display())]
    Writable {
        /// Which file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is larger than anything that belongs there.
    #[error("{} has {size} bytes, of which {most} may be", path.display())]
    Large {
        /// Which file.
        path: PathBuf,
        /// How large it is, in bytes.
        size: u64,
        /// How large it may be.
        most: u64,
    },
}

impl Error {
    fn io(what: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Io { what, path: path.to_owned(), error: error.into() }
    }

    /// The failure of the system, where it is one.
    pub fn as_io(&self) -> Option<&io::Error> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether there is no such file or folder.
    pub fn is_missing(&self) -> bool {
        let kind = self.as_io().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }

    /// Whether it is there, and others own it or can write to it: what [`Trust::Anyone`] overrides.
    pub fn is_distrust(&self) -> bool {
        matches!(self, Self::Owner { .. } | Self::Writable { .. })
    }
}

/// Whose files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the effective user and of root, if nobody else can write to them.
    #[default]
    Owner,
    /// Anybody's: the user has said so.
    Anyone,
}

/// A folder that is open. What is done in it is done to this very folder, whatever its name means by then.
#[derive(Debug)]
pub struct Dir {
    handle: Handle,
    /// For messages.
    path: PathBuf,
    trust: Trust,
}

impl Dir {
    /// Makes a folder with its missing parents, or opens the one that is there: it must be the effective user's own,
    /// and nobody else's to write to. Its mode stays as it is until [`Dir::claim`].
    ///
    /// # Errors
    /// It cannot be made, is no folder or a link, belongs to somebody else or can be written to by others.
    pub fn create(path: &Path) -> Result<Self, Error> {
        handle::make_path(&plain(path)).map_err(|error| Error::io("make", path, error))?;
        Self::open(path, Trust::Owner)?.owned()
    }

    /// Opens a folder to read what is in it.
    ///
    /// # Errors
    /// It is not there, no folder, a link, or not to be trusted.
    pub fn open(path: &Path, trust: Trust) -> Result<Self, Error> {
        let named = plain(path);
        let look = || handle::look_at(&named, false).ok();
        Self::opened(Handle::open(&named), look, path.to_owned(), trust)
    }

    /// Where it was opened, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it, for messages.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes the folder 0700.
    ///
    /// # Errors
    /// Its mode cannot be changed.
    pub fn claim(&self) -> Result<(), Error> {
        self.handle.claim().map_err(|error| Error::io("change the mode of", &self.path, error))
    }

    /// A folder in it, made if it is not there, with mode 0700.
    ///
    /// # Errors
    /// As of [`Dir::create`].
    pub fn create_dir(&self, name: &str) -> Result<Self, Error> {
        let path = self.path_of(name);
        let made = self.handle.make_folder(single(name, &path)?);
        made.map_err(|error| Error::io("make", &path, error))?;
        let dir = self.open_in(name, path, Trust::Owner)?.owned()?;
        dir.claim()?;
        Ok(dir)
    }

    /// A folder in it; none if it is not there.
    ///
    /// # Errors
    /// It is no folder, a link, or not to be trusted.
    pub fn open_dir(&self, name: &str) -> Result<Option<Self>, Error> {
        let path = self.path_of(name);
        single(name, &path)?;
        match self.open_in(name, path, self.trust) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a file of mode 0600, to be written. What has that name already, a link above all, is an error.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create_new(&self, name: &str) -> Result<File, Error> {
        let path = self.path_of(name);
        let made = self.handle.create_file(single(name, &path)?);
        Ok(made.map_err(|error| Error::io("make", &path, error))?.into())
    }

    /// Writes a file whole or not at all; what had that name is replaced, and nothing is written through a link.
    ///
    /// # Errors
    /// It cannot be written. What was there stays.
    pub fn replace(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        let temporary = temporary_name(name, std::process::id());
        let path = self.path_of(name);
        // One of a process that was killed, and had the same number.
        self.unlink(&temporary)?;
        let mut file = self.create_new(&temporary)?;
        let written = file.write_all(content).map_err(|error| Error::io("write", &path, error));
        written.and_then(|()| self.rename(&temporary, name)).inspect_err(|_| {
            // Best effort: the failure to report is the first one.
            let _ = self.unlink(&temporary);
        })
    }

    /// Gives a file another name in the folder, also one that another file has, which is gone then.
    ///
    /// # Errors
    /// There is no such file, or a folder has the name.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let path = self.path_of(to);
        let renamed = self.handle.rename(single(from, &path)?, single(to, &path)?);
        renamed.map_err(|error| Error::io("name", &path, error))
    }

    /// Opens a regular file to be read.
    ///
    /// # Errors
    /// It is not there, no regular file (nothing is waited for where it is a pipe), or not to be trusted.
    pub fn open_file(&self, name: &str) -> Result<File, Error> {
        let path = self.path_of(name);
        let failed = |error| Error::io("open", &path, error);
        let fd = self.handle.open_file(single(name, &path)?).map_err(failed)?;
        let found = sys::fstat(&fd).map_err(|error| Error::io("open", &path, error))?;
        regular(&found, &path)?;
        trusted(&found, &path, self.trust)?;
        Ok(fd.into())
    }

    /// The content of a regular file of at most so many bytes.
    ///
    /// # Errors
    /// As of [`Dir::open_file`]; it is larger, or cannot be read.
    pub fn read(&self, name: &str, most: u64) -> Result<Vec<u8>, Error> {
        let path = self.path_of(name);
        let file = self.open_file(name)?;
        let failed = |error: io::Error| Error::io("read", &path, error);
        let size = file.metadata().map_err(failed)?.len();
        if size > most {
            return Err(Error::Large { path, size, most });
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(size).read_to_end(&mut content).map_err(failed)?;
        Ok(content)
    }

    /// Whether something has that name, whatever it is.
    ///
    /// # Errors
    /// The folder cannot be searched.
    pub fn has(&self, name: &str) -> Result<bool, Error> {
        Ok(self.stat("look for", name)?.is_some())
    }

    /// Removes a regular file, if it is there.
    ///
    /// # Errors
    /// It is something else, or cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        match self.stat("remove", name)? {
            Some(found) => regular(&found, &self.path_of(name))?,
            None => return Ok(()),
        }
        self.unlink(name)
    }

    /// The names in the folder, in order; none of those that are no text.
    ///
    /// # Errors
    /// The folder cannot be read, or has more than `most` names.
    pub fn names(&self, most: usize) -> Result<Vec<String>, Error> {
        let failed = |error| Error::io("read", &self.path, error);
        let mut names = Vec::new();
        let fd = self.handle.open_again().map_err(failed)?;
        for entry in sys::Dir::new(fd).map_err(|error| failed(error.into()))? {
            let entry = entry.map_err(|error| failed(error.into()))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == most {
                let error =
                    io::Error::other(format!("it has more than {most} files, and none of ours has as many"));
                return Err(failed(error));
            }
            names.extend(std::str::from_utf8(name).ok().map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open_in(&self, name: &str, path: PathBuf, trust: Trust) -> Result<Self, Error> {
        let look = || self.handle.look(name).ok().flatten();
        Self::opened(self.handle.open_folder(name), look, path, trust)
    }

    fn opened(
        handle: io::Result<Handle>,
        look: impl Fn() -> Option<Stat>,
        path: PathBuf,
        trust: Trust,
    ) -> Result<Self, Error> {
        let handle = handle.map_err(|error| match look() {
            // A link is "not a directory" to the kernel, which helps nobody.
            Some(found) if kind(&found) != FileType::Directory => {
                Error::Kind { path: path.clone(), found: called(&found), wanted: "folder" }
            }
            _ => Error::io("open", &path, error),
        })?;
        let dir = Self { handle, path, trust };
        trusted(&dir.about()?, &dir.path, trust)?;
        Ok(dir)
    }

    fn about(&self) -> Result<Stat, Error> {
        let failed = |error| Error::io("open", &self.path, error);
        sys::fstat(self.handle.fd().map_err(failed)?).map_err(|error| failed(error.into()))
    }

    /// What is written to belongs to the user; root's alone does not do.
    fn owned(self) -> Result<Self, Error> {
        let owner = self.about()?.st_uid;
        if owner != broker::user() {
            return Err(Error::Owner { path: self.path, owner });
        }
        Ok(self)
    }

    /// What has that name; nothing may.
    fn stat(&self, what: &'static str, name: &str) -> Result<Option<Stat>, Error> {
        let path = self.path_of(name);
        self.handle.look(single(name, &path)?).map_err(|error| Error::io(what, &path, error))
    }

    /// Removes a name, of a link too; none is fine.
    fn unlink(&self, name: &str) -> Result<(), Error> {
        let path = self.path_of(name);
        self.handle.unlink(single(name, &path)?).map_err(|error| Error::io("remove", &path, error))
    }
}

/// Writes a file of mode 0600 whole or not at all, in a folder that may be anybody's; what has that name is replaced,
/// and nothing is written through a link.
///
/// # Errors
/// It cannot be written. What was there stays.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    let (dir, name) = place_of(path)?;
    dir.replace(&name, content)
}

/// The folder of a file that is to be written, which may be anybody's, and its name there.
fn place_of(path: &Path) -> Result<(Dir, String), Error> {
    let named = path.file_name().and_then(OsStr::to_str).filter(|name| !name.is_empty());
    let Some(name) = named else {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file");
        return Err(Error::io("write", path, error));
    };
    let folder = parent(path);
    let handle = Handle::open_for_file(folder, path).map_err(|error| Error::io("open", folder, error))?;
    Ok((Dir { handle, path: folder.to_owned(), trust: Trust::Anyone }, name.to_owned()))
}

/// A file that is written bit by bit, and has its name when it is whole: until then, what had that name stays.
pub struct Growing {
    dir: Dir,
    name: String,
    temporary: String,
    file: File,
}

impl Growing {
    /// Begins a file of mode 0600, in a folder that may be anybody's.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let (dir, name) = place_of(path)?;
        let temporary = temporary_name(&name, std::process::id());
        dir.unlink(&temporary)?;
        let file = dir.create_new(&temporary)?;
        Ok(Self { dir, name, temporary, file })
    }

    /// It is whole: it has its name. What had that before is replaced.
    ///
    /// # Errors
    /// It cannot be named so.
    pub fn finish(self) -> Result<(), Error> {
        self.dir.rename(&self.temporary, &self.name)
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What is not finished goes.
impl Drop for Growing {
    fn drop(&mut self) {
        // Best effort; of a file that has its name, there is nothing left.
        let _ = self.dir.unlink(&self.temporary);
    }
}

/// Returns the name of a file that this process writes, before it is whole.
pub(crate) fn temporary_name(name: &str, process: u32) -> String {
    format!(".{name}.tmp-{process}")
}

/// Returns the folder of a file.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a folder that is missing could be made there, with those above it. Makes nothing.
///
/// # Errors
/// What is there of its path is no folder, or not the user's to write to; as far as that can be foreseen.
pub fn can_create(path: &Path) -> Result<(), Error> {
    if let Some(broker) = broker::client() {
        return match broker.writes_in(path) {
            true => Ok(()),
            false => Err(Error::io("make", path, Errno::ACCESS)),
        };
    }
    let above = path.ancestors().skip(1).map(|above| match above.as_os_str().is_empty() {
        true => Path::new("."),
        false => above,
    });
    let there =
        above.map(|above| (above, sys::stat(above))).find(|(_, there)| !matches!(there, Err(Errno::NOENT)));
    let Some((above, there)) = there else { return Ok(()) };
    let error = match there {
        Ok(there) if !FileType::from_raw_mode(there.st_mode).is_dir() => Errno::NOTDIR,
        Ok(_) => match sys::accessat(CWD, above, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        },
        Err(error) => error,
    };
    Err(Error::io("make", path, error))
}

/// Without slashes at its end, which would have a link followed.
fn plain(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(bytes.len().min(1), |last| last + 1);
    OsStr::from_bytes(&bytes[..end]).into()
}

/// A name that stays in its folder.
fn single<'n>(name: &'n str, path: &Path) -> Result<&'n str, Error> {
    match broker::is_name(name) {
        true => Ok(name),
        false => {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file");
            Err(Error::io("use", path, error))
        }
    }
}

fn regular(found: &Stat, path: &Path) -> Result<(), Error> {
    if kind(found) == FileType::RegularFile {
        return Ok(());
    }
    Err(Error::Kind { path: path.to_owned(), found: called(found), wanted: "regular file" })
}

/// As perf does (`tools/perf/util/data.c`, `open_file_read`, 6.12), and besides that nobody else can write to it.
fn trusted(found: &Stat, path: &Path, trust: Trust) -> Result<(), Error> {
    if trust == Trust::Anyone {
        return Ok(());
    }
    let path = || path.to_owned();
    if found.st_uid != 0 && found.st_uid != broker::user() {
        return Err(Error::Owner { path: path(), owner: found.st_uid });
    }
    let mode = Mode::from_raw_mode(found.st_mode);
    if mode.intersects(Mode::WGRP | Mode::WOTH) {
        return Err(Error::Writable { path: path(), mode: mode.as_raw_mode() & 0o7777 });
    }
    Ok(())
}

fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn called(found: &Stat) -> &'static str {
    match kind(found) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    }
}

/// What a path leads to; a link in its last part is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A regular file.
    File,
    /// Something else.
    Other,
}

/// Looks at what a path leads to; none if there is nothing.
pub fn look_at(path: &Path) -> Option<Found> {
    let found = handle::look_at(path, false).ok()?;
    Some(if kind(&found) == FileType::RegularFile { Found::File } else { Found::Other })
}

/// Opens what is to be written to and is neither a file nor a folder, such as a pipe or `/dev/stdout`; none where it is
/// either, or nothing.
///
/// # Errors
/// It is a link that is not the system's, or another user's pipe, who would get what is written.
pub fn open_other(path: &Path) -> Result<Option<File>, Error> {
    let failed = |error| Error::io("open", path, error);
    let found = match handle::look_at(path, false) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // Only root makes links such as /dev/stdout.
    let is_system = path.starts_with("/dev");
    match kind(&found) {
        FileType::RegularFile | FileType::Directory => return Ok(None),
        FileType::Symlink if !is_system => {
            return Err(Error::Kind { path: path.to_owned(), found: called(&found), wanted: "regular file" });
        }
        FileType::Fifo | FileType::Socket => trusted(&found, path, Trust::Owner)?,
        _ => {}
    }
    Ok(Some(handle::open_other(path).map_err(failed)?.into()))
}

/// Opens a regular file that the user named, also through a link; a pipe or a device is refused at once.
///
/// # Errors
/// It is not there, cannot be read, or is no regular file.
pub fn open_named(path: &Path) -> Result<File, Error> {
    let failed = |error| Error::io("open", path, error);
    let fd = handle::open_named(path).map_err(failed)?;
    regular(&sys::fstat(&fd).map_err(|error| failed(error.into()))?, path)?;
    Ok(fd.into())
}

/// Reports whether a path is that of a regular file, also through a link.
pub fn is_file(path: &Path) -> bool {
    handle::look_at(path, true).is_ok_and(|found| kind(&found) == FileType::RegularFile)
}

/// Whether there is something at that path that belongs to neither the effective user nor root.
pub fn is_another_users(path: &Path) -> bool {
    sys::stat(path).is_ok_and(|found| found.st_uid != 0 && found.st_uid != broker::user())
}
