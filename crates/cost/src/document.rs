//! The JSON documents of `xweave cost`.

use serde_json::{Map, Value, json};

use crate::comparison::{Comparison, Method, Row};
use crate::environment::Environment;
use crate::error::Error;
use crate::history::Change;
use crate::measured::{Measured, Outcome};
use crate::microarchitecture::Identified;
use crate::published::{Beside, Figure};
use crate::table::Form;
use crate::{assembly, forms};

/// Everything that one run found out.
pub struct Document<'a> {
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

impl Document<'_> {
    /// The document, as `docs/cost.md` describes it.
    pub fn json(&self) -> Value {
        let measured = &self.comparison.measured;
        let of = |(at, one)| environment(one, measured[self.comparison.base(at)].environment);
        let mut environments: Vec<Value> = measured.iter().enumerate().map(of).collect();
        environments.extend(
            self.failed
                .iter()
                .map(|(environment, error)| json!({"name": environment.name(), "error": error.to_string()})),
        );
        let identified = self.identified;
        let mut document = json!({
            "schema": xweave_report::document::SCHEMA,
            "method": self.method,
            "processor": self.processor,
            "microarchitecture": {
                "name": identified.name.to_string(),
                "certainty": identified.certainty,
                "evidence": identified.evidence,
            },
            "tsc_hz": self.tsc_hz.round(),
            "environments": environments,
            "rows": self.rows.iter().map(|row| self.row(row)).collect::<Vec<_>>(),
        });
        if let Some(beside) = self.beside {
            document["published"] = beside.iter().map(figure).collect();
        }
        if let Some(changes) = self.changes {
            document["changes"] = json!(changes);
        }
        document
    }

    fn row(&self, row: &Row) -> Value {
        let form = &forms()[row.form];
        let names = || self.comparison.measured.iter().map(|one| one.environment.name());
        let by_environment = |values: Vec<Option<Value>>| -> Value {
            names()
                .zip(values)
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect::<Map<_, _>>()
                .into()
        };
        let numbers = |values: &[Option<f64>]| {
            by_environment(values.iter().map(|value| value.map(|value| json!(rounded(value)))).collect())
        };
        let spreads =
            self.comparison.measured.iter().map(|one| match one.outcomes.get(&(row.form, row.kind)) {
                Some(Outcome::Cost(spread)) => Some(json!({
                    "min": rounded(spread.min), "q1": rounded(spread.q1), "median": rounded(spread.median),
                    "q3": rounded(spread.q3), "max": rounded(spread.max), "mean": rounded(spread.mean),
                    "rounds": spread.rounds, "outliers": spread.outliers, "discarded": spread.discarded,
                    "ps": (spread.ticks / self.tsc_hz * 1e12).round(),
                })),
                _ => None,
            });
        let marked = |marks: &[bool]| {
            names().zip(marks).filter(|(_, marked)| **marked).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let counted =
            self.comparison.measured.iter().map(|one| one.counted.get(&row.form).map(|one| json!(one)));
        json!({
            "group": form.group,
            "name": form.name,
            "kind": row.kind,
            "cycles": numbers(&row.cycles),
            "ratio": numbers(&row.ratio),
            "unexpected": marked(&row.unexpected),
            "impossible": marked(&row.impossible),
            "note": by_environment(row.instead.iter().map(|one| one.as_ref().map(|one| json!(one))).collect()),
            "hypervisor_action": by_environment(row.did.iter().map(|one| one.as_ref().map(|one| json!(one))).collect()),
            "counted": by_environment(counted.collect()),
            "contradicted": marked(&row.contradicted),
            "spread": by_environment(spreads.collect()),
        })
    }
}

fn environment(one: &Measured, base: Environment) -> Value {
    let discarded = one.outcomes.values().filter_map(|outcome| match outcome {
        Outcome::Cost(spread) => Some(spread.discarded),
        _ => None,
    });
    let count = |which: fn(&Outcome) -> bool| one.outcomes.values().filter(|outcome| which(outcome)).count();
    json!({
        "name": one.environment.name(),
        "base": base.name(),
        "how": one.how,
        "emulated": one.emulated,
        "ticks_per_cycle": rounded(one.ticks_per_cycle),
        "seconds": rounded(one.seconds),
        "boots": one.boots,
        "abort_reason": one.given_up,
        "damaged_lines": one.damaged,
        "discarded_rounds": discarded.sum::<u64>(),
        "measured": count(|outcome| matches!(outcome, Outcome::Cost(_))),
        "faults": count(|outcome| matches!(outcome, Outcome::Fault(_))),
        "ended": count(|outcome| matches!(outcome, Outcome::Ended)),
    })
}

fn figure(beside: &Beside<'_>) -> Value {
    let Figure { form, there, .. } = beside.figure;
    json!({
        "name": form, "kind": beside.kind, "measured": rounded(beside.measured), "published": beside.published,
        "agrees": beside.agrees, "published_name": there,
        "remark": beside.figure.remark_on(beside.kind),
    })
}

/// The forms with their code, for other tools that estimate what it costs.
pub fn catalogue() -> Value {
    let one = |form: &Form| {
        let listing = |purpose| assembly::listing(form, purpose);
        json!({
            "group": form.group, "name": form.name, "needs": form.needs, "setup": form.setup,
            "throughput": listing(assembly::Purpose::Throughput),
            "latency": listing(assembly::Purpose::Latency),
            "counts": form.counts,
        })
    };
    json!({"forms": forms().iter().map(one).collect::<Vec<_>>()})
}
