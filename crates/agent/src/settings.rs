//! Settings of the kernel that make attaching and detaching quick. They are changed for that time only.
//!
//! The kernel gets its values back whatever happens: from the guard's drop, or, if the process is killed,
//! from whoever looks next, an agent or `xweave doctor`. So what is changed is written down before, with who
//! changed it. Of several agents at once the last puts back. Where nothing can be written down nothing is
//! changed.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Where it is written down: gone after a reboot, as the changes are.
const FOLDER: &str = "/run/xweave";

/// A file of the kernel's, and what it is to be meanwhile.
type Setting = (&'static str, &'static str);

/// Jumps instead of breakpoints are made of kprobes in the background, in batches, each of which waits for all
/// tasks to have left the code; attaching and detaching wait for that in turn.
const UNOPTIMIZED: Setting = ("/proc/sys/debug/kprobes-optimization", "0");

/// Each hook that goes waits, twice, until no processor can still be in it.
const EXPEDITED: Setting = ("/sys/kernel/rcu_expedited", "1");

/// A setting that an agent had left changed when it was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The kernel's file.
    pub path: String,
    /// What it was before.
    pub value: String,
    /// Why it could not be put back, if it could not.
    pub failed: Option<String>,
}

/// Puts back what agents that are no more have left changed.
pub fn put_back() -> Vec<Left> {
    Book::of_this_machine().put_back().unwrap_or_default()
}

/// As long as it lives, hooks come and go quickly.
pub(crate) struct Quick {
    book: Book,
    me: String,
}

impl Quick {
    /// None where nothing can be written down: then it goes more slowly.
    pub(crate) fn begin() -> Option<Self> {
        Self::begin_in(Book::of_this_machine(), &[UNOPTIMIZED, EXPEDITED]).ok()
    }

    fn begin_in(book: Book, settings: &[Setting]) -> io::Result<Self> {
        static NTH: AtomicU32 = AtomicU32::new(0);
        let me = format!("{} {}", process(std::process::id()), NTH.fetch_add(1, Ordering::Relaxed));
        let _locked = book.lock()?;
        let mut page = book.read();
        page.holders.push(me.clone());
        for (path, _) in settings {
            if !page.before.iter().any(|(known, _)| known == path)
                && let Ok(value) = fs::read_to_string(book.path(path))
            {
                page.before.push(((*path).to_owned(), value.trim().to_owned()));
            }
        }
        book.write(&page)?;
        for (path, value) in settings {
            // A kernel that lacks it, or does not let us, weaves more slowly.
            let _ = set(&book.path(path), value);
        }
        Ok(Self { book, me })
    }
}

impl Drop for Quick {
    fn drop(&mut self) {
        // What fails now is tried again by whoever looks next.
        let _ = self.book.close(&self.me);
    }
}

/// What is written down.
struct Book {
    folder: PathBuf,
    boot: String,
    /// In front of the kernel's paths: nothing, except in tests.
    root: PathBuf,
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
        Self { folder: FOLDER.into(), boot: boot.trim().to_owned(), root: PathBuf::new() }
    }

    fn path(&self, of_kernel: &str) -> PathBuf {
        if self.root.as_os_str().is_empty() {
            return of_kernel.into();
        }
        self.root.join(of_kernel.trim_start_matches('/'))
    }

    fn page(&self) -> PathBuf {
        self.folder.join("settings")
    }

    /// Held until what is returned is dropped.
    fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let folder = File::open(&self.folder)?;
        // SAFETY: takes integers; the descriptor is open.
        match unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX) } {
            0 => Ok(folder),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// What holds of this boot: of those who hold, only those who live.
    fn read(&self) -> Page {
        let text = fs::read_to_string(self.page()).unwrap_or_default();
        let mut lines = text.lines();
        let mut page = Page::default();
        if lines.next().and_then(|line| line.strip_prefix("boot ")) != Some(&self.boot) {
            return page;
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
        page
    }

    /// Whole or not at all.
    fn write(&self, page: &Page) -> io::Result<()> {
        let mut text = format!("boot {}\n", self.boot);
        for (path, value) in &page.before {
            text += &format!("before {path} {value}\n");
        }
        for holder in &page.holders {
            text += &format!("holder {holder}\n");
        }
        let part = self.folder.join("settings.part");
        fs::write(&part, text)?;
        fs::rename(part, self.page())
    }

    fn close(&self, me: &str) -> io::Result<()> {
        let _locked = self.lock()?;
        let mut page = self.read();
        page.holders.retain(|holder| holder != me);
        if page.holders.is_empty() { self.restore(page).map(drop) } else { self.write(&page) }
    }

    fn put_back(&self) -> io::Result<Vec<Left>> {
        if !self.page().exists() {
            return Ok(Vec::new());
        }
        let _locked = self.lock()?;
        let page = self.read();
        if page.holders.is_empty() { self.restore(page) } else { Ok(Vec::new()) }
    }

    /// The page goes only if all could be put back.
    fn restore(&self, page: Page) -> io::Result<Vec<Left>> {
        let left: Vec<_> = page
            .before
            .into_iter()
            .map(|(path, value)| {
                let failed = set(&self.path(&path), &value).err().map(|error| error.to_string());
                Left { path, value, failed }
            })
            .collect();
        if left.iter().all(|left| left.failed.is_none()) {
            // The values are as they were: a page that stays for want of rights says nothing wrong.
            let _ = fs::remove_file(self.page());
        }
        Ok(left)
    }
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
    use super::*;

    const SPEED: Setting = ("/sys/speed", "7");
    const MISSING: Setting = ("/sys/missing", "7");

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            fs::create_dir(machine.0.path().join("sys")).unwrap();
            machine.set("1\n");
            machine
        }

        fn book(&self, boot: &str) -> Book {
            Book { folder: self.0.path().join("run"), boot: boot.to_owned(), root: self.0.path().into() }
        }

        fn quick(&self) -> Quick {
            Quick::begin_in(self.book("b"), &[SPEED, MISSING]).unwrap()
        }

        fn value(&self) -> String {
            fs::read_to_string(self.0.path().join("sys/speed")).unwrap().trim().to_owned()
        }

        fn set(&self, value: &str) {
            fs::write(self.0.path().join("sys/speed"), value).unwrap();
        }
    }

    #[test]
    fn the_last_of_several_puts_back() {
        let machine = Machine::new();
        let first = machine.quick();
        assert_eq!(machine.value(), "7");
        let second = machine.quick();
        drop(first);
        assert_eq!(machine.value(), "7");
        assert_eq!(machine.book("b").put_back().unwrap(), []);
        drop(second);
        assert_eq!(machine.value(), "1");
        assert!(!machine.book("b").page().exists());
    }

    #[test]
    fn what_a_killed_process_left_is_put_back() {
        let machine = Machine::new();
        let book = machine.book("b");
        book.lock().unwrap();
        let dead = |book: &Book| {
            // The number is ours, but we were not started then.
            let holders = vec![format!("{} 1 0", std::process::id())];
            book.write(&Page { before: vec![(SPEED.0.into(), "1".into())], holders }).unwrap();
            machine.set("7");
        };
        dead(&book);
        let left = Left { path: SPEED.0.into(), value: "1".into(), failed: None };
        assert_eq!(book.put_back().unwrap(), [left]);
        assert_eq!(machine.value(), "1");
        // Or by one that weaves meanwhile, which does not take the changed value for the old one.
        dead(&book);
        drop(machine.quick());
        assert_eq!(machine.value(), "1");
        // After a reboot nothing of it holds.
        dead(&book);
        assert_eq!(machine.book("c").put_back().unwrap(), []);
        assert_eq!(machine.value(), "7");
        assert!(!book.page().exists());
    }
}
