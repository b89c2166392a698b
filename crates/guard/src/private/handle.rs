//! A folder that is open, and the system calls in it: by this process, or by its [broker].

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{self as sys, AtFlags, CWD, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::broker::{self, Place};

/// Modes of folders, and of files.
pub(crate) const FOLDER: Mode = Mode::RWXU;
pub(crate) const FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A folder that is open.
#[derive(Debug)]
pub(crate) enum Handle {
    /// This process has the rights.
    Own(OwnedFd),
    /// The broker has them.
    Brokered {
        /// The folder; none where only a file in it is within reach.
        fd: Option<OwnedFd>,
        /// Which it is, to the broker.
        place: Place,
    },
}

impl Handle {
    /// Opens a folder by its path; a link in its last part is not followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let Some(broker) = broker::client() else {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            return Ok(Self::Own(sys::open(path, flags, Mode::empty())?));
        };
        let place = broker.find(path)?;
        Ok(Self::Brokered { fd: Some(broker.open_folder(&place)?), place })
    }

    /// Opens the folder that a file is to be written in, which may be a link.
    pub(crate) fn open_for_file(folder: &Path, file: &Path) -> io::Result<Self> {
        let Some(broker) = broker::client() else {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            return Ok(Self::Own(sys::open(folder, flags, Mode::empty())?));
        };
        match broker.find_file(file) {
            Some(place) => {
                broker.find_folder(&place)?;
                Ok(Self::Brokered { fd: None, place })
            }
            None => Self::open(folder),
        }
    }

    /// Opens a folder in this one.
    pub(crate) fn open_folder(&self, name: &str) -> io::Result<Self> {
        match self {
            Self::Own(fd) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                Ok(Self::Own(sys::openat(fd, name, flags, Mode::empty())?))
            }
            Self::Brokered { place, .. } => {
                let place = place.in_folder(name);
                let fd = broker::required()?.open_folder(&place)?;
                Ok(Self::Brokered { fd: Some(fd), place })
            }
        }
    }

    /// Opens a regular file in it to be read. What is something else is opened as a place only (`O_PATH`): opening alone
    /// makes some devices do something.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<OwnedFd> {
        match self {
            Self::Own(fd) => open_regular(fd.as_fd(), Path::new(name), OFlags::NOFOLLOW),
            Self::Brokered { place, .. } => broker::required()?.open_file(place, name),
        }
    }

    /// Looks for what has that name. Follows no link.
    pub(crate) fn look(&self, name: &str) -> io::Result<Option<Stat>> {
        let found = match self {
            Self::Own(fd) => sys::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW),
            Self::Brokered { place, .. } => match broker::required()?.look(place, name) {
                Ok(fd) => sys::fstat(fd),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Errno::NOENT),
                Err(error) => return Err(error),
            },
        };
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a folder in it. One that is there is fine.
    pub(crate) fn make_folder(&self, name: &str) -> io::Result<()> {
        match self {
            Self::Own(fd) => match sys::mkdirat(fd, name, FOLDER) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            },
            Self::Brokered { place, .. } => broker::required()?.make_folder(&place.in_folder(name)),
        }
    }

    /// Makes a file in it, to be written. Whatever has that name already is an error.
    pub(crate) fn create_file(&self, name: &str) -> io::Result<OwnedFd> {
        match self {
            Self::Own(fd) => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = sys::openat(fd, name, flags, FILE)?;
                // The umask may have taken rights from it.
                sys::fchmod(&file, FILE)?;
                Ok(file)
            }
            Self::Brokered { place, .. } => broker::required()?.create_file(place, name),
        }
    }

    /// Gives a file another name in it.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match self {
            Self::Own(fd) => Ok(sys::renameat(fd, from, fd, to)?),
            Self::Brokered { place, .. } => broker::required()?.rename(place, from, to),
        }
    }

    /// Removes a name, that of a link too. None is fine.
    pub(crate) fn unlink(&self, name: &str) -> io::Result<()> {
        match self {
            Self::Own(fd) => match sys::unlinkat(fd, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            },
            Self::Brokered { place, .. } => broker::required()?.unlink(place, name),
        }
    }

    /// Makes it private to its owner.
    pub(crate) fn claim(&self) -> io::Result<()> {
        match self {
            Self::Own(fd) => Ok(sys::fchmod(fd, FOLDER)?),
            Self::Brokered { place, .. } => broker::required()?.claim(place),
        }
    }

    /// Opens the folder once more, to read its names from the first.
    pub(crate) fn open_again(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Own(fd) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                Ok(sys::openat(fd, ".", flags, Mode::empty())?)
            }
            Self::Brokered { place, .. } => broker::required()?.open_folder(place),
        }
    }

    /// The folder itself, to look at its rights.
    pub(crate) fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        match self {
            Self::Own(fd) | Self::Brokered { fd: Some(fd), .. } => Ok(fd.as_fd()),
            Self::Brokered { fd: None, .. } => Err(Errno::ACCESS.into()),
        }
    }
}

/// Looks at what a path is. Follows a link in its last part only if `follow` says so.
pub(crate) fn look_at(path: &Path, follow: bool) -> io::Result<Stat> {
    match broker::client() {
        Some(broker) => Ok(sys::fstat(broker.look_at(path, follow)?)?),
        None if follow => Ok(sys::stat(path)?),
        None => Ok(sys::lstat(path)?),
    }
}

/// Opens a regular file by its path, also through a link; what is something else as a place only.
pub(crate) fn open_named(path: &Path) -> io::Result<OwnedFd> {
    match broker::client() {
        Some(broker) => broker.open_named(path),
        None => open_regular(CWD, path, OFlags::empty()),
    }
}

/// Opens what is to be written to and is neither file nor folder.
pub(crate) fn open_other(path: &Path) -> io::Result<OwnedFd> {
    if let Some(broker) = broker::client() {
        return broker.open_other(path);
    }
    let kind = FileType::from_raw_mode(sys::stat(path)?.st_mode);
    if matches!(kind, FileType::RegularFile | FileType::Directory) && !path.starts_with("/dev") {
        return Err(Errno::INVAL.into());
    }
    Ok(sys::open(path, OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes a folder and its missing parents, of mode 0700. One that is there is fine.
pub(crate) fn make_path(path: &Path) -> io::Result<()> {
    if let Some(broker) = broker::client() {
        return broker.make_folder(&broker.find(path)?);
    }
    match sys::mkdir(path, FOLDER) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(Errno::NOENT) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            make_path(parent.ok_or(Errno::NOENT)?)?;
            match sys::mkdir(path, FOLDER) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn open_regular(base: BorrowedFd<'_>, name: &Path, follow: OFlags) -> io::Result<OwnedFd> {
    let seen = sys::openat(base, name, OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty())?;
    if FileType::from_raw_mode(sys::fstat(&seen)?.st_mode) != FileType::RegularFile {
        return Ok(seen);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | follow;
    Ok(sys::openat(base, name, flags, Mode::empty())?)
}
