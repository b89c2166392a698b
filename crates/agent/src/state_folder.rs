//! A folder for what agents tell each other: nobody but its owner can read, write or lock anything in it.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long the lock is waited for. It is held for the time of a few reads and writes.
const LOCK_DEADLINE: Duration = Duration::from_secs(2);

/// How often it is tried.
const TRY_EVERY: Duration = Duration::from_millis(10);

/// More is none of ours.
const LARGEST: u64 = 64 << 10;

const OPEN_TO_OTHERS: u32 = 0o077;

/// A folder of ours, in one that only its owner and root can write to.
pub(crate) struct StateFolder {
    path: PathBuf,
    lock_deadline: Duration,
}

impl StateFolder {
    /// Makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or what is there is not a folder of ours.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        if let Err(error) = DirBuilder::new().mode(0o700).create(path)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(io::Error::new(error.kind(), format!("{} cannot be made: {error}", path.display())));
        }
        Self::find(path)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// None if it is not there. One of ours that others may look into is closed to them: an earlier xweave made it
    /// so, or a careless umask.
    ///
    /// # Errors
    /// What is there is not a folder of ours, or cannot be closed to others.
    pub(crate) fn find(path: &Path) -> io::Result<Option<Self>> {
        let is = match fs::symlink_metadata(path) {
            Ok(is) => is,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !is.is_dir() {
            return Err(refused(path, "is not a folder"));
        }
        check_owner(path, &is)?;
        if is.mode() & OPEN_TO_OTHERS != 0 {
            fs::set_permissions(path, Permissions::from_mode(0o700))?;
        }
        Ok(Some(Self { path: path.into(), lock_deadline: LOCK_DEADLINE }))
    }

    /// Held until what is returned is dropped. It is a file in the folder: whoever can open a folder can lock it.
    ///
    /// # Errors
    /// It cannot be opened, or somebody held it until the deadline.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let deadline = Instant::now() + self.lock_deadline;
        let path = self.path.join("lock");
        let file = open(&path, OpenOptions::new().read(true).write(true).create(true))?;
        loop {
            // SAFETY: takes integers; the descriptor is open.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                return Ok(file);
            }
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ if Instant::now() < deadline => thread::sleep(TRY_EVERY),
                _ => {
                    let seconds = self.lock_deadline.as_secs_f64();
                    let message = format!("{} was locked by another process for {seconds} s", path.display());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
            }
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path.join(name)).is_ok()
    }

    /// A file's text; none if it is not there.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<String>> {
        let file = match open(&self.path.join(name), OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// Writes a file whole, or not at all. To be called by whoever has the lock.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let part = self.path.join(format!("{name}.part"));
        // Of a process that was killed while it wrote.
        match fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        open(&part, OpenOptions::new().write(true).create_new(true))?.write_all(text.as_bytes())?;
        fs::rename(part, self.path.join(name))
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}

/// Opens a file of ours, never through a link.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
    check_owner(path, &file.metadata()?)?;
    Ok(file)
}

fn check_owner(path: &Path, is: &Metadata) -> io::Result<()> {
    // SAFETY: returns an integer.
    let user = unsafe { libc::geteuid() };
    if is.uid() == user {
        return Ok(());
    }
    Err(refused(path, &format!("belongs to user {}, not {user}", is.uid())))
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}: remove it", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_folder_and_what_is_in_it_are_the_owners_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        assert!(StateFolder::find(&path).unwrap().is_none());
        let folder = StateFolder::make(&path).unwrap();
        folder.write("page", "text\n").unwrap();
        let _locked = folder.lock().unwrap();
        assert_eq!(folder.read("page").unwrap().as_deref(), Some("text\n"));
        assert_eq!((mode(&path), mode(&path.join("page")), mode(&path.join("lock"))), (0o700, 0o600, 0o600));
        // As earlier versions, or an umask of 0, left it.
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        StateFolder::make(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn links_and_files_in_its_place_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        fs::create_dir(&target).unwrap();
        let path = root.path().join("state");
        symlink(&target, &path).unwrap();
        let refused = |path: &Path| StateFolder::make(path).err().unwrap().to_string();
        assert!(refused(&path).contains("is not a folder: remove it"), "{}", refused(&path));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        assert!(refused(&path).contains("is not a folder"));
        assert_eq!(fs::read_dir(target).unwrap().count(), 0);
    }

    #[test]
    fn links_within_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let other = root.path().join("other");
        fs::write(&other, "other's").unwrap();
        let folder = StateFolder::make(&root.path().join("state")).unwrap();
        for name in ["page", "page.part", "lock"] {
            symlink(&other, folder.path.join(name)).unwrap();
        }
        assert!(folder.read("page").is_err());
        assert!(folder.lock().is_err());
        folder.write("page", "ours").unwrap();
        assert_eq!(folder.read("page").unwrap().as_deref(), Some("ours"));
        assert_eq!(fs::read_to_string(other).unwrap(), "other's");
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        let folder = StateFolder::make(&path).unwrap();
        folder.write("page", "text").unwrap();
        for foreign in [path.join("page"), path.clone()] {
            if std::os::unix::fs::chown(&foreign, Some(65534), None).is_err() {
                eprintln!("SKIPPED: giving files away needs root; a foreign state folder was not tested");
                return;
            }
        }
        for refused in [folder.read("page").err(), StateFolder::make(&path).err()] {
            let refused = refused.unwrap().to_string();
            assert!(refused.contains("belongs to user 65534"), "{refused}");
        }
    }

    #[test]
    fn the_lock_is_not_waited_for_beyond_its_deadline() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        let mut folder = StateFolder::make(&path).unwrap();
        let locked = folder.lock().unwrap();
        folder.lock_deadline = Duration::from_millis(50);
        assert_eq!(folder.lock().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(locked);
        folder.lock().unwrap();
    }
}
