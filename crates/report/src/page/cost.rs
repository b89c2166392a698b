//! The page of what instructions cost: of a document of `xweave cost --json`, which anybody may have written. What is not as
//! that command writes it is refused, what is too much is left out, and texts are cut short.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read},
};

use serde::Deserialize;
use xweave_document::{
    SCHEMA,
    cost::{CostRow, CostRun, Figures, Microarchitecture, Text},
    page::{
        CostPage, PageHeading,
        cost::{CostEnvironment, CostGroup, PageCost},
    },
};

use super::bounded::cut;
use crate::number::median;

/// How large a document may be, in bytes: all forms in four environments take a tenth of it.
const LARGEST: u64 = 32 << 20;

/// What there is at most of each, and in how many bytes.
const ENVIRONMENTS: usize = 16;
const GROUPS: usize = 256;
const ROWS: usize = 8_000;
const LIST: usize = 256 << 10;
const ROWS_BYTES: usize = 4 << 20;

/// Why a document is not shown.
#[derive(Debug)]
pub enum CostError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It is larger than any that the command writes.
    TooLarge,
    /// It is none of `xweave cost --json`.
    Other(serde_json::Error),
    /// It has another schema.
    Schema(u32),
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::TooLarge => write!(f, "is larger than {} MiB", LARGEST >> 20),
            Self::Other(error) => {
                write!(
                    f,
                    "is no document of xweave cost --json: {}",
                    xweave_text::printable(&error.to_string())
                )
            }
            Self::Schema(schema) => write!(f, "has schema {schema}, and this xweave reads {SCHEMA}"),
        }
    }
}

/// A document of the command, as far as it is shown.
#[derive(Deserialize)]
struct Given {
    schema: u32,
    method: Text,
    processor: Text,
    microarchitecture: Microarchitecture,
    tsc_hz: f64,
    environments: Vec<CostEnvironment>,
    rows: Vec<CostRow>,
}

/// Removes what a row has of other environments than these.
fn keep_known(row: &mut CostRow, environments: &[CostEnvironment]) {
    let known = |name: &Text| environments.iter().any(|one| one.name == *name);
    [&mut row.cycles, &mut row.ratio].into_iter().for_each(|of| of.retain(|name, _| known(name)));
    [&mut row.note, &mut row.hypervisor_action].into_iter().for_each(|of| of.retain(|name, _| known(name)));
    for marks in [&mut row.unexpected, &mut row.impossible, &mut row.contradicted] {
        marks.retain(known);
        marks.dedup();
        marks.truncate(ENVIRONMENTS);
    }
}

fn is_marked(row: &CostRow) -> bool {
    [&row.unexpected, &row.impossible, &row.contradicted].into_iter().any(|marks| !marks.is_empty())
}

/// Builds the group of these rows, as the command's table begins with: medians without the impossible figures.
fn build_group(rows: &[&CostRow], environments: &[CostEnvironment]) -> Option<CostGroup> {
    let CostRow { group, kind, .. } = rows.first()?;
    let medians = |of: fn(&CostRow) -> &Figures| {
        let of_one = |name: &Text| {
            let possible = rows.iter().filter(|row| !row.impossible.contains(name));
            median(possible.filter_map(|row| of(row).get(name).copied()).collect())
        };
        environments.iter().filter_map(|one| Some((one.name.clone(), of_one(&one.name)?))).collect()
    };
    Some(CostGroup {
        group: group.clone(),
        kind: kind.clone(),
        figures: rows.len(),
        marked: rows.iter().filter(|row| is_marked(row)).count(),
        cycles: medians(|row| &row.cycles),
        ratio: medians(|row| &row.ratio),
    })
}

/// Builds all groups, each one's kinds one after the other.
fn build_groups(rows: &[CostRow], environments: &[CostEnvironment]) -> Vec<CostGroup> {
    let mut order: BTreeMap<&Text, usize> = BTreeMap::new();
    let mut by_kind: BTreeMap<(usize, usize), Vec<&CostRow>> = BTreeMap::new();
    let mut kinds: BTreeMap<(&Text, &Text), usize> = BTreeMap::new();
    for row in rows {
        let next = (order.len(), kinds.len());
        let of = *order.entry(&row.group).or_insert(next.0);
        let kind = *kinds.entry((&row.group, &row.kind)).or_insert(next.1);
        by_kind.entry((of, kind)).or_default().push(row);
    }
    by_kind.values().filter_map(|rows| build_group(rows, environments)).collect()
}

/// Builds the document of the page.
///
/// # Errors
/// It is not what the command writes.
pub fn build(given: impl Read, title: &str) -> Result<CostPage, CostError> {
    let mut bytes = Vec::new();
    given.take(LARGEST + 1).read_to_end(&mut bytes).map_err(CostError::Unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(CostError::TooLarge);
    }
    let given: Given = serde_json::from_slice(&bytes).map_err(CostError::Other)?;
    if given.schema != SCHEMA {
        return Err(CostError::Schema(given.schema));
    }
    let Given { method, processor, microarchitecture, tsc_hz, environments, mut rows, .. } = given;
    let known = &environments[..environments.len().min(ENVIRONMENTS)];
    rows.iter_mut().for_each(|row| keep_known(row, known));
    let count = |which: fn(&CostRow) -> bool| rows.iter().filter(|row| which(row)).count();
    let cost = PageCost {
        run: CostRun { method, processor, microarchitecture, tsc_hz },
        impossible: count(|row| !row.impossible.is_empty()),
        marked: count(|row| is_marked(row) && row.impossible.is_empty()),
        groups: cut(build_groups(&rows, known), GROUPS, LIST),
        environments: cut(environments, ENVIRONMENTS, LIST),
        rows: cut(rows, ROWS, ROWS_BYTES),
    };
    Ok(CostPage { heading: PageHeading::new(title), cost })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use xweave_document::cost::TEXT;

    use super::*;

    fn given(rows: Value) -> Value {
        json!({
            "schema": 2, "method": "sound", "processor": "a CPU", "tsc_hz": 2e9,
            "microarchitecture": { "name": "Zen 4", "certainty": "certain", "evidence": "family 25" },
            "environments": [
                { "name": "native", "base": "native", "how": "a process", "emulated": false, "abort_reason": null },
                { "name": "tcg", "base": "native", "how": "QEMU", "emulated": true, "abort_reason": null },
                { "name": "kvm", "error": "no /dev/kvm" },
            ],
            "rows": rows,
        })
    }

    fn row(name: &str, kind: &str, cycles: [f64; 2], impossible: &[&str]) -> Value {
        json!({
            "group": "logic", "name": name, "kind": kind, "cycles": { "native": cycles[0], "tcg": cycles[1], "else": 1.0 },
            "ratio": { "tcg": cycles[1] / cycles[0] }, "unexpected": [], "impossible": impossible,
        })
    }

    fn told(given: &Value) -> Result<Value, CostError> {
        build(given.to_string().as_bytes(), "cost").map(|page| json!(page))
    }

    #[test]
    fn groups_have_the_medians_of_what_is_possible() {
        let rows = json!([
            row("and", "latency", [1.0, 2.0], &[]),
            row("and", "throughput", [0.25, 3.0], &[]),
            row("or", "latency", [1.5, 3.0], &[]),
            row("not", "latency", [1.25, 0.01], &["tcg", "tcg"]),
        ]);
        let told = told(&given(rows)).unwrap();
        let cost = &told["cost"];
        assert_eq!(
            (&cost["impossible"], &cost["marked"], &cost["rows"]["of"]),
            (&json!(1), &json!(0), &json!(4))
        );
        let expected = json!([
            { "group": "logic", "kind": "latency", "figures": 3, "marked": 1,
              "cycles": { "native": 1.25, "tcg": 3.0 }, "ratio": { "tcg": 2.0 } },
            { "group": "logic", "kind": "throughput", "figures": 1, "marked": 0,
              "cycles": { "native": 0.25, "tcg": 3.0 }, "ratio": { "tcg": 12.0 } },
        ]);
        assert_eq!(cost["groups"]["all"], expected);
        assert_eq!(cost["rows"]["all"][3]["impossible"], json!(["tcg"]));
        assert_eq!(cost["rows"]["all"][0]["cycles"], json!({ "native": 1.0, "tcg": 2.0 }));
        assert_eq!(cost["environments"]["all"][2]["error"], "no /dev/kvm");
    }

    #[test]
    fn what_the_command_does_not_write_is_refused_and_what_is_too_much_left_out() {
        assert!(matches!(told(&json!({ "transactions": [] })), Err(CostError::Other(_))));
        assert!(matches!(told(&given(json!([{ "name": 7 }]))), Err(CostError::Other(_))));
        let mut other = given(json!([]));
        other["schema"] = json!(3);
        assert!(matches!(told(&other), Err(CostError::Schema(3))));
        assert!(matches!(build(io::repeat(b' '), "endless"), Err(CostError::TooLarge)));
        let nested = "[".repeat(100_000);
        assert!(matches!(build(nested.as_bytes(), "deep"), Err(CostError::Other(_))));

        let long = "<".repeat(2_000);
        let many: Vec<Value> =
            (0..9_000).map(|nth| row(&format!("{nth}{long}"), &long, [1.0, 1.0], &[])).collect();
        // As large as it may be, and no more.
        let told = told(&given(json!(many[..3_000]))).unwrap();
        assert_eq!(told["cost"]["rows"]["of"], 3_000);
        assert!(super::super::html("cost", &told).len() < 10_000_000);
        assert!(told["cost"]["rows"]["all"][0]["name"].as_str().unwrap().len() == TEXT);
        assert!(matches!(
            build(given(json!(many)).to_string().as_bytes(), "too large"),
            Err(CostError::TooLarge)
        ));
    }
}
