//! apt: with the machine's own sources, or with a state of its own for newer suites.

use crate::cache::Lock;
use crate::error::{At, Error, Result};
use crate::process::run;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// An apt configuration: which sources, package lists and cache its commands use.
#[derive(Debug, Clone, Default)]
pub struct Apt {
    /// The folder of its lists, sources and cache; `None` if they are the machine's own.
    folder: Option<PathBuf>,
}

impl Apt {
    /// apt as the machine is configured.
    pub fn machine() -> Self {
        Self::default()
    }

    /// apt with lists, cache and sources of its own in `folder`. The machine's package selection and sources are
    /// neither read nor changed; its settings for network and keys apply.
    pub fn separate(folder: PathBuf, sources: &str) -> Result<Self> {
        for needed in ["lists/partial", "cache/archives/partial"] {
            let path = folder.join(needed);
            fs::create_dir_all(&path).at("create", path)?;
        }
        let path = folder.join("sources.list");
        if fs::read_to_string(&path).ok().as_deref() != Some(sources) {
            fs::write(&path, sources).at("write", path)?;
            // Lists of other sources are out of date.
            let _ = fs::remove_file(folder.join("updated"));
        }
        Ok(Self { folder: Some(folder) })
    }

    /// How long ago the lists of a separate state were fetched; `None` if they never were, or are the machine's.
    pub fn age_of_lists(&self) -> Option<Duration> {
        let stamp = fs::metadata(self.folder.as_ref()?.join("updated")).ok()?;
        SystemTime::now().duration_since(stamp.modified().ok()?).ok()
    }

    /// Fetches the package lists of a separate state. The machine's own lists are left as they are.
    pub fn update(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let before = self.age_of_lists();
        let _lock = Lock::acquire(&folder.join("lock"), || ())?;
        // Another process may have done it while this one waited.
        if let (Some(now), before) = (self.age_of_lists(), before)
            && before.is_none_or(|before| now < before)
        {
            return Ok(());
        }
        run(self.command("apt-get").arg("update"), "fetching the package lists of Debian's newer suites")?;
        let stamp = folder.join("updated");
        File::create(&stamp).at("create", stamp).map(|_| ())
    }

    /// Names of all packages that begin with `prefix`, one per line. Some may have no version to install.
    pub fn package_names(&self, prefix: &str) -> Result<String> {
        let names = run(self.command("apt-cache").args(["pkgnames", prefix]), "listing packages")?;
        Ok(String::from_utf8_lossy(&names).into_owned())
    }

    /// A field, as `Depends`, of the control record of a package's newest version, or of that in a suite (`NAME/SUITE`).
    ///
    /// # Errors
    ///
    /// apt does not know the package, or the record has no such field.
    pub fn control_field(&self, package: &str, name: &str) -> Result<String> {
        let shown = run(
            self.command("apt-cache").args(["show", "--no-all-versions", package]),
            "looking up a package (if apt's lists are old, run `apt-get update`)",
        )?;
        let missing = || Error::Package { package: package.into(), missing: format!("field {name}") };
        field(&String::from_utf8_lossy(&shown), &format!("{name}: ")).ok_or_else(missing)
    }

    /// The newest version of a package, or that in a suite (`NAME/SUITE`).
    pub fn version(&self, package: &str) -> Result<String> {
        self.control_field(package, "Version")
    }

    /// Downloads a package, checks it against the signed lists, and unpacks it into `folder`.
    pub fn unpack(&self, package: &str, version: &str, folder: &Path) -> Result<()> {
        let download = folder.join("download");
        fs::create_dir(&download).at("create", &download)?;
        let mut command = self.command("apt-get");
        command.arg("download").arg(format!("{package}={version}")).current_dir(&download);
        run(&mut command, "downloading a package (if apt's lists are old, run `apt-get update`)")?;
        let deb = fs::read_dir(&download)
            .at("read", &download)?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|e| e == "deb"))
            .ok_or_else(|| Error::Package { package: package.into(), missing: "file to download".into() })?;
        run(Command::new("dpkg-deb").arg("-x").args([&deb, folder]), "unpacking a package")?;
        fs::remove_dir_all(&download).at("remove", &download)
    }

    /// Downloads packages, as `NAME` or `NAME/SUITE`, with all that they depend on, from `suite` where nothing else is
    /// said, and whatever is installed; returns the files. For a separate state.
    pub fn download_with_dependencies(&self, packages: &[&str], suite: &str) -> Result<Vec<PathBuf>> {
        let archives = self.folder.as_deref().unwrap_or(Path::new("/var")).join("cache/archives");
        let mut command = self.command("apt-get");
        command
            .args(["-y", "--no-install-recommends", "--download-only", "-t", suite, "install"])
            .args(packages);
        run(&mut command, "downloading packages")?;
        let files = fs::read_dir(&archives).at("read", &archives)?.flatten().map(|entry| entry.path());
        Ok(files.filter(|path| path.extension().is_some_and(|e| e == "deb")).collect())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // apt would switch to a user of its own, who cannot write here, and warn about it.
        command.args(["-q", "-o", "APT::Sandbox::User=root"]);
        if let Some(folder) = &self.folder {
            let paths = [
                ("Dir::State::lists", folder.join("lists")),
                ("Dir::State::status", "/dev/null".into()),
                ("Dir::Cache", folder.join("cache")),
                // The machine may be told to keep none (container images are): then each question takes seconds.
                ("Dir::Cache::pkgcache", "pkgcache.bin".into()),
                ("Dir::Cache::srcpkgcache", "srcpkgcache.bin".into()),
                ("Dir::Etc::sourcelist", folder.join("sources.list")),
                ("Dir::Etc::sourceparts", "-".into()),
                ("Dir::Etc::preferences", "/dev/null".into()),
                ("Dir::Etc::preferencesparts", "/dev/null".into()),
            ];
            for (name, path) in paths {
                command.arg("-o").arg(format!("{name}={}", path.display()));
            }
            // Translations and the descriptions of desktop programs are half of what would be fetched.
            for unused in ["Acquire::Languages=none", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=0"]
            {
                command.args(["-o", unused]);
            }
        }
        command
    }
}

/// The value of the first line that begins with `key`, without quotes.
pub fn field(text: &str, key: &str) -> Option<String> {
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .map(|value| value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_sources_make_the_lists_out_of_date() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("apt");
        let apt = Apt::separate(path.clone(), "deb http://m/debian sid main\n").unwrap();
        assert_eq!(apt.age_of_lists(), None);
        File::create(path.join("updated")).unwrap();
        assert!(apt.age_of_lists().is_some());
        Apt::separate(path.clone(), "deb http://m/debian sid main\n").unwrap();
        assert!(apt.age_of_lists().is_some());
        Apt::separate(path, "deb http://m/debian trixie main\n").unwrap();
        assert_eq!(apt.age_of_lists(), None);
    }

    #[test]
    fn a_separate_state_never_uses_the_machines_sources() {
        let folder = tempfile::tempdir().unwrap();
        let apt = Apt::separate(folder.path().join("apt"), "").unwrap();
        let command = apt.command("apt-get");
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        for option in ["Dir::Etc::sourceparts=-", "Dir::State::status=/dev/null"] {
            assert!(arguments.iter().any(|argument| argument == option), "{arguments:?}");
        }
        assert_eq!(Apt::machine().command("apt-get").get_args().count(), 3);
    }
}
