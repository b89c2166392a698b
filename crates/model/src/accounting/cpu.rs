//! A processor's use.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use xweave_replay::ByCpu;

use super::runs::Runs;

#[derive(Clone, Debug)]
pub(super) struct Cpu {
    /// The first thread that was seen there.
    pub(super) tid: u32,
    /// How long threads ran on it, in nanoseconds.
    pub(super) busy: u64,
    pub(super) runs: Runs,
}

impl Cpu {
    pub(super) fn of(tid: u32) -> Self {
        Self { tid, busy: 0, runs: Runs::default() }
    }
}

/// How long each one was busy, by domain.
pub(super) fn busy(
    cpus: &ByCpu<Cpu>,
    domains: &FxHashMap<u8, String>,
) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let mut busy = BTreeMap::<String, BTreeMap<u32, u64>>::new();
    for (id, here) in cpus.iter() {
        if let Some(domain) = domains.get(&id.domain) {
            busy.entry(domain.clone()).or_default().insert(id.cpu, here.busy);
        }
    }
    busy
}
