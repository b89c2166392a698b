//! What was changed of a machine's settings, and what it was before: written down first, so that it is put back whatever
//! happens.
//!
//! A page has what was before, and who holds it changed. When none of those lives any more, whoever looks next puts it
//! back: the controller that killed an agent, the agent that listens, another agent, or `xweave doctor`.

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

/// Where it is written down: gone after a reboot, as the changes are.
pub(crate) const FOLDER: &str = "/run/xweave";

/// Bytes of a page at most.
const LARGEST_PAGE: u64 = 64 << 10;

/// Whoever reads or writes a page has this file locked. Not the folder: whoever can open that could lock it.
const LOCK: &str = "lock";

/// How long the lock is waited for, which is held for the time of a few reads and writes; how often it is tried.
const LOCK_DEADLINE: Duration = Duration::from_secs(2);
const TRY_EVERY: Duration = Duration::from_millis(10);

/// A setting that an agent had left changed when it was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleSettings {
    /// The kernel's file, or which thread's affinity.
    pub path: String,
    /// What it was before.
    pub value: String,
    /// Why it could not be restored, if it could not.
    pub failed: Option<String>,
}

/// What a file of the kernel's takes: nothing else is ever written into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// A small number.
    Number,
    /// The same, where the kernel may say that it is in use (`EBUSY`): then it is put back later, and nothing has failed.
    NumberIfFree,
    /// A name, as governors have.
    Word,
    /// One of several such names: all are shown, and the one that holds is in brackets.
    Choice,
}

impl Takes {
    fn takes(self, value: &str) -> bool {
        match self {
            Self::Number | Self::NumberIfFree => {
                (1..=9).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
            }
            Self::Word | Self::Choice => xweave_wire::knob::is_word(value),
        }
    }

    /// What a file that shows this is set to.
    fn of(self, shown: &str) -> &str {
        let shown = shown.trim();
        match self {
            Self::Number | Self::NumberIfFree | Self::Word => shown,
            Self::Choice => {
                shown.split_whitespace().find_map(|of| of.strip_prefix('[')?.strip_suffix(']')).unwrap_or("")
            }
        }
    }
}

/// Something that can be changed, and put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file of the kernel's.
    File(&'static str, Takes),
    /// On which CPUs a thread may run. When it was started tells it from others of its number.
    Affinity { tid: u32, start: u64 },
}

const AFFINITY: &str = "affinity:";

impl Target {
    /// The file, if it is one, and what that takes.
    pub(crate) fn file(self) -> Option<(&'static str, Takes)> {
        match self {
            Self::File(path, takes) => Some((path, takes)),
            Self::Affinity { .. } => None,
        }
    }

    /// As the page has it: without blanks.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path, _) => (*path).to_owned(),
            Self::Affinity { tid, start } => format!("{AFFINITY}{tid}:{start}"),
        }
    }

    /// What it is now.
    pub(crate) fn read(&self, book: &Book) -> io::Result<String> {
        match self {
            Self::File(path, takes) => Ok(takes.of(&fs::read_to_string(book.path(path))?).to_owned()),
            Self::Affinity { .. } if self.is_gone() => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            Self::Affinity { tid, .. } => affinity::get(*tid),
        }
    }

    /// Whether it could be put back to this.
    pub(crate) fn takes(&self, value: &str) -> bool {
        match self {
            Self::File(_, takes) => takes.takes(value),
            Self::Affinity { .. } => affinity::parse(value).is_some(),
        }
    }

    /// Writes it only if it is not so: what says no to writing may well be as it should be.
    pub(crate) fn write(&self, book: &Book, value: &str) -> io::Result<()> {
        if self.read(book).is_ok_and(|now| now == value) {
            return Ok(());
        }
        step();
        match self {
            Self::File(path, _) => fs::write(book.path(path), value)?,
            // Another thread may have its number by now.
            Self::Affinity { .. } if self.is_gone() => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            Self::Affinity { tid, .. } => affinity::set(*tid, value)?,
        }
        step();
        Ok(())
    }

    /// Whether an error says that it can be put back later only.
    fn is_in_use(&self, error: &io::Error) -> bool {
        matches!(self, Self::File(_, Takes::NumberIfFree)) && error.kind() == io::ErrorKind::ResourceBusy
    }

    /// Whether there is nothing to put back any more: the thread has ended.
    fn is_gone(&self) -> bool {
        matches!(*self, Self::Affinity { tid, start } if started(tid) != Some(start))
    }
}

/// A page of what is written down.
#[derive(Clone)]
pub(crate) struct Book {
    pub(crate) folder: PathBuf,
    pub(crate) page: &'static str,
    pub(crate) boot: String,
    /// In front of the kernel's paths: nothing, except in tests.
    pub(crate) root: PathBuf,
    /// The files that may be put back.
    pub(crate) files: Vec<(&'static str, Takes)>,
    /// Whether threads' affinities may be put back.
    pub(crate) affinities: bool,
}

#[derive(Default)]
pub(crate) struct Page {
    /// The targets' names, and what they were.
    pub(crate) before: Vec<(String, String)>,
    /// Who needs them changed: those who live.
    pub(crate) holders: Vec<String>,
}

/// A page that nobody else reads or writes as long as this lives.
pub(crate) struct Open<'b> {
    book: &'b Book,
    dir: Dir,
    _locked: File,
}

impl Book {
    /// The page of that name.
    pub(crate) fn of_this_machine(
        page: &'static str,
        files: Vec<(&'static str, Takes)>,
        affinities: bool,
    ) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = boot.trim().to_owned();
        Self { folder: FOLDER.into(), page, boot, root: PathBuf::new(), files, affinities }
    }

    pub(crate) fn path(&self, of_kernel: &str) -> PathBuf {
        if self.root.as_os_str().is_empty() {
            return of_kernel.into();
        }
        self.root.join(of_kernel.trim_start_matches('/'))
    }

    /// Opens it to write something down. The folder is made, if it is not there.
    ///
    /// # Errors
    /// The folder is one that others could write in, or cannot be made; another process held the lock for long.
    pub(crate) fn open(&self) -> io::Result<Open<'_>> {
        let dir = Dir::create(&self.folder).map_err(other)?;
        // Earlier versions let others look into it, and so lock it.
        dir.claim().map_err(other)?;
        let locked = lock(&dir, LOCK_DEADLINE)?;
        Ok(Open { book: self, dir, _locked: locked })
    }

    /// Some who hold do not any more. If they were the last, what they had changed is restored.
    pub(crate) fn close(&self, done: impl Fn(&str) -> bool) -> io::Result<Vec<StaleSettings>> {
        self.update(|page| page.holders.retain(|holder| !done(holder)))
    }

    /// What nobody holds changed any more is restored.
    pub(crate) fn restore(&self) -> io::Result<Vec<StaleSettings>> {
        self.update(|_| {})
    }

    fn update(&self, change: impl FnOnce(&mut Page)) -> io::Result<Vec<StaleSettings>> {
        let dir = match Dir::open(&self.folder, Trust::Owner) {
            Ok(dir) => dir,
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            Err(error) => return Err(other(error)),
        };
        if !dir.has(self.page).map_err(other)? {
            return Ok(Vec::new());
        }
        let locked = lock(&dir, LOCK_DEADLINE)?;
        let open = Open { book: self, dir, _locked: locked };
        let mut page = open.read()?;
        change(&mut page);
        if page.holders.is_empty() {
            return Ok(open.restore(page));
        }
        open.write(&page)?;
        Ok(Vec::new())
    }

    fn target(&self, name: &str) -> Option<Target> {
        if let Some(thread) = name.strip_prefix(AFFINITY).filter(|_| self.affinities) {
            let (tid, start) = thread.split_once(':')?;
            return Some(Target::Affinity { tid: tid.parse().ok()?, start: start.parse().ok()? });
        }
        let known = self.files.iter().find(|(path, _)| *path == name);
        known.map(|(path, takes)| Target::File(path, *takes))
    }

    /// None if it can be put back later only.
    fn restore_one(&self, path: String, value: String) -> Option<StaleSettings> {
        let failed = match self.target(&path) {
            None => Some("xweave does not change this setting".to_owned()),
            Some(target) if !target.takes(&value) => Some("the setting does not take this value".to_owned()),
            Some(target) => match target.write(self, &value) {
                Err(error) if target.is_in_use(&error) => return None,
                Err(error) if !target.is_gone() => Some(error.to_string()),
                _ => None,
            },
        };
        Some(StaleSettings { path, value, failed })
    }
}

impl Open<'_> {
    /// What holds of this boot: of those who hold, only those who live.
    pub(crate) fn read(&self) -> io::Result<Page> {
        let text = match self.dir.read(self.book.page, LARGEST_PAGE) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.is_missing() => String::new(),
            Err(error) => return Err(other(error)),
        };
        let mut lines = text.lines();
        let mut page = Page::default();
        if lines.next().and_then(|line| line.strip_prefix("boot ")) != Some(&self.book.boot) {
            return Ok(page);
        }
        for line in lines {
            match line.split_once(' ') {
                Some(("before", setting)) => {
                    page.before
                        .extend(setting.split_once(' ').map(|(path, v)| (path.to_owned(), v.to_owned())));
                }
                Some(("holder", holder)) if lives(holder) => page.holders.push(holder.to_owned()),
                _ => {}
            }
        }
        Ok(page)
    }

    /// Writes it down: all of it, or nothing.
    pub(crate) fn write(&self, page: &Page) -> io::Result<()> {
        let mut text = format!("boot {}\n", self.book.boot);
        for (path, value) in &page.before {
            text += &format!("before {path} {value}\n");
        }
        for holder in &page.holders {
            text += &format!("holder {holder}\n");
        }
        step();
        self.dir.replace(self.book.page, text.as_bytes()).map_err(other)?;
        step();
        Ok(())
    }

    /// Puts back what was before. What cannot be stays written down, to be tried again.
    pub(crate) fn restore(&self, page: Page) -> Vec<StaleSettings> {
        let all = page.before.len();
        let one = |(path, value)| self.book.restore_one(path, value);
        let stale: Vec<_> = page.before.into_iter().filter_map(one).collect();
        // What cannot be restored because it never was a setting of ours is told once.
        let ours = |stale: &StaleSettings| self.book.target(&stale.path).is_some();
        if stale.len() == all && !stale.iter().any(|stale| stale.failed.is_some() && ours(stale)) {
            // The values are as they were: a page that stays for want of rights says nothing wrong.
            let _ = self.dir.remove(self.book.page);
            step();
        }
        stale
    }
}

/// Between any two steps the process may be killed: tests do it here.
fn step() {
    #[cfg(test)]
    killed::step();
}

/// Killing a process at a step of its choice.
#[cfg(test)]
pub(crate) mod killed {
    use std::{
        env,
        sync::atomic::{AtomicU32, Ordering},
    };

    /// Names the step, from 1.
    pub(crate) const AT: &str = "XWEAVE_TEST_KILLED_AT";

    pub(super) fn step() {
        static STEP: AtomicU32 = AtomicU32::new(0);
        let Some(at) = env::var(AT).ok().and_then(|at| at.parse::<u32>().ok()) else { return };
        if STEP.fetch_add(1, Ordering::Relaxed) + 1 == at {
            // SAFETY: takes integers.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}

/// Held until what is returned is dropped.
///
/// # Errors
/// The file cannot be made or opened, or another process held it until the deadline.
fn lock(dir: &Dir, deadline: Duration) -> io::Result<File> {
    if !dir.has(LOCK).map_err(other)? {
        // Another may make it first.
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

/// Whether this process may change settings, and put back what others have left.
pub(crate) fn is_root() -> bool {
    // SAFETY: returns an integer.
    unsafe { libc::geteuid() == 0 }
}

/// One who holds something of this process's: each has a name of its own.
pub(crate) fn holder() -> String {
    static NTH: AtomicU32 = AtomicU32::new(0);
    format!("{} {}", process(std::process::id()), NTH.fetch_add(1, Ordering::Relaxed))
}

/// Whether a holder is one of this process's.
pub(crate) fn is_mine(holder: &str) -> bool {
    holder.starts_with(&format!("{} ", process(std::process::id())))
}

/// The process of a holder.
pub(crate) fn process_of(holder: &str) -> &str {
    holder.split(' ').next().unwrap_or_default()
}

/// A process, and when it was started: numbers are used again.
fn process(id: u32) -> String {
    format!("{id} {}", started(id).unwrap_or(0))
}

/// When a process or a thread was started, in the kernel's ticks since its boot; none if it has ended.
pub(crate) fn started(id: u32) -> Option<u64> {
    // The command's name is in parentheses, and may have any characters in it (man proc_pid_stat: state is
    // field 3, the start field 22).
    let stat = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| !dead)
}

fn lives(holder: &str) -> bool {
    let mut words = holder.split(' ');
    let (Some(id), Some(start)) = (words.next().and_then(|id| id.parse().ok()), words.next()) else {
        return false;
    };
    start != "0" && process(id) == format!("{id} {start}")
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn nobody_else_can_lock_the_page_and_no_lock_is_waited_for_for_ever() {
        let machine = tempfile::tempdir().unwrap();
        let folder = machine.path().join("run");
        let book = Book {
            folder: folder.clone(),
            page: "settings",
            boot: "b".to_owned(),
            root: machine.path().into(),
            files: Vec::new(),
            affinities: false,
        };
        // As an earlier version made it.
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        drop(book.open().unwrap());
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
    fn the_affinity_of_another_thread_of_that_number_stays() {
        let book = Book {
            folder: PathBuf::new(),
            page: "settings",
            boot: "b".to_owned(),
            root: PathBuf::new(),
            files: Vec::new(),
            affinities: true,
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (tid, now) = (child.id(), affinity::get(child.id()).unwrap());
        let first = affinity::parse(&now).unwrap()[0].to_string();
        let of = |start| Target::Affinity { tid, start };
        let start = started(tid).unwrap();
        let gone = |result: io::Result<String>| result.unwrap_err().raw_os_error() == Some(libc::ESRCH);
        assert!(gone(of(start + 1).write(&book, &first).map(|()| String::new())));
        assert!(gone(of(start + 1).read(&book)));
        assert_eq!(affinity::get(tid).unwrap(), now);
        of(start).write(&book, &first).unwrap();
        assert_eq!(affinity::get(tid).unwrap(), first);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_is_told_from_another_of_its_number() {
        let mine = holder();
        assert!(lives(&mine) && is_mine(&mine) && process_of(&mine) == std::process::id().to_string());
        assert_ne!(mine, holder());
        let (id, start) = (std::process::id(), started(std::process::id()).unwrap());
        assert!(!lives(&format!("{id} {} 0", start + 1)) && !lives(&format!("{id} 0 0")) && !lives(""));
    }

    #[test]
    fn of_several_choices_the_one_in_brackets_holds() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sys")).unwrap();
        let files = vec![("/sys/mode", Takes::Choice)];
        let mut book = Book::of_this_machine("test", files, false);
        book.root = folder.path().into();
        let target = Target::File("/sys/mode", Takes::Choice);
        let shows = |text: &str| {
            fs::write(folder.path().join("sys/mode"), text).unwrap();
            target.read(&book).unwrap()
        };
        assert_eq!(shows("none [scan-time]\n"), "scan-time");
        assert!(target.takes(&shows("[none] scan-time\n")) && !target.takes(&shows("none scan-time\n")));
        // Writing what it is does nothing; else the word alone is written.
        shows("[none] scan-time\n");
        target.write(&book, "none").unwrap();
        assert_eq!(target.read(&book).unwrap(), "none");
        target.write(&book, "scan-time").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("sys/mode")).unwrap(), "scan-time");
    }
}
