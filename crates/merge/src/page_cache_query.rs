//! Asking guests which pages of which files their page caches hold: once, or again and again over the same connections.

use std::{
    thread,
    time::{Duration, Instant},
};

use xweave_record::{Caches, DomainCache, DomainSpec, Error, Phase, Remaining, Required};
use xweave_weave::Role;
use xweave_wire::pages::{Files, LookedAt};

use crate::tree::Guest;

/// Minimum number of guests: fewer hold nothing twice.
pub const FEWEST_GUESTS: usize = 2;

/// Folders of files that guests are likely to have in common.
const DEFAULT_FOLDERS: [&str; 3] = ["/usr", "/lib", "/boot"];

/// Interval at which a wait checks for Ctrl-C.
const INTERRUPT_POLL: Duration = Duration::from_millis(100);

/// Makes a listener for the progress of one attempt to connect.
pub type NewListener<'a> = &'a dyn Fn() -> Box<dyn FnMut(Phase<'_>)>;

/// A query: guests, and files whose cached pages they list.
#[derive(Clone, Debug)]
pub struct Query {
    domains: Vec<DomainSpec>,
    require_all: bool,
    files: Files,
}

/// A query that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// A path to include or exclude is relative.
    #[error("`{0}` is no absolute path: name it from / on, as the guests do")]
    RelativePath(String),
    /// Fewer than [`FEWEST_GUESTS`] guests are named.
    #[error("at least two guests are needed: add another --domain")]
    TooFewGuests,
}

impl Query {
    /// A query to these domains. If `files` includes no folder, those that guests are likely to have in common are queried.
    /// Unless `require_all`, guests that do not answer are left out.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn new(domains: Vec<DomainSpec>, require_all: bool, mut files: Files) -> Result<Self, QueryError> {
        if files.include.is_empty() {
            files.include = DEFAULT_FOLDERS.map(str::to_owned).to_vec();
        }
        if let Some(path) = files.include.iter().chain(&files.exclude).find(|path| !path.starts_with('/')) {
            return Err(QueryError::RelativePath(path.clone()));
        }
        if domains.iter().filter(|domain| domain.role() == Role::Guest).count() < FEWEST_GUESTS {
            return Err(QueryError::TooFewGuests);
        }
        Ok(Self { domains, require_all, files })
    }

    /// Checks whether guests that do not answer are errors, and are not left out.
    pub fn requires_all(&self) -> bool {
        self.require_all
    }
}

/// Answers of the guests. The lists of one entry per guest have the same order.
#[derive(Clone, Debug, Default)]
pub struct PageCaches {
    /// The guests, with the files and pages that they hold.
    pub guests: Vec<Guest>,
    /// Process on this host that runs each guest; `None` if it is unknown.
    pub pids: Vec<Option<u32>>,
    /// Files that each guest has read the state of.
    pub looked_at: Vec<LookedAt>,
    /// Notes, a line each: guests that were left out, and guests that cannot watch their page caches.
    pub notes: Vec<String>,
}

/// Connections to guests that are asked again and again.
pub struct Querier {
    query: Query,
    /// Guests watch their page caches, and report only changes from the second answer on.
    watch: bool,
    /// `None` before the first answer, and after a guest was lost.
    connections: Option<Caches<'static>>,
    /// Notes on guests that report all files each time.
    unwatched: Vec<String>,
}

impl Querier {
    /// Connects to no guest yet. Guests watch their page caches if they are to be asked more than once.
    pub fn new(query: Query, watch: bool) -> Self {
        Self { query, watch, connections: None, unwatched: Vec::new() }
    }

    /// Asks the guests. Connects first where there are no connections, leaving out guests that do not answer.
    ///
    /// # Errors
    /// Fewer than [`FEWEST_GUESTS`] guests answer, or a required one does not; Ctrl-C.
    pub fn ask(&mut self, listener: NewListener<'_>) -> Result<PageCaches, Error> {
        if let Some(connections) = &mut self.connections {
            match connections.ask() {
                Ok(caches) => return Ok(self.collect(caches, Vec::new())),
                Err(error) if xweave_interrupt::pending() => return Err(error),
                // A guest that was lost may have restarted.
                Err(_) => self.connections = None,
            }
        }
        self.connect_to_remaining(listener)
    }

    /// Waits, and keeps the connections alive; returns early on Ctrl-C.
    pub fn wait(&mut self, time: Duration) {
        let until = Instant::now() + time;
        if self.connections.as_mut().is_some_and(|connections| connections.rest(time).is_err()) {
            self.connections = None;
        }
        while Instant::now() < until && !xweave_interrupt::pending() {
            thread::sleep(INTERRUPT_POLL.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Connects to the guests that answer.
    fn connect_to_remaining(&mut self, listener: NewListener<'_>) -> Result<PageCaches, Error> {
        let required = Required::all_if(self.query.require_all);
        let mut remaining = Remaining::of(self.query.domains.clone(), required, FEWEST_GUESTS);
        let mut notes = Vec::new();
        let caches = loop {
            let error = match self.connect(remaining.domains(), listener()) {
                Ok(caches) => break caches,
                Err(error) => error,
            };
            notes.extend(remaining.leave_out(error)?);
        };
        // Guests that were left out are tried again the next time.
        if !notes.is_empty() {
            self.connections = None;
        }
        Ok(self.collect(caches, notes))
    }

    /// Connects to these domains, and asks for the first time.
    fn connect(
        &mut self,
        domains: &[DomainSpec],
        listener: Box<dyn FnMut(Phase<'_>)>,
    ) -> Result<Vec<DomainCache>, Error> {
        let mut connections = Caches::of(domains, &self.query.files, listener)?;
        self.unwatched = if self.watch { connections.watch()? } else { Vec::new() };
        let caches = connections.ask()?;
        self.connections = self.watch.then_some(connections);
        Ok(caches)
    }

    fn collect(&self, caches: Vec<DomainCache>, mut notes: Vec<String>) -> PageCaches {
        notes.extend(self.unwatched.iter().cloned());
        let mut collected = PageCaches { notes, ..PageCaches::default() };
        for DomainCache { domain, pid, files, looked_at } in caches {
            collected.guests.push(Guest { name: domain, files });
            collected.pids.push(pid);
            collected.looked_at.push(looked_at);
        }
        collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(domains: &[&str], include: &[&str]) -> Result<Query, QueryError> {
        let domains = domains.iter().map(|text| DomainSpec::parse(text).unwrap()).collect();
        let include = include.iter().map(|path| (*path).to_owned()).collect();
        Query::new(domains, false, Files { include, ..Files::default() })
    }

    #[test]
    fn two_guests_are_needed_and_hosts_do_not_count() {
        let error = query(&["host=local", "vm1=vsock:3"], &[]).unwrap_err();
        assert!(matches!(error, QueryError::TooFewGuests), "{error}");
        let files = query(&["vm1=vsock:3", "vm2=vsock:4"], &[]).unwrap().files;
        assert_eq!(files.include, DEFAULT_FOLDERS);
    }

    #[test]
    fn paths_have_to_be_absolute() {
        let error = query(&["vm1=vsock:3", "vm2=vsock:4"], &["/srv", "usr"]).unwrap_err();
        assert!(matches!(&error, QueryError::RelativePath(path) if path == "usr"), "{error}");
        assert_eq!(query(&["vm1=vsock:3", "vm2=vsock:4"], &["/srv"]).unwrap().files.include, ["/srv"]);
    }
}
