//! The QEMU that emulates the lab's machines: the system's, if it is new enough, or else one from Debian's newer suites,
//! which is unpacked in the cache and not installed.

use crate::apt::Apt;
use crate::cache::{Cache, Recipe};
use crate::error::{At, Error, Result};
use crate::kernel::Kernels;
use crate::process::run;
use crate::progress::{Phase, Progress, step};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that emulates machines.
pub const QEMU: &str = "qemu-system-x86_64";

/// The first version that is fit for the lab: that whose plugins have the interface of `qemu/patched_code.c`.
///
/// An emulated CPU may go on with code as it was before another one patched it, as attaching probes does. Kernels died of it
/// within seconds (7.2), a minute (10.0.2), or minutes (11.1.3; `Oops: int3`), and do not with the plugin, which says why
/// (`make soak EMULATOR=3` tests it). Under 7.2 moreover, a guest of KVM on Linux 7.3 reads a wrong size of its XSAVE area
/// and does not boot.
const FIT: [u32; 3] = [11, 1, 0];

/// Packages of QEMU, of the suite that has the newest.
const PACKAGES: [&str; 4] = [
    "qemu-system-x86/trixie-backports",
    "qemu-system-common/trixie-backports",
    "qemu-system-data/trixie-backports",
    "seabios/trixie-backports",
];
/// The suite of the libraries that they need.
const LIBRARIES: &str = "trixie";

/// A QEMU to run machines with.
#[derive(Debug, Clone)]
pub struct Emulator {
    /// The root of the unpacked packages; `None` for the system's program.
    root: Option<PathBuf>,
    /// Version, as `--version` prints it in its first line.
    pub version: String,
}

impl Emulator {
    /// The system's QEMU if it is [fit](FIT), or one from Debian's newer suites, fetched if it is not in the cache.
    pub fn ensure(cache: &Cache, kernels: &Kernels<'_>, progress: Progress<'_>) -> Result<Self> {
        let system = Self::with(None);
        if system.as_ref().is_ok_and(Self::is_fit) {
            return system;
        }
        match Self::fetch(cache, kernels, progress) {
            // Offline, the system's own is better than none: with one processor, older kernels do run.
            Err(error) if system.is_ok() => {
                progress(Phase::Note(&format!("no newer QEMU than the system's can be had: {error}")));
                system
            }
            fetched => fetched,
        }
    }

    fn with(root: Option<PathBuf>) -> Result<Self> {
        let mut emulator = Self { root, version: String::new() };
        let printed = run(emulator.command().arg("--version"), "looking up QEMU's version")?;
        emulator.version = String::from_utf8_lossy(&printed).lines().next().unwrap_or_default().to_owned();
        Ok(emulator)
    }

    fn fetch(cache: &Cache, kernels: &Kernels<'_>, progress: Progress<'_>) -> Result<Self> {
        let apt = kernels.suites(progress)?;
        let versions: Vec<String> =
            PACKAGES.iter().map(|package| apt.version(package)).collect::<Result<_>>()?;
        let key = Recipe::default().with("layout", "1").with("versions", versions.join(" ")).key();
        let waiting = || progress(Phase::Note("waiting for another xweave that is fetching QEMU"));
        let root = cache.entry("qemu", &key, waiting, |work| {
            step(progress, &format!("QEMU {}", versions[0]), || unpack(apt, work))
        })?;
        Self::with(Some(root))
    }

    /// Reports whether it has the interface of the lab's plugins, so that several emulated processors can have a thread each:
    /// see [`FIT`].
    pub fn is_fit(&self) -> bool {
        is_fit(&self.version)
    }

    /// A command that starts it, with no arguments of a machine yet.
    pub fn command(&self) -> Command {
        let Some(root) = &self.root else { return Command::new(QEMU) };
        // Its libraries are newer than the system's: its own loader finds them.
        let mut command = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        command.args(["--argv0", QEMU, "--library-path"]).arg(&libraries);
        command.arg(root.join("usr/bin").join(QEMU));
        for data in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(root.join(data));
        }
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command
    }
}

/// Downloads and unpacks the packages with all that they depend on.
fn unpack(apt: &Apt, work: &Path) -> Result<()> {
    for deb in apt.download_with_dependencies(&PACKAGES, LIBRARIES)? {
        run(Command::new("dpkg-deb").arg("-x").args([&deb, work]), "unpacking a package")?;
        fs::remove_file(&deb).at("remove", &deb)?;
    }
    // Packages may still name the folders that are links to /usr on a merged system.
    for (top, merged) in [("lib64", "usr/lib64"), ("lib", "usr/lib")] {
        if work.join(top).is_dir() {
            let mut command = Command::new("cp");
            command.arg("-a").arg(work.join(top).join(".")).arg(work.join(merged));
            run(&mut command, "merging libraries")?;
        }
    }
    for unused in ["usr/share/doc", "usr/share/man", "usr/share/locale", "etc", "var"] {
        let _ = fs::remove_dir_all(work.join(unused));
    }
    let program = work.join("usr/bin").join(QEMU);
    if program.exists() {
        return Ok(());
    }
    Err(Error::Package { package: PACKAGES[0].into(), missing: format!("usr/bin/{QEMU}") })
}

/// Reports whether a version, such as `QEMU emulator version 11.1.3 (Debian …)`, is [fit](FIT).
fn is_fit(version: &str) -> bool {
    let number = version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut numbers = number.unwrap_or_default().split('.').map(|part| part.parse().unwrap_or(0));
    let found: [u32; 3] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
    found >= FIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_not_fit() {
        for (version, fit) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", false),
            ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2~bpo12+1)", false),
            ("QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", false),
            ("QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1~bpo13+1)", true),
            ("QEMU emulator version 11.2.50", true),
            ("", false),
        ] {
            assert_eq!(is_fit(version), fit, "{version}");
        }
    }

    #[test]
    fn unpacked_program_is_started_by_its_own_loader() {
        let emulator = Emulator { root: Some("/cache/qemu".into()), version: String::new() };
        let command = emulator.command();
        assert_eq!(command.get_program(), "/cache/qemu/usr/lib64/ld-linux-x86-64.so.2");
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert!(arguments.contains(&"/cache/qemu/usr/bin/qemu-system-x86_64".to_owned()), "{arguments:?}");
        assert_eq!(Emulator { root: None, version: String::new() }.command().get_program(), QEMU);
    }
}
