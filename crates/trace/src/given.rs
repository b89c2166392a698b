//! The names that a trace in the making has for its events, and how many a domain may have.
//!
//! A hostile guest can give each of its events a thread's name of its own: names are remembered as long as the trace is
//! written or read, so that each domain may have so many only.

use std::collections::BTreeMap;

use crate::{
    event::{Name, Names},
    manifest::Manifest,
};

/// How many different names a domain's events may have: more than threads have on the largest machines (a name has 15
/// bytes, and the next of a pool's workers has that of one that ended).
pub(crate) const OF_DOMAIN: usize = 64 << 10;

/// How many more those of all domains may have together, where it is not known whose they are, or where the trace is of
/// a version that did not count them by domain.
pub(crate) const OF_ALL: usize = 1 << 20;

/// The names, and what they take of each domain's room.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) names: Names,
    shares: BTreeMap<Option<u8>, Share>,
}

/// What one domain has had.
struct Share {
    room: usize,
    /// Events that were left without a name.
    unnamed: u64,
    /// What the manifest says about that.
    warning: String,
}

impl Given {
    /// The name for a text that events of that domain have, or of any; the empty one where there is no room for it.
    pub(crate) fn give(&mut self, domain: Option<u8>, text: &str) -> Name {
        let room = if domain.is_some() { OF_DOMAIN } else { OF_ALL };
        let new = || Share { room, unnamed: 0, warning: String::new() };
        let share = self.shares.entry(domain).or_insert_with(new);
        let name = self.names.give_within(text, &mut share.room);
        share.unnamed += u64::from(name.is_none());
        name.unwrap_or_default()
    }

    /// Has the manifest tell how many events have no name, once for each domain.
    pub(crate) fn tell(&mut self, manifest: &mut Manifest) {
        for (domain, share) in self.shares.iter_mut().filter(|(_, share)| share.unnamed > 0) {
            let found = manifest.domains.iter().find(|found| Some(found.number) == *domain);
            let whose = found.map_or("all domains", |found| &found.name);
            let room = if domain.is_some() { OF_DOMAIN } else { OF_ALL };
            let warning = format!(
                "{whose}: {} events are stored without a name: they had more than {room} different ones",
                share.unnamed
            );
            match manifest.warnings.iter_mut().find(|said| **said == share.warning) {
                Some(said) => said.clone_from(&warning),
                None => manifest.warnings.push(warning.clone()),
            }
            share.warning = warning;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Domain;

    #[test]
    fn a_domain_has_so_many_names_and_what_is_beyond_is_told_once() {
        let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
        let mut manifest = Manifest {
            domains: vec![domain("host", 1), domain("vm1", 2)],
            warnings: vec!["first".into()],
            ..Manifest::default()
        };
        let mut given = Given::default();
        let known = given.give(Some(1), "nginx");
        for nth in 0..OF_DOMAIN {
            assert_ne!(given.give(Some(2), &format!("t{nth}")), Name::default());
        }
        given.tell(&mut manifest);
        assert_eq!(manifest.warnings, ["first"]);
        assert_eq!(given.give(Some(2), "one more"), Name::default());
        given.tell(&mut manifest);
        assert_eq!(given.give(Some(2), "and another"), Name::default());
        given.tell(&mut manifest);
        given.tell(&mut manifest);
        let told = "vm1: 2 events are stored without a name: they had more than 65536 different ones";
        assert_eq!(manifest.warnings, ["first", told]);
        // What is known costs nothing, and others have their own room.
        assert_eq!(given.give(Some(2), "nginx"), known);
        assert_ne!(given.give(Some(1), "one more"), Name::default());
        assert_ne!(given.give(None, "sched_stat_runtime"), Name::default());
    }
}
