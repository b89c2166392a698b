//! The documents of `xweave vary DIR` of an experiment, and of `xweave vary --knobs`.

use std::io::{self, Write};

use xweave_document::experiment::{
    CauseEffect, CpuEffect, Effect, EffectTimes, Experiment, ExperimentBlock, HeldKnob, KnobState, Knobs,
    NamedSetting, Observation,
};
use xweave_model::Delay;
use xweave_record::DomainKnobs;
use xweave_vary::experiment::{
    Evaluation, Shift,
    evaluate::{self, Looked},
    stored::{Held, Setting},
};
use xweave_wire::knob;

use super::parts::build_other_services;
use crate::words::causes;

/// Writes the document of an experiment.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, evaluation: &Evaluation) -> io::Result<()> {
    super::write(out, &build(evaluation))
}

/// Writes the document of the knobs that there are.
///
/// # Errors
/// Those of `out`.
pub fn write_knobs(out: &mut impl Write, domains: &[DomainKnobs]) -> io::Result<()> {
    let states = domains.iter().flat_map(|domain| domain.knobs.iter().map(move |state| (domain, state)));
    super::write(out, &Knobs { knobs: states.map(build_state).collect() })
}

fn build_state<'a>((domain, state): (&'a DomainKnobs, &'a knob::State)) -> KnobState<'a> {
    KnobState {
        knob: state.knob.name(),
        domain: &domain.domain,
        vm: state.vm.as_deref(),
        value: &state.value,
        choices: &state.choices,
        available: state.unavailable.is_none(),
        reason: state.unavailable.as_deref(),
    }
}

fn build(evaluation: &Evaluation) -> Experiment<'_> {
    let of = &evaluation.experiment;
    Experiment {
        transaction: evaluation.chosen.spec.to_string(),
        other_services: build_other_services(&evaluation.chosen),
        command: &of.command,
        seed: of.seed,
        rounds: of.rounds,
        ended: of.ended.as_deref(),
        knobs: of.knobs.iter().map(build_held).collect(),
        settings: of.settings.iter().map(|setting| build_setting(setting, &of.knobs)).collect(),
        blocks: evaluation.blocks.iter().map(build_block).collect(),
        effects: evaluation.effects.iter().map(build_effect).collect(),
    }
}

fn build_held(of: &Held) -> HeldKnob<'_> {
    HeldKnob { knob: of.knob.name(), domain: &of.domain, vm: of.vm.as_deref(), now: &of.now }
}

fn build_setting<'a>(of: &'a Setting, knobs: &[Held]) -> NamedSetting<'a> {
    NamedSetting { name: of.name(knobs), values: &of.values }
}

fn build_block(looked: &Looked) -> ExperimentBlock<'_> {
    let measured = looked.measured.as_ref().ok();
    ExperimentBlock {
        number: looked.block.number,
        round: looked.block.round,
        setting: looked.block.setting,
        read: looked.block.read.iter().map(build_held).collect(),
        not_counted: looked.measured.as_ref().err().map(String::as_str),
        transactions: measured.map(|measured| measured.requests),
        p50_ns: measured.map(|measured| measured.p50_ns),
        p99_ns: measured.map(|measured| measured.p99_ns),
        mean_ns: measured.map(|measured| measured.mean_ns),
    }
}

fn build_effect(effect: &evaluate::Effect) -> Effect<'_> {
    let cause = |(delay, change): &(Delay, evaluate::Change)| CauseEffect {
        cause: causes::delay(delay).into(),
        times: build_times(change),
    };
    Effect {
        setting: effect.setting,
        rounds: effect.rounds,
        confidence: effect.p99.difference.confidence,
        p50: build_times(&effect.p50),
        p99: build_times(&effect.p99),
        mean: build_times(&effect.mean),
        causes: effect.causes.iter().map(cause).collect(),
        cpus: effect.cpus.iter().map(build_cpus).collect(),
        observed: effect.observed.iter().map(build_observation).collect(),
    }
}

fn build_cpus((domain, change): &(String, evaluate::Change)) -> CpuEffect<'_> {
    let Shift { estimate: difference, low, high, .. } = change.difference;
    let seen = change.is_seen();
    CpuEffect { domain, baseline: change.first, with: change.other, difference, low, high, seen }
}

fn build_observation(of: &evaluate::Observed) -> Observation<'_> {
    Observation {
        knob: of.knob,
        vm: &of.vm,
        what: of.what,
        baseline: of.first,
        with: of.other,
        holds: of.holds,
        note: of.note.as_deref(),
    }
}

fn build_times(change: &evaluate::Change) -> EffectTimes {
    #[expect(clippy::cast_possible_truncation, reason = "a float's conversion saturates")]
    let ns = |of: f64| of.round() as i64;
    let Shift { estimate, low, high, .. } = change.difference;
    EffectTimes {
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
