//! A stretch of a domain's time within which its clocks did not jump.
//!
//! A guest that was paused, migrated, or whose TSC was written has other maps than before. So a domain's time is a row of
//! epochs, each with maps of its own, and between two of them a break: the time from the last reading that fitted the
//! old maps to the first of the new.

use xweave_wire::message::Vm;

use super::{
    Exchange, Stamp,
    map::{Map, Spacing},
    vm,
};

/// Samples come several a second, with brackets of some ten nanoseconds.
const SAMPLES: Spacing = Spacing { least_ns: 100_000_000, most_ns: 1_000_000_000 };

/// Exchanges come about once a second, with brackets of some ten microseconds.
const EXCHANGES: Spacing = Spacing { least_ns: 500_000_000, most_ns: 4_000_000_000 };

/// Exchanges that are kept to find a guest's machine: the tightest.
const SIGHTINGS: usize = 64;

/// How a domain's times get onto the line.
pub(super) enum Way {
    TscOffset(Vm),
    /// With a machine that changes nothing.
    CommonTsc(Vm),
    /// With the reason why not by the TSC.
    Exchange(NoTsc),
}

/// Why a domain's times do not get onto the line by its TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoTsc {
    #[error("its clock jumped more than {0} times")]
    ClockJumped(usize),
    #[error("its TSC, or its clock, jumped {0} times")]
    Jumped(usize),
    #[error("its clock and its TSC do not go together")]
    Contradicted,
    #[error("Xen emulates its TSC")]
    Emulated,
    #[error("the tsc-offsets of {0} virtual machines fit")]
    Several(usize),
    #[error("the tsc-offset of the virtual machine of process {0} does not fit")]
    NotOf(u32),
    #[error("no tsc-offset fits (of {0} virtual machines)")]
    NoneOf(usize),
    #[error("its CPUs' TSCs differ")]
    Differ,
    #[error("the reference was not heard of")]
    NoReference,
    #[error("no TSC that can be used on both sides")]
    Unusable,
    #[error("no exchanges that tell virtual machines apart")]
    NoSightings,
}

impl Way {
    /// What makes the domain's TSC of the reference's.
    pub(super) fn machine(&self) -> Option<&Vm> {
        match self {
            Self::TscOffset(machine) | Self::CommonTsc(machine) => Some(machine),
            Self::Exchange(_) => None,
        }
    }
}

pub(super) struct Epoch {
    /// The domain's clock and its own TSC.
    pub(super) own: Map,
    /// Its clock and the controller's TSC.
    pub(super) hub: Map,
    /// The tightest exchanges.
    pub(super) kept: Vec<Exchange>,
    pub(super) way: Option<Way>,
    /// Which epoch of the reference it is converted with.
    pub(super) reference: usize,
    /// When the first exchange was, in the domain's nanoseconds.
    pub(super) first: Option<i64>,
    /// When the last exchange was: up to there nothing has contradicted it.
    pub(super) checked: Option<i64>,
    /// Its end, where another has begun.
    pub(super) ended: Option<i64>,
    /// No time of it is earlier on the time line, nor later: times of a domain keep their order over a break.
    pub(super) floor: i64,
    pub(super) ceiling: i64,
    /// What contradicted the epoch before; none for a domain's first.
    pub(super) jump: Option<String>,
    /// Whether the reference has told its virtual machines since it began.
    pub(super) vms_read: bool,
    /// Whether errors are bounded: not in a domain whose clock has jumped too often to be looked at any more.
    pub(super) bounded: bool,
}

impl Epoch {
    pub(super) fn new(reference: usize, jump: Option<String>) -> Self {
        Self {
            own: Map::new(SAMPLES),
            hub: Map::new(EXCHANGES),
            kept: Vec::new(),
            way: None,
            reference,
            first: None,
            checked: None,
            ended: None,
            floor: i64::MIN,
            ceiling: i64::MAX,
            jump,
            vms_read: false,
            bounded: true,
        }
    }

    /// Takes an exchange that contradicts nothing, of that time of the domain.
    pub(super) fn add(&mut self, exchange: Exchange, mono: i64) {
        self.own.add(exchange.own());
        self.hub.add(exchange.hub());
        self.first.get_or_insert(mono);
        self.checked = self.checked.max(Some(mono));
        self.kept.push(exchange);
        if self.kept.len() > SIGHTINGS {
            let width = |e: &Exchange| e.received_tsc.wrapping_sub(e.sent_tsc);
            self.kept.sort_by_key(width);
            self.kept.truncate(SIGHTINGS / 2);
        }
    }

    /// Whether a sample is of the epoch before: some come later than what was read after them.
    pub(super) fn is_before(&self, mono_ns: u64) -> bool {
        self.jump.is_some()
            && self.first.is_some_and(|first| i64::try_from(mono_ns).is_ok_and(|at| at < first))
    }

    /// No more readings will come.
    pub(super) fn finish(&mut self) {
        self.own.finish();
        self.hub.finish();
    }

    /// By how much, in ticks, the TSCs of its processors may differ.
    pub(super) fn spread(&self) -> u64 {
        let machine = self.way.as_ref().and_then(Way::machine);
        machine.and_then(vm::offset).map_or(0, |(_, spread)| spread)
    }

    /// A time of this epoch.
    pub(super) fn stamp(&self, ns: i64, error_ns: u64) -> Stamp {
        let bounded = ns.clamp(self.floor, self.ceiling.max(self.floor));
        let error_ns = if self.bounded { error_ns.saturating_add(bounded.abs_diff(ns)) } else { u64::MAX };
        Stamp { ns: bounded, error_ns }
    }
}
