//! A processor, and who has it.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::runs::Runs;
use crate::{interrupt::Interrupts, vcpu::CpuId};

#[derive(Clone, Debug)]
pub(super) struct Cpu {
    pub(super) tid: u32,
    pub(super) since: i64,
    /// How long threads ran on it, in nanoseconds.
    pub(super) busy: u64,
    pub(super) interrupts: Interrupts,
    pub(super) runs: Runs,
}

impl Cpu {
    pub(super) fn of(tid: u32, since: i64) -> Self {
        Self { tid, since, busy: 0, interrupts: Interrupts::default(), runs: Runs::default() }
    }
}

/// How long each one was busy, by domain.
pub(super) fn busy(
    cpus: &FxHashMap<CpuId, Cpu>,
    domains: &FxHashMap<u8, String>,
) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let mut busy = BTreeMap::<String, BTreeMap<u32, u64>>::new();
    for (id, here) in cpus {
        if let Some(domain) = domains.get(&id.domain) {
            busy.entry(domain.clone()).or_default().insert(id.cpu, here.busy);
        }
    }
    busy
}
