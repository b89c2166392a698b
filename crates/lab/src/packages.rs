//! Debian's packages: which kernel, from where, and how to get it. Sources are the machine's own.

use crate::error::{At, Error, Result};
use crate::process::run;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which of Debian's kernels of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// For guests of clouds.
    Cloud,
    /// For all machines.
    Generic,
}

impl Flavour {
    /// How its packages' names end.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Cloud => "-cloud-amd64",
            Self::Generic => "-amd64",
        }
    }

    /// Whether a release, as `6.12.117+deb12-cloud-amd64`, is of this flavour.
    pub fn has(self, release: &str) -> bool {
        // The generic suffix ends all names: what is before it must not be a word, as `cloud`.
        release.strip_suffix(self.suffix()).is_some_and(|rest| {
            rest.rsplit_once('-').is_none_or(|(_, last)| !last.bytes().all(|b| b.is_ascii_alphabetic()))
        })
    }
}

/// A kernel as Debian packages it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The series asked for: `6.12`.
    pub series: String,
    /// The package: `linux-image-RELEASE`.
    pub package: String,
    /// The package's version.
    pub version: String,
}

impl Kernel {
    /// What `uname -r` says under this kernel.
    pub fn release(&self) -> &str {
        self.package.strip_prefix("linux-image-").unwrap_or(&self.package)
    }

    /// The newest kernel of a series that the machine's apt offers.
    pub fn resolve(series: &str, flavour: Flavour) -> Result<Self> {
        let valid = !series.is_empty() && series.chars().all(|c| c.is_ascii_digit() || c == '.');
        if !valid {
            return Err(Error::Name {
                what: "kernel series",
                name: series.into(),
                rule: "numbers and dots, as 6.12",
            });
        }
        let names = run(
            Command::new("apt-cache").args(["pkgnames", &format!("linux-image-{series}")]),
            "looking for kernel packages",
        )?;
        let names = String::from_utf8_lossy(&names).into_owned();
        for package in newest_first(&names, series, flavour) {
            // apt also lists names that it knows from dependencies only; those have no version.
            if let Ok(version) = version(package) {
                return Ok(Self { series: series.into(), package: package.into(), version });
            }
        }
        Err(Error::NoKernel { series: series.into(), flavour: flavour.suffix() })
    }
}

/// The version of a package that the machine's apt offers.
pub fn version(package: &str) -> Result<String> {
    let shown = run(
        Command::new("apt-cache").args(["show", "--no-all-versions", package]),
        "looking up a package's version (if apt's lists are old, run `apt-get update`)",
    )?;
    field(&String::from_utf8_lossy(&shown), "Version: ")
        .ok_or_else(|| Error::Package { package: package.into(), missing: "version to install".into() })
}

/// Downloads a package and unpacks it into `folder`.
pub fn unpack(package: &str, version: &str, folder: &Path) -> Result<()> {
    let download = folder.join("download");
    std::fs::create_dir(&download).at("create", &download)?;
    let mut command = Command::new("apt-get");
    // apt would drop to a user of its own who cannot write here, and warn about it.
    command.args(["-q", "-o", "APT::Sandbox::User=root", "download"]);
    command.arg(format!("{package}={version}")).current_dir(&download);
    run(&mut command, "downloading a package (if apt's lists are old, run `apt-get update`)")?;
    let deb = std::fs::read_dir(&download)
        .at("read", &download)?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .ok_or_else(|| Error::Package { package: package.into(), missing: "file to download".into() })?;
    run(Command::new("dpkg-deb").arg("-x").args([&deb, folder]), "unpacking a package")?;
    std::fs::remove_dir_all(&download).at("remove", &download)
}

/// Kernel packages of a series in `names`, newest first.
fn newest_first<'a>(names: &'a str, series: &str, flavour: Flavour) -> Vec<&'a str> {
    let prefix = format!("linux-image-{series}.");
    let mut found: Vec<&str> =
        names.lines().map(str::trim).filter(|n| n.starts_with(&prefix) && flavour.has(n)).collect();
    found.sort_by(|a, b| compare(b, a));
    found
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

/// Where the machine's apt gets Debian from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The release's code name, as `bookworm`.
    pub suite: String,
    /// Lines in the form of `sources.list`.
    pub lines: String,
    /// The same with the release's backports, which are from where the release is if apt is not told of them.
    pub with_backports: String,
    /// Options for apt that the machine sets for its network (proxies, certificates, retries).
    pub options: Vec<String>,
}

impl Sources {
    /// Reads them from apt, which understands every form of configuration.
    pub fn of_this_machine() -> Result<Self> {
        let suite = std::fs::read_to_string("/etc/os-release")
            .ok()
            .and_then(|text| field(&text, "VERSION_CODENAME="))
            .ok_or_else(|| Error::NotDebian { detail: "/etc/os-release has no VERSION_CODENAME".into() })?;
        let format = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)|$(ORIGIN)";
        let listed = run(
            Command::new("apt-get").args(["indextargets", "--format", format, "Created-By: Packages"]),
            "reading apt's sources",
        )?;
        let listed = String::from_utf8_lossy(&listed);
        let (lines, with_backports) = (source_lines(&listed, &suite), with_backports(&listed, &suite));
        if lines.is_empty() {
            return Err(Error::NotDebian {
                detail: format!("apt has no packages of Debian `{suite}`; run `apt-get update`"),
            });
        }
        let dump = run(Command::new("apt-config").arg("dump"), "reading apt's options")?;
        let options = String::from_utf8_lossy(&dump)
            .lines()
            .filter(|l| {
                ["Acquire::http", "Acquire::https", "Acquire::Retries"].iter().any(|p| l.starts_with(p))
            })
            // `name "";` for a group sets nothing.
            .filter(|l| !l.ends_with("\"\";"))
            .map(str::to_owned)
            .collect();
        Ok(Self { suite, lines, with_backports, options })
    }

    /// Writes the lines to a file of `folder`, with those of the backports if they are wanted.
    pub fn write(&self, folder: &Path, backports: bool) -> Result<PathBuf> {
        let path = folder.join("sources.list");
        let lines = if backports { &self.with_backports } else { &self.lines };
        std::fs::write(&path, lines).at("write", &path)?;
        Ok(path)
    }
}

fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|l| l.strip_prefix(key)).map(|v| v.trim().trim_matches('"').to_owned())
}

/// Of all of apt's sources, those of Debian's `suite` itself, its updates and its security fixes.
fn source_lines(listed: &str, suite: &str) -> String {
    let wanted = [suite.to_owned(), format!("{suite}-updates"), format!("{suite}-security")];
    debian_lines(listed, |release| wanted.iter().any(|w| w == release).then(|| release.to_owned()))
}

/// These, and those of its backports: each mirror of the suite has them too.
fn with_backports(listed: &str, suite: &str) -> String {
    let backports = format!("{suite}-backports");
    let known = debian_lines(listed, |release| (release == backports).then(|| release.to_owned()));
    let derived = || debian_lines(listed, |release| (release == suite).then(|| backports.clone()));
    source_lines(listed, suite) + &if known.is_empty() { derived() } else { known }
}

/// Of all of apt's sources, those of Debian whose release `named` gives a name for, by that name.
fn debian_lines(listed: &str, named: impl Fn(&str) -> Option<String>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in listed.lines() {
        let [uri, release, component, signed_by, origin] = line.split('|').collect::<Vec<_>>()[..] else {
            continue;
        };
        let Some(release) = named(release).filter(|_| origin == "Debian") else { continue };
        // apt prints the name of an option that is not set.
        let key =
            if signed_by.starts_with('/') { format!("[signed-by={signed_by}] ") } else { String::new() };
        let text = format!("deb {key}{uri} {release} {component}\n");
        if !lines.contains(&text) {
            lines.push(text);
        }
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_of_the_series_is_first() {
        let names = "linux-image-6.12-cloud-amd64\nlinux-image-6.12.99+deb12-cloud-amd64\n\
             linux-image-6.12.117+deb12-cloud-amd64\nlinux-image-6.12.118+deb12-cloud-amd64-dbg\n\
             linux-image-6.12.118+deb12-cloud-amd64-unsigned\nlinux-image-6.1.0-56-cloud-amd64\n";
        let found = newest_first(names, "6.12", Flavour::Cloud);
        assert_eq!(
            found,
            ["linux-image-6.12.117+deb12-cloud-amd64", "linux-image-6.12.99+deb12-cloud-amd64"]
        );
        let names = "linux-image-6.1.0-9-cloud-amd64\nlinux-image-6.1.0-56-cloud-amd64\nlinux-image-6.12.1-cloud-amd64\n";
        assert_eq!(newest_first(names, "6.1", Flavour::Cloud)[0], "linux-image-6.1.0-56-cloud-amd64");
        assert_eq!(newest_first(names, "6.1", Flavour::Cloud).len(), 2);
    }

    #[test]
    fn flavours_are_told_apart() {
        let names = "linux-image-6.12.9+deb12-amd64\nlinux-image-6.12.9+deb12-cloud-amd64\n\
             linux-image-6.12.9+deb12-rt-amd64\nlinux-image-6.12.9+deb12-amd64-unsigned\n\
             linux-image-6.1.0-56-amd64\nlinux-image-6.1.0-56-rt-amd64\n";
        assert_eq!(newest_first(names, "6.12", Flavour::Generic), ["linux-image-6.12.9+deb12-amd64"]);
        assert_eq!(newest_first(names, "6.1", Flavour::Generic), ["linux-image-6.1.0-56-amd64"]);
    }

    #[test]
    fn a_series_is_checked_before_apt_sees_it() {
        assert!(matches!(Kernel::resolve("6.12 --option", Flavour::Cloud), Err(Error::Name { .. })));
        assert!(matches!(Kernel::resolve("", Flavour::Generic), Err(Error::Name { .. })));
    }

    #[test]
    fn sources_are_debians_own() {
        let listed = "http://m/debian/|bookworm|main|$(SIGNED_BY)|Debian\nhttp://m/debian/|bookworm|main|$(SIGNED_BY)|Debian\n\
             http://s/|bookworm-security|main|/k.gpg|Debian\nhttp://o/|bookworm|main|/o.gpg|Other\n\
             http://b/debian/|bookworm-backports|main|$(SIGNED_BY)|Debian\n";
        let own =
            "deb http://m/debian/ bookworm main\ndeb [signed-by=/k.gpg] http://s/ bookworm-security main\n";
        assert_eq!(source_lines(listed, "bookworm"), own);
        assert_eq!(
            with_backports(listed, "bookworm"),
            format!("{own}deb http://b/debian/ bookworm-backports main\n")
        );
        // Where apt is not told of any, they are where the release is.
        let without = listed.replace("bookworm-backports", "other");
        assert_eq!(
            with_backports(&without, "bookworm"),
            format!("{own}deb http://m/debian/ bookworm-backports main\n")
        );
    }
}
