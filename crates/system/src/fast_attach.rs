//! Settings of the kernel that make attaching and detaching probes fast. They are changed for that time only.
//!
//! The previous values are written to the journal (`settings_journal`) first. Several processes may hold these settings
//! changed at once: the last one restores them. Where the journal cannot be written safely, nothing is changed.

use std::io;

use crate::settings_journal::{Entry, Journal, Target, ValueKind, new_holder};

/// Name of the journal's entry.
const ENTRY: &str = "settings";

/// A file of the kernel, and its value while probes are attached or detached.
type Setting = (&'static str, &'static str);

/// The kernel replaces the breakpoints of kprobes by jumps in the background, in batches, each of which waits until all tasks
/// have left the code; attaching and detaching wait for these batches in turn.
const UNOPTIMIZED: Setting = ("/proc/sys/debug/kprobes-optimization", "0");

/// Removing a hook waits, twice, until no CPU can still run it.
const EXPEDITED: Setting = ("/sys/kernel/rcu_expedited", "1");

/// All settings that are changed here, and so all that may be restored.
const SETTINGS: [Setting; 2] = [UNOPTIMIZED, EXPEDITED];

/// The journal of these settings.
pub(crate) fn journal() -> Journal {
    Journal::new(ENTRY, SETTINGS.map(|(path, _)| (path, ValueKind::Number)).to_vec(), false)
}

/// Makes attaching and detaching fast until it is dropped.
pub struct FastAttach {
    journal: Journal,
    holder: String,
}

impl FastAttach {
    /// Changes the settings of this kernel. A setting that is missing or refuses its value is left as it is.
    ///
    /// # Errors
    /// The journal cannot be written, or other users could write to it; no setting is changed then.
    pub fn begin() -> io::Result<Self> {
        Self::begin_in(journal(), &SETTINGS)
    }

    fn begin_in(journal: Journal, settings: &[Setting]) -> io::Result<Self> {
        let holder = new_holder();
        let open = journal.open()?;
        let mut entry = open.read()?;
        entry.holders.push(holder.clone());
        // A setting whose value cannot be read or written back is not changed.
        let known = |path: &str, entry: &Entry| entry.before.iter().any(|(known, _)| known == path);
        let target = |path| Target::File(path, ValueKind::Number);
        for (path, _) in settings {
            if !known(path, &entry)
                && let Ok(value) = target(path).read(&journal)
                && target(path).accepts(&value)
            {
                entry.before.push(((*path).to_owned(), value));
            }
        }
        open.write(&entry)?;
        for (path, value) in settings.iter().filter(|(path, _)| known(path, &entry)) {
            // A setting that cannot be changed makes attaching slower.
            let _ = target(path).write(&journal, value);
        }
        drop(open);
        Ok(Self { journal, holder })
    }
}

impl Drop for FastAttach {
    fn drop(&mut self) {
        // A failure is retried when the process ends, and by the next process that restores settings.
        let _ = self.journal.release(|holder| holder == self.holder);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;
    use crate::settings_journal::{StaleSetting, is_mine};

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

        fn journal(&self, boot: &str) -> Journal {
            Journal {
                folder: self.0.path().join("run"),
                name: ENTRY,
                boot: boot.to_owned(),
                root: self.0.path().into(),
                files: [SPEED, WORDS, MISSING].map(|(path, _)| (path, ValueKind::Number)).to_vec(),
                affinities: false,
            }
        }

        fn fast(&self) -> FastAttach {
            FastAttach::begin_in(self.journal("b"), &[SPEED, WORDS, MISSING]).unwrap()
        }

        fn value(&self, name: &str) -> String {
            fs::read_to_string(self.0.path().join("sys").join(name)).unwrap().trim().to_owned()
        }

        fn set(&self, name: &str, value: &str) {
            fs::write(self.0.path().join("sys").join(name), value).unwrap();
        }

        /// Leaves what an agent leaves that is killed after it has changed the settings.
        fn killed(&self, before: &[(&str, &str)]) {
            let before = before.iter().map(|(path, value)| ((*path).into(), (*value).into())).collect();
            // The ID is ours, but the start time is not.
            let holders = vec![format!("{} 1 0", std::process::id())];
            self.journal("b").open().unwrap().write(&Entry { before, holders }).unwrap();
            self.set("speed", "7");
        }

        fn entry_exists(&self) -> bool {
            self.0.path().join("run").join(ENTRY).exists()
        }
    }

    fn stale(path: &str, value: &str, failed: Option<&str>) -> StaleSetting {
        StaleSetting { path: path.into(), value: value.into(), failed: failed.map(str::to_owned) }
    }

    #[test]
    fn last_of_several_holders_restores() {
        let machine = Machine::new();
        let first = machine.fast();
        assert_eq!(machine.value("speed"), "7");
        assert_eq!(machine.value("words"), "[one] two", "a value that is no number is not changed");
        let second = machine.fast();
        drop(first);
        assert_eq!(machine.value("speed"), "7");
        assert_eq!(machine.journal("b").restore().unwrap(), []);
        drop(second);
        assert_eq!(machine.value("speed"), "1");
        assert!(!machine.entry_exists());
    }

    #[test]
    fn releasing_my_holders_leaves_those_of_others() {
        let machine = Machine::new();
        let (first, second) = (machine.fast(), machine.fast());
        machine.journal("b").release(|holder| holder.starts_with("1 ")).unwrap();
        assert_eq!(machine.value("speed"), "7");
        machine.journal("b").release(is_mine).unwrap();
        assert_eq!(machine.value("speed"), "1");
        drop((first, second));
        assert_eq!(machine.value("speed"), "1");
    }

    #[test]
    fn settings_of_a_killed_process_are_restored() {
        let machine = Machine::new();
        machine.killed(&[(SPEED.0, "1")]);
        assert_eq!(machine.journal("b").restore().unwrap(), [stale(SPEED.0, "1", None)]);
        assert_eq!(machine.value("speed"), "1");
        // A process that weaves next does not mistake the changed value for the previous one.
        machine.killed(&[(SPEED.0, "1")]);
        drop(machine.fast());
        assert_eq!(machine.value("speed"), "1");
        // After a reboot the entry is void.
        machine.killed(&[(SPEED.0, "1")]);
        assert_eq!(machine.journal("c").restore().unwrap(), []);
        assert_eq!(machine.value("speed"), "7");
        assert!(!machine.entry_exists());
    }

    #[test]
    fn nothing_is_changed_where_other_users_could_write() {
        let machine = Machine::new();
        let folder = machine.0.path().join("run");
        let refused = || FastAttach::begin_in(machine.journal("b"), &[SPEED]).err().unwrap().to_string();
        symlink(machine.0.path(), &folder).unwrap();
        assert!(refused().contains("link"), "{}", refused());
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(refused().contains("by other users"), "{}", refused());
        assert_eq!((machine.value("speed").as_str(), fs::read_dir(&folder).unwrap().count()), ("1", 0));
    }

    #[test]
    fn only_known_settings_are_restored_and_only_to_valid_values() {
        let machine = Machine::new();
        machine.set("other", "kept");
        machine.killed(&[("/sys/other", "1"), ("/sys/../sys/speed", "1"), (SPEED.0, "1; reboot")]);
        let none = Some("xweave does not change this setting");
        assert_eq!(
            machine.journal("b").restore().unwrap(),
            [
                stale("/sys/other", "1", none),
                stale("/sys/../sys/speed", "1", none),
                stale(SPEED.0, "1; reboot", Some("the setting does not take this value")),
            ]
        );
        assert_eq!((machine.value("other").as_str(), machine.value("speed").as_str()), ("kept", "7"));
        // An unknown setting is reported once, and then forgotten if the others could be restored.
        machine.killed(&[("/sys/other", "1"), (SPEED.0, "1")]);
        assert_eq!(
            machine.journal("b").restore().unwrap(),
            [stale("/sys/other", "1", none), stale(SPEED.0, "1", None)]
        );
        assert_eq!(machine.value("speed"), "1");
        assert!(!machine.entry_exists());
    }
}
