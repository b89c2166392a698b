//! Settings of the kernel that make attaching and detaching fast. They are changed for that time only.
//!
//! The kernel gets its values back whatever happens: from the guard's drop, or, if the process is killed,
//! from whoever looks next: the controller that killed it, the agent that listens, another agent, or `xweave
//! doctor`. So what is changed is written down before, with who changed it. Of several agents at once the last
//! restores. Where nothing can be written down, where others could write, nothing is changed.

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
use xweave_text::printable;

use crate::output::tell;

/// Where it is written down: gone after a reboot, as the changes are.
const FOLDER: &str = "/run/xweave";

/// What it is written in there, and bytes of it at most.
const PAGE: &str = "settings";
const LARGEST_PAGE: u64 = 64 << 10;

/// Whoever reads or writes the page has this file locked. Not the folder: whoever can open that could lock it.
const LOCK: &str = "lock";

/// How long the lock is waited for, which is held for the time of a few reads and writes; how often it is tried.
const LOCK_DEADLINE: Duration = Duration::from_secs(2);
const TRY_EVERY: Duration = Duration::from_millis(10);

/// A file of the kernel's, and what it is to be meanwhile.
type Setting = (&'static str, &'static str);

/// Jumps instead of breakpoints are made of kprobes in the background, in batches, each of which waits for all
/// tasks to have left the code; attaching and detaching wait for that in turn.
const UNOPTIMIZED: Setting = ("/proc/sys/debug/kprobes-optimization", "0");

/// Each hook that goes waits, twice, until no processor can still be in it.
const EXPEDITED: Setting = ("/sys/kernel/rcu_expedited", "1");

/// All that are ever changed, and so all that are ever restored.
const SETTINGS: [Setting; 2] = [UNOPTIMIZED, EXPEDITED];

/// A setting that an agent had left changed when it was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleSettings {
    /// The kernel's file.
    pub path: String,
    /// What it was before.
    pub value: String,
    /// Why it could not be restored, if it could not.
    pub failed: Option<String>,
}

/// Restores what agents that are no more have left changed. Only root can, and only root's have.
pub fn restore() -> Vec<StaleSettings> {
    if !is_root() {
        return Vec::new();
    }
    Book::of_this_machine().restore().unwrap_or_else(|error| {
        let path = format!("{FOLDER}/{PAGE}");
        vec![StaleSettings { path, value: String::new(), failed: Some(error.to_string()) }]
    })
}

/// The same; what could not be restored is told on standard error.
pub(crate) fn restore_and_tell() {
    tell_failed(&restore());
}

/// Gives up whatever this process holds changed, before it ends in a hurry.
pub(crate) fn abandon() {
    if !is_root() {
        return;
    }
    let me = format!("{} ", process(std::process::id()));
    match Book::of_this_machine().close(|holder| holder.starts_with(&me)) {
        Ok(stale) => tell_failed(&stale),
        Err(error) => tell(&format!("the kernel's settings are not restored: {error}; run `xweave doctor`")),
    }
}

fn is_root() -> bool {
    // SAFETY: returns an integer.
    unsafe { libc::geteuid() == 0 }
}

fn tell_failed(stale: &[StaleSettings]) {
    for StaleSettings { path, value, failed } in stale {
        if let Some(reason) = failed {
            tell(&format!("{} is not restored to `{}`: {reason}", printable(path), printable(value)));
        }
    }
}

/// As long as it lives, hooks come and go fast.
pub(crate) struct FastAttach {
    book: Book,
    me: String,
}

impl FastAttach {
    /// None where nothing can be written down: then it goes more slowly, and why is told.
    pub(crate) fn begin() -> Option<Self> {
        let begun = Self::begin_in(Book::of_this_machine(), &SETTINGS);
        begun
            .inspect_err(|error| {
                tell(&format!(
                    "attaching and detaching is slower, because kernel settings could not be changed: {error}"
                ));
            })
            .ok()
    }

    fn begin_in(book: Book, settings: &[Setting]) -> io::Result<Self> {
        static NTH: AtomicU32 = AtomicU32::new(0);
        let me = format!("{} {}", process(std::process::id()), NTH.fetch_add(1, Ordering::Relaxed));
        let dir = Dir::create(&book.folder).map_err(other)?;
        // Earlier versions let others look into it, and so lock it.
        dir.claim().map_err(other)?;
        let _locked = lock(&dir, LOCK_DEADLINE)?;
        let mut page = book.read(&dir)?;
        page.holders.push(me.clone());
        // A kernel that lacks one, or shows what cannot be told again, keeps it.
        let known = |path: &str, page: &Page| page.before.iter().any(|(known, _)| known == path);
        for (path, _) in settings {
            if !known(path, &page)
                && let Ok(value) = fs::read_to_string(book.path(path))
                && is_value(value.trim())
            {
                page.before.push(((*path).to_owned(), value.trim().to_owned()));
            }
        }
        dir.replace(PAGE, book.text(&page).as_bytes()).map_err(other)?;
        for (path, value) in settings.iter().filter(|(path, _)| known(path, &page)) {
            // One that does not let us makes weaving slower.
            let _ = set(&book.path(path), value);
        }
        Ok(Self { book, me })
    }
}

impl Drop for FastAttach {
    fn drop(&mut self) {
        // What fails now is tried again when the process ends, and by whoever looks next.
        let _ = self.book.close(|holder| holder == self.me);
    }
}

/// What is written down.
struct Book {
    folder: PathBuf,
    boot: String,
    /// In front of the kernel's paths: nothing, except in tests.
    root: PathBuf,
    /// What may be restored.
    settings: Vec<&'static str>,
}

#[derive(Default)]
struct Page {
    /// The kernel's files, and what they were.
    before: Vec<(String, String)>,
    /// Who needs them changed.
    holders: Vec<String>,
}

impl Book {
    fn of_this_machine() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let settings = SETTINGS.map(|(path, _)| path).to_vec();
        Self { folder: FOLDER.into(), boot: boot.trim().to_owned(), root: PathBuf::new(), settings }
    }

    fn path(&self, of_kernel: &str) -> PathBuf {
        if self.root.as_os_str().is_empty() {
            return of_kernel.into();
        }
        self.root.join(of_kernel.trim_start_matches('/'))
    }

    /// What holds of this boot: of those who hold, only those who live.
    fn read(&self, dir: &Dir) -> io::Result<Page> {
        let text = match dir.read(PAGE, LARGEST_PAGE) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.is_missing() => String::new(),
            Err(error) => return Err(other(error)),
        };
        let mut lines = text.lines();
        let mut page = Page::default();
        if lines.next().and_then(|line| line.strip_prefix("boot ")) != Some(&self.boot) {
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

    fn text(&self, page: &Page) -> String {
        let mut text = format!("boot {}\n", self.boot);
        for (path, value) in &page.before {
            text += &format!("before {path} {value}\n");
        }
        for holder in &page.holders {
            text += &format!("holder {holder}\n");
        }
        text
    }

    /// Some who hold do not any more. If they were the last, what they had changed is restored.
    fn close(&self, done: impl Fn(&str) -> bool) -> io::Result<Vec<StaleSettings>> {
        self.update(|page| page.holders.retain(|holder| !done(holder)))
    }

    fn restore(&self) -> io::Result<Vec<StaleSettings>> {
        self.update(|_| {})
    }

    fn update(&self, change: impl FnOnce(&mut Page)) -> io::Result<Vec<StaleSettings>> {
        let dir = match Dir::open(&self.folder, Trust::Owner) {
            Ok(dir) => dir,
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            Err(error) => return Err(other(error)),
        };
        if !dir.has(PAGE).map_err(other)? {
            return Ok(Vec::new());
        }
        let _locked = lock(&dir, LOCK_DEADLINE)?;
        let mut page = self.read(&dir)?;
        change(&mut page);
        if !page.holders.is_empty() {
            dir.replace(PAGE, self.text(&page).as_bytes()).map_err(other)?;
            return Ok(Vec::new());
        }
        let stale: Vec<_> =
            page.before.into_iter().map(|(path, value)| self.restore_one(path, value)).collect();
        // What cannot be restored because it never was a setting of ours is told once.
        if !stale.iter().any(|stale| stale.failed.is_some() && self.is_setting(&stale.path)) {
            // The values are as they were: a page that stays for want of rights says nothing wrong.
            let _ = dir.remove(PAGE);
        }
        Ok(stale)
    }

    fn is_setting(&self, path: &str) -> bool {
        self.settings.contains(&path)
    }

    fn restore_one(&self, path: String, value: String) -> StaleSettings {
        let failed = if !self.is_setting(&path) {
            Some("xweave does not change this setting".to_owned())
        } else if !is_value(&value) {
            Some("the setting does not take this value".to_owned())
        } else {
            set(&self.path(&path), &value).err().map(|error| error.to_string())
        };
        StaleSettings { path, value, failed }
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

/// All of them are small numbers.
fn is_value(value: &str) -> bool {
    (1..=9).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Written only if it is not so: what says no to writing may well be as it should be.
fn set(path: &Path, value: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|now| now.trim() == value) {
        Ok(())
    } else {
        fs::write(path, value)
    }
}

/// A process, and when it was started: numbers are used again.
fn process(id: u32) -> String {
    // The command's name is in parentheses, and may have any characters in it (man proc_pid_stat: state is
    // field 3, the start field 22).
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
    let dead = matches!(fields.first(), None | Some(&("Z" | "X")));
    format!("{id} {}", fields.get(19).filter(|_| !dead).unwrap_or(&"0"))
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
    use std::{
        fs::Permissions,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use super::*;

    const SPEED: Setting = ("/sys/speed", "7");
    const WORDS: Setting = ("/sys/words", "7");
    const MISSING: Setting = ("/sys/missing", "7");

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            fs::create_dir(machine.0.path().join("sys")).unwrap();
            machine.set("speed", "1\n");
            machine.set("words", "[one] two\n");
            machine
        }

        fn book(&self, boot: &str) -> Book {
            Book {
                folder: self.0.path().join("run"),
                boot: boot.to_owned(),
                root: self.0.path().into(),
                settings: [SPEED, WORDS, MISSING].map(|(path, _)| path).to_vec(),
            }
        }

        fn fast(&self) -> FastAttach {
            FastAttach::begin_in(self.book("b"), &[SPEED, WORDS, MISSING]).unwrap()
        }

        fn value(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join("sys").join(name)).unwrap().trim().to_owned()
        }

        fn set(&self, name: &str, value: &str) {
            fs::write(self.0.path().join("sys").join(name), value).unwrap();
        }

        /// What an agent leaves that is killed when it has changed the settings.
        fn killed(&self, before: &[(&str, &str)]) {
            let before = before.iter().map(|(path, value)| ((*path).into(), (*value).into())).collect();
            // The number is ours, but we were not started then.
            let holders = vec![format!("{} 1 0", std::process::id())];
            let book = self.book("b");
            let dir = Dir::create(&book.folder).unwrap();
            dir.replace(PAGE, book.text(&Page { before, holders }).as_bytes()).unwrap();
            self.set("speed", "7");
        }

        fn page_exists(&self) -> bool {
            self.0.path().join("run").join(PAGE).exists()
        }
    }

    fn stale(path: &str, value: &str, failed: Option<&str>) -> StaleSettings {
        StaleSettings { path: path.into(), value: value.into(), failed: failed.map(str::to_owned) }
    }

    #[test]
    fn the_last_of_several_restores() {
        let machine = Machine::new();
        let first = machine.fast();
        assert_eq!(machine.value("speed"), "7");
        assert_eq!(machine.value("words"), "[one] two", "what is no number cannot be restored");
        let second = machine.fast();
        drop(first);
        assert_eq!(machine.value("speed"), "7");
        assert_eq!(machine.book("b").restore().unwrap(), []);
        drop(second);
        assert_eq!(machine.value("speed"), "1");
        assert!(!machine.page_exists());
    }

    #[test]
    fn a_process_in_a_hurry_gives_up_all_that_it_holds_and_nothing_of_others() {
        let machine = Machine::new();
        let mine = process(std::process::id());
        let (first, second) = (machine.fast(), machine.fast());
        machine.book("b").close(|holder| holder.starts_with("1 ")).unwrap();
        assert_eq!(machine.value("speed"), "7");
        machine.book("b").close(|holder| holder.starts_with(&format!("{mine} "))).unwrap();
        assert_eq!(machine.value("speed"), "1");
        drop((first, second));
        assert_eq!(machine.value("speed"), "1");
    }

    #[test]
    fn what_a_killed_process_left_is_restored() {
        let machine = Machine::new();
        machine.killed(&[(SPEED.0, "1")]);
        assert_eq!(machine.book("b").restore().unwrap(), [stale(SPEED.0, "1", None)]);
        assert_eq!(machine.value("speed"), "1");
        // Or by one that weaves meanwhile, which does not take the changed value for the old one.
        machine.killed(&[(SPEED.0, "1")]);
        drop(machine.fast());
        assert_eq!(machine.value("speed"), "1");
        // After a reboot nothing of it holds.
        machine.killed(&[(SPEED.0, "1")]);
        assert_eq!(machine.book("c").restore().unwrap(), []);
        assert_eq!(machine.value("speed"), "7");
        assert!(!machine.page_exists());
    }

    #[test]
    fn nobody_else_can_lock_the_page_and_no_lock_is_waited_for_for_ever() {
        let machine = Machine::new();
        let folder = machine.0.path().join("run");
        // As an earlier version made it.
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        drop(machine.fast());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(LOCK))), (0o700, 0o600));
        let dir = Dir::open(&folder, Trust::Owner).unwrap();
        let locked = lock(&dir, LOCK_DEADLINE).unwrap();
        let refused = lock(&dir, Duration::from_millis(30)).unwrap_err();
        assert!(refused.to_string().contains("lock was locked by another process for 0.03 s"), "{refused}");
        drop(locked);
        lock(&dir, LOCK_DEADLINE).unwrap();
    }

    #[test]
    fn nothing_is_changed_where_others_could_write() {
        let machine = Machine::new();
        let folder = machine.0.path().join("run");
        let refused = || FastAttach::begin_in(machine.book("b"), &[SPEED]).err().unwrap().to_string();
        symlink(machine.0.path(), &folder).unwrap();
        assert!(refused().contains("link"), "{}", refused());
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(refused().contains("by other users"), "{}", refused());
        assert_eq!((machine.value("speed").as_str(), fs::read_dir(&folder).unwrap().count()), ("1", 0));
    }

    #[test]
    fn only_known_settings_get_only_plausible_values() {
        let machine = Machine::new();
        machine.set("other", "kept");
        machine.killed(&[("/sys/other", "1"), ("/sys/../sys/speed", "1"), (SPEED.0, "1; reboot")]);
        let none = Some("xweave does not change this setting");
        assert_eq!(
            machine.book("b").restore().unwrap(),
            [
                stale("/sys/other", "1", none),
                stale("/sys/../sys/speed", "1", none),
                stale(SPEED.0, "1; reboot", Some("the setting does not take this value")),
            ]
        );
        assert_eq!((machine.value("other").as_str(), machine.value("speed").as_str()), ("kept", "7"));
        // What was none of ours is told once and forgotten, if the rest could be restored.
        machine.killed(&[("/sys/other", "1"), (SPEED.0, "1")]);
        assert_eq!(
            machine.book("b").restore().unwrap(),
            [stale("/sys/other", "1", none), stale(SPEED.0, "1", None)]
        );
        assert_eq!(machine.value("speed"), "1");
        assert!(!machine.page_exists());
    }
}
