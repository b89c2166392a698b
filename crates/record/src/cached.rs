//! What the page caches of domains hold.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use xweave_weave::Role;
use xweave_wire::{
    message::{Reply, Request},
    pages::{Amount, CachedFile, Files, LookedAt, MOST},
};

use crate::{
    Budget, DomainSpec, Error, Phase,
    capture::Capture,
    domain, identity,
    pace::SOON,
    recording::{Means, answered, connect, introduce, read_facts},
};

/// A guest, and what its page cache holds.
#[derive(Clone, Debug)]
pub struct DomainCache {
    /// Its name.
    pub domain: String,
    /// The process of this machine that runs it, where that is known.
    pub pid: Option<u32>,
    /// The files of which it holds pages.
    pub files: Vec<CachedFile>,
    /// Which were looked at.
    pub looked_at: LookedAt,
}

/// Guests that are asked what their page caches hold of some files: once, or again and again over the same connections.
pub struct Caches<'p> {
    capture: Capture<'p>,
    guests: Vec<Asked>,
    files: Files,
}

/// A guest that is asked.
struct Asked {
    /// Its place among the domains.
    index: usize,
    pid: Option<u32>,
    /// Whether it tells what has changed since the last time, not all each time.
    watches: bool,
    held: Held,
}

/// Asks these guests once for what they hold of such files.
///
/// # Errors
/// As those of [`Caches::of`] and [`Caches::ask`].
pub fn cached(
    domains: &[DomainSpec],
    files: &Files,
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<Vec<DomainCache>, Error> {
    Caches::of(domains, files, Box::new(progress))?.ask()
}

impl<'p> Caches<'p> {
    /// Reaches these guests.
    ///
    /// # Errors
    /// None of the domains is a guest; one cannot be reached; it is interrupted.
    pub fn of(
        domains: &[DomainSpec],
        files: &Files,
        progress: Box<dyn FnMut(Phase<'_>) + 'p>,
    ) -> Result<Self, Error> {
        let specs = domain::complete(domains)?;
        xweave_interrupt::install(xweave_interrupt::Again::Waits, xweave_interrupt::Blocked::GoesOn);
        let mut capture = connect(specs, &Budget::default(), &Means::usual(), progress)?;
        read_facts(&mut capture)?;
        introduce(&mut capture)?;
        let pids = identity::pids(&answered(&capture).collect::<Vec<_>>());
        let sessions = capture.sessions.iter().enumerate().zip(pids);
        let guests = sessions.filter(|((_, session), _)| session.role() == Role::Guest);
        let asked = |((index, _), pid)| Asked { index, pid, watches: false, held: Held::default() };
        let guests = guests.map(asked).collect();
        Ok(Self { capture, guests, files: files.clone() })
    }

    /// Has the guests watch their page caches from now on, so that they need not look at all files each time. Gives why some
    /// do not, or not of all: these tell all of that each time.
    ///
    /// # Errors
    /// A guest does not answer; it is interrupted.
    pub fn watch(&mut self) -> Result<Vec<String>, Error> {
        let object = xweave_programs::page_cache().to_vec();
        let files = self.files.clone();
        self.ask_each(|_| Request::Watch { files: files.clone(), object: object.clone() })?;
        let mut reasons = Vec::new();
        for guest in &mut self.guests {
            let Reply::Watching { watches, reason } = self.capture.answer(guest.index)? else {
                return Err(self.capture.unexpected(guest.index));
            };
            guest.watches = watches;
            let name = self.capture.sessions[guest.index].name();
            reasons.extend(reason.map(|reason| {
                format!(
                    "{name} goes through files each time, as it cannot watch all of its page cache: {reason}"
                )
            }));
        }
        Ok(reasons)
    }

    /// What they hold now.
    ///
    /// # Errors
    /// A guest does not answer, or tells more than may be; it is interrupted.
    pub fn ask(&mut self) -> Result<Vec<DomainCache>, Error> {
        self.capture.tell(Phase::Cached);
        let files = self.files.clone();
        self.ask_each(|guest| match guest.watches {
            true => Request::Changed,
            false => Request::Cached(files.clone()),
        })?;
        let mut all = Vec::new();
        for guest in &mut self.guests {
            let Reply::LookedAt(looked_at) = self.capture.answer(guest.index)? else {
                return Err(self.capture.unexpected(guest.index));
            };
            let session = &mut self.capture.sessions[guest.index];
            let (domain, told) = (session.name().to_owned(), std::mem::take(&mut session.cached).all());
            if !guest.held.take(told, looked_at.whole) {
                let message = "it tells of more cached files and pages than may be".to_owned();
                return Err(Error::Agent { domain, message });
            }
            let files = guest.held.files.values().cloned().collect();
            all.push(DomainCache { domain, pid: guest.pid, files, looked_at });
        }
        Ok(all)
    }

    /// Waits, so that the guests' agents know that somebody is there.
    ///
    /// # Errors
    /// A guest has gone; it is interrupted.
    pub fn rest(&mut self, how_long: Duration) -> Result<(), Error> {
        let until = Instant::now() + how_long;
        while Instant::now() < until {
            self.capture.until(|_| true)?;
            self.capture.wait(SOON.min(until.saturating_duration_since(Instant::now())))?;
        }
        Ok(())
    }

    fn ask_each(&mut self, request: impl Fn(&Asked) -> Request) -> Result<(), Error> {
        for guest in &self.guests {
            self.capture.sessions[guest.index].ask(request(guest));
        }
        self.capture.until(|session| !session.owes())
    }
}

/// What a guest's page cache holds, by the paths of the files, as it has told it bit by bit.
#[derive(Default)]
struct Held {
    files: BTreeMap<String, CachedFile>,
    amount: Amount,
}

impl Held {
    /// Takes what was told: all, or only what has changed. Gives whether that is no more than may be.
    fn take(&mut self, told: Vec<CachedFile>, whole: bool) -> bool {
        if whole {
            *self = Self::default();
        }
        for file in told {
            let before = self.files.remove(&file.path);
            self.amount = self.amount.minus(before.as_ref().map(Amount::of).unwrap_or_default());
            if !file.runs.is_empty() {
                self.amount = self.amount.plus(Amount::of(&file));
                self.files.insert(file.path.clone(), file);
            }
        }
        self.amount.is_within(MOST)
    }
}

#[cfg(test)]
mod tests {
    use xweave_wire::pages::Run;

    use super::*;

    fn file(path: &str, pages: u32) -> CachedFile {
        let runs = (pages > 0).then_some(Run { first: 0, pages }).into_iter().collect();
        CachedFile { path: path.into(), runs, ..CachedFile::default() }
    }

    #[test]
    fn what_has_changed_takes_the_place_of_what_was_told() {
        let mut held = Held::default();
        let holds = |held: &Held| {
            let files = held.files.values();
            files.map(|file| (file.path.clone(), file.pages())).collect::<Vec<_>>()
        };
        assert!(held.take(vec![file("/a", 1), file("/b", 2)], true));
        assert!(held.take(vec![file("/b", 3), file("/c", 4), file("/none", 0)], false));
        assert_eq!(holds(&held), [("/a".into(), 1), ("/b".into(), 3), ("/c".into(), 4)]);
        assert!(held.take(vec![file("/a", 0)], false));
        assert_eq!(holds(&held), [("/b".into(), 3), ("/c".into(), 4)]);
        assert_eq!(held.amount, Amount::of(&file("/b", 1)).plus(Amount::of(&file("/c", 1))));
        assert!(held.take(vec![file("/d", 1)], true));
        assert_eq!(holds(&held), [("/d".into(), 1)]);
    }

    #[test]
    fn a_guest_tells_no_more_bit_by_bit_than_at_once() {
        let mut held = Held::default();
        let batch = |from: usize| (0..MOST.files / 2).map(|nth| file(&(from + nth).to_string(), 1)).collect();
        assert!(held.take(batch(0), true) && held.take(batch(MOST.files), false));
        // The same again is no more.
        assert!(held.take(batch(0), false));
        assert!(!held.take(vec![file("/one more", 1)], false));
    }
}
