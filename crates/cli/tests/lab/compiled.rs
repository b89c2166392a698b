//! What recordings need compiled is compiled here: an emulated host takes a quarter of a minute or more for each object.
//!
//! Objects are kept under the hash of all that the compiler sees, so those that are brought to a host are those that it would
//! have made. What this cannot tell from a recording's arguments, the host compiles itself.

use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Mutex, OnceLock},
};

use tempfile::TempDir;

use crate::world::World;

/// Where a host keeps the objects.
const KEPT: &str = "/root/.cache/xweave/advice";

/// Options of `record` with a value that does not change what is compiled.
const OTHERS: [&str; 5] = ["-o", "--output", "--buffer", "--duration", "--max-size"];

/// What is known of a world: a test program has one.
struct Known {
    /// The type information of its kernels, by the domain that it is from, and the objects.
    folder: TempDir,
    /// Objects that its host has.
    brought: Mutex<HashSet<PathBuf>>,
}

/// What a recording's arguments say that is compiled.
#[derive(Default)]
struct Wanted {
    aspects: Vec<String>,
    /// Those of the aspects that are files, where tests put them: where commands begin.
    files: Vec<String>,
    events: Vec<String>,
    guests: Vec<String>,
}

impl Wanted {
    /// None if it names what is not known here.
    fn of(arguments: &str) -> Option<Self> {
        // As the shell in the host will.
        let split = Command::new("sh").args(["-c", &format!("printf '%s\\0' {arguments}")]).output().unwrap();
        let words = String::from_utf8(split.stdout).unwrap();
        let mut words = words.split_terminator('\0');
        let mut wanted = Self::default();
        while let Some(word) = words.next() {
            match word {
                "--domain" => match words.next()?.split_once('=')? {
                    ("dom0", "local") => {}
                    (name @ ("vm1" | "vm2"), _) => wanted.guests.push(name.to_owned()),
                    _ => return None,
                },
                "-e" | "--where" => wanted.aspects.extend([word.to_owned(), words.next()?.to_owned()]),
                "--events" | "--key" => wanted.events.extend([word.to_owned(), words.next()?.to_owned()]),
                _ if OTHERS.contains(&word) => drop(words.next()?),
                _ if word.starts_with('-') => {}
                // A file that lies elsewhere: its path is a part of what the compiler sees.
                _ if word.contains('/') => return None,
                _ if word.ends_with(".aspect") => {
                    wanted.files.push(word.to_owned());
                    wanted.aspects.push(word.to_owned());
                }
                _ => wanted.aspects.push(word.to_owned()),
            }
        }
        Some(wanted)
    }
}

impl World {
    /// Compiles what a recording in a host needs, and brings it there.
    pub fn compile_here(&self, host: &str, arguments: &str) {
        static KNOWN: OnceLock<Known> = OnceLock::new();
        let Some(wanted) = Wanted::of(arguments) else { return };
        let known = KNOWN.get_or_init(|| {
            let known = Known { folder: tempfile::tempdir().unwrap(), brought: Mutex::default() };
            for domain in [host, "vm1"] {
                // Files of sysfs may be shorter than they say, which tar minds.
                self.run(domain, "cp -r /sys/kernel/btf /tmp/types");
                self.pull(domain, "/tmp/types", &known.types(domain));
                self.run(domain, "rm -r /tmp/types");
            }
            known
        });
        for file in &wanted.files {
            fs::write(known.folder.path().join(file), self.run(host, &format!("cat {file}"))).unwrap();
        }
        let mut domains = vec![format!("{host}={}", known.types(host).display())];
        // The guests' kernels are the same.
        let guests = wanted.guests.iter().map(|name| format!("{name}={}", known.types("vm1").display()));
        domains.extend(guests);
        for what in [wanted.aspects, wanted.events].iter().filter(|what| !what.is_empty()) {
            let mut check = self.xweave();
            check.current_dir(known.folder.path()).env("XWEAVE_CACHE", known.folder.path());
            check.arg("check").args(what);
            check.args(domains.iter().flat_map(|domain| ["--domain", domain]));
            // What is wrong with it, the host's own attempt says.
            check.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        }
        known.bring(self, host);
    }
}

impl Known {
    fn types(&self, domain: &str) -> PathBuf {
        self.folder.path().join(domain)
    }

    fn bring(&self, world: &World, host: &str) {
        let mut brought = self.brought.lock().unwrap();
        let made = fs::read_dir(self.folder.path().join("check")).into_iter().flatten();
        let made = made.map(|entry| entry.unwrap().path());
        let objects = made.filter(|path| path.extension() == Some("advice".as_ref()));
        let new: Vec<PathBuf> = objects.filter(|path| !brought.contains(path)).collect();
        if brought.is_empty() && !new.is_empty() {
            world.run(host, &format!("mkdir -m 700 -p /root/.cache/xweave {KEPT}"));
        }
        for object in new {
            world.push(host, &object, &format!("{KEPT}/"));
            brought.insert(object);
        }
    }
}
