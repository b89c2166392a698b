//! The page of what instructions cost: of a document of `xweave cost --json`, which anybody may have written. What is not as
//! that command writes it is refused, what is too much is left out, and texts are cut short.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, Read},
};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::bounded::cut;
use crate::{document::SCHEMA, number::median};

/// How large a document may be, in bytes: all forms in four environments take a tenth of it.
const LARGEST: u64 = 32 << 20;

/// What there is at most of each, and in how many bytes.
const ENVIRONMENTS: usize = 16;
const GROUPS: usize = 256;
const ROWS: usize = 8_000;
const LIST: usize = 256 << 10;
const ROWS_BYTES: usize = 4 << 20;

/// Signs of a text.
const TEXT: usize = 300;

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

/// A text, as far as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(String::deserialize(deserializer)?.chars().take(TEXT).collect()))
    }
}

/// What `docs/cost.md` describes, as far as it is shown.
#[derive(Deserialize)]
struct Given {
    schema: u32,
    method: Text,
    processor: Text,
    microarchitecture: Microarchitecture,
    tsc_hz: f64,
    environments: Vec<Environment>,
    rows: Vec<Row>,
}

#[derive(Deserialize, Serialize)]
struct Microarchitecture {
    name: Text,
    certainty: Text,
}

/// One that was measured, or one that could not be and why.
#[derive(Deserialize, Serialize)]
struct Environment {
    name: Text,
    base: Option<Text>,
    how: Option<Text>,
    #[serde(default)]
    emulated: bool,
    abort_reason: Option<Text>,
    error: Option<Text>,
}

/// A form's figures of a kind, by environment.
#[derive(Deserialize, Serialize)]
struct Row {
    group: Text,
    name: Text,
    kind: Text,
    cycles: BTreeMap<Text, f64>,
    ratio: BTreeMap<Text, f64>,
    #[serde(default)]
    unexpected: Vec<Text>,
    #[serde(default)]
    impossible: Vec<Text>,
    #[serde(default)]
    contradicted: Vec<Text>,
    #[serde(default)]
    note: BTreeMap<Text, Text>,
    #[serde(default)]
    hypervisor_action: BTreeMap<Text, Text>,
}

impl Row {
    /// Without what is said of other environments than these.
    fn keep(&mut self, environments: &[Environment]) {
        let known = |name: &Text| environments.iter().any(|one| one.name == *name);
        [&mut self.cycles, &mut self.ratio].into_iter().for_each(|of| of.retain(|name, _| known(name)));
        [&mut self.note, &mut self.hypervisor_action]
            .into_iter()
            .for_each(|of| of.retain(|name, _| known(name)));
        for marks in [&mut self.unexpected, &mut self.impossible, &mut self.contradicted] {
            marks.retain(known);
            marks.dedup();
            marks.truncate(ENVIRONMENTS);
        }
    }

    fn is_marked(&self) -> bool {
        [&self.unexpected, &self.impossible, &self.contradicted].into_iter().any(|marks| !marks.is_empty())
    }
}

/// The medians of a group's figures of a kind, without the impossible ones: as the command's table begins with them.
#[derive(Serialize)]
struct Group<'a> {
    group: &'a Text,
    kind: &'a Text,
    figures: usize,
    marked: usize,
    cycles: BTreeMap<&'a Text, f64>,
    ratio: BTreeMap<&'a Text, f64>,
}

impl<'a> Group<'a> {
    fn new(rows: &[&'a Row], environments: &'a [Environment]) -> Option<Self> {
        let Row { group, kind, .. } = rows.first()?;
        let medians = |of: fn(&Row) -> &BTreeMap<Text, f64>| {
            let of_one = |name: &Text| {
                let possible = rows.iter().filter(|row| !row.impossible.contains(name));
                median(possible.filter_map(|row| of(row).get(name).copied()).collect())
            };
            environments.iter().filter_map(|one| Some((&one.name, of_one(&one.name)?))).collect()
        };
        Some(Self {
            group,
            kind,
            figures: rows.len(),
            marked: rows.iter().filter(|row| row.is_marked()).count(),
            cycles: medians(|row| &row.cycles),
            ratio: medians(|row| &row.ratio),
        })
    }

    /// All, each group's kinds one after the other.
    fn all(rows: &'a [Row], environments: &'a [Environment]) -> Vec<Self> {
        let mut order: BTreeMap<&Text, usize> = BTreeMap::new();
        let mut by_kind: BTreeMap<(usize, usize), Vec<&Row>> = BTreeMap::new();
        let mut kinds: BTreeMap<(&Text, &Text), usize> = BTreeMap::new();
        for row in rows {
            let next = (order.len(), kinds.len());
            let of = *order.entry(&row.group).or_insert(next.0);
            let kind = *kinds.entry((&row.group, &row.kind)).or_insert(next.1);
            by_kind.entry((of, kind)).or_default().push(row);
        }
        by_kind.values().filter_map(|rows| Group::new(rows, environments)).collect()
    }
}

/// The document of the page.
///
/// # Errors
/// It is not what the command writes.
pub fn document(given: impl Read, title: &str) -> Result<Value, CostError> {
    let mut bytes = Vec::new();
    given.take(LARGEST + 1).read_to_end(&mut bytes).map_err(CostError::Unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(CostError::TooLarge);
    }
    let mut given: Given = serde_json::from_slice(&bytes).map_err(CostError::Other)?;
    if given.schema != SCHEMA {
        return Err(CostError::Schema(given.schema));
    }
    let environments = cut(&given.environments, ENVIRONMENTS, LIST);
    given.environments.truncate(ENVIRONMENTS);
    given.rows.iter_mut().for_each(|row| row.keep(&given.environments));
    let count = |which: fn(&Row) -> bool| given.rows.iter().filter(|row| which(row)).count();
    Ok(json!({
        "schema": SCHEMA,
        "title": title,
        "xweave": env!("CARGO_PKG_VERSION"),
        "cost": {
            "method": given.method,
            "processor": given.processor,
            "microarchitecture": given.microarchitecture,
            "tsc_hz": given.tsc_hz,
            "environments": environments,
            "impossible": count(|row| !row.impossible.is_empty()),
            "marked": count(|row| row.is_marked() && row.impossible.is_empty()),
            "groups": cut(&Group::all(&given.rows, &given.environments), GROUPS, LIST),
            "rows": cut(&given.rows, ROWS, ROWS_BYTES),
        },
    }))
}

#[cfg(test)]
mod tests {
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
        document(given.to_string().as_bytes(), "cost")
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
        assert!(matches!(document(io::repeat(b' '), "endless"), Err(CostError::TooLarge)));
        let nested = "[".repeat(100_000);
        assert!(matches!(document(nested.as_bytes(), "deep"), Err(CostError::Other(_))));

        let long = "<".repeat(2_000);
        let many: Vec<Value> =
            (0..9_000).map(|nth| row(&format!("{nth}{long}"), &long, [1.0, 1.0], &[])).collect();
        // As large as it may be, and no more.
        let told = told(&given(json!(many[..3_000]))).unwrap();
        assert_eq!(told["cost"]["rows"]["of"], 3_000);
        assert!(super::super::html("cost", &told).len() < 10_000_000);
        assert!(told["cost"]["rows"]["all"][0]["name"].as_str().unwrap().len() == TEXT);
        assert!(matches!(
            document(given(json!(many)).to_string().as_bytes(), "too large"),
            Err(CostError::TooLarge)
        ));
    }
}
