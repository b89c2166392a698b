//! What guests are asked, whatever is done with it: which of them, and of which files.

use xweave_merge::{SameBy, tree::Guest};
use xweave_record::{DomainCache, DomainSpec};
use xweave_weave::Role;
use xweave_wire::pages::{Files, LookedAt};

use crate::{failure::Failure, progress::Progress};

/// Where files lie that guests are likely to have in common.
const USUAL: [&str; 3] = ["/usr", "/lib", "/boot"];

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// A guest, as for xweave record: NAME=vsock:CID, or NAME=COMMAND
    #[arg(long, value_name = "NAME=TRANSPORT", required = true)]
    domain: Vec<String>,
    /// Look at files below this folder, in its own file system [default: /usr, /lib and /boot]
    #[arg(long, value_name = "FOLDER")]
    include: Vec<String>,
    /// But not at this file or folder
    #[arg(long, value_name = "PATH")]
    exclude: Vec<String>,
    /// What makes files of two guests the same, besides size and time of change
    #[arg(long, value_name = "WHAT", value_enum, default_value = "path")]
    by: By,
    /// Files to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
}

/// What makes files the same.
#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    /// Their paths
    Path,
    /// Their inode numbers: of disks that began as one image
    Inode,
}

/// What guests have said.
pub struct Told {
    /// Of which files they hold which pages.
    pub guests: Vec<Guest>,
    /// Of each: which process of this machine runs it, where that is known.
    pub pids: Vec<Option<u32>>,
    /// Of each: what was looked at.
    pub looked_at: Vec<LookedAt>,
    /// Why others have said nothing.
    pub missing: Vec<String>,
}

impl Args {
    /// What makes files the same.
    pub fn same_by(&self) -> SameBy {
        match self.by {
            By::Path => SameBy::Path,
            By::Inode => SameBy::Inode,
        }
    }

    /// What they are called.
    pub fn names(&self) -> Vec<&str> {
        self.domain.iter().map(|text| text.split_once('=').map_or(&**text, |(name, _)| name)).collect()
    }

    /// Asks them all: also what pages hold, or where they lie. How far that is may be told.
    pub fn ask(&self, contents: bool, frames: bool, is_told: bool) -> Result<Told, Failure> {
        self.ask_those(contents, frames, is_told, false)
    }

    /// Asks those that answer, where there are two at least, where their pages lie.
    pub fn ask_who_answers(&self) -> Result<Told, Failure> {
        self.ask_those(false, true, false, true)
    }

    fn ask_those(
        &self,
        contents: bool,
        frames: bool,
        is_told: bool,
        some_may_miss: bool,
    ) -> Result<Told, Failure> {
        let (mut include, exclude) = (self.include.clone(), self.exclude.clone());
        if include.is_empty() {
            include = USUAL.map(str::to_owned).to_vec();
        }
        if let Some(path) = include.iter().chain(&exclude).find(|path| !path.starts_with('/')) {
            return Err(Failure::Usage(format!(
                "`{path}` is no absolute path: name it from / on, as the guests do"
            )));
        }
        let domains: Result<Vec<_>, _> = self.domain.iter().map(|text| DomainSpec::parse(text)).collect();
        let mut domains = domains.map_err(Failure::usage)?;
        let guests =
            |domains: &[DomainSpec]| domains.iter().filter(|domain| domain.role() == Role::Guest).count();
        if guests(&domains) < 2 {
            return Err(Failure::Usage(
                "it takes two guests to hold something twice: name another with --domain".to_owned(),
            ));
        }
        let files = Files { include, exclude, contents, frames };
        let mut progress = is_told.then(|| Progress::new(None));
        let mut missing = Vec::new();
        let caches = loop {
            let caches = xweave_record::cached(&domains, &files, &mut |phase| {
                if let Some(progress) = &mut progress {
                    progress.show(&phase);
                }
            });
            let Err(error) = caches else { break caches };
            let of = error.of_domain().and_then(|name| domains.iter().position(|of| of.name == name));
            match of.filter(|of| some_may_miss && domains[*of].role() == Role::Guest && guests(&domains) > 2)
            {
                Some(of) => {
                    domains.remove(of);
                    missing.push(error.to_string());
                }
                None => break Err(error),
            }
        };
        if let Some(progress) = progress {
            progress.end();
        }
        let mut told = Told { guests: Vec::new(), pids: Vec::new(), looked_at: Vec::new(), missing };
        for DomainCache { domain, pid, files, looked_at } in caches? {
            told.guests.push(Guest { name: domain, files });
            told.pids.push(pid);
            told.looked_at.push(looked_at);
        }
        Ok(told)
    }
}
