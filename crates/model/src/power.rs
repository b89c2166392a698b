//! What processors save power with: idle states, and frequencies below their highest, as the group `power` tells them.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use xweave_replay::CpuId;
use xweave_trace::{
    Trace,
    event::{Event, Kind},
};

/// More processors than any machine has are made up.
const CPUS: usize = 1 << 13;

/// Frequencies are told apart by so many kHz.
const STEP: u32 = 10_000;

/// No processor is faster, in kHz: what is more is made up.
const FASTEST: u64 = 100_000_000;

/// What a processor's saving of power had to do with a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Power {
    /// It was in this idle state, as its driver numbers it, and had to come out of it first.
    Idle(u8),
    /// It ran at `khz`, and not at the highest frequency that it had in the recording: 10 MHz or more below.
    Slow {
        /// At which frequency, to the next 10 MHz.
        khz: u32,
        /// At which it could have run.
        highest: u32,
    },
}

impl Power {
    /// The share of the time that it would not have taken at the highest frequency, if none of it was waiting for memory.
    pub fn slowed(self) -> f64 {
        match self {
            Self::Idle(_) => 0.0,
            Self::Slow { khz, highest } => 1.0 - f64::from(khz.min(highest)) / f64::from(highest.max(1)),
        }
    }
}

/// A processor's idle states and frequencies, in the order of their times; none where it is in none, or not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct PowerOfCpu {
    idle: VecDeque<(i64, Option<u8>)>,
    khz: VecDeque<(i64, Option<u32>)>,
}

impl PowerOfCpu {
    /// It goes into an idle state, or comes out.
    pub(crate) fn idles(&mut self, event: &Event) {
        self.idle.push_back((event.time_ns, u8::try_from(event.code).ok()));
    }

    /// It changes its frequency.
    pub(crate) fn runs_at(&mut self, time: i64, khz: u32) {
        self.khz.push_back((time, Some(khz)));
    }

    /// What it did from that time on is not known.
    pub(crate) fn lose(&mut self, time: i64) {
        self.idle.push_back((time, None));
        self.khz.push_back((time, None));
    }

    /// The idle state that it is in at a time.
    pub(crate) fn idle_at(&self, time: i64) -> Option<u8> {
        let next = self.idle.partition_point(|(since, _)| *since <= time);
        self.idle.get(next.checked_sub(1)?)?.1
    }

    /// Its frequencies between two times, where they are known.
    pub(crate) fn khz(&self, from: i64, to: i64) -> impl DoubleEndedIterator<Item = (i64, i64, u32)> + '_ {
        let first = self.khz.partition_point(|(since, _)| *since <= from).saturating_sub(1);
        (first..self.khz.len()).filter_map(move |at| {
            let (since, khz) = self.khz[at];
            let until = self.khz.get(at + 1).map_or(i64::MAX, |(until, _)| *until);
            let (from, to) = (since.max(from), until.min(to));
            khz.filter(|_| from < to).map(|khz| (from, to, khz))
        })
    }

    /// Only the last before that time is needed.
    pub(crate) fn forget_before(&mut self, time: i64) {
        let old = self.idle.partition_point(|(since, _)| *since <= time);
        self.idle.drain(..old.saturating_sub(1));
        let old = self.khz.partition_point(|(since, _)| *since <= time);
        self.khz.drain(..old.saturating_sub(1));
    }
}

/// Of which processor an event tells at which frequency it runs, in kHz.
pub(crate) fn frequency(event: &Event) -> Option<(CpuId, u32)> {
    let cpu = u32::try_from(event.object).ok().filter(|cpu| (*cpu as usize) < CPUS)?;
    let khz = u32::try_from(event.bytes).ok().filter(|khz| *khz > 0 && event.bytes <= FASTEST)?;
    let rounded = (khz.saturating_add(STEP / 2) / STEP * STEP).max(STEP);
    Some((CpuId { domain: event.domain, cpu }, rounded))
}

/// The highest frequency of each processor in a recording.
#[derive(Clone, Debug, Default)]
pub struct Highest(FxHashMap<CpuId, u32>);

impl Highest {
    /// Of a trace: its events are gone through once more, if it says that it has such.
    pub fn of(trace: &Trace) -> Self {
        let recorded = |domain: &xweave_trace::Domain| {
            domain.events.iter().any(|group| Some(group.as_str()) == Kind::CpuFrequency.group_name())
        };
        let mut highest = Self::default();
        if trace.manifest().domains.iter().any(recorded) {
            trace.events().for_each(|event| highest.add(&event));
        }
        highest
    }

    /// Takes in an event.
    pub fn add(&mut self, event: &Event) {
        if event.kind == Kind::CpuFrequency
            && let Some((cpu, khz)) = frequency(event)
        {
            let highest = self.0.entry(cpu).or_default();
            *highest = khz.max(*highest);
        }
    }

    /// Whether nothing is known of any.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a frequency of a processor means.
    pub(crate) fn slow(&self, cpu: CpuId, khz: u32) -> Option<Power> {
        let highest = *self.0.get(&cpu)?;
        (khz < highest).then_some(Power::Slow { khz, highest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, time: i64, fill: impl FnOnce(&mut Event)) -> Event {
        let mut event = Event::new(kind, 1, time, 0, 0);
        fill(&mut event);
        event
    }

    #[test]
    fn a_state_lasts_until_the_next_event_or_a_loss() {
        let mut cpu = PowerOfCpu::default();
        for (time, code) in [(10, 2), (20, -1), (30, 1)] {
            cpu.idles(&event(Kind::CpuIdle, time, |event| event.code = code));
        }
        cpu.lose(40);
        assert_eq!(
            [5, 10, 19, 20, 35, 45].map(|time| cpu.idle_at(time)),
            [None, Some(2), Some(2), None, Some(1), None]
        );
        cpu.forget_before(35);
        assert_eq!([15, 35].map(|time| cpu.idle_at(time)), [None, Some(1)]);
    }

    #[test]
    fn frequencies_are_clipped_to_what_is_asked_for() {
        let mut cpu = PowerOfCpu::default();
        cpu.runs_at(10, 1_000_000);
        cpu.runs_at(20, 2_000_000);
        cpu.lose(30);
        let all = |from, to| cpu.khz(from, to).collect::<Vec<_>>();
        assert_eq!(all(5, 50), [(10, 20, 1_000_000), (20, 30, 2_000_000)]);
        assert_eq!(all(12, 15), [(12, 15, 1_000_000)]);
        assert_eq!(all(30, 40), []);
    }

    #[test]
    fn what_no_processor_has_is_not_believed() {
        let told = |object, bytes| {
            frequency(&event(Kind::CpuFrequency, 1, |event| (event.object, event.bytes) = (object, bytes)))
        };
        assert_eq!(told(3, 3_401_000), Some((CpuId { domain: 1, cpu: 3 }, 3_400_000)));
        for (object, bytes) in [(u64::MAX, 3_400_000), (8192, 3_400_000), (0, 0), (0, u64::MAX)] {
            assert_eq!(told(object, bytes), None, "{object} {bytes}");
        }
    }

    #[test]
    fn only_what_is_below_the_highest_is_slow() {
        let mut highest = Highest::default();
        for khz in [1_200_000, 3_400_000, 2_000_000] {
            highest.add(&event(Kind::CpuFrequency, 1, |event| event.bytes = khz));
        }
        let cpu = CpuId { domain: 1, cpu: 0 };
        assert_eq!(highest.slow(cpu, 3_400_000), None);
        assert_eq!(highest.slow(CpuId { domain: 1, cpu: 1 }, 1_200_000), None);
        let slow = highest.slow(cpu, 1_700_000).unwrap();
        assert!((slow.slowed() - 0.5).abs() < 1e-9);
        assert_eq!(slow, Power::Slow { khz: 1_700_000, highest: 3_400_000 });
    }
}
