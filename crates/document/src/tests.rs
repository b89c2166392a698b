//! What is generated from the structures is what is stored.

mod keys;
mod typescript;

use std::{fs, path::PathBuf};

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;

use crate::{
    compare::Compare,
    contrast::Contrast,
    cost::Cost,
    exchange::Connections,
    experiment::{Experiment, Knobs},
    explain::{Explain, Transaction},
    flows::{AllFlows, Flow, FlowsByValue},
    latency::Latencies,
    machines::Machines,
    merge::{DryRun, Merge, MergeDoctor, MergeStatus, Release},
    page::{CostPage, TracePage},
    vary::Vary,
};

/// Set to write what is generated instead of comparing it.
const WRITE: &str = "XWEAVE_WRITE_DOCUMENTS";

fn in_repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

#[test]
fn types_of_the_page_are_current() {
    let mut generator = generator();
    generator.subschema_for::<TracePage>();
    generator.subschema_for::<CostPage>();
    let made = typescript::module(generator.definitions());
    let path = in_repository("web/src/document.ts");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, made).unwrap();
    } else {
        let stored = fs::read_to_string(&path).unwrap();
        assert!(stored == made, "write it anew: {WRITE}=1 cargo test -p xweave-document; then make page");
    }
}

/// The document of `xweave flows`, which is written one flow after the other.
#[derive(Serialize, JsonSchema)]
struct Flows<'a> {
    #[serde(flatten)]
    all: AllFlows,
    /// Flows. They are written first, as the trace is read.
    flows: Vec<Flow<'a>>,
}

/// The document of `xweave explain`, which is written one transaction after the other.
#[derive(Serialize, JsonSchema)]
struct Explained {
    /// Kind of the transactions, as `--transaction` takes it.
    transaction: String,
    /// Transactions in the order in which they are found.
    transactions: Vec<Transaction>,
    #[serde(flatten)]
    all: Explain,
    /// What the machines did: the document of `--machines`. Only of a trace without flows and requests, if no kind was asked for;
    /// the transactions are processes there.
    #[serde(skip_serializing_if = "Option::is_none")]
    machines: Option<Machines>,
}

/// The table of a document's keys.
fn table<T: JsonSchema>() -> String {
    let mut generator = generator();
    let reference = generator.subschema_for::<T>();
    let name = reference.as_value()["$ref"].as_str().unwrap().trim_start_matches("#/$defs/").to_owned();
    let definitions = generator.definitions();
    keys::table(&definitions[&name], definitions)
}

#[test]
fn tables_of_keys_in_the_documents_are_current() {
    const END: &str = "\n<!-- end -->";
    let tables = [
        ("trace-format.md", "flows", table::<Flows<'_>>()),
        ("trace-format.md", "flows --by connection", table::<Connections<'_>>()),
        ("trace-format.md", "flows --by VALUE", table::<FlowsByValue<'_>>()),
        ("explain.md", "explain", table::<Explained>()),
        ("explain.md", "explain --machines", table::<Machines>()),
        ("compare.md", "compare", table::<Compare>()),
        ("compare.md", "compare --transaction", table::<Contrast>()),
        ("vary.md", "vary", table::<Vary>()),
        ("vary.md", "vary of an experiment", table::<Experiment<'_>>()),
        ("vary.md", "vary --knobs", table::<Knobs<'_>>()),
        ("latency.md", "latency", table::<Latencies>()),
        ("merge.md", "merge --dry-run", table::<DryRun<'_>>()),
        ("merge.md", "merge", table::<Merge<'_>>()),
        ("merge.md", "merge status", table::<MergeStatus<'_>>()),
        ("merge.md", "merge release", table::<Release<'_>>()),
        ("merge.md", "merge doctor", table::<MergeDoctor<'_>>()),
        ("cost.md", "cost", table::<Cost>()),
    ];
    for (file, name, made) in tables {
        let path = in_repository("docs").join(file);
        let text = fs::read_to_string(&path).unwrap();
        let mark = format!("<!-- keys of {name}, from crates/document -->\n\n");
        let begin = text.find(&mark).unwrap_or_else(|| panic!("{file} has no {mark:?}")) + mark.len();
        let end = begin + text[begin..].find(END).unwrap();
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, format!("{}{made}{}", &text[..begin], &text[end..])).unwrap();
        } else {
            let message = format!("{file}: write it anew: {WRITE}=1 cargo test -p xweave-document");
            assert!(text[begin..end] == made, "{message}");
        }
    }
}
