//! Settings of the kernel that make attaching and detaching fast. They are changed for that time only.
//!
//! The kernel gets its values back whatever happens: from the guard's drop, or, if the process is killed,
//! from whoever looks next: the controller that killed it, the agent that listens, another agent, or `xweave
//! doctor`. So what is changed is written down before, with who changed it ([`book`]). Of several agents at
//! once the last restores. Where nothing can be written down, where others could write, nothing is changed.

use std::io;

use xweave_text::printable;

use crate::{
    book::{self, Book, FOLDER, Page, StaleSettings, Takes, Target, is_root},
    knobs, ksm,
    output::tell,
};

/// What it is written in.
const PAGE: &str = "settings";

/// A file of the kernel's, and what it is to be meanwhile.
type Setting = (&'static str, &'static str);

/// Jumps instead of breakpoints are made of kprobes in the background, in batches, each of which waits for all
/// tasks to have left the code; attaching and detaching wait for that in turn.
const UNOPTIMIZED: Setting = ("/proc/sys/debug/kprobes-optimization", "0");

/// Each hook that goes waits, twice, until no processor can still be in it.
const EXPEDITED: Setting = ("/sys/kernel/rcu_expedited", "1");

/// All that are ever changed, and so all that are ever restored.
const SETTINGS: [Setting; 2] = [UNOPTIMIZED, EXPEDITED];

fn own_book() -> Book {
    Book::of_this_machine(PAGE, SETTINGS.map(|(path, _)| (path, Takes::Number)).to_vec(), false)
}

/// All that is written down: these settings, those of experiments, and KSM's.
fn books() -> [Book; 4] {
    [own_book(), knobs::book(), ksm::book(), ksm::nodes_book()]
}

/// Restores what agents that are no more have left changed. Only root can, and only root's have.
pub fn restore() -> Vec<StaleSettings> {
    if !is_root() {
        return Vec::new();
    }
    let restored = books().map(|book| {
        book.restore().unwrap_or_else(|error| {
            let path = format!("{FOLDER}/{}", book.page);
            vec![StaleSettings { path, value: String::new(), failed: Some(error.to_string()) }]
        })
    });
    restored.concat()
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
    for book in books() {
        match book.close(book::is_mine) {
            Ok(stale) => tell_failed(&stale),
            Err(error) => {
                tell(&format!("the kernel's settings are not restored: {error}; run `xweave doctor`"));
            }
        }
    }
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
        let begun = Self::begin_in(own_book(), &SETTINGS);
        begun
            .inspect_err(|error| {
                tell(&format!(
                    "attaching and detaching is slower, because kernel settings could not be changed: {error}"
                ));
            })
            .ok()
    }

    fn begin_in(book: Book, settings: &[Setting]) -> io::Result<Self> {
        let me = book::holder();
        let open = book.open()?;
        let mut page = open.read()?;
        page.holders.push(me.clone());
        // A kernel that lacks one, or shows what cannot be told again, keeps it.
        let known = |path: &str, page: &Page| page.before.iter().any(|(known, _)| known == path);
        let target = |path| Target::File(path, Takes::Number);
        for (path, _) in settings {
            if !known(path, &page)
                && let Ok(value) = target(path).read(&book)
                && target(path).takes(&value)
            {
                page.before.push(((*path).to_owned(), value));
            }
        }
        open.write(&page)?;
        for (path, value) in settings.iter().filter(|(path, _)| known(path, &page)) {
            // One that does not let us makes weaving slower.
            let _ = target(path).write(&book, value);
        }
        drop(open);
        Ok(Self { book, me })
    }
}

impl Drop for FastAttach {
    fn drop(&mut self) {
        // What fails now is tried again when the process ends, and by whoever looks next.
        let _ = self.book.close(|holder| holder == self.me);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
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
                page: PAGE,
                boot: boot.to_owned(),
                root: self.0.path().into(),
                files: [SPEED, WORDS, MISSING].map(|(path, _)| (path, Takes::Number)).to_vec(),
                affinities: false,
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
            self.book("b").open().unwrap().write(&Page { before, holders }).unwrap();
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
        let (first, second) = (machine.fast(), machine.fast());
        machine.book("b").close(|holder| holder.starts_with("1 ")).unwrap();
        assert_eq!(machine.value("speed"), "7");
        machine.book("b").close(book::is_mine).unwrap();
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
