//! What the settings of an experiment changed.

use std::collections::{BTreeMap, BTreeSet};

use xweave_model::{DefaultSpec, Delay};
use xweave_wire::knob::{Knob, Pinning, ranges};

use super::{
    measure::{Measured, Vcpus},
    shift::Shift,
    stored::{Block, Experiment, Held},
};

/// How often intervals are to hold.
pub const CONFIDENCE: f64 = 0.95;

/// Causes that make up less than that of the mean under either setting are not listed; and if the halts that end otherwise
/// are a smaller share than that, a setting has not changed them.
const SMALL: f64 = 0.01;

/// Causes and domains that are listed.
const LISTED: usize = 8;

/// A block, and what its trace says.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The block.
    pub block: Block,
    /// What was measured; or why it is not counted.
    pub measured: Result<Measured, String>,
}

/// What an experiment has shown.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The experiment.
    pub experiment: Experiment,
    /// The transactions that were looked at.
    pub chosen: DefaultSpec,
    /// Its blocks, in the order in which they were recorded.
    pub blocks: Vec<Looked>,
    /// Of each setting but the first: what it changed.
    pub effects: Vec<Effect>,
}

/// What a setting changed, compared with the first.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The place of the setting.
    pub setting: usize,
    /// Rounds in which both were measured.
    pub rounds: usize,
    /// Of the median.
    pub p50: Change,
    /// Of what one in a hundred exceeds.
    pub p99: Change,
    /// Of the mean.
    pub mean: Change,
    /// Of the time for which transactions were kept, at the mean: the largest changes first.
    pub causes: Vec<(Delay, Change)>,
    /// Of how many CPUs were busy, by domain.
    pub cpus: Vec<(String, Change)>,
    /// What events show of the settings themselves.
    pub observed: Vec<Observed>,
}

/// A figure under two settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The median of the blocks under the first setting.
    pub first: f64,
    /// The same of the other.
    pub other: f64,
    /// By how much it was shifted.
    pub difference: Shift,
    /// To how much of it; none where it was nothing in some block.
    pub ratio: Option<Shift>,
}

/// What events show of a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The place of its knob.
    pub knob: usize,
    /// Of which virtual machine.
    pub vm: String,
    /// What was counted.
    pub what: &'static str,
    /// Under the first setting, in all blocks.
    pub first: f64,
    /// Under the other.
    pub other: f64,
    /// Whether that is as it was set, or differs as it should.
    pub holds: bool,
    /// What it means, where it is not as it should be.
    pub note: Option<String>,
}

/// The share of halts that ended before the vCPU slept.
pub const AWAKE: &str = "halts that did not sleep";
/// The share of entries into the guest that were on the CPUs that were asked for.
pub const ON_CPUS: &str = "entries on the CPUs that were set";
/// Exits for halts in a second.
pub const HALTS: &str = "halts a second";

/// Compares the settings of an experiment by what its blocks have shown of these transactions.
pub fn evaluate(
    experiment: Experiment,
    chosen: DefaultSpec,
    mut look: impl FnMut(&Block) -> Result<Measured, String>,
) -> Evaluation {
    let look = |block: &Block| {
        let measured = match &block.failed {
            Some(why) => Err(why.clone()),
            None => look(block),
        };
        Looked { block: block.clone(), measured }
    };
    let blocks: Vec<Looked> = experiment.blocks.iter().map(look).collect();
    let effects = (1..experiment.settings.len())
        .filter_map(|setting| Effect::of(setting, &pairs(&blocks, setting), &experiment))
        .collect();
    Evaluation { experiment, chosen, blocks, effects }
}

/// Two blocks of one round: under the first setting, and under another.
type Pair<'a> = (&'a Measured, &'a Measured);

fn pairs(blocks: &[Looked], setting: usize) -> Vec<Pair<'_>> {
    let mut rounds: BTreeMap<u32, [Option<&Measured>; 2]> = BTreeMap::new();
    for looked in blocks {
        let Ok(measured) = &looked.measured else { continue };
        match looked.block.setting as usize {
            0 => rounds.entry(looked.block.round).or_default()[0] = Some(measured),
            other if other == setting => rounds.entry(looked.block.round).or_default()[1] = Some(measured),
            _ => {}
        }
    }
    rounds.into_values().filter_map(|[first, other]| first.zip(other)).collect()
}

impl Effect {
    fn of(setting: usize, pairs: &[Pair<'_>], experiment: &Experiment) -> Option<Self> {
        let ns = |figure: fn(&Measured) -> u64| Change::of(pairs, |measured| figure(measured) as f64);
        let (p50, p99, mean) = (ns(|m| m.p50_ns)?, ns(|m| m.p99_ns)?, ns(|m| m.mean_ns)?);
        let mut causes = each(
            pairs,
            |measured| &measured.causes,
            |measured, ns| ns.copied().unwrap_or(0) as f64 / measured.requests.max(1) as f64,
        );
        causes.retain(|(_, change)| change.first.max(change.other) >= SMALL * mean.first.max(mean.other));
        causes.sort_by(|(_, one), (_, other)| {
            other.difference.estimate.abs().total_cmp(&one.difference.estimate.abs())
        });
        causes.truncate(LISTED);
        let mut cpus = each(pairs, |measured| &measured.cpus, |_, busy| busy.copied().unwrap_or(0.0));
        cpus.truncate(LISTED);
        let observed = observed(setting, pairs, experiment);
        Some(Self { setting, rounds: pairs.len(), p50, p99, mean, causes, cpus, observed })
    }
}

/// The changes of all that one of the blocks has a figure of, in the order of what that is.
fn each<K: Ord + Clone, V>(
    pairs: &[Pair<'_>],
    of: fn(&Measured) -> &BTreeMap<K, V>,
    figure: fn(&Measured, Option<&V>) -> f64,
) -> Vec<(K, Change)> {
    let names: BTreeSet<&K> =
        pairs.iter().flat_map(|(first, other)| of(first).keys().chain(of(other).keys())).collect();
    let change = |name: &K| {
        let change = Change::of(pairs, |measured| figure(measured, of(measured).get(name)))?;
        Some((name.clone(), change))
    };
    names.into_iter().filter_map(change).collect()
}

impl Change {
    /// Whether it is told from none: by what it is, and by how much that is of what it was.
    pub fn is_seen(&self) -> bool {
        let by_ratio = self.ratio.is_none_or(|ratio| ratio.low > 1.0 || ratio.high < 1.0);
        self.difference.is_seen() && by_ratio
    }

    fn of(pairs: &[Pair<'_>], figure: impl Fn(&Measured) -> f64) -> Option<Self> {
        let figures: Vec<(f64, f64)> =
            pairs.iter().map(|(first, other)| (figure(first), figure(other))).collect();
        let differences: Vec<f64> = figures.iter().map(|(first, other)| other - first).collect();
        let logarithms: Vec<f64> = figures.iter().map(|(first, other)| (other / first).ln()).collect();
        Some(Self {
            first: median(figures.iter().map(|figures| figures.0)),
            other: median(figures.iter().map(|figures| figures.1)),
            difference: Shift::of(&differences, CONFIDENCE)?,
            ratio: Shift::of(&logarithms, CONFIDENCE).map(Shift::ratio),
        })
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_unstable_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        n => f64::midpoint(figures[(n - 1) / 2], figures[n / 2]),
    }
}

/// What a knob's virtual machine did in each pair of blocks, with how long the blocks lasted.
type Seen<'a> = Vec<[(&'a Vcpus, u64); 2]>;

fn observed(setting: usize, pairs: &[Pair<'_>], experiment: &Experiment) -> Vec<Observed> {
    let mut all = Vec::new();
    for (place, held) in experiment.knobs.iter().enumerate() {
        let value = |setting: usize| experiment.settings[setting].values[place].as_ref();
        if value(0) == value(setting) {
            continue;
        }
        let text = |setting| value(setting).unwrap_or(&held.now).as_str();
        let values = [text(0), text(setting)];
        for (name, seen) in vms(held, pairs, experiment) {
            let observed = match held.knob {
                Knob::HaltPollNs => Some(polling(&seen, values)),
                Knob::PinVcpus => pinned(&seen, [value(0), value(setting)].map(|v| v.map(String::as_str))),
                Knob::IdleGovernor | Knob::GuestHaltPollNs | Knob::IdlePoll => Some(halting(&seen)),
                Knob::PinVhost | Knob::BusyPoll | Knob::BusyRead => None,
            };
            all.extend(observed.map(|observed| Observed { knob: place, vm: name, ..observed }));
        }
    }
    all
}

/// The virtual machines that a knob is about: all of its host's, the one whose it is, or the one that is its domain.
fn vms<'a>(held: &Held, pairs: &[Pair<'a>], experiment: &Experiment) -> Vec<(String, Seen<'a>)> {
    static NONE: Vcpus =
        Vcpus { halts: 0, slept: 0, shortest_sleep_ns: None, halt_exits: 0, entries: BTreeMap::new() };
    let seen = |key: &(String, u32)| -> Seen<'a> {
        let of = |measured: &'a Measured| (measured.vms.get(key).unwrap_or(&NONE), measured.span_ns);
        pairs.iter().map(|(first, other)| [of(first), of(other)]).collect()
    };
    let of_guest = |measured: &'a Measured| measured.guests.get(&held.domain);
    let guests: BTreeSet<&(String, u32)> =
        pairs.iter().flat_map(|(first, other)| of_guest(first).into_iter().chain(of_guest(other))).collect();
    let keys: BTreeSet<&(String, u32)> =
        pairs.iter().flat_map(|(first, other)| first.vms.keys().chain(other.vms.keys())).collect();
    let mut all = Vec::new();
    for key in keys {
        let (host, pid) = key;
        let vm = experiment.vms.iter().find(|vm| vm.pid == *pid && vm.host == *host);
        let name = vm.map_or_else(|| pid.to_string(), |vm| vm.name.clone());
        let is_meant = match held.knob {
            Knob::HaltPollNs => *host == held.domain,
            Knob::PinVcpus | Knob::PinVhost => held.vm.as_ref() == Some(&name),
            _ => guests.contains(key),
        };
        if is_meant {
            all.push((name, seen(key)));
        }
    }
    all
}

fn sum(seen: &Seen<'_>, which: usize, of: impl Fn(&Vcpus) -> u64) -> f64 {
    seen.iter().map(|pair| of(pair[which].0)).fold(0, u64::saturating_add) as f64
}

/// What differs in each round.
fn differs(seen: &Seen<'_>, figure: impl Fn(&Vcpus, u64) -> f64) -> bool {
    let difference = |pair: &[(&Vcpus, u64); 2]| figure(pair[1].0, pair[1].1) - figure(pair[0].0, pair[0].1);
    let differences: Vec<f64> = seen.iter().map(difference).collect();
    Shift::of(&differences, CONFIDENCE).is_some_and(|shift| shift.low > 0.0 || shift.high < 0.0)
}

/// Whether KVM polled more or less.
fn polling(seen: &Seen<'_>, values: [&str; 2]) -> Observed {
    let share = |which| {
        let halts = sum(seen, which, |vcpus| vcpus.halts);
        (halts - sum(seen, which, |vcpus| vcpus.slept)) / halts.max(1.0)
    };
    let (first, other) = (share(0), share(1));
    let changed = (first - other).abs() >= SMALL;
    let holds = changed
        && differs(seen, |vcpus, _| {
            vcpus.halts.saturating_sub(vcpus.slept) as f64 / vcpus.halts.max(1) as f64
        });
    // Under which KVM polls longest, and for how long.
    let longest = values.map(|value| value.parse().unwrap_or(0));
    let (most, ns): (usize, u64) = if longest[1] > longest[0] { (1, longest[1]) } else { (0, longest[0]) };
    let shortest = seen.iter().filter_map(|pair| pair[most].0.shortest_sleep_ns).min();
    let why = || {
        if sum(seen, most, |vcpus| vcpus.halts) == 0.0 {
            return "it never halted".to_owned();
        }
        match shortest {
            Some(shortest) if shortest >= ns => format!(
                "each time that it slept it did so for longer than KVM polls: {shortest} ns at least, against {ns} ns"
            ),
            _ => "it slept also for shorter times than KVM polls. KVM_CAP_HALT_POLL may have set its polling apart, its \
                  guest may poll itself (governor haltpoll) and have switched KVM's off, other threads may have wanted \
                  its CPU; and before Linux 6.2 a virtual machine keeps the value that it was started with"
                .to_owned(),
        }
    };
    let note = (!holds).then(|| format!("the setting had no effect on this VM's halts: {}", why()));
    Observed { knob: 0, vm: String::new(), what: AWAKE, first, other, holds, note }
}

/// Whether vCPUs were on their CPUs.
fn pinned(seen: &Seen<'_>, values: [Option<&str>; 2]) -> Option<Observed> {
    let sets = values.map(|value| value.and_then(Pinning::parse).map(|pinning| pinning.cpus));
    let asked = sets[1].as_ref().or(sets[0].as_ref())?;
    let on = |which: usize| {
        let inside =
            |vcpus: &Vcpus| vcpus.entries.iter().filter(|(cpu, _)| asked.contains(cpu)).map(|(_, n)| n).sum();
        sum(seen, which, inside) / sum(seen, which, |vcpus| vcpus.entries.values().sum()).max(1.0)
    };
    let which = usize::from(sets[1].is_some());
    let others: BTreeSet<u32> = seen.iter().flat_map(|pair| pair[which].0.entries.keys().copied()).collect();
    let others: Vec<u32> = others.into_iter().filter(|cpu| !asked.contains(cpu)).collect();
    let never = sum(seen, which, |vcpus| vcpus.entries.values().sum()) == 0.0;
    let note = match (never, &*others) {
        (true, _) => Some("it was not seen to enter its guest".to_owned()),
        (false, []) => None,
        (false, others) => Some(format!("it ran on CPUs {} as well", ranges(others))),
    };
    Some(Observed {
        knob: 0,
        vm: String::new(),
        what: ON_CPUS,
        first: on(0),
        other: on(1),
        holds: note.is_none(),
        note,
    })
}

/// Whether a guest halted more or less often.
fn halting(seen: &Seen<'_>) -> Observed {
    let second = |ns: u64| ns.max(1) as f64 / 1e9;
    let rate = |which: usize| {
        let seconds: f64 = seen.iter().map(|pair| second(pair[which].1)).sum();
        sum(seen, which, |vcpus| vcpus.halt_exits) / seconds.max(f64::MIN_POSITIVE)
    };
    let holds = differs(seen, |vcpus, ns| vcpus.halt_exits as f64 / second(ns));
    let note =
        (!holds).then(|| "it halted as often under both: the setting had no effect on that".to_owned());
    let (first, other) = (rate(0), rate(1));
    Observed { knob: 0, vm: String::new(), what: HALTS, first, other, holds, note }
}

#[cfg(test)]
mod tests;
