//! Recordings of events that tests look at.

use std::{collections::HashMap, path::Path};

use serde_json::Value;
use xweave_trace::{
    Event, Trace,
    event::{Connection, Kind, Names, Sending},
};

use crate::world::World;

/// A recording of events, read.
pub struct Recorded {
    /// In the order of their times.
    pub events: Vec<Event>,
    /// Texts of events.
    pub names: Names,
    /// Of domains, by their names.
    pub numbers: HashMap<String, u8>,
    /// `trace.json`.
    pub manifest: Value,
}

impl Recorded {
    /// One in the host.
    pub fn pull(world: &World, trace: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let local = dir.path().join("trace");
        world.pull("host", trace, &local);
        Self::open(&local)
    }

    /// One in a folder.
    pub fn open(dir: &Path) -> Self {
        let trace = Trace::open(dir).unwrap();
        let domains = trace.manifest().domains.iter();
        let numbers = domains.map(|domain| (domain.name.clone(), domain.number)).collect();
        let mut merged = trace.events();
        let events = merged.by_ref().collect();
        assert!(merged.damaged().is_empty());
        let names = merged.names().clone();
        let manifest = serde_json::from_slice(&std::fs::read(dir.join("trace.json")).unwrap()).unwrap();
        Self { events, names, numbers, manifest }
    }

    /// Those of a domain and of some kinds.
    pub fn of<'r>(&'r self, domain: &str, kinds: &'r [Kind]) -> impl Iterator<Item = &'r Event> {
        let number = self.numbers[domain];
        self.events.iter().filter(move |event| event.domain == number && kinds.contains(&event.kind))
    }

    /// Sums a counter of losses (`dropped`, `missed`) over all domains and kinds.
    pub fn lost(&self, counter: &str) -> u64 {
        let losses = self.manifest["loss"]["events"].as_array().unwrap();
        losses.iter().map(|loss| loss[counter].as_u64().unwrap()).sum()
    }

    /// Sums what was moved on connections, less what was not sent after all.
    pub fn bytes(&self, domain: &str, kind: Kind, of: impl Fn(Connection) -> bool) -> u64 {
        let moved =
            self.of(domain, std::slice::from_ref(&kind)).filter(|event| of(Connection(event.position)));
        let (mut all, mut not) = (0, 0);
        for event in moved {
            let unsent =
                kind == Kind::Send && matches!(Sending::of(event.code), Sending::Shortens | Sending::Cancels);
            *if unsent { &mut not } else { &mut all } += event.bytes;
        }
        all - not
    }
}
