//! What the first records of a file say of all: how fast the TSC counts, and who ran when they begin.

use rustc_hash::FxHashMap;

use super::{
    order::Order,
    record::{Vcpu, What},
};
use crate::input::Input;

/// So much of a file is looked at, in bytes: seconds of the busiest machine.
pub(super) const BYTES: u64 = 32 << 20;

/// The same in records, which have sixteen bytes each, about.
const RECORDS: u64 = BYTES / 16;

/// Less time than this says too little of the TSC's rate, in nanoseconds.
const LEAST: u64 = 10_000_000;

/// Between two switches may be so many ticks: what a vCPU has run is told modulo 2³² nanoseconds, and no TSC counts fewer
/// than half as many in that time.
const MOST: u64 = 1 << 31;

/// How fast TSCs count, in Hz.
pub const CPU_HZ: std::ops::RangeInclusive<u64> = 500_000_000..=10_000_000_000;

/// What the first records say.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Rate of the TSC, in Hz, if it can be told.
    pub hz: Option<u64>,
    /// By CPU, the vCPU that it has when its records begin, where these tell.
    pub begin: FxHashMap<u32, Option<Vcpu>>,
    /// It is told who has a CPU: `TRC_SCHED_MIN`.
    pub runstates: bool,
    /// How many that are.
    pub records: u64,
}

/// Adds up how long vCPUs ran by the TSC and by Xen's time.
#[derive(Debug, Default)]
struct Rate {
    /// By CPU, when it went from a vCPU last.
    last: FxHashMap<u32, u64>,
    ticks: u64,
    ns: u64,
}

impl Survey {
    /// Goes over the first of those records of a file, up to that byte, whose TSCs are meant.
    pub(super) fn of(input: &Input, end: u64, is_meant: &dyn Fn(u64) -> bool) -> Self {
        let (mut survey, mut rate) = (Self::default(), Rate::default());
        let mut order = Order::of(input, end);
        while let Some(next) = order.next() {
            let (cpu, tsc) = (next.cpu, next.record.tsc);
            if !is_meant(tsc) {
                continue;
            }
            survey.records += 1;
            if survey.records > RECORDS {
                break;
            }
            // Who it is is known from when he leaves; who comes first has not been there before.
            match next.record.what() {
                What::Runstate { vcpu, from, to } => {
                    survey.runstates = true;
                    if from.runs() {
                        survey.begin.entry(cpu).or_insert(Some(vcpu));
                    } else if to.runs() {
                        survey.begin.entry(cpu).or_insert(None);
                    }
                }
                What::Continues(vcpu) => {
                    survey.runstates = true;
                    survey.begin.entry(cpu).or_insert(Some(vcpu));
                }
                What::Leaves { vcpu, ran_ns } => {
                    survey.begin.entry(cpu).or_insert(Some(vcpu));
                    rate.leaves(cpu, tsc, ran_ns);
                }
                What::Lost { .. } => {
                    survey.begin.entry(cpu).or_insert(None);
                    rate.last.remove(&cpu);
                }
                _ => {}
            }
        }
        survey.hz = rate.hz();
        survey
    }
}

impl Rate {
    /// A CPU goes from a vCPU that has run for so long, which is since it last went from one.
    fn leaves(&mut self, cpu: u32, tsc: u64, ran_ns: u32) {
        let Some(ticks) = self.last.insert(cpu, tsc).and_then(|last| tsc.checked_sub(last)) else { return };
        if ran_ns > 0 && (1..MOST).contains(&ticks) {
            self.ticks = self.ticks.saturating_add(ticks);
            self.ns = self.ns.saturating_add(ran_ns.into());
        }
    }

    fn hz(&self) -> Option<u64> {
        let hz = u128::from(self.ticks) * 1_000_000_000 / u128::from(self.ns.max(1));
        u64::try_from(hz).ok().filter(|hz| self.ns >= LEAST && CPU_HZ.contains(hz))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_all_switches_together() {
        let mut rate = Rate::default();
        // 2.5 ticks a nanosecond; when a switch is told is not exactly when it was.
        let mut tsc = 1 << 40;
        for (ran, late) in [(4_000_000u32, 100), (3_000_000, 0), (5_000_000, 70), (1_000_000, 100)] {
            tsc += u64::from(ran) * 5 / 2;
            rate.leaves(0, tsc + late, ran);
        }
        assert_eq!(rate.hz(), None);
        tsc += 10_000_000;
        rate.leaves(0, tsc + 100, 4_000_000);
        assert_eq!(rate.hz(), Some(2_500_000_000));
    }

    #[test]
    fn what_cannot_be_is_no_rate() {
        let mut rate = Rate::default();
        // Longer than can be told, and back in time.
        for tsc in [0, MOST, 5] {
            rate.leaves(0, tsc, 700_000_000);
        }
        assert_eq!((rate.ticks, rate.hz()), (0, None));
        for tsc in [100, 200] {
            rate.leaves(0, tsc, u32::MAX);
        }
        assert_eq!(rate.hz(), None);
    }
}
