//! `--domain` and the other arguments about which guests are asked, and for which files.

use std::{cell::RefCell, rc::Rc};

use xweave_merge::{SameBy, page_cache_query::Query};
use xweave_record::{DomainSpec, Phase};
use xweave_wire::pages::Files;

use crate::{failure::Failure, progress::Progress};

#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// A guest, as for xweave record: NAME=vsock:CID, or NAME=COMMAND
    #[arg(long, value_name = "NAME=TRANSPORT", required = true)]
    domain: Vec<String>,
    /// Ask all guests or none: one that does not answer is an error, and is not left out
    #[arg(long)]
    require: bool,
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

impl Args {
    /// What makes files of two guests the same.
    pub fn same_by(&self) -> SameBy {
        match self.by {
            By::Path => SameBy::Path,
            By::Inode => SameBy::Inode,
        }
    }

    /// The guests' names.
    pub fn names(&self) -> Vec<&str> {
        self.domain.iter().map(|text| text.split_once('=').map_or(&**text, |(name, _)| name)).collect()
    }

    /// The query to these guests: also for the contents of pages, or where they are in memory (`frames`).
    pub fn query(&self, contents: bool, frames: bool) -> Result<Query, Failure> {
        let domains: Result<Vec<_>, _> = self.domain.iter().map(|text| DomainSpec::parse(text)).collect();
        let (include, exclude) = (self.include.clone(), self.exclude.clone());
        let files = Files { include, exclude, contents, frames };
        Query::new(domains.map_err(Failure::usage)?, self.require, files).map_err(Failure::usage)
    }
}

/// Progress of the first query, on standard error; later ones are made silently.
#[derive(Default)]
pub struct FirstQuery(Rc<RefCell<State>>);

#[derive(Default)]
enum State {
    #[default]
    Waiting,
    Asking(Box<Progress>),
    Ended,
}

impl FirstQuery {
    /// Makes a listener that prints phases from its first attempt to connect until [`FirstQuery::end`].
    pub fn listener(&self) -> impl Fn() -> Box<dyn FnMut(Phase<'_>)> + use<> {
        let state = Rc::clone(&self.0);
        move || {
            if matches!(*state.borrow(), State::Waiting) {
                state.replace(State::Asking(Box::new(Progress::new(None))));
            }
            let state = Rc::clone(&state);
            Box::new(move |phase: Phase<'_>| {
                if let State::Asking(progress) = &mut *state.borrow_mut() {
                    progress.show(&phase);
                }
            })
        }
    }

    /// Ends the progress, if it has not ended.
    pub fn end(&self) {
        if let State::Asking(progress) = self.0.replace(State::Ended) {
            progress.end();
        }
    }
}
