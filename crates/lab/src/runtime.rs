//! Where running worlds keep their state: one private folder a world.

use crate::error::{At, Error, Result};
use crate::kind::{INITRD, Kind};
use crate::process::Identity;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The name of the monitor's socket in a world's folder, which is QEMU's working folder.
pub const MONITOR: &str = "monitor";

/// What is known of a world from its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// An `up` is at work.
    Starting,
    /// It came up, and its machine runs.
    Up,
    /// Its `up` was killed, or its machine has ended.
    Broken,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Up => "up",
            Self::Broken => "broken",
        })
    }
}

/// A world's description, as its state file holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// `kvm` or `xen`.
    pub kind: Kind,
    /// The release of the host's kernel, as `uname -r` prints it.
    pub kernel: String,
    /// That of the guests' kernel.
    pub guest_kernel: String,
    /// How the host is run.
    pub accelerator: crate::accelerator::Accelerator,
    /// Version of the QEMU that runs the host, as it prints it.
    #[serde(default)]
    pub emulator: String,
    /// Processors of the host.
    #[serde(default)]
    pub processors: u32,
    /// Guests.
    pub guests: u32,
    /// Processors of each guest.
    #[serde(default)]
    pub guest_processors: u32,
    /// The exec server's port on 127.0.0.1.
    pub port: u16,
    /// Whether every domain came up.
    pub ready: bool,
}

impl Description {
    /// The world's domains: its host first.
    pub fn domains(&self) -> Vec<String> {
        self.kind.domains(self.guests)
    }
}

/// The folder of one world.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// The state file.
    pub fn description_file(&self) -> PathBuf {
        self.0.join("world.json")
    }
    /// The world's secret.
    pub fn token_file(&self) -> PathBuf {
        self.0.join("token")
    }
    /// The identity of the host's QEMU.
    pub fn pid_file(&self) -> PathBuf {
        self.0.join("qemu.pid")
    }
    /// The host's console.
    pub fn console_file(&self) -> PathBuf {
        self.0.join("console-host.log")
    }
    /// The socket of QEMU's monitor.
    pub fn monitor(&self) -> PathBuf {
        self.0.join(MONITOR)
    }
    /// What QEMU itself said.
    pub fn qemu_log(&self) -> PathBuf {
        self.0.join("qemu.log")
    }
    /// What QEMU noted of processor resets: why a machine ended without a word on its console.
    pub fn reset_log(&self) -> PathBuf {
        self.0.join("qemu-resets.log")
    }
    /// The host's initial file system.
    pub fn initrd_file(&self) -> PathBuf {
        self.0.join(INITRD)
    }

    /// Makes a file known under a name in this folder, which is QEMU's working folder.
    pub fn link(&self, name: &str, target: &Path) -> Result<()> {
        let link = self.0.join(name);
        std::os::unix::fs::symlink(target, &link).at("create", link)
    }

    /// The description, if `up` came as far as writing one.
    pub fn description(&self) -> Result<Option<Description>> {
        let path = self.description_file();
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map(Some).map_err(|source| Error::State { path, source })
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).at("read", path),
        }
    }

    /// The host's name, as far as that is known.
    pub fn host(&self) -> &'static str {
        self.description().ok().flatten().map_or(Kind::Kvm, |description| description.kind).host()
    }

    /// Writes the description so that a reader sees the old one or the new one.
    pub fn describe(&self, description: &Description) -> Result<()> {
        let path = self.description_file();
        let text = serde_json::to_vec_pretty(description)
            .map_err(|source| Error::State { path: path.clone(), source })?;
        let new = self.0.join("world.json.new");
        fs::write(&new, text).at("write", &new)?;
        fs::rename(&new, &path).at("write", path)
    }

    /// The host's QEMU, if one was started.
    pub fn machine(&self) -> Result<Option<Identity>> {
        Identity::read(&self.pid_file())
    }

    /// What can be said of the world now. A damaged state file is a broken world.
    pub fn state(&self) -> State {
        let running = matches!(self.machine(), Ok(Some(machine)) if machine.alive());
        let ready = matches!(self.description(), Ok(Some(d)) if d.ready);
        match (ready, running) {
            (true, true) => State::Up,
            (true, false) => State::Broken,
            (false, _) => match self.lock() {
                Ok(None) => State::Starting,
                _ => State::Broken,
            },
        }
    }

    /// The lock that `up` holds while it works: `None` if one does.
    pub fn lock(&self) -> Result<Option<File>> {
        let folder = File::open(&self.0).at("open", &self.0)?;
        // SAFETY: flock takes a descriptor that `folder` keeps open.
        if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(Some(folder));
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error).at("lock", &self.0) }
    }
}

/// The folder of all running worlds, created if need be: `$XDG_RUNTIME_DIR/xweave-lab`, else
/// `/run/xweave-lab` for root, where nobody else can make one of that name, or `/tmp/xweave-lab-UID`.
pub fn root() -> Result<PathBuf> {
    // SAFETY: geteuid takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let path = place(user, std::env::var_os("XDG_RUNTIME_DIR"));
    private(&path, user)?;
    Ok(path)
}

/// Where a user's worlds are; `runtime` is the folder of what that user runs, if there is one.
fn place(user: u32, runtime: Option<OsString>) -> PathBuf {
    match runtime.filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("xweave-lab"),
        None if user == 0 => PathBuf::from("/run/xweave-lab"),
        None => PathBuf::from(format!("/tmp/xweave-lab-{user}")),
    }
}

fn private(path: &Path, user: u32) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            // In /tmp anyone may have put anything of that name: a link would lead elsewhere.
            let data = fs::symlink_metadata(path).at("stat", path)?;
            let good = data.is_dir() && data.uid() == user && data.mode() & 0o077 == 0;
            if good { Ok(()) } else { Err(Error::Runtime { path: path.to_owned() }) }
        }
        Err(e) => Err(e).at("create", path),
    }
}

/// The folder of a world, whether it exists or not.
pub fn folder(name: &str) -> Result<Folder> {
    let good = !name.is_empty()
        && name.len() <= 32
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !name.starts_with('-');
    if !good {
        return Err(Error::Name {
            what: "world",
            name: name.to_owned(),
            rule: "1 to 32 lowercase letters, digits and `-`, not starting with `-`",
        });
    }
    Ok(Folder(root()?.join(name)))
}

/// Creates the folder of a new world and takes its lock.
pub fn create(name: &str) -> Result<(Folder, File)> {
    let folder = folder(name)?;
    match DirBuilder::new().mode(0o700).create(&folder.0) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::Exists { name: name.to_owned(), state: folder.state().to_string() });
        }
        Err(e) => return Err(e).at("create", &folder.0),
    }
    // The folder is new and ours; a `list` that looks at it at this moment holds its lock for that moment.
    loop {
        if let Some(lock) = folder.lock()? {
            return Ok((folder, lock));
        }
        std::thread::yield_now();
    }
}

/// The names of all worlds, in order.
pub fn names() -> Result<Vec<String>> {
    let root = root()?;
    let mut names: Vec<String> = fs::read_dir(&root)
        .at("read", &root)?
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_the_folder() {
        for bad in ["", "..", "a/b", "-x", "Ä", "UPPER", &"x".repeat(33)] {
            assert!(matches!(folder(bad), Err(Error::Name { .. })), "{bad}");
        }
    }

    #[test]
    fn roots_worlds_are_where_nobody_else_can_make_a_folder() {
        assert_eq!(place(0, None), Path::new("/run/xweave-lab"));
        assert_eq!(place(0, Some(OsString::new())), Path::new("/run/xweave-lab"));
        assert_eq!(place(1000, None), Path::new("/tmp/xweave-lab-1000"));
        assert_eq!(place(1000, Some("/run/user/1000".into())), Path::new("/run/user/1000/xweave-lab"));
    }

    #[test]
    fn someone_elses_folder_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let user = fs::metadata(dir.path()).unwrap().uid();
        let path = dir.path().join("lab");
        private(&path, user).unwrap();
        private(&path, user).unwrap();
        assert!(matches!(private(&path, user + 1), Err(Error::Runtime { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(private(&path, user), Err(Error::Runtime { .. })));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(private(&link, user), Err(Error::Runtime { .. })));
    }

    #[test]
    fn state_follows_lock_readiness_and_process() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder(dir.path().to_owned());
        let lock = folder.lock().unwrap();
        assert!(lock.is_some());
        assert_eq!(folder.state(), State::Starting);
        drop(lock);
        assert_eq!(folder.state(), State::Broken, "its up is gone");
        let mut description = Description {
            kind: Kind::Kvm,
            kernel: "6".into(),
            guest_kernel: "6".into(),
            accelerator: crate::accelerator::Accelerator::Tcg,
            emulator: "QEMU emulator version 11.1.3".into(),
            processors: 2,
            guests: 2,
            guest_processors: 2,
            port: 1,
            ready: false,
        };
        fs::copy("/proc/self/stat", folder.pid_file()).unwrap();
        folder.describe(&description).unwrap();
        assert_eq!(folder.state(), State::Broken);
        description.ready = true;
        folder.describe(&description).unwrap();
        assert_eq!(folder.description().unwrap(), Some(description));
        assert_eq!(folder.state(), State::Up);
        fs::write(folder.pid_file(), "1 (init) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 1 20").unwrap();
        assert_eq!(folder.state(), State::Broken, "the number is another process's now");
        fs::write(folder.description_file(), "{").unwrap();
        assert_eq!(folder.state(), State::Broken);
    }
}
