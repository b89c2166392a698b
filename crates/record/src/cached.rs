//! What the page caches of domains hold.

use xweave_weave::Role;
use xweave_wire::{
    message::{Reply, Request},
    pages::{CachedFile, Files, LookedAt},
};

use crate::{
    Budget, DomainSpec, Error, Phase, domain, identity,
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

/// Asks these guests for what they hold of such files.
///
/// # Errors
/// None of the domains is a guest; one cannot be reached or does not answer; it is interrupted.
pub fn cached(
    domains: &[DomainSpec],
    files: &Files,
    progress: &mut dyn FnMut(Phase<'_>),
) -> Result<Vec<DomainCache>, Error> {
    let specs = domain::complete(domains)?;
    xweave_interrupt::install(xweave_interrupt::Again::Waits, xweave_interrupt::Blocked::GoesOn);
    let mut capture = connect(specs, &Budget::default(), &Means::usual(), progress)?;
    read_facts(&mut capture)?;
    introduce(&mut capture)?;
    let pids = identity::pids(&answered(&capture).collect::<Vec<_>>());
    capture.tell(Phase::Cached);
    let guests = (0..capture.sessions.len()).filter(|index| capture.sessions[*index].role() == Role::Guest);
    let guests: Vec<usize> = guests.collect();
    for index in &guests {
        capture.sessions[*index].ask(Request::Cached(files.clone()));
    }
    capture.until(|session| !session.owes())?;
    let mut all = Vec::new();
    for index in guests {
        let Reply::LookedAt(looked_at) = capture.answer(index)? else {
            return Err(capture.unexpected(index));
        };
        let session = &mut capture.sessions[index];
        let files = std::mem::take(&mut session.cached).all();
        all.push(DomainCache { domain: session.name().to_owned(), pid: pids[index], files, looked_at });
    }
    Ok(all)
}
