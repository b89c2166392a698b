//! The JSON documents of `xweave cost`.

use std::collections::BTreeMap;

use xweave_document::cost::{
    Cost, CostChange, CostRow, CostRun, CostSpread, EnvironmentFigures, FormCode, Forms, MeasuredEnvironment,
    MeasuredRow, Microarchitecture, PublishedFigure, Text,
};

use crate::comparison::{Comparison, Method, Row};
use crate::environment::Environment;
use crate::error::Error;
use crate::history::Change;
use crate::measured::{Measured, Outcome, Spread};
use crate::microarchitecture::Identified;
use crate::published::{Beside, Figure};
use crate::table::Form;
use crate::{assembly, forms};

/// Everything that one run found out.
pub struct Measurement<'a> {
    /// What was measured.
    pub comparison: &'a Comparison,
    /// What is shown of it.
    pub rows: &'a [Row],
    /// Whose figures.
    pub method: Method,
    /// Where nothing could be measured, and why.
    pub failed: &'a [(Environment, Error)],
    /// This machine's processor.
    pub processor: &'a str,
    /// Its microarchitecture.
    pub identified: &'a Identified,
    /// TSC ticks in a second.
    pub tsc_hz: f64,
    /// Figures beside published ones, where that was asked for.
    pub beside: Option<&'a [Beside<'a>]>,
    /// What changed since the last run, where there is a history.
    pub changes: Option<&'a [Change]>,
}

/// Three digits after the point are more than any figure is sure of.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl Measurement<'_> {
    /// Builds the document, which `docs/cost.md` describes.
    pub fn build(&self) -> Cost {
        let measured = &self.comparison.measured;
        let of = |(at, one)| build_environment(one, measured[self.comparison.base(at)].environment);
        let failed = self.failed.iter().map(|(environment, error)| MeasuredEnvironment {
            name: environment.name().into(),
            measured: None,
            error: Some(error.to_string().into()),
        });
        let identified = self.identified;
        Cost {
            run: CostRun {
                method: self.method.name().into(),
                processor: self.processor.into(),
                microarchitecture: Microarchitecture {
                    name: identified.name.to_string().into(),
                    certainty: identified.certainty.into(),
                    evidence: identified.evidence.as_str().into(),
                },
                tsc_hz: self.tsc_hz.round(),
            },
            environments: measured.iter().enumerate().map(of).chain(failed).collect(),
            rows: self.rows.iter().map(|row| self.build_row(row)).collect(),
            published: self.beside.map(|beside| beside.iter().map(build_published).collect()),
            changes: self.changes.map(|changes| changes.iter().map(build_change).collect()),
        }
    }

    /// Values by the names of the environments that have one.
    fn by_environment<T>(&self, values: impl IntoIterator<Item = Option<T>>) -> BTreeMap<Text, T> {
        let names = self.comparison.measured.iter().map(|one| one.environment.name());
        names.zip(values).filter_map(|(name, value)| Some((name.into(), value?))).collect()
    }

    fn build_row(&self, row: &Row) -> MeasuredRow {
        let form = &forms()[row.form];
        let measured = &self.comparison.measured;
        let numbers =
            |values: &[Option<f64>]| self.by_environment(values.iter().map(|value| value.map(rounded)));
        let texts = |values: &[Option<String>]| {
            self.by_environment(values.iter().map(|value| value.as_deref().map(Text::from)))
        };
        let marked = |marks: &[bool]| {
            let names = measured.iter().map(|one| one.environment.name());
            names.zip(marks).filter(|(_, marked)| **marked).map(|(name, _)| name.into()).collect()
        };
        let spread = |one: &Measured| match one.outcomes.get(&(row.form, row.kind)) {
            Some(Outcome::Cost(spread)) => Some(self.build_spread(spread)),
            _ => None,
        };
        let counted = |one: &Measured| one.counted.get(&row.form).cloned();
        MeasuredRow {
            row: CostRow {
                group: form.group.as_str().into(),
                name: form.name.as_str().into(),
                kind: row.kind.name().into(),
                cycles: numbers(&row.cycles),
                ratio: numbers(&row.ratio),
                unexpected: marked(&row.unexpected),
                impossible: marked(&row.impossible),
                contradicted: marked(&row.contradicted),
                note: texts(&row.instead),
                hypervisor_action: texts(&row.did),
            },
            counted: self.by_environment(measured.iter().map(counted)),
            spread: self.by_environment(measured.iter().map(spread)),
        }
    }

    fn build_spread(&self, of: &Spread) -> CostSpread {
        CostSpread {
            min: rounded(of.min),
            q1: rounded(of.q1),
            median: rounded(of.median),
            q3: rounded(of.q3),
            max: rounded(of.max),
            mean: rounded(of.mean),
            rounds: of.rounds,
            outliers: of.outliers,
            discarded: of.discarded,
            ps: (of.ticks / self.tsc_hz * 1e12).round(),
        }
    }
}

fn build_environment(one: &Measured, base: Environment) -> MeasuredEnvironment {
    let discarded = one.outcomes.values().filter_map(|outcome| match outcome {
        Outcome::Cost(spread) => Some(spread.discarded),
        _ => None,
    });
    let count = |which: fn(&Outcome) -> bool| one.outcomes.values().filter(|outcome| which(outcome)).count();
    let figures = EnvironmentFigures {
        base: base.name().into(),
        how: one.how.as_str().into(),
        emulated: one.emulated,
        ticks_per_cycle: rounded(one.ticks_per_cycle),
        seconds: rounded(one.seconds),
        boots: one.boots.into(),
        abort_reason: one.given_up.as_deref().map(Text::from),
        damaged_lines: one.damaged as u64,
        discarded_rounds: discarded.sum::<u64>(),
        measured: count(|outcome| matches!(outcome, Outcome::Cost(_))),
        faults: count(|outcome| matches!(outcome, Outcome::Fault(_))),
        ended: count(|outcome| matches!(outcome, Outcome::Ended)),
    };
    MeasuredEnvironment { name: one.environment.name().into(), measured: Some(figures), error: None }
}

fn build_change(of: &Change) -> CostChange {
    CostChange { environment: of.environment.clone(), form: of.form.clone(), cycles: of.cycles }
}

fn build_published(beside: &Beside<'_>) -> PublishedFigure {
    let Figure { form, there, .. } = beside.figure;
    PublishedFigure {
        name: form.clone(),
        kind: beside.kind.name(),
        measured: rounded(beside.measured),
        published: beside.published,
        agrees: beside.agrees,
        published_name: there.clone(),
        remark: beside.figure.remark_on(beside.kind),
    }
}

/// Builds the document of the forms with their code, for other tools that estimate what it costs.
pub fn build_forms() -> Forms<'static> {
    let one = |form: &'static Form| {
        let listing = |purpose| assembly::listing(form, purpose);
        FormCode {
            group: &form.group,
            name: &form.name,
            needs: &form.needs,
            setup: &form.setup,
            throughput: listing(assembly::Purpose::Throughput),
            latency: listing(assembly::Purpose::Latency),
            counts: form.counts,
        }
    };
    Forms { forms: forms().iter().map(one).collect() }
}
