//! Where the machine's apt gets Debian from: for root images, and for kernels and emulators of newer suites.

use crate::apt::field;
use crate::error::{At, Error, Result};
use crate::process::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Suites of Debian's archive that kernels and emulators come from that the machine's own suite does not have; `trixie`
/// is for the libraries of the latter.
pub const NEWER_SUITES: [&str; 3] = ["trixie-backports", "sid", "trixie"];

/// Where the machine's apt gets Debian from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The release's code name, as `bookworm`.
    pub suite: String,
    /// Lines in the form of `sources.list`.
    pub lines: String,
    /// The same with the release's backports, which are from where the release is if apt is not told of them.
    pub with_backports: String,
    /// The same mirror's [`NEWER_SUITES`].
    pub newer: String,
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
        let newer = newer_lines(&listed, &suite);
        Ok(Self { suite, lines, with_backports, newer, options })
    }

    /// Writes the lines to a file of `folder`, with those of the backports if they are wanted.
    pub fn write(&self, folder: &Path, backports: bool) -> Result<PathBuf> {
        let path = folder.join("sources.list");
        let lines = if backports { &self.with_backports } else { &self.lines };
        std::fs::write(&path, lines).at("write", &path)?;
        Ok(path)
    }
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

/// The newer suites, from every mirror of `suite`.
fn newer_lines(listed: &str, suite: &str) -> String {
    NEWER_SUITES
        .iter()
        .map(|wanted| debian_lines(listed, |release| (release == suite).then(|| (*wanted).to_owned())))
        .collect()
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

    const LISTED: &str = "http://m/debian/|bookworm|main|$(SIGNED_BY)|Debian\nhttp://m/debian/|bookworm|main|$(SIGNED_BY)|Debian\n\
        http://s/|bookworm-security|main|/k.gpg|Debian\nhttp://o/|bookworm|main|/o.gpg|Other\n\
        http://b/debian/|bookworm-backports|main|$(SIGNED_BY)|Debian\n";

    #[test]
    fn sources_are_debians_own() {
        let own =
            "deb http://m/debian/ bookworm main\ndeb [signed-by=/k.gpg] http://s/ bookworm-security main\n";
        assert_eq!(source_lines(LISTED, "bookworm"), own);
        assert_eq!(
            with_backports(LISTED, "bookworm"),
            format!("{own}deb http://b/debian/ bookworm-backports main\n")
        );
        // Where apt is not told of any, they are where the release is.
        let without = LISTED.replace("bookworm-backports", "other");
        assert_eq!(
            with_backports(&without, "bookworm"),
            format!("{own}deb http://m/debian/ bookworm-backports main\n")
        );
    }

    #[test]
    fn newer_suites_are_on_the_release_mirror() {
        assert_eq!(
            newer_lines(LISTED, "bookworm"),
            "deb http://m/debian/ trixie-backports main\ndeb http://m/debian/ sid main\n\
             deb http://m/debian/ trixie main\n"
        );
    }
}
