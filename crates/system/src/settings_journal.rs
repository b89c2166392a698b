//! Journal of changed settings: previous values are written to a file before anything is changed, so that they are restored
//! even after SIGKILL.
//!
//! An entry has the previous values, and the processes that hold them changed. When none of these processes is alive any more,
//! the next one that restores settings puts the values back: the controller that killed an agent, the agent that listens,
//! another agent, or `xweave doctor`.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use xweave_guard::private::{self, Dir, Trust};

use crate::affinity;

/// Folder of all journals: on a file system that is empty after a reboot, as the changes are gone then.
pub(crate) const FOLDER: &str = "/run/xweave";

/// Maximum bytes of an entry.
const LARGEST_ENTRY: u64 = 64 << 10;

/// File that a process locks while it reads or writes an entry. Not the folder: every user who can open that could lock it.
const LOCK: &str = "lock";

/// Maximum time to wait for the lock, which is held for a few reads and writes; and the time between attempts.
const LOCK_DEADLINE: Duration = Duration::from_secs(2);
const TRY_EVERY: Duration = Duration::from_millis(10);

/// A setting that a killed process had left changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleSetting {
    /// The kernel's file, or `affinity:TID:START`.
    pub path: String,
    /// The value before the change.
    pub value: String,
    /// Why the value could not be restored; `None` if it was.
    pub failed: Option<String>,
}

/// Values that a file of the kernel accepts: no other value is ever written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// A small number.
    Number,
    /// A small number; while the kernel answers `EBUSY`, restoring is postponed, and is no failure.
    NumberIfFree,
    /// A name, such as a governor's.
    Word,
    /// One of several names: the file shows all of them, with the current one in brackets.
    Choice,
}

impl ValueKind {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Number | Self::NumberIfFree => {
                (1..=9).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
            }
            Self::Word | Self::Choice => xweave_wire::knob::is_word(value),
        }
    }

    /// The current value, from the file's text.
    fn current_value(self, shown: &str) -> &str {
        let shown = shown.trim();
        match self {
            Self::Number | Self::NumberIfFree | Self::Word => shown,
            Self::Choice => shown
                .split_whitespace()
                .find_map(|name| name.strip_prefix('[')?.strip_suffix(']'))
                .unwrap_or(""),
        }
    }
}

/// A setting that can be changed and restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file of the kernel, by its absolute path.
    File(&'static str, ValueKind),
    /// The CPUs on which a thread may run. The start time distinguishes it from later threads with the same ID.
    Affinity { tid: u32, start: u64 },
}

const AFFINITY: &str = "affinity:";

impl Target {
    /// The path and the values it accepts; `None` for an affinity.
    pub(crate) fn file(self) -> Option<(&'static str, ValueKind)> {
        match self {
            Self::File(path, kind) => Some((path, kind)),
            Self::Affinity { .. } => None,
        }
    }

    /// Name in the journal; without blanks.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path, _) => (*path).to_owned(),
            Self::Affinity { tid, start } => format!("{AFFINITY}{tid}:{start}"),
        }
    }

    /// Reads the current value.
    ///
    /// # Errors
    /// The file cannot be read, or the thread has ended (`ESRCH`).
    pub(crate) fn read(&self, journal: &Journal) -> io::Result<String> {
        match self {
            Self::File(path, kind) => {
                Ok(kind.current_value(&fs::read_to_string(journal.path(path))?).to_owned())
            }
            Self::Affinity { .. } if self.is_gone() => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            Self::Affinity { tid, .. } => affinity::get(*tid),
        }
    }

    /// Checks that the setting could be restored to `value`.
    pub(crate) fn accepts(&self, value: &str) -> bool {
        match self {
            Self::File(_, kind) => kind.accepts(value),
            Self::Affinity { .. } => affinity::parse(value).is_some(),
        }
    }

    /// Sets the value, unless it is the current one: a file that refuses writes may already have it.
    ///
    /// # Errors
    /// The kernel refused it, or the thread has ended (`ESRCH`).
    pub(crate) fn write(&self, journal: &Journal, value: &str) -> io::Result<()> {
        if self.read(journal).is_ok_and(|now| now == value) {
            return Ok(());
        }
        step();
        match self {
            Self::File(path, _) => fs::write(journal.path(path), value)?,
            // Another thread may have this ID by now.
            Self::Affinity { .. } if self.is_gone() => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            Self::Affinity { tid, .. } => affinity::set(*tid, value)?,
        }
        step();
        Ok(())
    }

    /// Checks for an error that means: restore it later.
    fn is_in_use(&self, error: &io::Error) -> bool {
        matches!(self, Self::File(_, ValueKind::NumberIfFree)) && error.kind() == io::ErrorKind::ResourceBusy
    }

    /// Checks whether the thread has ended: then there is nothing to restore.
    fn is_gone(&self) -> bool {
        matches!(*self, Self::Affinity { tid, start } if start_time(tid) != Some(start))
    }
}

/// One entry of the journal: a file that has the previous values of a group of settings.
#[derive(Clone)]
pub(crate) struct Journal {
    pub(crate) folder: PathBuf,
    /// Name of the entry's file.
    pub(crate) name: &'static str,
    /// Boot ID of the kernel: an entry of an earlier boot is void.
    pub(crate) boot: String,
    /// Prefix of the kernel's paths: empty, except in tests.
    pub(crate) root: PathBuf,
    /// Files that may be restored.
    pub(crate) files: Vec<(&'static str, ValueKind)>,
    /// CPU affinities of threads may be restored, too.
    pub(crate) affinities: bool,
}

/// Contents of an entry.
#[derive(Default)]
pub(crate) struct Entry {
    /// Names of targets, and their previous values.
    pub(crate) before: Vec<(String, String)>,
    /// Holders that need them changed, of processes that are alive.
    pub(crate) holders: Vec<String>,
}

/// Holds the journal's lock: no other process reads or writes entries until it is dropped.
pub(crate) struct LockedJournal<'j> {
    journal: &'j Journal,
    dir: Dir,
    _locked: File,
}

impl Journal {
    /// The entry of that name in [`FOLDER`], for the current boot.
    pub(crate) fn new(name: &'static str, files: Vec<(&'static str, ValueKind)>, affinities: bool) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().to_owned();
        Self { folder: FOLDER.into(), name, boot, root: PathBuf::new(), files, affinities }
    }

    /// A path of the kernel, below the root.
    pub(crate) fn path(&self, of_kernel: &str) -> PathBuf {
        if self.root.as_os_str().is_empty() {
            return of_kernel.into();
        }
        self.root.join(of_kernel.trim_start_matches('/'))
    }

    /// Locks the journal for writing. Creates its folder if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created, or other users could write to it; another process held the lock for too long.
    pub(crate) fn open(&self) -> io::Result<LockedJournal<'_>> {
        let dir = Dir::create(&self.folder).map_err(other)?;
        // Earlier versions let other users open the folder, and so lock it.
        dir.claim().map_err(other)?;
        let locked = lock(&dir, LOCK_DEADLINE)?;
        Ok(LockedJournal { journal: self, dir, _locked: locked })
    }

    /// Removes the holders for which `done` is true. If they were the last ones, restores the settings.
    ///
    /// # Errors
    /// The journal cannot be locked, read or written.
    pub(crate) fn release(&self, done: impl Fn(&str) -> bool) -> io::Result<Vec<StaleSetting>> {
        self.update(|entry| entry.holders.retain(|holder| !done(holder)))
    }

    /// Restores the settings if no living process holds them changed.
    ///
    /// # Errors
    /// The journal cannot be locked, read or written.
    pub(crate) fn restore(&self) -> io::Result<Vec<StaleSetting>> {
        self.update(|_| {})
    }

    fn update(&self, change: impl FnOnce(&mut Entry)) -> io::Result<Vec<StaleSetting>> {
        let dir = match Dir::open(&self.folder, Trust::Owner) {
            Ok(dir) => dir,
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            Err(error) => return Err(other(error)),
        };
        if !dir.has(self.name).map_err(other)? {
            return Ok(Vec::new());
        }
        let locked = lock(&dir, LOCK_DEADLINE)?;
        let open = LockedJournal { journal: self, dir, _locked: locked };
        let mut entry = open.read()?;
        change(&mut entry);
        if entry.holders.is_empty() {
            return Ok(open.restore(entry));
        }
        open.write(&entry)?;
        Ok(Vec::new())
    }

    fn find_target(&self, name: &str) -> Option<Target> {
        if let Some(thread) = name.strip_prefix(AFFINITY).filter(|_| self.affinities) {
            let (tid, start) = thread.split_once(':')?;
            return Some(Target::Affinity { tid: tid.parse().ok()?, start: start.parse().ok()? });
        }
        let known = self.files.iter().find(|(path, _)| *path == name);
        known.map(|(path, kind)| Target::File(path, *kind))
    }

    /// Restores one setting; `None` if that is postponed.
    fn restore_one(&self, path: String, value: String) -> Option<StaleSetting> {
        let failed = match self.find_target(&path) {
            None => Some("xweave does not change this setting".to_owned()),
            Some(target) if !target.accepts(&value) => {
                Some("the setting does not take this value".to_owned())
            }
            Some(target) => match target.write(self, &value) {
                Err(error) if target.is_in_use(&error) => return None,
                Err(error) if !target.is_gone() => Some(error.to_string()),
                _ => None,
            },
        };
        Some(StaleSetting { path, value, failed })
    }
}

impl LockedJournal<'_> {
    /// Reads the entry of this boot, with the holders whose processes are alive.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&self) -> io::Result<Entry> {
        let text = match self.dir.read(self.journal.name, LARGEST_ENTRY) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.is_missing() => String::new(),
            Err(error) => return Err(other(error)),
        };
        let mut lines = text.lines();
        let mut entry = Entry::default();
        if lines.next().and_then(|line| line.strip_prefix("boot ")) != Some(&self.journal.boot) {
            return Ok(entry);
        }
        for line in lines {
            match line.split_once(' ') {
                Some(("before", setting)) => {
                    entry
                        .before
                        .extend(setting.split_once(' ').map(|(path, v)| (path.to_owned(), v.to_owned())));
                }
                Some(("holder", holder)) if is_alive(holder) => entry.holders.push(holder.to_owned()),
                _ => {}
            }
        }
        Ok(entry)
    }

    /// Replaces the entry atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, entry: &Entry) -> io::Result<()> {
        let mut text = format!("boot {}\n", self.journal.boot);
        for (path, value) in &entry.before {
            text += &format!("before {path} {value}\n");
        }
        for holder in &entry.holders {
            text += &format!("holder {holder}\n");
        }
        step();
        self.dir.replace(self.journal.name, text.as_bytes()).map_err(other)?;
        step();
        Ok(())
    }

    /// Restores the entry's values. The entry is kept, to be retried, if one of them cannot be restored.
    pub(crate) fn restore(&self, entry: Entry) -> Vec<StaleSetting> {
        let all = entry.before.len();
        let one = |(path, value)| self.journal.restore_one(path, value);
        let stale: Vec<_> = entry.before.into_iter().filter_map(one).collect();
        // A name that xweave never changes is reported once, and does not keep the entry.
        let ours = |stale: &StaleSetting| self.journal.find_target(&stale.path).is_some();
        if stale.len() == all && !stale.iter().any(|stale| stale.failed.is_some() && ours(stale)) {
            // The values are restored: an entry that could not be removed does no harm.
            let _ = self.dir.remove(self.journal.name);
            step();
        }
        stale
    }
}

/// A point between two changes, at which tests kill the process.
fn step() {
    #[cfg(test)]
    kill_at_step::step();
}

/// Kills this process at the step that an environment variable names.
#[cfg(test)]
pub(crate) mod kill_at_step {
    use std::{
        env,
        sync::atomic::{AtomicU32, Ordering},
    };

    /// Environment variable with the step's number, from 1.
    pub(crate) const STEP_VARIABLE: &str = "XWEAVE_TEST_KILLED_AT";

    pub(super) fn step() {
        static STEP: AtomicU32 = AtomicU32::new(0);
        let Some(at) = env::var(STEP_VARIABLE).ok().and_then(|at| at.parse::<u32>().ok()) else { return };
        if STEP.fetch_add(1, Ordering::Relaxed) + 1 == at {
            // SAFETY: takes integers.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}

/// Locks the folder's lock file until the returned file is dropped.
///
/// # Errors
/// The file cannot be created or opened, or another process held the lock until the deadline.
fn lock(dir: &Dir, deadline: Duration) -> io::Result<File> {
    if !dir.has(LOCK).map_err(other)? {
        // Another process may create it first.
        let _ = dir.create_new(LOCK);
    }
    let file = dir.open_file(LOCK).map_err(other)?;
    let until = Instant::now() + deadline;
    loop {
        // SAFETY: takes integers; the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(file);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ if Instant::now() < until => thread::sleep(TRY_EVERY),
            _ => {
                let (path, seconds) = (dir.path_of(LOCK), deadline.as_secs_f64());
                let message = format!("{} was locked by another process for {seconds} s", path.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }
}

fn other(error: private::Error) -> io::Error {
    io::Error::other(error)
}

/// Checks whether this process may change and restore settings.
pub(crate) fn is_root() -> bool {
    // SAFETY: returns an integer.
    unsafe { libc::geteuid() == 0 }
}

/// Makes a new holder of this process: `PID START N`, unique on this machine until it reboots.
pub(crate) fn new_holder() -> String {
    static NTH: AtomicU32 = AtomicU32::new(0);
    format!("{} {}", identify_process(std::process::id()), NTH.fetch_add(1, Ordering::Relaxed))
}

/// Checks whether a holder is one of this process.
pub(crate) fn is_mine(holder: &str) -> bool {
    holder.starts_with(&format!("{} ", identify_process(std::process::id())))
}

/// Process ID of a holder.
pub(crate) fn holder_process(holder: &str) -> &str {
    holder.split(' ').next().unwrap_or_default()
}

/// A process ID and the process's start time: IDs are reused.
fn identify_process(id: u32) -> String {
    format!("{id} {}", start_time(id).unwrap_or(0))
}

/// Start time of a process or thread, in clock ticks since boot; `None` if it has ended.
pub(crate) fn start_time(id: u32) -> Option<u64> {
    // The command's name is in parentheses, and may contain any character (man proc_pid_stat: the state is field 3, the
    // start time field 22).
    let stat = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| !dead)
}

/// Checks whether a holder's process is still the same one, and has not ended.
fn is_alive(holder: &str) -> bool {
    let mut words = holder.split(' ');
    let (Some(id), Some(start)) = (words.next().and_then(|id| id.parse().ok()), words.next()) else {
        return false;
    };
    start != "0" && identify_process(id) == format!("{id} {start}")
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn other_users_cannot_lock_the_journal_and_waiting_for_the_lock_ends() {
        let machine = tempfile::tempdir().unwrap();
        let folder = machine.path().join("run");
        let journal = Journal {
            folder: folder.clone(),
            name: "settings",
            boot: "b".to_owned(),
            root: machine.path().into(),
            files: Vec::new(),
            affinities: false,
        };
        // Permissions of earlier versions.
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        drop(journal.open().unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(LOCK))), (0o700, 0o600));
        let dir = Dir::open(&folder, Trust::Owner).unwrap();
        let locked = lock(&dir, LOCK_DEADLINE).unwrap();
        let refused = lock(&dir, Duration::from_millis(30)).unwrap_err();
        assert!(refused.to_string().contains("lock was locked by another process for 0.03 s"), "{refused}");
        drop(locked);
        lock(&dir, LOCK_DEADLINE).unwrap();
    }

    #[test]
    fn affinity_of_another_thread_with_the_same_id_is_not_changed() {
        let journal = Journal {
            folder: PathBuf::new(),
            name: "settings",
            boot: "b".to_owned(),
            root: PathBuf::new(),
            files: Vec::new(),
            affinities: true,
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (tid, now) = (child.id(), affinity::get(child.id()).unwrap());
        let first = affinity::parse(&now).unwrap()[0].to_string();
        let of = |start| Target::Affinity { tid, start };
        let start = start_time(tid).unwrap();
        let gone = |result: io::Result<String>| result.unwrap_err().raw_os_error() == Some(libc::ESRCH);
        assert!(gone(of(start + 1).write(&journal, &first).map(|()| String::new())));
        assert!(gone(of(start + 1).read(&journal)));
        assert_eq!(affinity::get(tid).unwrap(), now);
        of(start).write(&journal, &first).unwrap();
        assert_eq!(affinity::get(tid).unwrap(), first);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn holder_of_an_earlier_process_with_the_same_id_is_not_alive() {
        let mine = new_holder();
        assert!(is_alive(&mine) && is_mine(&mine) && holder_process(&mine) == std::process::id().to_string());
        assert_ne!(mine, new_holder());
        let (id, start) = (std::process::id(), start_time(std::process::id()).unwrap());
        assert!(
            !is_alive(&format!("{id} {} 0", start + 1)) && !is_alive(&format!("{id} 0 0")) && !is_alive("")
        );
    }

    #[test]
    fn choice_in_brackets_is_the_current_value() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sys")).unwrap();
        let files = vec![("/sys/mode", ValueKind::Choice)];
        let mut journal = Journal::new("test", files, false);
        journal.root = folder.path().into();
        let target = Target::File("/sys/mode", ValueKind::Choice);
        let shows = |text: &str| {
            fs::write(folder.path().join("sys/mode"), text).unwrap();
            target.read(&journal).unwrap()
        };
        assert_eq!(shows("none [scan-time]\n"), "scan-time");
        assert!(target.accepts(&shows("[none] scan-time\n")) && !target.accepts(&shows("none scan-time\n")));
        // Writing what it is does nothing; else the word alone is written.
        shows("[none] scan-time\n");
        target.write(&journal, "none").unwrap();
        assert_eq!(target.read(&journal).unwrap(), "none");
        target.write(&journal, "scan-time").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("sys/mode")).unwrap(), "scan-time");
    }
}
