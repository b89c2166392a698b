//! What `xweave vary DIR --json` prints of an experiment, and `xweave vary --knobs --json`: the keys are described in
//! `docs/vary.md`.

use std::io::{self, Write};

use serde::Serialize;
use xweave_model::Delay;
use xweave_record::DomainKnobs;
use xweave_vary::experiment::{
    Evaluation, Shift,
    evaluate::{self, Looked},
    stored::{Held, Setting},
};
use xweave_wire::knob;

use crate::words::{Sentence, causes};

/// Writes the document of an experiment.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, evaluation: &Evaluation) -> io::Result<()> {
    super::write(out, &Experiment::new(evaluation))
}

/// Writes the document of the knobs that there are.
///
/// # Errors
/// Those of `out`.
pub fn write_knobs(out: &mut impl Write, domains: &[DomainKnobs]) -> io::Result<()> {
    let states = domains.iter().flat_map(|domain| domain.knobs.iter().map(move |state| (domain, state)));
    let knob = |(domain, state): (&DomainKnobs, &knob::State)| Knob {
        knob: state.knob.name(),
        domain: domain.domain.clone(),
        vm: state.vm.clone(),
        value: state.value.clone(),
        choices: state.choices.clone(),
        available: state.unavailable.is_none(),
        reason: state.unavailable.clone(),
    };
    super::write(out, &Knobs { knobs: states.map(knob).collect() })
}

#[derive(Serialize)]
struct Knobs {
    knobs: Vec<Knob>,
}

#[derive(Serialize)]
struct Knob {
    knob: &'static str,
    domain: String,
    vm: Option<String>,
    value: String,
    choices: Vec<String>,
    available: bool,
    reason: Option<String>,
}

#[derive(Serialize)]
struct Experiment<'a> {
    transaction: &'a str,
    command: &'a [String],
    seed: u64,
    rounds: u32,
    ended: Option<&'a str>,
    knobs: &'a [Held],
    settings: Vec<Named<'a>>,
    blocks: Vec<Block<'a>>,
    effects: Vec<Effect<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: String,
    #[serde(flatten)]
    setting: &'a Setting,
}

#[derive(Serialize)]
struct Block<'a> {
    number: u32,
    round: u32,
    setting: u32,
    read: &'a [Held],
    not_counted: Option<&'a str>,
    transactions: Option<u64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    mean_ns: Option<u64>,
}

#[derive(Serialize)]
struct Effect<'a> {
    setting: usize,
    rounds: usize,
    confidence: f64,
    p50: Times,
    p99: Times,
    mean: Times,
    causes: Vec<Cause>,
    cpus: Vec<Cpus<'a>>,
    observed: Vec<Observed<'a>>,
}

#[derive(Serialize)]
struct Times {
    baseline_ns: i64,
    with_ns: i64,
    difference_ns: i64,
    low_ns: i64,
    high_ns: i64,
    visible_ns: i64,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    seen: bool,
}

#[derive(Serialize)]
struct Cause {
    cause: Sentence,
    #[serde(flatten)]
    times: Times,
}

#[derive(Serialize)]
struct Cpus<'a> {
    domain: &'a str,
    baseline: f64,
    with: f64,
    difference: f64,
    low: f64,
    high: f64,
    seen: bool,
}

#[derive(Serialize)]
struct Observed<'a> {
    knob: usize,
    vm: &'a str,
    what: &'static str,
    baseline: f64,
    with: f64,
    holds: bool,
    note: Option<&'a str>,
}

impl<'a> Experiment<'a> {
    fn new(evaluation: &'a Evaluation) -> Self {
        let of = &evaluation.experiment;
        let named = |setting: &'a Setting| Named { name: setting.name(&of.knobs), setting };
        Self {
            transaction: &of.transaction,
            command: &of.command,
            seed: of.seed,
            rounds: of.rounds,
            ended: of.ended.as_deref(),
            knobs: &of.knobs,
            settings: of.settings.iter().map(named).collect(),
            blocks: evaluation.blocks.iter().map(Block::new).collect(),
            effects: evaluation.effects.iter().map(Effect::new).collect(),
        }
    }
}

impl<'a> Block<'a> {
    fn new(looked: &'a Looked) -> Self {
        let measured = looked.measured.as_ref().ok();
        Self {
            number: looked.block.number,
            round: looked.block.round,
            setting: looked.block.setting,
            read: &looked.block.read,
            not_counted: looked.measured.as_ref().err().map(String::as_str),
            transactions: measured.map(|measured| measured.requests),
            p50_ns: measured.map(|measured| measured.p50_ns),
            p99_ns: measured.map(|measured| measured.p99_ns),
            mean_ns: measured.map(|measured| measured.mean_ns),
        }
    }
}

impl<'a> Effect<'a> {
    fn new(effect: &'a evaluate::Effect) -> Self {
        let cause = |(delay, change): &(Delay, evaluate::Change)| Cause {
            cause: causes::delay(delay),
            times: Times::new(change),
        };
        let cpus = |(domain, change): &'a (String, evaluate::Change)| {
            let Shift { estimate: difference, low, high, .. } = change.difference;
            let seen = change.is_seen();
            Cpus { domain, baseline: change.first, with: change.other, difference, low, high, seen }
        };
        let observed = |of: &'a evaluate::Observed| Observed {
            knob: of.knob,
            vm: &of.vm,
            what: of.what,
            baseline: of.first,
            with: of.other,
            holds: of.holds,
            note: of.note.as_deref(),
        };
        Self {
            setting: effect.setting,
            rounds: effect.rounds,
            confidence: effect.p99.difference.confidence,
            p50: Times::new(&effect.p50),
            p99: Times::new(&effect.p99),
            mean: Times::new(&effect.mean),
            causes: effect.causes.iter().map(cause).collect(),
            cpus: effect.cpus.iter().map(cpus).collect(),
            observed: effect.observed.iter().map(observed).collect(),
        }
    }
}

impl Times {
    fn new(change: &evaluate::Change) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a float's conversion saturates")]
        let ns = |of: f64| of.round() as i64;
        let Shift { estimate, low, high, .. } = change.difference;
        Self {
            baseline_ns: ns(change.first),
            with_ns: ns(change.other),
            difference_ns: ns(estimate),
            low_ns: ns(low),
            high_ns: ns(high),
            visible_ns: ns(change.difference.visible()),
            ratio: change.ratio.map(|ratio| ratio.estimate),
            ratio_low: change.ratio.map(|ratio| ratio.low),
            ratio_high: change.ratio.map(|ratio| ratio.high),
            seen: change.is_seen(),
        }
    }
}
