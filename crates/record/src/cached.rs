//! What the page caches of domains hold.

use xweave_weave::Role;
use xweave_wire::{
    message::{Reply, Request},
    pages::{Amount, CachedFile, Files, LookedAt, MOST},
};

use crate::{
    Budget, DomainSpec, Error, Phase, domain, identity,
    recording::{Means, answered, connect, read_facts},
    violation::Violation,
};

/// A guest, and what its page cache holds.
#[derive(Clone, Debug)]
pub struct DomainCache {
    /// Its name.
    pub domain: String,
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
    identity::check(&answered(&capture).collect::<Vec<_>>())?;
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
        let files = std::mem::take(&mut session.cached).files;
        all.push(DomainCache { domain: session.name().to_owned(), files, looked_at });
    }
    Ok(all)
}

/// What a domain has told of its page cache.
#[derive(Default)]
pub(crate) struct Told {
    files: Vec<CachedFile>,
    amount: Amount,
}

impl Told {
    /// Takes more of it: pieces of a large file come one after the other.
    pub(crate) fn take(&mut self, files: Vec<CachedFile>) -> Result<(), Violation> {
        for file in files {
            self.amount = self.amount.and(&file);
            if !self.amount.is_within(MOST) {
                return Err(Violation::Cached);
            }
            match self.files.last_mut().filter(|last| goes_on(last, &file)) {
                Some(last) => {
                    last.runs.extend(file.runs);
                    last.contents.extend(file.contents);
                }
                None => self.files.push(file),
            }
        }
        Ok(())
    }
}

/// Whether that is the next piece of the same file.
fn goes_on(file: &CachedFile, next: &CachedFile) -> bool {
    let is = |of: &CachedFile| (of.inode, of.size, of.modified_ns, of.contents.is_empty());
    let behind = file.runs.last().map_or(0, |run| run.end());
    is(file) == is(next) && file.path == next.path && next.runs.first().is_some_and(|run| run.first >= behind)
}

#[cfg(test)]
mod tests {
    use xweave_wire::pages::Run;

    use super::*;

    fn file(path: &str, runs: &[(u64, u32)]) -> CachedFile {
        let runs: Vec<_> = runs.iter().map(|&(first, pages)| Run { first, pages }).collect();
        CachedFile { path: path.into(), runs, ..CachedFile::default() }
    }

    #[test]
    fn pieces_of_a_file_become_one_and_stay_in_order() {
        let mut told = Told::default();
        told.take(vec![file("/a", &[(0, 2)]), file("/a", &[(2, 1), (9, 1)])]).unwrap();
        told.take(vec![file("/a", &[(10, 5)]), file("/b", &[(0, 1)]), file("/b", &[(0, 1)])]).unwrap();
        let said: Vec<_> = told.files.iter().map(|file| (&*file.path, file.runs.len())).collect();
        assert_eq!(said, [("/a", 4), ("/b", 1), ("/b", 1)]);
    }

    #[test]
    fn no_domain_tells_more_than_may_be_however_small_the_pieces() {
        let mut told = Told::default();
        let batch = || vec![file("", &[(0, 1)]); MOST.files / 4];
        for _ in 0..4 {
            told.take(batch()).unwrap();
        }
        assert_eq!(told.take(batch()).unwrap_err(), Violation::Cached);
    }
}
