//! Debian's kernels: which one a world boots, from which suite, and the files of its packages.

use crate::apt::Apt;
use crate::cache::{Cache, Recipe};
use crate::error::{At, Error, Result};
use crate::process::run;
use crate::progress::{Phase, Progress, step};
use crate::sources::Sources;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The word for the newest kernel that any suite has.
pub const NEWEST: &str = "newest";

/// Age from which the newer suites' package lists are fetched again before a kernel counts as missing.
const OLD: Duration = Duration::from_secs(60 * 60);
/// … and that old before the newest kernel is chosen.
const OLD_FOR_NEWEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Flavour of a Debian kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// For guests of clouds.
    Cloud,
    /// For all machines.
    Generic,
    /// For all machines, fully preemptible (PREEMPT_RT).
    Realtime,
}

impl Flavour {
    /// All flavours, the one that most worlds boot first.
    pub const ALL: [Self; 3] = [Self::Cloud, Self::Generic, Self::Realtime];

    /// Returns the end of the packages' names.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Cloud => "-cloud-amd64",
            Self::Generic => "-amd64",
            Self::Realtime => "-rt-amd64",
        }
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cloud => "cloud",
            Self::Generic => "generic",
            Self::Realtime => "rt",
        }
    }

    /// Reports whether a release, such as `6.12.117+deb12-cloud-amd64`, is of this flavour.
    pub fn has(self, release: &str) -> bool {
        // The generic suffix ends all names: what is before it must not be a word, as `cloud`.
        release.strip_suffix(self.suffix()).is_some_and(|rest| {
            rest.rsplit_once('-').is_none_or(|(_, last)| !last.bytes().all(|b| b.is_ascii_alphabetic()))
        })
    }
}

/// The apt state that offers a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Origin {
    /// The machine's own.
    Machine,
    /// The lab's, with the [newer suites](crate::sources::NEWER_SUITES).
    Suites,
}

/// A Debian kernel package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The package: `linux-image-RELEASE`.
    pub package: String,
    /// The package's version.
    pub version: String,
    origin: Origin,
}

impl Kernel {
    /// Returns the kernel release, as `uname -r` prints it.
    pub fn release(&self) -> &str {
        self.package.strip_prefix(PREFIX).unwrap_or(&self.package)
    }
}

const PREFIX: &str = "linux-image-";

/// Beginnings of the names of the packages with the list of built-in modules, the image and the modules, where
/// `linux-image-RELEASE` has no files itself.
const PARTS: [&str; 3] = ["linux-base-", "linux-binary-", "linux-modules-"];

/// A kernel's files, unpacked from one package or several. They are shared and never written to.
#[derive(Debug, Clone)]
pub struct KernelFiles {
    /// The kernel.
    pub kernel: Kernel,
    /// The compressed image.
    pub vmlinuz: PathBuf,
    /// The folder `lib/modules/RELEASE`.
    pub modules: PathBuf,
    /// The folder that has all of them, and the images made from them.
    pub folder: PathBuf,
}

/// The kernels that can be had: the machine's own apt has those of its release, Debian's newer suites the others.
pub struct Kernels<'a> {
    cache: &'a Cache,
    machine: Apt,
    /// `None` if the machine's sources do not tell where Debian is.
    suites: Option<Apt>,
}

impl<'a> Kernels<'a> {
    /// Opens both apt states.
    pub fn open(cache: &'a Cache) -> Result<Self> {
        let suites = match Sources::of_this_machine() {
            Ok(sources) => Some(Apt::separate(cache.root().join("newer-suites"), &sources.newer)?),
            Err(_) => None,
        };
        Ok(Self { cache, machine: Apt::machine(), suites })
    }

    /// The newest kernel of each series that any suite has, oldest first.
    pub fn newest_of_each_series(&self, flavour: Flavour, progress: Progress<'_>) -> Result<Vec<Kernel>> {
        self.refresh(OLD_FOR_NEWEST, progress)?;
        let offers = self.offers()?;
        let all: String = offers.iter().map(|offer| offer.names.as_str()).collect();
        let newest =
            series(&all, flavour).into_iter().filter_map(|series| look_up(&offers, &series, flavour));
        Ok(newest.filter(|kernel| self.is_whole(kernel)).collect())
    }

    /// Reports whether the archive has all packages of a kernel: it lists some longer than it has their files.
    fn is_whole(&self, kernel: &Kernel) -> bool {
        let apt = self.apt(kernel);
        let Ok(depends) = apt.control_field(&kernel.package, "Depends") else { return false };
        parts(&depends, kernel).into_iter().all(|part| apt.version(part).is_ok())
    }

    /// The apt state that offers a kernel.
    fn apt(&self, kernel: &Kernel) -> &Apt {
        match (kernel.origin, &self.suites) {
            (Origin::Suites, Some(suites)) => suites,
            _ => &self.machine,
        }
    }

    /// The newest kernel of a series (`6.12`, or a longer beginning of its version), or [`NEWEST`] of all.
    pub fn resolve(&self, series: &str, flavour: Flavour, progress: Progress<'_>) -> Result<Kernel> {
        let is_number = !series.is_empty() && series.chars().all(|c| c.is_ascii_digit() || c == '.');
        if !is_number && series != NEWEST {
            return Err(Error::Name {
                what: "kernel series",
                name: series.into(),
                rule: "numbers and dots, as 6.12, or `newest`",
            });
        }
        if series == NEWEST {
            // Offline, the newest kernel of the lists that there are does as well.
            let _ = self.refresh(OLD_FOR_NEWEST, progress);
        }
        if let Some(kernel) = look_up(&self.offers()?, series, flavour) {
            return Ok(kernel);
        }
        // Without apt's lists, or offline: the newest kernel fetched before does as well.
        let refreshed = self.refresh(OLD, progress);
        match refreshed.and_then(|()| Ok(look_up(&self.offers()?, series, flavour))) {
            Ok(Some(kernel)) => Ok(kernel),
            failed => newest_fetched(self.cache, series, flavour).ok_or_else(|| {
                let known = self.newest_of_each_series(flavour, &|_| ()).unwrap_or_default();
                let known: Vec<_> = known.iter().map(|kernel| series_of(kernel.release())).collect();
                let missing = Error::NoKernel {
                    series: series.into(),
                    flavour: flavour.name(),
                    known: known.join(", "),
                };
                failed.err().unwrap_or(missing)
            }),
        }
    }

    /// The kernel's files: fetched and unpacked if they are not in the cache.
    pub fn fetch(&self, kernel: &Kernel, progress: Progress<'_>) -> Result<KernelFiles> {
        let waiting = || progress(Phase::Note("waiting for another xweave that is building this image"));
        let folder = self.cache.entry("kernel", &kernel.key(), waiting, |work| {
            step(progress, &format!("kernel {} {}", kernel.release(), kernel.version), || {
                self.unpack(kernel, work)
            })
        })?;
        KernelFiles::find(kernel, folder)
    }

    /// Returns a folder with the output of `extract`, which reads the kernel's files. The folder is made once, and
    /// known by `kind`, a word.
    pub fn extract(
        &self,
        kernel: &Kernel,
        kind: &str,
        progress: Progress<'_>,
        extract: impl FnOnce(&KernelFiles, &Path) -> io::Result<()>,
    ) -> Result<PathBuf> {
        let waiting = || progress(Phase::Note("waiting for another xweave that is reading this kernel"));
        self.cache.entry(kind, &kernel.key(), waiting, |work| {
            step(progress, &format!("{kind} of kernel {} {}", kernel.release(), kernel.version), || {
                let packages = work.join("packages");
                fs::create_dir(&packages).at("create", &packages)?;
                let files = self.download(kernel, &packages)?;
                extract(&files, work).at("read", &files.folder)?;
                fs::remove_dir_all(&packages).at("remove", &packages)
            })
        })
    }

    /// The kernel of a series with its files. If a package has gone from the archive since the lists were fetched, the
    /// lists are fetched again.
    pub fn ensure(&self, series: &str, flavour: Flavour, progress: Progress<'_>) -> Result<KernelFiles> {
        let kernel = self.resolve(series, flavour, progress)?;
        match self.fetch(&kernel, progress) {
            Err(error @ Error::Command { .. }) if kernel.origin == Origin::Suites => {
                let _ = self.refresh(Duration::ZERO, progress);
                match self.resolve(series, flavour, progress)? {
                    same if same == kernel => Err(error),
                    newer => self.fetch(&newer, progress),
                }
            }
            fetched => fetched,
        }
    }

    /// The apt state with Debian's newer suites, with lists.
    ///
    /// # Errors
    ///
    /// The machine's sources do not tell where Debian is, or the lists cannot be fetched.
    pub fn suites(&self, progress: Progress<'_>) -> Result<&Apt> {
        let unknown = || Error::NotDebian { detail: "it has no mirror that newer suites could be on".into() };
        let suites = self.suites.as_ref().ok_or_else(unknown)?;
        if suites.age_of_lists().is_none() {
            self.refresh(Duration::ZERO, progress)?;
        }
        Ok(suites)
    }

    /// Fetches the newer suites' package lists if they are older than that.
    fn refresh(&self, older_than: Duration, progress: Progress<'_>) -> Result<()> {
        match &self.suites {
            Some(suites) if suites.age_of_lists().is_none_or(|age| age > older_than) => {
                step(progress, "package lists of Debian's newer suites", || suites.update())
            }
            _ => Ok(()),
        }
    }

    /// Lists the kernel packages of each apt state.
    fn offers(&self) -> Result<Vec<Offer<'_>>> {
        let suites = self.suites.as_ref().filter(|suites| suites.age_of_lists().is_some());
        let states = [(Origin::Machine, Some(&self.machine)), (Origin::Suites, suites)];
        let states = states.into_iter().filter_map(|(origin, apt)| Some((origin, apt?)));
        states.map(|(origin, apt)| Ok(Offer { origin, apt, names: apt.package_names(PREFIX)? })).collect()
    }

    /// Unpacks the kernel's packages into a folder.
    fn download(&self, kernel: &Kernel, work: &Path) -> Result<KernelFiles> {
        let apt = self.apt(kernel);
        apt.unpack(&kernel.package, &kernel.version, work)?;
        if !work.join("boot").exists() {
            // From 6.19 on the package is empty; its files are in others of the same release and version.
            let depends = apt.control_field(&kernel.package, "Depends")?;
            for part in parts(&depends, kernel) {
                apt.unpack(part, &kernel.version, work)?;
            }
            // What is linked to is documentation.
            let _ = fs::remove_dir_all(work.join("usr/share"));
        }
        KernelFiles::find(kernel, work.to_owned())
    }

    fn unpack(&self, kernel: &Kernel, work: &Path) -> Result<()> {
        let files = self.download(kernel, work)?;
        // Debian runs depmod when a package is installed; this one never is.
        let base = files.modules.ancestors().nth(3).unwrap_or(work);
        run(Command::new("depmod").arg("-b").arg(base).arg(kernel.release()), "generating modules.dep")?;
        make_image(&files, work)?;
        let text =
            serde_json::to_vec_pretty(kernel).map_err(|source| Error::State { path: work.into(), source })?;
        let path = work.join(KERNEL_FILE);
        fs::write(&path, text).at("write", path)
    }
}

/// File name of the list of built-in modules, in the folder of the modules.
pub(crate) const BUILTIN: &str = "modules.builtin";

/// File name of a cache entry's description of its kernel.
const KERNEL_FILE: &str = "kernel.json";

impl Kernel {
    /// Returns the key of its files in the cache.
    pub fn key(&self) -> String {
        let package = format!("{}={}", self.package, self.version);
        Recipe::default().with("layout", "3").with("package", package).key()
    }
}

impl KernelFiles {
    /// Finds the files in a folder with unpacked packages: in `boot/` and `lib/modules/`, or, from 6.19 on, all in
    /// `usr/lib/modules/`.
    fn find(kernel: &Kernel, folder: PathBuf) -> Result<Self> {
        let release = kernel.release();
        let missing = |missing: String| Error::Kernel { package: kernel.package.clone(), missing };
        let first = |candidates: [String; 2]| {
            candidates
                .iter()
                .map(|path| folder.join(path))
                .find(|path| path.exists())
                .ok_or_else(|| missing(candidates.join(" or ")))
        };
        let vmlinuz =
            first([format!("boot/vmlinuz-{release}"), format!("usr/lib/modules/{release}/vmlinuz")])?;
        let modules =
            first([format!("lib/modules/{release}/kernel"), format!("usr/lib/modules/{release}/kernel")])?;
        let modules = modules.parent().map(Path::to_owned).unwrap_or(modules);
        if !modules.join(BUILTIN).exists() {
            return Err(missing(format!("{release}/{BUILTIN}")));
        }
        Ok(Self { kernel: kernel.clone(), vmlinuz, modules, folder })
    }

    /// An ext4 image of a folder RELEASE with all modules.
    pub fn modules_image(&self) -> PathBuf {
        self.folder.join(MODULES_IMAGE)
    }
}

const MODULES_IMAGE: &str = "modules.ext4";
/// Sparse. The generic kernel's modules are 400 MB where they are not compressed.
const MODULES_SIZE: &str = "1G";

fn make_image(files: &KernelFiles, work: &Path) -> Result<()> {
    // The parent of RELEASE. The kernel's image beside the modules is included, for tools that look for it there.
    let modules = files.modules.parent().unwrap_or(work);
    let mut command = Command::new("mke2fs");
    // Files may belong to the user who built them; in the image they are root's.
    command.args(["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "root_owner=0:0", "-d"]);
    command.arg(modules).arg(work.join(MODULES_IMAGE)).arg(MODULES_SIZE);
    run(&mut command, "making the modules image").map(|_| ())
}

/// An apt state, and the names of all kernel packages that it knows.
struct Offer<'k> {
    origin: Origin,
    apt: &'k Apt,
    names: String,
}

/// The newest kernel of a series: of two states with the same one, the first's.
fn look_up(offers: &[Offer<'_>], series: &str, flavour: Flavour) -> Option<Kernel> {
    let mut best: Option<Kernel> = None;
    for Offer { origin, apt, names } in offers {
        // apt also lists names that it knows from dependencies only; those have no version.
        let found = newest_first(names, series, flavour).into_iter().find_map(|package| {
            let version = apt.version(package).ok()?;
            Some(Kernel { package: package.into(), version, origin: *origin })
        });
        if let Some(found) = found
            && best.as_ref().is_none_or(|best| compare(best.release(), found.release()).is_lt())
        {
            best = Some(found);
        }
        // What the machine's release has of a series is the series' own; suites have rebuilds of it.
        if best.is_some() && series != NEWEST {
            break;
        }
    }
    best
}

/// The packages that a kernel's package depends on for its files, of a `Depends` field.
fn parts<'d>(depends: &'d str, kernel: &Kernel) -> Vec<&'d str> {
    let names = depends.split(',').filter_map(|alternatives| alternatives.split_whitespace().next());
    let is_part = |name: &&str| PARTS.iter().any(|part| name.strip_prefix(part) == Some(kernel.release()));
    names.filter(is_part).collect()
}

/// The newest kernel of a series in the cache.
fn newest_fetched(cache: &Cache, series: &str, flavour: Flavour) -> Option<Kernel> {
    let entries = fs::read_dir(cache.root()).ok()?.flatten();
    let kernels = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("kernel-"))
        .filter_map(|entry| {
            serde_json::from_slice::<Kernel>(&fs::read(entry.path().join(KERNEL_FILE)).ok()?).ok()
        })
        .filter(|kernel| flavour.has(kernel.release()) && is_of_series(kernel.release(), series));
    kernels.max_by(|a, b| compare(a.release(), b.release()))
}

/// Kernel packages of a series in `names`, newest first.
fn newest_first<'n>(names: &'n str, series: &str, flavour: Flavour) -> Vec<&'n str> {
    let mut found: Vec<&str> = names
        .lines()
        .map(str::trim)
        .filter(|name| {
            name.strip_prefix(PREFIX).is_some_and(|release| {
                flavour.has(release)
                    && release.starts_with(|c: char| c.is_ascii_digit())
                    && is_of_series(release, series)
            })
        })
        .collect();
    found.sort_by(|a, b| compare(b, a));
    found.dedup();
    found
}

/// Reports whether a release belongs to a series, or is that version.
fn is_of_series(release: &str, series: &str) -> bool {
    series == NEWEST
        || release
            .strip_prefix(series)
            .is_some_and(|rest| rest.starts_with(['.', '+', '-']) && has_two_numbers(release))
}

/// Reports whether a release begins with a full version: meta packages are called `linux-image-6.12-amd64`.
fn has_two_numbers(release: &str) -> bool {
    release.split(['+', '-']).next().is_some_and(|version| version.split('.').count() > 2)
}

/// The series of all kernels in `names`, oldest first.
fn series(names: &str, flavour: Flavour) -> Vec<String> {
    let mut all: Vec<String> = newest_first(names, NEWEST, flavour)
        .into_iter()
        .rev()
        .filter_map(|name| name.strip_prefix(PREFIX))
        .filter(|release| has_two_numbers(release))
        .map(|release| series_of(release).to_owned())
        .collect();
    all.dedup();
    all
}

/// `6.12` of `6.12.117+deb12-cloud-amd64`.
pub fn series_of(release: &str) -> &str {
    let end = release.match_indices('.').nth(1).map_or(release.len(), |(at, _)| at);
    &release[..end]
}

/// Compares names with the numbers in them as numbers.
fn compare(a: &str, b: &str) -> Ordering {
    let split = |text: &str| -> Vec<(String, u64)> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(digits);
            let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
            parts.push((word.to_owned(), tail[..end].parse().unwrap_or(0)));
            rest = &tail[end..];
        }
        parts
    };
    split(a).cmp(&split(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "linux-image-6.12-cloud-amd64\nlinux-image-6.12.99+deb12-cloud-amd64\n\
        linux-image-6.12.117+deb12-cloud-amd64\nlinux-image-6.12.118+deb12-cloud-amd64-dbg\n\
        linux-image-6.12.118+deb12-cloud-amd64-unsigned\nlinux-image-6.1.0-56-cloud-amd64\n\
        linux-image-6.1.0-9-cloud-amd64\nlinux-image-7.3.4+deb13-cloud-amd64\nlinux-image-cloud-amd64\n";

    #[test]
    fn newest_kernel_of_series_comes_first() {
        let found = newest_first(NAMES, "6.12", Flavour::Cloud);
        assert_eq!(
            found,
            ["linux-image-6.12.117+deb12-cloud-amd64", "linux-image-6.12.99+deb12-cloud-amd64"]
        );
        let found = newest_first(NAMES, "6.1", Flavour::Cloud);
        assert_eq!(found, ["linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-9-cloud-amd64"]);
        assert_eq!(newest_first(NAMES, NEWEST, Flavour::Cloud)[0], "linux-image-7.3.4+deb13-cloud-amd64");
        assert_eq!(newest_first(NAMES, "7.3.4", Flavour::Cloud), ["linux-image-7.3.4+deb13-cloud-amd64"]);
        assert_eq!(newest_first(NAMES, "7.3.5", Flavour::Cloud), [""; 0]);
    }

    #[test]
    fn series_are_listed_once_and_in_order() {
        assert_eq!(series(NAMES, Flavour::Cloud), ["6.1", "6.12", "7.3"]);
    }

    #[test]
    fn flavours_are_distinguished() {
        let names = "linux-image-6.12.9+deb12-amd64\nlinux-image-6.12.9+deb12-cloud-amd64\n\
             linux-image-6.12.9+deb12-rt-amd64\nlinux-image-6.12.9+deb12-amd64-unsigned\n\
             linux-image-6.1.0-56-amd64\nlinux-image-6.1.0-56-rt-amd64\n";
        assert_eq!(newest_first(names, "6.12", Flavour::Generic), ["linux-image-6.12.9+deb12-amd64"]);
        assert_eq!(newest_first(names, "6.1", Flavour::Generic), ["linux-image-6.1.0-56-amd64"]);
        assert_eq!(newest_first(names, "6.1", Flavour::Realtime), ["linux-image-6.1.0-56-rt-amd64"]);
    }

    #[test]
    fn parts_of_a_split_package_are_those_of_its_release() {
        let kernel = Kernel {
            package: "linux-image-7.3.4+deb13-cloud-amd64".into(),
            version: "7.3.4-1".into(),
            origin: Origin::Suites,
        };
        let depends = "dracut | initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool, \
            linux-base-7.3.4+deb13-cloud-amd64 (= 7.3.4-1), linux-binary-7.3.4+deb13-cloud-amd64 (= 7.3.4-1), \
            linux-base (>= 4), linux-modules-7.3.4+deb13-cloud-amd64 (= 7.3.4-1)";
        let expected = [
            "linux-base-7.3.4+deb13-cloud-amd64",
            "linux-binary-7.3.4+deb13-cloud-amd64",
            "linux-modules-7.3.4+deb13-cloud-amd64",
        ];
        assert_eq!(parts(depends, &kernel), expected);
    }

    #[test]
    fn files_are_found_in_both_layouts() {
        let kernel = Kernel {
            package: "linux-image-7.3.4-cloud-amd64".into(),
            version: "1".into(),
            origin: Origin::Machine,
        };
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let error = KernelFiles::find(&kernel, folder.path().to_owned()).unwrap_err().to_string();
        assert!(error.contains("boot/vmlinuz-7.3.4-cloud-amd64 or usr/lib/modules/"), "{error}");
        fs::create_dir_all(at("usr/lib/modules/7.3.4-cloud-amd64/kernel")).unwrap();
        fs::write(at("usr/lib/modules/7.3.4-cloud-amd64/vmlinuz"), "").unwrap();
        let error = KernelFiles::find(&kernel, folder.path().to_owned()).unwrap_err().to_string();
        assert!(error.contains("no 7.3.4-cloud-amd64/modules.builtin"), "{error}");
        fs::write(at("usr/lib/modules/7.3.4-cloud-amd64").join(BUILTIN), "").unwrap();
        let files = KernelFiles::find(&kernel, folder.path().to_owned()).unwrap();
        assert_eq!(files.modules, at("usr/lib/modules/7.3.4-cloud-amd64"));
        fs::create_dir_all(at("boot")).unwrap();
        fs::write(at("boot/vmlinuz-7.3.4-cloud-amd64"), "").unwrap();
        let files = KernelFiles::find(&kernel, folder.path().to_owned()).unwrap();
        assert_eq!(files.vmlinuz, at("boot/vmlinuz-7.3.4-cloud-amd64"));
    }

    #[test]
    fn series_is_checked_before_apt_sees_it() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned()).unwrap();
        let kernels = Kernels { cache: &cache, machine: Apt::machine(), suites: None };
        for wrong in ["6.12 --option", "", "latest"] {
            let error = kernels.resolve(wrong, Flavour::Cloud, &|_| ()).unwrap_err();
            assert!(matches!(error, Error::Name { .. }), "{error}");
        }
    }
}
